"""Predictions of models of every kind against moments that are found another way, from the same draws."""

from types import SimpleNamespace

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import ModelError, OptionError
from helpers.predicted import agrees, flat
from numpyro.contrib.control_flow import scan
from scipy.special import expit

RNG = np.random.default_rng(7)


def ran(fn, *args, draws=1000, warmup=300, **kwargs):
    run = gb.model(fn, *args, **kwargs).sample(draws=draws, warmup=warmup, chains=2, seed=1)
    return run, SimpleNamespace(**{n: flat(v) for n, v in run.draws.items()})


def test_regression_at_new_rows():
    x = RNG.normal(size=40)
    y = 1 + 2 * x + RNG.normal(size=40) * 0.5

    def model(x, y):
        a = numpyro.sample("a", dist.Normal(0, 5))
        b = numpyro.sample("b", dist.Normal(0, 5))
        s = numpyro.sample("s", dist.HalfNormal(2))
        with numpyro.plate("n", len(x)):
            numpyro.sample("y", dist.Normal(a + b * x, s), obs=y)

    run, d = ran(model, x, y)
    new = np.array([0.0, 1.0, 5.0])
    p = run.predict(x=new)
    agrees(flat(p.draws["y"]), d.a[:, None] + d.b[:, None] * new, d.s[:, None] ** 2)
    assert p.draws["y"].shape == (2, 1000, 3)
    agrees(flat(run.predict().draws["y"]), d.a[:, None] + d.b[:, None] * x, d.s[:, None] ** 2)
    set_all = run.predict(do={"x": 3.0})
    agrees(flat(set_all.draws["y"]).mean(axis=1), d.a + 3 * d.b, d.s**2 / 40)
    cut = run.predict(x=new, do={"b": 0.0})
    agrees(flat(cut.draws["y"]), d.a[:, None], d.s[:, None] ** 2)
    other = run.predict(x=new, y=None, draws=100, seed=3)
    assert other.draws["y"].shape == (2, 100, 3)
    assert not np.array_equal(other.draws["y"], p.draws["y"][:, ::10])


def groups_of(count):
    g = RNG.integers(0, count, 80)
    effect = RNG.normal(2, 1, count)
    return g, effect[g] + RNG.normal(size=80) * 0.3


def grouped(df, J):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    s = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("group", J):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Normal(a[df["g"]], s), obs=df["y"])


@pytest.mark.slow
def test_a_new_group_by_label_and_its_known_neighbours():
    g, y = groups_of(5)
    df = pd.DataFrame({"g": [f"g{k}" for k in g], "y": y})
    run, d = ran(grouped, df, 5)
    new = pd.DataFrame({"g": ["g3", "new", "g0", "new"]}, index=list("abcd"))
    p = run.predict(new)
    at = flat(p.draws["y"])
    agrees(at[:, 0], d.a[:, 3], d.s**2)
    agrees(at[:, 1], d.mu, d.tau**2 + d.s**2)
    agrees(at[:, 2], d.a[:, 0], d.s**2)
    apart = at[:, 1] - at[:, 3]  # one group, one effect
    agrees(apart, 0 * d.s, 2 * d.s**2)
    np.testing.assert_array_equal(flat(p.draws["a"])[:, :5], d.a)
    assert "5 group known, 1 new: a drawn from Normal(mu, tau)" in p.note
    frame = p.to_frame()
    assert list(frame.index) == list("abcd")
    np.testing.assert_allclose(frame["mean"], at.mean(axis=0), rtol=1e-5)
    assert list(p.to_frame("a").index) == ["g0", "g1", "g2", "g3", "g4", "new"]


@pytest.mark.slow
def test_a_new_group_by_place():
    g, y = groups_of(4)

    def model(g, y, J):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfNormal(2))
        with numpyro.plate("group", J):
            a = numpyro.sample("a", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(a[g], 0.3), obs=y)

    run, d = ran(model, g, y, 4)
    p = run.predict(g=np.array([1, 4, 5]), J=6)
    at = flat(p.draws["y"])
    agrees(at[:, 0], d.a[:, 1], 0.09)
    agrees(at[:, 1:], d.mu[:, None], d.tau[:, None] ** 2 + 0.09)
    assert "4 group known, 2 new" in p.note


