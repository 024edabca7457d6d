"""A chain's plan → the operation that filters it."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.elimination.steps.chain import ChainPlan
from gibbsite.elimination.steps.filter import filtered
from gibbsite.elimination.steps.named import Name, Named, added, summed_out
from gibbsite.elimination.steps.rows import rows_onto
from gibbsite.elimination.steps.semiring import DRAW
from gibbsite.elimination.steps.step import Step, origins
from gibbsite.elimination.tables.collect import Summed
from gibbsite.elimination.tables.factor import Factor


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
        self.widest = message * fresh * plan.chains
        # per step one number per site, and for the first and last steps by hand as many as there are values
        self._by_hand = (plan.reach + 1) * len(plan.depth)
        self.uniforms = (plan.steps + 2, self._by_hand, plan.chains)
        self.made = ()
        if plan.outer:
            rows, inverse = np.unique(np.stack([m for _, m in plan.outer]), axis=1, return_inverse=True)
            self._onto, self._rows = inverse.reshape(-1), rows.shape[1]
            sizes = tuple(of.sizes[s] for s, _ in plan.outer)
            origin = " ".join(dict.fromkeys(f.origin for f in self.used if f.origin))
            self.made = (Factor(tuple(s for s, _ in plan.outer), tuple(rows), self._rows, sizes, origin),)
        state = " × ".join(str(self._size[c]) for c in self._carry)
        given = "" if not plan.outer else " given " + ", ".join(dict.fromkeys(s for s, _ in plan.outer))
        beside = f", {plan.chains:,} chains side by side" if plan.chains > 1 else ""
        self.text = (
            f"filter {', '.join(self.sites)} along {plan.steps:,} steps{given}: state {state}{beside}  "
            f"{origins(self.used)}"
        ).rstrip()

    def _placed(self, env: dict[Factor, Any]) -> list[tuple[tuple[Name, ...], Any, int]]:
        """Tables by the steps at which they are complete: names, array `[steps or 1, *names, chains or 1]`,
        and the first step of one that stays the same from then on."""
        steps, chains = self.plan.steps, self.plan.chains
        merged: dict[Any, tuple[tuple[Name, ...], Any, int]] = {}
        for link in self.plan.links:
            if link.factor not in env:
                continue
            table, first = env[link.factor], int(link.step.min())
            whole = link.factor.rows == (steps - first) * chains
            if table.shape[-1] == 1 and whole and first <= self.plan.reach:
                array, since = jnp.moveaxis(table, -1, 0)[..., None], first
            else:
                table = jnp.broadcast_to(table, (*table.shape[:-1], link.factor.rows))
                table = rows_onto(table, link.step * chains + link.chain, steps * chains)
                table = jnp.broadcast_to(table, (*table.shape[:-1], steps * chains))
                array, since = jnp.moveaxis(table.reshape(*table.shape[:-1], steps, chains), -2, 0), 0
            key = (link.names, since if array.shape[0] == 1 else None)
            if key in merged:  # one table per scope: a step adds as little as it can
                array = merged[key][1] + array
            merged[key] = (link.names, array, since)
        return list(merged.values())

    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        """Filters, and sums the outer sites' tables onto the elements that are met."""
        plan, reach = self.plan, self.plan.reach
        tables = self._placed(env)
        u_first, u_last, u_steps = (None,) * 3 if uniforms is None else (uniforms[-2], uniforms[-1], uniforms)
        message = self._started(tables, u_first, mode)
        moving = [(n, x[reach:]) for n, x, _ in tables if x.shape[0] != 1]
        standing = [(n, x[0]) for n, x, _ in tables if x.shape[0] == 1]
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
        )
        message, more = found
        lags = [c for c in self._carry if c not in self._outer]
        out = added(summed_out([(self._carry, message)], lags, u_last, mode), self._outer) + more
        if not self.made:
            return jnp.sum(out)
        out = jnp.broadcast_to(out, (*out.shape[:-1], plan.chains))
        env[self.made[0]] = rows_onto(out, self._onto, self._rows)
        return jnp.zeros(())

    def _started(self, tables: list[tuple[tuple[Name, ...], Any, int]], u: Any, mode: str) -> Any:
        """The message before the scan: its first steps by hand, where lags reach back too far."""
        reach = self.plan.reach
        pool: list[Named] = []
        for t in range(reach):
            for names, x, since in tables:
                if t < since or any(n[0] != "outer" and n[1] > t for n in names):
                    continue
                at = tuple(n if n[0] == "outer" else (n[0], "at", t - n[1]) for n in names)
                pool.append((at, x[0] if x.shape[0] == 1 else x[t]))
        wanted = [c if c in self._outer else (c[0], "at", reach - c[1]) for c in self._carry]
        early = [(s, "at", t) for s in self.plan.depth for t in range(reach) if (s, "at", t) not in wanted]
        full = (*(self._size[c] for c in self._carry), self.plan.chains)
        found = summed_out(pool, early, u, mode)
        return jnp.broadcast_to(added(found, wanted), full) if found else jnp.zeros(full)
