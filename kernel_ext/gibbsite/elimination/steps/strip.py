"""Sites of few rows and many columns, whose rows meet: filtered along the columns, all rows at a time.

A grid of 4 × 1,000, or a factorial chain whose chains are a plate: each row is taken for a site of its own,
and the chain's filter carries their values together, K to the number of rows (the transfer matrix of
statistical mechanics, summed out one site after another). One program, however long the strip is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.conditional.tables.factor import Factor, taken
from gibbsite.elimination.steps.chain import chain_plan, coupled_shape
from gibbsite.elimination.steps.chain_step import ChainStep
from gibbsite.elimination.steps.step import Step, origins
from gibbsite.elimination.tables.collect import Summed

_MOST_ROWS = 12
_FEWEST_COLUMNS = 8
"""Of fewer columns single elements are as good."""


def strip_step(left: Sequence[str], live: Sequence[Factor], of: Summed, limit: float) -> Step | None:
    """The filter along the longest axis of coupled sites; None where there is none within the limit."""
    _, shape = coupled_shape(left, live, of)
    if len(shape) < 2:
        return None
    axis = int(np.argmax(shape))
    rows = int(np.prod([n for a, n in enumerate(shape) if a != axis]))
    if not 1 < rows <= min(_MOST_ROWS, shape[axis]) or shape[axis] < _FEWEST_COLUMNS:
        return None
    split = _Split([s for s in left if of.elements[s] == shape], shape, axis, of)
    factors = [part for f in live for part in split.parts(f)]
    names = [n for s in left for n in split.names.get(s, [s])]
    plan = chain_plan(names, factors, split.of)
    if plan is None:
        return None
    whole = [s for s, own in split.names.items() if set(own) <= set(plan.depth)]
    if len(plan.depth) != sum(len(split.names[s]) for s in whole):
        return None
    inner = ChainStep(plan, split.of)
    if max(inner.entries, inner.widest) > limit:
        return None
    return StripStep(inner, split, whole, rows)


class _Split:
    """Sites of one shape with their rows as sites of their own, and factors over these."""

    def __init__(self, sites: Sequence[str], shape: tuple[int, ...], axis: int, of: Summed):
        self._shape, self._axis = shape, axis
        self._beside = tuple(n for a, n in enumerate(shape) if a != axis)
        rows = range(int(np.prod(self._beside)))
        self.names = {s: [f"{s}, row {r}" for r in rows] for s in sites}
        supports = dict(of.supports)
        for s, own in self.names.items():
            # what an element may not be is said by the tables
            one = FiniteSupport(of.supports[s].values, (shape[axis],), None)
            supports.update(dict.fromkeys(own, one))
        self.of = Summed(supports)
        self.sources: dict[Factor, tuple[Factor, np.ndarray]] = {}

    def parts(self, f: Factor) -> list[Factor]:
        """A factor by which rows of the strip its reads are in."""
        mine = [q for q, s in enumerate(f.sites) if s in self.names]
        if not mine:
            return [f]
        places = {q: np.unravel_index(f.index[q], self._shape) for q in mine}
        beside = [
            np.ravel_multi_index([p for a, p in enumerate(places[q]) if a != self._axis], self._beside)
            for q in mine
        ]
        keys, which = np.unique(np.stack(beside), axis=1, return_inverse=True)
        out = []
        for n, key in enumerate(keys.T):
            rows = np.flatnonzero(which.reshape(-1) == n)
            named = dict(zip(mine, key, strict=True))
            part = replace(
                f,
                sites=tuple(self.names[s][named[q]] if q in named else s for q, s in enumerate(f.sites)),
                index=tuple(
                    (places[q][self._axis] if q in named else f.index[q])[rows] for q in range(len(f.sites))
                ),
                rows=len(rows),
            )
            self.sources[part] = f, rows
            out.append(part)
        return out


class StripStep(Step):
    """The filter `inner` of rows, as a step of the sites that these are rows of."""

    def __init__(self, inner: ChainStep, split: _Split, sites: Sequence[str], rows: int):
        self._inner, self._sources = inner, split.sources
        self.sites = tuple(sites)
        self.used = tuple(dict.fromkeys(split.sources[f][0] if f in split.sources else f for f in inner.used))
        self.made, self.uniforms = inner.made, inner.uniforms
        self.entries, self.widest = inner.entries, inner.widest
        steps, state = inner.plan.steps, int(np.prod(inner.state))
        self.text = (
            f"filter {', '.join(sites)} along {steps:,} steps, {rows} rows at a time: state {state:,}  "
            f"{origins(self.used)}"
        ).rstrip()

    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        """Hands the rows of the tables on."""
        tables = {}
        for f in self._inner.used:
            whole, rows = self._sources.get(f, (f, None))
            if whole in env:
                tables[f] = env[whole] if rows is None else taken(env[whole], rows, whole.rows)
        out = self._inner.run(tables, mode, uniforms)
        env.update({f: tables[f] for f in self.made})
        return out
