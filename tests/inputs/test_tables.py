"""What people pass in: data frames, their columns, categories, labelled arrays."""

import datetime
import re
import threading
from functools import partial

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from gibbsite.errors import ColumnError, DataError
from gibbsite.inputs.tables import Known, as_arrays, plate_labels
from numpyro.infer.reparam import LocScaleReparam
from scipy import stats

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
        (pd.Series(["A", None] * 4), "4 missing values.*category of their own"),
        (pd.Series([{}] * 8), "dict, which is no number and no category"),
        (pl.Series([[1.0]] * 8), "no number and no category"),
    ],
)
def test_columns_that_are_no_numbers(column, told):
    with pytest.raises(DataError, match=f"county.*{told}"):
        gb.model(grouped, Y, column)


DAYS = pd.date_range("2020-01-01", periods=8)


def trend(y, t):
    numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal(0.0, 1.0)) * t, 1.0), obs=y)


@pytest.mark.parametrize(
    "times",
    [
        pd.Series(DAYS), DAYS, pd.Series(DAYS.tz_localize("Europe/Berlin")), np.array(DAYS), list(DAYS),
        [d.date() for d in DAYS], pl.Series([d.date() for d in DAYS]), pl.Series(list(DAYS)),
        pd.Series([d.date() for d in DAYS], dtype=object),
    ],
    ids=lambda v: f"{type(v).__module__.split('.')[0]} {getattr(v, 'dtype', '')}",
)  # fmt: skip
def test_times_are_days_since_the_first(times):
    known = Known()
    np.testing.assert_allclose(as_arrays(times, "t", known), np.arange(8.0), atol=1e-9)
    assert re.match(r"days since (2020-01-01|2019-12-31T23)", known.units["t"])


def test_the_unit_of_times_is_said_and_what_is_missing_is_nan():
    (note,) = gb.model(trend, Y, pd.Series(DAYS)).notes
    assert note == "t holds times: the model gets days since 2020-01-01"
    known = Known()
    np.testing.assert_array_equal(as_arrays([DAYS[2], None, DAYS[0]], "t", known), [2, np.nan, 0])
    np.testing.assert_array_equal(as_arrays(pd.Series(DAYS - DAYS[1]), "d", known), np.arange(-1.0, 7))
    assert known.units["d"] == "days"
    frame = pd.DataFrame({"y": Y, "when": DAYS})
    assert not gb.model(lambda df: trend(df.y, 1.0), frame).notes  # nothing reads them


def test_lists_are_data():
    """Numbers, and texts that repeat; what may be a setting stays what it is."""
    known = Known()
    for given, want in (
        ([28, 8, -3], [28, 8, -3]),
        ([1.5, None, 2], [1.5, np.nan, 2]),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ([True, False], [True, False]),
        (list("abca"), [0, 1, 2, 0]),
    ):
        found = as_arrays(given, "v", known)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, want)
    assert as_arrays([1, 2], "v", known).dtype.kind == "i"
    for left in (["mu", "tau"], [[1, 2], [3]], [], [print], (3, 4), [1, "a"]):
        assert as_arrays(left, "v", known) is left


def ragged(sizes, y):
    parts = [numpyro.sample(f"a[{i}]", dist.Normal(0, 1).expand([n])).sum() for i, n in enumerate(sizes)]
    numpyro.sample("y", dist.Normal(sum(parts), 1.0), obs=y)


def schools(data):
    with numpyro.plate("school", data["J"]):
        theta = numpyro.sample("theta", dist.Normal(0.0, 5.0))
        numpyro.sample("y", dist.Normal(theta, data["sigma"]), obs=data["y"])


def test_models_with_lists():
    assert gb.model(ragged, [2, 3], list(Y)).sites["a[1]"].shape == (3,)
    data = {"J": 3, "y": [28, 8, -3], "sigma": [15.0, 10.0, 16.0]}
    assert gb.model(schools, data).conditional("theta").kind == "conjugate"


def matrix(X, y):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([X.shape[1]]))
    numpyro.sample("y", dist.Normal((X - 1.0) @ b + X[:, 0] + jnp.dot(X, b), 1.0), obs=y)


def test_a_table_is_a_matrix_where_one_is_wanted():
    frame = pd.DataFrame({"p": Y, "q": CODES})
    state = {"b": jnp.array([0.3, -0.2])}
    plain = gb.model(matrix, frame.to_numpy(), Y).density.log_joint(state)
    for table in (frame, pl.DataFrame(frame.to_dict("list"))):
        np.testing.assert_allclose(gb.model(matrix, table, Y).density.log_joint(state), plain, rtol=1e-5)


def named_by_numbers(df, y):
    numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal(0.0, 1.0)) * df[1] + df[0], 1.0), obs=y)


def named_in_levels(df, y):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(b * df["a"]["x"] + df["b", "x"] + 0.0 * df["a"].z, 1.0), obs=y)


@pytest.mark.parametrize(
    ("names", "fn"),
    [([1, 0, 7], named_by_numbers), ([("a", "x"), ("b", "x"), ("a", "z")], named_in_levels)],
    ids=["numbers", "levels"],
)
def test_names_of_columns_may_be_numbers_or_several_levels(names, fn):
    columns = np.stack([Y, CODES, Y**2], axis=1)
    frame = pd.DataFrame(
        columns, columns=pd.MultiIndex.from_tuples(names) if fn is named_in_levels else names
    )
    model, plain = gb.model(fn, frame, Y), gb.model(trend, Y - CODES, Y)
    state = {"b": jnp.array(0.3)}
    np.testing.assert_allclose(model.density.log_joint(state), plain.density.log_joint(state), rtol=1e-5)
    assert model.args[0].shape == (8, 3) and list(model.args[0]) == names


def test_lazy_frames_sparse_columns_and_periods():
    lazy = pl.DataFrame({"y": Y, "x": CODES}).lazy()
    np.testing.assert_array_equal(as_arrays(lazy, "df", Known())["x"], CODES)
    assert as_arrays([lazy], "dfs", Known())[0].columns == ("y", "x")
    frame = pd.DataFrame(
        {"s": pd.arrays.SparseArray(CODES), "p": pd.period_range("2020-01", periods=8, freq="D")}
    )
    known = Known()
    table = as_arrays(frame, "df", known)
    np.testing.assert_array_equal(table.s, CODES)
    np.testing.assert_array_equal(table.p, np.arange(8.0))
    assert known.units == {"df['p']": "days since 2020-01-01"}


