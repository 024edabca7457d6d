"""Masses of modes, not their heights, decide which chains are moved."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from gibbsite.diagnostics.modes.mass import DOUBT, bounds, climb, effective, upper_bound
from gibbsite.diagnostics.modes.space import space_of
from gibbsite.sampling.warm.scout import weightless
from scipy.stats import gamma, norm

RNG = np.random.default_rng


def gaussian(size, correlation):
    """Correlated normals and a Gamma number, of which everything is known: the mass is e^3."""
    cov = jnp.full((size, size), correlation) + (1 - correlation) * jnp.eye(size)
    numpyro.sample("x", dist.MultivariateNormal(jnp.ones(size), cov))
    numpyro.sample("g", dist.Gamma(3.0, 2.0))
    numpyro.factor("weight", jnp.asarray(3.0))


@pytest.mark.parametrize(("size", "correlation", "draws"), [(1, 0.0, 60), (5, 0.9, 100), (20, 0.5, 200)])
def test_bounds_hold_the_mass_between_them(size, correlation, draws):
    plan = gb.model(gaussian, size, correlation).plan()
    space = space_of(plan, ("x", "g"))
    rng = RNG(size)
    cov = np.full((size, size), correlation) + (1 - correlation) * np.eye(size)
    for seed in range(3):
        x = rng.multivariate_normal(np.ones(size), cov, draws).astype(np.float32)
        found = bounds(space, {"x": x, "g": rng.gamma(3.0, 0.5, draws).astype(np.float32)}, seed)
        assert found.lower < 3.0 < found.upper
        assert found.upper - found.lower < DOUBT + 10 + size * (1 + 3 * correlation)


def test_a_mass_is_no_height():
    """A normal of sd 0.01 is higher than one of sd 1 by log 100 per number, and both weigh e^3 here."""

    def narrow(sd):
        numpyro.sample("x", dist.Normal(0.0, sd).expand([10]))
        numpyro.factor("weight", jnp.asarray(3.0))

    found = []
    for sd in (0.01, 1.0):
        x = (sd * RNG(1).standard_normal((100, 10))).astype(np.float32)
        found.append(bounds(space_of(gb.model(narrow, sd).plan(), ("x",)), {"x": x}))
    assert not weightless(found, 2).chains.any()
    assert all(b.lower < 3.0 < b.upper for b in found)


def test_discrete_sites_are_summed_out_or_bounded():
    p = np.array([0.2, 0.3, 0.5], np.float32)

    def mixed():
        z = numpyro.sample("z", dist.Categorical(p).expand([4]))
        numpyro.sample("x", dist.Normal(jnp.zeros(4), 1.0 + z))
        numpyro.factor("weight", jnp.asarray(3.0))

    plan, rng = gb.model(mixed).plan(), RNG(0)
    z = rng.choice(3, size=(200, 4), p=p / p.sum())
    values = {"z": z, "x": (rng.standard_normal((200, 4)) * (1 + z)).astype(np.float32)}
    for summed in (True, False):
        space = space_of(plan, ("z", "x"), summed)
        assert space.given == (() if summed else ("z",))
        found = bounds(space, values)
        mass = 0.0 if summed else 3.0  # a marginal leaves constants out
        assert found.lower < mass < found.upper < mass + 10, summed


def test_what_is_not_explored_has_no_bound_from_above():
    walk = np.cumsum(RNG(3).standard_normal(100))
    assert effective(walk[:, None])[0] < 8 < effective(RNG(4).standard_normal((100, 1)))[0]
    assert np.isclose(climb(np.linspace(-50.0, 0.0, 100)), 0.5, rtol=0.02)
    assert climb(RNG(5).standard_normal(100)) == 0

    def flat():
        x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.factor("weight", -((x / 100) ** 2))

    found = bounds(space_of(gb.model(flat).plan(), ("x",)), {"x": walk.astype(np.float32)})
    assert found.upper == np.inf


def test_what_still_climbs_is_bounded_by_what_it_can_reach():
    x, level = RNG(6).standard_normal((100, 2)), np.linspace(-1e6, -1e6 + 100, 100)
    assert upper_bound(x, level, level, 0.0) == np.inf
    assert -1e6 < upper_bound(x, level, level, 0.0, ahead=800) < -1e6 + 1e4
    assert upper_bound(x, level, level, 0.0, ahead=1e6) > 0
    impossible = np.where(np.arange(100) % 3 == 0, -np.inf, level)  # a value of a discrete site at times
    assert -1e6 < upper_bound(x, level, impossible, 0.0, ahead=800) < -1e6 + 2e4
    assert upper_bound(x, level, np.full(100, -np.inf), 0.0) == np.inf


@pytest.mark.parametrize("pooled", [False, True])
def test_data_have_a_density_where_discrete_sites_are_summed_out(pooled):
    """Beside the continuous sites' own: the sum over components, unless these have a say in the former."""
    y = RNG(7).normal(0, 2, 6).astype(np.float32)

    def mixture(y):
        s = numpyro.sample("s", dist.Gamma(2.0, 1.0))
        k = numpyro.sample("k", dist.Bernoulli(0.3)) if pooled else 0
        b = numpyro.sample("b", dist.Normal(3.0 * k, 1.0))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.4))
            numpyro.sample("y", dist.Normal(b * z, s), obs=y)

    space = space_of(gb.model(mixture, y).plan(), ("s", "b", "z", *(["k"] if pooled else [])))
    assert space.marginal is not None and space.proper == (not pooled)
    if pooled:
        return
    s, b = np.array([0.5, 1.0, 3.0]), np.array([0.2, -1.0, 2.0])
    x = space.free({"s": s.astype(np.float32), "b": b.astype(np.float32)})
    level, fit = space.logdensity(x, {})
    parts = np.stack([np.log(p) + norm.logpdf(y[:, None], m, s) for p, m in ((0.6, 0 * b), (0.4, b))])
    data = np.logaddexp(*parts).sum(0)
    np.testing.assert_allclose(np.diff(fit), np.diff(data), rtol=1e-5)  # a marginal leaves constants out
    own = gamma.logpdf(s, 2.0) + norm.logpdf(b, 3.0 * 0) + np.log(s)
    np.testing.assert_allclose(level - fit, own, rtol=1e-4, atol=1e-4)


