"""Metric, degrees of centring and windows: pure functions, against closed forms."""

from typing import NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from gibbsite.kernels.learnt.centring import learnt
from gibbsite.kernels.learnt.metric import (
    MOST_RANK,
    Metric,
    divergence,
    fisher_diagonal,
    low_rank,
    moments,
    unit_metric,
)
from gibbsite.kernels.nuts.block import LearntNUTS
from gibbsite.kernels.nuts.potential import problem
from gibbsite.kernels.nuts.tuning import Rows, in_other_places, raised, refit, untuned
from gibbsite.kernels.nuts.windows import EARLY, EARLY_DEPTH, FINAL, LEAST, ring_length, window_ends

RNG = np.random.default_rng(0)


def normal_draws(covariance, n, seed=0):
    """Draws of a normal distribution, and the gradients of its log density."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=n)
    return jnp.asarray(x, jnp.float32), jnp.asarray(-np.linalg.solve(covariance, x.T).T, jnp.float32)


def test_independent_normals_have_no_divergence_and_their_own_scales():
    sd = np.array([0.01, 1.0, 30.0])
    x, g = normal_draws(np.diag(sd**2), 500)
    weight = jnp.ones(500)
    np.testing.assert_allclose(fisher_diagonal(x, g, weight), sd, rtol=1e-4)
    np.testing.assert_allclose(divergence(x, g, weight), 0, atol=0.1)


def test_weights_choose_rows():
    x, _ = normal_draws(np.eye(2), 100)
    weight = jnp.arange(100) < 40
    mean, variance = moments(x, weight.astype(jnp.float32))
    np.testing.assert_allclose(mean, x[:40].mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, x[:40].var(0), rtol=1e-5)


@pytest.mark.slow
def test_low_rank_makes_correlated_normals_round():
    factor = RNG.normal(size=(12, 2)) * 5
    covariance = np.eye(12) + factor @ factor.T
    x, g = normal_draws(covariance, 2000)
    scale = fisher_diagonal(x, g, jnp.ones(2000))
    metric = low_rank(x, g, jnp.ones(2000), scale, 8)
    whole = jax.vmap(metric.apply)(jnp.eye(12)).T
    spread = np.linalg.eigvalsh(
        np.linalg.inv(np.asarray(whole, np.float64)) @ covariance @ np.linalg.inv(whole).T
    )
    plain = np.linalg.eigvalsh(covariance / np.outer(scale, scale))
    assert spread.max() / spread.min() < 8 < 40 < plain.max() / plain.min()


@pytest.mark.slow
def test_small_blocks_have_a_direction_for_every_dimension():
    """One long direction that all coordinates share leaves the others uneven, each by as much as the next: of
    twenty-four, sixteen directions leave eight behind."""
    own = np.linspace(0.01, 0.03, 24)
    x, g = normal_draws(np.diag(own**2) + 4.0, 1000)
    weight = jnp.ones(1000)
    scale = fisher_diagonal(x, g, weight)
    fits = []
    for rank in (MOST_RANK, LearntNUTS(lambda: None)._rank(24)):
        metric = low_rank(x, g, weight, scale, rank)
        w, slope = jax.vmap(metric.inverse)(x), jax.vmap(metric.transposed)(g)
        fits.append(float(divergence(w, slope, weight).mean()))
    assert fits[1] < 0.2 < 0.5 < fits[0]


@pytest.mark.parametrize(("own", "taken"), [(0.001, True), (0.5, False)])
def test_bent_draws_have_directions_where_these_leave_a_third_of_what_their_diagonal_does(own, taken):
    """Normal draws of two sizes, of which no linear map is right: a scale that is unknown."""
    covariance = own * np.eye(24) + 4.0
    x, g = normal_draws(covariance, 1000)
    size = jnp.where(jnp.arange(1000) % 2 == 0, 2.5, 0.4)[:, None]
    p = problem(many, gb.model(many).density, "auto", jax.random.key(0), (), {})
    start = untuned(p.coordinates, jnp.zeros(0), unit_metric(jnp.ones(24), 24))
    rows, weight = Rows(x * size, g / size, jnp.zeros((1000, 0))), jnp.ones(1000)
    found = refit(p.coordinates, rows, weight, start, (), 24, None).metric
    w, slope = jax.vmap(found.inverse)(rows.v), jax.vmap(found.transposed)(rows.g)
    left, plain = (float(divergence(*both, weight).mean()) for both in ((w, slope), (rows.v, rows.g)))
    assert bool((found.stretch != 1).any()) is taken
    assert left > 0.5 and (left < plain / 3 if taken else left == pytest.approx(plain, rel=0.01))


def many():
    numpyro.sample("x", dist.Normal(0, 1).expand([24]).to_event(1))
    numpyro.sample("y", dist.Normal(0, 1), obs=0.0)


def test_a_metric_and_its_inverses_agree():
    directions = np.linalg.qr(RNG.normal(size=(6, 3)))[0]
    metric = Metric(jnp.asarray(RNG.gamma(2, size=6)), jnp.asarray(directions), jnp.asarray([0.1, 5.0, 1.0]))
    w, g = jnp.asarray(RNG.normal(size=6)), jnp.asarray(RNG.normal(size=6))
    np.testing.assert_allclose(metric.inverse(metric.apply(w)), w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(metric.untransposed(metric.transposed(g)), g, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(metric.apply(w) @ g, w @ metric.transposed(g), rtol=1e-4)


def toy(q, n=4000, seed=0):
    """Gorinova's toy: z ~ N(mu, 1), mu ~ N(0, 1), and data that know z to a precision of q."""
    precision = np.array([[2.0, -1.0], [-1.0, 1.0 + q]])
    x, g = normal_draws(np.linalg.inv(precision), n, seed)
    return x[:, 1:], g[:, 1:], x[:, :1], jnp.ones((n, 1))


