"""A density and its data → what cannot be about them (a probability of 3, a count of 2.5), each in words."""
