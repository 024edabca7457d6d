"""What `do=` and `given=` set: columns and the sites that observe them, gaps, elements left open."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError, GibbsiteError, ModelError
from numpyro.contrib.control_flow import cond, scan
from scipy import stats

nan = np.nan


def by_site(t):
    a, b = (numpyro.sample(n, dist.Normal(0, 2)) for n in "ab")
    with numpyro.plate("rows", len(t["y"])):
        x = numpyro.sample("exposure", dist.Normal(1, 1), obs=t["x"])
        numpyro.sample("y", dist.Normal(a + b * x, 0.3), obs=t["y"])


def by_column(t):
    a, b = (numpyro.sample(n, dist.Normal(0, 2)) for n in "ab")
    with numpyro.plate("rows", len(t["y"])):
        numpyro.sample("exposure", dist.Normal(1, 1), obs=t["x"])
        numpyro.sample("y", dist.Normal(a + b * t["x"], 0.3), obs=t["y"])


def by_category(t):
    u = numpyro.sample("u", dist.Normal(0, 2).expand([2]))
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("rows", len(t["y"])):
        z = numpyro.sample("exposure", dist.Categorical(share), obs=t["x"])
        numpyro.sample("y", dist.Normal(u[z], 0.3), obs=t["y"])


def data(gaps: bool, names=None) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(1, 1, 60) if names is None else rng.integers(0, 2, 60)
    t = pd.DataFrame({"x": x, "y": 0.5 + 0.7 * x + rng.normal(0, 0.3, 60)})
    if names is not None:
        t["x"] = np.asarray(names)[t["x"]]
    if gaps:
        t.loc[rng.random(60) < 0.5, "x"] = None
    return t if names is None else t.astype({"x": "category"})


def test_numbers_beside_gaps_of_a_vector_are_told_to_be_given():
    def pairs(Y):
        m = numpyro.sample("m", dist.Normal(0, 1)) + jnp.zeros(2)
        with numpyro.plate("n", len(Y)):
            numpyro.sample("Y", dist.MultivariateNormal(m, jnp.eye(2) + 0.5), obs=Y)

    run = gibbsite.model(pairs, np.arange(8.0).reshape(4, 2)).sample(draws=200, chains=1, seed=0)
    half, gaps = np.array([[2.0, nan]]), np.full((1, 2), nan)
    told = "the numbers among the data of Y are not used, as all of it is drawn: given={'Y': …}"
    assert told in run.predict(Y=half).note
    assert not any("not used" in run.predict(Y=new).note for new in (gaps, np.ones((1, 2))))
    given = run.predict(Y=gaps, given={"Y": half}).note
    assert "Y given as 1 of 2 values" in given and "not used" not in given
    assert "not used" not in run.predict(Y=half, given={"Y": half}).note


@pytest.mark.share(12)
@pytest.mark.parametrize("name", ["x", "exposure"])
@pytest.mark.parametrize(
    ("fn", "gaps"),
    [(by_site, False), (by_site, True), (by_column, False), (by_category, False), (by_category, True)],
)
def test_a_column_is_set_wherever_it_is_observed(fn, gaps, name):
    """Under the column's name and the site's, in all rows, those that were imputed too; whether the model
    goes on with the column or with what the statement returns."""
    values = ["no", "yes"] if fn is by_category else [0.0, 1.0]
    t = data(gaps, values if fn is by_category else None)
    model = gibbsite.model(fn, t=t, **({"missing": "impute"} if gaps else {}))
    run = model.sample(draws=60, chains=2, seed=1)
    found = run.effects(name, values, site="y")
    low, high = (float(r["mean"]) for _, r in found.to_frame().iterrows())
    u = run.draws["u"].mean((0, 1)) if fn is by_category else None
    truth = float(run.draws["b"].mean()) if u is None else float(u[1] - u[0])
    assert high - low == pytest.approx(truth, rel=1e-3)


FAMILIES = {
    "bernoulli": (lambda m: dist.Bernoulli(logits=m), lambda m: stats.bernoulli(1 / (1 + np.exp(-m))), 1),
    "poisson": (lambda m: dist.Poisson(jnp.exp(m)), lambda m: stats.poisson(np.exp(m)), 4),
    "binomial": (lambda m: dist.Binomial(9, logits=m), lambda m: stats.binom(9, 1 / (1 + np.exp(-m))), 8),
    "categorical": (
        lambda m: dist.Categorical(logits=jnp.stack([m, 0 * m], -1)),
        lambda m: stats.bernoulli(1 / (1 + np.exp(m))),
        1,
    ),
    "whole numbers under a normal": (lambda m: dist.Normal(m, 1.0), lambda m: stats.norm(m, 1.0), 1),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("name", FAMILIES)
def test_elements_that_are_left_open_say_nothing(name):
    """The weights are of what is given, by SciPy; what is not is drawn."""
    family, truth, value = FAMILIES[name]

    def m(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", family(b * x), obs=y)

    x = np.array([0.2, -0.4, 1.0, 0.6])
    y = np.asarray(family(jnp.asarray(x)).sample(jax.random.key(0))).astype(int)
    run = gibbsite.model(m, x, y).sample(draws=400, chains=1, seed=1)
    p = run.predict(given={"y": [nan, nan, value, nan]})
    own = truth(np.asarray(run.draws["b"]).ravel() * x[2])
    w = own.pdf(value) if name.endswith("normal") else own.pmf(value)
    assert f"worth {np.sum(w) ** 2 / np.sum(w**2):.0f}" in p.note
    drawn = p.draws["y"][0]
    assert (drawn[:, 2] == value).all()
    assert all(len(np.unique(drawn[:, i])) > 1 for i in (0, 1, 3))
    assert np.abs(drawn).max() < 1000


@pytest.mark.slow
def test_what_cannot_be_given():
    t = data(True)
    run = gibbsite.model(by_site, t=t, missing="impute").sample(draws=20, chains=1, seed=1)
    gone = int(np.argmax(t["x"].isna()))
    x = np.full(60, nan)
    x[gone] = 1.0
    with pytest.raises(ModelError, match=rf"missing at \[{gone}\]"):
        run.predict(given={"x": x})
    with pytest.raises(GibbsiteError, match="finite"):
        run.predict(given={"y": np.inf})
    with pytest.raises(DataError, match="nan is none"):
        run.predict(do={"x": nan})


@pytest.mark.slow
def test_categories_are_given_by_their_names():
    t = data(False, ["no", "yes"])
    run = gibbsite.model(by_category, t=t).sample(draws=150, chains=1, seed=1)
    new = pd.DataFrame({"y": [nan] * 3})
    p = run.predict(new, given={"x": ["yes", None, "no"]})
    z = p.draws["exposure"][0]
    assert (z[:, 0] == 1).all() and (z[:, 2] == 0).all() and 0 < z[:, 1].mean() < 1
    with pytest.raises(GibbsiteError, match="maybe"):
        run.predict(new, given={"x": ["yes", "maybe", "no"]})


def unit(t):
    s = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("rows", len(t["x"])):
        u = numpyro.sample("u", dist.Normal(0, s))
        numpyro.sample("y", dist.Poisson(jnp.exp(1 + 0.2 * t["x"] + u)), obs=t["y"])


@pytest.mark.slow
@pytest.mark.parametrize("index", [None, ["p9", "p10"]])
def test_new_rows_with_the_first_rows_covariates_are_new(index):
    t = pd.DataFrame({"x": [0, 1, 0, 1, 1, 0], "y": [90, 3, 2, 1, 4, 2]})
    run = gibbsite.model(unit, t=t).sample(draws=60, chains=1, seed=1)
    p = run.predict(pd.DataFrame({"x": [0, 1]}, index=index))
    assert "2 new" in p.note
    assert p.draws["y"][..., 0].mean() < 60
    known = run.predict(t.head(2))
    assert known.draws["y"][..., 0].mean() > 60
    longer = pd.concat([t, pd.DataFrame({"x": [0]})], ignore_index=True)
    p = run.predict(longer)
    assert p.draws["y"][..., 0].mean() > 60
    assert p.draws["y"][..., 6].mean() < 60


def walk(y):
    def step(c, y):
        c = numpyro.sample("c", dist.Normal(c, 1.0))
        numpyro.sample("y", dist.Normal(c, 0.5), obs=y)
        return c, None

    scan(step, 0.0, y)


def autoregression(y):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))

    def step(c, y):
        y = numpyro.sample("y", dist.Normal(a * c + 1.0, 0.7), obs=y)
        return y, None

    scan(step, 0.0, y)


STEPS = np.array([0.2, 0.1, 2.2, 2.5, -0.3, 2.0], np.float32)


@pytest.mark.slow
def test_what_is_given_of_steps_weighs_and_stands():
    """A seventh level seen at 4: the forecast of the eighth is Kalman's."""
    run = gibbsite.model(walk, STEPS).sample(draws=4000, warmup=200, chains=4, seed=0)
    told = np.append(STEPS, [nan, nan]).astype(np.float32)
    found = run.predict(y=told, given={"y": [nan] * 6 + [4.0, nan]})
    assert "drawn without" not in found.note  # it weighs
    drawn = found.draws["y"][..., 6:]
    assert np.all(drawn[..., 0] == 4.0)
    at = np.minimum.outer(np.arange(1, 9), np.arange(1, 9)) + 0.25 * np.eye(8)
    mean = at[7, :7] @ np.linalg.solve(at[:7, :7], np.append(STEPS, 4.0))
    worth = int(found.note.rsplit("worth ", 1)[1])
    assert 200 < worth < 6000
    assert abs(drawn[..., 1].mean() - mean) < 4 * drawn[..., 1].std() / np.sqrt(worth)
    with pytest.raises(DataError, match="shape"):
        run.predict(given={"y": [1.0, 2.0]})


