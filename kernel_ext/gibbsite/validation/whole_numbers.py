"""Whole numbers of the data that wrap around in what a model computes of them: JAX's have 32 bits, or
fewer, and pandas' 64."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
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
        if not of_kind(eqn, GROWS):
            continue
        (out, *_), exactly = eqn.outvars, meaning(eqn)
        kind = np.dtype(out.aval.dtype) if jnp.issubdtype(out.aval.dtype, jnp.integer) else None
        if exactly is None or not out.aval.size or kind is None:
            continue
        operands = [None if _drawn(density, a) else numbers.value(a) for a in eqn.invars]
        if any(v is None for v in operands):
            continue
        limits = np.iinfo(kind)
        if kind.kind == "i" and signs(eqn) and sum(map(_largest, operands)) <= limits.max:
            continue  # an index that counts from the end, of every element
        with np.errstate(all="ignore"):
            exact = exactly(eqn.params, out.aval.shape, *(np.asarray(v, float) for v in operands))
        if exact is None:
            continue
        beyond = [
            v for v in (float(np.min(exact)), float(np.max(exact))) if not limits.min <= v <= limits.max
        ]
        if beyond:
            raise _wraps(density, eqn, beyond[0], limits)


def _drawn(density: Density, atom: Any) -> bool:
    return not isinstance(atom, Literal) and bool(density.maps.latents(atom))


def _largest(value: Any) -> int:
    return max(abs(int(np.min(value))), abs(int(np.max(value))))


def _wraps(density: Density, eqn: Any, beyond: float, limits: Any) -> DataError:
    place = equation_line(eqn)
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
