"""What a model makes of a row may hang upon what other rows hold of a column: set for all rows, or in a table
of a few new ones, it is another. Untold, an effect came out as none, and a row had another category."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError, ModelError

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 4, 60)
FRAME = pd.DataFrame({"k": CODES, "b": CODES > 1, "age": RNG.integers(20, 70, 60), "x": RNG.normal(size=60)})
FRAME["y"] = 0.1 * FRAME.age + 2.0 * FRAME.b + RNG.normal(0, 0.2, 60)


def dummies(column):
    return pd.get_dummies(np.asarray(column)).to_numpy().astype(float)


def codes(column):
    return np.eye(len(np.unique(column)))[np.unique(column, return_inverse=True)[1]]


TOGETHER = {
    "dummies of whole numbers": ("k", lambda t: dummies(t.k)),
    "dummies of truth values": ("b", lambda t: dummies(t.b)),
    "codes": ("k", lambda t: codes(t.k)),
    "a centred whole number": ("age", lambda t: (t.age - t.age.mean())[:, None]),
    "a centred truth value": ("b", lambda t: (t.b - t.b.mean())[:, None]),
    "above the median": ("x", lambda t: (t.x > jnp.median(t.x))[:, None] * 1.0),
    "above a high quantile": ("x", lambda t: (t.x > jnp.quantile(t.x, 0.9))[:, None] * 1.0),
    "capped": ("x", lambda t: jnp.clip(t.x, None, jnp.quantile(t.x, 0.95))[:, None]),
    "the third largest at most": ("x", lambda t: jnp.minimum(t.x, jnp.sort(t.x)[-3])[:, None]),
    "the largest": ("k", lambda t: (t.k == t.k.max())[:, None] * 1.0),
    "any": ("b", lambda t: t.x[:, None] * jnp.any(t.b)),
    "counts": ("k", lambda t: jnp.bincount(t.k, length=4)[t.k][:, None] / 10.0),
}
APART = {
    "a column": ("x", lambda t: t.x[:, None]),
    "a truth value": ("b", lambda t: t.b[:, None] * 1.0),
    "an index": ("k", lambda t: jnp.array([0.0, 1.0, -1.0, 2.0])[t.k][:, None]),
    "a lag": ("x", lambda t: jnp.concatenate([jnp.zeros(1), t.x[:-1]])[:, None]),
    "a long lag": ("x", lambda t: jnp.concatenate([jnp.zeros(12), t.x[:-12]])[:, None]),
    "a threshold": ("age", lambda t: (t.age > 40)[:, None] * 1.0),
    "as many as the largest": ("k", lambda t: jnp.eye(4)[t.k]),
}


def ran(of, chains=1):
    def model(t):
        design = of(t)
        w = numpyro.sample("w", dist.Normal(0, 3).expand([design.shape[1]]).to_event(1))
        with numpyro.plate("rows", len(t)):
            numpyro.sample("y", dist.Normal(5.0 + design @ w, 1.0), obs=t.y)

    return gb.model(model, FRAME).sample(draws=50, warmup=100, chains=chains, seed=1)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", TOGETHER)
def test_a_column_that_others_hang_upon_cannot_be_set(name):
    column, of = TOGETHER[name]
    run = ran(of)
    values = [bool(v) for v in (0, 1)] if column == "b" else [FRAME[column].min(), FRAME[column].max()]
    for ask in (lambda: run.predict(do={column: values[1]}), lambda: run.effects(column, values).draws):
        with pytest.raises(DataError, match=rf"t\['{column}'\] cannot be set"):
            ask()


@pytest.mark.share(12)
@pytest.mark.parametrize("name", APART)
def test_a_column_of_rows_that_stand_for_themselves_can_be(name):
    column, of = APART[name]
    run = ran(of)
    one, other = (run.predict(do={column: FRAME[column].iloc[i]}).expected["y"] for i in (0, 1))
    w = np.asarray(run.draws["w"])
    for expected, i in ((one, 0), (other, 1)):
        moved = FRAME.assign(**{column: FRAME[column].iloc[i]})
        design = np.asarray(of(gb.inputs.table.Table({n: jnp.asarray(v) for n, v in moved.items()})))
        np.testing.assert_allclose(expected[0], 5.0 + w[0] @ design.T, rtol=1e-4)


def adstock(spend, left):
    return jax.lax.scan(lambda before, x: ((x + left * before),) * 2, jnp.zeros(()), spend)[1]


CARRIED = {
    "a scan": adstock,
    "a saturated scan": lambda x, left: (a := adstock(x, left)) / (1 + a),
    "a convolution": lambda x, left: jnp.convolve(x, left ** jnp.arange(6.0))[: len(x)],
    "a running sum": lambda x, left: left * jnp.cumsum(x) / len(x),
}
MEASURED = {
    "less the first": lambda x, left: left * (x - x[0]),
    "of the first": lambda x, left: left * x / x[0],
    "less a running mean": lambda x, left: left * (x - jnp.cumsum(x) / (1 + jnp.arange(len(x)))),
    "less the mean, carried on": lambda x, left: adstock(x - x.mean(), left),
}


def carried(name):
    def model(spend, y):
        left = numpyro.sample("left", dist.Beta(3, 3))
        effect = {**CARRIED, **MEASURED}[name](spend, left)
        with numpyro.plate("weeks", len(spend)):
            numpyro.sample("y", dist.Normal(effect, 0.1), obs=y)

    rng = np.random.default_rng(3)
    return gb.model(model, rng.gamma(2, 1, 24), rng.normal(3, 1, 24)).sample(draws=40, chains=1, seed=0)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", CARRIED)
def test_what_is_carried_on_from_row_to_row_can_be_set(name):
    """It was refused as a number of all rows: an advertiser asks what is sold if nothing is spent."""
    run = carried(name)
    left = np.asarray(run.draws["left"])[0]
    for spend in (0.0, 2.0):
        p = run.predict(do={"spend": spend})
        assert "first" not in p.note
        truth = [CARRIED[name](jnp.full(24, spend), x) for x in left]
        np.testing.assert_allclose(p.expected["y"][0], truth, rtol=1e-4, atol=1e-5)
    assert (run.effects("spend", [0.0, 2.0]).draws[..., 1] > 0).all()


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MEASURED)
def test_what_rows_are_measured_by_cannot_be_set(name):
    with pytest.raises(DataError, match="spend cannot be set"):
        carried(name).predict(do={"spend": 2.0})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dummies of whole numbers", "dummies of truth values", "codes"])
def test_new_rows_of_which_python_makes_fewer_columns_are_refused(name):
    run = ran(TOGETHER[name][1])
    with pytest.raises(DataError, match=r"'w' has .* elements with these data and had"):
        run.predict(pd.DataFrame({"k": [3, 3], "b": [True, True]}))


@pytest.mark.slow
def test_new_rows_that_index_by_their_codes_are_not():
    def model(t):
        with numpyro.plate("groups", int(np.asarray(t.k).max()) + 1):
            u = numpyro.sample("u", dist.Normal(0, 3))
        numpyro.sample("y", dist.Normal(u[t.k], 0.2), obs=t.y)

    run = gb.model(model, FRAME).sample(draws=50, warmup=100, chains=1, seed=1)
    p = run.predict(pd.DataFrame({"k": [3, 1]}))
    np.testing.assert_allclose(p.expected["y"], np.asarray(run.draws["u"])[:, :, [3, 1]], rtol=1e-5)


SEEN = {
    "a logarithm": lambda t: jnp.log(t.age),
    "a shift": lambda t: t.age - 1.0,
    "another order": lambda t: t.age[::-1] * 1.0,
    "a stack": lambda t: jnp.stack([t.age, t.x], 1),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", SEEN)
def test_a_column_of_which_a_site_observes_a_function_is_not_its_value(name):
    def model(t):
        seen = SEEN[name](t)
        m = numpyro.sample("m", dist.Normal(numpyro.sample("a", dist.Normal(0, 9)), 9.0), obs=seen)
        numpyro.sample("o", dist.Normal(m.reshape(len(t), -1)[:, 0], 9.0), obs=t.y)

    run = gb.model(model, FRAME).sample(draws=30, warmup=60, chains=1, seed=1)
    for asked in ({"do": {"age": 30.0}}, {"given": {"age": np.r_[30.0, np.full(59, np.nan)]}}):
        with pytest.raises(ModelError, match=r"'m' observes a function of .*give the site's own, .*'m'"):
            run.predict(**asked)
    assert np.all(run.predict(do={"m": 3.0}).draws["m"] == 3.0)


def loop(x, y):
    for i in range(len(x)):
        z = numpyro.sample(f"z{i}", dist.Bernoulli(0.5))
        seen = None if y is None else y[i]
        numpyro.sample(f"y{i}", dist.Normal(jnp.where(z == 1, 5.0, 0.0) + x[i], 0.5), obs=seen)


def branching(x, y):
    for i in range(len(x)):
        mean = 5.0 if numpyro.sample(f"z{i}", dist.Bernoulli(0.5)) else 0.0
        numpyro.sample(f"y{i}", dist.Normal(mean + x[i], 0.5), obs=None if y is None else y[i])


@pytest.mark.slow
def test_latents_of_other_rows_are_others_whatever_they_are_called():
    x, y = np.arange(4) / 100, np.array([0.0, 0.1, 5.1, 4.9])
    run = gb.model(loop, x, y).sample(draws=400, chains=2, seed=0)
    new = run.predict(x=np.array([0.05, 0.06]), y=None)
    assert abs(new.draws["z0"].mean() - 0.5) < 5 * 0.5 / np.sqrt(800)
    assert np.asarray(run.predict().draws["y3"]).mean() > 4
    run = gb.model(branching, x, y).sample(draws=50, chains=2, seed=0)
    with pytest.raises(ModelError, match="Python decides by z0 to z3, a site of each row"):
        run.predict(x=np.array([0.05, 0.06]), y=None)


@pytest.mark.slow
def test_rows_that_a_model_sorts_do_not_go_by_the_tables_columns():
    """`by="g"` and labels of rows went to other rows, and nobody was told."""

    def model(t):
        order = jnp.argsort(t.x)
        numpyro.sample(
            "y",
            dist.Normal(numpyro.sample("a", dist.Normal(0, 9)), 9.0).expand([60]).to_event(1),
            obs=t.y[order],
        )

    frame = FRAME.assign(g=np.where(FRAME.b, "hi", "lo"), x=FRAME.x)
    run = gb.model(model, frame).sample(draws=50, warmup=100, chains=2, seed=1)
    for ask in (lambda: run.checks(by="g").to_frame(), lambda: run.checks(by=frame.g).to_frame()):
        with pytest.raises(DataError, match="the model puts the rows of 'y' into another order"):
            ask()
    own = frame.g.to_numpy()[np.argsort(frame.x.to_numpy(), kind="stable")]
    told = run.checks(by=own).to_frame()
    assert told.loc["mean(y) of hi"].iloc[0] == pytest.approx(frame.y[frame.g == "hi"].mean(), rel=1e-4)


@pytest.mark.slow
def test_a_refit_of_nothing_tells_its_error():
    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("a", dist.Normal(0, 3)), 2.0), obs=y)

    run = gb.model(model, RNG.normal(1, 2, 8)).sample(draws=300, chains=2, seed=0)
    plain, refitted = run.elpd(), run.elpd(refit=True)
    assert refitted.mcse == plain.mcse
    np.testing.assert_array_equal(refitted.mcse_i, plain.mcse_i)


@pytest.mark.share(3)
@pytest.mark.parametrize("names", [[-1, 0, 1], [2, 1, 0], [3, 0]])
def test_an_index_of_categories_that_are_numbers_is_compared_with_nothing(names):
    """JAX compares indices with 0, which is one of the categories."""

    def model(t):
        with numpyro.plate("groups", t.g):
            u = numpyro.sample("u", dist.Normal(0, 3))
        numpyro.sample("y", dist.Normal(u[t.g], 1.0), obs=t.y)

    codes = CODES % len(names)
    frame = pd.DataFrame({"g": pd.Categorical.from_codes(codes, categories=names), "y": FRAME.y})
    assert gb.model(model, frame).sites["u"].shape == (len(names),)

    def compared(t):
        numpyro.sample("y", dist.Normal(numpyro.sample("a", dist.Normal(0, 1)) + (t.g < 0), 1.0), obs=t.y)

    if names[0] != 3:
        with pytest.raises(DataError, match="is compared with 0"):
            gb.model(compared, frame)


def test_a_number_of_pythons_is_given_by_the_name_of_its_site():
    def model(w):
        numpyro.sample("w", dist.Normal(numpyro.sample("a", dist.Normal(0, 1)), 1.0), obs=w)

    run = gb.model(model, 2.0).sample(draws=300, chains=2, seed=0)
    assert np.all(run.predict(do={"w": 3.0}).draws["w"] == 3.0)
    assert "weighted by its likelihood" in run.predict(given={"w": 3.0}).note
