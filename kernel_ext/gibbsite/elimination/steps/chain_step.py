"""A chain's plan → the operation that filters it, over tables whose axes have names; strips likewise."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.conditional.tables.factor import Factor, rows_onto, taken
from gibbsite.elimination.steps.chain import ChainPlan, chain_plan, coupled_shape
from gibbsite.elimination.steps.semiring import DRAW, filtered, reduce_first
from gibbsite.elimination.steps.step import Name, Named, Step, added, left_over, origins
from gibbsite.elimination.tables.collect import Summed


def summed_out(tables: Sequence[Named], names: Sequence[Name], uniforms: Any, mode: str) -> list[Named]:
    """`tables` with `names` summed out, smallest table first; `uniforms[i]` belongs to `names[i]`."""
    pool, left = list(tables), list(names)
    while left:
        sizes = {}
        for name in left:
            mine = [t for t in pool if name in t[0]]
            axes = {n: x.shape[own.index(n)] for own, x in mine for n in own}
            sizes[name] = float(np.prod(list(axes.values()), dtype=float))
        name = min(left, key=sizes.__getitem__)
        left.remove(name)
        mine = [t for t in pool if name in t[0]]
        if not mine:
            continue
        scope = [name, *dict.fromkeys(n for own, _ in mine if name in own for n in own if n != name)]
        u = None if uniforms is None else uniforms[names.index(name)]
        pool = [t for t in pool if name not in t[0]]
        pool.append((scope[1:], reduce_first(added(mine, scope), u, mode)))
    return pool


class Placed(NamedTuple):
    """A table by steps, `[steps or 1, *names, chains or 1]`: from `first` on the same at every step, or one
    per step; `early` ones are those of the steps before the scan alone."""

    names: tuple[Name, ...]
    array: Any
    first: int
    early: bool

    @property
    def constant(self) -> bool:
        """Whether one table stands for all steps."""
        return not self.early and self.array.shape[0] == 1


class ChainStep(Step):
    """Sums out the sites of a chain by one scan along it; what is left is a table of the outer sites."""

    def __init__(self, plan: ChainPlan, of: Summed):
        self.plan, self.of = plan, of
        self.sites = tuple(plan.depth)
        self.used = tuple(link.factor for link in plan.links)
        self._outer: list[Name] = [("outer", i) for i in range(len(plan.outer))]
        lags = [(s, lag) for s, d in plan.depth.items() for lag in range(1, d + 1)]
        self._carry: list[Name] = [*self._outer, *lags]
        self._size: dict[Any, int] = {("outer", i): of.sizes[s] for i, (s, _) in enumerate(plan.outer)}
        self._size.update({(s, lag): of.sizes[s] for s, d in plan.depth.items() for lag in range(d + 1)})
        message = float(np.prod([self._size[c] for c in self._carry], dtype=float))
        fresh = float(np.prod([of.sizes[s] for s in plan.depth], dtype=float))
        self.entries = message * plan.chains * plan.steps
        # what leaves a message is summed out one site after another
        self.work = self.entries * sum(of.sizes[s] for s in plan.depth)
        self.widest = message * fresh * plan.chains
        # per step one number per site, and for the first and last steps by hand as many as there are values
        self._by_hand = (plan.reach + 1) * len(plan.depth)
        self.uniforms = (plan.steps + 2, self._by_hand, plan.chains)
        self._onto, self.made = left_over(plan.outer, of.sizes, self.used)
        self.state = tuple(self._size[c] for c in self._carry)
        state = " × ".join(map(str, self.state))
        given = "" if not plan.outer else " given " + ", ".join(dict.fromkeys(s for s, _ in plan.outer))
        beside = f", {plan.chains:,} chains side by side" if plan.chains > 1 else ""
        self.text = (
            f"filter {', '.join(self.sites)} along {plan.steps:,} steps{given}: state {state}{beside}  "
            f"{origins(self.used)}"
        ).rstrip()

    def _placed(self, env: dict[Factor, Any]) -> list[Placed]:
        """Tables by the steps at which they are complete; one table per scope, so that a step adds as little
        as it can."""
        reach, steps, chains = self.plan.reach, self.plan.steps, self.plan.chains
        merged: dict[Any, Placed] = {}
        for link in self.plan.links:
            if link.factor not in env:
                continue
            table, first = env[link.factor], int(link.step.min())
            early = int(link.step.max()) < reach
            whole = link.factor.rows == (steps - first) * chains
            if table.shape[-1] == 1 and whole and first <= reach:
                placed = Placed(link.names, jnp.moveaxis(table, -1, 0)[..., None], first, False)
            else:
                length = reach if early else steps
                table = jnp.broadcast_to(table, (*table.shape[:-1], link.factor.rows))
                table = rows_onto(table, link.step * chains + link.chain, length * chains)
                table = jnp.broadcast_to(table, (*table.shape[:-1], length * chains))
                array = jnp.moveaxis(table.reshape(*table.shape[:-1], length, chains), -2, 0)
                placed = Placed(link.names, array, 0, early)
            key = (placed.names, placed.first if placed.constant else None, placed.early)
            if key in merged:
                placed = placed._replace(array=merged[key].array + placed.array)
            merged[key] = placed
        return list(merged.values())

    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        """Filters, and sums the outer sites' tables onto the elements that are met."""
        plan, reach = self.plan, self.plan.reach
        tables = self._placed(env)
        u_first, u_last, u_steps = (None,) * 3 if uniforms is None else (uniforms[-2], uniforms[-1], uniforms)
        message = self._started(tables, u_first, mode)
        later = [t for t in tables if not t.early]
        moving = [(t.names, t.array[reach:]) for t in later if not t.constant]
        standing = [(t.names, t.array[0]) for t in later if t.constant]
        oldest = [(s, d) for s, d in plan.depth.items()]
        after = [c if c in self._outer else (c[0], c[1] - 1) for c in self._carry]

        def advance(a: Any, now: Any, still: Any, u: Any) -> Any:
            pool: list[Named] = [(self._carry, a)]
            pool += [(n, x) for (n, _), x in zip(moving, now, strict=True)]
            pool += [(n, x) for (n, _), x in zip(standing, still, strict=True)]
            return added(summed_out(pool, oldest, u if mode == DRAW else None, mode), after)

        found: Any = filtered(
            advance,
            message,
            [x for _, x in moving],
            [x for _, x in standing],
            # without moving tables a scan has to be told its length by something
            np.zeros(plan.steps - reach, np.float32) if u_steps is None else u_steps[reach : plan.steps],
            mode,
        )
        message, more = found
        lags = [c for c in self._carry if c not in self._outer]
        out = added(summed_out([(self._carry, message)], lags, u_last, mode), self._outer) + more
        return self._left(env, self._onto, out, plan.chains)

    def _started(self, tables: list[Placed], u: Any, mode: str) -> Any:
        """The message before the scan: its first steps by hand, where lags reach back too far."""
        reach = self.plan.reach
        pool: list[Named] = []
        for t in range(reach):
            for names, x, first, early in tables:
                if t < first or any(n[0] != "outer" and n[1] > t for n in names):
                    continue
                at = tuple(n if n[0] == "outer" else (n[0], "at", t - n[1]) for n in names)
                pool.append((at, x[t] if early or x.shape[0] > 1 else x[0]))
        wanted = [c if c in self._outer else (c[0], "at", reach - c[1]) for c in self._carry]
        early = [(s, "at", t) for s in self.plan.depth for t in range(reach) if (s, "at", t) not in wanted]
        full = (*(self._size[c] for c in self._carry), self.plan.chains)
        found = summed_out(pool, early, u, mode)
        return jnp.broadcast_to(added(found, wanted), full) if found else jnp.zeros(full)


# Sites of few rows and many columns, whose rows meet: filtered along the columns, all rows at a time.
#
# A grid of 4 × 1,000, or a factorial chain whose chains are a plate: each row is taken for a site of its
# own, and the chain's filter carries their values together, K to the number of rows (the transfer matrix of
# statistical mechanics, summed out one site after another). One program, however long the strip is.


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
        self.entries, self.widest, self.work = inner.entries, inner.widest, inner.work
        steps, state = inner.plan.steps, int(np.prod(inner.state))
        self.text = (
            f"filter {', '.join(sites)} along {steps:,} steps, {rows} rows at a time: state {state:,}  "
            f"{origins(self.used)}"
        ).rstrip()

    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        tables = {}
        for f in self._inner.used:
            whole, rows = self._sources.get(f, (f, None))
            if whole in env:
                tables[f] = env[whole] if rows is None else taken(env[whole], rows, whole.rows)
        out = self._inner.run(tables, mode, uniforms)
        env.update({f: tables[f] for f in self.made})
        return out
