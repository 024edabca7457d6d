"""A view of the graph with plates closed, drawn in advance for the sets of plates that a person will try.

The page shows what was sent: of a few plates every set, of more each alone and all together. The kernel is
asked for others.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

from gibbsite.graph.drawing.style import READABLE
from gibbsite.graph.plates import Closed, closed
from gibbsite.views.graph.columns import view_of

# of more plates than this, or in a graph of more than `READABLE` nodes, not every set is drawn in advance
EVERY_SET = 3
_MOST_STANDS = 8
_SEPARATOR = "\n"


def forms_of(
    graph: Any,
    inside: Mapping[str, Sequence[str]],
    entries: Mapping[str, Mapping[str, Any]],
    use_greek: bool = False,
    asked: Sequence[str] = (),
    like: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The plates that can be closed, the `forms` of the graph with some closed, and which form shows which
    plates closed: `sets`, by the plates' names in alphabetical order, a line each.

    `inside` and `entries` tell of the nodes of `graph` what they stand for and what else there is to tell,
    `like` where they stand from left to right: what stays keeps its side.
    """
    free = closed(graph, ()).closable
    forms: list[dict[str, Any]] = []
    sets: dict[str, int] = {}
    drawn: dict[frozenset, int] = {}
    wanted = chain(_prepared(free, len(graph.nodes)), [tuple(p for p in free if p in asked)])
    for plates in filter(None, wanted):
        found = closed(graph, plates)
        same = frozenset(found.shut.items())  # a plate inside a closed one makes no difference but to `shut`
        if same not in drawn:
            drawn[same] = len(forms)
            forms.append(_form(found, inside, entries, use_greek, like or {}))
        sets[_SEPARATOR.join(sorted(plates))] = drawn[same]
    return {"closable": list(free), "sets": sets, "forms": forms}


def _prepared(plates: Sequence[str], nodes: int) -> Iterator[tuple[str, ...]]:
    few = len(plates) <= EVERY_SET and nodes <= READABLE
    for size in range(1, len(plates) + 1):
        if few or size in (1, len(plates)):
            yield from combinations(plates, size)


def _form(
    found: Closed,
    inside: Mapping[str, Any],
    entries: Mapping[str, Any],
    use_greek: bool,
    like: Mapping[str, float],
) -> dict[str, Any]:
    around = {n: [like[m] for m in found.members.get(n, (n,)) if m in like] for n in found.graph.nodes}
    sides = {n: sum(xs) / len(xs) for n, xs in around.items() if xs}
    return view_of(found.graph, use_greek, sides) | {
        "closable": list(found.closable),
        "merged": {n: {"shut": found.shut[n], "members": found.members[n]} for n in found.members},
        "told": {n: _told(found, n, inside, entries) for n in found.members},
    }


def _told(found: Closed, name: str, inside: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to tell of a closed plate."""
    node, members = found.graph.nodes[name], found.members[name]
    stands = [s for m in members for s in inside.get(m, (m,))]
    updates = [f"{m} by {kernel}" for m in members if (kernel := entries.get(m, {}).get("kernel"))]
    more = len(stands) - _MOST_STANDS
    return {
        "discrete": node.discrete,
        "shape": list(node.shape),
        "plates": list(node.plates),
        "plate": True,
        "stands": [*stands[:_MOST_STANDS], *([f"{more} more"] if more > 0 else [])],
        "updates": ", ".join(updates[:_MOST_STANDS]) + (", …" if len(updates) > _MOST_STANDS else ""),
    }