def test_rows_of_one_label_in_another_order_are_noted():
    y, x = pd.Series(Y), pd.Series(Y, index=range(8)[::-1])
    (note,) = gb.model(trend, y, x).notes
    assert re.search(r"t and y have the same row labels in another order.*`y.loc\[t.index\]`", note)
    for other in (x.loc[y.index], x.reset_index(drop=True), x.set_axis(range(8, 16))):
        assert not gb.model(trend, y, other).notes


def test_columns_that_nothing_reads_may_hold_anything():
    frame = pd.DataFrame({"y": Y, "note": ["a", None] * 4, "thing": [{}] * 8})
    gb.model(lambda df: trend(df.y, 1.0), frame)
    with pytest.raises(DataError, match=r"df\['thing'\] holds dict") as caught:
        gb.model(lambda df: trend(df.y, df.thing), frame)
    assert caught.value.place is not None


def effects(df):
    with numpyro.plate("g", 2):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a[df.g] + df.x, 1.0), obs=df.y)


def test_rows_with_anything_missing_are_dropped():
    y, x = Y.copy(), np.arange(8.0)
    y[0], x[3] = np.nan, np.nan
    g = ["a", None, "b", "a", "b", "b", "a", "a"]
    frame = pd.DataFrame({"y": y, "x": x, "g": g, "unread": [np.nan] * 8})
    model, kept = gb.model(effects, frame, missing="drop"), frame.dropna(subset=["y", "x", "g"])
    state = {"a": jnp.array([0.3, -0.2])}
    whole = gb.model(effects, kept).density.log_joint(state)
    assert len(model.observed["y"]) == len(kept) == 5
    np.testing.assert_allclose(model.density.log_joint(state), whole, rtol=1e-6)
    with pytest.raises(DataError, match=r"'df.g' has 1 missing values.*--missing drop") as caught:
        gb.model(effects, frame)
    assert caught.value.entry == "missing-values"


def test_texts_are_no_amounts():
    with pytest.raises(DataError, match=r"data of 'y' .*are categories \('0.0'.*pd.to_numeric\(y\)"):
        gb.model(trend, pd.Series(Y).astype(str), 1.0)
    with pytest.raises(DataError, match=r"t holds 3 categories .* pick it, `a\[t\]`; with an order"):
        gb.model(trend, Y, pd.Series(COUNTIES))


def test_decimals_of_a_database_are_numbers():
    def priced(df):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * df["price"], 1.0), obs=df["y"])

    frame = pl.DataFrame({"price": [1.5, 2.25, 0.125], "y": [1.0, 2.0, 0.0]})
    decimals = frame.with_columns(pl.col("price").cast(pl.Decimal(10, 3)))
    state = {"b": jnp.asarray(0.7)}
    given = [float(gb.model(priced, f).density.log_joint(state)) for f in (frame, decimals)]
    assert given[0] == given[1]


COUNTED = {
    "Poisson": lambda p: dist.Poisson(9 * p),
    "Geometric": lambda p: dist.Geometric(p),
    "NegativeBinomial2": lambda p: dist.NegativeBinomial2(9 * p, 3.0),
    "Binomial": lambda p: dist.Binomial(20, p),
    "BetaBinomial": lambda p: dist.BetaBinomial(p, 1.0, 20),
}


@pytest.mark.parametrize("family", COUNTED)
@pytest.mark.parametrize("made", [lambda n: pd.Series(n).astype(str), lambda n: pd.Series(pd.Categorical(n))])
def test_categories_are_no_counts(family, made):
    """Codes 0, 1, … in place of 3, 5, … were the data of a distribution of counts, in silence."""

    def counts(y):
        numpyro.sample("y", COUNTED[family](numpyro.sample("p", dist.Beta(1, 1))), obs=y)

    with pytest.raises(
        DataError, match=rf"data of 'y' .*are categories \('3', .*{family}.*of counts.*to_numeric"
    ):
        gb.model(counts, made([3, 5, 9, 5]))
    assert gb.model(counts, pd.Series([3, 5, 9, 5])).observed["y"].tolist() == [3, 5, 9, 5]


AMOUNTS = {
    "added": lambda r, x: dist.Normal(r + x, 1.0),
    "squared": lambda r, x: dist.Normal(r * x**2, 1.0),
    "standardised": lambda r, x: dist.Normal(r * (x - x.mean()) / x.std(), 1.0),
    "a scale": lambda r, x: dist.Normal(r, x + 1),
    "an exposure": lambda r, x: dist.Normal(jnp.exp(r) * (x + 1), 1.0),
}
PICKED = {
    "an index": lambda a, x: a[x],
    "of a pair": lambda a, x: a[3 * x + x[::-1]],
    "one more": lambda a, x: a[x + 1],
    "compared": lambda a, x: jnp.where(x == 1, a[0], a[1]),
    "one-hot": lambda a, x: jnp.eye(3)[x] @ a[:3] + (x[:, None] == jnp.arange(3)) @ a[:3],
    "counted": lambda a, x: a[0] * jnp.bincount(x, length=3)[x],
    "a table of whole numbers": lambda a, x: a[0] * jnp.array([4, 9, 2])[x],
}
CODED = pd.Series(["7", "1", "3", "1", "7", "3", "3", "1"])


@pytest.mark.parametrize("use", AMOUNTS)
def test_codes_that_are_computed_with_are_refused_or_told(use):
    """Of texts, 0, 1, … stood for 1, 3, 7; those that were given an order may be steps of it."""

    def amounts(y, x):
        r = numpyro.sample("r", dist.Normal(0, 5))
        numpyro.sample("y", AMOUNTS[use](r, x), obs=y)

    for coded in (CODED, CODED.astype("category"), CODED.to_list()):
        with pytest.raises(DataError, match=r"x holds 3 .*`a\[x\]`; as .*`pd.to_numeric\(x\)`") as caught:
            gb.model(amounts, Y[:8], coded)
        assert caught.value.entry == "no-numbers"
    ordered = pd.Series(pd.Categorical(CODED, ["7", "1", "3"], ordered=True))
    (note,) = (n for n in gb.model(amounts, Y[:8], ordered).notes if "categories" in n)
    assert "x holds 3 categories" in note and "pd.to_numeric(x)" in note and "`a[x]`" in note
    assert not [n for n in gb.model(amounts, Y[:8], CODED.astype(int)).notes if "categories" in n]