@pytest.mark.share(3)
@pytest.mark.parametrize("q", [0.1, 0.5, 1.0, 4.0, 30.0])
def test_the_degree_of_a_toy_is_known(q):
    x, g, loc, scale = toy(q)
    lam, fit = learnt(x, g, loc, scale, jnp.ones(len(x)), np.zeros(1, int), np.ones(1), jnp.array(False))
    assert lam[0] == pytest.approx(q / (1 + q), abs=0.06)
    assert fit.used[0] == pytest.approx(0.0, abs=0.05)
    assert min(fit.written[0], fit.non_centred[0]) >= fit.used[0] - 1e-6


@pytest.mark.slow
def test_elements_with_equal_data_share_a_degree():
    x, g, loc, scale = toy(1.0, 300)
    many = [toy(q, 300, seed) for seed, q in enumerate([1.0] * 10 + [40.0] * 10)]
    x, g, loc, scale = (jnp.concatenate(parts, 1) for parts in zip(*many, strict=True))
    site, written = np.zeros(20, int), np.ones(20)
    lam, _ = learnt(x, g, loc, scale, jnp.ones(300), site, written, jnp.array(False))
    alone = [learnt(*m, jnp.ones(300), np.zeros(1, int), np.ones(1), jnp.array(False))[0][0] for m in many]
    assert np.std(lam[:10]) < np.std(alone[:10])
    assert float(lam[10:].min()) > float(lam[:10].max())


def test_the_guard_keeps_what_is_as_good_as_written():
    x, g, loc, scale = toy(1.0)
    weight, site = jnp.ones(len(x)), np.zeros(1, int)
    # a location that the draws do not know of: no degree helps, whatever the grid's noise says
    still = jnp.zeros_like(loc)
    for written in (0.0, 1.0):
        lam, _ = learnt(x, g, still, scale, weight, site, np.full(1, written), jnp.array(True))
        assert lam[0] == written
    lam, _ = learnt(x, g, loc, scale, weight, site, np.ones(1), jnp.array(True))
    assert lam[0] == pytest.approx(0.5, abs=0.06)


def test_windows_are_fixed_numbers_of_steps():
    assert window_ends(LEAST - 1) == ()
    assert window_ends(350) == (10, 20, 30, 45, 65, 90, 120, 160, 220, 300)
    for warmup in (60, 75, 100, 150, 200, 350, 500, 1000, 5000):
        ends = window_ends(warmup)
        assert ends[-1] == warmup - FINAL
        assert list(ends) == sorted(set(ends))
        assert ring_length(warmup, 10) == (ends[-1] + 1) // 2
    assert ring_length(1000, 10**6) == 32