def test_what_is_given_of_steps_goes_on():
    """The weight is that of the draws of `a`, and the next step reads what is given."""
    run = gibbsite.model(autoregression, STEPS).sample(draws=4000, warmup=200, chains=4, seed=0)
    found = run.predict(given={"y": [nan, 1.5, nan, nan, nan, nan]})
    y, a = found.draws["y"], run.draws["a"].ravel()
    assert np.all(y[..., 1] == 1.5)
    weight = stats.norm.pdf(1.5, a * 1.0 + 1.0, 0.7)  # whatever the first step is drawn as
    assert 1000 < int(found.note.rsplit("worth ", 1)[1]) < 16_000
    mean = np.average(1.5 * a + 1.0, weights=weight)
    assert abs(y[..., 2].mean() - mean) < 0.1


def branches(y):
    z, a = numpyro.sample("z", dist.Bernoulli(0.3)), numpyro.sample("a", dist.Normal(0.0, 1.0))
    b = cond(
        z == 1,
        lambda _: numpyro.sample("b", dist.Normal(a, 1.0)),
        lambda _: numpyro.sample("b", dist.Normal(-2.0, 0.5)),
        None,
    )
    numpyro.sample("y", dist.Normal(b, 0.5), obs=y)


@pytest.mark.slow
def test_what_branches_draw_is_predicted():
    run = gibbsite.model(branches, 0.2).sample(draws=2000, chains=4, seed=0)
    one, other = 0.3 * stats.norm.pdf(0.2, 0, 1.5), 0.7 * stats.norm.pdf(0.2, -2.0, np.sqrt(0.5))
    share = one / (one + other)
    mean = share * 0.2 * 2 / 2.25 + (1 - share) * (-2.0 + 2.2 * 0.5)
    assert abs(run.predict().draws["y"].mean() - mean) < 0.06
    with pytest.warns(UserWarning, match="a is set: b, drawn from .* stays as the run drew it"):
        assert np.all(run.predict(do={"a": 3.0}).draws["a"] == 3.0)
    assert run.checks().to_frame().loc["mean(y)"].iloc[0] == pytest.approx(0.2)