@pytest.mark.slow
def test_mixture_rows_and_their_probabilities():
    x = np.concatenate([RNG.normal(-2, 0.5, 60), RNG.normal(2, 0.5, 40)])

    def model(x, n):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
        mu = numpyro.sample("mu", dist.Normal(jnp.array([-2.0, 2.0]), 1).to_event(1))
        with numpyro.plate("n", n):
            z = numpyro.sample("z", dist.Categorical(w))
            numpyro.sample("x", dist.Normal(mu[z], 0.5), obs=x)

    run, d = ran(model, x, 100)
    p = run.predict(x=None, n=102)
    mean = (d.w * d.mu).sum(1)
    agrees(
        flat(p.draws["x"])[:, 100:],
        mean[:, None],
        (0.25 + (d.w * (d.mu - mean[:, None]) ** 2).sum(1))[:, None],
    )
    np.testing.assert_allclose(p.probs["z"][100:], np.broadcast_to(d.w.mean(0), (2, 2)), rtol=1e-4)
    np.testing.assert_array_equal(flat(p.draws["z"])[:, :100], d.z)
    other = run.predict(x=np.linspace(-1, 1, 30), n=30)  # other rows, whose kinds nobody knows
    agrees((flat(other.draws["z"]) == 1).mean(axis=1), d.w[:, 1])


@pytest.mark.slow
def test_a_hidden_markov_chain_goes_on():
    walk = np.array([[0.9, 0.1], [0.2, 0.8]])
    z = [0]
    for _ in range(39):
        z.append(RNG.choice(2, p=walk[z[-1]]))
    y = RNG.normal(np.array([-1.0, 1.0])[z], 0.5)

    def model(y):
        go = numpyro.sample("go", dist.Dirichlet(jnp.array([[8.0, 2.0], [2.0, 8.0]])).to_event(1))
        mu = numpyro.sample("mu", dist.Normal(jnp.array([-1.0, 1.0]), 0.5).to_event(1))

        def step(before, now):
            state = numpyro.sample("z", dist.Categorical(go[before]))
            numpyro.sample("y", dist.Normal(mu[state], 0.5), obs=now)
            return state, None

        scan(step, 0, y)

    run, d = ran(model, y)
    p = run.predict(y=np.concatenate([y, np.full(3, np.nan)]))
    assert p.draws["z"].shape == (2, 1000, 43)
    np.testing.assert_array_equal(flat(p.draws["z"])[:, :40], d.z)
    last = np.eye(2)[d.z[:, -1].astype(int)]
    for ahead in range(3):
        last = np.einsum("di,dij->dj", last, d.go)
        mean = (last * d.mu).sum(1)
        var = 0.25 + (last * (d.mu - mean[:, None]) ** 2).sum(1)
        agrees(flat(p.draws["y"])[:, 40 + ahead], mean, var)
    assert "40 steps known, 3 new: z drawn forward from the last" in p.note


@pytest.mark.slow
def test_a_random_walk_goes_on_from_its_last_step():
    level = np.cumsum(RNG.normal(size=25)) * 0.5
    y = level + RNG.normal(size=25) * 0.3

    def model(y, T):
        tau = numpyro.sample("tau", dist.HalfNormal(1))
        level = numpyro.sample("level", dist.GaussianRandomWalk(tau, T))
        numpyro.sample("y", dist.Normal(level[: len(y)] if len(y) == T else level, 0.3), obs=y)

    run, d = ran(model, y, 25)
    p = run.predict(y=None, T=29)
    at = flat(p.draws["level"])
    np.testing.assert_array_equal(at[:, :25], d.level)
    ahead = np.arange(1, 5)
    agrees(at[:, 25:], d.level[:, -1:], d.tau[:, None] ** 2 * ahead)
    steps = np.diff(at[:, 24:], axis=1) / d.tau[:, None]
    agrees(steps[:, 1] * steps[:, 2], 0 * d.tau, 1.0)  # increments know nothing of each other
    agrees(flat(p.draws["y"])[:, 25:], d.level[:, -1:], d.tau[:, None] ** 2 * ahead + 0.09)


def kernel(a, b, scale):
    return np.exp(-0.5 * (a[:, None] - b) ** 2 / 0.25) * scale**2


