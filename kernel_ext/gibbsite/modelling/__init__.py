"""A NumPyro function and its arguments → what there is to know of it, and the forms in which it is run."""
