"""What conjugate families need to know of a site: its support, what limits it, degrees of its terms."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.conditional.forms.forms import ONE, Form, X
from gibbsite.conditional.forms.rules import Domain
from gibbsite.conditional.forms.walk import Assumed, FormEvaluator, Refused, known_value, refusal
from gibbsite.conditional.reads.support import bounded_by, support_movers
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.terms import Term
from gibbsite.programs.domains.degree import DEGREES, NONE
from gibbsite.programs.domains.domain import results
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.walker import OnDemand
from gibbsite.programs.maps.access import Access, element_number, inside

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


# A site that sets the support of others (`x ~ Uniform(0, theta)`): their values limit it in turn.
#
# Where the bound is a linear function of the site, each value is one inequality on one element of it, so the
# conditional is the certified family cut off at the tightest of them: a Pareto prior of a Uniform's upper
# end stays a Pareto whose scale is the largest value.


_BOUNDS = {"Uniform": {"low": 1.0, "high": -1.0}, "Pareto": {"scale": 1.0}}


@dataclass(frozen=True)
class Limit:
    """`sign * bound <= sign * value` for all values of the site `of`, whose parameter `atom` is the bound."""

    of: str
    atom: Any
    sign: float


def limits_of(density: Density, site: str) -> tuple[Limit, ...]:
    """The inequalities that other sites' supports put on `site`; `Refused` where they are no inequalities."""
    found = []
    for name in bounded_by(density, site):
        what = f"it bounds the support of {name}"
        bounds = _BOUNDS.get(density.sites[name].fn_name)
        if bounds is None or density.transforms.get(name) or density.sites[name].discrete:
            raise Refused(what)
        terms = [t for t, _ in density.terms_of(site) if t.origin == name]
        if not terms or any(t.weight.scalar is None for t in terms):
            raise Refused(f"{what}, whose density is masked or weighted")
        parameters = density.outputs["parameters"][name]
        for parameter, sign in bounds.items():
            if site in density.maps.latents(parameters[parameter]):
                found.append(Limit(name, parameters[parameter], sign))
    return tuple(found)


def limited_interval(
    density: Density,
    site: str,
    limits: tuple[Limit, ...],
    domain: Domain,
    latents: Mapping[str, Any],
    data: Any,
    assumed: Assumed | None = None,
) -> tuple[Any, Any]:
    """Lower and upper limits of every element, of the site's shape, infinite where there are none.

    Pure; raises `Refused` where a bound is not linear in the site.
    """
    fixed = {n: jnp.asarray(v, density.sites[n].dtype) for n, v in (assumed or {}).items()}
    others = density.evaluator({n: v for n, v in {**latents, **fixed}.items() if n != site}, data)
    forms = FormEvaluator(density, site, domain, others, assumed)
    shape, dtype = density.sites[site].shape, density.sites[site].dtype
    low, high = jnp.full(shape, -jnp.inf, dtype), jnp.full(shape, jnp.inf, dtype)
    for limit in limits:
        form = forms.value(limit.atom, limit.of)
        if not isinstance(form, Form) or not form.keys <= {X}:
            raise Refused(f"it bounds the support of {limit.of} by more than a linear function of it")
        values = _values(density, limit.of, latents, others)
        slope, offset = (jnp.asarray(form.parts.get(k, 0.0), dtype) for k in (X, ONE))
        at = (values - offset) / jnp.where(slope == 0, 1.0, slope)
        below = limit.sign * slope < 0
        lows = jnp.where(below & (slope != 0), at, -jnp.inf)
        highs = jnp.where(~below & (slope != 0), at, jnp.inf)
        low = jnp.maximum(low, _tightest(density, site, limit.atom, lows, others))
        high = jnp.minimum(high, -_tightest(density, site, limit.atom, -highs, others))
    return low, high


def _values(density: Density, name: str, latents: Mapping[str, Any], others: Evaluator) -> Any:
    if name in density.latent_vars:
        return jnp.asarray(latents[name])
    return others.full(density.outputs["observed"][name])


def _tightest(density: Density, site: str, atom: Any, bounds: Any, others: Evaluator) -> Any:
    """The largest of the lower bounds that concern each element of the site."""
    shape, target = tuple(atom.aval.shape), density.sites[site].shape
    if int(np.prod(target, dtype=np.int64)) == 1:
        return jnp.full(target, jnp.max(bounds))
    bounds = jnp.broadcast_to(bounds, np.broadcast_shapes(bounds.shape, shape))
    lead = bounds.ndim - len(shape)
    bounds = jnp.max(bounds, axis=tuple(range(lead)))
    narrow = tuple(a for a, n in enumerate(shape) if n == 1 and bounds.shape[a] != 1)
    bounds = jnp.max(bounds, axis=narrow, keepdims=True)
    out = jnp.full(target, -jnp.inf, bounds.dtype)
    for access in density.maps[atom][site]:
        out = jnp.maximum(out, _onto(access, bounds, shape, target, others))
    return out


def _onto(access: Access, bounds: Any, shape: tuple[int, ...], target: tuple[int, ...], others: Any) -> Any:
    flat = element_number(access.index, shape, target, others.full)
    found = jax.ops.segment_max(
        jnp.broadcast_to(jnp.where(inside(access.window, shape), bounds, -jnp.inf), shape).reshape(-1),
        jnp.broadcast_to(flat, shape).reshape(-1),
        num_segments=int(np.prod(target, dtype=np.int64)),
    )
    return found.reshape(target)


def certify_quadratic(density: Density, *sites: str) -> Mapping[Any, int]:
    """Degree, in all elements of `sites` together, of every array that their terms read.

    Raises `Refused` at the first that is no polynomial in them, or one of a degree above two.
    """
    degrees: dict[Any, int] = {}
    for term in density.terms_reading(sites).values():
        _degree(density, sites, term.atom, term.origin, degrees)
    return degrees


def certify_rest(
    density: Density, sites: tuple[str, ...]
) -> tuple[dict[Any, int], dict[int, tuple[Term, str]]]:
    """As `certify_quadratic`, but with the terms that are not certified apart, by their number among the
    density's terms, each with what stands in the way."""
    degrees: dict[Any, int] = {}
    others: dict[int, tuple[Term, str]] = {}
    for i, term in density.terms_reading(sites).items():
        try:
            _degree(density, sites, term.atom, term.origin, degrees)
        except Refused as why:
            others[i] = term, str(why)
    return degrees, others


def degree_of(density: Density, sites: tuple[str, ...], atom: Any, degrees: dict[Any, int]) -> int | None:
    """Degree of an array as a polynomial in all elements of `sites`; None where it is none of degree two.
    Keeps what it learns in `degrees`."""
    try:
        return _degree(density, sites, atom, sites[0], degrees)
    except Refused:
        return None


def _degree(density: Density, sites: tuple[str, ...], atom: Any, origin: str, degrees: dict[Any, int]) -> int:
    named = " and ".join(sites)
    degrees.update({density.latent_vars[site]: 1 for site in sites})

    def free(atom: Any) -> bool:
        return density.maps.latents(atom).isdisjoint(sites)

    def leaf(atom: Any) -> int | None:
        return 0 if free(atom) else None

    def rule(eqn: Any, operands: list[int]) -> list[int]:
        found = results(DEGREES, eqn, operands)
        if NONE in found:
            raise refusal(density, eqn, origin, f"is no polynomial in {named}")
        if max(found) > 2:
            raise refusal(density, eqn, origin, f"has degree {max(found)} in {named}")
        return found

    return OnDemand(density.producer, leaf, rule, degrees)(atom)
