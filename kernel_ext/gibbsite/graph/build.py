"""`Density` → `DependencyGraph`."""

from typing import Any

from gibbsite.density import Density
from gibbsite.density.notation.dependencies import dependencies
from gibbsite.density.notation.statement import distribution_text
from gibbsite.graph.context import removed_edges
from gibbsite.graph.model_graph import DependencyGraph
from gibbsite.graph.nodes import Node, PlateBox
from gibbsite.trace.jaxpr.compat import Literal


def dependency_graph(density: Density) -> DependencyGraph:
    """The graph of a model's sites, factors, deterministic values and data arguments."""
    parents = dependencies(density)
    read = {p for ps in parents.values() for p in ps}
    data = dict(zip(density.arguments.names, density.arguments.arrays, strict=True))
    nodes = [
        Node(name, "data", tuple(array.shape), str(array.dtype), array.dtype.kind in "iub")
        for name, array in data.items()
        if name in read and name not in density.sites
    ]
    for name, site in density.sites.items():
        text = distribution_text(density, name)
        if site.role == "deterministic" and not parents.get(name) and text.split("[")[0] == name:
            text = "a given value"  # an intervention: the value is an argument of the site's own name
        nodes.append(
            Node(
                name,
                site.role,
                site.shape,
                str(site.dtype),
                site.discrete,
                text,
                site.plates,
                site.line,
                name in parents.get(name, ()),
            )
        )
    nodes += [Node(name, "factor", distribution="factor") for name in density.factor_names]
    known = {n.name for n in nodes}
    edges = [(p, child) for child, ps in parents.items() if child in known for p in ps if p in known]
    cut = removed_edges(density, edges, _observed_choices(density))
    graph = DependencyGraph(nodes, [e for e in edges if e not in cut], _plates(density), density.groups)
    return graph.with_contexts(lambda given: removed_edges(density, graph.edges, given))


def _observed_choices(density: Density) -> dict[str, Any]:
    """The observed discrete sites that other statements read: what their values rule out is no edge."""
    return {
        n: None
        for n, atom in density.outputs["observed"].items()
        if density.sites[n].discrete and not isinstance(atom, Literal) and not density.maps.latents(atom)
    }


def _plates(density: Density) -> list[PlateBox]:
    """Plates with their nesting: a plate is inside another where all its sites are."""
    members = {p: {s.name for s in density.sites.values() if p in s.plates} for p in density.plates}
    out = []
    for name, plate in density.plates.items():
        if not members[name]:
            continue
        inside = [
            other
            for other in density.plates
            if (other != name and members[name] < members[other]) or _outer(density, other, name, members)
        ]
        parent = min(inside, key=lambda p: len(members[p]), default=None)
        out.append(PlateBox(name, plate.size, parent))
    return out


def _outer(density: Density, other: str, name: str, members: dict[str, set[str]]) -> bool:
    """Whether two plates with the same sites list `other` first."""
    if other == name or members[other] != members[name]:
        return False
    site = density.sites[next(iter(members[name]))]
    return site.plates.index(other) < site.plates.index(name)
