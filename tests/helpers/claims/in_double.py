"""Models that single precision may not hold, and what their draws and odds are off by against double."""

from types import SimpleNamespace
from typing import NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.conditional.linear.joint import joint_gaussian
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import log_density
from scipy import stats

GROUP = (np.arange(60) % 12).astype(np.int32)
"""Of twelve, for each of the rows of `lines`."""


def line(x, y):
    a = numpyro.sample("a", dist.ImproperUniform(dist.constraints.real, (), ()))
    b = numpyro.sample("b", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a + b * x, 0.1), obs=y)


def lines(x, y, group):
    m = numpyro.sample("m", dist.Normal(0, 1e4))
    k = numpyro.sample("k", dist.Normal(0, 100.0))
    with numpyro.plate("groups", 12):
        a = numpyro.sample("a", dist.Normal(m, 1000.0))
        b = numpyro.sample("b", dist.Normal(k, 1.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a[group] + b[group] * x, 0.1), obs=y)


def matrix(x, y):
    b = numpyro.sample("b", dist.Normal(0, 1000.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ b, 0.1), obs=y)


def around(rng, offset, spread=1.0, rows=40):
    """A covariate and data of a line in it."""
    x = rng.normal(size=rows)
    return offset + spread * x, 3 + 0.2 * x + 0.1 * rng.normal(size=rows)


def odds_of_a_switch(rows, labels, seed=0):
    """By how much the log odds of a switch of all rows are off, given them, or with labels of each summed
    out."""

    def model(y, by):
        g = numpyro.sample("g", dist.Bernoulli(0.5))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.3)) if labels else 0.0
            numpyro.sample("y", dist.Normal(by * g + 2.0 * z, 1.0), obs=y)

    rng, by = np.random.default_rng(seed), np.float32(rows**-0.5)
    y = (rng.normal(size=rows) + 2 * labels * (rng.random(rows) < 0.3)).astype(np.float32)
    made, wide = gb.model(model, y, by, check_values=False), y.astype(np.float64)
    share = [(0, 0.7), (2, 0.3)] if labels else [(0, 1.0)]
    exact = [np.log(sum(w * stats.norm.pdf(wide, float(by) * g + z) for z, w in share)) for g in (0, 1)]
    if labels:
        marginal = made.marginal("z")
        found = [float(marginal.logdensity({"g": np.int32(g)})) for g in (0, 1)]
    else:
        found = np.asarray(made.conditional("g").logits({}), np.float64).ravel()
    return abs(found[1] - found[0] - (exact[1] - exact[0]).sum())


def energies_of_rows(rows, seed=0):
    """Of log densities of many rows, around their maximum: what they are off by, spread over places; and the
    largest error of a gradient, in standard deviations of the posterior."""

    def model(y):
        m = numpyro.sample("m", dist.Normal(0, 10.0))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.StudentT(5.0, m, 1.0), obs=y)

    y = (3 + np.random.default_rng(seed).normal(size=rows)).astype(np.float32)
    both = jax.jit(jax.vmap(jax.value_and_grad(lambda m: log_density(model, (y,), {}, {"m": m})[0])))
    at = np.float32(3 + np.linspace(-3, 3, 8) * rows**-0.5)
    level, slope = (np.asarray(v, np.float64) for v in both(at))
    wide, places = y.astype(np.float64), at.astype(np.float64)
    exact = [stats.t.logpdf(wide - m, 5).sum() + stats.norm.logpdf(m, 0, 10) for m in places]
    slopes = [(6 * (wide - m) / (5 + (wide - m) ** 2)).sum() - m / 100 for m in places]
    return float(np.std(level - exact)), float(np.max(np.abs(slope - slopes))) * rows**-0.5


def filter_of(steps, outlying=0.0, seed=0):
    """Of a hidden Markov model of two states, data `outlying` that far: what differences of the
    log density with the states summed out are off by, in nats, and the largest error of a probability."""
    stay, by = np.float32(0.95), np.float32(steps**-0.5)

    def model(y):
        m = numpyro.sample("m", dist.Normal(0, 1.0))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("y", dist.Normal(m + 2.0 * z, 1.0), obs=y)
        numpyro.factor("steps", jnp.where(z[1:] == z[:-1], jnp.log(stay), jnp.log(1 - stay)).sum())

    rng = np.random.default_rng(seed)
    z = np.cumsum(rng.random(steps) < 0.05) % 2
    y = (outlying * (-1) ** np.arange(steps) + 2 * z + rng.normal(size=steps)).astype(np.float32)
    marginal = gb.model(model, y, check_values=False).marginal("z")
    found = [float(marginal.logdensity({"m": m})) for m in (np.float32(0), by)]
    # the model's plate has half a chance for either state at every step
    move = np.array([[stay, 1 - stay], [1 - stay, stay]], float)
    exact, probs = [], None
    for m in (0.0, float(by)):
        like = stats.norm.logpdf(y.astype(float)[:, None], m + 2.0 * np.arange(2))
        top = like.max(1)
        like, total = np.exp(like - top[:, None]), top.sum() + stats.norm.logpdf(m)
        ahead, behind = np.empty((steps, 2)), np.ones((steps, 2))
        now = np.full(2, 0.5)
        for t in range(steps):
            now = (now if t == 0 else now @ move) * like[t]
            total += np.log(now.sum())
            ahead[t] = now = now / now.sum()
        exact.append(total)
        if m == 0.0:
            for t in range(steps - 2, -1, -1):
                back = move @ (like[t + 1] * behind[t + 1])
                behind[t] = back / back.sum()
            probs = ahead * behind
            probs /= probs.sum(1, keepdims=True)
    off = abs(found[1] - found[0] - (exact[1] - exact[0]))
    got = np.asarray(marginal.probs({"m": np.float32(0)})["z"], np.float64)
    return off, float(np.abs(got - probs).max())


def there_and_back(whitening, parameters, shape, seed=0):
    """What standard normal numbers are off by after they were the value of a site and were taken back from
    it; `whitening` is `of_walk` or `of_normal`."""
    site = SimpleNamespace(shape=shape, in_scan=False)
    values = {n: jnp.asarray(v, jnp.float32) for n, v in parameters.items()}
    through = whitening(site, {n: n for n in values})(values.__getitem__)
    z = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return float(np.max(np.abs(np.asarray(jax.jit(lambda z: through.back(through.forth(z)))(z)) - z)))


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