@pytest.mark.slow
def test_what_both_branches_observe_is_a_datum():
    """Their choice between one number and the same was no datum: nothing could be predicted or scored."""

    def either(y):
        z, a = numpyro.sample("z", dist.Bernoulli(0.3)), numpyro.sample("a", dist.Normal(0.0, 1.0))
        cond(
            z == 1,
            lambda _: numpyro.sample("y", dist.Normal(a, 1.0), obs=y),
            lambda _: numpyro.sample("y", dist.Normal(-1.0, 0.5), obs=y),
            None,
        )

    run = gibbsite.model(either, 0.2).sample(draws=1000, chains=4, seed=0)
    one, other = 0.3 * stats.norm.pdf(0.2, 0, np.sqrt(2)), 0.7 * stats.norm.pdf(0.2, -1.0, 0.5)
    assert abs(run.elpd().elpd - np.log(one + other)) < 0.02
    share = one / (one + other)
    assert abs(run.predict().draws["y"].mean() - (share * 0.1 - (1 - share))) < 0.08


def test_what_branches_within_branches_observe_is_a_datum():
    def nested(y):
        z, w = numpyro.sample("z", dist.Bernoulli(0.3)), numpyro.sample("w", dist.Bernoulli(0.6))

        def seen(mean, sd):
            return lambda _: numpyro.sample("y", dist.Normal(mean, sd), obs=y)

        inner = lambda _: cond(w == 1, seen(2.0, 1.0), seen(1.0, 2.0), None)  # noqa: E731
        cond(z == 1, inner, seen(0.0, 1.0), None)

    run = gibbsite.model(nested, 1.4).sample(draws=500, chains=2, seed=0)
    parts = [0.18, 0.12, 0.7] * stats.norm.pdf(1.4, [2.0, 1.0, 0.0], [1.0, 2.0, 1.0])
    assert abs(run.elpd().elpd - np.log(parts.sum())) < 0.02


