"""Replicas that exchange places leave every rung's density as it is, and cross between modes."""

import re

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.measures.convergence import scalar_stat
from gibbsite.errors import OptionError, ScheduleError
from gibbsite.kernels.blocks.tempered import Reference, even_rungs, first_rungs, swaps
from helpers.startup.arrays import array
from jax import random

RNG = np.random.default_rng
BETAS = array([0.0, 0.2, 0.5, 1.0], np.float32)


def rung(beta):
    """Mean and variance of N(0, 9)^(1 − beta) N(2, 1)^beta."""
    precision = (1 - beta) / 9 + beta
    return 2 * beta / precision, 1 / precision


@pytest.mark.parametrize("odd", [False, True])
def test_exchanges_leave_every_rung_as_it_is(odd):
    many = 40_000
    mean, variance = rung(np.asarray(BETAS))
    u = jnp.asarray(mean + np.sqrt(variance) * RNG(1).standard_normal((many, 4)), jnp.float32)
    ratio = -0.5 * (u - 2) ** 2 + 0.5 * u**2 / 9  # of densities, up to a constant
    keys = random.split(random.key(0), many)
    found = jax.vmap(lambda k, r: swaps(k, BETAS, r, jnp.asarray(odd)))(keys, ratio)
    after = np.asarray(jnp.take_along_axis(u, found.taken, axis=1), float)
    moved = np.asarray(found.taken) != np.arange(4)
    assert moved[:, [1, 2]].mean() > 0.2 and moved[:, [0, 3]].any() != odd
    assert np.all(np.sort(np.asarray(found.taken), axis=1) == np.arange(4))
    for r in range(4):
        error = np.sqrt(variance[r] / many)
        assert abs(after[:, r].mean() - mean[r]) < 4.5 * error
        assert abs(after[:, r].var() - variance[r]) < 4.5 * variance[r] * np.sqrt(2 / many)


def test_impossible_places_are_not_taken():
    ratio = jnp.array([-jnp.inf, 0.0, jnp.nan, 1.0])
    for odd in (False, True):
        found = swaps(random.key(1), BETAS, ratio, jnp.asarray(odd))
        assert found.taken.tolist() == [0, 1, 2, 3]


def test_rungs_stand_where_exchanges_are_rejected_equally_often():
    def between(betas):
        """Rejections of a barrier whose rate falls from the reference on."""
        return np.diff(4 * np.sqrt(np.asarray(betas)))

    betas = first_rungs(9)
    for _ in range(20):
        betas = even_rungs(betas, jnp.asarray(between(betas)))
    assert np.allclose(between(betas), 0.5, atol=0.03)
    assert betas[0] == 0 and betas[-1] == 1 and (np.diff(betas) > 0).all()


@pytest.mark.slow
def test_the_reference_is_a_density_that_is_drawn_from_and_keeps_modes_apart():
    one = Reference(jnp.array([[-3.0], [4.0]]), jnp.array([[[0.5]], [[1.0]]]), jnp.zeros(1), 6 * jnp.ones(1))
    grid = jnp.linspace(-60, 60, 40_001)[:, None]
    density = np.exp(np.asarray(jax.vmap(one.logdensity)(grid), float))
    step = 120 / 40_000
    assert abs(density.sum() * step - 1) < 1e-3
    draws = np.asarray(jax.vmap(one.draw)(random.split(random.key(0), 40_000)))[:, 0]
    for low, high in ((-4, -3), (0, 1), (3, 5), (8, 60)):
        inside = (grid[:, 0] > low) & (grid[:, 0] <= high)
        share = density[np.asarray(inside)].sum() * step
        assert abs(((draws > low) & (draws <= high)).mean() - share) < 5 * np.sqrt(share / 40_000) + 1e-3
    # chains that have changed modes meanwhile: each normal keeps to its own
    rng = RNG(2)
    narrow, wide = 0.02 * rng.standard_normal((2, 100, 3)) - 2, rng.standard_normal((2, 100, 3)) + 2
    apart = Reference(jnp.zeros((2, 3)), jnp.stack([jnp.eye(3)] * 2), jnp.zeros(3), jnp.ones(3))
    everything = jnp.ones((2, 100), bool)
    first = apart.fitted_to(jnp.stack([narrow[0], wide[0]]), everything, jnp.asarray(True))
    mixed = jnp.concatenate([jnp.asarray(narrow), jnp.asarray(wide)], axis=1)
    later = first.fitted_to(mixed.reshape(2, 200, 3), jnp.ones((2, 200), bool), jnp.asarray(False))
    assert np.allclose(later.means[0], -2, atol=0.05) and np.allclose(later.means[1], 2, atol=0.4)
    assert np.diag(later.factors[0]).max() < 0.04 and np.diag(later.factors[1]).min() > 0.8


SHARES = np.array([0.3, 0.7])


def modes(y):
    """Two modes of widths .02 and 1 in five numbers, a positive number, and data that know which is likelier:
    by Bayes' rule."""
    parts = dist.Normal(jnp.array([[-2.0] * 5, [2.0] * 5]), jnp.array([[0.02] * 5, [0.5] * 5])).to_event(1)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.asarray(SHARES)), parts))
    g = numpyro.sample("g", dist.Gamma(3.0, 2.0))
    numpyro.sample("z", dist.Normal(jnp.where(x[0] < 0, 0.0, 1.0), 1.0), obs=y)
    numpyro.sample("w", dist.Poisson(g), obs=2)


def exact(y):
    weight = SHARES * np.exp(-0.5 * (y - np.array([0.0, 1.0])) ** 2)
    return weight[0] / weight.sum()


