"""`Density` → `DependencyGraph`: plates, Markov blankets, levels, independence queries."""

from gibbsite.graph.build import dependency_graph
from gibbsite.graph.elements import Independence, element_blanket, element_text, plain_name
from gibbsite.graph.listing import Node, PlateBox
from gibbsite.graph.model_graph import DependencyGraph

__all__ = [
    "DependencyGraph",
    "Independence",
    "Node",
    "PlateBox",
    "dependency_graph",
    "element_blanket",
    "element_text",
    "plain_name",
]
