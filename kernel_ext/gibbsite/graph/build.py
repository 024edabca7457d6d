"""`Density` → `DependencyGraph`, with the edges that some values leave without effect."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from gibbsite.density import Density
from gibbsite.density.liveness import needed_by
from gibbsite.errors import DataError
from gibbsite.graph.listing import Node, PlateBox
from gibbsite.graph.model_graph import DependencyGraph
from gibbsite.inputs.tables import Known
from gibbsite.printing.statements.dependencies import dependencies, named_values
from gibbsite.printing.statements.statement import distribution_text
from gibbsite.programs.jaxpr.compat import Literal

# Independence that holds in a context: edges that the values of some sites leave without effect.
#
# A switch that is known to be off cuts what it gates off from what reads it (Boutilier, Friedman, Goldszmidt
# and Koller 1996, "Context-specific independence in Bayesian networks").


Edge = tuple[str, str]


def removed_edges(density: Density, edges: Iterable[Edge], given: Mapping[str, Any]) -> frozenset[Edge]:
    """The edges from latents and deterministic values to statements that do not depend on them while the
    sites of `given` have their values: latents those given here, observed ones their data.

    Raises `DataError` for a value that does not fit its site.
    """
    edges = list(edges)
    values = {n: _value(density, n, v) for n, v in given.items() if n in density.latent_vars}
    touched = {child for parent, child in edges if parent in given}
    atoms = {n: v for v, n in named_values(density).items()}
    out = set()
    for child in touched:
        kind = "deterministic" if child in density.outputs["deterministic"] else "log_prob"
        root = density.outputs[kind].get(child)
        if root is None or isinstance(root, Literal):
            continue
        need = needed_by(density, [root], values)
        for parent, to in edges:
            atom = atoms.get(parent)
            latent = atom is not None and density.maps.latents(atom) - values.keys()
            if to == child and parent not in given and latent and not np.any(need.get(atom, False)):
                out.add((parent, child))
    return frozenset(out)


def _value(density: Density, name: str, value: Any) -> np.ndarray:
    site = density.sites[name]
    try:
        return np.broadcast_to(np.asarray(value, site.dtype), site.shape)
    except (ValueError, TypeError) as error:
        raise DataError(f"given: {value!r} is no value of {name!r}, whose shape is {site.shape}") from error


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
        value = _set_value(density, name)
        nodes.append(
            Node(
                name,
                site.role if value is None else "data",
                site.shape,
                str(site.dtype),
                site.discrete,
                distribution_text(density, name) if value is None else f"{_shown(value)} (set)",
                site.plates,
                site.line,
                name in parents.get(name, ()),
                "; ".join(f"{p}: {_listed(labels[p])}" for p in site.plates if p in labels),
            )
        )
    nodes += [Node(name, "factor", distribution="factor") for name in density.factor_names]
    there = {n.name for n in nodes}
    edges = [(p, child) for child, ps in parents.items() if child in there for p in ps if p in there]
    cut = removed_edges(density, edges, _observed_choices(density)) | _read_before(density, edges)
    graph = DependencyGraph(
        nodes, [e for e in edges if e not in cut], _plates(density, labels), density.groups
    )
    return graph.with_contexts(lambda given: removed_edges(density, graph.edges, given))


def _set_value(density: Density, name: str) -> np.ndarray | None:
    """The value that a site was set to, as by `do`: it is an argument of the site's own name, and nothing
    else is in the site. None for other sites."""
    atom = density.outputs["deterministic"].get(name)
    arguments = zip(density.arguments.names, density.data_vars, density.arguments.arrays, strict=True)
    return next((array for key, var, array in arguments if key.rstrip("′") == name and var is atom), None)


def _shown(value: np.ndarray) -> str:
    """A value in a few letters: its numbers where they are few, else how many there are."""
    if value.size > _MOST_NAMED:
        return f"{value.size} values"
    return str(np.vectorize(lambda number: f"{number:.4g}", otypes=[object])(value).tolist()).replace("'", "")


def _read_before(density: Density, edges: Sequence[Edge]) -> frozenset[Edge]:
    """The edges from observed sites that would close a circle: what reads a site's data before the site's own
    statement, as priors by the range of the data do, reads a constant."""
    order = {n: i for i, n in enumerate(density.sites)}
    directed = nx.DiGraph(edges)
    return frozenset(
        (a, b) for a, b in edges if order.get(b, -1) < order.get(a, -1) and nx.has_path(directed, b, a)
    )


def _listed(labels: Sequence[str]) -> str:
    """The first few labels, and how many more there are."""
    more = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f", … {more} more" if more > 0 else "")


def _observed_choices(density: Density) -> dict[str, Any]:
    """The observed discrete sites that other statements read: what their values rule out is no edge."""
    return {
        n: None
        for n, atom in density.outputs["observed"].items()
        if density.sites[n].discrete and not density.maps.latents(atom)
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