@pytest.mark.slow
def test_a_gaussian_process_at_new_points():
    x = np.linspace(0, 3, 12)
    y = np.sin(2 * x) + RNG.normal(size=12) * 0.1

    def covariance(x, scale):
        return scale**2 * jnp.exp(-0.5 * (x[:, None] - x) ** 2 / 0.25) + 1e-3 * jnp.eye(len(x))

    def latent(x, y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(len(x)), covariance(x, scale)))
        numpyro.sample("y", dist.Normal(f, 0.1), obs=y)

    new = np.array([0.4, 1.7, 3.3])
    run, d = ran(latent, x, y, draws=500)
    p = run.predict(x=new)
    assert p.draws["f"].shape == (2, 500, 3)
    means, spreads = [], []
    for f, scale in zip(d.f, d.scale, strict=True):
        inverse = np.linalg.inv(kernel(x, x, scale) + 1e-3 * np.eye(12))
        across = kernel(new, x, scale)
        means.append(across @ inverse @ f)
        spreads.append(np.diag(kernel(new, new, scale) + 1e-3 * np.eye(3) - across @ inverse @ across.T))
    agrees(flat(p.draws["f"]), np.array(means), np.array(spreads))
    agrees(flat(p.draws["y"]), np.array(means), np.array(spreads) + 0.01)
    assert "given the 12" in p.note
    both = run.predict(x=np.concatenate([x, new]), y=None)
    np.testing.assert_allclose(flat(both.draws["f"])[:, :12], d.f)
    agrees(flat(both.draws["f"])[:, 12:], np.array(means), np.array(spreads))

    def marginal(x, y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        numpyro.sample(
            "y",
            dist.MultivariateNormal(jnp.zeros(len(x)), covariance(x, scale) + 0.01 * jnp.eye(len(x))),
            obs=y,
        )

    run, d = ran(marginal, x, y, draws=500)
    p = run.predict(x=new)
    means, spreads = [], []
    for scale in d.scale:
        inverse = np.linalg.inv(kernel(x, x, scale) + 0.011 * np.eye(12))
        across = kernel(new, x, scale)
        means.append(across @ inverse @ y)
        spreads.append(np.diag(kernel(new, new, scale) + 0.011 * np.eye(3) - across @ inverse @ across.T))
    agrees(flat(p.draws["y"]), np.array(means), np.array(spreads))


@pytest.mark.slow
def test_new_areas_of_a_map_are_refused():
    ring = np.roll(np.eye(5), 1, 0) + np.roll(np.eye(5), -1, 0)
    y = RNG.normal(size=5)

    def model(y, near):
        b = numpyro.sample("b", dist.CAR(0.0, 0.9, 1.0, near))
        numpyro.sample("y", dist.Normal(b, 0.5), obs=y)

    run, _ = ran(model, y, ring, draws=100)
    ring = np.roll(np.eye(6), 1, 0) + np.roll(np.eye(6), -1, 0)
    with pytest.raises(ModelError, match="neighbours would be others"):
        run.predict(near=ring, y=None)


@pytest.mark.slow
def test_occupancy_at_new_places():
    x = RNG.normal(size=60)
    z = RNG.random(60) < expit(x)
    y = RNG.binomial(4, 0.6 * z)

    def model(x, y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 1))
        found = numpyro.sample("found", dist.Beta(2, 2))
        with numpyro.plate("place", len(x)):
            z = numpyro.sample("z", dist.Bernoulli(logits=a + b * x))
            numpyro.sample("y", dist.Binomial(4, found * z), obs=y)

    run, d = ran(model, x, y)
    new = np.array([-2.0, 0.0, 2.0, 1.0])
    p = run.predict(x=new, y=None)
    there = expit(d.a[:, None] + d.b[:, None] * new)
    f = d.found[:, None]
    agrees(flat(p.draws["y"]), 4 * there * f, 4 * there * f * (1 - f) + 16 * f**2 * there * (1 - there))
    np.testing.assert_allclose(p.probs["z"][:, 1], there.mean(0), rtol=1e-4)


@pytest.mark.slow
def test_censored_times_are_drawn_whole():
    arm = RNG.integers(0, 2, 80)
    times = RNG.exponential(np.where(arm, 3.0, 1.5))
    gone = times > 2.0

    def model(arm, time, gone):
        rate = numpyro.sample("rate", dist.Gamma(2, 2).expand([2]))
        numpyro.sample("t", dist.RightCensoredDistribution(dist.Exponential(rate[arm]), gone), obs=time)

    run, d = ran(model, arm, np.minimum(times, 2.0), gone)
    p = run.predict(arm=np.array([0, 1]), gone=np.zeros(2, bool), time=None)
    agrees(flat(p.draws["t"]), 1 / d.rate, 1 / d.rate**2)


