"""Data that pick elements: beyond the end of an axis, or from its end."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from gibbsite.density.density import Density
from gibbsite.density.known_elements import known_numbers, sources
from gibbsite.density.model.sites import Site
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import BELOW, GATHERS, SELECTS, of_kind
from gibbsite.programs.jaxpr.source_line import at_place, equation_line
from gibbsite.programs.jaxpr.walker import behind, made_by


def check_indices(density: Density, unknown: Mapping[str, Sequence[str]] | None = None) -> None:
    """Refuse data that index an axis beyond its end, which JAX would read as some other element, where what
    is read there counts; raises `DataError` with the line. Of data of a prediction, the categories that are
    `unknown` to the model, by name of the argument."""
    numbers = known_numbers(density, {})
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GATHERS) or eqn.params["mode"].name != "PROMISE_IN_BOUNDS":
            continue
        if density.maps.latents(eqn.invars[1]):
            continue
        found = numbers.value(eqn.invars[1])
        if found is None or not found.size:
            continue
        dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
        for column, axis in enumerate(dims.start_index_map):
            length = eqn.invars[0].aval.shape[axis]
            picked = found[..., column]
            beyond = (picked > length - sizes[axis]) | (picked < 0)
            if beyond.any() and _counts(density, eqn, beyond):
                raise _beyond(density, eqn, picked, length, unknown)


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


def _counts(density: Density, gather: Any, beyond: np.ndarray) -> bool:
    """Whether the density changes with what a gather reads at some places: padding that a mask, a `where` or
    a weight of 0 takes out may hold any index."""
    latents = {n: somewhere(density.sites[n], k) for k, n in enumerate(density.latents)}
    (out,) = gather.outvars
    read = density.evaluator(latents).full(out)
    if not isinstance(read.dtype, np.dtype):
        return True  # random keys
    offsets = [a for a in range(read.ndim) if a in gather.params["dimension_numbers"].offset_dims]
    there = np.expand_dims(beyond, offsets)
    other = ~read if read.dtype == bool else read + jnp.asarray(1, read.dtype)
    totals = []
    for value in (read, jnp.where(there, other, read)):
        ev = density.evaluator(latents)
        ev.give({out: value})
        totals.append([np.asarray(t.contribution(ev.full(t.atom), ev.full)) for t in density.terms])
    return not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*totals, strict=True))


def somewhere(site: Site, number: int) -> Any:
    """A value of a site with no element where functions like to be flat or singular."""
    if site.discrete:
        return jnp.zeros(site.shape, site.dtype)
    to = biject_to(site.support)
    free = np.random.default_rng(number).uniform(0.1, 0.9, to.inverse_shape(site.shape))
    return to(jnp.asarray(free, site.dtype))


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
