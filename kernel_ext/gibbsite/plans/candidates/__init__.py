"""A model → candidates for its schedule, what they promise, and the one that is run."""
