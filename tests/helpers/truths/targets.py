"""Targets with known moments, as NumPyro models, and the loop that runs a kernel on one."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.diagnostics import effective_sample_size


@dataclass(frozen=True)
class TargetRow:
    """A model, and the posterior mean and variance of every latent."""

    name: str
    model: Callable[..., Any]
    mean: dict[str, Any]
    variance: dict[str, Any]


def normal_mean():
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    with numpyro.plate("n", 5):
        numpyro.sample("y", dist.Normal(mu, 1.5), obs=jnp.array([0.3, -1.0, 2.2, 0.4, 1.9]))


def correlated():
    cov = jnp.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.5], [0.0, -0.5, 0.7]])
    x = numpyro.sample("x", dist.MultivariateNormal(jnp.array([1.0, 0.0, -1.0]), cov))
    numpyro.sample("y", dist.Normal(x[0] - x[1], 1.0), obs=0.5)


def hierarchy():
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.plate("g", 3):
        theta = numpyro.sample("theta", dist.Normal(mu, 1.0))
        numpyro.sample("y", dist.Normal(theta, 0.8), obs=jnp.array([1.0, 2.0, -0.5]))


def walk():
    x = numpyro.sample("x", dist.GaussianRandomWalk(0.7, 4))
    numpyro.sample("y", dist.Normal(x, 0.5).to_event(1), obs=jnp.array([0.2, 0.9, 1.0, 0.1]))


def gamma():
    numpyro.sample("g", dist.Gamma(jnp.array([3.0, 1.5]), 2.0).to_event(1))


def beta():
    numpyro.sample("p", dist.Beta(2.0, 5.0))


def dirichlet():
    numpyro.sample("w", dist.Dirichlet(jnp.array([1.0, 2.0, 4.0])))


def moving_bound():
    theta = numpyro.sample("theta", dist.Gamma(3.0, 1.0))
    numpyro.sample("x", dist.Uniform(0.0, theta))


def counts():
    with numpyro.plate("n", 2):
        numpyro.sample("k", dist.Poisson(jnp.array([2.5, 6.0])))


SEEN = np.array([0.2, 1.1, 1.8, 0.4])


def labels():
    """Discrete values that pull at their neighbours."""
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
        numpyro.sample("y", dist.Normal(z, 1.2), obs=jnp.asarray(SEEN))
    numpyro.factor("pull", 0.6 * jnp.sum(z[1:] == z[:-1]))


def _labels():
    """Mean and variance of every label, by enumeration."""
    z = np.array(list(itertools.product(range(3), repeat=4)))
    weight = np.log([0.2, 0.5, 0.3])[z].sum(1) - (((SEEN - z) / 1.2) ** 2).sum(1) / 2
    p = np.exp(weight + 0.6 * (z[:, 1:] == z[:, :-1]).sum(1))
    p /= p.sum()
    return p @ z, p @ z**2 - (p @ z) ** 2


def _linear(prior_mean, prior_cov, design, noise, y):
    """Mean and marginal variances of a linear-Gaussian posterior."""
    precision = np.linalg.inv(prior_cov) + design.T @ np.diag(1 / noise**2) @ design
    cov = np.linalg.inv(precision)
    mean = cov @ (np.linalg.inv(prior_cov) @ prior_mean + design.T @ (y / noise**2))
    return mean, np.diag(cov)


def _rows() -> list[TargetRow]:
    y = np.array([0.3, -1.0, 2.2, 0.4, 1.9])
    m, v = _linear(np.array([1.0]), np.array([[4.0]]), np.ones((5, 1)), np.full(5, 1.5), y)
    rows = [TargetRow("normal_mean", normal_mean, {"mu": m[0]}, {"mu": v[0]})]
    cov = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.5], [0.0, -0.5, 0.7]])
    m, v = _linear(
        np.array([1.0, 0, -1]), cov, np.array([[1.0, -1.0, 0.0]]), np.array([1.0]), np.array([0.5])
    )
    rows.append(TargetRow("correlated", correlated, {"x": m}, {"x": v}))
    prior = np.full((4, 4), 4.0) + np.diag([0.0, 1, 1, 1])
    design = np.concatenate([np.zeros((3, 1)), np.eye(3)], 1)
    m, v = _linear(np.zeros(4), prior, design, np.full(3, 0.8), np.array([1.0, 2.0, -0.5]))
    means, variances = {"mu": m[0], "theta": m[1:]}, {"mu": v[0], "theta": v[1:]}
    rows.append(TargetRow("hierarchy", hierarchy, means, variances))
    steps = np.tril(np.ones((4, 4)))
    m, v = _linear(
        np.zeros(4), 0.49 * steps @ steps.T, np.eye(4), np.full(4, 0.5), np.array([0.2, 0.9, 1, 0.1])
    )
    rows.append(TargetRow("walk", walk, {"x": m}, {"x": v}))
    shape = np.array([3.0, 1.5])
    rows.append(TargetRow("gamma", gamma, {"g": shape / 2}, {"g": shape / 4}))
    rows.append(TargetRow("beta", beta, {"p": 2 / 7}, {"p": 10 / (49 * 8)}))
    a = np.array([1.0, 2.0, 4.0])
    rows.append(TargetRow("dirichlet", dirichlet, {"w": a / 7}, {"w": a * (7 - a) / (49 * 8)}))
    # E x = E theta / 2; var x = E theta² / 3 − (E theta)² / 4
    moments = {"theta": 3.0, "x": 1.5}, {"theta": 3.0, "x": 12 / 3 - 9 / 4}
    rows.append(TargetRow("moving_bound", moving_bound, *moments))
    rate = np.array([2.5, 6.0])
    mean, variance = _labels()
    rows.append(TargetRow("labels", labels, {"z": mean}, {"z": variance}))
    rows.append(TargetRow("counts", counts, {"k": rate}, {"k": rate}))
    return rows


TARGETS = {row.name: row for row in _rows()}


def run_chains(kernel, *, warmup=500, draws=1500, chains=4, seed=0, kwargs=None):
    """Draws `{site: [chain, draw, *shape]}` of latents and deterministics; one program from start to end."""

    @jax.jit
    def program(keys, kwargs):
        states = jax.vmap(lambda k: kernel.init(k, warmup, None, (), kwargs))(keys)
        step = jax.vmap(lambda s: kernel.sample(s, (), kwargs))

        def collect(states, _):
            states = step(states)
            return states, states.z

        # warm-up is part of the one loop, so that a step is compiled once
        _, z = jax.lax.scan(collect, states, None, length=warmup + draws)
        kept = jax.tree.map(lambda x: x[warmup:], z)
        return jax.vmap(jax.vmap(kernel.postprocess_fn((), kwargs)))(kept)

    found = program(random.split(random.key(seed), chains), kwargs or {})
    return {name: np.moveaxis(np.asarray(x), 0, 1) for name, x in found.items()}


def check_moments(draws, mean, variance, min_ess=150):
    """Every element's mean and variance within 4 standard errors, after an ESS gate. Returns checks made."""
    checks = 0
    for name, expected in mean.items():
        x = np.asarray(draws[name], np.float64)
        x = x.reshape(*x.shape[:2], -1)
        centre = np.asarray(expected, np.float64).reshape(-1)
        spread = np.asarray(variance[name], np.float64).reshape(-1)
        for statistic, truth in ((x, centre), ((x - centre) ** 2, spread)):
            ess = np.asarray(effective_sample_size(statistic))
            assert np.all(ess > min_ess), f"{name}: ESS {ess} is too small to judge"
            error = np.abs(statistic.mean((0, 1)) - truth)
            se = statistic.std((0, 1)) / np.sqrt(ess)
            assert np.all(error < 4 * se), f"{name}: off by {error / se} standard errors"
            checks += truth.size
    return checks
