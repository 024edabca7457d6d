"""d-separation, with the trail that shows a dependence."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx


@dataclass(frozen=True)
class Independence:
    """The answer to "is `a` independent of `b` given `given`?"; true or false as a bool.

    `path` is a trail along which they depend on each other, empty where they are independent. `values` are
    those of the given nodes where the question was asked in their context.
    """

    a: str
    b: str
    given: tuple[str, ...]
    path: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not self.path

    def __str__(self) -> str:
        told = [f"{n} = {self.values[n]}" if n in self.values else n for n in self.given]
        given = f" given {', '.join(told)}" if told else ""
        if not self.path:
            return f"{self.a} and {self.b} are independent{given}"
        return f"{self.a} and {self.b} depend on each other{given}, through {' – '.join(self.path)}"


def active_trail(
    graph: Any, a: str, b: str, given: Collection[str], partly: Collection[str] = ()
) -> tuple[str, ...]:
    """A trail from `a` to `b` that `given` leaves open, or `()` if they are d-separated.

    Nodes of which a part is given, `partly`, open trails but close none.

    Breadth-first over (node, direction of arrival): from below a node passes on to parents and children
    unless it is given; from above it passes to children unless given, and to parents if it or a descendant
    is given.
    """
    if a == b:
        return (a,)
    given = set(given)
    told = given | set(partly)
    opened = told | {p for g in told if g in graph for p in nx.ancestors(graph, g)}
    start = (a, "up")
    before: dict[tuple[str, str], tuple[str, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        node, direction = state
        if node == b:
            trail: list[str] = []
            at: tuple[str, str] | None = state
            while at is not None:
                trail.append(at[0])
                at = before[at]
            return tuple(reversed(trail))
        steps = []
        if direction == "up" and node not in given:
            steps += [(p, "up") for p in graph.predecessors(node)]
            steps += [(c, "down") for c in graph.successors(node)]
        elif direction == "down":
            if node not in given:
                steps += [(c, "down") for c in graph.successors(node)]
            if node in opened:
                steps += [(p, "up") for p in graph.predecessors(node)]
        for step in steps:
            if step not in before:
                before[step] = state
                queue.append(step)
    return ()
