"""A site that sets the support of others (`x ~ Uniform(0, theta)`): their values limit it in turn.

Where the bound is a linear function of the site, each value is one inequality on one element of it, so the
conditional is the certified family cut off at the tightest of them: a Pareto prior of a Uniform's upper end
stays a Pareto whose scale is the largest value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.forms import ONE, Form, X
from gibbsite.conditional.forms.rules import Domain
from gibbsite.conditional.forms.walk import Assumed, FormEvaluator, Refused
from gibbsite.conditional.reads.moving_support import bounded_by
from gibbsite.density import Density
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.maps.access import Access, element_number, inside

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
