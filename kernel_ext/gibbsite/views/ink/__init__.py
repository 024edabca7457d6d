"""Colours and SVG primitives that all pictures share."""
