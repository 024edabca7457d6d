"""`Density` → statements and expressions as a person would have written them."""
