"""A graph → places and shapes, for any way of drawing: Bokeh, SVG, Dot."""

from gibbsite.graph.drawing.shapes import Drawing, draw

__all__ = ["Drawing", "draw"]
