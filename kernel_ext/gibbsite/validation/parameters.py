"""Parameters of distributions that cannot be: tested where they are known, and else on draws from the prior.

Most are ruled out by the ranges of what they are computed from, which costs next to nothing, and most of the
rest by their values at a few points; only what fails there is looked at on draws.
"""

from collections.abc import Callable

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import constant_value, fitted, kept_elements
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.validation.certain import undecided
from gibbsite.validation.draws import Impossible, impossible_on_draws
from gibbsite.validation.limits import outside
from gibbsite.validation.points import fails_somewhere


def impossible_parameters(fn: Callable, density: Density) -> list[Impossible]:
    """The parameters of the model `fn` that do not meet their constraints, in program order."""
    constant, open_ = undecided(density)
    found = [p for site, name in constant if (p := _constant(density, site, name)) is not None]
    found += [p for site in density.sites if (p := _wrong_order(density, site)) is not None]
    doubtful = [p for p in open_ if fails_somewhere(density, *p)]
    return found + (impossible_on_draws(fn, density, doubtful) if doubtful else [])


def _constant(density: Density, site: str, name: str) -> Impossible | None:
    constraint = density.parameter_constraints[site][name]
    value = constant_value(density, density.outputs["parameters"][site][name])
    wrong = np.asarray(outside(constraint, value, False))
    kept = kept_elements(density, site)
    if kept is not None:
        wrong = wrong & fitted(kept, wrong.shape)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Impossible(site, name, constraint, 1.0, at, value[at] if value[at].ndim else value[at].item())


def _wrong_order(density: Density, site: str) -> Impossible | None:
    """Ends of an interval that are known, the lower above the upper."""
    ends = [density.outputs["parameters"].get(site, {}).get(n) for n in ("low", "high")]
    if any(e is None or (not isinstance(e, Literal) and density.maps.latents(e)) for e in ends):
        return None
    low, high = (range_of(density, e) for e in ends)
    if low[0] <= high[1]:
        return None
    return Impossible(site, "low", constraints.less_than(high[1]), 1.0, (), low[0])
