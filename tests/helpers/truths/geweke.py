"""Joint-distribution tests: a kernel and the model's own simulator must leave the prior as it is.

Geweke (2004) alternates `y ~ p(y | theta)` with a kernel for `theta | y`; in stationarity `theta` keeps its
prior. Here many short chains start from exact prior draws, so that after a few alternations the values of the
chains are independent draws from the prior if and only if the kernel is right: plain two-sample tests apply
and no autocorrelation has to be guessed (Gandy and Scott 2021, "Unit testing for MCMC").
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.distributions.transforms import biject_to
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import HMC, Gibbs


def simulate(
    model: Callable[..., Any], key: jax.Array, given: Mapping[str, Any], data: Any
) -> dict[str, Any]:
    """All sample sites of one run of the model at the given values; observed ones are drawn."""
    sites = trace(substitute(seed(model, key), data=dict(given))).get_trace(**data)
    return {n: s["value"] for n, s in sites.items() if s["type"] == "sample"}


def as_start(kernel: Any, first: Mapping[str, Any], data: Any, model: Callable[..., Any]) -> dict[str, Any]:
    """Start values as a kernel wants them: unconstrained for the HMC blocks of a composite."""
    start = dict(first)
    blocks = kernel.blocks if isinstance(kernel, Gibbs) else ()
    names = [n for k, sites in blocks if isinstance(k, HMC) for n in sites or ()]
    sites = trace(substitute(seed(model, random.key(0)), data=dict(first))).get_trace(**data)
    start.update({n: biject_to(sites[n]["fn"].support).inv(first[n]) for n in names})
    return start


def _refreshed(kernel: Any, state: Any, kwargs: Mapping[str, Any]) -> Any:
    """The state with everything cached made anew for other data, in composites block by block."""
    if not isinstance(kernel, Gibbs):
        return kernel.refresh(state, (), kwargs)
    from numpyro.infer.gibbs import with_conditioning

    blocks = list(zip(kernel._kernels, kernel._sites, strict=True))
    values = [
        k.get_constrain_fn((), kwargs)(s.z) for (k, _), s in zip(blocks, state.block_states, strict=True)
    ]
    states = []
    for i, ((k, _), block) in enumerate(zip(blocks, state.block_states, strict=True)):
        rest = {n: v[n] for j, v in enumerate(values) if j != i for n in blocks[j][1]}
        states.append(k.refresh(block, (), with_conditioning(kwargs, rest)))
    return state._replace(block_states=tuple(states))


def joint_distribution_test(
    model: Callable[..., Any],
    kernel: Any,
    observed: Mapping[str, str],
    *,
    inputs: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    chains: int = 4000,
    steps: int = 5,
    seed_: int = 0,
) -> dict[str, np.ndarray]:
    """z-scores of the mean and the square of every latent element after `steps` alternations.

    `model` takes its data as keyword arguments that may be None, which draws them; `observed` maps each of
    these arguments to its site. `kernel` was built on that model, or takes what `inputs(data)` returns as its
    keyword arguments. Its tuning is frozen (no warm-up).
    """
    inputs = inputs or (lambda data: data)
    nothing = dict.fromkeys(observed)

    def prior_draw(key: jax.Array) -> dict[str, Any]:
        return simulate(model, random.split(key, 3)[1], {}, nothing)

    def chain(key: jax.Array) -> dict[str, Any]:
        start = prior_draw(key)
        key, _, key_init = random.split(key, 3)
        data = {argument: start[site] for argument, site in observed.items()}
        first = {n: v for n, v in start.items() if n not in observed.values()}
        state = kernel.init(key_init, 0, as_start(kernel, first, data, model), (), inputs(data))

        def alternate(carry: Any, key: jax.Array) -> Any:
            state, data = carry
            state = kernel.sample(_refreshed(kernel, state, inputs(data)), (), inputs(data))
            z = kernel.get_constrain_fn((), inputs(data))(state.z)
            drawn = simulate(model, key, z, nothing)
            data = {argument: drawn[site] for argument, site in observed.items()}
            return (state, data), None

        (state, data), _ = jax.lax.scan(alternate, (state, data), random.split(key, steps))
        return kernel.get_constrain_fn((), inputs(data))(state.z)

    keys = random.split(random.key(seed_), 2 * chains)
    # prior draws of other chains are compared with: the start of a chain and its end are dependent
    prior = jax.jit(jax.vmap(prior_draw))(keys[:chains])
    after = jax.jit(jax.vmap(chain))(keys[chains:])
    scores = {}
    for name in after:
        a, b = (np.asarray(v[name], np.float64).reshape(chains, -1) for v in (prior, after))
        assert np.isfinite(b).all(), f"{name} has values that are not finite"
        centre = np.median(a, 0)
        scores[name] = np.concatenate([_z(a, b), _z(a**2, b**2), _z(abs(a - centre), abs(b - centre))])
    return scores


def _z(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    se = np.sqrt((a.var(0) + b.var(0)) / len(a))
    return (a.mean(0) - b.mean(0)) / np.where(se > 0, se, 1.0)
