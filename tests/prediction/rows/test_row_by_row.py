"""Columns that a model standardises within itself: what is another table's then is told, or refused."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError
from gibbsite.prediction.asked.row_by_row import pooled_columns

RNG = np.random.default_rng(11)
AGE = RNG.integers(20, 60, 40).astype(float)
TABLE = pd.DataFrame(
    {"age": AGE, "x": RNG.normal(size=40), "k": RNG.random(40) < 0.5, "c": RNG.poisson(3.0, 40)}
)


def lines(t, within):
    a, b = numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("b", dist.Normal(0, 2))
    age = (t["age"] - t["age"].mean()) / t["age"].std() if within else t["age"] / 40
    return a + b * age + 0.1 * t["x"]


def yes(t, within):
    at = lines(t, within)
    with numpyro.plate("i", len(t)):
        numpyro.sample("k", dist.Bernoulli(logits=at), obs=t["k"])


def counts(t, within):
    at = lines(t, within)
    with numpyro.plate("i", len(t)):
        numpyro.sample("c", dist.Poisson(jnp.exp(at)), obs=t["c"])


def centred(x, z):
    a, b = numpyro.sample("a", dist.Normal(0, 10)), numpyro.sample("b", dist.Normal(0, 2))
    with numpyro.plate("i", len(x)):
        numpyro.sample("z", dist.Normal(a + b * (x - jnp.mean(x)), 1.0), obs=z)


def lagged(x, z):
    b = numpyro.sample("b", dist.Normal(0, 2))
    before = jnp.concatenate([jnp.zeros(1), x[:-1]])
    with numpyro.plate("i", len(x)):
        numpyro.sample("z", dist.Normal(b * before, 1.0), obs=z)


@pytest.mark.slow
def by_covariance(x, y):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    near = jnp.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 0.01 * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), scale**2 * near), obs=y)


def by_draws(x, y):
    near = jnp.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 0.01 * jnp.eye(len(x))
    with numpyro.plate("of z", len(x)):
        z = numpyro.sample("z", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(jnp.linalg.cholesky(near) @ z, 0.3), obs=y)


@pytest.mark.parametrize("fn", [by_covariance, by_draws])
def test_pairs_of_rows_are_no_mean_of_them(fn):
    """A Gaussian process was told to standardise before the model."""
    x = np.linspace(0.0, 3.0, 12)
    run = gb.model(fn, x, np.sin(x)).sample(draws=25, chains=1, seed=0)
    for asks in (lambda: run.effects("x"), lambda: run.predict(do={"x": 1.0})):
        told = r"reads each row of it with every other one .*own, as a grid: `run.predict\(x=…, y=None\)`"
        with pytest.raises(DataError, match=told):
            asks()
    assert run.predict(x=np.linspace(0, 4, 5), y=None).draws["y"].shape == (1, 25, 5)


@pytest.mark.parametrize("fn", [yes, counts])
def test_no_number_is_no_count_of_zero(fn):
    run = gb.model(fn, TABLE, True).sample(draws=50, warmup=100, chains=2, seed=1)
    with pytest.raises(DataError, match=r"no number .NaN. there, though no argument lacks values"):
        run.predict(pd.DataFrame({"age": [55.0], "x": [0.0]}))
    with pytest.raises(DataError, match="cannot be set"):
        run.predict(do={"age": 55.0})
    with pytest.raises(DataError, match="cannot be set"):
        run.effects("age", [30.0, 55.0])
    with pytest.raises(DataError, match=r"lacks values .NaN., and they enter"):
        run.predict(pd.DataFrame({"age": [55.0, 30.0], "x": [0.0, np.nan]}))
    with pytest.warns(UserWarning, match=r"'age'.*numbers of all rows"):
        assert "numbers of all rows" in run.predict(pd.DataFrame({"age": [55.0, 57.0], "x": [0.0, 1.0]})).note


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_rows_that_stand_for_themselves_are_not_told():
    run = gb.model(yes, TABLE, False).sample(draws=50, warmup=100, chains=2, seed=1)
    assert run.predict(pd.DataFrame({"age": [55.0], "x": [0.0]})).note == "1 new row"
    run.predict(do={"age": 55.0})
    run.effects("age", [30.0, 55.0])
    run = gb.model(lagged, AGE, AGE).sample(draws=50, warmup=100, chains=2, seed=1)
    with pytest.warns(UserWarning, match="on its place or on the rows beside it"):
        run.predict(x=AGE[:5], z=None)


@pytest.mark.slow
def test_what_is_standardised_before_the_model_is_by_the_same_numbers():
    """As the warning advises: a column of a table is named by itself, or as errors call it."""

    def plain(t):
        a, b = numpyro.sample("a", dist.Normal(0, 10)), numpyro.sample("b", dist.Normal(0, 2))
        with numpyro.plate("i", len(t)):
            numpyro.sample("z", dist.Normal(a + b * t["age"], 0.1), obs=t["z"])

    table = TABLE.assign(z=3 + 0.1 * AGE)
    model = gb.model(plain, table)
    for name in ("age", "t['age']"):
        centred_there = model.centred(name, scaled=True)
        assert centred_there.source.startswith("# t['age'] stands for (t['age'] - ")
    run = centred_there.sample(draws=200, warmup=200, chains=2, seed=1)
    assert abs(run.draws["b"].mean() - 0.1 * AGE.std()) < 0.05
    found = run.predict(pd.DataFrame({"age": [70.0], "z": [np.nan]})).to_frame()["mean"]
    assert abs(found[0] - 10.0) < 0.2
    assert abs(run.predict(do={"age": 70.0}).to_frame()["mean"].mean() - 10.0) < 0.2


@pytest.mark.slow
def test_a_mean_alone_is_seen():
    run = gb.model(centred, AGE, AGE).sample(draws=50, warmup=100, chains=2, seed=1)
    with pytest.raises(DataError, match="x cannot be set"):
        run.effects("x").slope.mean()
    with pytest.warns(UserWarning, match="x enters each row"):
        run.predict(x=np.array([70.0]), z=None)


@pytest.mark.slow
def test_a_column_that_new_data_lack_is_missed():
    """JAX takes the last one in its place."""

    def columns(X, y):
        at = sum(numpyro.sample(f"b{k}", dist.Normal(0, 1)) * X[:, k] for k in range(3))
        with numpyro.plate("i", len(X)):
            numpyro.sample("y", dist.Normal(at, 1.0), obs=y)

    X = RNG.normal(size=(20, 3))
    run = gb.model(columns, X, X[:, 0]).sample(draws=20, warmup=50, chains=2, seed=1)
    with pytest.raises(
        DataError, match=r"element 2 of an axis that is 2 long \(axis 1; counted from 0 to 1\)"
    ):
        run.predict(X=np.ones((2, 2)), y=None)


GROUPS = pd.DataFrame({"g": np.array(list("abc"))[np.arange(60) % 3]})
GROUPS["y"] = 2.0 * (np.arange(60) % 3) + 0.1 * RNG.normal(size=60)


def of_groups(t, codes, count):
    with numpyro.plate("g", count):
        u = numpyro.sample("u", dist.Normal(0, 5))
    with numpyro.plate("i", len(t)):
        numpyro.sample("y", dist.Normal(u[codes], 0.3), obs=t["y"])


def factorised(t):
    codes, levels = pd.factorize(t["g"], sort=True)
    of_groups(t, codes, len(levels))


def unique(t):
    levels, codes = np.unique(t["g"], return_inverse=True)
    of_groups(t, codes, len(levels))


def by_column(t):
    of_groups(t, t["g"], t["g"].nunique())


@pytest.mark.parametrize("fn", [factorised, unique])
def test_codes_that_a_model_makes_itself_are_told(fn):
    run = gb.model(fn, GROUPS).sample(draws=50, warmup=100, chains=2, seed=1)
    with pytest.warns(UserWarning, match=r"Python reads t\['g'\] within the model"):
        run.predict(pd.DataFrame({"g": ["c", "b"], "y": np.nan}))
    with pytest.raises(DataError, match="'u' has 1 elements with these data and had 3"):
        run.predict(do={"g": "c"})
    with pytest.raises(DataError, match="numbers the values of other data anew"):
        run.effects("g")


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_codes_of_the_column_itself_stay():
    run = gb.model(by_column, GROUPS).sample(draws=200, warmup=100, chains=2, seed=1)
    found = run.predict(pd.DataFrame({"g": ["c", "b"], "y": np.nan})).to_frame()["mean"].to_numpy()
    np.testing.assert_allclose(found, [4.0, 2.0], atol=0.3)
    np.testing.assert_allclose(run.predict(do={"g": "c"}).to_frame()["mean"], 4.0, atol=0.3)


def test_numbers_below_zero_pick_nothing():
    def picked(g, y):
        u = numpyro.sample("u", dist.Normal(0, 5).expand([3]))
        with numpyro.plate("i", len(g)):
            numpyro.sample("y", dist.Normal(u[g], 0.3), obs=y)

    run = gb.model(picked, np.arange(30) % 3, GROUPS["y"][:30]).sample(draws=20, warmup=50, chains=2, seed=1)
    with pytest.raises(DataError, match="'g' holds -1 at"):
        run.predict(g=np.array([-1, 0]), y=None)


def measured(d):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("rows", len(d)):
        x = numpyro.sample("x", dist.Normal(0, 1))
        numpyro.sample("seen", dist.Normal(x, 0.2), obs=d["seen"])
        numpyro.sample("y", dist.Normal(b * x, 0.3), obs=d["y"])


@pytest.mark.slow
def test_what_new_rows_hold_of_their_own_latents_is_not_heard_and_told():
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"seen": rng.normal(size=12), "y": rng.normal(size=12)})
    run = gb.model(measured, d=d).sample(draws=30, chains=1)
    told = r"x of new rows is drawn without what these hold of seen(, y)?: to have it count for y"
    for new in ({"seen": [9.0, 1.0]}, {"seen": [9.0, 1.0], "y": [np.nan, 2.0]}):
        with pytest.warns(UserWarning, match=told):
            p = run.predict(pd.DataFrame(new))
        assert "drawn without what these hold" in p.note
    for known in ({"seen": [9.0, 1.0], "y": [1.0, 2.0]}, {"seen": [np.nan] * 2}, {}):
        new = pd.DataFrame(known) if known else d.drop(columns="y")
        assert "drawn without what these hold" not in run.predict(new).note


@pytest.mark.slow
def test_what_is_given_or_set_is_heard_of():
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"seen": rng.normal(size=12), "y": rng.normal(size=12)})
    run = gb.model(measured, d=d).sample(draws=2000, chains=1, seed=0)
    new = pd.DataFrame({"seen": [np.nan, np.nan]})
    p = run.predict(new, given={"seen": [1.0, np.nan]})
    assert "drawn without" not in p.note
    assert np.mean(p.draws["x"][..., 0]) == pytest.approx(
        1 / 1.04, abs=0.15
    )  # weighted, and few are worth much
    assert "drawn without" not in run.predict(new, do={"seen": 1.0}).note


def slope_of(use):
    """A line through what is made of a column."""

    def m(d):
        b = numpyro.sample("b", dist.Normal(0, 2))
        with numpyro.plate("rows", len(d["y"])):
            numpyro.sample("y", dist.Normal(b * use(d["x"]), 0.5), obs=d["y"])

    return m


POOLED = {
    "above the mean": lambda x: 1.0 * (x > jnp.mean(x)),
    "less the first": lambda x: x - x[0],
    "by the largest": lambda x: x / x.max(),
}
ALONE = {
    "as it is": lambda x: x,
    "lagged": lambda x: jnp.concatenate([jnp.zeros(1), x[:-1]]),
    "differences": lambda x: jnp.diff(x, prepend=0.0),
}


@pytest.mark.parametrize("name", [*POOLED, *ALONE])
def test_numbers_of_all_rows_are_found_however_they_enter(name):
    use = {**POOLED, **ALONE}[name]

    rng = np.random.default_rng(0)
    d = pd.DataFrame({"x": rng.normal(3, 1, 30), "y": rng.normal(size=30)})
    model = gb.model(slope_of(use), d=d)
    found = pooled_columns(model.density, {"d['y']": "y"})
    assert found == ({"d['x']": name != "less the first"} if name in POOLED else {})


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("use", "warned"),
    [
        (lambda x: x - float(np.asarray(x).mean()), True),
        (lambda x: x / float(np.max(np.asarray(x))), True),
        (lambda x: jnp.maximum(x - float(np.quantile(np.asarray(x), 0.5)), 0), True),
        (lambda x: jnp.asarray(np.log(np.asarray(x))), False),
    ],
    ids=["mean", "largest", "knot", "row by row"],
)
def test_numbers_of_all_rows_that_python_takes_are_found(use, warned):
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"x": rng.gamma(9, 0.5, 30), "y": rng.normal(size=30)})
    run = gb.model(slope_of(use), d=d).sample(draws=30, chains=1, seed=1)
    new = pd.DataFrame({"x": [5.0, 6.0]})
    if warned:
        with pytest.warns(UserWarning, match="numbers of all rows"):
            run.predict(new)
        with pytest.raises(DataError, match="cannot be set"):
            run.effects("x", [1.0, 2.0])
    else:
        run.predict(new)
        assert np.isfinite(run.effects("x", [1.0, 2.0]).slope).all()


def test_rows_that_are_counted_from_the_first_are_told_where_it_is_another():
    """As the grid of a differential equation, whose solution starts at its first time."""
    d = pd.DataFrame({"x": np.arange(2.0, 14.0), "y": np.random.default_rng(0).normal(size=12)})
    run = gb.model(slope_of(lambda x: x - x[0]), d=d).sample(draws=30, chains=1, seed=1)
    assert "first" not in run.predict(pd.DataFrame({"x": np.arange(2.0, 30.0)})).note
    with pytest.warns(UserWarning, match=r"by how it follows the first, which is the new table's here"):
        run.predict(pd.DataFrame({"x": np.arange(20.0, 30.0)}))


def numbered(x, code, z, mean):
    a = numpyro.sample("a", dist.Normal(0, 2).expand([3]).to_event(1))
    with numpyro.plate("i", len(x)) as i:
        numpyro.sample("z", dist.Normal(mean(a, x, code, i), 0.3), obs=z)


PLACES = {
    "position": lambda a, x, code, i: a[0] + a[1] * jnp.arange(len(x)),
    "of the plate": lambda a, x, code, i: a[0] + a[1] * i,
    "share": lambda a, x, code, i: a[0] + a[1] * jnp.linspace(0, 1, len(x)),
    "shifted": lambda a, x, code, i: a[0] + a[1] * jnp.roll(x, 1),
    "difference": lambda a, x, code, i: a[0] + a[1] * jnp.diff(x, prepend=x[0]),
    "of Python": lambda a, x, code, i: a[np.unique(np.asarray(code), return_inverse=True)[1]],
    "of JAX": lambda a, x, code, i: a[jnp.unique(code, return_inverse=True, size=3)[1]],
    "from the least": lambda a, x, code, i: a[(code - code.min()) // 3],
}
SAME_ALONE = {
    "given": lambda a, x, code, i: a[0] + a[1] * x,
    "looked up": lambda a, x, code, i: a[jnp.searchsorted(jnp.array([3, 7, 9]), code)],
    "an effect each": lambda a, x, code, i: a[0] + numpyro.sample("u", dist.Normal(0, 1))[..., i],
}
CODED = np.array([3, 7, 9] * 4)


def _predicted(mean, x, code):
    run = gb.model(numbered, np.arange(12.0) ** 1.5, CODED, RNG.normal(size=12), mean=mean)
    return run.sample(draws=20, warmup=50, chains=1, seed=1).predict(x=x, code=code, z=None)


@pytest.mark.share(7)
@pytest.mark.parametrize("use", PLACES)
def test_rows_that_another_place_or_neighbour_makes_others_are_told(use):
    with pytest.warns(UserWarning, match="its place or on the rows beside it"):
        _predicted(PLACES[use], np.array([3.0, 9.0]), np.array([9, 9]))


@pytest.mark.share(3)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("use", SAME_ALONE)
def test_rows_that_are_the_same_alone_are_not_told(use):
    _predicted(SAME_ALONE[use], np.array([3.0, 9.0]), np.array([9, 9]))


@pytest.mark.filterwarnings("error")
def test_places_after_the_models_own_rows_are_theirs():
    x, code = np.arange(14.0) ** 1.5, np.append(CODED, [3, 7])
    _predicted(PLACES["position"], x, code)


def change(x, z):
    a, b = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("b", dist.Normal(0, 5))
    k = numpyro.sample("k", dist.DiscreteUniform(0, 11))
    with numpyro.plate("i", len(x)) as i:
        numpyro.sample("z", dist.Normal(jnp.where(i < k, a, b), 0.5), obs=z)


def pairs(x, z):
    a, b = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("b", dist.Normal(0, 5))
    with numpyro.plate("i", len(x), dim=-2), numpyro.plate("j", 2):
        mean = a + b * jnp.arange(len(x))[:, None]
        numpyro.sample("w", dist.Normal(mean, 0.5), obs=None if z is None else jnp.stack([z, z], 1))


def beside(x, z):
    """Data of another length beside."""
    a, b = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("b", dist.Normal(0, 5))
    numpyro.sample("v", dist.Normal(a, 1.0), obs=jnp.arange(4.0))
    numpyro.sample("z", dist.Normal(a + b * jnp.arange(len(x)), 0.5), obs=z)


@pytest.mark.slow
@pytest.mark.parametrize("fn", [change, pairs, beside])
def test_places_are_told_of_steps_of_several_axes_and_beside_other_data(fn):
    x = np.arange(12.0)
    run = gb.model(fn, x, np.repeat([0.0, 8.0], 6)).sample(draws=20, warmup=50, chains=1, seed=1)
    with pytest.warns(UserWarning, match="its place or on the rows beside it"):
        run.predict(x=x[-3:], z=None if fn is not pairs else np.full(3, np.nan))


@pytest.mark.slow
def test_fewer_elements_that_codes_pick_are_those_of_their_numbers():
    """A plate as long as the largest code says: of rows of low codes all were drawn anew."""
    t = pd.DataFrame({"c": np.repeat([0, 1, 2, 3], 10)})
    t["y"] = 3.0 * t.c + RNG.normal(size=40) * 0.1

    def fn(t):
        with numpyro.plate("codes", int(t["c"].max()) + 1):
            b = numpyro.sample("b", dist.Normal(0, 5))
        numpyro.sample("y", dist.Normal(b[t["c"]], 0.1), obs=t["y"])

    run = gb.model(fn, t).sample(draws=100, warmup=50, chains=1, seed=1)
    found = run.predict(t.iloc[[12, 2, 15]].assign(y=np.nan)).to_frame()["mean"].to_numpy()
    np.testing.assert_allclose(found, [3, 0, 3], atol=0.3)
    more = run.predict(pd.DataFrame({"c": [4, 1], "y": np.nan})).draws["y"]
    assert more[..., 0].std() > 2 > 0.3 > abs(more[..., 1].mean() - 3)
