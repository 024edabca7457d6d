"""What cannot be predicted, or is written as users write it: in words, or answered."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError, ExpressionError, GibbsiteError, OptionError
from numpyro.contrib.control_flow import scan

Y = np.random.default_rng(0).normal(size=8)


def masked(d):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("rows", len(d)):
        numpyro.sample("y", dist.Normal(b * d["x"], 0.1), obs=d["y"], obs_mask=d["there"])


@pytest.mark.slow
def test_rows_that_an_obs_mask_leaves_out_are_drawn_as_others():
    d = pd.DataFrame({"x": np.arange(8.0), "y": 2.0 * np.arange(8), "there": np.arange(8) % 3 > 0})
    run = gb.model(masked, d=d).sample(draws=100, chains=2, seed=1)
    p = run.predict(pd.DataFrame({"x": [10.0, 10.0], "there": [True, False]}))
    assert np.abs(p.draws["y"].mean((0, 1)) - 20).max() < 0.5
    assert p.draws["y"].std((0, 1)).min() > 0.05


def by_steps(y):
    p = numpyro.sample("p", dist.Normal(0, 1))
    for i in range(1, len(y)):
        numpyro.sample(f"y_{i}", dist.Normal(p * y[i - 1], 1), obs=y[i])


def by_slices(y):
    p = numpyro.sample("p", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(p * y[:-1], 1), obs=y[1:])


@pytest.mark.parametrize("fn", [by_steps, by_slices])
def test_a_series_without_its_past_is_told(fn):
    run = gb.model(fn, y=Y).sample(draws=20, chains=1)
    with pytest.raises(DataError, match=r"computes with y, .*cannot run with None"):
        run.predict(y=None)


def autoregression(y, x):
    phi = numpyro.sample("phi", dist.Uniform(-1, 1))

    def step(before, row):
        now, covariate = row
        return numpyro.sample("y", dist.Normal(phi * before + covariate, 0.1), obs=now), None

    scan(step, 0.0, (y, x))


def by_table(d):
    autoregression(d.y, d.x)


@pytest.mark.slow
def test_steps_to_come_go_on_from_what_was_observed():
    """Where the outcome was not given anew, they went on from replicates of it, under the same note."""
    y = np.array([0.9, 0.85, 0.7, 0.72, 8.0])
    x, longer = np.zeros(5), np.zeros(7)
    run = gb.model(autoregression, y, x).sample(draws=100, chains=2, seed=0)
    given = run.predict(y=np.append(y, [np.nan] * 2), x=longer)
    left = run.predict(x=longer)
    np.testing.assert_array_equal(given.draws["y"], left.draws["y"])
    mean = np.asarray(run.draws["phi"]).mean() * 8.0
    assert abs(left.draws["y"][..., 5].mean() - mean) < 0.1
    with pytest.warns(UserWarning, match="y is drawn anew from its first step.*give y, missing"):
        anew = run.predict(y=None, x=longer)
    assert "y is drawn anew from its first step" in anew.note
    assert abs(anew.draws["y"][..., 5].mean()) < 1.0
    table = pd.DataFrame({"y": y, "x": x})
    run = gb.model(by_table, table).sample(draws=50, chains=1, seed=0)
    with pytest.warns(UserWarning, match=r"give d\['y'\], missing"):
        run.predict(pd.DataFrame({"x": longer}))


def test_no_effect_goes_through_a_lag_of_the_outcome_as_it_was_observed():
    """It was the first step's alone, without a word."""

    def lagged(d, y):
        r, b = numpyro.sample("r", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
        before = jnp.concatenate([jnp.zeros(1), y[:-1]])
        numpyro.sample("y", dist.Normal(r * before + b * d, 1.0), obs=y)

    run = gb.model(lagged, d=np.arange(8) % 2.0, y=Y).sample(draws=20, chains=1)
    with pytest.raises(DataError, match="its other elements are computed with the argument y"):
        run.effects("d")


def test_a_model_without_arguments_has_no_place_for_a_table():
    def alone():
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=Y)

    run = gb.model(alone).sample(draws=20, chains=1)
    assert run.predict().draws["y"].shape == (1, 20, 8)
    with pytest.raises(OptionError, match="takes no arguments"):
        run.predict(pd.DataFrame({"y": Y}))


def by_grade(d):
    with numpyro.plate("grade", 3):
        a = numpyro.sample("a", dist.Normal(0, 3))
    numpyro.sample("y", dist.Normal(a[d["g"]], 0.1), obs=d["y"])


