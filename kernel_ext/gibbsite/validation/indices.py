"""Data and latents that pick elements: beyond the end of an axis, or from its end."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density.density import Density
from gibbsite.density.known_elements import known_numbers, sources
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import Site
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import BELOW, GATHERS, SELECTS, WINDOWS, of_kind
from gibbsite.programs.jaxpr.source_line import at_place, equation_line
from gibbsite.programs.jaxpr.values import Values
from gibbsite.programs.jaxpr.walker import behind, made_by

MOST_VALUES, MOST_TOGETHER = 64, 4
"""Values of a latent that are all looked at, and latents in one index whose ends are."""
_FAR = 8
"""Times the longest axis: a value that a latent without an upper end may have."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def check_indices(density: Density, unknown: Mapping[str, Sequence[str]] | None = None) -> None:
    """Refuse data that index an axis beyond its end, which JAX would read as some other element, where what
    is read there counts; and so discrete latents that can. Raises `DataError` with the line. Of data of a
    prediction, the categories that are `unknown` to the model, by name of the argument."""
    numbers = known_numbers(density, {})
    for eqn in _picking(density):
        sites = _read_by(density, eqn)
        for latents in _at_ends(density, sites) if sites else ({},):
            values = known_numbers(density, latents) if latents else numbers
            if (found := _beyond_end(density, eqn, values, latents)) is not None:
                raise (
                    _beyond_by_latents(density, eqn, latents, *found)
                    if latents
                    else _beyond(density, eqn, *found, unknown)
                )


def open_notes(density: Density) -> tuple[str, ...]:
    """A sentence for each discrete latent without an upper end that picks elements."""
    found: dict[str, str] = {}
    for eqn in _picking(density):
        name, *others = _read_by(density, eqn) or [""]
        site = density.sites.get(name)
        base = None if site is None else base_constraint(site.support)
        low, longest = getattr(base, "lower_bound", None), max(eqn.invars[0].aval.shape, default=0)
        if site is None or others or not site.discrete or low is None or hasattr(base, "upper_bound"):
            continue
        far = {name: np.broadcast_to(np.asarray(low) + _FAR * longest, site.shape).astype(site.dtype)}
        if (beyond := _beyond_end(density, eqn, known_numbers(density, far), far)) is not None:
            length = beyond[1]
            found[name] = (
                f"{name!r} has no upper end, and picks from {length} elements{at_place(equation_line(eqn))}: "
                f"beyond, JAX reads the last; `jnp.minimum({name}, {length - 1})` says that this is meant"
            )
    return tuple(found.values())


def _picking(density: Density) -> Iterator[Any]:
    """The equations that pick by numbers, and read the nearest element beyond an end."""
    for eqn in density.closed.jaxpr.eqns:
        gathers = of_kind(eqn, GATHERS) and eqn.params["mode"].name == "PROMISE_IN_BOUNDS"
        if gathers or of_kind(eqn, WINDOWS):
            yield eqn


def _read_by(density: Density, eqn: Any) -> list[str]:
    return sorted({n for index in eqn.invars[1:] for n in density.maps.latents(index)})


def _beyond_end(
    density: Density, eqn: Any, values: Values, latents: Mapping[str, Any]
) -> tuple[np.ndarray, int] | None:
    """The places that are picked at some latents and the axis' length, where they are beyond it and count."""
    for axis, picked in _picked(eqn, values):
        length = eqn.invars[0].aval.shape[axis]
        beyond = (picked > length - eqn.params["slice_sizes"][axis]) | (picked < 0)
        if beyond.any() and _counts(density, eqn, beyond, latents):
            return picked, length
    return None


def _picked(eqn: Any, values: Values) -> Iterator[tuple[int, np.ndarray]]:
    """By axis the places that are picked, where they are known."""
    if of_kind(eqn, WINDOWS):
        yield from ((a, v) for a, i in enumerate(eqn.invars[1:]) if (v := values.value(i)) is not None)
    elif (found := values.value(eqn.invars[1])) is not None and found.size:
        yield from ((a, found[..., c]) for c, a in enumerate(eqn.params["dimension_numbers"].start_index_map))


