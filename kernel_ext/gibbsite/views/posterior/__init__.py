"""A run → its posterior in a page and as a picture."""
