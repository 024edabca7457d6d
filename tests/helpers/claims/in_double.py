"""Jointly Gaussian sites in double precision, and what the draws in single precision are off by."""

from typing import NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.conditional.linear.joint import joint_gaussian
from jax.flatten_util import ravel_pytree


class Off(NamedTuple):
    """How far means are off in standard deviations, the least and the largest ratio of spreads, by element
    and in any direction, and what the draw tells of itself."""

    mean: float
    spread: tuple[float, float]
    any_direction: tuple[float, float]
    rounding: float


def _in_double(fn, args, sites, state):
    """Mean and covariance by derivatives of the log joint; `args` are what single precision makes of them."""
    with jax.enable_x64(True):
        model = gb.model(fn, *(np.float64(a) if a.dtype.kind == "f" else a for a in args), check_values=False)
        flat, unravel = ravel_pytree({s: jnp.zeros(model.sites[s].shape) for s in sites})
        latents = model.density.state_values({n: np.float64(v) for n, v in state.items()}, without=sites)
        data = tuple(model.density.arguments.arrays)

        def logdensity(x):
            ev = model.density.evaluator({**latents, **unravel(x)}, data)
            parts = (t.contribution(ev.full(t.atom), ev.full) for t in model.density.terms)
            return sum(
                jnp.sum(jnp.broadcast_to(v, t.shape)) for v, t in zip(parts, model.density.terms, strict=True)
            )

        precision = -np.asarray(jax.hessian(logdensity)(flat))
        gradient = np.asarray(jax.grad(logdensity)(flat))
    scale = np.diag(precision) ** -0.5
    cov = np.linalg.inv(precision * scale[:, None] * scale) * scale[:, None] * scale
    mean = cov @ gradient
    return mean + cov @ (gradient - precision @ mean), cov, unravel


def off(fn, args, sites, state=None, near=True) -> Off:
    """What the joint draw of `sites` of a model in single precision is off by, from values of the sites that
    are a draw (`near`) or zero."""
    args = [np.asarray(a, np.float32 if np.asarray(a).dtype.kind == "f" else np.int32) for a in args]
    state = {n: np.float32(v) for n, v in (state or {}).items()}
    mean, cov, unravel = _in_double(fn, args, sites, state)
    root = np.linalg.cholesky(cov)
    model = gb.model(fn, *args, check_values=False)
    joint = joint_gaussian(model.density, sites)
    latents = model.density.state_values(state, without=sites)
    if near:
        start = unravel(mean + root @ np.random.default_rng(5).normal(size=len(mean)))
        latents = {**latents, **{n: jnp.asarray(v, jnp.float32) for n, v in start.items()}}

    @jax.jit
    def found(latents):
        mean, factor, rounding = joint.solved(latents, tuple(model.density.arguments.arrays))
        spread = jax.jacfwd(lambda z: ravel_pytree(joint.values(factor.noise(z)))[0])(
            joint.noise(jax.random.key(0))
        )
        return ravel_pytree(joint.values(mean))[0], spread, rounding

    got, spread, rounding = found(latents)
    half = np.concatenate([np.asarray(s, np.float64).reshape(len(mean), -1) for s in spread], 1)
    sd = np.sqrt(np.diag(cov))
    ratio = np.sqrt(np.sum(half**2, 1)) / sd
    every = np.linalg.svd(np.linalg.solve(root, half), compute_uv=False)
    return Off(
        float(np.max(np.abs(np.asarray(got, np.float64) - mean) / sd)),
        (float(ratio.min()), float(ratio.max())),
        (float(every.min()), float(every.max())),
        float(rounding),
    )
