"""An overview of a graph: indexed sites as one node each, chains of deterministic values as one node."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gibbsite.ground.lazy_import import later

nx = later("networkx")


if TYPE_CHECKING:
    from gibbsite.graph.model_graph import DependencyGraph

SMALLEST_GROUP = 3
_NUMBERED = re.compile(r"(.*?\D)[_.]?(\d+)$")


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


def overview(graph: "DependencyGraph") -> tuple["DependencyGraph", dict[str, tuple[str, ...]]]:
    """The folded graph with more merged: sites that differ by a number, then a plate's sites of one kind.

    A merge that would close a circle is left out, so that the result is a graph of vectors whose density
    factorises along it: its independences hold for the vectors.
    """
    merged, members = folded(graph)
    for family in (_stem, _in_plate):
        groups: dict[tuple, list[str]] = {}
        for name, node in merged.nodes.items():
            key = family(name, node.plates)
            if key is not None and node.kind in ("latent", "observed", "deterministic"):
                groups.setdefault((key, node.kind, node.discrete, node.plates), []).append(name)
        chosen: dict[str, tuple[str, ...]] = {}
        for (key, *_), names in groups.items():
            title = _title(key, names, {*merged.nodes, *chosen})
            if len(names) >= SMALLEST_GROUP and _acyclic(merged, trial := {**chosen, title: tuple(names)}):
                chosen = trial
        if chosen:
            merged = _merged(merged, chosen)
            members |= {t: tuple(m for n in ns for m in members.get(n, (n,))) for t, ns in chosen.items()}
    return merged, {n: m for n, m in members.items() if n in merged.nodes}


def _stem(name: str, _: tuple[str, ...]) -> str | None:
    found = _NUMBERED.match(name)
    return found[1].rstrip("_.") if found else None


def _in_plate(_: str, plates: tuple[str, ...]) -> str | None:
    return ", ".join(plates) or None


def _title(key: str, names: Sequence[str], taken: Collection[str]) -> str:
    """A name for a merged node that no other node has."""
    wish = f"{key}*" if all(n.startswith(key) for n in names) else f"{names[0]} … {names[-1]}"
    while wish in taken:
        wish += "′"
    return wish


def _alike(graph: "DependencyGraph", names: Sequence[str]) -> bool:
    nodes = [graph.nodes[n] for n in names if n in graph.nodes]
    return len(nodes) == len(names) and len({(n.kind, n.discrete, n.shape, n.plates) for n in nodes}) == 1


def _owners(members: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {n: owner for owner, names in members.items() for n in names}


def _acyclic(graph: "DependencyGraph", members: Mapping[str, Sequence[str]]) -> bool:
    return nx.is_directed_acyclic_graph(nx.DiGraph(merged_edges(graph, _owners(members))))


def merged_edges(graph: "DependencyGraph", own: Mapping[str, str]) -> list[tuple[str, str]]:
    """The edges once each node is the one that `own` names, without loops."""
    return [(x, y) for a, b in graph.edges if (x := own.get(a, a)) != (y := own.get(b, b))]


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
            own_names = set(names)
            inner = any(a in own_names and b in own_names for a, b in graph.edges)
            typical = graph.nodes[names[1]]
            sign = "=" if typical.kind == "deterministic" else "~"
            text = f"{names[1]} {sign} {typical.distribution}, …"
            one_shape = len({graph.nodes[n].shape for n in names}) == 1
            nodes[owner] = replace(
                typical,
                name=owner,
                shape=(len(names), *typical.shape) if one_shape else (len(names),),
                line=None,
                distribution=text,
                recurrent=inner or typical.recurrent,
            )
    groups = {g: ns for g, ns in graph.groups.items() if all(n in nodes for n in ns)}
    return type(graph)(nodes.values(), merged_edges(graph, own), graph.plates.values(), groups)
