"""Discrete sites summed out of a density exactly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.group import updated_together
from gibbsite.density import Density, rerolled
from gibbsite.elimination.cost import cost_text, plan_text
from gibbsite.elimination.plan import Plan
from gibbsite.elimination.steps.semiring import SMOOTH
from gibbsite.elimination.steps.step import Step, elements
from gibbsite.elimination.tables.collect import Summed, Tables, summed
from gibbsite.elimination.tables.factor import Factor
from gibbsite.elimination.written import Axis, written
from gibbsite.errors import ModelError
from gibbsite.ground.sensible import random_key

Latents = Mapping[str, Any]

MOST_OPERATIONS = 64
"""Operations of a joint draw that nobody asked for."""


@dataclass(frozen=True, eq=False)
class Walked:
    """One step at given values of the other latents: in words, the tables it uses and those it makes.

    Tables hold probabilities and densities (not logarithms), one axis per site over its values in the order
    of their support, instances on the last axis; they go by the model's statements and the sites they read.
    `axes` has the sites of each table's axes with their values. Printed, tables have them as heads.
    """

    text: str
    used: Mapping[str, np.ndarray]
    made: Mapping[str, np.ndarray]
    axes: Mapping[str, Sequence[Axis]]

    def __str__(self) -> str:
        lines = [self.text]
        for verb, tables in (("uses", self.used), ("makes", self.made)):
            lines += [f"{verb} {name}:\n{written(t, self.axes[name])}" for name, t in tables.items()]
        return "\n".join(lines)


def _walked(step: Step, used: Mapping[Factor, Any], made: Mapping[Factor, Any], of: Summed) -> Walked:
    values = {s: [_in_words(v) for v in support.values] for s, support in of.supports.items()}
    axes: dict[str, Sequence[Axis]] = {}

    def readable(tables: Mapping[Factor, Any]) -> dict[str, np.ndarray]:
        together: dict[Any, list[Factor]] = {}
        for f in tables:  # a statement may have several terms of the same sites, whose product it is
            together.setdefault((f.origin, f.sites, tuple(map(elements, f.index))), []).append(f)
        out = {}
        for f, *more in together.values():
            name = f"{f.origin}({', '.join(f.sites)})"
            name = name if name not in axes else f"{name} #{len(axes)}"
            axes[name] = [(s, values[s]) for s in f.sites]
            total = sum(np.asarray(tables[g], np.float64) for g in (f, *more))
            out[name] = np.exp(total)[..., 0] if f.rows == 1 else np.exp(total)
        return out

    return Walked(step.text, readable(used), readable(made), axes)


def _in_words(value: Any) -> str:
    return f"{value:g}" if np.ndim(value) == 0 else "".join(str(value).split(" "))


class Marginal:
    """The density of everything but `sites`, which are summed out; and their joint conditional.

    A `state` is a dict of constrained values that holds every other latent; extra entries are ignored. All
    methods are pure, and work under `jit` and `vmap`. `str()` tells the steps with their tables.
    """

    def __init__(self, density: Density, sites: Sequence[str], order: Sequence[str] | None = None):
        self.sites = tuple(sites)
        self._written = density
        self._units, self.density = _units(density, self.sites)
        wanted = None if order is None else _as_units(order, self._units)
        tables = Tables(self.density, summed(self.density, list(self._units)))
        self.plan = Plan(tables, wanted)

    @property
    def of(self) -> Summed:
        """The sites that are summed out, with their supports, as the density knows them."""
        return self.plan.of

    @property
    def others(self) -> tuple[str, ...]:
        """The latents that are left, as the model names them."""
        gone = {n for u, m in self._units.items() for n in (u, *m, *self.density.members.get(u, ()))}
        return tuple(n for n in self._written.latents if n not in gone)

    def logdensity(self, state: Mapping[str, Any]) -> Any:
        """Log density of all other latents, up to a constant: a scalar. Derivatives exist forwards and
        backwards, to any order."""
        return self._jitted["logdensity"](self._latents(state), self._data)

    def sample(self, key: Any, state: Mapping[str, Any]) -> dict[str, Any]:
        """One exact joint draw of the sites given the rest: arrays of `site.shape` by name."""
        return self._jitted["draw"](random_key(key), self._latents(state), self._data)

    def probs(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`P(site = value)` given the rest, element by element: `site.shape + (K,)` by name."""
        return self._jitted["probs"](self._latents(state), self._data)

    def best(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the sites with the largest joint density given the rest, by name."""
        return self._jitted["best"](self._latents(state), self._data)

    def steps(self, state: Mapping[str, Any]) -> tuple[Walked, ...]:
        """What each step does at `state`, with its tables: to be read, step by step."""
        found = self.plan.walked(self._latents(state), self._data)
        return tuple(_walked(step, used, made, self.of) for step, used, made in found)

    @property
    def order(self) -> tuple[str, ...]:
        """The sites in the order in which they are summed out."""
        return tuple(m for u in self.plan.order for m in self._units[u])

    @property
    def cost(self) -> str:
        """The work of one evaluation, in words."""
        return cost_text(self.plan.steps, self.plan.tables.evaluations)

    @property
    def signature(self) -> str:
        """Equal for marginals that compile to the same program for any data."""
        return self.plan.signature

    def support(self, site: str) -> Any:
        """The K values that each element of a site may take, in the order of `probs`."""
        return self.of.supports[self._unit(site)].values

    @property
    def reason(self) -> str:
        """How the sites are drawn together, in words."""
        return f"{' and '.join(self._units)} drawn jointly: {self}"

    def __str__(self) -> str:
        return plan_text(self.plan.steps, self.plan.tables.evaluations)

    def __repr__(self) -> str:
        return f"<Marginal without {', '.join(self.sites)}: {self.cost}>"

    def members(self, unit: str) -> tuple[str, ...]:
        """The sites, as the model names them, that a site of the plan stands for."""
        return self._units[unit]

    def left(self, latents: Latents) -> dict[str, Any]:
        """Of values by name, those of the sites that are left, as `density` names them."""
        return self._packed(latents)

    # the same with complete latents and explicit data, for kernels

    def logdensity_at(self, latents: Latents, data: Any, apart: Latents | None = None) -> Any:
        """As `logdensity`, at values of the other latents by name and explicit data arrays; to be pulled
        back. `apart`: how far sites are from their locations, where that is better known than from values."""
        return self.plan.logdensity(self._packed(latents), data, apart=apart)

    def draw_at(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """As `sample`; an element without a possible value keeps the one it has in `latents`."""
        return self._values(self.plan.draw(key, self._packed(latents), data), latents)

    def probs_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        """As `probs`."""
        out = {}
        for unit, p in self.plan.probabilities(self._packed(latents), data).items():
            p = jnp.moveaxis(p, 0, -1).reshape((*self.of.elements[unit], -1))
            out.update(self._unpacked(unit, p))
        return out

    def best_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        """As `best`."""
        return self._values(self.plan.best(self._packed(latents), data), latents)

    # names and shapes

    def _values(self, numbers: Mapping[str, Any], latents: Latents) -> dict[str, Any]:
        """Values by site from numbers of values per element."""
        now = self.density.packed(latents)
        out = {}
        for unit, index in numbers.items():
            support = self.of.supports[unit]
            values = jnp.asarray(support.values)[jnp.maximum(index, 0)]
            values = values.reshape(support.elements + support.values.shape[1:])
            if unit in now:
                keep = (index < 0).reshape(support.elements + (1,) * (support.values.ndim - 1))
                values = jnp.where(keep, now[unit], values)
            out.update(self._unpacked(unit, values.astype(self.density.sites[unit].dtype)))
        return out

    def _unpacked(self, unit: str, value: Any) -> dict[str, Any]:
        members = self._units[unit]
        return {m: value if unit in members else value[i] for i, m in enumerate(members)}

    def _unit(self, site: str) -> str:
        return next(u for u, members in self._units.items() if site == u or site in members)

    def _packed(self, latents: Latents) -> dict[str, Any]:
        packed = self.density.packed(latents)
        return {n: v for n, v in packed.items() if n in self.density.latent_vars and n not in self._units}

    def _latents(self, state: Mapping[str, Any]) -> dict[str, Any]:
        values = self.density.state_values(state, without=tuple(self._units))
        return {n: v for n, v in values.items() if n not in self._units}

    @property
    def _data(self) -> tuple[Any, ...]:
        return tuple(self.density.arguments.arrays)

    @cached_property
    def _jitted(self) -> dict[str, Any]:
        return {
            "logdensity": jax.jit(partial(self.plan.logdensity, mode=SMOOTH)),
            "draw": jax.jit(self.draw_at),
            "probs": jax.jit(self.probs_at),
            "best": jax.jit(self.best_at),
        }


def _units(density: Density, sites: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], Density]:
    """Each site as the density that is worked on knows it, with the names it stands for; and that density.

    Groups of alike sites are array sites where they are summed out as a whole.
    """
    grouped = rerolled(density)
    flat = [m for s in sites for m in ((s,) if s in density.sites else density.groups.get(s, (s,)))]
    for site in flat:
        density.site(site)
    if len(set(flat)) < len(flat):
        again = next(s for s in flat if flat.count(s) > 1)
        raise ModelError(f"{again!r} is named twice among the sites to sum out; name it once")
    units = updated_together(density, flat)
    groups = {m: g for g, members in grouped.members.items() for m in members}
    if grouped is density or any(u in groups and u not in grouped.sites for u in units):
        return {s: (s,) for s in flat}, density
    # a group asked for by its name is answered by its name
    return {u: (u,) if u in sites else members for u, members in units.items()}, grouped


def _as_units(order: Sequence[str], units: Mapping[str, tuple[str, ...]]) -> list[str]:
    again = next((s for s in order if list(order).count(s) > 1), None)
    if again is not None:
        raise ModelError(f"the order names {again!r} twice")
    owner = {m: u for u, members in units.items() for m in members}
    return list(dict.fromkeys(owner.get(s, s) for s in order))


def marginal_of(density: Density, sites: Sequence[str], order: Sequence[str] | None = None) -> Marginal:
    """The marginal of a density without `sites` (default: every discrete site of finite support).

    Raises `UnknownNameError`, and `ModelError` for sites that cannot be summed out or take too large a table.
    """
    key = ("marginal", tuple(sites), None if order is None else tuple(order))
    if key not in density.cache:
        with jax.ensure_compile_time_eval():
            density.cache[key] = Marginal(density, sites, order)
    return density.cache[key]


def joint_marginal(density: Density, sites: Sequence[str], insist: bool = True) -> Marginal | str:
    """The marginal that draws sites jointly, or in words why there is none.

    Unless one insists, one that takes many operations to compile counts as none.
    """
    try:
        found = marginal_of(density, sites)
    except ModelError as problem:
        return str(problem)
    operations = found.plan.operations
    if operations > MOST_OPERATIONS and not insist:
        return f"it takes {operations:,} operations to compile; ask for it with joint=True"
    return found
