"""A quadratic log density → precision and mean, drawn jointly; chains in linear time."""