@pytest.mark.parametrize("use", PICKED)
def test_codes_that_pick_are_no_amounts(use):
    def picks(y, x):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([9]))
        numpyro.sample("y", dist.Normal(PICKED[use](a, x), 1.0), obs=y)

    named = CODED.map({"7": "seven", "1": "one", "3": "three"})
    assert not [n for n in gb.model(picks, Y[:8], named).notes if "categories" in n]


LEVEL = "b"


def _alias(df):
    kind = df["kind"]
    return kind == "b"


def _over(df, name):
    return sum(k * (df["kind"] == text) for text, k in (("a", 0), (name, 1)))


COMPARED = {
    "a literal": lambda df, name: df["kind"] == "b",
    "a variable": lambda df, name: df["kind"] == name,
    "a global": lambda df, name: df.kind == LEVEL,
    "the other way round": lambda df, name: name == df.kind,
    "not": lambda df, name: ~(df["kind"] != name),
    "a name of a column": lambda df, name: df[["kind"][0]] == name,
    "made up": lambda df, name: df["kind"] == f"{name}",
    "an alias": lambda df, name: _alias(df),
    "in a loop": _over,
    "elsewhere": lambda df, name: (lambda column, text: column == text)(df["kind"], name),
    "NumPy's text": lambda df, name: df["kind"] == np.str_(name),
}
KINDS = pd.DataFrame({"kind": list("abcabcba"), "when": pd.date_range("2023-12-30", periods=8), "y": Y[:8]})


@pytest.mark.parametrize("use", COMPARED)
def test_columns_are_compared_with_texts_however_they_are_written(use):
    """But for a literal beside the column they were no text's, in silence: `b` had its prior."""

    def model(df, name):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * COMPARED[use](df, name), 1.0), obs=df["y"])

    state = {"b": jnp.asarray(0.7)}
    exact = stats.norm(0, 1).logpdf(0.7) + stats.norm(0.7 * (KINDS.kind == "b"), 1).logpdf(KINDS.y).sum()
    np.testing.assert_allclose(gb.model(model, KINDS, "b").density.log_joint(state), exact, rtol=1e-5)


DATED = {
    "a text": lambda df: df["when"] == "2024-01-01",
    "a moment": lambda df: df.when == pd.Timestamp("2024-01-01"),
    "later": lambda df: df["when"] >= "2024-01-01",
    "before a date": lambda df: df["when"] < datetime.date(2024, 1, 1),
}


@pytest.mark.parametrize("use", DATED)
def test_dates_are_compared_with_dates(use):
    def model(df):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * DATED[use](df), 1.0), obs=df["y"])

    there = KINDS.when < pd.Timestamp("2024-01-01") if "before" in use else DATED[use](KINDS)
    exact = stats.norm(0, 1).logpdf(0.7) + stats.norm(0.7 * there, 1).logpdf(KINDS.y).sum()
    state = {"b": jnp.asarray(0.7)}
    np.testing.assert_allclose(gb.model(model, KINDS).density.log_joint(state), exact, rtol=1e-5)


REFUSED = {
    "a level that is not there": (
        lambda df: df["kind"] == "".join("zz"),
        "none of them is 'zz'; it has 'a'",
    ),
    "an order": (lambda df: df["kind"] >= "".join("b"), "1 for 'b', so write `>= 1`"),
    "an order of a literal": (lambda df: df["kind"] >= "b", "1 for 'b', so write `>= 1`"),
    "an element": (lambda df: df["kind"][2] == "".join("b"), "compared with the text 'b'"),
    "numbers": (lambda df: df["y"] == "".join("1"), "compared with the text '1'"),
    "no date": (lambda df: df["when"] == "".join("soon"), "'soon' is none"),
    "several": (lambda df: df["kind"] == ["a", "b"], "compared with texts"),
    "one of several": (
        lambda df: df["kind"] in ("a", "b"),
        r"compare with each, `\(df\['kind'\] == 'a'\) \|",
    ),
    "a date of numbers": (lambda df: df["y"] > pd.Timestamp("2024-01-01"), "compared with the date"),
}


@pytest.mark.parametrize("use", REFUSED)
def test_comparisons_that_are_never_true_are_refused(use):
    def model(df):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * REFUSED[use][0](df), 1.0), obs=df["y"])

    with pytest.raises(DataError, match=REFUSED[use][1]):
        gb.model(model, KINDS)
    assert (jnp.arange(2) == "text") is False  # JAX is as it was


def test_categories_that_are_numbers_are_no_numbers():
    """`year == 2003` was never true; codes stay codes."""
    frame = pd.DataFrame({"year": pd.Categorical([2003, 2001, 2002, 2003]), "y": Y[:4]})

    def model(df, year):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * (df["year"] == year), 1.0), obs=df["y"])

    with pytest.raises(DataError, match=r"compared with 2003: .* write `== '2003'`"):
        gb.model(model, frame, year=2003)
    exact = stats.norm(0, 1).logpdf(0.7) + stats.norm([0.7, 0, 0, 0.7], 1).logpdf(frame.y).sum()
    for year in ("2003", 2):
        found = gb.model(model, frame, year=year).density.log_joint({"b": jnp.asarray(0.7)})
        np.testing.assert_allclose(found, exact, rtol=1e-5)

    def later(df):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * (df["year"] > 2001.5), 1.0), obs=df["y"])

    with pytest.raises(DataError, match=r"codes 0, 1, …, and is compared with 2001.5: numbers have to be"):
        gb.model(later, frame)
    assert gb.model(later, frame.astype({"year": int})).observed["y"].shape == (4,)

    def one_of(df):
        b = numpyro.sample("b", dist.Normal(0, 1))
        late = jnp.isin(df["year"], jnp.array([2002, 2003])) + jnp.maximum(df["year"], 2)
        numpyro.sample("y", dist.Normal(b * late, 1.0), obs=df["y"])

    with pytest.raises(DataError, match=r"codes 0, 1, …, and meets 2002"):
        gb.model(one_of, frame)
    with pytest.raises(DataError, match="compared with 2004"):  # of no category, and no code
        gb.model(model, frame, year=2004)
    small = frame.assign(year=pd.Categorical([1, 2, 3, 2]))

    def second(df, kind):
        b = numpyro.sample("b", dist.Normal(0, 1))
        hit = jnp.isin(df["year"], jnp.array([2])) if kind == "one" else jax.nn.one_hot(df["year"], 3)[:, 2]
        numpyro.sample("y", dist.Normal(b * hit, 1.0), obs=df["y"])

    (note,) = gb.model(second, small, "one").notes
    assert "compared with 2, which is the code of '3'" in note
    assert not gb.model(second, small, "all").notes
    assert gb.model(later, frame.assign(year=pd.Categorical(list("ABBA")))).observed["y"].shape == (4,)


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16", "uint32", "uint64", "int32", "int64"])
@pytest.mark.parametrize("given", [np.asarray, pd.Series, jnp.asarray, lambda x: pd.DataFrame({"x": x})])
def test_narrow_whole_numbers_do_not_wrap(kind, given):
    """`-x` of `uint8` was 256 - x, in silence."""
    x = np.array([1, 2, 100, 127], kind)

    def model(x, y):
        x = x["x"] if hasattr(x, "columns") else x
        b = numpyro.sample("b", dist.Normal(0, 1))
        mean = -x * b + jnp.square(x) + np.prod(np.asarray(x)[:2]) + abs(-x)
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    if given is jnp.asarray and kind.startswith("uint") and kind not in ("uint8", "uint16"):
        pytest.skip("JAX's own, which may be a key")
    density = gb.model(model, given(x), Y[:4]).density
    wide = x.astype(float)
    exact = stats.norm(0, 1).logpdf(0.7) + stats.norm(0.3 * wide + wide**2 + 2, 1).logpdf(Y[:4]).sum()
    np.testing.assert_allclose(density.log_joint({"b": jnp.asarray(0.7)}), exact, rtol=1e-4)


