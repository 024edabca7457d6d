"""What is expected of data at a draw, beside the formula; contrasts and effects are of it."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import ResourceError
from gibbsite.prediction import verbs
from gibbsite.prediction.drawn.means import MEAN_OF
from numpyro.contrib.control_flow import scan
from scipy import stats

X = np.array([0.3, -0.5, 1.2, 0.8, -1.0, 0.1])


def link(m):
    return 1 / (1 + np.exp(-m))


FAMILIES = {
    "bernoulli": (lambda m: dist.Bernoulli(logits=m), link),
    "binomial": (lambda m: dist.Binomial(7, logits=m), lambda m: 7 * link(m)),
    "poisson": (lambda m: dist.Poisson(jnp.exp(m)), np.exp),
    "negative binomial": (lambda m: dist.NegativeBinomial2(jnp.exp(m), 2.0), np.exp),
    "zeros": (lambda m: dist.ZeroInflatedPoisson(0.3, jnp.exp(m)), lambda m: 0.7 * np.exp(m)),
    "normal": (lambda m: dist.Normal(m, 2.0), lambda m: m),
    "gamma": (lambda m: dist.Gamma(3.0, 3.0 / jnp.exp(m)), np.exp),
    "lognormal": (lambda m: dist.LogNormal(m, 0.5), lambda m: np.exp(m + 0.125)),
    "mixture": (
        lambda m: dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.2, 0.8])), dist.Normal(jnp.stack([m, -m], -1), 1.0)
        ),
        lambda m: 0.2 * m - 0.8 * m,
    ),
}


def ran(family, **options):
    def m(t):
        a = numpyro.sample("a", dist.Normal(0, 0.5))
        b = numpyro.sample("b", dist.Normal(0, 0.5))
        with numpyro.plate("rows", len(t["x"])):
            numpyro.sample("y", family(a + b * t["x"]), obs=t["y"])

    t = pd.DataFrame({"x": X, "y": np.asarray(family(jnp.asarray(X)).sample(jax.random.key(1)))})
    return gb.model(m, t=t).sample(draws=100, chains=2, seed=1, **options)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_the_mean_at_every_draw(name):
    family, mean = FAMILIES[name]
    run = ran(family)
    a, b = (np.asarray(run.draws[n])[..., None] for n in "ab")
    p = run.predict()
    np.testing.assert_allclose(p.expected["y"], mean(a + b * X), rtol=2e-4, atol=1e-5)
    assert not np.allclose(p.draws["y"], p.expected["y"])
    np.testing.assert_allclose(p.to_frame(expected=True)["mean"], p.expected["y"].mean((0, 1)), rtol=1e-5)
    c = gb.contrast(run.predict(do={"x": 1.0}), run.predict(do={"x": 0.0}))
    exact = (mean(a + b) - mean(a + 0 * b))[..., 0]
    np.testing.assert_allclose(c.difference.mean(-1), exact, rtol=2e-4, atol=1e-5)
    e = run.effects("x", [0.0, 1.0])
    np.testing.assert_allclose(e.slope, exact, rtol=2e-4, atol=1e-5)
    frame = c.to_frame(average=True)
    assert frame["sd"].iloc[0] == pytest.approx(exact.std(), rel=0.01)


@pytest.mark.slow
def test_what_has_no_mean_is_as_drawn():
    p = ran(lambda m: dist.Cauchy(m, 1.0)).predict()
    with pytest.warns(UserWarning, match="y's distribution has no finite mean: what is expected of it"):
        np.testing.assert_array_equal(p.expected["y"], p.draws["y"])


exponential = dist.transforms.ExpTransform()
UNSAID = {
    "shifted": (
        lambda m: dist.TransformedDistribution(
            dist.Gamma(3.0, 3.0 / jnp.exp(m)), dist.transforms.AffineTransform(1.0, 2.0)
        ),
        lambda m: 1.0 + 2.0 * np.exp(m),
        1e-4,
    ),
    "squared": (
        lambda m: dist.TransformedDistribution(
            dist.Gamma(3.0, 3.0 / jnp.exp(m)), dist.transforms.PowerTransform(2.0)
        ),
        lambda m: np.exp(2 * m) * 4 / 3,
        2.0,
    ),
    "transformed": (
        lambda m: dist.TransformedDistribution(dist.Normal(m, 0.5), exponential),
        lambda m: np.exp(m + 0.125),
        1e-4,
    ),
    "folded": (
        lambda m: dist.FoldedDistribution(dist.Normal(m, 1.0)),
        lambda m: np.sqrt(2 / np.pi) * np.exp(-m * m / 2) + m * (2 * stats.norm.cdf(m) - 1),
        1.0,
    ),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", UNSAID)
def test_where_numpyro_has_no_formula_draws_make_the_mean(name):
    """It was an outcome, noise and all, and nobody was told."""
    family, mean, sd = UNSAID[name]
    run = ran(family)
    a, b = (np.asarray(run.draws[n])[..., None] for n in "ab")
    exact, found = mean(a + b * X), run.predict().expected["y"]
    z = (found - exact) / (sd * np.maximum(np.abs(exact), name == "folded") / np.sqrt(MEAN_OF))
    assert np.abs(z).max() < 6.5
    assert np.abs(z.mean()) < 5 / np.sqrt(z.size)


@pytest.mark.slow
def test_of_censored_data_it_is_the_mean_of_what_is_censored():
    run = ran(
        lambda m: dist.RightCensoredDistribution(dist.Exponential(jnp.exp(-m)), jnp.zeros(m.shape, int))
    )
    a, b = (np.asarray(run.draws[n])[..., None] for n in "ab")
    np.testing.assert_allclose(run.predict().expected["y"], np.exp(a + b * X), rtol=2e-4)


@pytest.mark.slow
def test_infinite_means_of_some_draws_do_not_reach_the_others():
    """One draw of Student's t with a degree of freedom made outcomes of all of them."""

    def robust(x, y):
        a, b = numpyro.sample("a", dist.Normal(0, 3)), numpyro.sample("b", dist.Normal(0, 3))
        nu = numpyro.sample("nu", dist.Gamma(2.0, 0.5))
        numpyro.sample("y", dist.StudentT(nu, a + b * x, 0.3), obs=y)

    x = np.linspace(-1, 1, 15)
    y = 1 + 2 * x + np.random.default_rng(3).standard_t(2, 15) * 0.3
    run = gb.model(robust, x, y).sample(draws=500, chains=2, seed=0)
    lost = np.asarray(run.draws["nu"]) <= 1
    assert 10 < lost.sum() < 900
    told = f"no finite mean at {lost.sum():,} of 1,000 draws: others stand in"
    with pytest.warns(UserWarning, match=told):
        found = run.predict().expected["y"]
    a, b = (np.asarray(run.draws[n])[..., None] for n in "ab")
    np.testing.assert_allclose(found[~lost], (a + b * x)[~lost], rtol=1e-4, atol=1e-5)
    assert np.isin(found[lost][:, 0], found[~lost][:, 0]).all()
    with pytest.warns(UserWarning, match=told):
        slope = run.effects("x", [0.0, 1.0]).slope
    assert slope.std() < 2 * np.asarray(run.draws["b"]).std()