def _at_ends(density: Density, sites: Collection[str]) -> Iterator[dict[str, Any]]:
    """Values of discrete latents: all of a site by itself that has few, and the ends of their supports
    together; none where a support has no end, or moves with others."""
    ends = []
    for name in sites:
        site = density.sites[name]
        base = base_constraint(site.support)
        low, high = getattr(base, "lower_bound", None), getattr(base, "upper_bound", None)
        if base is constraints.boolean:
            low, high = 0, 1
        moving = any(density.maps.latents(b) for b in density.outputs["bounds"].get(name) or ())
        if not site.discrete or low is None or high is None or moving:
            return
        ends.append((name, np.asarray(low), np.asarray(high)))
    if len(ends) == 1 and (span := int((ends[0][2] - ends[0][1]).max())) < MOST_VALUES:
        (name, low, high), *_ = ends
        values = [[np.minimum(low + k, high) for k in range(span + 1)]]
    else:
        values = [[low, high] for _, low, high in ends[:MOST_TOGETHER]]
        values += [[high] for _, _, high in ends[MOST_TOGETHER:]]
    for those in itertools.product(*values):
        yield {
            name: np.broadcast_to(v, density.sites[name].shape).astype(density.sites[name].dtype)
            for (name, _, _), v in zip(ends, those, strict=True)
        }


def negative_notes(density: Density) -> tuple[str, ...]:
    """A sentence for each argument by which, or by numbers computed from it, elements are picked from the
    end, being below 0: pandas' code for a category that is missing is -1, and `u[year - 2019]` has one for
    2018."""
    numbers, producer = known_numbers(density, {}), made_by(density.closed.jaxpr)
    inputs = density.data_names
    found: dict[str, str] = {}
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GATHERS) or isinstance(eqn.invars[1], Literal):
            continue
        for index in _before_the_end(producer, eqn.invars[1]):
            told = [v for v in behind(producer, [index]) if v in inputs]
            value = numbers.value(index) if told else None
            if value is None or value.dtype.kind != "i" or not (value < 0).any():
                continue
            picked = numbers.value(eqn.invars[1])
            for column, axis in enumerate(eqn.params["dimension_numbers"].start_index_map):
                if picked is None or picked[..., column].size != value.size:
                    continue
                below = (value < 0).reshape(picked.shape[:-1])
                length = eqn.invars[0].aval.shape[axis]
                as_it_is = np.where(below, length, 0) + value.reshape(below.shape)
                if np.array_equal(as_it_is, picked[..., column]) and _counts(density, eqn, below):
                    first = np.asarray(numbers.value(told[0]))
                    itself = np.array_equal(np.ravel(first), np.ravel(value))
                    names = [inputs[v] for v in told]
                    found[names[0]] = _negative(names, first if itself else value, itself, length)
    return tuple(found.values())


def _before_the_end(producer: Any, atom: Any) -> Iterator[Any]:
    """The indices as they were written, to which JAX adds an axis' length where they are below 0."""
    for v in behind(producer, [atom]):
        made = producer.get(v)
        if made is not None and of_kind(made, SELECTS) and len(made.invars) == 3:
            asked = producer.get(made.invars[0])
            if of_kind(asked, BELOW) and asked.invars[0] is made.invars[1]:
                yield made.invars[1]


def _negative(names: list[str], value: np.ndarray, itself: bool, length: int) -> str:
    low, first = int(value[value < 0][0]), np.argwhere(value < 0)[0].tolist()
    place = f" at {first}" if first else ""
    if itself:
        return (
            f"{names[0]!r} holds {low}{place}, and picks from the end of {length} elements there: where it "
            "stands for what is missing (pandas' codes), leave those rows out"
        )
    return (
        f"an index that is computed from {', '.join(map(repr, names))} is {low}{place}, and picks from the "
        f"end of {length} elements there"
    )


def _counts(density: Density, gather: Any, beyond: np.ndarray, given: Mapping[str, Any] = _NOTHING) -> bool:
    """Whether the density changes with what a gather reads at some places: padding that a mask, a `where` or
    a weight of 0 takes out may hold any index; and values of latents that are `given` may be impossible."""
    fixed = [a for a in density.outputs["log_prob"].values() if not density.maps.latents(a)]  # in no term
    # what a discrete site switches off at its least value may count at the next
    return any(_moved_by(density, gather, beyond, given, fixed, step) for step in (0, 1))