MEETING = {
    "one vector": lambda df, s: s[df["one"]] - s[df["other"]],
    "moved": lambda df, s: (2.0 * s)[df.one] - (2.0 * s)[df.other[::-1]],
    "compared": lambda df, s: s[0] * (df.one == df.other),
    "days": lambda df, s: s[0] * (df["end"] - df["start"]),
    "later": lambda df, s: s[0] * (df["end"] > df["start"]),
}


@pytest.mark.parametrize("use", MEETING)
def test_columns_that_meet_are_numbered_alike(use):
    """Codes are each column's own, as days are: they met in silence."""
    start = pd.Series(pd.date_range("2024-01-01", periods=8))
    frame = pd.DataFrame(
        {
            "one": list("abcdabcd"),
            "other": list("bcdbcdbc"),
            "start": start,
            "end": start + pd.Timedelta(days=3),
        }
    ).assign(y=Y[:8])

    def model(df):
        s = numpyro.sample("s", dist.Normal(0, 1).expand([4]))
        numpyro.sample("y", dist.Normal(MEETING[use](df, s), 1.0), obs=df["y"])

    told = "counted from days of their own" if use in ("days", "later") else "numbered each by its own"
    with pytest.raises(DataError, match=told):
        gb.model(model, frame)
    every = pd.CategoricalDtype(list("abcd"))
    same = frame.assign(
        one=frame.one.astype(every), other=frame.other.astype(every), end=start.sample(8).values
    )
    assert gb.model(model, same).observed["y"].shape == (8,)

    def apart(df):
        s = numpyro.sample("s", dist.Normal(0, 1).expand([4]))
        t = numpyro.sample("t", dist.Normal(0, 1).expand([3, 4]))
        numpyro.sample("y", dist.Normal(s[df["one"]] + t[df["other"], df["one"]], 1.0), obs=df["y"])

    assert gb.model(apart, frame).observed["y"].shape == (8,)


@pytest.mark.parametrize(
    ("other", "fits"), [("abca", True), ("abab", True), ("bdab", False), ("xyzx", False), ("bcbc", False)]
)
def test_every_code_of_two_columns_that_meet_means_one_thing(other, fits):
    """A category that only one column has stood for that of the other with its number: `d` for `c`."""
    frame = pd.DataFrame({"one": list("abcb"), "other": list(other)}).assign(y=Y[:4])

    def picked(df):
        s = numpyro.sample("s", dist.Normal(0, 1).expand([4]))
        numpyro.sample("y", dist.Normal(s[df["one"]] - s[df["other"]], 1.0), obs=df["y"])

    def equal(df):
        s = numpyro.sample("s", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(s * (df.one == df.other), 1.0), obs=df["y"])

    def of_constants(df):
        """Two numbers that stand in the model are no vector of teams."""
        s, by = numpyro.sample("s", dist.Normal(0, 1)), jnp.array([0.0, 1.0, 2.0, 3.0])
        numpyro.sample("y", dist.Normal(s * by[df.one] * by[df.other], 1.0), obs=df["y"])

    for model in (picked, equal):
        if fits:
            assert gb.model(model, frame).observed["y"].shape == (4,)
        else:
            with pytest.raises(DataError, match="numbered each by its own"):
                gb.model(model, frame)
    if other != "bcbc":  # categories that both have, with other numbers, meet wherever it is
        assert gb.model(of_constants, frame).observed["y"].shape == (4,)


def test_rows_of_another_table_are_picked_by_their_own_names():
    """Codes are in the order of the alphabet, and rows as they stand."""
    rows = pd.DataFrame({"county": list("XYZXYZXY"), "y": Y[:8]})
    counties = pd.DataFrame({"county": list("ZXY"), "u": [3.0, 1.0, 2.0]})

    def model(df, c):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * c["u"][df["county"]], 1.0), obs=df["y"])

    told = r"'X' is 0, and row 0 of c is 'Z': .*pd.Categorical\(df\['county'\], c\['county'\]\)"
    with pytest.raises(DataError, match=told):
        gb.model(model, rows, counties)
    exact = stats.norm(0, 1).logpdf(0.7)
    exact += stats.norm(0.7 * rows.county.map({"X": 1, "Y": 2, "Z": 3}), 1).logpdf(rows.y).sum()
    state = {"b": jnp.asarray(0.7)}
    alike = rows.assign(county=pd.Categorical(rows.county, counties.county))
    for one, other in ((rows, counties.sort_values("county")), (alike, counties)):
        np.testing.assert_allclose(gb.model(model, one, other).density.log_joint(state), exact, rtol=1e-5)


ROWS_OF = {
    "drawn by": lambda b, c: numpyro.sample("u", dist.Normal(b * c["u"], 0.1)),
    "made of": lambda b, c: b * c["u"] + numpyro.sample("u", dist.Normal(0, 0.1)),
}


