"""Draws → what they are worth: convergence, modes, likelihoods of the data, a verdict and cures."""
