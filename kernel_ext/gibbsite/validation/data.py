"""Observations that cannot be: NaN, and values that their distribution never draws."""

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.known_elements import kept_elements, observed_values
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import GAUSSIAN_VECTORS, Site
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import is_traced
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
    """What can become of missing elements; of an event that is drawn as a whole they are lost together, but
    for Gaussian vectors, whose parts have laws of their own."""
    impute, same = (
        '`--missing impute` after the parentheses of %%model, or missing="impute" of gibbsite.model, makes '
        "them latent sites",
        "of the same distribution",
    )
    drop = '"drop" leaves their rows out of the data'
    events = tuple(range(site.element_rank, missing.ndim))
    if not events or np.array_equal(missing.any(events), missing.all(events)):
        whole = " (a whole event each)" if events else ""
        masked = f'"mask" leaves them{whole} out of the density'
        return f"Say what becomes of them: {impute} {same}; {masked}; {drop}"
    count = int(np.prod(missing.shape[site.element_rank :]))
    at_once = f"{family(site)} draws {count} numbers at once, of which only some are missing here"
    if site.fn_name in GAUSSIAN_VECTORS:
        return (
            f"{at_once}: {impute}, drawn given the others of their event, "
            f'"mask" leaves them out of the density and what is known in it; {drop}'
        )
    return (
        f"{at_once}: `--missing mask` after the parentheses of %%model, or "
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
    bounds = (getattr(base_constraint(site.support), n, None) for n in ("lower_bound", "upper_bound"))
    return not any(is_traced(b) for b in bounds if b is not None)


def _counted(density: Density, site: Site) -> np.ndarray:
    """Which elements of a site's value count for the density."""
    kept = kept_elements(density, site.name)
    if kept is None:
        return np.ones(site.shape, bool)
    return np.broadcast_to(kept.reshape(kept.shape + (1,) * (len(site.shape) - kept.ndim)), site.shape)


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
