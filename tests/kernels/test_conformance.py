"""One table enrols every kernel: it must reach the known moments of every target that fits it."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.composite import RandomScanGibbs, Repeat
from gibbsite.kernels.elliptical import EllipticalSlice
from gibbsite.kernels.metropolis import IndependenceMetropolis, Metropolis
from gibbsite.kernels.random_walk import RandomWalk
from gibbsite.kernels.reflective import ReflectiveSlice
from gibbsite.kernels.slice import Slice
from numpyro.infer import HMC, NUTS, Gibbs

from .targets import TARGETS, check_moments, run_chains


def _drift(state):
    """A lopsided proposal, so that the Hastings correction matters."""
    return {name: _around(name, x) for name, x in state.items()}


def _around(name, x):
    if name in ("g", "theta+", "k"):
        return dist.Gamma(3.0, 3.0 / x)
    return dist.Normal(0.8 * x + 0.1, 0.9)


GAUSSIANS = ("normal_mean", "correlated", "hierarchy", "walk")
CONTINUOUS = (*GAUSSIANS, "gamma", "beta", "dirichlet", "moving_bound")

# kernel, how to build it from a model, the targets it fits
TABLE = [
    ("EllipticalSlice", EllipticalSlice, GAUSSIANS),
    ("Slice", Slice, CONTINUOUS),
    ("ReflectiveSlice", ReflectiveSlice, CONTINUOUS),
    ("RandomWalk", RandomWalk, (*CONTINUOUS, "counts")),
    (
        "Independence",
        IndependenceMetropolis,
        ("normal_mean", "correlated", "gamma", "moving_bound", "counts"),
    ),
    ("Metropolis", lambda m: Metropolis(m, _drift), ("normal_mean",)),
    (
        "Metropolis-positive",
        lambda m: Metropolis(m, lambda s: dist.Gamma(2.0, 2.0 / s["g"]).to_event(1)),
        ("gamma",),
    ),
    ("Repeat", lambda m: Repeat(RandomWalk(m), 3), ("normal_mean", "gamma", "counts")),
    ("Repeat-NUTS", lambda m: Gibbs([(Repeat(NUTS(m), 2), None)]), ("correlated", "gamma")),
    (
        "Gibbs-of-three",
        lambda m: Gibbs([(Slice(m), ["mu"]), (EllipticalSlice(m), ["theta"])]),
        ("hierarchy",),
    ),
    ("Gibbs-bound", lambda m: Gibbs([(Slice(m), ["theta"]), (RandomWalk(m), ["x"])]), ("moving_bound",)),
    (
        "RandomScan",
        lambda m: RandomScanGibbs(
            [(HMC(m, num_steps=5, trajectory_length=None), ["mu"]), (Slice(m), ["theta"])]
        ),
        ("hierarchy",),
    ),
]


@pytest.mark.parametrize(
    ("build", "target"),
    [pytest.param(build, t, id=f"{name}-{t}") for name, build, fits in TABLE for t in fits],
)
def test_kernel_reaches_the_moments(build, target):
    row = TARGETS[target]
    draws, _ = run_chains(build(row.model), warmup=600, draws=2500, seed=3)
    assert check_moments(draws, row.mean, row.variance) >= 2
    assert all(jnp.all(jnp.isfinite(x)) for x in draws.values())