@pytest.mark.slow
def test_of_categories_it_is_the_mean_of_their_codes():
    run = ran(lambda m: dist.Categorical(logits=jnp.stack([m, 0 * m, -m], -1)))
    a, b = (np.asarray(run.draws[n])[..., None] for n in "ab")
    m = a + b * X
    chances = np.exp(np.stack([m, 0 * m, -m], -1))
    mean = (chances @ np.arange(3)) / chances.sum(-1)
    np.testing.assert_allclose(run.predict().expected["y"], mean, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_what_is_given_comes_with_the_same_draws():
    run = ran(FAMILIES["poisson"][0])
    p = run.predict(given={"y": [2, np.nan, np.nan, np.nan, np.nan, np.nan]})
    a, b = (p.derive(f"{n} + 0").values[..., None] for n in "ab")
    np.testing.assert_allclose(p.expected["y"][..., 1:], np.exp(a + b * X)[..., 1:], rtol=1e-4)
    assert (p.expected["y"][..., 0] == 2).all()


@pytest.mark.slow
def test_memory_is_asked_before(monkeypatch):
    p = ran(FAMILIES["normal"][0]).predict()
    monkeypatch.setattr(verbs, "available_memory", lambda: 10)
    with pytest.raises(ResourceError, match="fewer by draws="):
        _ = p.expected


def test_columns_of_any_name_are_those_of_the_data():
    def m(t):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(t)):
            numpyro.sample("y", dist.Normal(b * t["site"], 1), obs=t["y"])

    t = pd.DataFrame({"site": [0, 1, 0, 1], "mean": [5, 5, 7, 7], "y": X[:4]})
    run = gb.model(m, t=t).sample(draws=30, chains=1, seed=1)
    frame = run.effects("site").to_frame(by="mean")
    assert list(frame["site"]) == [0, 1, 0, 1]
    assert list(frame["mean (column)"]) == [5, 5, 7, 7]
    np.testing.assert_allclose(frame["mean"], np.tile([0, run.draws["b"].mean()], 2), atol=1e-5)


