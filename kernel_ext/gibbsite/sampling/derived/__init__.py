"""Draws → what they say: marginals, intervals, priors beside them, and quantities derived from them."""
