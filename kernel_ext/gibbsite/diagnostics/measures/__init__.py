"""Draws, as they come → running moments, convergence measures, ranks, and what plots of them need."""