def test_supports_that_move_are_not_compared():
    def moving():
        top = numpyro.sample("top", dist.Exponential(1.0))
        numpyro.sample("x", dist.Uniform(0.0, top))

    assert space_of(gb.model(moving).plan(), ("top", "x")) is None


def two_widths(y):
    """True values under a flat prior say nothing of the noise: the modes weigh what s says, .1 and .9."""
    parts = dist.Normal(jnp.array([-2.0, 2.0]), 0.3)
    s = numpyro.sample("s", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.1, 0.9])), parts))
    with numpyro.plate("n", len(y)):
        x = numpyro.sample("x", dist.Normal(0, 100.0))
        numpyro.sample("y", dist.Normal(x, jnp.exp(2 * jnp.tanh(2 * s) - 2)), obs=y)


def two_far():
    """The narrow mode of a prior lies twenty from the wide one, where no start near 0 falls: .33 and .67."""
    at, sd = jnp.array([[-3.0] * 10, [3.0] * 10]), jnp.array([[0.5], [1.0]])
    parts = dist.Normal(at, sd).to_event(1)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array([1.0, 2.0]) / 3), parts))
    numpyro.sample("y", dist.Normal(x.sum(), 1000.0), obs=0.0)


@pytest.mark.slow
def test_modes_of_a_prior_are_looked_for_where_it_has_them():
    run = gb.model(two_far).sample(draws=200, seed=0, schedule="Slice x")  # NUTS would cross by itself
    assert "placed beyond a valley" in run.starts and not run.verdict.ok
    weights, errors = run.modes.weights, run.modes.errors
    narrow = np.array([run.draws["x"][g[0], :, 0].mean() < 0 for g in run.modes.groups])
    assert abs(weights[narrow].sum() - 1 / 3) < 4 * errors.max() < 0.1


def beyond_a_low_ridge(y):
    """The prior's narrow mode at -6 has all but 1e-5 of the mass; starts near 0 fall to a place at 0, 26 nats
    below it, that a ridge of four nats parts from it."""
    parts = dist.Normal(jnp.array([-6.0, 6.0]), jnp.array([0.4, 1.0]))
    mu = numpyro.sample("mu", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), parts))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=mu), obs=y)


@pytest.mark.slow
def test_a_mode_far_above_is_looked_at_beyond_a_ridge_however_low():
    m = gb.model(beyond_a_low_ridge, np.zeros(11, int))
    for seed in range(4):
        run = m.sample(draws=200, seed=seed)
        assert (run.draws["mu"] < -3).any()


@pytest.mark.slow
def test_a_wide_mode_is_not_thrown_away():
    m = gb.model(two_widths, RNG(0).normal(0, 1, 10).astype(np.float32))
    looked = 0
    told = "Conjugate x (*) NUTS s"
    for seed in (0, 1, 9, 18):  # with the last two all first starts fall to one mode
        run = m.sample(draws=200, seed=seed, schedule=told)
        assert not run.moves and "started again" not in run.starts
        looked += "placed beyond a valley" in run.starts
        assert {float(p) for p in (run.draws["s"] < 0).mean(1)} == {0.0, 1.0} and not run.verdict.ok
    assert looked == 2
    init = {"s": np.float32([-2, -2, 2, 2])}
    run = m.sample(draws=200, seed=0, init=init, schedule=told)
    assert (run.draws["s"] < 0).mean(1).tolist() == [1, 1, 0, 0]
    assert not run.verdict.ok and not run.moves
    crosses = m.sample(draws=1000, seed=0)  # the default does not hold `x` while it steps
    share = crosses.draws["s"] < 0
    error = share.std() / np.sqrt(array_stats.ess(share.astype(float), chain_axis=0, draw_axis=1))
    assert crosses.verdict.ok and abs(share.mean() - 0.1) < 4 * error < 0.08


@pytest.mark.slow
def test_a_chain_that_cannot_arrive_is_lost_also_where_discrete_sites_are_summed_out():
    """A walk of means with a delay: one chain starts millions of nats below the others, and gave them its
    step size until it was moved."""
    rng = RNG(1)
    cases = np.round(2000 * np.exp(np.sin(np.arange(80) / 9) * 1.5))
    mean = np.roll(cases, 4) * np.exp(np.cumsum(0.06 * rng.normal(size=80)) + 2)
    y = np.round(rng.gamma(30, mean / 30))

    def delayed(cases, y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        level = numpyro.sample("level", dist.Normal(0, 1))
        k = numpyro.sample("k", dist.HalfNormal(10))
        d = numpyro.sample("d", dist.Categorical(jnp.ones(3) / 3))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([80]).to_event(1))
        mean = jnp.exp(level + jnp.cumsum(s * z)) * jnp.roll(cases, d + 3)
        numpyro.sample("y", dist.NegativeBinomial2(mean, k), obs=y)

    run = gb.model(delayed, cases, y).sample(draws=500, seed=2)
    assert run.summary().r_hat.max() < 1.02 and all("divergent" in why for why in run.verdict.reasons)
    assert (run.draws["d"] == 1).mean() > 0.9
    # it arrives by itself since the density that gradients use holds far out; if not, that is told
    assert bool(run.moves) == any("another chain's place" in n for n in run.verdict.notes)