SERIES = np.cumsum(np.random.default_rng(4).normal(size=30)) / 3


def autoregressive(y):
    phi, s = numpyro.sample("phi", dist.Uniform(0, 1)), numpyro.sample("s", dist.HalfNormal(1))

    def step(before, y):
        y = numpyro.sample("y", dist.Normal(phi * before, s), obs=y)
        return y, None

    scan(step, 0.0, y)


def latent(x, y):
    phi, b = numpyro.sample("phi", dist.Uniform(0, 1)), numpyro.sample("b", dist.Normal(0, 1))

    def step(z, now):
        x, y = now
        z = numpyro.sample("z", dist.Normal(phi * z, 0.3))
        numpyro.sample("y", dist.Normal(z + b * x, 0.5), obs=y)
        return z, None

    scan(step, 0.0, (x, y))


@pytest.mark.slow
def test_of_steps_it_is_the_mean_given_what_was_before():
    """They were draws, noise and all, and of latent series a raw `KeyError`."""
    run = gb.model(autoregressive, SERIES).sample(draws=200, chains=2, seed=0)
    ahead = run.predict(np.r_[SERIES, np.nan, np.nan])
    phi = np.asarray(run.draws["phi"])
    np.testing.assert_allclose(ahead.expected["y"][..., 30], phi * SERIES[-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        ahead.expected["y"][..., 31], phi * ahead.draws["y"][..., 30], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        ahead.expected["y"][..., 1:30], phi[..., None] * SERIES[:-1], rtol=1e-4, atol=1e-5
    )

    x = np.sin(np.arange(30.0))
    run = gb.model(latent, x, SERIES + x).sample(draws=200, chains=2, seed=0)
    for to in (1.0, 0.0):
        found = run.predict(x=np.full(32, to), y=np.full(32, np.nan))
        mean = found.draws["z"] + to * np.asarray(run.draws["b"])[..., None]
        np.testing.assert_allclose(found.expected["y"], mean, rtol=1e-4, atol=1e-5)
    more = pd.Series(np.r_[SERIES + x, np.nan, np.nan])
    one, none = (run.predict(x=np.r_[x, v, v], y=more) for v in (1.0, 0.0))
    effect = gb.contrast(one, none).to_frame()["mean"].to_numpy()
    np.testing.assert_allclose(effect[-2:], run.draws["b"].mean(), rtol=1e-3)


def test_odds_ratios_are_those_of_the_averages():
    run = ran(lambda m: dist.Bernoulli(logits=m))
    c = gb.contrast(run.predict(do={"x": 1.0}), run.predict(do={"x": 0.0}))
    exact = np.exp(run.draws["b"])  # all rows alike
    np.testing.assert_allclose(c.odds_ratio, exact, rtol=1e-4)
    assert c.to_frame("odds ratio")["mean"].iloc[0] == pytest.approx(exact.mean(), rel=1e-4)
    low = gb.contrast(run.predict(), run.predict(do={"x": 0.0}))
    a, b = (p.mean(-1) for p in (low.a.expected["y"], low.b.expected["y"]))
    np.testing.assert_allclose(low.odds_ratio, a / (1 - a) * (1 - b) / b, rtol=1e-4)
