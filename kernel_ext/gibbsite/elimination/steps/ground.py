"""Element by element: trees, loops, noisy-or, small grids. Alike eliminations of a round are one
operation."""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.tables.factor import Factor, TooLarge, taken
from gibbsite.elimination.steps.step import Step, named, origins, reduced
from gibbsite.elimination.tables.collect import Summed

# The order in which single elements are eliminated: in rounds of alike ones that do not meet.
#
# Greedy (Koller and Friedman 2009, §9.4.3.2): of all elements left, those of the smallest table, of these
# those that connect the fewest others anew, of these as many as are not neighbours. Trees fall leaves first,
# level by level, and chains every other element at a time.


Node = tuple[int, int]
"""Number of a site, number of its element."""

_MANY = 24  # neighbours beyond which connections are not counted: the table is too large by then


@dataclass(frozen=True)
class Refused(Exception):
    """No element is left whose table is within the limit: the cheapest, with its neighbours."""

    node: Node
    near: tuple[Node, ...]
    entries: float


class Rounds:
    """Rounds of elimination over a graph of elements. `near` are neighbours; it is used up."""

    def __init__(self, near: dict[Node, set[Node]], sizes: Mapping[int, int], going: Sequence[Node]):
        self._near, self._sizes = near, sizes
        self._left = set(going)
        self._cost = {x: self._entries(x) for x in going}
        self._fill: dict[Node, int] = {}

    def _entries(self, x: Node) -> float:
        return math.prod([float(self._sizes[x[0]]), *(float(self._sizes[y[0]]) for y in self._near[x])])

    def _new_links(self, x: Node) -> int:
        if x not in self._fill:
            near = self._near[x]
            pairs = itertools.combinations(near, 2)
            self._fill[x] = sum(b not in self._near[a] for a, b in pairs) if len(near) <= _MANY else 10**9
        return self._fill[x]

    def next(self, limit: float) -> list[tuple[Node, list[Node]]] | None:
        """The elements of the next round with their neighbours; None when all are gone."""
        if not self._left:
            return None
        low = min(self._cost[x] for x in self._left)
        tied = sorted(x for x in self._left if self._cost[x] == low)
        if low > limit:
            raise Refused(tied[0], tuple(sorted(self._near[tied[0]])), low)
        least = min(map(self._new_links, tied))
        chosen, blocked = [], set()
        for x in tied:
            if x not in blocked and self._new_links(x) == least:
                chosen.append((x, sorted(self._near[x])))
                blocked |= self._near[x]
        for x, near in chosen:
            self._remove(x, near)
        return chosen

    def _remove(self, x: Node, near: Sequence[Node]) -> None:
        changed = set(near)
        for y in near:
            changed |= self._near[y]
            self._near[y] |= set(near)
            self._near[y] -= {x, y}
        del self._near[x]
        self._left.discard(x)
        for y in near:
            if y in self._left:
                self._cost[y] = self._entries(y)
        for y in changed:
            self._fill.pop(y, None)


MAX_ELEMENTS = 20_000
MAX_OPERATIONS = 1_000
"""Operations are compiled one by one."""


@dataclass(frozen=True, eq=False)
class Operation:
    """Elements eliminated together: per factor its rows and the names of its axes, "self" or a number of
    `made`'s axes; `span` are its places among the uniforms."""

    site: str
    count: int
    uses: tuple[tuple[Factor, np.ndarray, tuple[Any, ...]], ...]
    made: Factor | None
    sizes: tuple[int, ...]
    span: tuple[int, int]


