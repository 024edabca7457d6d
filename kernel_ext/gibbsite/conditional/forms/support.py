"""What conjugate families need to know of a site's support, and where its ends are read."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.conditional.forms.rules import Domain
from gibbsite.conditional.forms.walk import Refused, known_value
from gibbsite.conditional.reads.moving_support import support_movers
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint

Bounds = tuple[Any, Any]
UNSIGNED = Domain(False, False)


@dataclass(frozen=True)
class Support:
    """What is known of a continuous support: "real", "positive", "unit", "interval", "above", "below",
    "simplex".

    `low` and `high` are atoms of the density or numbers, None where there is no bound. `domain` is what it
    says of the sign of `x` and `1 - x`.
    """

    kind: str
    low: Any = None
    high: Any = None
    domain: Domain = UNSIGNED


REAL = Support("real")
POSITIVE = Support("positive", 0.0, None, Domain(True, False))
UNIT = Support("unit", 0.0, 1.0, Domain(True, True))
SIMPLEX = Support("simplex", None, None, Domain(True, True))


def _between(low: Any, high: Any, positive: bool) -> Support:
    """The support between two bounds; `positive` where it is known to be that whatever they are."""
    if low is None and high is None:
        return REAL
    positive = positive or (isinstance(low, float) and low >= 0)
    unit = positive and isinstance(high, float) and high <= 1
    if high is None:
        return (
            POSITIVE
            if isinstance(low, float) and low == 0
            else Support("above", low, None, Domain(positive, False))
        )
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return UNIT
    kind = "below" if low is None else "interval"
    return Support(kind, low, high, Domain(positive, unit))


def limited(support: Support) -> Support:
    """The support of a site that other sites' values limit further, on either side; `Refused` for vectors."""
    if support.kind == "simplex":
        raise Refused("a simplex cannot be limited from outside")
    return replace(support, kind="interval")


def support_of(density: Density, site: str) -> Support:
    """The support of a continuous latent; `Refused` where its kind is not known here."""
    s = density.sites[site]
    c = base_constraint(s.support)
    movers = support_movers(density, site)
    if site in movers:
        raise Refused(f"elements of {site} bound one another's support")
    if movers:
        return _moving_support(density, site)
    if c is constraints.real or c is constraints.real_vector:
        _check_affine(density, site)
        return REAL
    if c is constraints.simplex:
        return SIMPLEX
    if c in (constraints.positive, constraints.nonnegative, constraints.softplus_positive):
        return POSITIVE
    if c is constraints.unit_interval:
        return UNIT
    low, high = _ends(density, site, c)
    wanted = (
        (constraints.interval, low is not None and high is not None),
        (constraints.greater_than, low is not None),
        (constraints.less_than, high is not None),
    )
    if any(isinstance(c, kind) and known for kind, known in wanted):
        return _between(low, high, s.fn_name == "Pareto")
    raise Refused(f"the support of {site} ({c}) has no conjugate family here")


_ENDS = {
    "Uniform": ("low", "high"),
    "Pareto": ("scale", None),
    "TwoSidedTruncatedDistribution": ("low", "high"),
    "LeftTruncatedDistribution": ("low", None),
    "RightTruncatedDistribution": (None, "high"),
}


def _check_affine(density: Density, site: str) -> None:
    """NumPyro's affine transforms call their values real unless told otherwise, whatever they transform."""
    name, *transforms = density.transforms.get(site, ("Normal",))
    base = getattr(getattr(dist, name, None), "support", None)
    if "Affine" in transforms and base not in (constraints.real, constraints.real_vector):
        raise Refused(
            f"the support of {site} is not what its AffineTransform says; give that transform the domain of "
            f"{name}"
        )


def _moving_support(density: Density, site: str) -> Support:
    """A support whose ends are read off the other latents at every draw."""
    name = density.sites[site].fn_name
    if name not in _ENDS or density.transforms.get(site):
        raise Refused(f"the support of {site} ({name}) moves with other latents in a way not known here")
    return _between(*_ends(density, site, None), positive=name == "Pareto")


def _ends(density: Density, site: str, constraint: Any) -> Bounds:
    """The ends of an interval: atoms of the density where the distribution has them as parameters, so that
    they are read afresh at every draw; else the numbers of the constraint."""
    if density.transforms.get(site) or density.sites[site].fn_name not in _ENDS:
        ends = (getattr(constraint, n, None) for n in ("lower_bound", "upper_bound"))
        return tuple(float(e) if isinstance(e, int | float) else None for e in ends)  # type: ignore[return-value]
    parameters = density.outputs["parameters"].get(site, {})
    names = _ENDS[density.sites[site].fn_name]
    return tuple(None if n is None else _bound(density, parameters.get(n)) for n in names)  # type: ignore[return-value]


def _bound(density: Density, atom: Any) -> Any:
    """A bound as a float where it is one known number, else its atom."""
    if atom is None:
        return None
    value = known_value(density, atom)
    if value is not None and np.all(value == value.flat[0]):
        return float(value.flat[0])
    return atom
