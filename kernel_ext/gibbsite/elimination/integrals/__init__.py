"""Continuous sites with exact conditionals → messages: a place, its log probability there, and the way
back."""