class GroundStep(Step):
    """Eliminates every element of `sites`. Raises `TooLarge` for tables or operations beyond the limits."""

    def __init__(self, sites: Sequence[str], live: Sequence[Factor], of: Summed, limit: float):
        self.of, self.sites = of, tuple(sites)
        self.used = tuple(f for f in live if set(f.sites) & set(sites))
        number = sum(of.count[s] for s in sites)
        if number > MAX_ELEMENTS:
            which = ", ".join(f"{of.count[s]:,} of {s!r}" for s in sites)
            raise TooLarge(
                f"{number:,} elements ({which}) are coupled in no regular way by {origins(self.used)}; at "
                f"most {MAX_ELEMENTS:,} are eliminated one by one. Gibbs {' '.join(sites)} still works"
            )
        self._names = list(of.names)
        self._rows: dict[Node, dict[tuple[int, int], int]] = defaultdict(dict)
        self._alive: dict[tuple[int, int], tuple[Node, ...]] = {}
        self._factors: list[Factor] = []
        self.operations: list[Operation] = []
        self.entries, self.widest, self._at = 0.0, 0.0, 0
        for f in self.used:
            self._add(f)
        self._eliminate(limit)
        self.uniforms = (self._at,)
        self.made = self._left_over()
        self._rows, self._alive = {}, {}
        self.text = (
            f"eliminate {', '.join(sites)} element by element: {number:,} elements in "
            f"{len(self.operations):,} operations, widest table {self.widest:,.0f}  {origins(self.used)}"
        ).rstrip()

    def _add(self, f: Factor) -> int:
        self._factors.append(f)
        number = len(self._factors) - 1
        sites = [self._names.index(s) for s in f.sites]
        for r, row in enumerate(np.stack(f.index, axis=1).tolist()):
            nodes = tuple(zip(sites, row, strict=True))
            self._alive[number, r] = nodes
            for q, node in enumerate(nodes):
                self._rows[node][number, r] = q
        return number

    def _eliminate(self, limit: float) -> None:
        near: dict[Node, set[Node]] = defaultdict(set)
        going = [(self._names.index(s), e) for s in self.sites for e in range(self.of.count[s])]
        for x in going:
            near[x] = set()
        for nodes in self._alive.values():
            for x in nodes:
                near[x].update(y for y in nodes if y != x)
        rounds = Rounds(near, {i: self.of.sizes[s] for i, s in enumerate(self._names)}, going)
        try:
            while (found := rounds.next(limit)) is not None:
                self._round(found)
        except Refused as refused:
            raise TooLarge(self._refusal(refused, limit)) from None

    def _refusal(self, refused: Refused, limit: float) -> str:
        site = self._names[refused.node[0]]
        place = np.unravel_index(refused.node[1], self.of.elements[site] or (1,))
        shown = f"[{', '.join(map(str, place))}]" if self.of.elements[site] else ""
        made_by = origins([f for f in self.used if site in f.sites and len(f.sites) > 1])
        return (
            f"eliminating {site}{shown} next would take a table of {refused.entries:,.0f} entries over "
            f"{len(refused.near) + 1} elements that {made_by} couples; the limit is {limit:,.0f}. "
            f"Gibbs {site} still works"
        )

    def _round(self, chosen: Sequence[tuple[Node, list[Node]]]) -> None:
        groups: dict[Any, list[tuple[Node, list[Node], list[int]]]] = defaultdict(list)
        for x, near in chosen:
            slot = {y: i for i, y in enumerate(near)}
            rows = sorted(self._rows[x])
            uses = tuple(
                (f, tuple("self" if y == x else slot[y] for y in self._alive[f, r])) for f, r in rows
            )
            groups[x[0], uses, tuple(y[0] for y in near)].append((x, near, [r for _, r in rows]))
        for (site, uses, others), members in groups.items():
            self._operation(self._names[site], uses, [self._names[o] for o in others], members)

    def _operation(self, site: str, uses: Any, others: Sequence[str], members: Sequence[Any]) -> None:
        sizes = tuple(self.of.sizes[o] for o in others)
        made = None
        if others:
            index = tuple(np.array([near[i][1] for _, near, _ in members]) for i in range(len(others)))
            origin = named(self._factors[f] for f, _ in uses)
            made = Factor(tuple(others), index, len(members), sizes, origin)
        taking = tuple(
            (self._factors[f], np.array([rows[j] for _, _, rows in members]), names)
            for j, (f, names) in enumerate(uses)
        )
        table = self.of.sizes[site] * math.prod(map(float, sizes))
        self.widest = max(self.widest, table)
        self.entries += table * len(members)
        span = (self._at, self._at + len(members))
        self.operations.append(Operation(site, len(members), taking, made, sizes, span))
        if len(self.operations) > MAX_OPERATIONS:
            raise TooLarge(
                f"eliminating {', '.join(self.sites)} takes more than {MAX_OPERATIONS:,} different "
                f"operations, too many to compile. Gibbs {' '.join(self.sites)} still works"
            )
        self._at = span[1]
        for x, _, _ in members:
            for f, r in list(self._rows[x]):
                for y in self._alive.pop((f, r)):
                    self._rows[y].pop((f, r), None)
            del self._rows[x]
        if made is not None:
            self._add(made)

    def _left_over(self) -> tuple[Factor, ...]:
        """What is left of tables that reach other sites; rows that later rounds used up are gone."""
        found: dict[int, list[int]] = defaultdict(list)
        for f, r in sorted(self._alive):
            found[f].append(r)
        self._kept = []
        for f, rows in found.items():
            whole, at = self._factors[f], np.array(rows)
            part = Factor(whole.sites, tuple(i[at] for i in whole.index), len(at), whole.sizes, whole.origin)
            self._kept.append((whole, at, part))
        return tuple(part for _, _, part in self._kept)

    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        out: Any = jnp.zeros(())
        tables = dict(env)
        for op in self.operations:
            order = ["self", *range(len(op.sizes))]
            used = [(names, taken(tables[f], rows, f.rows)) for f, rows, names in op.uses if f in tables]
            u = None if uniforms is None else uniforms[slice(*op.span)]
            x = reduced(used, order, (self.of.sizes[op.site], *op.sizes), u, mode)
            if op.made is None:
                out = out + jnp.sum(jnp.broadcast_to(x, (op.count,)))
            else:
                tables[op.made] = x
        for whole, at, part in self._kept:
            env[part] = taken(tables[whole], at, whole.rows)
        return out
