"""The order in which single elements are eliminated: in rounds of alike ones that do not meet.

Greedy (Koller and Friedman 2009, §9.4.3.2): of all elements left, those of the smallest table, of these those
that connect the fewest others anew, of these as many as are not neighbours. Trees fall leaves first, level by
level, and chains every other element at a time.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
