"""Draws as they come → what a person watching sees: measures, notices, targets."""
