"""A model and a line of text → a `Schedule` with its reasons, and the plan of a compiled run."""