@pytest.mark.slow
def test_categories_that_are_whole_numbers_go_by_these():
    g = np.array([5, 6, 9, 5, 6, 9, 5, 6])
    d = pd.DataFrame({"g": pd.Categorical(g), "y": 1.0 * g})
    run = gb.model(by_grade, d=d).sample(draws=50, chains=1, seed=1)
    for new in ([9, 5], pd.Categorical([9, 5]), np.array([9, 5], "int8")):
        mean = run.predict(pd.DataFrame({"g": new})).expected["y"].mean((0, 1))
        np.testing.assert_allclose(mean, [9, 5], atol=0.3)
    assert run.predict(do={"g": 6}).expected["y"].mean() == pytest.approx(6, abs=0.3)
    with pytest.raises(GibbsiteError, match=r"'7' \(known: '5', '6', '9'\)"):
        run.predict(do={"g": 7})


def test_truth_values_and_weights_of_zero_are_told():
    def picked(d):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(a[d["t"]], 1), obs=d["y"])

    def weighted(d):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.handlers.scale(scale=d["w"]):
            numpyro.sample("y", dist.Normal(a, 1), obs=d["y"])

    d = pd.DataFrame({"t": Y > 0, "w": np.where(Y > 0, 1.0, 0.0), "y": Y})
    with pytest.raises(DataError, match=r'd\["t"\] holds truth values.*`d\["t"\].astype\(int\)`'):
        gb.model(picked, d=d)
    with pytest.raises(DataError, match=r"weights are above 0.*handlers\.mask"):
        gb.model(weighted, d=d)

    def as_told(d):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with (
            numpyro.handlers.mask(mask=d["w"] > 0),
            numpyro.handlers.scale(scale=jnp.where(d["w"] > 0, d["w"], 1)),
        ):
            numpyro.sample("y", dist.Normal(a, 1), obs=d["y"])

    assert gb.model(as_told, d=d).sample(draws=20, chains=1).draws["a"].shape == (1, 20)


def _texts(t):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", len(t)):
        numpyro.sample("vote", dist.Bernoulli(logits=a * t.x), obs=t.vote)
        numpyro.sample("way", dist.Categorical(logits=t.x[:, None] * b), obs=t.way)
        numpyro.sample("grade", dist.OrderedLogistic(a * t.x, jnp.array([-1.0, 1.0])), obs=t.grade)


def test_numbers_that_stand_for_texts_say_what_they_mean():
    """A mean of .55 of "vote" named neither candidate, and an order that nobody gave was the alphabet's."""
    rng, n = np.random.default_rng(1), 60
    grades = ["low", "mid", "high"]
    table = pd.DataFrame({
        "x": rng.normal(size=n), "vote": rng.choice(["clinton", "trump"], n),
        "way": rng.choice(["bus", "car", "train"], n),
        "grade": pd.Categorical(rng.choice(grades, n), grades, ordered=True),
    })  # fmt: skip
    run = gb.model(_texts, table).sample(draws=100, chains=2, seed=0)
    p = run.predict()
    assert "vote: 1 is 'trump'" in p.note and "grade: 0 is 'low', 2 'high'" in p.note and "way:" not in p.note
    assert "on vote (1 is 'trump'):" in repr(run.effects("x", [0.0, 1.0], site="vote"))
    assert "grade (0 is 'low', 2 'high')" in run.effects("x", [0.0, 1.0], site="grade").plot().text
    assert "vote (binary, 1 is 'trump')" in repr(run.checks("vote", leave_one_out=False))
    for text in ("mean(way >= 'car')", "mean('car' > way)"):
        with pytest.raises(ExpressionError, match="bus, car, train, to which nobody gave an order"):
            p.derive(text)
    assert p.derive("mean(way != 'car')").values.shape == (2, 100)
    above = p.derive("high = mean(grade > 'low')")
    np.testing.assert_allclose(above.values, (p.draws["grade"] > 0).mean(-1))


def test_what_is_weighed_or_pooled_is_said():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))
        with numpyro.plate("rows", len(y)), numpyro.handlers.scale(scale=0.5):
            numpyro.sample("y", dist.MultivariateNormal(mu, jnp.eye(2)), obs=y)

    y = np.random.default_rng(0).normal(size=(30, 2))
    run = gb.model(model, y).sample(draws=100, chains=2, seed=0)
    assert "data count by their weights (0.5)" in str(run.elpd())
    assert "components of its rows together: statistics=['mean(y[:, 0])']" in repr(run.checks())