@pytest.mark.parametrize("use", ROWS_OF)
def test_what_is_made_of_rows_is_picked_by_their_names(use):
    """A hierarchy in two tables: effects were drawn by other groups' covariates, in silence."""
    rows = pd.DataFrame({"county": list("XYZXYZXY"), "y": Y[:8]})
    counties = pd.DataFrame({"county": list("ZXY"), "u": [3.0, 1.0, 2.0]})

    def model(df, c):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("counties", c["county"]):
            u = ROWS_OF[use](b, c)
        numpyro.sample("y", dist.Normal(u[df["county"]], 1.0), obs=df["y"])

    with pytest.raises(DataError, match=r"'X' is 0, and row 0 of c is 'Z'"):
        gb.model(model, rows, counties)
    assert gb.model(model, rows, counties.sort_values("county")).observed["y"].shape == (8,)

    by_number = {"X": 11, "Y": 12, "Z": 13}
    numbers = rows.assign(county=pd.Categorical(rows.county.map(by_number)))
    numbered = counties.assign(county=counties.county.map(by_number))

    def of_numbers(df, c):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("counties", len(c)):
            u = ROWS_OF[use](b, c)
        numpyro.sample("y", dist.Normal(u[df["county"]], 1.0), obs=df["y"])

    with pytest.raises(DataError, match=r"'11' is 0, and row 0 of c is '13'"):
        gb.model(of_numbers, numbers, numbered)
    assert gb.model(of_numbers, numbers, numbered.sort_values("county")).observed["y"].shape == (8,)

    rows_in_order = counties.sort_values("county").assign(town=["Z", "X", "Y"], rank=[3, 1, 2])
    assert gb.model(model, rows, rows_in_order).observed["y"].shape == (8,)  # one column names them rightly
    rows_in_order = numbered.sort_values("county").assign(rank=[13, 11, 12])
    assert gb.model(of_numbers, numbers, rows_in_order).observed["y"].shape == (8,)

    def apart(df, c):
        b = numpyro.sample("b", dist.Normal(0, 1))
        u = numpyro.sample("u", dist.Normal(b, 0.1).expand([3]))
        numpyro.sample("v", dist.Normal(b, 0.1), obs=c["u"])
        numpyro.sample("y", dist.Normal(u[df["county"]], 1.0), obs=df["y"])

    assert gb.model(apart, rows, counties).observed["y"].shape == (8,)


def test_coordinates_in_another_order_are_told():
    def model(x, y):
        numpyro.sample("y", dist.Normal(x * numpyro.sample("b", dist.Normal(0, 1)), 1.0), obs=y)

    x = xr.DataArray([1.0, 2.0, 3.0], dims="site", coords={"site": list("abc")})
    y = xr.DataArray([1.0, 2.0, 3.0], dims="site", coords={"site": list("cab")})
    (note,) = gb.model(model, x, y).notes
    assert "have the same site in another order" in note
    assert not gb.model(model, x, y.sel(site=x.site)).notes


def test_what_is_missing_and_compared_is_told():
    x = np.array([1.0, np.nan, 3.0, 4.0])

    def model(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * (x > 2), 1.0), obs=y)

    assert any("x holds 1 NaN, and is compared" in n for n in gb.model(model, x, Y[:4]).notes)

    def filled(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * jnp.where(jnp.isnan(x), 0.0, x), 1.0), obs=y)

    assert not any("is compared" in n for n in gb.model(filled, x, Y[:4]).notes)


def test_an_order_that_nobody_gave_is_refused():
    def model(y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.OrderedLogistic(b * jnp.ones(len(y)), jnp.array([-1.0, 1.0])), obs=y)

    texts = pd.Series(["low", "high", "medium", "low"])
    with pytest.raises(DataError, match="that of the alphabet: 'high' < 'low' < 'medium'; `pd") as caught:
        gb.model(model, texts)
    assert caught.value.entry == "no-numbers"
    ordered = pd.Series(pd.Categorical(texts, ["low", "medium", "high"], ordered=True))
    numbers = pd.Series(["1", "3", "2"])
    for y in (ordered, numbers):
        assert not gb.model(model, y).notes
    with pytest.raises(DataError, match="'10' < '8' < '9'"):
        gb.model(model, pd.Series(["8", "9", "10"]))


def test_steps_in_the_order_of_the_alphabet_are_told():
    months = pd.Series(["Jan", "Feb", "Mar", "Apr"] * 2)

    def walk(month, y):
        level = numpyro.sample("level", dist.GaussianRandomWalk(1.0, 4))
        numpyro.sample("y", dist.Normal(level[month], 1.0), obs=y)

    def groups(month, y):
        level = numpyro.sample("level", dist.Normal(0, 1).expand([4]))
        numpyro.sample("y", dist.Normal(level[month], 1.0), obs=y)

    (note,) = gb.model(walk, months, Y[:8]).notes
    assert "month picks steps of level" in note and "'Apr', 'Feb', 'Jan'" in note
    ordered = pd.Series(pd.Categorical(months, ["Jan", "Feb", "Mar", "Apr"]))
    assert not gb.model(walk, ordered, Y[:8]).notes and not gb.model(groups, months, Y[:8]).notes


def test_one_answer_alone_is_no_code():
    def model(y):
        numpyro.sample("y", dist.Bernoulli(numpyro.sample("p", dist.Beta(1, 1))), obs=y)

    with pytest.raises(DataError, match=r"are all 'yes', .*write `1 \* \(y == 'yes'\)`"):
        gb.model(model, pd.Series(["yes"] * 4))


def test_categories_are_answers():
    """No and yes as trials of one, and any as categories, ordered or not."""

    def answers(y, kind):
        p = numpyro.sample("p", dist.Beta(1, 1))
        one = {"trial": dist.Binomial(1, p), "yes": dist.Bernoulli(p)}
        three = {
            "some": dist.Categorical(jnp.ones(3) / 3),
            "order": dist.OrderedLogistic(p, jnp.array([0.0, 1.0])),
        }
        numpyro.sample("y", (one | three)[kind], obs=y)

    for kind, y in (("trial", "no yes no"), ("yes", "no yes no"), ("some", "a b c"), ("order", "1 2 3")):
        assert gb.model(answers, pd.Series(y.split()), kind).observed["y"].max() == len({*y.split()}) - 1


