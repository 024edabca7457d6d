"""Why a draw is no number: what the density and the values around it show, not what might be."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.constraints import Constraint

from gibbsite.density import Density
from gibbsite.density.liveness import loose_sites
from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.jaxpr.compiling import once
from gibbsite.storage.draws import label_of

_MOST = 256
"""Numbers of a block whose curvature is looked at: a matrix of their square, made once."""
_SINGULAR = 10.0
"""Times the rounding of a matrix: smaller eigenvalues beside the largest are rounding themselves."""
_MIDDLE = 0.1


def cause_of(density: Density | None, sites: Sequence[str], state: Mapping[str, Any], value: float) -> str:
    """Why a block of `sites` drew a `value` that is no number, in words, given the `state` it drew from: the
    first of what applies. Values of the state that are no numbers, or lacking, are taken from the middle of
    their supports."""
    if density is None:
        return "what led to it cannot be seen without the model"
    with jax.ensure_compile_time_eval():
        values = _completed(density, state)
        own = [n for n in sites if n in density.latent_vars and not density.sites[n].discrete]
        for look in (_parameter, _curvature, _improper, _range):
            found = look(density, own, values)
            if found:
                return found
    if np.isinf(value):
        return f"it grew beyond what {np.dtype(np.float32)} holds: rescale what it is computed from"
    return (
        "every parameter of the model is in its range there, and the density is finite: the arithmetic of "
        "this update fails, not the model; give its sites another kernel, or turn on 64-bit numbers "
        "(`jax.config.update('jax_enable_x64', True)`)"
    )


def _completed(density: Density, state: Mapping[str, Any]) -> dict[str, Any]:
    out = {}
    packed = density.packed(dict(state))
    for name in density.latent_vars:
        site = density.sites[name]
        now = packed.get(name)
        if site.discrete:
            out[name] = jnp.zeros(site.shape, site.dtype) if now is None else jnp.asarray(now, site.dtype)
            continue
        through = biject_to(site.support)
        middle = through(jnp.full(through.inverse_shape(site.shape), _MIDDLE, site.dtype))
        out[name] = middle if now is None else jnp.where(jnp.isfinite(now), jnp.asarray(now), middle)
    return out


def _parameter(density: Density, own: Sequence[str], values: Mapping[str, Any]) -> str:
    """A parameter that is zero where it must be above, or no number."""
    read = density.evaluator(values).full
    for site, parameters in density.outputs["parameters"].items():
        for name, atom in parameters.items():
            if not density.maps.latents(atom):
                continue  # known before the run, and looked at then
            x = np.asarray(read(atom))
            wanted = density.parameter_constraints.get(site, {}).get(name)
            wrong = ~np.isfinite(x) | (_above_zero(wanted) & (x <= 0))
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                what = label_of(name, at)
                reads = ", ".join(n for n in density.latents if n in density.maps.latents(atom))
                return (
                    f"{what} of {site!r} is {x[at]:g} there; it is computed from {reads}: keep that away "
                    f"from where this happens, by a prior or a bound"
                )
    return ""


def _above_zero(constraint: Constraint | None) -> bool:
    base = None if constraint is None else base_constraint(constraint)
    return isinstance(base, type(constraints.positive)) and base.lower_bound == 0  # type: ignore[attr-defined]


def _curvature(density: Density, own: Sequence[str], values: Mapping[str, Any]) -> str:
    """A density that falls in some direction on no side, or in some much less than in others."""
    flat = [n for n in own if base_constraint(density.sites[n].support) in _FLAT]
    sizes = [int(np.prod(density.sites[n].shape, dtype=np.int64)) for n in flat]
    if not flat or sum(sizes) > _MOST:
        return ""
    ends = np.cumsum(sizes)[:-1]
    data = tuple(density.arguments.arrays)

    def height(x: Any) -> Any:
        parts = jnp.split(x, ends)
        moved = {n: p.reshape(density.sites[n].shape) for n, p in zip(flat, parts, strict=True)}
        return density.log_joint_at({**values, **moved}, data)

    x = jnp.concatenate([jnp.ravel(values[n]) for n in flat])
    precision = -np.asarray(once(jax.hessian(height), x), np.float64)
    if not np.isfinite(precision).all():
        return ""
    curved = np.diagonal(precision)
    if (curved <= 0).any():
        k = int(np.argmin(curved))
        i = int(np.searchsorted(ends, k, side="right"))
        at = np.unravel_index(k - (ends[i - 1] if i else 0), density.sites[flat[i]].shape)
        label = label_of(flat[i], tuple(int(a) for a in at))
        return f"given the rest nothing makes {label} proper: its conditional has no end on some side"
    scale = 1 / np.sqrt(curved)
    least = np.linalg.eigvalsh(precision * scale[:, None] * scale)[0]
    if least < _SINGULAR * np.finfo(x.dtype).eps * len(curved):
        if loose := [n for n in flat if n in loose_sites(density)]:
            what = "columns that make up for each other"
            apart = f"the data do not tell {', '.join(flat)} apart ({what})"
            return f"the prior of {', '.join(loose)} is improper, and {apart}"
        return (
            f"the coefficients {', '.join(flat)} make up for each other: what the data say of them is told "
            f"apart by less than the rounding of {x.dtype}; centre covariates, leave one out, or turn on "
            f"64-bit numbers (`jax.config.update('jax_enable_x64', True)`)"
        )
    return ""


_FLAT = (constraints.real, constraints.real_vector)


def _improper(density: Density, own: Sequence[str], values: Mapping[str, Any]) -> str:
    """A prior that says nothing, near the block."""
    near = {m for n in own for t, _ in density.terms_of(n) for m in density.maps.latents(t.atom)}
    loose = [n for n in loose_sites(density) if n in near]
    if not loose:
        return ""
    return (
        f"the prior of {', '.join(map(repr, loose))} is improper, and the data do not make the posterior "
        f"proper: give it a proper prior"
    )


def _range(density: Density, own: Sequence[str], values: Mapping[str, Any]) -> str:
    """A value whose square is beyond the largest number."""
    for name, v in values.items():
        x = np.asarray(v)
        if x.dtype.kind == "f" and x.size and np.abs(x).max() > np.sqrt(np.finfo(x.dtype).max):
            at = tuple(int(i) for i in np.argwhere(np.abs(x) == np.abs(x).max())[0])
            return (
                f"{label_of(name, at)} is {x[at]:g} there, whose square {x.dtype} does not hold: a prior or "
                f"a scale lets it run away"
            )
    return ""
