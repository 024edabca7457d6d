"""Certified statistics → a family that is drawn exactly."""