def by_python(y):
    a, before = numpyro.sample("a", dist.Normal(1.0, 0.1)), 0.0
    for t in range(len(y)):
        before = numpyro.sample(f"y{t}", dist.Normal(a * before + 1.0, 0.3), obs=y[t])


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [[nan, nan], [None, None]])
def test_steps_of_a_loop_in_python_are_drawn_where_they_are_missing(gaps):
    """A step for each datum: new ones without a value were no number, in silence."""
    y = [1.0, 1.9, 3.1, 3.9, 5.2, 6.0]
    run = gibbsite.model(by_python, y).sample(draws=1000, chains=2, seed=0)
    found, a = run.predict(y=[*y, *gaps]).draws, run.draws["a"]
    first, second = a * 6 + 1, a * (a * 6 + 1) + 1
    assert abs((found["y6"] - first).mean()) < 5 * 0.3 / np.sqrt(2000)
    assert abs((found["y7"] - second).mean()) < 5 * 0.5 / np.sqrt(2000)
    assert (found["y6"] - first).std() == pytest.approx(0.3, rel=0.1)
    assert np.corrcoef((found["y6"] - first).ravel(), (found["y7"] - second).ravel())[0, 1] > 0.4


def test_outcomes_are_as_many_as_their_rows():
    def line(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)

    run = gibbsite.model(line, np.arange(4.0), np.arange(4.0)).sample(draws=50, chains=1, seed=0)
    with pytest.raises(GibbsiteError, match=r"'y' has shape \(2,\) .* \(4,\): give an outcome for every row"):
        run.predict(y=np.array([1.0, 2.0]))
    assert run.predict(x=np.arange(2.0), y=np.array([1.0, nan])).draws["y"].shape == (1, 50, 2)


