"""Simulation-based calibration: ranks of what made the data among draws given them are uniform.

Talts et al. (2018), "Validating Bayesian inference algorithms with simulation-based calibration". Unlike a
joint-distribution test, whose chains start where they belong, every chain starts at another draw of the prior
and has to find its posterior by itself. Ties, of discrete sites, are broken by chance.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax import random
from scipy.stats import chisquare

from helpers.truths.geweke import as_start, simulate


def ranks(
    model: Callable[..., Any],
    kernel: Any,
    observed: Mapping[str, str],
    inputs: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    replicates: int = 1000,
    kept: int = 19,
    thin: int = 10,
    warmup: int = 100,
    seed_: int = 0,
) -> dict[str, np.ndarray]:
    """For every latent the ranks `[replicate, element]` of its true values among `kept` draws."""
    nothing = dict.fromkeys(observed)

    def replicate(key: jax.Array) -> tuple[dict[str, Any], dict[str, Any]]:
        key, key_truth, key_start, key_init = random.split(key, 4)
        truth = simulate(model, key_truth, {}, nothing)
        data = {argument: truth[site] for argument, site in observed.items()}
        first = simulate(model, key_start, {}, nothing)
        first = {n: v for n, v in first.items() if n not in observed.values()}
        given = inputs(data)
        state = kernel.init(key_init, 0, as_start(kernel, first, data, model), (), given)

        def sweep(state: Any, _: Any) -> Any:
            return kernel.sample(state, (), given), None

        def keep(state: Any, _: Any) -> Any:
            state, _ = jax.lax.scan(sweep, state, None, thin)
            return state, kernel.get_constrain_fn((), given)(state.z)

        state, _ = jax.lax.scan(sweep, state, None, warmup)
        _, draws = jax.lax.scan(keep, state, None, kept)
        return {n: truth[n] for n in draws}, draws

    truth, draws = jax.jit(jax.vmap(replicate))(random.split(random.key(seed_), replicates))
    rng = np.random.default_rng(seed_)
    out = {}
    for name, x in draws.items():
        x = np.asarray(x, np.float64).reshape(replicates, kept, -1)
        t = np.asarray(truth[name], np.float64).reshape(replicates, 1, -1)
        assert np.isfinite(x).all(), f"{name} has values that are not finite"
        out[name] = (x < t).sum(1) + rng.integers(0, (x == t).sum(1) + 1)
    return out


def least_p(found: Mapping[str, np.ndarray], kept: int = 19) -> tuple[float, str]:
    """The smallest p-value of a chi-squared test of uniform ranks over all elements, times their number, and
    whose it is."""
    scores = [
        (float(chisquare(np.bincount(column, minlength=kept + 1)).pvalue), f"{name}[{i}]")
        for name, x in found.items()
        for i, column in enumerate(x.T)
    ]
    p, where = min(scores)
    return p * len(scores), where
