"""An element of an array → the expression that a person would have written for it."""
