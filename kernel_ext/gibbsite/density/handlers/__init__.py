"""Handlers of NumPyro's that a model is run under: values that are given, names in scopes, parameters."""
