"""The dependency graph of a model: who is computed or drawn from whom."""

import copy
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from gibbsite.errors import ModelError, UnknownNameError
from gibbsite.graph.elements import Independence, active_trail
from gibbsite.graph.folding import folded, overview
from gibbsite.graph.listing import Node, PlateBox, listing, to_dot
from gibbsite.graph.plates import closed
from gibbsite.ground.lazy_import import later
from gibbsite.showing import Live, views

nx = later("networkx")


def _nothing() -> None:
    """No model."""


def _no_context(given: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset()


def _context_unknown(given: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    raise ModelError(
        f"which edges have no effect at values of {', '.join(given)} is computed from the model, which this "
        "copy of its graph is without; ask model.graph"
    )


def _reached(start: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    """`start` and all that can be reached from it."""
    found = set(start)
    stack = list(found)
    while stack:
        new = set(step(stack.pop())) - found
        found |= new
        stack += new
    return found


class DependencyGraph(Live):
    """A directed acyclic graph of nodes, with plates.

    An edge runs from what is read to what reads it. A factor (`numpyro.factor`) is a node without children
    that couples its parents. Immutable.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        edges: Iterable[tuple[str, str]],
        plates: Iterable[PlateBox] = (),
        groups: Mapping[str, tuple[str, ...]] | None = None,
    ):
        self._groups = {g: tuple(names) for g, names in (groups or {}).items()}
        self._nodes = {n.name: n for n in nodes}
        self._edges = tuple(dict.fromkeys(edges))
        self._plates = {p.name: p for p in plates}
        for a, b in self._edges:
            for end in (a, b):
                if end not in self._nodes:
                    raise UnknownNameError("node", end, self._nodes)
        graph = nx.DiGraph()
        graph.add_nodes_from(self._nodes)
        graph.add_edges_from((a, b) for a, b in self._edges if a != b)
        self._graph = graph
        self._model: Callable[[], Any] = _nothing
        self._removed: Callable[[Mapping[str, Any]], frozenset[tuple[str, str]]] = _no_context

    def of(self, model: Any) -> "DependencyGraph":
        """The same graph as that of a model, whose conditionals and kernels its display tells."""
        found = copy.copy(self)
        found._model = weakref.ref(model)
        return found

    def with_contexts(
        self, removed: Callable[[Mapping[str, Any]], frozenset[tuple[str, str]]]
    ) -> "DependencyGraph":
        """The same graph, of which `removed(given)` tells the edges that values of sites leave without
        effect."""
        found = copy.copy(self)
        found._removed = removed
        return found

    @property
    def model(self) -> Any:
        """The model that it is the graph of, as long as something else holds that; else None."""
        return self._model()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, in program order."""
        return dict(self._nodes)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """`(parent, child)` pairs."""
        return self._edges

    @property
    def plates(self) -> Mapping[str, PlateBox]:
        """Plates by name."""
        return dict(self._plates)

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Indexed sites by group: `s` → `s[0]`, `s[1]`, …"""
        return dict(self._groups)

    @property
    def directed(self) -> Any:
        """The nodes in program order and the edges as a `networkx.DiGraph`, without loops; not to be
        changed."""
        return self._graph

    def folded(self) -> tuple["DependencyGraph", dict[str, tuple[str, ...]]]:
        """An overview: groups of indexed sites and chains of deterministic values as one node each.

        Returns the smaller graph, and for each merged node the names that it stands for.
        """
        return folded(self)

    def overview(self) -> tuple["DependencyGraph", dict[str, tuple[str, ...]]]:
        """A larger picture: besides what `folded` merges, sites that differ by a number (`effect_0`,
        `effect_1`, …) and, plate by plate, sites of one kind, as one node each.

        Returns the smaller graph, and for each merged node the names that it stands for. Its blankets and
        independences are those of the merged vectors.
        """
        return overview(self)

    def closed(
        self, plates: Iterable[str] | None = None
    ) -> tuple["DependencyGraph", dict[str, tuple[str, ...]]]:
        """The graph with plates, all unless named, as one node each; see `gibbsite.graph.plates.closed`.

        Returns the smaller graph, and for each such node the names that it stands for.
        """
        names = list(self._plates if plates is None else plates)
        for name in names:
            if name not in self._plates:
                raise UnknownNameError("plate", name, self._plates)
        found = closed(self, names)
        return found.graph, found.members

    def node(self, name: str) -> Node:
        """The node of that name; raises `UnknownNameError` with the nearest one."""
        if name not in self._nodes:
            raise UnknownNameError("node", name, self._nodes)
        return self._nodes[name]

    def parents(self, name: str) -> tuple[str, ...]:
        """What the node reads."""
        self.node(name)
        return self._ordered(self._graph.predecessors(name))

    def children(self, name: str) -> tuple[str, ...]:
        """What reads the node."""
        self.node(name)
        return self._ordered(self._graph.successors(name))

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(n for n in self._nodes if n in wanted)

    @cached_property
    def _random_parents(self) -> dict[str, frozenset[str]]:
        """Random parents of every node, seen through deterministic nodes."""
        out: dict[str, frozenset[str]] = {}
        for name in nx.topological_sort(self._graph):
            found: set[str] = set()
            for p in self._graph.predecessors(name):
                if self._nodes[p].random:
                    found.add(p)
                elif self._nodes[p].kind == "deterministic":
                    found |= out[p]
            out[name] = frozenset(found)
        return out

    def markov_blanket(self, name: str) -> tuple[str, ...]:
        """The random variables that make the node independent of all others.

        Parents, children, and the children's other parents, seen through deterministic nodes; a factor makes
        all its parents neighbours. For a node that is not random: the random variables it is computed from
        and those that read it.
        """
        node = self.node(name)
        parents = self._random_parents
        near = set(parents[name])
        if node.random:
            for child, ps in parents.items():
                joins = self._nodes[child].random or self._nodes[child].kind == "factor"
                if joins and name in ps:
                    near |= ps | ({child} if self._nodes[child].random else set())
        elif node.kind != "factor":
            near |= {child for child in self._read_by(name) if self._nodes[child].random}
        return self._ordered(near - {name})

    def _read_by(self, name: str) -> set[str]:
        """Random nodes and factors that read `name` directly or through deterministic nodes."""

        def on(n: str) -> Iterable[str]:
            return self._graph.successors(n) if self._nodes[n].kind == "deterministic" else ()

        return _reached(self._graph.successors(name), on)

    def levels(self) -> dict[str, str]:
        """ "data", "model" or "generated" for every node.

        Data: no latent ancestor. Model: a latent, or computed from one, that an observation or factor can
        see. Generated: the rest, which needs computing only once per draw. Gorinova 2022, thesis §3.4
        (information-flow levels), as two passes of reachability.
        """
        informed = {n for n, node in self._nodes.items() if node.kind in ("observed", "factor", "plate")}
        seen = _reached(informed, self._graph.predecessors)
        touched = _reached(
            (n for n, node in self._nodes.items() if node.kind in ("latent", "plate")),
            self._graph.successors,
        )
        out = {}
        for name, node in self._nodes.items():
            if name not in touched and node.kind not in ("observed", "factor"):
                out[name] = "data"
            else:
                out[name] = "model" if name in seen else "generated"
        return out

    def independent(
        self, a: str, b: str, given: Iterable[str] | Mapping[str, Any] = (), *, given_data: bool = True
    ) -> Independence:
        """Whether `a` and `b` are independent given other nodes, and if not, by which path.

        Observed sites and factors count as given, as they do in a posterior; `given_data=False` asks of the
        prior instead (factors still count: they are part of the density). By d-separation (Shachter 1998,
        "Bayes-ball"). `given` may say with which values: `given={"z1": 0}` asks in that context, without the
        edges that have no effect there. Raises `UnknownNameError`, and `DataError` for such a value.
        """
        context = dict(given) if isinstance(given, Mapping) else {}
        given = list(given)
        for name in (a, b, *given):
            self.node(name)
        kinds = ("factor", "observed") if given_data else ("factor",)
        fixed = set(given) | {n for n, node in self._nodes.items() if node.kind in kinds}
        partly = {n for n, node in self._nodes.items() if node.kind == "plate" and given_data}
        removed = self._removed(context) if context else frozenset()
        graph: Any = nx.restricted_view(self._graph, [], removed) if removed else self._graph
        trail = active_trail(graph, a, b, fixed - {a, b}, partly)
        return Independence(a, b, tuple(given), trail, context)

    def to_networkx(self) -> Any:
        """A `networkx.DiGraph` whose nodes carry `kind`, `shape`, `distribution`, `plates` and `level`."""
        levels = self.levels()
        graph = nx.DiGraph()
        for name, node in self._nodes.items():
            graph.add_node(
                name,
                kind=node.kind,
                shape=node.shape,
                discrete=node.discrete,
                distribution=node.distribution,
                plates=node.plates,
                level=levels[name],
            )
        graph.add_edges_from(self._edges)
        return graph

    def to_dot(self, use_greek: bool = False) -> str:
        """The drawing in Graphviz's language, with places; see `gibbsite.graph.listing.to_dot`."""
        return to_dot(self, use_greek)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the graph to a file of which the ending tells the kind, and return its path: a picture
        (`.svg`, `.png`), a page that answers to the pointer without a kernel (`.html`), or Graphviz's
        language (`.dot`). Raises `OptionError` for another ending, `OSError` where it cannot be written."""
        return views().save_graph(self, path)

    def __str__(self) -> str:
        return listing(self)

    def __copy__(self) -> "DependencyGraph":
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        return found

    def __deepcopy__(self, memo: Any) -> "DependencyGraph":
        found = copy.copy(self)
        found._model = _nothing
        return found

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_model": _nothing, "_removed": _context_unknown}

    def __repr__(self) -> str:
        return f"<DependencyGraph: {len(self._nodes)} nodes, {len(self._edges)} edges>"
