"""Observations that cannot be: NaN, and values that their distribution never draws."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density.density import Density
from gibbsite.density.known_elements import kept_elements, known_numbers, observed_values, sources
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import Site
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal, is_traced
from gibbsite.programs.jaxpr.primitives import GATHERS, of_kind
from gibbsite.programs.jaxpr.source_line import equation_line, line_at
from gibbsite.programs.jaxpr.walker import behind, made_by
from gibbsite.programs.maps.access import Whole, component_array
from gibbsite.validation.words import at_line, family, told_data


def missing_elements(density: Density) -> dict[str, np.ndarray]:
    """Which elements of observed sites are NaN and not masked out, by site; only sites that have any."""
    found = {}
    for name, value in observed_values(density).items():
        if value.dtype.kind == "f" and (missing := np.isnan(value)).any():
            missing &= _counted(density, density.sites[name])
            if missing.any():
                found[name] = missing
    return found


def check_missing(density: Density) -> None:
    """Refuse NaN in observed values that no mask takes out; raises `DataError` that counts them by site."""
    found = missing_elements(density)
    if not found:
        return
    name, missing = next(iter(found.items()))
    site = density.sites[name]
    first = ", ".join(map(str, np.argwhere(missing)[0]))
    counts = ", ".join(f"{int(m.sum())} of {m.size} in {n!r}" for n, m in found.items())
    raise DataError(
        f"the data of {name!r}{at_line(site)} hold {int(missing.sum())} NaN (the first at [{first}]; missing "
        f"values: {counts}). {_ways(site, missing)}"
    ).at(site.line, "missing-values")


def _ways(site: Site, missing: np.ndarray) -> str:
    """What can become of missing elements; of an event that is drawn as a whole they are lost together."""
    impute = (
        '`--missing impute` after the parentheses of %%model, or missing="impute" of gibbsite.model, makes '
        "them latent sites of the same distribution"
    )
    drop = '"drop" leaves their rows out of the data'
    events = tuple(range(site.element_rank, missing.ndim))
    if not events or np.array_equal(missing.any(events), missing.all(events)):
        whole = " (a whole event each)" if events else ""
        return f'Say what becomes of them: {impute}; "mask" leaves them{whole} out of the density; {drop}'
    return (
        f"{family(site)} draws {int(np.prod(missing.shape[site.element_rank :]))} numbers at once, of which "
        f"only some are missing here: `--missing mask` after the parentheses of %%model, or "
        f'missing="mask" of gibbsite.model, leaves such events out of the density as a whole; {drop}'
    )


def check_support(density: Density) -> None:
    """Refuse observed values that their distribution never draws, unless masked out; raises `DataError`.

    Angles may be any number: they turn round.
    """
    for name, value in observed_values(density).items():
        site = density.sites[name]
        if isinstance(base_constraint(site.support), type(constraints.circular)):
            continue
        if site.fn_name in ("Unit", "Delta", "ImproperUniform") or not _known(site):
            continue
        numbers = np.asarray(value)
        inside = np.asarray(site.support(numbers if numbers.dtype.kind != "b" else numbers.astype(int)))
        if inside.all():
            continue
        events = tuple(range(inside.ndim, numbers.ndim))
        wrong = ~inside & _counted(density, site).any(axis=events)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise DataError(told_data(site, numbers, at, int(wrong.sum()))).at(
                site.line, "outside-the-support"
            )


def _known(site: Site) -> bool:
    """Whether the bounds of a support are numbers."""
    support = site.support
    while (inner := getattr(support, "base_constraint", None)) is not None:
        support = inner
    bounds = (getattr(support, n, None) for n in ("lower_bound", "upper_bound"))
    return not any(is_traced(b) for b in bounds if b is not None)


def _counted(density: Density, site: Site) -> np.ndarray:
    """Which elements of a site's value count for the density."""
    kept = kept_elements(density, site.name)
    if kept is None:
        return np.ones(site.shape, bool)
    return np.broadcast_to(kept.reshape(kept.shape + (1,) * (len(site.shape) - kept.ndim)), site.shape)


def check_indices(density: Density) -> None:
    """Refuse data that index an axis beyond its end, which JAX would read as some other element, where what
    is read there counts; raises `DataError` with the line."""
    numbers = known_numbers(density, {})
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GATHERS) or eqn.params["mode"].name != "PROMISE_IN_BOUNDS":
            continue
        if isinstance(eqn.invars[1], Literal) or density.maps.latents(eqn.invars[1]):
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
                raise _beyond(density, eqn, picked, length)


