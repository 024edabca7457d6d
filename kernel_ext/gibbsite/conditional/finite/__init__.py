"""A discrete site → tables over its support, element by element, colour by colour, or by running sums."""
