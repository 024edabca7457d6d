"""Whole numbers of the data that wrap around in what a model computes of them: JAX's have 32 bits, and
pandas' 64."""

from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.known_elements import known_numbers, sources
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import GROWS, meaning, of_kind, signs
from gibbsite.programs.jaxpr.source_line import equation_line
from gibbsite.validation.words import at_place


def check_whole_numbers(density: Density) -> None:
    """Refuse what wraps around of the data alone; raises `DataError` with the line. Numbers without a sign
    are left out: to wrap around is what random bits are for."""
    numbers = known_numbers(density, {})
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GROWS) or not np.issubdtype(eqn.outvars[0].aval.dtype, np.signedinteger):
            continue
        out, exactly = eqn.outvars[0], meaning(eqn)
        drawn = any(not isinstance(a, Literal) and density.maps.latents(a) for a in eqn.invars)
        if drawn or exactly is None or not out.aval.size:
            continue
        operands = [numbers.value(a) for a in eqn.invars]
        if any(v is None for v in operands):
            continue
        limit = np.iinfo(out.aval.dtype).max
        if signs(eqn) and sum(map(_largest, operands)) <= limit:
            continue  # an index that counts from the end, of every element
        with np.errstate(all="ignore"):
            exact = exactly(eqn.params, out.aval.shape, *(np.asarray(v, float) for v in operands))
        worst = 0.0 if exact is None else float(np.abs(exact).max())
        if worst > limit:
            raise _wraps(density, eqn, worst, str(out.aval.dtype), limit)


def _largest(value: Any) -> int:
    return max(abs(int(np.min(value))), abs(int(np.max(value))))


def _wraps(density: Density, eqn: Any, worst: float, dtype: str, limit: int) -> DataError:
    place = equation_line(eqn)
    source = sources(density, list(eqn.invars))
    names = [n for n, v in zip(density.arguments.names, density.data_vars, strict=True) if v in source]
    name = names[0] if names else "x"
    of = f" of {names[0]!r}" if names else ""
    return DataError(
        f"whole numbers{of} come to {worst:.4g}{at_place(place)}, and those of {dtype} end at {limit:.4g} "
        f"and go on below 0: make them decimal numbers first, as in `1.0 * {name}`"
    ).at(place, "whole-numbers", f"[{names[0]}]" if names else None)
