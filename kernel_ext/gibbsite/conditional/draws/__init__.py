"""Parameters → exact variates of distributions that JAX or NumPyro lack or draw badly."""