@pytest.mark.slow
def test_probabilities_of_steps():
    """Of known ones what the run drew, of new ones what they are given the last."""

    def chain(y):
        mu = jnp.array([0.0, 2.0])

        def step(z, y):
            z = numpyro.sample("z", dist.Bernoulli(jnp.where(z == 1, 0.9, 0.2)))
            numpyro.sample("y", dist.Normal(mu[z], 0.8), obs=y)
            return z, None

        scan(step, 0, y)

    y = np.array([0.0, 0.6, 1.2, 2.1, 1.0])
    run = gibbsite.model(chain, y).sample(draws=2000, chains=2, seed=0)
    probs = run.predict(y=np.append(y, [nan, nan])).probs["z"]
    np.testing.assert_allclose(probs[:5, 1], run.draws["z"].mean((0, 1)), atol=1e-6)
    last = run.draws["z"][..., 4].mean()
    after = 0.2 + 0.7 * last
    np.testing.assert_allclose(probs[5:, 1], [after, 0.2 + 0.7 * after], atol=0.02)
    np.testing.assert_allclose(probs.sum(-1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_vectors_that_are_given_in_part():
    """They had no weight, and what was left was drawn as if nothing of them were known: 2.34 for 4.8."""
    rng = np.random.default_rng(0)
    cov = np.array([[1.0, 0.9], [0.9, 1.0]])
    y = rng.multivariate_normal([1.0, 2.0], cov, 100)

    def together(y):
        m = numpyro.sample("m", dist.Normal(0, 5).expand([2]).to_event(1))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.MultivariateNormal(m, covariance_matrix=jnp.asarray(cov)), obs=y)

    run = gibbsite.model(together, y).sample(draws=1000, chains=2, seed=0)
    asked = {"y": [[4.0, np.nan], [np.nan, np.nan], [np.nan, 0.0]]}
    found = run.predict(y=np.full((3, 2), np.nan), given=asked).to_frame()
    # the mean of 100 rows moves by next to nothing
    mean, sd = (found[n].to_numpy().reshape(3, 2) for n in ("mean", "sd"))
    near = y.mean(0)
    right = [[4, near[1] + 0.9 * (4 - near[0])], near, [near[0] + 0.9 * (0 - near[1]), 0]]
    np.testing.assert_allclose(mean, right, atol=0.15)
    np.testing.assert_allclose(sd, [[0, 0.19**0.5], [1, 1], [0.19**0.5, 0]], atol=0.1)

    def apart(y):
        m, c = numpyro.sample("m", dist.Normal(0, 1)), numpyro.sample("c", dist.Normal(0, 1))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(jnp.stack([m + c, m - c]), 1.0).to_event(1), obs=y)

    run = gibbsite.model(apart, y[:3]).sample(draws=2000, chains=2, seed=0)
    found = run.predict(y=np.full((1, 2), np.nan), given={"y": [[3.0, np.nan]]}).to_frame()["mean"]
    m, c = (np.asarray(run.draws[n]) for n in "mc")
    weight = np.exp(-0.5 * (3 - m - c) ** 2)
    assert abs(found.iloc[1] - ((m - c) * weight).sum() / weight.sum()) < 0.15

    def shares(y):
        numpyro.sample("y", dist.Dirichlet(numpyro.sample("a", dist.Gamma(2, 1)) * jnp.ones(3)), obs=y)

    run = gibbsite.model(shares, rng.dirichlet([2, 2, 2], 5)).sample(draws=50, warmup=50, chains=1, seed=0)
    with pytest.raises(DataError, match="a vector is given in part, and nothing is known"):
        run.predict(given={"y": [[0.2, np.nan, np.nan]] * 5})