def test_a_column_that_is_not_there():
    with pytest.raises(DataError, match=r"no column 'zz'; it has 'y'"):
        as_arrays(pd.DataFrame({"y": Y}), "df", Known())["zz"]


def test_a_column_that_is_called_as_the_table_turned_over():
    def model(t):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1.0), obs=t.T)

    with pytest.raises(gb.GibbsiteError, match=r"its column 'T' is table\['T'\]"):
        gb.model(model, pd.DataFrame({"T": [1.0, 2.0], "x": [3.0, 4.0]}))


def test_a_plate_is_labelled_only_without_doubt():
    labels = {"g": ("a", "b"), "h": ("c", "d"), "k": ("x", "y", "z")}
    assert plate_labels({"n": 2, "k": 3}, labels) == {"k": ("x", "y", "z")}
    assert plate_labels({"g": 2}, labels) == {"g": ("a", "b")}


SHOPS = pd.DataFrame({"shop": ["b", "a", "c", "a", "b", "c"], "kind": list("pqpqpq"), "y": np.arange(6.0)})


def by_words(df):
    with numpyro.plate("shop", df.shop):
        a = numpyro.sample("a", dist.Normal(0, 1))

    def private(table):
        return (df.kind == "q") & ("q" == table["kind"])  # noqa: SIM300 (either side)

    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([df.shop.nunique() + len(gb.levels(df.kind))]))
    with numpyro.plate("again", size=len(df.shop.cat.categories)):
        numpyro.sample("b", dist.Normal(0, 1))
    numpyro.deterministic("private", private(df) * 1.0)
    numpyro.sample("y", dist.Normal(a[df.shop] + slope[0] * (df.kind == "q"), 1), obs=df.y)


def test_categories_are_asked_for_by_their_words():
    model = gb.model(by_words, SHOPS)
    sizes = {n: s.shape for n, s in model.sites.items()}
    assert sizes == {"a": (3,), "slope": (5,), "b": (3,), "private": (6,), "y": (6,)}
    state = {n: np.zeros(s) for n, s in sizes.items() if n in ("a", "slope", "b")}
    latents = {n: v.astype(np.float32) for n, v in state.items()}
    private = model.density.evaluator(latents).full(model.density.outputs["deterministic"]["private"])
    np.testing.assert_array_equal(private, [0, 1, 0, 1, 0, 1])
    assert model.plate_labels["shop"] == ("a", "b", "c")
    # the source, and the function that others hold, are as they were
    assert 'df.kind == "q"' in model.source and by_words.__code__ is not model.fn.__code__
    # other data mean other codes: the words are read anew
    other = gb.model(model, SHOPS.assign(kind=list("qaqaqa"), shop="a"), missing=None)
    assert other.sites["a"].shape == (1,) and other.sites["slope"].shape == (3,)


DOSES = pd.DataFrame(
    {"shop": pd.Categorical(list("bacabc")), "dose": pd.Categorical([1, 5, 20] * 2), "y": np.arange(6.0)}
)


def test_categories_answer_as_an_index_of_pandas_does():
    def by_index(df):
        shops, doses = df["shop"].cat.categories, df["dose"].cat.categories
        own = DOSES["shop"].cat.categories
        for index in (shops, own):
            assert (index.size, index.shape, index.ndim, len(index)) == (3, (3,), 1, 3)
            assert index.tolist() == index.to_list() == list(index) == [*index.values] == ["a", "b", "c"]
            assert index.get_loc("b") == 1 and "c" in index and "d" not in index
            assert index[0] == "a" and list(index[1:]) == list(index[index != "a"]) == ["b", "c"]
            assert index.get_indexer(["c", "x"]).tolist() == [2, -1]
            assert (index == "b").tolist() == index.isin(["b"]).tolist() == [False, True, False]
        assert doses.get_loc(20) == doses.get_loc(20.0) == 2 and 5 in doses
        np.testing.assert_array_equal(doses.astype(float), [1.0, 5.0, 20.0])
        assert not hasattr(shops, "groupby")
        with numpyro.plate("shop", shops.size):
            a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a[df["shop"]] - a[shops.get_loc("b")], 1), obs=df["y"])

    assert gb.model(by_index, DOSES).sites["a"].shape == (3,)


@pytest.mark.parametrize(
    ("asked", "kind", "told"),
    [
        (
            lambda c: c.cat.categories.str.upper(),
            ColumnError,
            r"categories of df\['shop'\] have no 'str' in a m",
        ),
        (
            lambda c: c.cat.remove_unused_categories(),
            ColumnError,
            r"df\['shop'\] have no 'cat.remove_unused_c",
        ),
        (lambda c: c.cat.categories.get_loc("x"), DataError, r"of df\['shop'\] is 'x'; it has 'a', 'b', 'c'"),
    ],
)
def test_what_categories_do_not_have(asked, kind, told):
    def unknown(df):
        asked(df["shop"])
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=df["y"])

    with pytest.raises(kind, match=told) as caught:
        gb.model(unknown, DOSES)
    assert caught.value.place is not None


class Held:
    def model(self, df):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(slope * (df.kind == "q"), 1), obs=df.y)


def test_methods_are_asked_in_words_too():
    model = gb.model(Held().model, SHOPS)
    mean = model.density.evaluator({"slope": np.float32(2)}).full(
        model.density.outputs["parameters"]["y"]["loc"]
    )
    np.testing.assert_array_equal(mean, [0, 2, 0, 2, 0, 2])


def test_a_category_that_there_is_not_is_refused_by_name():
    def model(df):
        numpyro.sample(
            "y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)) * (df.kind == "r"), 1), obs=df.y
        )

    with pytest.raises(gb.GibbsiteError, match="none of them is 'r'; it has 'p', 'q'"):
        gb.model(model, SHOPS)


@pytest.mark.slow
def test_new_categories_of_a_plate_by_its_column_are_predicted():
    run = gb.model(by_words, SHOPS).sample(draws=20, warmup=20, chains=1)
    found = run.predict(SHOPS.assign(shop=["b", "z", "c", "a", "b", "c"]).drop(columns="y"))
    assert found.draws["y"].shape == (1, 20, 6) and "3 shop known, 1 new" in str(found.note)


