"""What is set, and goes through latents that stay as the run drew them: refused, or told; and what the run
imputed stays with its rows."""

import warnings

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError

RNG = np.random.default_rng(0)
GROUPS = pd.DataFrame({"z": RNG.normal(size=8)})
ROWS = pd.DataFrame({"g": np.repeat(np.arange(8), 6), "x": RNG.normal(size=48)})
ROWS["y"] = 1 + 0.9 * GROUPS["z"].to_numpy()[ROWS["g"]] + 0.5 * ROWS["x"] + RNG.normal(0, 0.4, 48)


def scales():
    return (numpyro.sample(n, dist.Normal(0, 1)) for n in "abc"), numpyro.sample("tau", dist.HalfNormal(1))


def centred(d, groups):
    (a, b, c), tau = scales()
    with numpyro.plate("groups", len(groups)):
        u = numpyro.sample("u", dist.Normal(a + c * groups["z"], tau))
    numpyro.sample("y", dist.Normal(u[d["g"]] + b * d["x"], 0.4), obs=d["y"])


def apart(d, groups):
    (a, b, c), tau = scales()
    with numpyro.plate("groups", len(groups)):
        e = numpyro.sample("e", dist.Normal(0, 1))
    u = a + c * groups["z"] + tau * e
    numpyro.sample("y", dist.Normal(u[d["g"]] + b * d["x"], 0.4), obs=d["y"])


@pytest.mark.slow
def test_a_latent_between_is_refused_and_a_term_beside_it_is_not():
    run = gb.model(centred, d=ROWS, groups=GROUPS).sample(draws=60, chains=1, seed=1)
    with pytest.raises(DataError, match=r"groups\['z'\] cannot be set: u, drawn from .*, stays as the run"):
        run.effects("z")
    slope = run.effects("x", [0.0, 1.0]).slope
    np.testing.assert_allclose(slope, run.draws["b"], rtol=1e-3, atol=1e-4)
    with pytest.warns(UserWarning, match=r"groups\['z'\] moved: u, drawn from"):
        run.predict(groups=GROUPS.assign(z=GROUPS["z"] + 1))
    for same in (run.predict(), run.predict(groups=GROUPS)):
        assert "stays as the run drew it" not in same.note
    other = gb.model(apart, d=ROWS, groups=GROUPS).sample(draws=60, chains=1, seed=1)
    np.testing.assert_allclose(other.effects("z", [0.0, 1.0]).slope, other.draws["c"], rtol=1e-3, atol=1e-4)


X = np.linspace(0, 5, 12)


def by_factor(x, t, y):
    b = numpyro.sample("b", dist.Normal(0, 1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(x)]).to_event(1))
    cov = jnp.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 1e-3 * jnp.eye(len(x))
    numpyro.sample("y", dist.Normal(jnp.linalg.cholesky(cov) @ z + b * t, 0.1), obs=y)


def as_one(x, t, y):
    b = numpyro.sample("b", dist.Normal(0, 1))
    cov = jnp.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 1e-3 * jnp.eye(len(x))
    f = numpyro.sample("f", dist.MultivariateNormal(0, cov))
    numpyro.sample("y", dist.Normal(f + b * t, 0.1), obs=y)


