"""A dependency graph as numbered lines, in the notation of AutoGibbs (Gabler 2020, thesis §4.1)."""

from typing import Any

_SIGNS = {"latent": "~", "observed": "⩪", "deterministic": "=", "factor": "="}


def listing(graph: Any) -> str:
    """One line per node in dependency order: `⟨3⟩ = z[n] ~ Categorical(w)   (⟨1⟩)  [plate n: 150]`."""
    import networkx as nx

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
            text = f"{number[name]} = {name}{shape} (data)"
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