def test_arrays_of_pandas_are_columns():
    def model(g, y):
        with numpyro.plate("g", 3):
            a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a[g], 1), obs=y)

    labels, y = pd.Series(list("abca"), dtype="category"), pd.array([1.0, 2.0, 3.0, 4.0])
    made = gb.model(model, labels.values, y)
    assert made.labels["g"] == ("a", "b", "c") == gb.levels(labels.values)
    np.testing.assert_array_equal(made.observed["y"], [1, 2, 3, 4])
    assert gb.model(model, pd.array([0, 1, 2, 1], dtype="Int64"), y).sites["a"].shape == (3,)


def of_numbers(y):
    p = numpyro.sample("p", dist.Dirichlet(np.ones(3, np.float32)))
    numpyro.sample("y", dist.Categorical(p), obs=y)


def of_amounts(y):
    numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0.0, 1.0)), 1.0), obs=y)


def test_types_of_numbers_that_no_distribution_takes_are_named():
    with pytest.raises(DataError, match=r"are float32, and Categorical takes whole numbers: write `.astype"):
        gb.model(of_numbers, np.array([0.0, 1.0, 2.0, 1.0]))
    with pytest.raises(DataError, match="'y' are complex numbers"):
        gb.model(of_amounts, np.array([1.0 + 1.0j]))
    longer = gb.model(of_amounts, np.array([1.0], np.longdouble)).density
    assert longer.log_joint({"m": 0.5}) == gb.model(of_amounts, np.array([1.0])).density.log_joint({"m": 0.5})


def by_town(rows, groups):
    with numpyro.plate("group", len(groups)):
        a = numpyro.sample("a", dist.Normal(groups["size"], 1))
    numpyro.sample("y", dist.Normal(a[rows["town"]], 1), obs=rows["y"])


def by_town_alone(rows, groups):
    with numpyro.plate("group", len(groups)):
        a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a[rows["town"]], groups["size"].mean()), obs=rows["y"])


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (["A", "B", "C"], None),
        (["A", "B", "C", "D"], None),
        (["C", "A", "B"], "'A' is 0, and row 0 of groups is 'C'"),
        (["A", "AA", "B", "C"], "'B' is 1, and row 1 of groups is 'AA'"),
        ([10, 11, 12], None),
    ],
)
@pytest.mark.parametrize("named_by", ["column", "index"])
def test_categories_that_are_rows_of_another_table_in_another_order(index, told, named_by):
    """By an index they were told in `model.notes` alone."""
    rows = pd.DataFrame({"town": list("CABBAC"), "y": np.arange(6.0)})
    groups = pd.DataFrame({"size": 1.0 + np.arange(len(index)), "town": [*map(str, index)]})
    groups = groups if named_by == "column" else groups.set_index("town")
    if told is not None:
        with pytest.raises(DataError, match=told) as refused:
            gb.model(by_town, rows=rows, groups=groups)
        key = "groups['town']" if named_by == "column" else "groups.index"
        assert f"pd.Categorical(rows['town'], {key})" in str(refused.value)
        rows["town"] = pd.Categorical(rows["town"], [*map(str, index)])
    model = gb.model(by_town, rows=rows, groups=groups)
    assert not any("its categories" in n for n in model.notes)
    assert told is None or model.labels["rows['town']"] == tuple(index)


def test_an_index_in_another_order_whose_rows_nothing_reads_is_told():
    rows = pd.DataFrame({"town": list("CABBAC"), "y": np.arange(6.0)})
    groups = pd.DataFrame({"size": [1.0, 2.0, 3.0]}, index=["C", "A", "B"])
    (note,) = (n for n in gb.model(by_town_alone, rows=rows, groups=groups).notes if "its categories" in n)
    assert "is 'A' where it is 0, and row 0 of groups is 'C'" in note


def test_a_table_as_a_matrix_has_its_own_columns_in_predictions():
    def linear(X, y):
        b = numpyro.sample("b", dist.Normal(0, 5).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(X @ b, 1), obs=y)

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["one", "two", "three"])
    run = gb.model(linear, X=X, y=X.to_numpy() @ [1.0, 2.0, 3.0]).sample(draws=50, chains=1)
    new = pd.DataFrame(np.eye(3), columns=X.columns)
    p = run.predict(X=new, y=None)
    mixed = new[["three", "one", "two"]].assign(more=9.0)
    np.testing.assert_array_equal(run.predict(X=mixed, y=None).draws["y"], p.draws["y"])
    with pytest.raises(DataError, match=r"lacks X\['two'\], which the model reads; it has 'one', 'three'"):
        run.predict(X=new[["three", "one"]], y=None)


def rows_alone(df):
    with numpyro.plate("J", len(df)):
        th = numpyro.sample("th", dist.Normal(0, 100))
        numpyro.sample("y", dist.Normal(th, 1), obs=df["y"])


def by_name(df):
    with numpyro.plate("J", 4):
        th = numpyro.sample("th", dist.Normal(0, 100))
    numpyro.sample("y", dist.Normal(th[df["name"]], 1), obs=df["y"])


@pytest.mark.parametrize("kind", [dict, pl.DataFrame, pd.DataFrame, "category", "in order"])
def test_as_many_categories_as_rows_name_no_rows_that_are_in_another_order(kind):
    """Sorted names stood at the rows of a column that the model does not read."""
    names = ["zeta", "alpha", "mid", "beta"]
    y = np.array([60.0, 10.0, 30.0, 20.0])
    if kind == "in order":
        names = sorted(names)
    table = {"name": names, "y": y}
    made = table if kind is dict else kind(table) if callable(kind) else pd.DataFrame(table)
    if kind == "category":
        made = made.astype({"name": "category"})
    data = {"name": np.array(names), "y": y} if kind is dict else made
    own = rows_alone_of if kind is dict else rows_alone
    run = gb.model(own, df=data).sample(draws=40, chains=1, seed=1)
    mean = run.summary()["mean"]
    for i, name in enumerate(names):
        label = f"th[{name}]" if f"th[{name}]" in mean.index else f"th[{i}]"
        assert abs(mean[label] - y[i]) < 3
    read = gb.model(by_name, df=data).sample(draws=40, chains=1, seed=1).summary()["mean"]
    assert all(abs(read[f"th[{n}]"] - v) < 3 for n, v in zip(names, y, strict=True))


def rows_alone_of(df):
    with numpyro.plate("J", len(df["y"])):
        th = numpyro.sample("th", dist.Normal(0, 100))
        numpyro.sample("y", dist.Normal(th, 1), obs=df["y"])


