"""An overview of a graph: indexed sites as one node each, chains of deterministic values as one node."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from gibbsite.graph.model_graph import DependencyGraph

SMALLEST_GROUP = 3


def folded(graph: "DependencyGraph") -> tuple["DependencyGraph", dict[str, tuple[str, ...]]]:
    """The folded graph, and for each of its merged nodes the names it stands for.

    A group of at least three indexed sites `s[0]`, `s[1]`, … of one kind becomes the node `s`, unless that
    would close a circle. Then every deterministic node whose only reader is another deterministic node is
    merged into that reader; since nothing else reads it, paths and Markov blankets stay what they are.
    """
    members: dict[str, tuple[str, ...]] = {}
    for group, names in graph.groups.items():
        if len(names) < SMALLEST_GROUP or group in graph.nodes or not _alike(graph, names):
            continue
        trial = {**members, group: names}
        if _acyclic(graph, trial):
            members = trial
    merged = _merged(graph, members)
    chains = _chains(merged)
    if chains:
        merged = _merged(merged, {last: (*inner, last) for last, inner in chains.items()})
        members.update({last: (*inner, last) for last, inner in chains.items()})
    return merged, members


def _alike(graph: "DependencyGraph", names: Sequence[str]) -> bool:
    nodes = [graph.nodes[n] for n in names if n in graph.nodes]
    return len(nodes) == len(names) and len({(n.kind, n.discrete, n.shape, n.plates) for n in nodes}) == 1


def _owners(members: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {n: owner for owner, names in members.items() for n in names}


def _acyclic(graph: "DependencyGraph", members: Mapping[str, Sequence[str]]) -> bool:
    own = _owners(members)
    pairs = [(own.get(a, a), own.get(b, b)) for a, b in graph.edges]
    return nx.is_directed_acyclic_graph(nx.DiGraph([(a, b) for a, b in pairs if a != b]))


def _chains(graph: "DependencyGraph") -> dict[str, tuple[str, ...]]:
    """Per last node of a chain, the deterministic nodes that only it reads, in program order."""

    def last(name: str) -> str:
        readers = graph.children(name)
        fits = len(readers) == 1 and graph.nodes[readers[0]].kind == "deterministic"
        return last(readers[0]) if fits else name

    out: dict[str, tuple[str, ...]] = {}
    for name, node in graph.nodes.items():
        if node.kind == "deterministic" and (end := last(name)) != name:
            out[end] = (*out.get(end, ()), name)
    return out


def _merged(graph: "DependencyGraph", members: Mapping[str, Sequence[str]]) -> "DependencyGraph":
    from dataclasses import replace

    from gibbsite.graph.model_graph import DependencyGraph

    own = _owners(members)
    nodes = {}
    for name, node in graph.nodes.items():
        owner = own.get(name, name)
        if owner == name:
            nodes[name] = node
            if name in members:  # the end of a chain
                nodes[name] = replace(node, distribution=f"⋯ {node.distribution}")
        elif owner not in nodes and owner not in graph.nodes:
            names = members[owner]
            inner = any(a in names and b in names for a, b in graph.edges)
            typical = graph.nodes[names[1]]
            text = f"{names[1]} ~ {typical.distribution}, …"
            nodes[owner] = replace(
                typical,
                name=owner,
                shape=(len(names), *typical.shape),
                distribution=text,
                recurrent=inner or typical.recurrent,
            )
    edges = [(own.get(a, a), own.get(b, b)) for a, b in graph.edges]
    keep = [(a, b) for a, b in edges if a != b]
    groups = {g: ns for g, ns in graph.groups.items() if all(n in nodes for n in ns)}
    return DependencyGraph(nodes.values(), keep, graph.plates.values(), groups)
