"""`Conditional`s and densities → MCMC kernels, and the `Schedule` that composes them."""