@pytest.mark.slow
def test_imputed_covariates_are_drawn_and_given_ones_stay():
    x = RNG.normal(1, 1, 60)
    y = 2 * x + RNG.normal(size=60) * 0.4
    x[:10] = np.nan

    def model(x, y):
        m = numpyro.sample("m", dist.Normal(0, 2))
        b = numpyro.sample("b", dist.Normal(0, 5))
        with numpyro.plate("n", len(y)):
            x = numpyro.sample("x", dist.Normal(m, 1.0), obs=x)
            numpyro.sample("y", dist.Normal(b * x, 0.4), obs=y)

    run, d = ran(model, x, y, missing="impute")
    p = run.predict(x=np.array([0.0, 3.0, np.nan]), y=None)
    at = flat(p.draws["y"])
    agrees(at[:, 0], 0 * d.b, 0.16)
    agrees(at[:, 1], 3 * d.b, 0.16)
    agrees(at[:, 2], d.m * d.b, d.b**2 + 0.16)
    same = flat(run.predict(y=None).draws["y"])  # the run's own rows keep what was imputed
    agrees(same[:, :10], d.b[:, None] * d.x_missing, 0.16)


@pytest.mark.slow
def test_ordered_and_zero_inflated_outcomes():
    x = RNG.normal(size=80)
    level = np.digitize(x + RNG.logistic(size=80), [-1, 1])

    def ordered(x, y):
        b = numpyro.sample("b", dist.Normal(0, 2))
        cut = numpyro.sample("cut", dist.TransformedDistribution(
            dist.Normal(0, 2).expand([2]).to_event(1), dist.transforms.OrderedTransform()))  # fmt: skip
        numpyro.sample("y", dist.OrderedLogistic(b * x, cut), obs=y)

    run, d = ran(ordered, x, level)
    new = np.array([-1.0, 0.5])
    p = run.predict(x=new, y=None)
    below = expit(d.cut[:, None] - (d.b[:, None] * new)[..., None])
    each = np.diff(
        np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], -1), axis=-1
    )
    np.testing.assert_allclose(p.probs["y"], each.mean(0), rtol=1e-3, atol=1e-4)
    for k in range(3):
        agrees(flat(p.draws["y"]) == k, each[..., k], each[..., k] * (1 - each[..., k]))

    count = RNG.poisson(np.exp(0.5 + 0.5 * x)) * (RNG.random(80) < 0.7)

    def inflated(x, y):
        gate = numpyro.sample("gate", dist.Beta(1, 1))
        b = numpyro.sample("b", dist.Normal(0, 1).expand([2]))
        numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(b[0] + b[1] * x)), obs=y)

    run, d = ran(inflated, x, count)
    at = flat(run.predict(x=new, y=None).draws["y"])
    rate, stays = np.exp(d.b[:, :1] + d.b[:, 1:] * new), 1 - d.gate[:, None]
    agrees(at, stays * rate, stays * rate * (1 + d.gate[:, None] * rate))
    agrees(at == 0, d.gate[:, None] + stays * np.exp(-rate))


@pytest.mark.slow
def test_an_observed_series_goes_on_from_its_last_value():
    y = [0.0]
    for _ in range(39):
        y.append(0.8 * y[-1] + RNG.normal() * 0.5)
    y = np.array(y)

    def model(y):
        phi = numpyro.sample("phi", dist.Uniform(-1, 1))

        def step(before, now):
            here = numpyro.sample("y", dist.Normal(phi * before, 0.5), obs=now)
            return here, None

        scan(step, 0.0, y)

    run, d = ran(model, y)
    at = flat(run.predict(y=np.concatenate([y, [np.nan] * 3])).draws["y"])
    agrees(at[:, 10], d.phi * y[9], 0.25)  # what is seen is gone on from
    agrees(at[:, 40], d.phi * y[-1], 0.25)
    agrees(at[:, 42], d.phi**3 * y[-1], 0.25 * (1 + d.phi**2 + d.phi**4))


