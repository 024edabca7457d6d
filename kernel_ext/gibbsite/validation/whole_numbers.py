"""Whole numbers of the data that wrap around in what a model computes of them: JAX's have 32 bits, or
fewer, and pandas' 64."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import known_numbers, sources
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import CONVERTS, GROWS, SELECTS, meaning, of_kind, signs
from gibbsite.programs.jaxpr.source_line import at_place, equation_line


def check_whole_numbers(density: Density) -> None:
    """Refuse what wraps around of the data alone; raises `DataError` with the line."""
    if (found := _first(density, {})) is not None:
        raise _wraps(density, *found)


class Wrapped(NamedTuple):
    """Whole numbers of the latents `sites` that wrap around: what is wrong, and the way out."""

    sites: tuple[str, ...]
    says: str
    cure: str


def wrapped(density: Density, latents: Mapping[str, np.ndarray]) -> Wrapped | None:
    """What wraps around at these values of the latents; None where nothing does."""
    if "may wrap" not in density.cache:
        density.cache["may wrap"] = any(_may_wrap(density, e) for e in density.closed.jaxpr.eqns)
    found = _first(density, latents) if density.cache["may wrap"] else None
    if found is None:
        return None
    eqn, beyond = found
    latents_in = sorted(density.maps.latents(eqn.outvars[0]))
    names = tuple(n for n in latents_in if density.sites[n].discrete) or tuple(latents_in)
    return Wrapped(
        names,
        f"whole numbers of {', '.join(names)} come to {beyond:.4g}{at_place(equation_line(eqn))}, which "
        f"their type does not hold: they begin again at its other end",
        f"compute with decimal numbers, as in `1.0 * {names[0]}`, or in double precision (JAX_ENABLE_X64=1)",
    )


def _may_wrap(density: Density, eqn: Any) -> bool:
    """Whether whole numbers of latents may, by the supports of these, be larger than their type holds."""
    out = eqn.outvars[0]
    if not of_kind(eqn, GROWS | CONVERTS) or not density.maps.latents(out) or not _is_whole(out):
        return False
    limits = np.iinfo(np.dtype(out.aval.dtype))
    low, high = range_of(density, eqn.invars[0] if of_kind(eqn, CONVERTS) else out)
    return not (limits.min < low and high < limits.max)  # what may wrap may be anything of its type


def _first(density: Density, latents: Mapping[str, np.ndarray]) -> tuple[Any, float] | None:
    """The first equation of known whole numbers that wraps where it is felt, and what it comes to: the result
    of another kind that it goes into, and not a choice that leaves it out, as JAX's powers compute squares
    that they do not need."""
    numbers = known_numbers(density, latents, by_jax=True)  # of bits, too, which NumPy's meanings lack
    wrong: dict[Any, tuple[np.ndarray, Any, float]] = {}
    outputs = {v for v in density.closed.jaxpr.outvars if not isinstance(v, Literal)}
    for eqn in density.closed.jaxpr.eqns:
        held = [wrong[a] for a in eqn.invars if not isinstance(a, Literal) and a in wrong]
        own = _beyond(eqn, numbers) if of_kind(eqn, GROWS | CONVERTS) else None
        if own is not None:
            held = [*held, (own[0], eqn, own[1])]
        if not held:
            continue
        for out in eqn.outvars:
            mask = _passed_on(eqn, numbers, wrong, [m for m, _, _ in held], out)
            _, origin, beyond = held[0]
            if mask.any() and (not _is_whole(out) or out in outputs):
                return origin, beyond
            if mask.any():
                wrong[out] = mask, origin, beyond
    return None


def _passed_on(
    eqn: Any, numbers: Any, wrong: Mapping[Any, Any], masks: list[np.ndarray], out: Any
) -> np.ndarray:
    """Which elements of a result are made of what has wrapped: of a choice, where that is chosen."""
    shape = tuple(out.aval.shape)
    if of_kind(eqn, SELECTS):
        none, which = np.zeros(shape, bool), numbers.value(eqn.invars[0])
        cases = [
            none if isinstance(a, Literal) or a not in wrong else np.broadcast_to(wrong[a][0], shape)
            for a in eqn.invars[1:]
        ]
        if which is None:  # a latent chooses
            return np.all(cases, axis=0)
        return np.choose(np.broadcast_to(which.astype(int), shape), cases).astype(bool)
    if all(m.shape in (shape, ()) for m in masks):
        return np.any([np.broadcast_to(m, shape) for m in masks], axis=0)
    return np.full(shape, any(m.any() for m in masks))


def _is_whole(out: Any) -> bool:
    return jnp.issubdtype(out.aval.dtype, jnp.integer)


def _beyond(eqn: Any, numbers: Any) -> tuple[np.ndarray, float] | None:
    """Which elements of an equation of known whole numbers are beyond their type, and the first of them."""
    (out, *_), exactly = eqn.outvars, meaning(eqn)
    if not out.aval.size or not _is_whole(out):
        return None
    operands = [numbers.value(a) for a in eqn.invars]
    if any(v is None for v in operands):
        return None
    limits = np.iinfo(np.dtype(out.aval.dtype))
    if (
        limits.kind == "i"
        and of_kind(eqn, GROWS)
        and signs(eqn)
        and sum(map(_largest, operands)) <= limits.max
    ):
        return None  # an index that counts from the end, of every element
    exact = None
    with np.errstate(all="ignore"):
        if of_kind(eqn, CONVERTS):
            exact = operands[0] if np.issubdtype(operands[0].dtype, np.integer) else None
        elif exactly is not None:
            exact = exactly(eqn.params, out.aval.shape, *(np.asarray(v, float) for v in operands))
    if exact is None:
        return None
    exact = np.broadcast_to(np.asarray(exact, float), out.aval.shape)
    over = (exact < limits.min) | (exact > limits.max)
    return (over, float(max(exact[over], key=abs))) if over.any() else None


def _largest(value: Any) -> int:
    return max(abs(int(np.min(value))), abs(int(np.max(value))))


def _wraps(density: Density, eqn: Any, beyond: float) -> DataError:
    place, limits = equation_line(eqn), np.iinfo(np.dtype(eqn.outvars[0].aval.dtype))
    source = sources(density, list(eqn.invars))
    names = [n for v, n in density.data_names.items() if v in source]
    name = names[0] if names else "x"
    of = f" of {names[0]!r}" if names else ""
    ends = f"go from {limits.min:.4g} to {limits.max:.4g}, and round again"
    cure = f"1.0 * {name}" if limits.bits >= 32 else f"{name}.astype(int)"
    return DataError(
        f"whole numbers{of} come to {beyond:.4g}{at_place(place)}, and those of {limits.dtype} {ends}: make "
        f"others of them first, as in `{cure}`"
    ).at(place, "whole-numbers", f"[{names[0]}]" if names else None)
