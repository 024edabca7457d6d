"""Draws in memory and on disk: stores, checkpoints, the tree that ArviZ reads."""