@pytest.mark.share(2)
@pytest.mark.parametrize("fn", [by_factor, as_one])
def test_places_of_a_process_are_not_set_and_what_stands_beside_it_is(fn):
    t = RNG.normal(size=12)
    run = gb.model(fn, x=X, t=t, y=np.sin(X) + 0.3 * t).sample(draws=60, chains=1, seed=1)
    with pytest.raises(DataError, match="x cannot be set"):
        run.effects("x")
    np.testing.assert_allclose(run.effects("t", [0.0, 1.0]).slope, run.draws["b"], rtol=1e-2, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("never", [-1e9, -np.inf])
def test_what_cannot_be_chosen_hides_no_cause(never):
    """Beside logits of -1e9, what is left of others are their last digits; and two infinite ones have no
    difference."""

    def choices(x, open_, chosen, centred):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        x = x - x.mean() if centred else x
        with numpyro.plate("n", len(x)):
            logits = jnp.where(open_, x[:, None] * b, never)
            numpyro.sample("chosen", dist.Categorical(logits=logits), obs=chosen)

    open_ = RNG.random((20, 3)) < 0.7
    open_[:, 0] = True
    for centred in (False, True):
        model = gb.model(choices, RNG.normal(1, 1, 20), open_, np.zeros(20, int), centred)
        run = model.sample(draws=40, chains=1, seed=0)
        if centred:
            with pytest.raises(DataError, match=r"x cannot be set: .* a number of all rows"):
                run.predict(do={"x": 1.0})
        else:
            assert run.predict(do={"x": 1.0}).probs["chosen"][~open_].max() < 1e-6


@pytest.mark.slow
def test_imputed_values_stay_with_their_rows_and_are_drawn_anew_where_their_parents_are_set():
    def measured(d):
        c, b = numpyro.sample("c", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(d)):
            x = numpyro.sample("seen", dist.Normal(c * d["w"], 0.5), obs=d["x"])
            numpyro.sample("y", dist.Normal(b * x, 0.3), obs=d["y"])

    w = RNG.normal(size=40)
    x = 0.8 * w + RNG.normal(0, 0.5, 40)
    d = pd.DataFrame({"w": w, "x": x, "y": 1.5 * x + RNG.normal(0, 0.3, 40)})
    d.loc[RNG.random(40) < 0.4, "x"] = np.nan
    for index in (None, [f"r{i}" for i in range(40)]):
        table = d if index is None else d.set_index(pd.Index(index))
        run = gb.model(measured, d=table, missing="impute").sample(draws=80, chains=2, seed=1)
        new = pd.DataFrame({"w": [0.0], "x": [1.0], "y": [np.nan]}, index=["new"] if index else [40])
        gone = d["x"].isna().to_numpy()
        longer = run.predict(pd.concat([table, new])).expected["y"][..., :40]
        exact = run.draws["b"][..., None] * run.draws["seen_missing"]
        np.testing.assert_allclose(longer[..., gone], exact, rtol=1e-3, atol=1e-4)
        if index is not None:
            some = table.iloc[[5, 0, 3, 9]]
            got = run.predict(some).expected["y"][..., some["x"].isna()]
            order = [int(gone[: [5, 0, 3, 9][i]].sum()) for i in np.flatnonzero(some["x"].isna())]
            np.testing.assert_allclose(got, exact[..., order], rtol=1e-3, atol=1e-4)
        p = run.effects("w", [0.0, 1.0], site="y").slope.mean()
        assert p == pytest.approx(float((run.draws["b"] * run.draws["c"]).mean()), abs=0.15)


@pytest.mark.slow
def test_a_latent_that_is_set_above_others_which_stay_is_told():
    """Its effect came out as none, and nobody was told."""
    run = gb.model(centred, d=ROWS, groups=GROUPS).sample(draws=60, chains=1, seed=1)
    with pytest.warns(UserWarning, match=r"c is set: u, drawn from Normal\(a \+ c \* .*, stays as the run"):
        run.predict(do={"c": 3.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.predict(do={"b": 3.0})
    run = gb.model(apart, d=ROWS, groups=GROUPS).sample(draws=60, chains=1, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = gb.contrast(run.predict(do={"c": 1.0}), run.predict(do={"c": 0.0})).difference
    np.testing.assert_allclose(moved.mean(), GROUPS["z"].to_numpy()[ROWS["g"]].mean(), atol=1e-4)


@pytest.mark.slow
def test_contrasts_of_what_rests_are_refused():
    """An effect through a label that stays as it was drawn was exactly none, beside a warning."""
    x = np.linspace(-2, 2, 60)
    y = (np.sin(9 * x) > 0).astype(int)

    def model(x, w, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            t = numpyro.sample("t", dist.Bernoulli(logits=b * x))
            numpyro.sample("y", dist.Bernoulli(logits=2.0 * t - 1 + w), obs=y)

    run = gb.model(model, x, np.zeros(60), y).sample(draws=50, warmup=50, chains=2)
    with pytest.warns(UserWarning, match="x moved: t"):
        one, other = (run.predict(x=x + 1, w=w * np.ones(60)) for w in (0.0, 1.0))
    with pytest.raises(gb.GibbsiteError, match="contrast: x moved: t, drawn from"):
        gb.contrast(one, run.predict())
    assert (gb.contrast(other, one).difference > 0).all()


def through(t, returned):
    """What `t` does to `x` and that to `y`, which goes on with what the statement of `x` returns, or with its
    argument."""
    a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in "ab")
    with numpyro.plate("rows", len(t["x"])):
        drawn = numpyro.sample("x", dist.Normal(a * t["z"], 1), obs=t["x"])
        numpyro.sample("y", dist.Normal(b * (drawn if returned else t["x"]), 1), obs=t["y"])


def beside(t):
    a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in "ab")
    mean = jnp.stack([a * t["z"], b * t["x"]], -1)
    both = jnp.stack([t["x"], t["y"]], -1)
    with numpyro.plate("rows", len(t["x"])):
        numpyro.sample("both", dist.MultivariateNormal(mean, jnp.eye(2)), obs=both)


def test_no_effect_goes_through_an_outcome_that_is_read_as_it_was_observed():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3, 40)).astype(np.float32)
    t = {"z": z[0], "x": z[0] + z[1], "y": 0.5 * (z[0] + z[1]) + z[2]}
    run = gb.model(through, t, True).sample(draws=100, warmup=20, chains=1)
    slope = run.effects("z", [0.0, 1.0], site="y").slope
    assert abs(slope.mean() - (run.draws["a"] * run.draws["b"]).mean()) < 0.1
    for model, args in ((through, (False,)), (beside, ())):
        run = gb.model(model, t, *args).sample(draws=10, warmup=10, chains=1)
        assert ("as it was observed" in run.predict().note) == (model is through)
        for do in ({"t['z']": 0 * z[0]}, {"a": 2.0}):
            with pytest.raises(
                DataError, match=r"cannot be set: .* is|are computed with the argument t\['x'\]"
            ):
                run.predict(do=do)
    run = gb.model(through, t, False).sample(draws=10, warmup=10, chains=1)
    for do in ({"b": 0.0}, {"t['z']": z[0], "t['x']": z[0]}):
        assert "set to" in run.predict(do=do).note
