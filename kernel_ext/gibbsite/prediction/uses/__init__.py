"""Predictions → what one wants them for: contrasts, effects, decisions, comparisons of models."""
