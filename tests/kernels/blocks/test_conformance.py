"""One table enrols every kernel: it must reach the known moments of every target that fits it.

All of it: `pytest -m 'slow or not slow' tests/kernels/test_conformance.py`.
"""

from functools import cache

import gibbsite as gb
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.blocks.conjugate import ConjugateGibbs
from gibbsite.kernels.blocks.elliptical import EllipticalSlice
from gibbsite.kernels.blocks.finite import FiniteGibbs, WindowGibbs
from gibbsite.kernels.blocks.metropolis import IndependenceMetropolis, Metropolis, RandomWalk
from gibbsite.kernels.blocks.slice import ReflectiveSlice, Slice
from gibbsite.kernels.blocks.tempered import Tempered
from gibbsite.kernels.composite import RandomScanGibbs, Repeat, SystematicScanGibbs
from gibbsite.plans.schedule.registry import find_kernel, kernels
from helpers.truths.targets import TARGETS, check_moments, run_chains
from numpyro.infer import HMC, NUTS, Gibbs


def _drift(state):
    """A lopsided proposal, so that the Hastings correction matters."""
    return {name: _around(name, x) for name, x in state.items()}


def _around(name, x):
    if name in ("g", "theta+", "k"):
        return dist.Gamma(3.0, 3.0 / x)
    return dist.Normal(0.8 * x + 0.1, 0.9)


GAUSSIANS = ("normal_mean", "correlated", "hierarchy", "walk")
SMOOTH = (*GAUSSIANS, "gamma", "beta", "dirichlet")
CONTINUOUS = (*SMOOTH, "moving_bound")
INTEGERS = ("labels", "counts")

# a kernel by the name under which schedules know it: how to build it from a model, the targets it fits
KERNELS = {
    "Conjugate": (ConjugateGibbs, (*GAUSSIANS, "gamma", "beta", "dirichlet", "moving_bound")),
    "Gibbs": (FiniteGibbs, ("labels",)),
    "ESlice": (EllipticalSlice, GAUSSIANS),
    "Slice": (Slice, CONTINUOUS),
    "ReflectiveSlice": (ReflectiveSlice, CONTINUOUS),
    "RandomWalk": (RandomWalk, (*CONTINUOUS, *INTEGERS)),
    "Independence": (
        IndependenceMetropolis,
        ("normal_mean", "correlated", "gamma", "moving_bound", *INTEGERS),
    ),
    "Window": (WindowGibbs, ("counts",)),
    "Metropolis": (lambda m: Metropolis(m, _drift), ("normal_mean",)),
    # in one dimension steps of the usual acceptance nearly mirror the state, and its square stays where it is
    "HMC": (
        lambda m: Gibbs([(HMC(m, trajectory_length=1.2, target_accept_prob=0.95), None)]),
        SMOOTH,
    ),
    "NUTS": (lambda m: Gibbs([(NUTS(m), None)]), SMOOTH),
    "Tempered": (lambda m: Tempered(m, rungs=5), SMOOTH),
}

# the same in combination
COMPOSED = {
    "Metropolis-positive": (
        lambda m: Metropolis(m, lambda s: dist.Gamma(2.0, 2.0 / s["g"]).to_event(1)),
        ("gamma",),
    ),
    "Repeat": (lambda m: Repeat(RandomWalk(m), 3), ("normal_mean", "gamma", "counts")),
    "Repeat-NUTS": (lambda m: Gibbs([(Repeat(NUTS(m), 2), None)]), ("correlated", "gamma")),
    "Gibbs-of-three": (
        lambda m: Gibbs([(Slice(m), ["mu"]), (EllipticalSlice(m), ["theta"])]),
        ("hierarchy",),
    ),
    "Gibbs-bound": (lambda m: Gibbs([(Slice(m), ["theta"]), (RandomWalk(m), ["x"])]), ("moving_bound",)),
    "RandomScan": (
        lambda m: RandomScanGibbs(
            [(HMC(m, num_steps=5, trajectory_length=None), ["mu"]), (Slice(m), ["theta"])]
        ),
        ("hierarchy",),
    ),
}

