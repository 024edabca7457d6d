"""Sites whose elements are coupled along one axis: a filter over what later steps still have to know.

The interface algorithm (Murphy 2002, "Dynamic Bayesian networks", §3.5): the message is a table over the last
values of every site that moves along, as many as the longest read back takes. Within a step sites are summed
out one after another, so that M chains of K values that meet in the data cost K^(M + 1) and not K^2M.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.conditional.tables.factor import Factor
from gibbsite.elimination.steps.step import elements
from gibbsite.elimination.tables.collect import Summed


@dataclass(frozen=True, eq=False)
class Link:
    """One factor of a chain: the names of its axes (`(site, lag)` or `("outer", number)`), and of each row
    the step at which it is complete and the chain that it belongs to."""

    factor: Factor
    names: tuple[tuple[str, int], ...]
    step: np.ndarray
    chain: np.ndarray


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """`depth` says by site how many past values later steps read; `outer` are sites with the element that
    each of the `chains` chains meets all along."""

    steps: int
    chains: int
    depth: dict[str, int]
    links: tuple[Link, ...]
    outer: tuple[tuple[str, np.ndarray], ...]

    @property
    def reach(self) -> int:
        """The longest read back."""
        return max(self.depth.values())


def chain_plan(left: Sequence[str], live: Sequence[Factor], of: Summed) -> ChainPlan | None:
    """The chain that sites with coupled elements form, with all that moves along; None if there is none."""
    coupled, shape = coupled_shape(left, live, of)
    found = (_along(axis, shape, coupled, live, of) for axis in range(len(shape)))
    return next((plan for plan in found if plan is not None), None)


def coupled_shape(
    left: Sequence[str], live: Sequence[Factor], of: Summed
) -> tuple[list[str], tuple[int, ...]]:
    """The sites whose own elements meet, and their shape; () where they have several."""
    coupled = [s for s in left if any(f.sites.count(s) > 1 for f in live)]
    shapes = {of.elements[s] for s in coupled}
    return coupled, shapes.pop() if len(shapes) == 1 else ()


def _along(
    axis: int, shape: tuple[int, ...], coupled: Sequence[str], live: Sequence[Factor], of: Summed
) -> ChainPlan | None:
    members = list(coupled)
    others = tuple(n for a, n in enumerate(shape) if a != axis)
    chains = int(np.prod(others, dtype=np.int64))
    while True:
        outer: dict[tuple[str, bytes], tuple[int, str, np.ndarray]] = {}
        links: list[Link] = []
        joining: list[str] = []
        for f in live:
            if not set(f.sites) & set(members):
                continue
            found = _link(f, axis, shape, chains, members, outer, joining, of)
            if found is None:
                return None
            links.append(found)
        if not joining:
            break
        members += list(dict.fromkeys(joining))
    depth: dict[str, int] = defaultdict(int, dict.fromkeys(members, 0))
    for link in links:
        for name, lag in link.names:
            if name != "outer":
                depth[name] = max(depth[name], lag)
    plan = ChainPlan(
        shape[axis], chains, dict(depth), tuple(links), tuple((s, m) for _, s, m in outer.values())
    )
    return plan if 0 < plan.reach < plan.steps else None


def _link(
    f: Factor,
    axis: int,
    shape: tuple[int, ...],
    chains: int,
    members: Sequence[str],
    outer: dict[tuple[str, bytes], tuple[int, str, np.ndarray]],
    joining: list[str],
    of: Summed,
) -> Link | None:
    """How a factor hangs on the chain; sites that have to move along with it are put on `joining`."""
    mine = [q for q, s in enumerate(f.sites) if s in members]
    places = {q: np.stack(np.unravel_index(f.index[q], shape)) for q in mine}
    rests = [np.delete(places[q], axis, 0) for q in mine]
    if any(not np.array_equal(rests[0], r) for r in rests):
        return None
    times = np.stack([places[q][axis] for q in mine])
    last = times.max(axis=0)
    lags = last - times
    if np.any(lags != lags[:, :1]):
        return None
    others = tuple(n for a, n in enumerate(shape) if a != axis)
    chain = np.ravel_multi_index(tuple(rests[0]), others) if others else np.zeros(f.rows, np.int64)
    names: list[tuple[str, int]] = []
    for q, s in enumerate(f.sites):
        if q in mine:
            names.append((s, int(lags[mine.index(q), 0])))
            continue
        met = np.full(chains, -1)
        met[chain] = f.index[q]
        if np.array_equal(met[chain], f.index[q]):
            met = np.where(met < 0, 0, met)
            number, _, _ = outer.setdefault((s, elements(met)), (len(outer), s, met))
            names.append(("outer", number))
        elif of.elements[s] == shape:
            joining.append(s)
        else:
            return None
    if len(set(names)) != len(names):
        return None
    return Link(f, tuple(names), last, np.asarray(chain))
