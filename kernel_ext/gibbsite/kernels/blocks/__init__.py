"""Conditionals and log densities → kernels: one file each."""
