"""Whole numbers of the data that wrap around in what a model computes of them: JAX's have 32 bits, or
fewer, and pandas' 64."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import known_numbers, sources
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import GROWS, meaning, of_kind, signs
from gibbsite.programs.jaxpr.source_line import equation_line
from gibbsite.validation.words import at_place


def check_whole_numbers(density: Density) -> None:
    """Refuse what wraps around of the data alone; raises `DataError` with the line."""
    numbers = known_numbers(density, {})
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GROWS) or any(_drawn(density, a) for a in eqn.invars):
            continue
        if (beyond := _beyond(eqn, numbers)) is not None:
            raise _wraps(density, eqn, beyond)


def wrapped(density: Density, latents: Mapping[str, np.ndarray]) -> tuple[str, float, tuple[str, ...]] | None:
    """Where whole numbers of these latents wrap around, as words, what they would come to, and the latents'
    names; None where none do."""
    if "may wrap" not in density.cache:
        density.cache["may wrap"] = [e for e in density.closed.jaxpr.eqns if _may_wrap(density, e)]
    numbers = known_numbers(density, latents) if density.cache["may wrap"] else None
    for eqn in density.cache["may wrap"]:
        if (beyond := _beyond(eqn, numbers)) is not None:
            names = sorted(density.maps.latents(eqn.outvars[0]))
            return at_place(equation_line(eqn)), beyond, tuple(names)
    return None


def _may_wrap(density: Density, eqn: Any) -> bool:
    """Whether whole numbers of latents may, by the supports of these, be larger than their type holds."""
    out = eqn.outvars[0]
    if not of_kind(eqn, GROWS) or not _drawn(density, out) or not _is_whole(out):
        return False
    limits = np.iinfo(np.dtype(out.aval.dtype))
    low, high = range_of(density, out)
    return not (limits.min < low and high < limits.max)  # what may wrap may be anything of its type


def _is_whole(out: Any) -> bool:
    return jnp.issubdtype(out.aval.dtype, jnp.integer)


def _beyond(eqn: Any, numbers: Any) -> float | None:
    """What an equation of known whole numbers comes to where that is beyond its type."""
    (out, *_), exactly = eqn.outvars, meaning(eqn)
    if exactly is None or not out.aval.size or not _is_whole(out):
        return None
    operands = [numbers.value(a) for a in eqn.invars]
    if any(v is None for v in operands):
        return None
    limits = np.iinfo(np.dtype(out.aval.dtype))
    if limits.kind == "i" and signs(eqn) and sum(map(_largest, operands)) <= limits.max:
        return None  # an index that counts from the end, of every element
    with np.errstate(all="ignore"):
        exact = exactly(eqn.params, out.aval.shape, *(np.asarray(v, float) for v in operands))
    if exact is None:
        return None
    ends = float(np.min(exact)), float(np.max(exact))
    return next((v for v in ends if not limits.min <= v <= limits.max), None)


def _drawn(density: Density, atom: Any) -> bool:
    return not isinstance(atom, Literal) and bool(density.maps.latents(atom))


def _largest(value: Any) -> int:
    return max(abs(int(np.min(value))), abs(int(np.max(value))))


def _wraps(density: Density, eqn: Any, beyond: float) -> DataError:
    place, limits = equation_line(eqn), np.iinfo(np.dtype(eqn.outvars[0].aval.dtype))
    source = sources(density, list(eqn.invars))
    names = [n for n, v in zip(density.arguments.names, density.data_vars, strict=True) if v in source]
    name = names[0] if names else "x"
    of = f" of {names[0]!r}" if names else ""
    ends = f"go from {limits.min:.4g} to {limits.max:.4g}, and round again"
    cure = f"1.0 * {name}" if limits.bits >= 32 else f"{name}.astype(int)"
    return DataError(
        f"whole numbers{of} come to {beyond:.4g}{at_place(place)}, and those of {limits.dtype} {ends}: make "
        f"others of them first, as in `{cure}`"
    ).at(place, "whole-numbers", f"[{names[0]}]" if names else None)