@pytest.mark.slow
def test_states_of_a_loop_over_time():
    def local(y, T):
        tau = numpyro.sample("tau", dist.HalfNormal(1))

        def step(before, t):
            state = numpyro.sample("level", dist.Normal(before, tau))
            return state, state

        _, level = scan(step, 0.0, jnp.arange(T))
        numpyro.sample("y", dist.Normal(level, 0.3), obs=y)

    y = np.cumsum(RNG.normal(size=20)) * 0.4
    run, d = ran(local, y, 20)
    p = run.predict(T=23, y=None)
    np.testing.assert_array_equal(flat(p.draws["level"])[:, :20], d.level)
    agrees(flat(p.draws["y"])[:, 20:], d.level[:, -1:], d.tau[:, None] ** 2 * np.arange(1, 4) + 0.09)

    def looped(y, T):
        tau = numpyro.sample("tau", dist.HalfNormal(1))
        before = 0.0
        for t in range(T):
            before = numpyro.sample(f"s[{t}]", dist.Normal(before, tau))
            numpyro.sample(
                f"y[{t}]", dist.Normal(before, 0.3), obs=y[t] if y is not None and t < len(y) else None
            )

    run, d = ran(looped, y[:6], 6)
    p = run.predict(T=8)
    at = flat(p.draws["s"]) if "s" in p.draws else None
    assert at is not None
    agrees(flat(p.draws["s"])[:, -1], d.s[:, -1], 2 * d.tau**2)


@pytest.mark.slow
def test_conditioned_and_intervened_models_stay_so():
    x = RNG.normal(size=30)
    y = 3 + RNG.normal(size=30)

    def model(x, y):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        b = numpyro.sample("b", dist.Normal(0, 5))
        numpyro.sample("y", dist.Normal(mu + b * x, 1.0), obs=y)

    m = gb.model(model, x, y)
    for changed in (m.condition(mu=9.0), m.do(mu=9.0)):
        run = changed.sample(draws=1000, warmup=300, chains=2)
        d = SimpleNamespace(**{n: flat(v) for n, v in run.draws.items()})
        agrees(
            flat(run.predict(x=np.array([0.0, 1.0])).draws["y"]), 9 + d.b[:, None] * np.array([0.0, 1.0]), 1.0
        )
        agrees(flat(run.predict().draws["y"]), 9 + d.b[:, None] * x, 1.0)


@pytest.mark.slow
def test_vectors_of_effects_of_a_new_group():
    g = RNG.integers(0, 6, 120)
    x = RNG.normal(size=120)
    y = RNG.normal(size=6)[g] + x + RNG.normal(size=120) * 0.3

    def model(g, x, y, J):
        sd = numpyro.sample("sd", dist.HalfNormal(1).expand([2]).to_event(1))
        with numpyro.plate("group", J):
            e = numpyro.sample("e", dist.MultivariateNormal(jnp.array([0.0, 1.0]), scale_tril=jnp.diag(sd)))
        numpyro.sample("y", dist.Normal(e[g, 0] + e[g, 1] * x, 0.3), obs=y)

    run, d = ran(model, g, x, y, 6)
    p = run.predict(g=np.array([2, 6]), x=np.array([1.0, 1.0]), y=None, J=7)
    at = flat(p.draws["y"])
    agrees(at[:, 0], d.e[:, 2].sum(1), 0.09)
    agrees(at[:, 1], 1.0 + 0 * d.sd[:, 0], (d.sd**2).sum(1) + 0.09)


@pytest.mark.slow
def test_scopes_and_conditions_around_a_loop():
    y = np.cumsum(RNG.normal(size=12)) * 0.4

    def inner(y, T):
        tau = numpyro.sample("tau", dist.HalfNormal(1))

        def step(before, now):
            state = numpyro.sample("level", dist.Normal(before, tau))
            numpyro.sample("y", dist.Normal(state, 0.3), obs=now)
            return state, None

        scan(step, 0.0, y, length=T)

    def model(y, T):
        numpyro.handlers.scope(inner, "arm")(y, T)

    run = gb.model(model, y, 12).sample(draws=1000, warmup=300, chains=2)
    tau, level = flat(run.draws["arm/tau"]), flat(run.draws["arm/level"])
    p = run.predict(y=np.append(y, [np.nan, np.nan]), T=14)
    np.testing.assert_array_equal(flat(p.draws["arm/level"])[:, :12], level)
    agrees(flat(p.draws["arm/y"])[:, 12:], level[:, -1:], tau[:, None] ** 2 * np.array([1, 2]) + 0.09)
    agrees(flat(p.draws["arm/y"])[:, :12], level, 0.09)
    assert p.to_datatree()["predictions"]["arm.y"].shape == (2, 1000, 14)


