"""Distributions that NumPyro does not ship → whether what they draw follows what they say of its density."""