# left to `-m slow`: NumPyro's own kernels, and closed forms that the tests of conditionals check exactly
SLOW = {
    *(("HMC", t) for t in SMOOTH if t not in ("correlated", "dirichlet")),
    *(("NUTS", t) for t in SMOOTH if t not in ("hierarchy", "gamma")),
    *(("Conjugate", t) for t in SMOOTH if t not in ("correlated", "hierarchy", "dirichlet")),
    # of the kernels by slices and proposals each commit runs one target of a kind
    *((k, t) for k in ("Slice", "ReflectiveSlice", "RandomWalk") for t in ("normal_mean", "walk", "beta")),
    *((k, t) for k in ("ESlice",) for t in ("normal_mean", "correlated")),
    *(("ReflectiveSlice", t) for t in ("gamma", "hierarchy")),
    *(("RandomWalk", t) for t in ("dirichlet", "gamma")),
    *(("Independence", t) for t in ("correlated", "gamma")),
    *(("Repeat", t) for t in ("normal_mean", "gamma")),
    ("Repeat-NUTS", "gamma"),
    # a bounded support and a hierarchy stand for these, and Geweke's tests run every kernel besides
    *((k, "correlated") for k in ("HMC", "Slice", "ReflectiveSlice", "RandomWalk")),
    ("Slice", "gamma"),
    ("NUTS", "gamma"),
    *(("Tempered", t) for t in SMOOTH if t != "gamma"),
    ("ESlice", "walk"),
}


def test_no_kernel_is_missing():
    # these want a likelihood, a switch, labels, no data at all or other updates, which no target here has:
    # see Geweke's tests and their own
    others = {"PolyaGamma", "Collapsed", "Crossing", "SwitchLabels", "Ancestral", "Interleave"}
    assert set(KERNELS) == set(kernels()) - others
    assert {t for _, fits in KERNELS.values() for t in fits} == set(TARGETS)


@pytest.mark.parametrize("name", KERNELS)
def test_the_targets_are_those_that_the_kernel_fits(name):
    """A kernel is tried on every target that its row says it fits, but for proposals that are not given."""
    row = find_kernel(name)
    assert row is not None
    fitting = {t.name for t in TARGETS.values() if fits(row, t.model)}
    if name in ("Metropolis", "Independence"):
        assert set(KERNELS[name][1]) <= fitting
    else:
        assert set(KERNELS[name][1]) == fitting


@cache
def analysed(fn):
    return gb.model(fn)


def fits(row, fn):
    model = analysed(fn)
    return all(row.fits(model, n) is None for n, s in model.sites.items() if s.role == "latent")


@pytest.mark.share(25)
@pytest.mark.parametrize(
    ("build", "target"),
    [
        pytest.param(build, t, id=f"{name}-{t}", marks=pytest.mark.slow if (name, t) in SLOW else ())
        for name, (build, fits) in {**KERNELS, **COMPOSED}.items()
        for t in fits
    ],
)
def test_kernel_reaches_the_moments(build, target):
    row = TARGETS[target]
    draws = run_chains(build(row.model), warmup=600, draws=2500, seed=3)
    assert check_moments(draws, row.mean, row.variance) >= 2
    assert all(jnp.all(jnp.isfinite(x)) for x in draws.values())


@pytest.mark.slow
def test_blocks_in_order_draw_what_they_do_in_numpyros_composite():
    def draws(composite):
        model = TARGETS["hierarchy"].model
        blocks = [(HMC(model, num_steps=5, trajectory_length=None), ["mu"]), (Slice(model), ["theta"])]
        return run_chains(composite(blocks), warmup=10, draws=10, chains=2)

    ours, numpyros = draws(SystematicScanGibbs), draws(Gibbs)
    assert set(ours) == {"mu", "theta"}
    for name, x in ours.items():
        assert len(set(x[0].ravel().tolist())) > 5
        assert x.tobytes() == numpyros[name].tobytes()
