"""A graph with plates closed: each as one node, whose questions are answered on the safe side."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gibbsite.graph.folding import merged_edges
from gibbsite.graph.listing import Node, PlateBox
from gibbsite.ground.lazy_import import later

nx = later("networkx")

if TYPE_CHECKING:
    from gibbsite.graph.model_graph import DependencyGraph

_MOST_NAMES = 4


@dataclass(frozen=True)
class Closed:
    """A graph with plates closed: per merged node the `members` and the plates it stands for, in `shut`; and
    the plates that can still be closed."""

    graph: "DependencyGraph"
    members: dict[str, tuple[str, ...]]
    shut: dict[str, tuple[str, ...]]
    closable: tuple[str, ...]


def closed(graph: "DependencyGraph", plates: Iterable[str]) -> Closed:
    """The graph with each of the plates as one node.

    A plate of one node stays as it is; plates that share a node are one node together. What lies on a path
    from one member to another is taken in, so that no circle arises. Where latent and observed members are
    merged the node is of kind "plate": it lets every dependence pass, so that what is independent here is
    independent in the whole graph, too; not the reverse.
    """
    chosen, members = set(plates), {}
    within = {n: set(node.plates) for n, node in graph.nodes.items()}  # plates that a part of the node is in
    shut: dict[str, set[str]] = {}
    boxes = graph.plates
    for plate in (p for p in boxes if p in chosen):
        inside = [n for n in graph.nodes if plate in within[n]]
        if len(inside) < 2:
            continue
        names = _with_paths(graph, inside)
        own = {plate}.union(*(shut.pop(n, ()) for n in names))
        outer = [p for p in boxes if p in own and not own & set(_around(boxes, p))]
        title = f"plate{'s' if len(outer) > 1 else ''} {', '.join(outer)}"
        while title in graph.nodes and title not in names:
            title += "′"
        sizes = tuple(boxes[p].size for p in outer)
        listed = [m for n in names for m in members.get(n, (n,))]
        graph = _merged(graph, title, names, own, sizes, listed)
        members[title] = tuple(m for n in names for m in members.pop(n, (n,)))
        within[title] = set().union(*(within[n] for n in names))
        shut[title] = own
    held = {p: sum(p in within[n] for n in graph.nodes) for p in graph.plates}
    return Closed(
        graph,
        members,
        {title: tuple(p for p in boxes if p in own) for title, own in shut.items()},
        tuple(p for p, count in held.items() if count > 1),
    )


def _around(boxes: Mapping[str, PlateBox], plate: str) -> Iterator[str]:
    """The plates that a plate is drawn inside."""
    parent = boxes[plate].parent
    while parent is not None and parent in boxes:
        yield parent
        parent = boxes[parent].parent


def _with_paths(graph: "DependencyGraph", inside: Collection[str]) -> tuple[str, ...]:
    """The members and all that lies between them, in program order."""
    below = {d for n in inside for d in nx.descendants(graph.directed, n)}
    above = {a for n in inside for a in nx.ancestors(graph.directed, n)}
    taken = set(inside) | (below & above)
    return tuple(n for n in graph.nodes if n in taken)


def _kind(nodes: Collection[Node]) -> str:
    kinds = {n.kind for n in nodes}
    if len(kinds) == 1:
        return kinds.pop()
    return "latent" if kinds <= {"latent", "deterministic"} else "plate"


def _merged(
    graph: "DependencyGraph",
    name: str,
    names: Collection[str],
    shut: Collection[str],
    sizes: tuple[int, ...],
    listed: Sequence[str],
) -> "DependencyGraph":
    nodes = [graph.nodes[n] for n in names]
    more = len(listed) - _MOST_NAMES
    common = set.intersection(*(set(n.plates) for n in nodes)) - set(shut)
    common -= {p for p in common if set(_around(graph.plates, p)) & set(shut)}  # closed with the one around
    one = Node(
        name,
        _kind(nodes),
        sizes,
        discrete=all(n.discrete for n in nodes),
        distribution=", ".join(listed[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else ""),
        plates=tuple(p for p in nodes[0].plates if p in common),
    )
    own = dict.fromkeys(names, name)
    first = next(iter(names))  # its place in program order is the plate's
    kept = {n: one if n == first else v for n, v in graph.nodes.items() if n == first or n not in own}
    used = {p for node in kept.values() for p in node.plates}
    boxes = [b for b in graph.plates.values() if b.name in used]
    groups = {g: ns for g, ns in graph.groups.items() if not set(ns) & set(own)}
    return type(graph)(kept.values(), merged_edges(graph, own), boxes, groups)
