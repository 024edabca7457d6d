"""All elements of a site at once: factors read one of them, and of others those that it decides."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.conditional.tables.factor import Factor, rows_onto
from gibbsite.elimination.steps.step import Step, left_over, origins, reduced
from gibbsite.elimination.tables.collect import Summed


@dataclass(frozen=True, eq=False)
class PlatePlan:
    """How to sum out `site`: the factors with the axis of the site and the number of each other axis in
    `others`, which are sites with the element that each element of `site` meets."""

    site: str
    uses: tuple[tuple[Factor, int, tuple[int, ...]], ...]
    others: tuple[tuple[str, np.ndarray], ...]
    sizes: tuple[int, ...]
    entries: float


def plate_plan(site: str, live: Sequence[Factor], of: Summed) -> PlatePlan | None:
    """The plan for a site whose elements are independent given those of others that each of them meets; None
    where they are not."""
    factors = [f for f in live if site in f.sites]
    n = of.count[site]
    if any(f.sites.count(site) > 1 for f in factors):
        return None
    met: list[tuple[str, np.ndarray]] = []
    # what an element meets in no row of a factor may be anything: take what other factors say
    spread: list[tuple[Factor, int, list[tuple[str, np.ndarray]]]] = []
    for f in factors:
        place = f.sites.index(site)
        mine, columns = f.index[place], []
        for q, (other, index) in enumerate(zip(f.sites, f.index, strict=True)):
            if q == place:
                continue
            where = np.full(n, -1)
            where[mine] = index
            if not np.array_equal(where[mine], index):
                return None
            columns.append((other, where))
        spread.append((f, place, columns))
    uses = []
    for f, place, columns in spread:
        numbers = []
        for other, where in columns:
            key = _fitting(other, where, met)
            if key is None:
                met.append((other, where))
                key = len(met) - 1
            else:
                met[key] = (other, np.where(met[key][1] < 0, where, met[key][1]))
            if key in numbers:
                return None
            numbers.append(key)
        uses.append((f, place, tuple(numbers)))
    met = [(other, np.where(where < 0, max(int(where.max()), 0), where)) for other, where in met]
    for (a, x), (b, y) in itertools.combinations(met, 2):
        if a == b and (not n or np.any(x == y)):
            return None  # two axes for one element
    sizes = tuple(of.sizes[o] for o, _ in met)
    entries = float(np.prod((of.sizes[site], *sizes), dtype=float)) * n
    return PlatePlan(site, tuple(uses), tuple(met), sizes, entries)


def _fitting(other: str, where: np.ndarray, met: Sequence[tuple[str, np.ndarray]]) -> int | None:
    """A column that says the same wherever both say anything, and meets this one somewhere."""
    for i, (name, known) in enumerate(met):
        both = (known >= 0) & (where >= 0)
        if name == other and np.any(both) and np.array_equal(known[both], where[both]):
            return i
    return None


class PlateStep(Step):
    """Sums out one site, all elements at once; what is left is a table of the elements that they meet."""

    def __init__(self, plan: PlatePlan, of: Summed):
        site, n = plan.site, of.count[plan.site]
        self.plan, self.of = plan, of
        self.sites, self.used = (site,), tuple(f for f, _, _ in plan.uses)
        self.entries = plan.entries
        self.widest = float(np.prod((of.sizes[site], *plan.sizes), dtype=float))
        self.uniforms = (n,)
        self._onto, self.made = left_over(plan.others, of.sizes, self.used)
        given = "" if not plan.others else " given " + ", ".join(dict.fromkeys(o for o, _ in plan.others))
        size = " × ".join(map(str, (of.sizes[site], *plan.sizes)))
        many = "1 element" if n == 1 else f"{n:,} elements at once"
        self.text = f"sum out {site}{given}: {many}, tables {size} × {n:,}  {origins(self.used)}".rstrip()

    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        """Adds up the factors, reduces the site's axis, and sums onto the elements that are met."""
        plan, n = self.plan, self.of.count[self.plan.site]
        tables = []
        for f, place, numbers in plan.uses:
            if f in env:
                names = [*numbers[:place], "site", *numbers[place:]]
                tables.append((names, rows_onto(env[f], f.index[place], n)))
        axes, sizes = ["site", *range(len(plan.others))], (self.of.sizes[plan.site], *plan.sizes)
        return self._left(env, self._onto, reduced(tables, axes, sizes, uniforms, mode), n)


def plate_plans(left: Sequence[str], live: Sequence[Factor], of: Summed) -> Mapping[str, PlatePlan]:
    """The plans of all sites that have one."""
    found = {s: plate_plan(s, live, of) for s in left}
    return {s: p for s, p in found.items() if p is not None}
