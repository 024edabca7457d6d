"""A NumPyro model, run once under handlers → its sites as facts, its density as a function of values."""