def test_factors_in_plates_and_under_masks_are_no_data():
    y, c = np.array([0.3, 1.0, 0.2, 1.0]), np.array([False, True, False, True])

    def model(y, c):
        rate = numpyro.sample("rate", dist.Gamma(1, 1))
        with numpyro.plate("n", 4):
            with numpyro.handlers.mask(mask=~c):
                numpyro.sample("y", dist.Exponential(rate), obs=y)
            with numpyro.handlers.mask(mask=c):
                numpyro.factor("censored", -rate * y)

    run, d = ran(model, y, c)
    np.testing.assert_allclose(d.rate.mean(), 3 / 3.5, atol=5 * np.sqrt(3) / 3.5 / np.sqrt(2000))
    p = run.predict()
    assert list(p.draws) == ["y"]
    assert len(p.to_frame()) == 4
    assert run.elpd().n_data_points == 2


def test_what_only_factors_speak_of_is_not_predicted():
    def model(y):
        rate = numpyro.sample("rate", dist.Gamma(1, 1))
        numpyro.factor("density", jnp.sum(jnp.log(rate) - rate * y))

    run, _ = ran(model, np.ones(3), draws=20, warmup=20)
    with pytest.raises(ModelError, match="'density' has no distribution to be drawn from"):
        run.predict()
    with pytest.raises(ModelError, match="what the factor 'density' adds is no datum"):
        run.elpd()


@pytest.mark.slow
def test_groups_of_several_numbers_are_counted_as_groups():
    g = np.repeat(np.arange(3), 4)

    def model(g, y, count):
        tau = numpyro.sample("tau", dist.HalfNormal(1).expand([2]).to_event(1))
        with numpyro.plate("group", count):
            b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(2), scale_tril=jnp.diag(tau)))
        with numpyro.plate("n", len(g)):
            numpyro.sample("y", dist.Normal(b[g, 0] + b[g, 1], 1), obs=y)

    run, _ = ran(model, g, RNG.normal(size=12), 3, draws=20, warmup=20)
    p = run.predict(g=np.array([0, 3]), y=None, count=4)
    assert "3 group known, 1 new: b drawn from MultivariateNormal" in p.note


def test_a_table_of_two_sites_has_each_axis_where_it_is_one():
    def model(a, b):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("arm", 2):
            numpyro.sample("c", dist.Normal(mu, 1), obs=a)
        with numpyro.plate("time", 3):
            numpyro.sample("t", dist.Normal(mu, 1), obs=b)

    run, _ = ran(model, np.zeros(2), np.zeros(3), draws=20, warmup=20)
    frame = run.predict().to_frame()
    assert list(frame["site"]) == ["c", "c", "t", "t", "t"]
    assert [None if pd.isna(v) else v for v in frame["arm"]] == [0, 1, None, None, None]
    assert [None if pd.isna(v) else v for v in frame["time"]] == [None, None, 0, 1, 2]


@pytest.mark.slow
def test_dicts_within_each_other_are_given_anew_like_tables():
    x, trials = RNG.normal(size=40).astype(np.float32), np.arange(1.0, 41)
    y = RNG.poisson(trials * np.exp(0.5 * x))

    def model(d):
        b = numpyro.sample("b", dist.Normal(0, 2))
        with numpyro.plate("n", len(d["seen"][0])):
            rate = d["design"]["trials"] * jnp.exp(b * d["design"]["x"])
            numpyro.sample("y", dist.Poisson(rate), obs=d["seen"][0])

    run, d = ran(model, {"design": {"x": x, "trials": trials}, "seen": (y, "counts")}, draws=200)
    new = {"x": np.array([0.0, 1.0]), "trials": np.array([3.0, 30.0])}
    mean = new["trials"] * np.exp(d.b[:, None] * new["x"])
    for asked in ({"seen": (None, "counts")}, {}):
        p = run.predict({"design": new, **asked})
        agrees(flat(p.draws["y"]), mean, mean)
    set_to = run.predict(do={"x": 0.0})
    np.testing.assert_allclose(flat(set_to.draws["y"]).mean(0), trials, atol=5 * np.sqrt(40 / 400))
    np.testing.assert_array_equal(run.predict(do={"d['design']['x']": 0.0}).draws["y"], set_to.draws["y"])


