"""Precisions of Gaussians → roots that keep their digits, exact sums, and what rounding leaves of draws."""
