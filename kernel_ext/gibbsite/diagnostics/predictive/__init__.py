"""Draws of a run → what follows from them: new data, likelihoods, probabilities."""