INIT = {"x": np.repeat(np.float32([-2, 2, -2, 2])[:, None], 5, axis=1)}


def agrees(run, y):
    found = scalar_stat("p", "p", (), (run.draws["x"][..., 0] < 0).astype(float))
    assert found.ess_bulk > 100, found
    assert abs(found.mean - exact(y)) < 4.5 * found.mcse
    assert abs((run.draws["x"][..., 0] < 0).mean(1) - exact(y)).max() < 0.15  # every chain
    g = scalar_stat("g", "g", (), run.draws["g"])
    assert abs(g.mean - 5 / 3) < 4.5 * g.mcse and abs(g.sd**2 - 5 / 9) < 0.1  # Gamma(5, 3)
    wide = run.draws["x"][run.draws["x"][..., 0] > 0]
    assert abs(wide.mean() - 2) < 0.05 and abs(wide.std() - 0.5) < 0.04


@pytest.mark.slow
def test_chains_cross_between_modes_of_different_widths():
    m = gb.model(modes, 0.3)
    run = m.sample(draws=1500, warmup=300, seed=0, schedule="Tempered(NUTS [x g])", init=INIT)
    agrees(run, 0.3)
    again = m.sample(draws=1500, warmup=300, seed=0, schedule="Tempered(NUTS [x g])", init=INIT, chunk=17)
    np.testing.assert_array_equal(run.draws["x"], again.draws["x"])
    plain = m.sample(draws=300, warmup=300, seed=0, init=INIT)  # without, none crosses
    assert plain.modes.groups == ((0, 2), (1, 3))


@pytest.mark.slow
def test_slices_explore_as_well():
    run = gb.model(modes, 0.3).sample(
        draws=1500, warmup=300, seed=0, schedule="Tempered(Slice [x g], rungs=6)", init=INIT
    )
    agrees(run, 0.3)


@pytest.mark.slow
def test_a_single_chain_crosses_from_a_wide_reference():
    """Normals at −4 and 4 in two numbers: nothing is fitted to the one that the chain has not seen."""

    def pair():
        parts = dist.Normal(jnp.array([[-4.0] * 2, [4.0] * 2]), 0.5).to_event(1)
        x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), parts))
        numpyro.factor("f", -0.5 * (x[0] / 100) ** 2)

    run = gb.model(pair).sample(draws=4000, warmup=300, chains=1, seed=0, schedule="Tempered(NUTS [x])")
    found = scalar_stat("p", "p", (), (run.draws["x"][..., 0] < 0).astype(float))
    assert abs(found.mean - 0.3) < 4.5 * found.mcse < 0.3


def labelled(y):
    a = numpyro.sample("a", dist.Normal(0, 3.0))
    b = numpyro.sample("b", dist.Normal(0, 3.0))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(jnp.where(z == 1, a, b), 0.5), obs=y)


def test_schedules_say_it_and_refuse_what_it_cannot_do():
    y = np.r_[RNG(0).normal(-3, 0.5, 8), RNG(1).normal(3, 0.5, 8)].astype(np.float32)
    m = gb.model(labelled, y)
    for text, canonical in (
        ("Eliminate z > Tempered(NUTS [a b])", "Eliminate z > Tempered(NUTS [a b])"),
        ("Eliminate z > Tempered [a b]", "Eliminate z > Tempered(NUTS [a b])"),
        (
            "Eliminate z > tempered( Slice [a b] , rungs=6)",
            "Eliminate z > Tempered(Slice [a b], rungs=6)",
        ),
        (
            "Eliminate z > Tempered(NUTS(max_tree_depth=3) [a b], rungs=6)",
            "Eliminate z > Tempered(NUTS [a b], max_tree_depth=3, rungs=6)",
        ),
    ):
        assert m.schedule(text).text == canonical
        assert m.schedule(canonical).text == canonical
    with pytest.raises(ScheduleError, match="all latents that observations see, as replicas"):
        m.schedule("Gibbs z (*) Conjugate a (*) Tempered(NUTS b)")
    with pytest.raises(ScheduleError, match=re.escape("Eliminate [z] > Tempered(NUTS [a b])")):
        m.schedule("Gibbs z (*) Tempered(NUTS [a b])").plan()
    with pytest.raises(ScheduleError, match="is discrete"):
        m.schedule("Tempered(NUTS [a b z])")
    with pytest.raises(ScheduleError, match="explores by NUTS or Slice, not by 'HMC'"):
        m.schedule("Eliminate z > Tempered(HMC [a b])").plan()
    with pytest.raises(ScheduleError, match="expected ',' or '\\)'"):
        m.schedule("Eliminate z > Tempered(NUTS [a b]")
    with pytest.raises((ScheduleError, OptionError), match="rungs is a whole number from 2"):
        m.schedule("Eliminate z > Tempered(NUTS [a b], rungs=1)").plan()


@pytest.mark.slow
def test_labels_that_are_summed_out_are_redrawn():
    """Both orders of two components, by symmetry, in every chain."""
    y = np.r_[RNG(0).normal(-3, 0.5, 8), RNG(1).normal(3, 0.5, 8)].astype(np.float32)
    run = gb.model(labelled, y).sample(draws=1000, seed=0, schedule="Eliminate z > Tempered(NUTS [a b])")
    first = run.draws["a"] < run.draws["b"]
    assert abs(first.mean() - 0.5) < 0.08 and (np.abs(first.mean(1) - 0.5) < 0.2).all()
    assert (run.draws["z"][..., 0] == (run.draws["a"] < run.draws["b"])).mean() > 0.99
