"""Averages over rows of a prediction, by groups and weights: against NumPy."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from gibbsite.errors import DataError, OptionError, UnknownNameError

STATES = np.array(["A", "B", "C"])
CELLS = {
    "state": np.repeat(STATES, 2).tolist(),
    "age": [0, 1] * 3,
    "people": [10, 30, 5, 5, 40, 10],
    "region": ["north"] * 4 + ["south"] * 2,
}


def model(df):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("state", 3):
        a = numpyro.sample("a", dist.Normal(0, 1))
    eta = a[df["state"]] + b * df["age"]
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=df["y"])
        numpyro.sample("way", dist.Categorical(logits=jnp.stack([eta, 0 * eta, -eta], -1)), obs=df["way"])


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"state": rng.choice(STATES, 40), "age": rng.integers(0, 2, 40)})
    df["y"] = rng.integers(0, 2, 40)
    df["way"] = rng.choice(["bus", "car", "walk"], 40)
    return gb.model(model, df).sample(draws=60, warmup=100, chains=2, seed=0)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_cells_are_weighed_by_columns_that_no_model_reads(run, kind):
    p = run.predict(kind(CELLS))
    expected, people = p.expected["y"].astype(float), np.array(CELLS["people"])
    for by in ("state", "region", np.array([1, 1, 2, 2, 2, 1])):
        values = np.array(CELLS[by]) if isinstance(by, str) else by
        found = p.to_frame("y", by=by, weights="people", expected=True)
        means, sds = [], []
        for group in np.unique(values):
            at = values == group
            x = expected[..., at] @ people[at] / people[at].sum()
            means.append(x.mean())
            sds.append(x.std(ddof=1))
        np.testing.assert_allclose(found["mean"], means, rtol=1e-5)
        np.testing.assert_allclose(found["sd"], sds, rtol=1e-5)
        named = found.index if kind is pd.DataFrame else found[by if isinstance(by, str) else "by"]
        assert list(named) == list(np.unique(values))
    whole = p.to_frame("y", weights="people", expected=True)
    np.testing.assert_allclose(whole["mean"], [(expected @ people / people.sum()).mean()], rtol=1e-5)
    plain = p.to_frame("y", average=True)
    np.testing.assert_allclose(plain["mean"], [p.draws["y"].mean()], rtol=1e-5)
    share = p.derive("total = sum(people * y) / sum(people)")
    np.testing.assert_allclose(share.values, p.draws["y"] @ people / people.sum(), rtol=1e-5)
    north = p.derive("up = sum(y * (region == 'north'))")
    np.testing.assert_allclose(north.values, p.draws["y"][..., :4].sum(-1))


def test_of_categories_they_are_probabilities_and_contrasts_have_them_too(run):
    cells = pd.DataFrame(CELLS)
    p = run.predict(cells)
    people = np.array(CELLS["people"])
    found = p.to_frame("way", by="region", weights="people")
    assert list(found.columns) == ["P(bus)", "P(car)", "P(walk)"] and list(found.index) == ["north", "south"]
    for region, row in found.iterrows():
        at = (cells.region == region).values
        np.testing.assert_allclose(row, people[at] @ p.probs["way"][at] / people[at].sum(), rtol=1e-4)
    old, young = (run.predict(cells, do={"age": v}) for v in (1, 0))
    pair = gb.contrast(old, young, site="y")
    more = pair.difference @ people / people.sum()
    np.testing.assert_allclose(pair.to_frame(weights="people")["mean"], [more.mean()], rtol=1e-4)
    assert list(pair.to_frame(by="region", weights="people").index) == ["north", "south"]


def test_what_averages_cannot_be(run):
    p = run.predict(pd.DataFrame(CELLS))
    with pytest.raises(OptionError, match="site= is one of y, way"):
        p.to_frame(by="region")
    with pytest.raises(UnknownNameError, match="did you mean 'region'"):
        p.to_frame("y", by="regio")
    for weights, told in (
        ("region", "'region' holds no numbers"),
        (np.ones(3), r"there are 6 rows"),
        (-np.ones(6), "0 or more"),
        ([0, 0, 1, 1, 1, 1], "above 0 in every group"),
    ):
        with pytest.raises(DataError, match=told):
            p.to_frame("y", by="state", weights=weights)
    with pytest.raises(DataError, match="'q' is one number"):
        p.derive("b + 0", name="q")
        p.to_frame("q", by="state")


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_rows_without_a_value_are_a_group(kind):
    """Texts ended in a ValueError, numbers in a mean of nothing."""
    d = pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0), "g": [*("ab" * 4), None]})
    if kind == "numbers":
        d["g"] = d.g.map({"a": 0.0, "b": 1.0})

    def model(d):
        b = numpyro.sample("b", dist.Normal(1.0, 0.1))
        numpyro.sample("y", dist.Normal(b * d.x, 1.0), obs=d.y)

    run = gb.model(model, d).sample(draws=50, chains=1, seed=0)
    table = run.predict().to_frame(by="g", expected=True)
    assert list(table.index) == (["a", "b", "missing"] if kind == "texts" else [0.0, 1.0, "missing"])
    np.testing.assert_allclose(table["mean"].iloc[2], 8.0 * run.draws["b"].mean(), rtol=1e-5)
    assert run.elpd(by="g").n_data_points == 3
