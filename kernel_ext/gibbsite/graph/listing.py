"""A dependency graph in words: as numbered lines, in the notation of AutoGibbs (Gabler 2020, thesis §4.1), or
as one line."""

from collections import Counter
from typing import Any

import networkx as nx

_MOST_WORDS = 160
_SIGNS = {"latent": "~", "observed": "⩪", "deterministic": "=", "factor": "="}


def listing(graph: Any) -> str:
    """One line per node in dependency order: `⟨3⟩ = z[n] ~ Categorical(w)   (⟨1⟩)  [plate n: 150]`."""
    place = {n: i for i, n in enumerate(graph.nodes)}
    directed = nx.DiGraph()
    directed.add_nodes_from(graph.nodes)
    directed.add_edges_from((a, b) for a, b in graph.edges if a != b)
    order = list(nx.lexicographical_topological_sort(directed, key=place.__getitem__))
    number = {n: f"⟨{i}⟩" for i, n in enumerate(order, 1)}
    lines = []
    for name in order:
        node = graph.nodes[name]
        shape = f"[{', '.join(map(str, node.shape))}]" if node.shape else ""
        if node.kind == "data":
            text = f"{number[name]} = {name}{shape} (data{f': {node.elements}' if node.elements else ''})"
        else:
            sign = _SIGNS[node.kind]
            text = f"{number[name]} = {name}{shape} {sign} {node.distribution or node.kind}"
        reads = " ".join(number[p] for p in graph.parents(name))
        if reads:
            text += f"   ← {reads}"
        if node.plates:
            text += "   in " + ", ".join(node.plates)
        lines.append(text)
    return "\n".join(lines)


def summary(graph: Any) -> str:
    """How many nodes of which kind there are: `4 nodes (3 latent, 1 observed) and 3 edges`."""
    counts = Counter(node.kind for node in graph.nodes.values())
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    return f"{_number(len(graph.nodes), 'node')} ({kinds}) and {_number(len(graph.edges), 'edge')}"


def _number(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def brief(graph: Any) -> str:
    """The graph in one line: `Dependency graph: 4 nodes (…) and 3 edges: w → z; mu, z → x`."""
    if not graph.nodes:
        return "Dependency graph without nodes"
    parts = []
    for name in graph.nodes:
        parents = graph.parents(name)
        if parents:
            parts.append(f"{', '.join(parents)} → {name}")
        elif not graph.children(name):
            parts.append(name)
    line = " ".join(f"Dependency graph: {summary(graph)}: {'; '.join(parts)}".split())
    if len(line) <= _MOST_WORDS:
        return line
    return line[: line.rindex(" ", 0, _MOST_WORDS)].rstrip(";,→ ") + " …"