def unread_notes(density: Density) -> tuple[str, ...]:
    """A sentence for each plate of whose elements nothing but their own priors reads some, where others are
    read: a plate that is longer than there are groups. Sites whose elements hang together are left out."""
    read = density.evaluator({}).full
    found: dict[str, str] = {}
    for name in density.latents:
        site = density.sites[name]
        if site.in_scan or not site.plates or not site.shape:
            continue
        hits = {axis: np.zeros(site.shape[axis], bool) for axis in site.plate_axes}
        for term, accesses in density.terms_of(name):
            if term.origin == name and len(accesses) == 1 and accesses[0].single:
                continue
            for access in accesses:
                for axis, seen in hits.items():
                    component = access.index[axis]
                    if isinstance(component, Whole) or getattr(component, "latents", None):
                        seen[:] = True
                    elif not seen.all():
                        places = np.asarray(component_array(component, term.shape, read))
                        ends = zip(places.shape, access.window, strict=True)
                        places = places[tuple(slice(None) if n == 1 else slice(*box) for n, box in ends)]
                        seen[places[(places >= 0) & (places < len(seen))]] = True
        for axis, plate in zip(site.plate_axes, site.plates, strict=True):
            some, length = int(hits[axis].sum()), site.shape[axis]
            if 0 < some < length and plate not in found:
                found[plate] = (
                    f"plate {plate!r} has {length} elements, and nothing reads {length - some} of those of "
                    f"{name!r}, which keep their prior: there are data of {some}"
                )
    return tuple(found.values())


def _counts(density: Density, gather: Any, beyond: np.ndarray) -> bool:
    """Whether the density changes with what a gather reads at some places: padding that a mask, a `where` or
    a weight of 0 takes out may hold any index."""
    latents = {n: _somewhere(density.sites[n], k) for k, n in enumerate(density.latents)}
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


def _somewhere(site: Site, number: int) -> Any:
    """A value of a site with no element where functions like to be flat or singular."""
    if site.discrete:
        return jnp.zeros(site.shape, site.dtype)
    to = biject_to(site.support)
    free = np.random.default_rng(number).uniform(0.1, 0.9, to.inverse_shape(site.shape))
    return to(jnp.asarray(free, site.dtype))


def _beyond(density: Density, eqn: Any, picked: np.ndarray, length: int) -> DataError:
    place = equation_line(eqn)
    text = line_at(*place).text if place else ""
    line = f" (line {place[1]}{f': `{text}`' if text else ''})" if place else ""
    names = [n for n, v in zip(density.arguments.names, density.data_vars, strict=True)]
    source = sources(density, [eqn.invars[1]])
    told = [n for n, v in zip(names, density.data_vars, strict=True) if v in source]
    what = f"{told[0]!r}" if told else "an index"
    low, high = int(picked.min()), int(picked.max())
    if low < 0:
        low -= length  # as it was written, before the length was added
    plates = [f"{n!r}" for n, p in density.plates.items() if p.size == length]
    axis = f"an axis of {length} elements" + (f" (plate {', '.join(plates)})" if plates else "")
    if low >= 1 and high == length:
        cure = "it seems to count from 1: use it less 1"
    else:
        cure = (
            f"make the axis {high + 1} long, or look at those values"
            if high >= length
            else "look at those values"
        )
    return DataError(
        f"{what} runs from {low} to {high} and picks from {axis}{line}, which are counted from 0 to "
        f"{length - 1}; {cure}"
    ).at(place, "index-out-of-range", f"[{told[0]}]" if told else None)


def negative_notes(density: Density) -> tuple[str, ...]:
    """A sentence for each argument with values below 0 that picks elements by them as they are, from the end:
    pandas' code for a category that is missing is -1."""
    numbers, producer = known_numbers(density, {}), made_by(density.closed.jaxpr)
    inputs = dict(zip(density.data_vars, density.arguments.names, strict=True))
    found: dict[str, str] = {}
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GATHERS) or isinstance(eqn.invars[1], Literal):
            continue
        told = [v for v in behind(producer, eqn.invars[1:2]) if v in inputs]
        value = numbers.value(told[0]) if len(told) == 1 else None
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
                name, first = inputs[told[0]], np.argwhere(value < 0)[0].tolist()
                found[name] = (
                    f"{name!r} holds {int(value[value < 0][0])} at {first}, and picks from the end of "
                    f"{length} elements there: where it stands for what is missing (pandas' codes), leave "
                    "those rows out"
                )
    return tuple(found.values())
