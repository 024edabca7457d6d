"""Which sites are summed out in which order and how: all elements at once where they can be, else along a
chain, else element by element.

Among sites that can go at once the next is the one whose table is smallest before it is reduced; ties go to
the site with more elements, then to the one that the program names first, so that the order is always the
same.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.tables.factor import MAX_ENTRIES, Factor, Latents, TooLarge
from gibbsite.elimination.steps.chain import chain_plan
from gibbsite.elimination.steps.chain_step import ChainStep, strip_step
from gibbsite.elimination.steps.ground import GroundStep
from gibbsite.elimination.steps.plate import PlatePlan, PlateStep, plate_plans
from gibbsite.elimination.steps.semiring import BEST, DRAW, SUM
from gibbsite.elimination.steps.step import Step, origins
from gibbsite.elimination.tables.collect import Summed, Tables
from gibbsite.errors import ModelError


class Plan:
    """The steps that sum all sites of `tables` out of its density. Raises `TooLarge` before anything runs.

    `wanted` is an order of the sites to keep to, where a person gave one; `more` are factors besides, whose
    tables whoever runs it has. Running is pure in latents and data.
    """

    def __init__(
        self,
        tables: Tables,
        wanted: Sequence[str] | None = None,
        limit: float = MAX_ENTRIES,
        more: Sequence[Factor] = (),
    ):
        self.tables, self.of, self.limit = tables, tables.of, limit
        self.probes = {
            s: Factor((s,), (np.arange(self.of.count[s]),), self.of.count[s], (self.of.sizes[s],), "")
            for s in self.of.names
        }
        self.steps: list[Step] = []
        if wanted is not None and sorted(wanted) != sorted(self.of.names):
            raise ModelError(_not_an_order(wanted, self.of.names))
        live, left = [*tables.factors, *self.probes.values(), *more], list(self.of.names)
        while left:
            step = self._next(left, live, None if wanted is None else [s for s in wanted if s in left])
            live = [f for f in live if f not in set(step.used)] + list(step.made)
            left = [s for s in left if s not in step.sites]
            self.steps.append(step)

    def _next(self, left: Sequence[str], live: Sequence[Factor], wanted: Sequence[str] | None) -> Step:
        first = left if wanted is None else wanted[:1]
        plans = plate_plans(first, live, self.of).values()
        plans = sorted(plans, key=lambda p: (p.entries, -self.of.count[p.site]))
        if plans and plans[0].entries <= self.limit:
            return PlateStep(plans[0], self.of)
        chain = chain_plan(left, live, self.of)
        if chain is not None and (wanted is None or set(wanted[: len(chain.depth)]) == set(chain.depth)):
            step = ChainStep(chain, self.of)
            if max(step.entries, step.widest) <= self.limit:
                return step
        strip = strip_step(left, live, self.of, self.limit)
        if strip is not None and (wanted is None or set(wanted[: len(strip.sites)]) == set(strip.sites)):
            return strip
        try:
            return GroundStep(first, live, self.of, self.limit)
        except TooLarge:
            if plans:  # a plate's refusal says more than that of its elements
                raise too_wide(plans[0], self.of, self.limit) from None
            raise

    # running

    def total(
        self,
        tables: Sequence[Any],
        probes: Any = None,
        mode: str = SUM,
        uniforms: Any = None,
        more: Mapping[Factor, Any] | None = None,
    ) -> Any:
        """The log of the sum over all sites of the product of the factors; `probes` are added to the tables
        of single elements, by site, `(K, elements)`, and `more` are the tables of factors besides."""
        env: dict[Factor, Any] = dict(zip(self.tables.factors, tables, strict=True))
        if probes is not None:
            env.update({self.probes[s]: p for s, p in probes.items()})
        env.update(more or {})
        out: Any = jnp.zeros(())
        for i, step in enumerate(self.steps):
            out = out + step.run(env, mode, None if uniforms is None else uniforms[i])
        return out

    def walked(
        self, latents: Latents, data: Any
    ) -> Iterator[tuple[Step, dict[Factor, Any], dict[Factor, Any]]]:
        """The steps one by one, each with the tables that it uses and those that it makes."""
        env: dict[Factor, Any] = dict(zip(self.tables.factors, self.tables(latents, data), strict=True))
        for step in self.steps:
            used = {f: env[f] for f in step.used if f in env}
            step.run(env, SUM, None)
            yield step, used, {f: env[f] for f in step.made}

    def logdensity(self, latents: Latents, data: Any, mode: str = SUM, apart: Latents | None = None) -> Any:
        """The marginal log density, a scalar; in SMOOTH mode with derivatives forwards, too. For `apart` see
        `rest` of the tables."""
        return self.tables.rest(latents, data, apart) + self.total(self.tables(latents, data), mode=mode)

    def _read_back(self, latents: Latents, data: Any, mode: str, uniforms: Any = None) -> dict[str, Any]:
        """The derivative by each element's table: what `mode` reads, `(K, elements)` by site."""
        tables = self.tables(latents, data)
        dtype = jnp.result_type(float)
        zero = {s: jnp.zeros((self.of.sizes[s], self.of.count[s]), dtype) for s in self.of.names}
        return jax.grad(lambda p: self.total(tables, p, mode, uniforms))(zero)

    def probabilities(self, latents: Latents, data: Any) -> dict[str, Any]:
        """`P(element = value)` given the latents, `(K, elements)` by site."""
        return self._read_back(latents, data, SUM)

    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """One exact joint draw, as numbers of values by site; -1 where every value has density zero."""
        keys = jax.random.split(key, len(self.steps))
        uniforms = [jax.random.uniform(k, s.uniforms) for k, s in zip(keys, self.steps, strict=True)]
        return {s: _chosen(h) for s, h in self._read_back(latents, data, DRAW, uniforms).items()}

    def best(self, latents: Latents, data: Any) -> dict[str, Any]:
        """The values that together have the largest density, as `draw`."""
        return {s: _chosen(h) for s, h in self._read_back(latents, data, BEST).items()}

    # facts

    @property
    def order(self) -> tuple[str, ...]:
        """The sites in the order in which they are summed out."""
        return tuple(s for step in self.steps for s in step.sites)

    @property
    def entries(self) -> float:
        """Entries of all tables that one evaluation makes."""
        return sum(s.entries for s in self.steps)

    @property
    def work(self) -> float:
        """Entries that an evaluation computes, those too of what is summed out within one step."""
        return sum(getattr(s, "work", s.entries) for s in self.steps)

    @property
    def widest(self) -> float:
        """Entries of the widest table per element."""
        return max(s.widest for s in self.steps)

    @property
    def operations(self) -> int:
        """Operations that are compiled one by one."""
        return sum(len(getattr(s, "operations", (s,))) for s in self.steps)

    @property
    def signature(self) -> str:
        """Equal for plans that compile to the same program for any data."""
        parts = [f"{f.sites}{f.sizes}{f.rows}" for f in self.tables.factors]
        arrays = b"".join(np.ascontiguousarray(i).tobytes() for f in self.tables.factors for i in f.index)
        valid = [s.valid for s in self.of.supports.values() if s.valid is not None]
        values = [s.values for s in self.of.supports.values()]
        digest = hashlib.sha256(arrays)
        for array in (*valid, *values):
            digest.update(np.ascontiguousarray(array).tobytes())
        return repr((parts, [s.signature for s in self.steps], digest.hexdigest()))