def test_the_acceptance_aimed_at_rises_where_trajectories_go_astray():
    class States(NamedTuple):
        i: jnp.ndarray
        target: jnp.ndarray
        astray: jnp.ndarray
        raises: jnp.ndarray

    def after(steps, astray, target=0.8, together=True, raises=True):
        states = States(jnp.full(4, steps), jnp.full(4, target), jnp.asarray(astray), jnp.full(4, raises))
        return np.asarray(raised(states, (20, 60, 160, 220), together))

    one, none = [0, 1, 0, 0], [0, 0, 0, 0]
    np.testing.assert_allclose(after(160, none), 0.8)
    np.testing.assert_allclose(after(160, [0, 3, 0, 0]), 0.9)  # 3 of 400
    np.testing.assert_allclose(after(160, one), 0.8)  # 1 of 400
    np.testing.assert_allclose(after(220, one, 0.9), 0.9)  # 1 of 240
    np.testing.assert_allclose(after(220, [1, 1, 0, 0], 0.9), 0.95)
    np.testing.assert_allclose(after(220, [9, 9, 9, 9], 0.95), 0.95)
    np.testing.assert_allclose(after(60, [9, 9, 9, 9]), 0.8)  # the metric is to blame
    np.testing.assert_allclose(after(160, one, together=False), [0.8, 0.9, 0.8, 0.8])
    np.testing.assert_allclose(after(160, [9, 9, 9, 9], raises=False), 0.8)  # it was given


@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("num_warmup", "done", "depth"),
    [(500, 0, EARLY_DEPTH), (500, EARLY - 1, EARLY_DEPTH), (500, EARLY, 10), (20, 20, 10), (0, 0, 10)],
)
def test_trees_are_short_while_nothing_is_learnt(num_warmup, done, depth):
    kernel = LearntNUTS(lambda: numpyro.sample("x", dist.Normal()), step_size=1e-5, adapt_step_size=False)
    state = kernel.init(jax.random.key(0), num_warmup)._replace(i=jnp.int32(done))
    assert kernel.sample(state, (), {}).num_steps == 2**depth - 1


def rows_of(chains, spread, sd):
    """Draws of a normal around the place of each chain, with its own gradients."""
    v = sd * np.random.default_rng(0).normal(size=(chains, 60, 3))
    places = spread * np.arange(chains)[:, None, None] * np.array([1.0, 0.0, 0.0])
    return Rows(jnp.asarray(v + places), jnp.asarray(-v / sd**2), jnp.zeros((chains, 60, 0)))


@pytest.mark.parametrize(
    ("spread", "sd", "other"),
    [
        (0.0, 1.0, False),
        (20.0, 1.0, True),  # components in other orders
        (0.2, 0.01, True),
        (0.5, 1.0, False),  # one mode, not yet left behind
    ],
)
def test_chains_in_different_modes_are_told(spread, sd, other):
    rows, weight = rows_of(4, spread, sd), jnp.ones(60)
    assert bool(in_other_places(rows, weight)) == other
    assert not in_other_places(rows, weight * (jnp.arange(60) < 5))  # of so few draws nothing is told
    lost = Rows(rows.v.at[0, 0].set(jnp.nan), rows.g, rows.siblings)
    assert bool(in_other_places(lost, weight)) == other


def test_slow_chains_of_one_mode_are_not_in_different_ones():
    """Each of them in a part of it: their gradients tell that it is wider."""
    rng = np.random.default_rng(0)
    places = np.array([-1.5, -0.5, 0.5, 1.5])[:, None, None]
    v = places + 0.05 * rng.normal(size=(4, 60, 2))
    assert not in_other_places(Rows(jnp.asarray(v), jnp.asarray(-v), jnp.zeros((4, 60, 0))), jnp.ones(60))


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [pytest.param(True, marks=pytest.mark.slow), False])
def test_components_in_other_orders_are_learnt_by_each_chain(pooled):
    """Rates of 2, 9 and 22, of which each chain holds another first: one metric of all fits none of them."""
    rng = np.random.default_rng(2)
    x = rng.poisson(np.array([2.0, 9.0, 22.0])[rng.integers(0, 3, 160)])

    def mixture():
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
        r = numpyro.sample("r", dist.Gamma(1, 0.1).expand([3]).to_event(1))
        parts = dist.MixtureSameFamily(dist.Categorical(w), dist.Poisson(r))
        numpyro.sample("x", parts.expand([160]), obs=x)

    run = gb.model(mixture).sample(
        schedule=f"NUTS(pooled={pooled}) *", draws=1000, warmup=500, chains=4, seed=0
    )
    order = np.argsort(run.draws["r"], axis=-1)
    assert len({tuple(o) for o in order[:, 0]}) > 1
    assert (order == order[:, :1]).all()  # no chain is in two orders
    for name in "rw":
        ordered = np.take_along_axis(run.draws[name], order, axis=-1)
        ess = [array_stats.ess(ordered[..., i], chain_axis=0, draw_axis=1) for i in range(3)]
        assert min(ess) > 2500