@pytest.mark.slow
def test_a_process_is_predicted_where_its_data_are_none():
    x = np.linspace(0, 1, 8)

    def model(x, y):
        s = numpyro.sample("s", dist.HalfNormal(0.3))
        cov = jnp.exp(-2 * (x[:, None] - x) ** 2) + (s**2 + 1e-3) * jnp.eye(len(x))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), cov), obs=y)

    run, _ = ran(model, x, np.sin(x), draws=100)
    one, other = run.predict(x=x[:2] + 0.05, y=None), run.predict(x=x[:2] + 0.05, y=np.full(2, np.nan))
    np.testing.assert_array_equal(one.draws["y"], other.draws["y"])
    assert "given the 8 that the run has seen" in one.note


@pytest.mark.slow
def test_a_process_written_by_its_factor_is_predicted_given_what_the_run_has_seen():
    """`cholesky(K) @ z` at new places: what `z` is at the run's own says where they lie."""
    x, new = np.linspace(0, 1, 12).astype(np.float32), np.array([0.31, 0.84, 1.1], np.float32)

    def kernel(a, b, scale):
        return np.exp(-0.5 * ((a[:, None] - b) / scale) ** 2) + 1e-2 * (a[:, None] == b)

    def model(x, y):
        scale = numpyro.sample("scale", dist.LogNormal(-1, 0.3))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([len(x)]).to_event(1))
        k = jnp.exp(-0.5 * ((x[:, None] - x) / scale) ** 2) + 1e-2 * jnp.eye(len(x))
        f = numpyro.deterministic("f", jnp.linalg.cholesky(k) @ z)
        with numpyro.plate("n", len(x)):
            numpyro.sample("y", dist.Normal(f, 0.1), obs=y)

    run, d = ran(model, x, np.sin(6 * x))
    for places in (new, x + 0.04):  # as many as the run's own, too
        p = run.predict(x=places, y=None)
        mean, var = [], []
        for scale, f in zip(d.scale, d.f, strict=True):
            k, across = kernel(x, x, scale), kernel(places, x, scale)
            solved = np.linalg.solve(k, across.T)
            mean.append(solved.T @ f)
            var.append(np.diag(kernel(places, places, scale) - across @ solved) + 0.1**2)
        agrees(flat(p.draws["y"]), np.array(mean), np.array(var))
        assert "given the 12 that the run has seen" in p.note
    with pytest.warns(UserWarning, match="x moved: z, drawn from .*, stays as the run drew it"):
        run.predict(x=x + 0.04)
    assert "stays" not in run.predict().note


@pytest.mark.slow
def test_as_many_columns_as_rows_are_no_rows():
    table = RNG.normal(size=(5, 5)).astype(np.float32)

    def model(table, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([table.shape[1]]).to_event(1))
        with numpyro.plate("n", len(table)):
            numpyro.sample("y", dist.Normal(table @ b, 0.5), obs=y)

    run, d = ran(model, table, table.sum(1), draws=400)
    new = RNG.normal(size=(5, 5)).astype(np.float32)
    p = run.predict(table=new, y=None)
    agrees(flat(p.draws["y"]), d.b @ new.T, np.full((len(d.b), 5), 0.25))


@pytest.mark.slow
def test_a_model_with_other_statements_without_data_is_predicted_by_these():
    """`if games is None:` another way to write what is observed, as people do for `Predictive`."""

    def m(x, games=None):
        p = numpyro.sample("p", dist.Beta(1, 1))
        lam = numpyro.sample("lam", dist.Gamma(2, 1))
        if games is None:
            played = numpyro.sample("played", dist.Bernoulli(p).expand([len(x)]))
            extra = numpyro.sample("extra", dist.Poisson(lam).expand([len(x)]))
            return numpyro.deterministic("games", played * (1 + extra))
        numpyro.sample("any", dist.Bernoulli(p), obs=(games > 0) * 1.0)
        with numpyro.handlers.mask(mask=games > 0):
            numpyro.sample("more", dist.Poisson(lam), obs=jnp.clip(games - 1, 0))

    games = np.random.default_rng(0).poisson(2, 20)
    run = gb.model(m, np.zeros(20), games=games).sample(draws=500, chains=2, seed=0)
    found = run.predict(games=None)
    assert found.outcomes == ("played", "extra", "games")
    drawn = {n: np.asarray(found.draws[n]) for n in found.outcomes}
    assert np.array_equal(drawn["games"], drawn["played"] * (1 + drawn["extra"]))
    p, lam = np.asarray(run.draws["p"]), np.asarray(run.draws["lam"])
    for name, mean, variance in (("played", p, p * (1 - p)), ("extra", lam, lam)):
        error = np.sqrt(variance.mean() / drawn[name].size)
        assert abs(drawn[name].mean() - mean.mean()) < 4 * error