def _chosen(hot: Any) -> Any:
    return jnp.where(jnp.sum(hot, axis=0) > 0, jnp.argmax(hot, axis=0), -1)


def _not_an_order(wanted: Sequence[str], names: Sequence[str]) -> str:
    missing = [n for n in names if n not in wanted]
    if missing:
        return f"the order leaves out {', '.join(map(repr, missing))}; name every site to be summed out once"
    return f"the order {list(wanted)} names other sites than {list(names)}, or one of them twice"


def count(x: float) -> str:
    """A number as people write it."""
    return f"{x:,.0f}" if x < 1e15 else f"{x:.0e}".replace("e+", " × 10^")


def cost_text(steps: Sequence[Step], evaluations: float) -> str:
    """Entries and evaluations of one elimination, in one line."""
    total, widest = sum(s.entries for s in steps), max(s.entries for s in steps)
    return (
        f"{count(total)} table entries per evaluation, widest table {count(widest)}, "
        f"from {count(evaluations)} term elements"
    )


def plan_text(steps: Sequence[Step], evaluations: float) -> str:
    """The steps, numbered, and the cost."""
    lines = [f"{i}. {s.text}" for i, s in enumerate(steps, 1)]
    return "\n".join([*lines, f"   {cost_text(steps, evaluations)}"])


def too_wide(plan: PlatePlan, of: Summed, limit: float) -> TooLarge:
    """The refusal of a plan whose smallest next table is beyond the limit."""
    sizes = " × ".join(map(str, (of.sizes[plan.site], *plan.sizes)))
    met = ", ".join(dict.fromkeys(o for o, _ in plan.others))
    made_by = origins([f for f, _, _ in plan.uses])
    return TooLarge(
        f"summing out {plan.site!r} next would take a table of {sizes} × {of.count[plan.site]:,} = "
        f"{count(plan.entries)} entries, over the values of {met} that {made_by} couples it to; the limit is "
        f"{count(limit)}. Gibbs {plan.site} still works"
    )
