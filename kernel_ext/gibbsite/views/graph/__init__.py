"""A dependency graph → widget and picture."""
