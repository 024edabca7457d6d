"""Bokeh layouts in a notebook: assets, widgets, wire, and what is left without a kernel."""
