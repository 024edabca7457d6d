"""Draws of chains → the mass of the modes that they are in: bounds, estimates, and which chains share one."""
