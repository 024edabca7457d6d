"""One model and many data sets, fitted side by side, against what each says in closed form."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import CheckpointError, DataError, OptionError, UnknownNameError
from helpers.executors import Here

RNG = np.random.default_rng(5)


def line(df):
    b = numpyro.sample("b", dist.Normal(0, 5))
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Normal(numpyro.deterministic("line", b * df["x"]), 2.0), obs=df["y"])


def table(n, store):
    x = RNG.normal(size=n) + 1
    return pd.DataFrame({"store": store, "x": x, "y": RNG.normal() * x + 2 * RNG.normal(size=n)})


def exact(part):
    """Mean and variance of b | y: normal with a normal prior."""
    precision = 1 / 25 + (part.x**2).sum() / 4
    return (part.x * part.y).sum() / 4 / precision, 1 / precision


def agrees(draws, part):
    mean, var = exact(part)
    n = draws.size / 2  # independent draws but for one step's memory, half of them at worst
    assert abs(draws.mean() - mean) < 4 * np.sqrt(var / n)
    assert abs(draws.var() - var) < 4 * var * np.sqrt(2 / n)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [None, pytest.param("NUTS b", marks=pytest.mark.slow)])
def test_each_data_set_has_its_own_posterior(schedule, tmp_path):
    parts = [table(n, f"s{i}") for i, n in enumerate([12, 12, 9, 15, 15, 4])]
    model = gb.model(line, parts[0])
    model = model if schedule is None else model.with_schedule(schedule)
    found = model.many(pd.concat(parts), by="store", draws=1000, chains=2)
    assert found.note.startswith("6 together")
    assert "do not count" in found.note
    with pytest.raises(CheckpointError, match="no state to go on from"):
        found.runs["s5"].save(tmp_path / "run")
    assert list(found.runs) == [f"s{i}" for i in range(6)]
    for i, part in enumerate(parts):
        agrees(found.draws["b"][i], part)
    assert all(v.ok for v in found.verdicts.values())
    assert found.draws["b"].shape == (6, 2, 1000)
    # what is computed has as many rows as the data set, and no more
    assert np.isnan(found.draws["line"][2][..., 9:]).all()
    expected = found.draws["b"][2][..., None] * np.asarray(parts[2].x)
    np.testing.assert_allclose(found.draws["line"][2][..., :9], expected, rtol=1e-5)
    tree = found.to_datatree()
    assert tree["posterior"]["b"].dims == ("dataset", "chain", "draw")
    assert list(tree["posterior"]["dataset"].values) == list(found.runs)
    assert tree["observed_data"]["y"].shape == (6, 15)
    assert found.summary().loc[("s3", "b"), "mean"] == pytest.approx(found.draws["b"][3].mean())
    run = found["s3"]
    np.testing.assert_array_equal(run.draws["b"], found.draws["b"][3])
    assert run.verdict.ok
    assert run.predict().draws["y"].shape == (2, 1000, 15)


@pytest.mark.slow
def test_columns_that_are_asked_for_their_values_stay_columns():
    def by_values(df):
        b = numpyro.sample("b", dist.Normal(0, 5))
        with numpyro.plate("row", len(df)):
            numpyro.sample("y", dist.Normal(b * df.x.values, 2.0), obs=df.y.to_numpy())

    parts = [table(n, f"s{i}") for i, n in enumerate([12, 9])]
    found = gb.model(by_values, parts[0]).many(pd.concat(parts), by="store", draws=400, chains=2)
    for i, part in enumerate(parts):
        agrees(found.runs[f"s{i}"].draws["b"], part)


@pytest.mark.slow
def test_a_run_of_many_goes_on():
    parts = [table(10, "a"), table(10, "b"), table(10, "c")]
    found = gb.model(line, parts[0]).many(parts, draws=300, warmup=100, chains=2)
    run = found[1]
    before = run.draws["b"].copy()
    run.resume(draws=700)
    assert run.draws["b"].shape == (2, 1000)
    np.testing.assert_array_equal(run.draws["b"][:, :300], before)
    agrees(run.draws["b"], parts[1])


def counts(df):
    b = numpyro.sample("b", dist.Normal(0, 5))
    numpyro.sample("y", dist.Poisson(1 + b**2), obs=df["y"])


@pytest.mark.slow
def test_one_that_fails_leaves_the_others():
    parts = [pd.DataFrame({"y": RNG.poisson(3, 8)}) for _ in range(3)]
    how = {"draws": 60, "warmup": 60, "chains": 2}
    model = gb.model(counts, parts[0])
    some = model.many([{"df": parts[0]}, {"df": parts[1].assign(y=-1)}, parts[2]], **how)
    assert list(some.runs) == [0, 2]
    assert "1 failed" in repr(some)
    with pytest.raises(type(some.failures[1])):
        some[1]
    with pytest.raises(UnknownNameError):
        model.many(parts[0], by="shop")
    with pytest.raises(OptionError):
        model.many(3)


def levels(g, y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("group", 3):
        a = numpyro.sample("a", dist.Normal(0, tau))
    numpyro.sample("y", dist.Normal(a[g], 1.0), obs=y)


def centred(x, y):
    b = numpyro.sample("b", dist.Normal(0, 5))
    numpyro.sample("y", dist.Normal(b * (x - x.mean()), 1.0), obs=y)


@pytest.mark.slow
def test_what_padding_would_change_is_not_padded():
    data = [(RNG.normal(size=n) + 3, RNG.normal(size=n)) for n in (6, 6, 9, 9)]
    found = gb.model(centred, *data[0]).many([{"x": x, "y": y} for x, y in data], draws=500, chains=2)
    assert (
        found.note == "4 one by one" or found.note.count("2 together") == 2
    )  # by how many processors there are
    for i, (x, y) in enumerate(data):
        part = pd.DataFrame({"x": 2 * (x - x.mean()), "y": 2 * y})
        agrees(found.draws["b"][i], part)


@pytest.mark.slow
def test_codes_that_differ_are_each_data_sets_own():
    data = [(RNG.integers(0, 3, n), RNG.normal(size=n) + np.arange(n) % 3) for n in (9, 9, 12)]
    found = gb.model(levels, *data[0]).many([{"g": g, "y": y} for g, y in data], draws=1500, chains=2, seed=3)
    for i, (g, y) in enumerate(data):
        # given tau, a is normal: the mean over draws of its conditional mean is that of a
        tau = found.draws["tau"][i].ravel()[:, None]
        n, total = np.bincount(g, minlength=3), np.bincount(g, y, minlength=3)
        given, spread = total / (n + tau**-2), 1 / (n + tau**-2)
        a = found.draws["a"][i].reshape(-1, 3)
        z = (a - given) / np.sqrt(spread)
        assert np.abs(z.mean(axis=0)).max() < 5 / np.sqrt(len(z) / 5)
        assert np.abs(z.var(axis=0) - 1).max() < 5 * np.sqrt(2 / (len(z) / 5))


@pytest.mark.slow
def test_workers_fit_what_is_fitted_here():
    """By the same door as chains: chunk by chunk, as pieces that may be lost."""
    parts = [table(12, f"s{i}") for i in range(3)]
    pool = Here(lambda call: call % 3 == 0)
    found = gb.model(line, parts[0]).many(parts, draws=1000, chains=2, on=pool)
    assert pool.calls > 6 and found.note.startswith("3 together") and not found.failures
    for i, part in enumerate(parts):
        agrees(found.draws["b"][i], part)
    found[1].resume(draws=10)
    assert found[1].draws["b"].shape == (2, 1010)
    with pytest.raises(OptionError, match=r"3 has no submit\(fn, …\)"):
        gb.model(line, parts[0]).many(parts, on=3)


def towns(df):
    with numpyro.plate("town", 3):
        a = numpyro.sample("a", dist.Normal(0, 5))
    numpyro.sample("y", dist.Normal(a[df["town"]], 2.0), obs=df["y"])


def test_labels_and_stores_of_many(tmp_path):
    """A tree with labels of a plate was a raw error of xarray; one store was given to all data sets."""
    frames = {n: pd.DataFrame({"town": list("uvwu"), "y": RNG.normal(size=4)}) for n in ("one day", "two")}
    model = gb.model(towns, frames["two"])
    asked = {"draws": 60, "warmup": 30, "chains": 2}
    found = model.many({n: {"df": f} for n, f in frames.items()}, **asked)
    assert found.to_datatree()["posterior"]["town"].values.tolist() == ["u", "v", "w"]
    kept = model.many({n: {"df": f} for n, f in frames.items()}, **asked, store=tmp_path / "runs")
    assert not kept.failures and {p.name for p in (tmp_path / "runs").iterdir()} == {"one_day", "two"}
    back = gb.load(tmp_path / "runs" / "two")
    np.testing.assert_array_equal(back.draws["a"], kept.runs["two"].draws["a"])


def test_rows_of_no_data_set_are_refused():
    whole = pd.DataFrame(
        {"town": list("uvw") * 2, "y": RNG.normal(size=6), "of": ["a", None, "a", "b", "b", "b"]}
    )
    with pytest.raises(DataError, match="'of' is missing in 1 of 6 rows"):
        gb.model(towns, whole[["town", "y"]]).many(whole, by="of", draws=20)


def grown(df):
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(b * df["day"] / 10, 1.0), obs=df["y"])


def test_dates_of_many_are_counted_from_the_models_own_day():
    days = pd.date_range("2024-03-01", periods=8)
    whole = pd.DataFrame({"day": days, "of": list("aabbaabb"), "y": RNG.normal(size=8)})
    found = gb.model(grown, whole[["day", "y"]]).many(whole, by="of", draws=60, chains=2)
    new = pd.DataFrame({"day": pd.to_datetime(["2024-03-11"])})
    expected = found.runs["b"].predict(new).expected["y"][..., 0]
    np.testing.assert_allclose(expected, found.runs["b"].draws["b"], rtol=1e-5)