@pytest.mark.slow
def test_fewer_rows_than_names_can_be_predicted():
    table = pd.DataFrame({"id": [f"p{i}" for i in range(12)], "x": np.arange(12.0), "y": 2.0 * np.arange(12)})

    def line(df):
        b = numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("n", len(df)):
            numpyro.sample("y", dist.Normal(b * df["x"], 0.1), obs=df["y"])

    run = gb.model(line, df=table).sample(draws=40, chains=1, seed=1)
    assert np.abs(run.predict().to_frame()["mean"].to_numpy() - table["y"]).max() < 0.2
    assert np.abs(run.predict(table.iloc[:5]).to_frame()["mean"].to_numpy() - table["y"][:5]).max() < 0.2


def by_levels(name, column):
    with numpyro.plate(name, len(gb.levels(column))):
        return numpyro.sample(f"u_{name}", dist.Normal(0, 1))[column]


def by_plates(name, column):
    with numpyro.plate(name, column):
        return numpyro.sample(f"u_{name}", dist.Normal(0, 1))[column]


def by_names(name, column):
    count = column.nunique()
    assert column.cat.categories == gb.levels(column)
    with numpyro.plate(name=name, size=count):
        return numpyro.sample(f"u_{name}", dist.Normal(0, 1))[column]


@pytest.mark.share(3)
@pytest.mark.parametrize("effect", [by_levels, by_plates, by_names])
def test_categories_of_columns_in_loops_and_helpers(effect):
    """They were known of columns that a model writes out alone."""
    frame = pd.DataFrame({"g": list("aabbc"), "h": list("xyxyx"), "y": np.arange(5.0)})

    def crossed(t):
        mean = 0.0
        for name in ("g", "h"):
            mean = mean + effect(name, t[name])
        numpyro.sample("y", dist.Normal(mean, 1), obs=t["y"])

    model = gb.model(crossed, frame)
    assert (model.sites["u_g"].shape, model.sites["u_h"].shape) == ((3,), (2,))
    run = model.sample(draws=20, chains=1, seed=0)
    assert "u_h[y]" in run.summary().index
    assert run.predict(pd.DataFrame({"g": ["c", "b"], "h": ["x", "y"]})).draws["y"].shape == (1, 20, 2)


@pytest.mark.slow
def test_numpyro_runs_a_model_with_its_categories():
    """Whoever runs it: elsewhere a comparison with a text was False everywhere."""
    model = gb.model(by_words, SHOPS)
    trace = numpyro.handlers.trace(numpyro.handlers.seed(model, 0)).get_trace()
    assert trace["a"]["value"].shape == (3,)
    np.testing.assert_array_equal(trace["private"]["value"], [0, 1, 0, 1, 0, 1])
    mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=5, num_samples=5, progress_bar=False)
    mcmc.run(jax.random.key(0))
    assert mcmc.get_samples()["a"].shape == (5, 3)


def in_town(df, m=0.0):
    with numpyro.plate("town", df.town):
        u = numpyro.sample("u", dist.Normal(m, len(gb.levels(df.town))))
    numpyro.sample("y", dist.Normal(u[df.town], 1.0), obs=df.y)


class Called:
    def __call__(self, df):
        in_town(df)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "fn",
    [
        numpyro.handlers.reparam(in_town, config={"u": LocScaleReparam(0)}),
        numpyro.handlers.scale(in_town, 1.0),
        partial(in_town, m=0.0),
        partial(numpyro.handlers.mask(in_town, mask=True), m=0.0),
        Called(),
    ],
    ids=["reparam", "scale", "partial", "partial mask", "called"],
)
def test_categories_in_what_is_no_plain_function(fn):
    table = pd.DataFrame({"town": list("abca"), "y": np.arange(4.0)})
    run = gb.model(fn, table).sample(draws=20, warmup=20, chains=1, seed=0)
    assert run.draws["u"].shape == (1, 20, 3)
    assert "1 new" in str(run.predict(pd.DataFrame({"town": ["a", "z"]})).note)


def test_codes_that_are_shifted_pick_rows_of_other_names():
    """`u[df.g - 1]`, where a category that is in no row stands first: b came to .77 for 1."""
    groups = pd.DataFrame({"name": list("abc"), "size": [1.0, 2.0, 3.0]})

    def shifted(groups, rows):
        b = numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("group", groups.name):
            u = numpyro.sample("u", dist.Normal(b * groups["size"], 0.2))
        numpyro.sample("y", dist.Normal(u[rows.g - 1], 0.5), obs=rows.y)

    g = pd.Series(list("cabcab"))
    for order, right in (("zcab", False), ("zabc", True)):
        rows = pd.DataFrame({"g": pd.Categorical(g, [*order]), "y": np.arange(6.0)})
        if right:
            gb.model(shifted, groups, rows)
        else:
            with pytest.raises(
                DataError, match=r"is picked by rows.*of which 'c' is 0, and row 0 of groups is 'a'"
            ):
                gb.model(shifted, groups, rows)


def test_a_plate_of_other_threads_is_numpyros_own():
    from gibbsite.density.model.alone import as_columns

    plain = numpyro.plate.__init__
    with as_columns:
        assert numpyro.plate.__init__ is not plain
        found = []
        other = threading.Thread(target=lambda: found.append(numpyro.plate("n", 3).size))
        other.start()
        other.join()
        assert found == [3] and numpyro.plate("n", 2).size == 2
        with pytest.raises(TypeError, match=r"plate.__init__\(\) missing"):
            numpyro.plate("n")
    assert numpyro.plate.__init__ is plain


def test_a_table_of_one_column_is_no_outcome():
    def model(x, y):
        numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal(0, 1)) * x, 1.0), obs=y)

    with pytest.raises(DataError, match=r"are a table, of days: take one of its columns, .*\['days'\]"):
        gb.model(model, Y, pd.DataFrame({"days": Y}))


def test_what_is_one_of_two_texts_is_told_where_they_are_computed_with():
    """The sign of a slope hangs on it, and it is the alphabet's."""

    def model(t):
        a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in "ab")
        c = numpyro.sample("c", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(a + b * t["sex"] + c[t["arm"]], 1.0), obs=t["y"])

    t = pd.DataFrame({"sex": list("fmfm"), "arm": ["drug", "none"] * 2, "y": np.zeros(4)})
    told = [n for n in gb.model(model, t).notes if "computes with" in n]
    assert told == ["the model computes with t['sex']: 0 is 'f', 1 is 'm'"]
