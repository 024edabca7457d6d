"""Discrete sites summed out of a density exactly, by tables, which can be printed."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.conditional.tables.factor import Factor
from gibbsite.density import Density
from gibbsite.elimination.integrals.conjugate import Latents, Moments
from gibbsite.elimination.marginal import Marginal, as_units
from gibbsite.elimination.plan import Plan, cost_text, plan_text
from gibbsite.elimination.steps.semiring import SMOOTH, SUM
from gibbsite.elimination.steps.step import Step, elements
from gibbsite.elimination.tables.collect import Summed, Tables, summed

Axis = tuple[str, Sequence[str]]
"""A site and its values, in words."""

_MOST_ROWS, _MOST_COLUMNS = 24, 8
# densities keep away from zero by the least positive number; beside the others of a table that is zero
_LEAST = 1e-30


def written(table: np.ndarray, axes: Sequence[Axis]) -> str:
    """A table with an axis per site, and one more for its instances if it has several.

    The last axis makes the columns; long tables are cut, and say by how much.
    """
    heads = [[f"{site}={v}" for v in values] for site, values in axes]
    if table.ndim > len(axes):
        heads.append([f"[{i}]" for i in range(table.shape[-1])])
    *lead, columns = heads if len(heads) > 1 else [[], *heads]
    names = ["  ".join(row) for row in itertools.product(*(h for h in lead if h))]
    table = np.where(table < _LEAST * table.max(initial=0), 0.0, table).reshape(len(names), -1)
    cells = [[f"{x:.4g}" for x in row[:_MOST_COLUMNS]] for row in table]
    more = len(columns) - _MOST_COLUMNS
    lines = [["", *columns[:_MOST_COLUMNS]], *([n, *c] for n, c in zip(names, cells, strict=True))]
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = [
        "  ".join([line[0].ljust(wide[0]), *(x.rjust(w) for x, w in zip(line[1:], wide[1:], strict=True))])
        for line in lines[: _MOST_ROWS + 1]
    ]
    if more > 0:
        out[0] += f"  … {more:,} more"
    if len(names) > _MOST_ROWS:
        out.append(f"… {len(names) - _MOST_ROWS:,} rows more")
    return "\n".join(line.rstrip() for line in out)


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


class TableMarginal(Marginal):
    """Discrete sites summed out: `plan` says how, `of` knows them with their supports."""

    gone = "summed out"

    def __init__(self, density: Density, sites: Sequence[str], order: Sequence[str] | None = None):
        super().__init__(density, sites)
        wanted = None if order is None else as_units(order, self._units)
        tables = Tables(self.density, summed(self.density, list(self._units)))
        self.plan = Plan(tables, wanted)

    @property
    def of(self) -> Summed:
        """The sites that are summed out, with their supports, as the density knows them."""
        return self.plan.of

    def steps(self, state: Mapping[str, Any]) -> tuple[Walked, ...]:
        """What each step does at `state`, with its tables: to be read, step by step."""
        found = self.plan.walked(self._latents(state), self._data)
        return tuple(_walked(step, used, made, self.of) for step, used, made in found)

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(m for u in self.plan.order for m in self._units[u])

    @property
    def cost(self) -> str:
        """The work of one evaluation, in words."""
        return cost_text(self.plan.steps, self.plan.tables.evaluations)

    @property
    def signature(self) -> str:
        return self.plan.signature

    def support(self, site: str) -> Any:
        """The K values that each element of a site may take, in the order of `probs`."""
        return self.of.supports[self._unit(site)].values

    def __str__(self) -> str:
        return plan_text(self.plan.steps, self.plan.tables.evaluations)

    @property
    def read(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
        written = set(self.plan.tables.factors)  # and not what earlier steps have made of them
        for step in self.plan.steps:
            near = [n for f in step.used if f in written for n in f.origin.split(" ") if n]
            near += self.names_of(unit for f in (*step.used, *step.made) for unit in f.sites)
            yield self.names_of(step.sites), tuple(near), step.text

    def logdensity_at(
        self, latents: Latents, data: Any, apart: Latents | None = None, held: bool = True
    ) -> Any:
        return self.plan.logdensity(self.left(latents), data, mode=SUM if held else SMOOTH, apart=apart)

    def settled_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        return self.plan_values(self.plan.best(self.left(latents), data), {})

    def draw_at(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """As `sample`; an element without a possible value keeps the one it has in `latents`."""
        numbers = self.plan.draw(key, self.left(latents), data)
        return self._by_name(self.plan_values(numbers, self.density.packed(latents)))

    def probs_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        found = self.plan.probabilities(self.left(latents), data)
        shapes = self.of.elements
        return self._by_name({u: jnp.moveaxis(p, 0, -1).reshape(*shapes[u], -1) for u, p in found.items()})

    def moments_at(self, latents: Latents, data: Any) -> dict[str, Moments]:
        out = {}
        for unit, p in self.plan.probabilities(self.left(latents), data).items():
            out.update(of_values(self, unit, self.of.supports[unit], p))
        return out

    def plan_values(self, numbers: Mapping[str, Any], now: Latents) -> dict[str, Any]:
        """Values by unit from numbers of values per element; where there is none, the one of `now`."""
        out = {}
        for unit, index in numbers.items():
            support = self.of.supports[unit]
            values = jnp.asarray(support.values)[jnp.maximum(index, 0)]
            values = values.reshape(support.elements + support.values.shape[1:])
            if unit in now:
                keep = (index < 0).reshape(support.elements + (1,) * (support.values.ndim - 1))
                values = jnp.where(keep, now[unit], values)
            out[unit] = values.astype(self.density.sites[unit].dtype)
        return out


def of_values(marginal: Marginal, unit: str, support: FiniteSupport, p: Any) -> dict[str, Moments]:
    """Mean and variance of the values of a discrete site with probabilities `p` `[K, elements]`."""
    values = jnp.asarray(support.values, jnp.result_type(float)).reshape(support.size, -1)
    shape = marginal.density.sites[unit].shape
    mean = jnp.einsum("ke,kv->ev", p, values)
    variance = jnp.einsum("ke,kev->ev", p, (values[:, None] - mean[None]) ** 2)
    return marginal._named(unit, Moments(mean.reshape(shape), variance.reshape(shape)))
