"""What people pass in: data frames, their columns, categories, labelled arrays."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from gibbsite.density.model.tables import as_arrays, plate_labels
from gibbsite.errors import DataError

Y = np.linspace(0.0, 2.0, 8)
COUNTIES = list("BCABCCAA")


def grouped(y, county, n=3):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("county", n):
        a = numpyro.sample("a", dist.Normal(mu, 1.0))
    with numpyro.plate("obs", len(y)):
        numpyro.sample("y", dist.Normal(a[county], 1.0), obs=y)


def with_table(df, n=3):
    grouped(df["y"] - 0.5 * df.floor, df.county, n)


CODES = np.array([ord(c) - ord("A") for c in COUNTIES])


@pytest.mark.parametrize(
    ("y", "county"),
    [
        (pd.Series(Y), pd.Series(COUNTIES, dtype="category")),
        (pd.Series(Y), pd.Categorical(COUNTIES).astype("category")),
        (pd.Series(Y, dtype="Float64"), pd.Series(COUNTIES, dtype="string")),
        (pd.Series(Y), pd.Series(COUNTIES)),
        (pd.Index(Y), np.array(COUNTIES)),
        (pl.Series(Y), pl.Series(COUNTIES)),
        (pl.Series(Y), pl.Series(COUNTIES, dtype=pl.Categorical)),
        (xr.DataArray(Y, dims="t"), xr.DataArray(CODES, dims="t")),
        (pd.Series(Y), pd.Series(COUNTIES, dtype="category").cat.codes),
    ],
    ids=lambda v: f"{type(v).__module__.split('.')[0]} {getattr(v, 'dtype', '')}",
)
def test_columns_are_arrays_and_categories_are_codes(y, county):
    if isinstance(county, pd.Categorical):
        county = pd.Series(county)
    model = gb.model(grouped, y, county)
    np.testing.assert_allclose(model.observed["y"], Y, rtol=1e-6)
    codes = np.asarray(model.args[1])
    known = model.labels.get("county", ("A", "B", "C"))
    assert [known[c] for c in codes] == COUNTIES
    state = {"mu": jnp.array(0.0), "a": jnp.zeros(3)}
    plain = gb.model(grouped, Y.astype(np.float32), CODES.astype(np.int32))
    assert model.conditional("a").kind == plain.conditional("a").kind
    np.testing.assert_allclose(model.density.log_joint(state), plain.density.log_joint(state), rtol=1e-5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, "structured"])
def test_a_table_as_one_argument(frame, tmp_path):
    floor = [0, 1, 0, 1, 0, 0, 1, 1]
    if frame == "structured":
        rows = list(zip(Y, floor, CODES, strict=True))
        df = np.array(rows, dtype=[("y", "f8"), ("floor", "i4"), ("county", "i4")])
    else:
        df = frame({"y": Y, "floor": floor, "county": COUNTIES})
    model = gb.model(with_table, df)
    np.testing.assert_allclose(model.observed["y"], Y - 0.5 * np.array(floor), rtol=1e-6)
    if frame == "structured":
        return
    run = model.sample(draws=5, warmup=5, chains=2)
    assert list(run.to_datatree()["posterior"]["county"].values) == ["A", "B", "C"]
    run.save(tmp_path / "run")
    assert list(gb.load(tmp_path / "run").to_datatree()["posterior"]["county"].values) == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pd.Series(pd.date_range("2020-01-01", periods=8)), "holds times.*days"),
        (pd.Series(["A", None] * 4), "4 missing values.*category of their own"),
        (pl.Series([[1.0]] * 8), "no number and no category"),
    ],
)
def test_columns_that_are_no_numbers(column, told):
    with pytest.raises(DataError, match=f"county.*{told}"):
        gb.model(grouped, Y, column)


def test_a_column_that_is_not_there():
    with pytest.raises(DataError, match=r"no column 'zz'; it has 'y'"):
        as_arrays(pd.DataFrame({"y": Y}), "df", {})["zz"]


def test_a_plate_is_labelled_only_without_doubt():
    labels = {"g": ("a", "b"), "h": ("c", "d"), "k": ("x", "y", "z")}
    assert plate_labels({"n": 2, "k": 3}, labels) == {"k": ("x", "y", "z")}
    assert plate_labels({"g": 2}, labels) == {"g": ("a", "b")}
