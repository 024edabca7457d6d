"""`Density` → `DependencyGraph`."""

from collections.abc import Mapping, Sequence
from typing import Any

from gibbsite.density import Density
from gibbsite.graph.context import removed_edges
from gibbsite.graph.model_graph import DependencyGraph
from gibbsite.graph.nodes import Node, PlateBox
from gibbsite.inputs.objects import Known
from gibbsite.printing.statements.dependencies import dependencies
from gibbsite.printing.statements.statement import distribution_text
from gibbsite.programs.jaxpr.compat import Literal

_MOST_NAMED = 4


def dependency_graph(
    density: Density, known: Known | None = None, labels: Mapping[str, Sequence[str]] | None = None
) -> DependencyGraph:
    """The graph of a model's sites, factors, deterministic values and data arguments; `known` is what their
    arrays do not say of themselves, `labels` those of the elements of plates."""
    known, labels = known or Known(), labels or {}
    parents = dependencies(density)
    read = {p for ps in parents.values() for p in ps}
    data = dict(zip(density.arguments.names, density.arguments.arrays, strict=True))
    nodes = [
        Node(
            name,
            "data",
            tuple(array.shape),
            str(array.dtype),
            array.dtype.kind in "iub",
            elements=_listed(known.labels[name]) if name in known.labels else known.units.get(name, ""),
        )
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
                "; ".join(f"{p}: {_listed(labels[p])}" for p in site.plates if p in labels),
            )
        )
    nodes += [Node(name, "factor", distribution="factor") for name in density.factor_names]
    there = {n.name for n in nodes}
    edges = [(p, child) for child, ps in parents.items() if child in there for p in ps if p in there]
    cut = removed_edges(density, edges, _observed_choices(density))
    graph = DependencyGraph(
        nodes, [e for e in edges if e not in cut], _plates(density, labels), density.groups
    )
    return graph.with_contexts(lambda given: removed_edges(density, graph.edges, given))


def _listed(labels: Sequence[str]) -> str:
    """The first few labels, and how many more there are."""
    more = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f", … {more} more" if more > 0 else "")


def _observed_choices(density: Density) -> dict[str, Any]:
    """The observed discrete sites that other statements read: what their values rule out is no edge."""
    return {
        n: None
        for n, atom in density.outputs["observed"].items()
        if density.sites[n].discrete and not isinstance(atom, Literal) and not density.maps.latents(atom)
    }


def _plates(density: Density, labels: Mapping[str, Sequence[str]]) -> list[PlateBox]:
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
        out.append(PlateBox(name, plate.size, parent, tuple(labels.get(name, ()))))
    return out


def _outer(density: Density, other: str, name: str, members: dict[str, set[str]]) -> bool:
    """Whether two plates with the same sites list `other` first."""
    if other == name or members[other] != members[name]:
        return False
    site = density.sites[next(iter(members[name]))]
    return site.plates.index(other) < site.plates.index(name)