def _moved_by(
    density: Density,
    gather: Any,
    beyond: np.ndarray,
    given: Mapping[str, Any],
    fixed: Sequence[Any],
    step: int,
) -> bool:
    latents = {n: somewhere(density.sites[n], k, step) for k, n in enumerate(density.latents)} | {**given}
    (out,) = gather.outvars
    read = density.evaluator(latents).full(out)
    if not isinstance(read.dtype, np.dtype):
        return True  # random keys
    numbers = gather.params.get("dimension_numbers")
    offsets = [a for a in range(read.ndim) if numbers is None or a in numbers.offset_dims]
    there = np.expand_dims(beyond, offsets)
    other = ~read if read.dtype == bool else read + jnp.asarray(1, read.dtype)
    totals = []
    for value in (read, jnp.where(there, other, read)):
        ev = density.evaluator(latents)
        ev.give({out: value})
        parts = [np.asarray(t.contribution(ev.full(t.atom), ev.full)) for t in density.terms]
        totals.append(parts + [np.asarray(ev.full(a)) for a in fixed])
    if given and np.isneginf(sum(t.sum(dtype=float) for t in totals[0])):
        return False
    return not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*totals, strict=True))


def somewhere(site: Site, number: int, step: int = 0) -> Any:
    """A value of a site with no element where functions like to be flat or singular; of a discrete one so
    many steps above 0."""
    if site.discrete:
        return jnp.full(site.shape, step, site.dtype)
    to = biject_to(site.support)
    free = np.random.default_rng(number).uniform(0.1, 0.9, to.inverse_shape(site.shape))
    return to(jnp.asarray(free, site.dtype))


def _beyond_by_latents(
    density: Density, eqn: Any, latents: Mapping[str, Any], picked: np.ndarray, length: int
) -> DataError:
    place = equation_line(eqn)
    told = " and ".join(f"{n!r} = {np.max(v)}" for n, v in latents.items())
    at = int(picked.max()) if int(picked.max()) >= length else int(picked.min())
    name = next(iter(latents)) if len(latents) == 1 else "the index"
    return DataError(
        f"with {told}, which can be, element {at} is picked of an axis of {length}{at_place(place)}, which "
        f"are counted from 0 to {length - 1}, and JAX would read the nearest: if {name} counts from 1, use "
        f"it less 1; make the axis longer; or write `jnp.clip({name}, 0, {length - 1})` where that is meant"
    ).at(place, "index-out-of-range")


def _beyond(
    density: Density, eqn: Any, picked: np.ndarray, length: int, unknown: Mapping[str, Sequence[str]] | None
) -> DataError:
    place = equation_line(eqn)
    source = sources(density, [eqn.invars[1]])
    told = [n for v, n in density.data_names.items() if v in source]
    what = f"{told[0]!r}" if told else "an index"
    low, high = int(picked.min()), int(picked.max())
    if low < 0:
        low -= length  # as it was written, before the length was added
    plates = [f"{n!r}" for n, p in density.plates.items() if p.size == length]
    axis = f"an axis of {length} elements" + (f" (plate {', '.join(plates)})" if plates else "")
    group = plates[0] if plates else repr("group")
    if new := (unknown or {}).get(told[0] if told else "", ()):
        some = ", ".join(map(repr, new[:5])) + ", …" * (len(new) > 5)
        return DataError(
            f"{what} holds {some}, which the model's own data do not have, and picks from {axis}"
            f"{at_place(place)}, whose length is a number in the model: with a plate over the column, "
            f"`plate({group}, column)`, or over `levels(column)`, it "
            f"grows with the categories"
        ).at(place, "index-out-of-range", f"[{told[0]}]")
    if unknown is not None and high >= length and low >= 0:
        cure = "the model's own data have no more; what grows with data is as long as they say, `x.max() + 1`"
    elif low >= 1 and high == length:
        cure = f"if it counts from 1, use it less 1; else make the axis {high + 1} long"
    else:
        cure = (
            f"make the axis {high + 1} long, or look at those values"
            if high >= length
            else "look at those values"
        )
    return DataError(
        f"{what} runs from {low} to {high} and picks from {axis}{at_place(place)}, which are counted from 0 "
        f"to {length - 1}; {cure}"
    ).at(place, "index-out-of-range", f"[{told[0]}]" if told else None)
