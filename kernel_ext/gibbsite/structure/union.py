"""The graphs of some structures → one, where what is asked for points at what it decides."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.graph import DependencyGraph
from gibbsite.graph.listing import Node, PlateBox
from gibbsite.structure.straight import Straight


def union_graph(known: Sequence[Straight]) -> DependencyGraph:
    """All sites of the structures with all their edges. Decisions are latents; from each goes an edge to what
    is there, or as large, for some of its values only: a gate (Minka and Winn 2008, "Gates")."""
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str], None] = {}
    plates: dict[str, PlateBox] = {}
    decisions = list(dict.fromkeys(n for s in known for n, _ in s.way))
    for s in known:
        if s.model is None:
            continue
        graph = s.model.graph
        for node in graph.nodes.values():
            nodes[node.name] = _joined(nodes.get(node.name), _as_decided(node, decisions))
        edges |= dict.fromkeys(graph.edges)
        for plate in graph.plates.values():
            if plate.name not in plates or plates[plate.name].size < plate.size:
                plates[plate.name] = plate
    for name in decisions:
        nodes.setdefault(name, Node(name, "latent", (), "int32", True))
    shapes = [_shapes(s) for s in known]
    for name in decisions:
        for site in nodes:
            if site not in decisions and _decides(name, site, known, shapes):
                edges[name, site] = None
        for later in decisions[decisions.index(name) + 1 :]:
            if any(name in dict(s.way) and later not in dict(s.way) for s in known):
                edges[name, later] = None
    acyclic = [(a, b) for a, b in edges if a in nodes and b in nodes]
    return DependencyGraph(nodes.values(), acyclic, plates.values())


def _as_decided(node: Node, decisions: Sequence[str]) -> Node:
    return replace(node, kind="latent") if node.name in decisions else node


def _joined(before: Node | None, node: Node) -> Node:
    return node if before is None or np.prod(before.shape) < np.prod(node.shape) else before


def _shapes(s: Straight) -> dict[str, Any]:
    drawn = {n: p.shape for n, p in s.places.items()}
    rest = {} if s.model is None else {n: site.shape for n, site in s.model.sites.items()}
    return {**rest, **drawn}


def _decides(name: str, site: str, known: Sequence[Straight], shapes: Sequence[dict[str, Any]]) -> bool:
    """Whether two structures that differ in this decision first differ in the site, too."""
    for i, a in enumerate(known):
        for j in range(i):
            b = known[j]
            first = next((x[0] for x, y in zip(a.way, b.way, strict=False) if x != y), None)
            if first == name and shapes[i].get(site) != shapes[j].get(site):
                return True
    return False
