"""A density with running totals in place of what they add up: what lies beside each other along an axis of a
total meets alone.

A walk that is written by its steps, `jnp.cumsum(e) * s`, has every datum read all steps before it. Its
density over `z`, the running totals of `e`, is the same, since `e[t] = z[t] - z[t - 1]` keeps volumes; there
each datum reads one element, and each step's prior two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from gibbsite.density.passes.program import Program, program_of
from gibbsite.ground.once import once
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn, bind_equation
from gibbsite.programs.jaxpr.primitives import of_kind
from gibbsite.programs.jaxpr.walker import walk
from gibbsite.programs.passes.flatten import flatten
from gibbsite.programs.passes.replaced import traced

if TYPE_CHECKING:
    from gibbsite.density.density import Density

_MOST = 3
"""Times that one site is added up: a level with a slope that walks is added up twice."""


@dataclass(frozen=True)
class Totals:
    """A density over running totals of some sites, under their names; `along` tells the axes that each is
    added up along, one after another."""

    density: "Density"
    along: Mapping[str, tuple[int, ...]]

    def steps(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of sites from those of their totals."""
        out = dict(values)
        for name, axes in self.along.items():
            for axis in axes if name in out else ():
                out[name] = _steps(out[name], axis)
        return out

    def totals(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The other way."""
        out = dict(values)
        for name, axes in self.along.items():
            for axis in axes if name in out else ():
                out[name] = jnp.cumsum(out[name], axis)
        return out


@once
def in_totals(density: "Density", sites: tuple[str, ...]) -> Totals | None:
    """The density over the running totals of those of `sites` that the model adds up; None where it adds up
    none."""
    notes = notes_in(density.cache)
    return attempted("running totals", lambda: _over_totals(density, sites, notes), lambda: None, notes)


def _over_totals(density: "Density", sites: tuple[str, ...], notes: list[str]) -> Totals | None:
    program, along = program_of(density), {}
    for name in sites:
        axes: tuple[int, ...] = ()
        while len(axes) < _MOST and (found := _added_up(program, name)) is not None:
            program, axes = found[0], (*axes, found[1])
        if axes:
            along[name] = axes[::-1]
    if not along:
        return None
    analysed = program.analysed(density.latent_vars, notes)
    return Totals(replace(density, cache={}, deviances=None, **analysed), along)


def _steps(totals: Any, axis: int) -> Any:
    first = lax.slice_in_dim(totals, 0, 1, axis=axis)
    return jnp.concatenate([first, jnp.diff(totals, axis=axis)], axis)


def _added_up(program: Program, name: str) -> tuple[Program, int] | None:
    """The program over the running totals of a site, and along which axis; None where it has none."""
    variable = program.latent_vars[name]
    shape = variable.aval.shape
    for axis in _axes(program, name):
        work = _Adding(axis, shape)
        place = list(program.latents).index(name)

        def run(*inputs: Any, work: _Adding = work, place: int = place) -> Any:
            values = [_Value(x) for x in inputs]
            values[place] = _Value(_steps(inputs[place], work.axis), scale=1.0, total=inputs[place])
            consts = [_Value(c) for c in program.closed.consts]
            found = walk(program.closed.jaxpr, consts, values, {}, work.rule, _Value)
            return [v.value for v in found]

        closed = traced(run, program.closed.jaxpr.invars)
        if work.found:
            return program.rewritten(flatten(closed, data=len(program.data_vars))), axis
    return None


def _axes(program: Program, name: str) -> list[int]:
    rank, totals = len(program.latents[name]), filter(_is_total, program.closed.jaxpr.eqns)
    read = [e for e in totals if name in program.maps.latents(e.invars[0])]
    return sorted({e.params["axis"] for e in read if e.outvars[0].aval.ndim == rank})


def _is_total(eqn: JaxprEqn) -> bool:
    return of_kind(eqn, op.RUNNING_TOTALS) and not eqn.params["reverse"]


@dataclass(frozen=True)
class _Value:
    """What an equation makes: its `value`; `narrow`, the same where it does not change along the axis, of
    length 1 there; of what is `scale` times the site plus an `offset`, these, with the site's `total`; and of
    what is joined along the axis, such a thing among it, its `parts`."""

    value: Any
    narrow: Any = None
    scale: Any = None
    offset: Any = None
    total: Any = None
    parts: "tuple[_Value, ...]" = ()

    def times(self, value: Any, by: Any, steady: Any) -> "_Value":
        """Of what is `value`, this times `by`, which is `steady` along the axis."""
        offset = None if self.offset is None else self.offset * by
        parts = tuple(p.times(p.value * steady, steady, steady) for p in self.parts)
        scale = None if self.scale is None else self.scale * steady
        return replace(self, value=value, narrow=None, scale=scale, offset=offset, parts=parts)


@dataclass
class _Adding:
    """Evaluates a program with the site's running totals known; `found` says whether there were any."""

    axis: int
    shape: tuple[int, ...]
    found: bool = False

    def rule(self, eqn: JaxprEqn, xs: list[_Value]) -> list[_Value]:
        """What an equation makes of its operands."""
        if _is_total(eqn) and eqn.params["axis"] == self.axis and (xs[0].parts or xs[0].scale is not None):
            self.found = True
            return [_Value(self._total(xs[0]))]
        values = [_Value(v) for v in bind_equation(eqn, [x.value for x in xs])]
        if len(values) == 1 and values[0].value.ndim == len(self.shape):
            values = [self._followed(eqn, xs, values[0])]
        return values

    def _total(self, x: _Value) -> Any:
        if x.scale is not None:
            own = x.scale * x.total
            return own if x.offset is None else own + jnp.cumsum(x.offset, self.axis)
        if not x.parts:
            return jnp.cumsum(x.value, self.axis)
        found: list[Any] = []
        for total in map(self._total, x.parts):
            if found and total.shape[self.axis]:
                last = found[-1].shape[self.axis]
                total = lax.slice_in_dim(found[-1], last - 1, last, axis=self.axis) + total
            found += [total] * bool(total.shape[self.axis])
        return jnp.concatenate(found, self.axis)

    def _followed(self, eqn: JaxprEqn, xs: list[_Value], made: _Value) -> _Value:
        if of_kind(eqn, op.SPREADS):
            return replace(made, narrow=self._narrow(eqn, xs[0].value))
        if of_kind(eqn, op.JOINS):
            parts = tuple(p for x in xs for p in x.parts or (x,))
            here = eqn.params.get("dimension") == self.axis and any(p.scale is not None for p in parts)
            return replace(made, parts=parts) if here else made
        moved = [i for i, x in enumerate(xs) if x.scale is not None or x.parts]
        if len(moved) != 1:
            return made
        own, others = xs[moved[0]], [x for i, x in enumerate(xs) if i != moved[0]]
        if of_kind(eqn, op.COPIES) or (of_kind(eqn, op.CONVERTS) and made.value.dtype == own.value.dtype):
            return replace(own, value=made.value)
        by = others[0] if len(others) == 1 else None
        if by is not None and of_kind(eqn, op.MULTIPLIES):
            steady = by.value if jnp.ndim(by.value) == 0 else by.narrow
            return made if steady is None else own.times(made.value, by.value, steady)
        if by is not None and not own.parts and of_kind(eqn, op.ADDS, op.SUBTRACTS):
            signs = (1.0, -1.0) if of_kind(eqn, op.SUBTRACTS) else (1.0, 1.0)
            sign, other = signs[moved[0]], signs[1 - moved[0]]
            offset = jnp.broadcast_to(other * by.value, self.shape)
            offset = offset if own.offset is None else offset + sign * own.offset
            return replace(own, value=made.value, scale=sign * own.scale, offset=offset)
        return made

    def _narrow(self, eqn: JaxprEqn, x: Any) -> Any:
        """What an array that is spread out is before it is along the axis; None where it changes there."""
        dims, shape = eqn.params["broadcast_dimensions"], eqn.params["shape"]
        if self.axis in dims and x.shape[dims.index(self.axis)] != 1:
            return None
        return lax.broadcast_in_dim(x, tuple(1 if a == self.axis else n for a, n in enumerate(shape)), dims)