@pytest.mark.slow
def test_of_categories_without_order_a_table_has_probabilities_and_effects_have_no_average():
    r = np.random.default_rng(0)
    df = pd.DataFrame({"x": r.normal(size=90), "g": r.integers(0, 3, 90), "w": r.normal(size=90)})
    df["y"] = pd.Categorical(r.choice(["bus", "car", "train"], 90))

    def m(df):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([3]))
        u = numpyro.sample("u", dist.Normal(0, 1).expand([3]))
        with numpyro.plate("n", len(df.x)):
            numpyro.sample("y", dist.Categorical(logits=a + df.x[:, None] * jnp.arange(3.0)), obs=df.y)
            numpyro.sample("z", dist.Normal(u[df.g], 1), obs=df.w)

    run = gb.model(m, df).sample(draws=200, chains=2, seed=0)
    p = run.predict(df.head(4))
    table = p.to_frame("y")
    assert [*table] == ["P(bus)", "P(car)", "P(train)"]
    logits = flat(run.draws["a"])[:, None] + np.asarray(df.x[:4])[:, None] * np.arange(3.0)
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(table, shares.mean(0), atol=1e-5)
    assert p.to_frame("y", expected=True).equals(table)  # not the mean of codes
    assert [*p.to_frame("z")][:2] == ["mean", "sd"]
    for ask in (lambda: run.effects("x", [0.0, 1.0], site="y"), lambda: gb.contrast(p, p, site="y")):
        with pytest.raises(OptionError, match="'y' is of 3 categories without order"):
            ask()
    picked = run.effects("g", site="z")
    assert "per unit" not in repr(picked)
    with pytest.raises(OptionError, match="no units"):
        _ = picked.slope


@pytest.mark.slow
def test_the_run_s_own_rows_are_known_in_any_precision():
    """Rows in single precision were new ones, and a forecast was as many steps further out."""
    x = np.linspace(-1.0, 1.0, 30) / 3
    y = np.cumsum(x) * x

    def walk(x, y):
        def step(b, now):
            b = numpyro.sample("b", dist.Normal(b, 0.1))
            numpyro.sample("y", dist.Normal(b * now[0], 0.1), obs=now[1])
            return b, None

        scan(step, numpyro.sample("start", dist.Normal(0, 1)), (x, y))

    run = gb.model(walk, x, y).sample(draws=20, warmup=20, chains=2)
    longer = np.r_[x, 1.0]
    for given in (longer, longer.astype(np.float32)):
        assert "1 new row after 30 of the run's own" in run.predict(x=given, y=None).note
    with pytest.warns(UserWarning, match="first 30 rows of x are the run's own but for rounding"):
        assert "31 new rows" in run.predict(x=longer.round(3), y=None).note
    assert "rounding" not in run.predict(x=-longer, y=None).note


@pytest.mark.slow
def test_categories_beyond_a_plate_of_a_fixed_length_are_named():
    """Their codes were, which are not the user's, with advice to count from 0."""
    names = [f"p{k}" for k in range(4)]
    table = pd.DataFrame({"home": names * 3, "away": names[::-1] * 3, "month": np.arange(12) % 6})
    table["y"] = np.arange(12.0)

    def model(t):
        with numpyro.plate("team", 4):
            a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.plate("months", 6):
            e = numpyro.sample("e", dist.Normal(0, 1))
        with numpyro.plate("row", len(t)):
            numpyro.sample("y", dist.Normal(a[t.home] - a[t.away] + e[t.month], 1.0), obs=t.y)

    run = gb.model(model, table).sample(draws=20, warmup=20, chains=2)
    with pytest.raises(gb.GibbsiteError, match=r"'zz', which the model's own data do not have.*lumn"):
        run.predict(pd.DataFrame({"home": ["p1", "zz"], "away": ["p2", "p3"], "month": [1, 2]}))
    with pytest.raises(gb.GibbsiteError, match=r"from 6 to 6 .*0 to 5; the model's own data have no more"):
        run.predict(pd.DataFrame({"home": ["p1"], "away": ["p2"], "month": [6]}))
