"""Observations that cannot be: NaN, and values that their distribution never draws."""

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.model.sites import Site
from gibbsite.density.observed import observed_values
from gibbsite.density.possible.elements import kept_elements
from gibbsite.density.possible.words import at_line, told_data
from gibbsite.errors import DataError
from gibbsite.trace.jaxpr.compat import is_traced


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
    whole = " (a whole event each)" if site.event_shape else ""
    raise DataError(
        f"the data of {name!r}{at_line(site)} hold {int(missing.sum())} NaN (the first at [{first}]; missing "
        f"values: {counts}). Say what becomes of them: `--missing impute` after the parentheses of %%model, "
        f'or missing="impute" of gibbsite.model, makes them latent sites of the same distribution; '
        f'"mask" leaves them{whole} out of the density; "drop" leaves their rows out of the data'
    ).at(site.line, "missing-values")


def check_support(density: Density) -> None:
    """Refuse observed values that their distribution never draws, unless masked out; raises `DataError`."""
    for name, value in observed_values(density).items():
        site = density.sites[name]
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
