"""What people give for predictions: tables and arrays of every make, and what is refused in which words."""

from typing import ClassVar

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from gibbsite.errors import (
    DataError,
    ExpressionError,
    MissingPackageError,
    ModelError,
    OptionError,
    ResourceError,
    StoreError,
    UnknownNameError,
)
from gibbsite.prediction import verbs
from gibbsite.prediction.drawn import program
from helpers.predicted import agrees, flat
from numpyro.contrib.control_flow import scan

RNG = np.random.default_rng(3)


def data():
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime("2024-01-10") + pd.to_timedelta(np.arange(60), unit="D"),
            "x": RNG.normal(size=60),
            "county": RNG.choice(["Ada", "Box", "Cob"], 60),
            "kind": RNG.choice(["urban", "rural"], 60),
            "treated": RNG.integers(0, 2, 60),
            "late": RNG.random(60) < 0.5,
            "note": ["free text"] * 60,
        }
    )
    frame["y"] = 1 + frame.x + 2.0 * frame.treated + 0.01 * np.arange(60) + RNG.normal(size=60) * 0.3
    return frame


def radon(df):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    b = numpyro.sample("b", dist.Normal(0, 5))
    c = numpyro.sample("c", dist.Normal(0, 5))
    trend = numpyro.sample("trend", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.HalfNormal(1))
    kind = numpyro.sample("by_kind", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("county", 3):
        alpha = numpyro.sample("alpha", dist.Normal(mu, tau))
    level = alpha[df["county"]] + kind[df["kind"]] + b * df["x"] + c * df["treated"] + trend * df["day"] / 100
    numpyro.sample("y", dist.Normal(level, s), obs=df["y"])


@pytest.fixture(scope="module")
def run():
    return gb.model(radon, data()).sample(draws=300, warmup=300, chains=2)


def new_rows():
    return pd.DataFrame(
        {
            "county": ["Cob", "Dot", "Ada"],
            "kind": ["rural", "urban", "urban"],
            "x": [0, 1, 2],
            "treated": [1, 0, 1],
            "day": pd.to_datetime(["2024-02-01", "2024-01-10", "2024-03-01"]),
        },
        index=["r1", "r2", "r3"],
    )


def expected(run, counties=("Cob", "Ada")):
    d = {n: flat(v) for n, v in run.draws.items()}
    first = d["alpha"][:, 2] + d["by_kind"][:, 0] + d["c"] + d["trend"] * 22 / 100
    last = d["alpha"][:, 0] + d["by_kind"][:, 1] + 2 * d["b"] + d["c"] + d["trend"] * 51 / 100
    return np.stack([first, last], 1), d["s"][:, None] ** 2


@pytest.mark.slow
def test_tables_of_either_kind_keep_codes_dates_and_rows(run):
    mean, var = expected(run)
    p = run.predict(new_rows())
    agrees(flat(p.draws["y"])[:, [0, 2]], mean, var)
    frame = p.to_frame()
    assert list(frame.index) == ["r1", "r2", "r3"]
    assert {"mean", "sd"} <= set(frame.columns)
    named = run.predict(df=new_rows())
    np.testing.assert_array_equal(named.draws["y"], p.draws["y"])
    polar = pl.DataFrame({**new_rows().to_dict("list")})
    q = run.predict(polar)
    np.testing.assert_array_equal(q.draws["y"], p.draws["y"])
    assert isinstance(q.to_frame(), pl.DataFrame)
    assert len(q.to_frame()) == 3
    tree = p.to_datatree()
    assert list(tree.children) == ["predictions"]
    assert list(tree["predictions"]["county"].values) == ["Ada", "Box", "Cob", "Dot"]
    assert list(run.predict().to_datatree().children) == ["posterior_predictive", "observed_data"]
    assert "3 county known, 1 new: alpha drawn from Normal(mu, tau)" in p.note
    assert "Prediction of radon" in repr(p)


@pytest.mark.slow
def test_what_new_data_cannot_be(run):
    new = new_rows()
    with pytest.raises(DataError, match="'county'"):
        run.predict(new.drop(columns="county"))
    with pytest.raises(DataError, match=r"'kind'.*'suburb'.*no plate"):
        run.predict(new.assign(kind=["rural", "suburb", "urban"]))
    with pytest.raises(DataError, match=r"county.*categories.*numbers"):
        run.predict(new.assign(county=[0, 1, 2]))
    with pytest.raises(DataError, match=r"county.* has 1 missing value .* \(the first in row 1\)"):
        run.predict(new.assign(county=["Ada", None, "Box"]))
    with pytest.raises(DataError, match=r"'x'.*numbers.*categories"):
        run.predict(new.assign(x=["a", "b", "c"]))
    with pytest.raises(DataError, match=r"'day'.*times.*plain numbers"):
        run.predict(new.assign(day=[1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match=r"'day'.*times.*categories"):
        run.predict(new.assign(day=["2024-01-01", "x", "y"]))
    with pytest.raises(DataError, match=r"'day'.*holds times, not 'noon'"):
        run.predict(do={"day": "noon"})
    with pytest.raises(DataError, match=r"'x'.*holds numbers, not 'big'"):
        run.predict(do={"x": "big"})
    half = run.predict(new.assign(treated=[0.5, 1.0, 0.0])).draws["y"]  # between whole numbers, as an age
    np.testing.assert_allclose(half, run.predict(new, do={"treated": [0.5, 1.0, 0.0]}).draws["y"])
    with pytest.raises(DataError, match=r"'x'.*lacks values"):
        run.predict(new.assign(x=[np.nan, 1, 2]))
    with pytest.raises(UnknownNameError, match="no argument named 'd'"):
        run.predict(d=new)
    with pytest.raises(UnknownNameError, match="site, argument or column"):
        run.predict(do={"treat": 1})
    with pytest.raises(UnknownNameError, match="category"):
        run.predict(do={"county": "Dot"})
    with pytest.raises(UnknownNameError, match=r"no category of.*county.* named '9'"):
        run.predict(do={"county": 9})
    known = next(texts for name, texts in run.model.labels.items() if "county" in name)
    assert f"county set to 1 ({known[1]!r})" in run.predict(do={"county": 1}, draws=20).note
    with pytest.raises(ModelError, match="posterior of everything is another"):
        run.predict(given={"mu": 1.0})
    with pytest.raises(OptionError, match="draws"):
        run.predict(draws=0)
    with pytest.raises(OptionError, match="do"):
        run.predict(do=[1])
    with pytest.raises(DataError, match=r"late.*truth values.*2"):
        run.predict(new.assign(late=[0, 1, 2]))
    with pytest.raises(DataError, match=r"'y' has shape \(3,\).*\(2,\) is given"):
        run.predict(new, given={"y": [1.0, 2.0]})
    with pytest.raises(OptionError, match="'df' is given twice"):
        run.predict(new, df=new)
    with pytest.raises(DataError, match=r"'df' is a table.*one row is frame.iloc\[\[0\]\]"):
        run.predict(new.iloc[0])


def test_categories_go_by_their_names_in_expressions():
    def rated(d):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
        with numpyro.plate("n", len(d["rating"])):
            numpyro.sample("rating", dist.Categorical(w), obs=d["rating"])

    levels = ["poor", "fair", "good"]
    table = pd.DataFrame({"rating": pd.Categorical(levels * 4, levels), "arm": ["drug", "none"] * 6})
    p = gb.model(rated, table).predict(draws=20)
    np.testing.assert_allclose(
        p.derive("good = mean(rating == 'good')").values, (p.draws["rating"] == 2).mean(axis=-1)
    )
    assert np.all(p.derive("treated = mean(arm == 'drug')").values == 0.5)
    with pytest.raises(ExpressionError, match="no value is called 'god'"):
        p.derive("mean(rating == 'god')")


def test_a_model_of_a_polars_table_answers_in_polars():
    def normal(d):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=d["y"])

    model = gb.model(normal, pl.DataFrame({"y": [1.0, 2.0]}))
    assert isinstance(model.predict(draws=4).to_frame(), pl.DataFrame)


def over_days(d):
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(b * d["day"], 0.1), obs=d["y"])


def test_times_of_any_zone_are_the_same_times():
    days = pd.date_range("2024-01-10", periods=4, tz="America/New_York")
    run = gb.model(over_days, pd.DataFrame({"day": days, "y": np.arange(4.0)})).sample(draws=20, chains=1)
    new = pd.DataFrame({"day": days[:2] + pd.Timedelta(days=9)})
    for zone in ("UTC", "Europe/Berlin"):
        other = new.assign(day=new.day.dt.tz_convert(zone))
        np.testing.assert_array_equal(run.predict(new).draws["y"], run.predict(other).draws["y"])


def test_times_without_a_zone_are_no_times_with_one(run):
    """They were taken for UTC's: another eight hours, and nobody was told."""
    new = new_rows()
    with pytest.raises(DataError, match="times without a zone in the model's own data, and with one in the"):
        run.predict(new.assign(day=new.day.dt.tz_localize("America/New_York")))
    with pytest.raises(DataError, match="has no rows"):
        run.predict(new.iloc[:0])


@pytest.mark.slow
def test_a_time_is_set_as_one(run):
    day = data()["day"].iloc[3]
    p = run.predict(do={"day": str(day.date())}, draws=20)
    assert "day set to '20" in p.note
    once = run.predict(do={"day": (day - data()["day"].min()).days}, draws=20)
    for other in (once, run.predict(do={"day": day}, draws=20)):
        np.testing.assert_array_equal(p.draws["y"], other.draws["y"])


def test_contrasts_effects_and_decisions(run):
    d = {n: flat(v) for n, v in run.draws.items()}
    treated, not_treated = run.predict(do={"treated": 1}), run.predict(do={"treated": 0})
    c = gb.contrast(treated, not_treated)
    np.testing.assert_allclose(flat(c.difference), np.broadcast_to(d["c"][:, None], (600, 60)), atol=1e-4)
    frame = c.to_frame(by="county")
    assert list(frame.index) == ["Ada", "Box", "Cob"]
    np.testing.assert_allclose(frame["mean"], d["c"].mean(), rtol=1e-4)
    np.testing.assert_allclose(c.to_frame(average=True)["mean"], d["c"].mean(), rtol=1e-4)
    ratio = flat(treated.expected["y"]).mean(1) / flat(not_treated.expected["y"]).mean(1)
    np.testing.assert_allclose(c.to_frame("risk ratio")["mean"], ratio.mean(), rtol=1e-4)
    with pytest.raises(OptionError, match=r"'y' is no probability"):
        c.to_frame("odds ratio")
    assert len(c.to_frame()) == 60
    effects = run.effects("x", [0.0, 2.0])
    np.testing.assert_allclose(flat(effects.slope), d["b"], atol=1e-4)
    told = repr(effects)
    assert f"{flat(effects.slope).mean():.4g} per unit" in told
    by_county = run.effects("x", [0.0, 2.0], draws=50).to_frame(by="county")
    assert list(by_county["county"]) == ["Ada", "Ada", "Box", "Box", "Cob", "Cob"]
    np.testing.assert_allclose(by_county["difference"][1::2], 2 * run.draws["b"][:, ::6].mean(), rtol=0.1)
    with pytest.raises(OptionError, match=r"to_frame\(by="):
        run.effects("x", by="county")
    with pytest.raises(UnknownNameError, match="no argument named 'q'"):
        run.effects("x", q=1)
    assert [str(v) for v in run.effects("county").values] == ["Ada", "Box", "Cob"]
    assert list(run.effects("treated").to_frame()["treated"]) == [0.0, 1.0]
    decided = gb.decide({"all": treated, "none": not_treated}, "gain = mean(y) - 1.5 * mean(treated)")
    np.testing.assert_allclose(flat(decided.draws["all"] - decided.draws["none"]), d["c"] - 1.5, atol=1e-4)
    share = float((d["c"] > 1.5).mean())
    assert decided.best_probability == pytest.approx({"all": share, "none": 1 - share})
    assert decided.best == "all"
    assert list(decided.to_frame().index) == ["all", "none"]
    high = run.derive("high = mean(y > 3)", of=treated)
    np.testing.assert_allclose(flat(high.values), (flat(treated.draws["y"]) > 3).mean(1))
    assert "high" in treated.to_datatree()["predictions"]
    with pytest.raises(OptionError, match="one seed"):
        gb.contrast(treated, run.predict(do={"treated": 0}, seed=1))
    with pytest.raises(ExpressionError, match="no site"):
        gb.decide({"all": treated, "none": not_treated}, "gain = z")


@pytest.mark.slow
def test_pictures_and_words_of_a_prediction(run, tmp_path):
    for p in (run.predict(), run.predict(new_rows()), run.model.predict(draws=50)):
        picture = p.plot()
        assert picture.svg.startswith("<svg")
        assert "y" in picture.text
        picture.save(tmp_path / "p.svg")
        bundle = p._repr_mimebundle_()
        assert "gibbsite-svg" in bundle["text/html"]
        assert "mean" in bundle["text/plain"]
    with pytest.raises(UnknownNameError):
        run.predict().plot("z")


@pytest.mark.slow
def test_the_prior_is_drawn_before_any_run():
    m = gb.model(radon, data())
    p = m.predict(draws=2000, seed=5)
    assert p.draws["y"].shape == (1, 2000, 60)
    d = {n: flat(v) for n, v in p.draws.items()}
    agrees(d["mu"], np.zeros(2000), 25.0)
    agrees(d["alpha"], d["mu"][:, None] * np.ones(3), d["tau"][:, None] ** 2)
    assert list(p.to_datatree().children) == ["prior_predictive", "prior", "observed_data"]
    np.testing.assert_array_equal(m.predict(draws=2000, seed=5).draws["y"], p.draws["y"])
    assert not np.array_equal(m.predict(draws=2000, seed=6).draws["y"], p.draws["y"])
    assert m.predict(new_rows(), draws=10).draws["y"].shape == (1, 10, 3)


def coins(b, y):
    p = numpyro.sample("p", dist.Beta(1, 1))
    numpyro.sample("b", dist.Normal(b, 1))
    numpyro.factor("f", 0.0 * p)
    numpyro.sample("y", dist.Bernoulli(p), obs=y)


@pytest.mark.slow
def test_what_a_run_cannot_be(tmp_path):
    y = np.array([0, 1, 1, 1])
    run = gb.model(coins, 2.0, y).sample(draws=50, warmup=50, chains=1)
    with pytest.raises(ModelError, match="a site and an argument"):
        run.predict(do={"b": 1.0})
    agrees(flat(run.predict(b=9.0).draws["y"]), flat(run.draws["p"])[:, None])
    with pytest.raises(ModelError, match="factor 'f'"):
        run.model.predict()
    run.save(tmp_path / "saved")
    with pytest.raises(ModelError, match="without its model"):
        gb.load(tmp_path / "saved").predict()
    assert gb.load(tmp_path / "saved", model=run.model).predict().draws["y"].shape == (1, 50, 4)
    part = run.model.sample(draws=20, warmup=20, chains=1, keep=["b"])
    with pytest.raises(ModelError, match=r"p .*not kept"):
        part.predict()


@pytest.mark.slow
def test_values_that_are_given_weigh_the_draws():
    a = RNG.normal(size=50)

    def model(a, b):
        m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("a", dist.Normal(m, 1.0), obs=a)
        with numpyro.plate("new", len(b)):
            e = numpyro.sample("e", dist.Normal(m, 1.0))
            numpyro.sample("b", dist.Normal(e, 1.0), obs=b)
            numpyro.sample("c", dist.Normal(e, 0.5), obs=jnp.zeros(len(b)))

    run = gb.model(model, a, np.zeros(1)).sample(draws=3000, warmup=300, chains=2)
    p = run.predict(b=np.array([0.3]), given={"b": np.array([1.2])})
    # of (e, b) given m, e is Normal((m + b) / 2, 1 / 2), and m is weighted by Normal(b | m, 2)
    m = flat(run.draws["m"])
    w = np.exp(-((1.2 - m) ** 2) / 4)
    mean = np.sum(w * (m + 1.2) / 2) / w.sum()
    got = flat(p.draws["c"])[:, 0]
    assert abs(got.mean() - mean) < 5 * got.std() / np.sqrt(2000)
    assert abs(got.var() - (0.5 + 0.25)) < 0.08
    assert "worth" in p.note


@pytest.mark.slow
def test_models_are_compared_by_what_they_predict(run):
    def flatter(df):
        m = numpyro.sample("m", dist.Normal(0, 5))
        s = numpyro.sample("s", dist.HalfNormal(2))
        numpyro.sample("y", dist.Normal(m, s), obs=df["y"])

    other = gb.model(flatter, data().assign(y=run.plan.observed["y"])).sample(draws=300, warmup=200, chains=2)
    found = gb.compare(other, run)
    assert [e.name for e in found.entries] == ["radon", "flatter"]
    apart = np.asarray(other.elpd().elpd_i) - np.asarray(run.elpd().elpd_i)
    worse = found.entries[1]
    assert worse.difference == pytest.approx(apart.sum(), rel=1e-5)
    assert worse.dse == pytest.approx(np.sqrt(60 * apart.var()), rel=1e-5)
    assert "elpd" in repr(found)
    assert "fewer than 100" in repr(found)
    assert list(found.to_frame().index) == ["radon", "flatter"]
    named = gb.compare({"with covariates": run, "without": other})
    assert [e.name for e in named.entries] == ["with covariates", "without"]
    with pytest.raises(OptionError):
        gb.compare(run)


def row_effects(x, y, there):
    m = numpyro.sample("m", dist.Normal(0, 1))
    with numpyro.plate("n", len(x)), numpyro.handlers.mask(mask=there):
        e = numpyro.sample("e", dist.Normal(m, 1.0))
        numpyro.sample("y", dist.Normal(e + x, 0.5), obs=y)


def test_rows_keep_what_is_theirs_and_other_rows_do_not(monkeypatch):
    x, y = RNG.normal(size=20), RNG.normal(size=20)
    there = np.arange(20) < 18
    run = gb.model(row_effects, x, y, there).sample(draws=400, warmup=200, chains=2)
    d = {n: flat(v) for n, v in run.draws.items()}
    every = np.ones(20, bool)
    same = run.predict(x=x + 1, there=every)  # the same rows with another covariate
    agrees(flat(same.draws["y"]), d["e"] + x + 1, 0.25)
    others = run.predict(x=np.zeros(5), y=None, there=np.ones(5, bool))
    agrees(flat(others.draws["y"]), d["m"][:, None] * np.ones(5), 1.25)
    more = run.predict(x=np.append(x, 0.0), y=None, there=np.append(there, True))
    np.testing.assert_array_equal(flat(more.draws["e"])[:, :20], d["e"])
    agrees(flat(more.draws["y"])[:, 20], d["m"], 1.25)
    with pytest.raises(DataError, match="is none"):
        run.predict(x=1.0)
    with pytest.raises(DataError, match="no elements"):
        run.predict(x=np.zeros(0))
    # in chunks, and thinned, as they would be all at once
    whole = run.predict(x=np.zeros(5), y=None, there=np.ones(5, bool))
    monkeypatch.setattr(program, "_CHUNK", 3 * 16 * 5 * 8)
    run.model.density.cache.pop("predictions")
    np.testing.assert_array_equal(
        run.predict(x=np.zeros(5), y=None, there=np.ones(5, bool)).draws["y"], whole.draws["y"]
    )
    monkeypatch.setattr(verbs, "MOST_BYTES", 2 * 100 * 5 * 8)
    few = run.predict(x=np.zeros(5), y=None, there=np.ones(5, bool))
    assert few.draws["y"].shape[:2] == (2, 100)
    assert "100 of 400 draws per chain" in few.note


def carried(y):
    phi = numpyro.sample("phi", dist.Uniform(-1, 1))

    def step(before, value):
        numpyro.sample("y", dist.Normal(phi * before, 1.0), obs=value)
        return value, None

    scan(step, 0.0, y)


@pytest.mark.slow
def test_months_to_come_are_not_the_first_ones():
    """Given alone they were answered by the run's first steps, under their own names."""

    def walk(d):
        def step(level, y):
            level = numpyro.sample("level", dist.Normal(level, 1))
            numpyro.sample("y", dist.Normal(level, 0.1), obs=y)
            return level, None

        scan(step, 0.0, d["y"])

    months = pd.date_range("2020-01-01", periods=6, freq="MS")
    table = pd.DataFrame({"y": [5.0, 5, 5, 5]}, index=months[:4])
    new = pd.DataFrame({"y": [np.nan, np.nan]}, index=months[4:])
    run = gb.model(walk, table).sample(draws=50, warmup=50, chains=1)
    with pytest.raises(DataError, match=r"'2020-05-01' stands where.*'2020-01-01'.*pandas.concat"):
        run.predict(new)
    assert abs(run.predict(pd.concat([table, new])).to_frame()["mean"].iloc[-1] - 5) < 1


@pytest.mark.slow
def test_rows_that_hold_nothing_are_new_rows():
    """They were the first ones of the run, with the components of these."""

    def pair(x):
        with numpyro.plate("n", len(x)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(20.0 * z, 1), obs=x)

    run = gb.model(pair, np.zeros(8)).sample(draws=200, warmup=20, chains=1)
    p = run.predict(x=np.full(3, np.nan))
    assert "3 new rows" in p.note
    assert abs(np.mean(p.draws["z"]) - 0.5) < 5 * 0.5 / np.sqrt(600)
    assert np.all(run.predict(x=np.full(8, np.nan)).draws["x"] < 10)  # as many are the run's own


@pytest.mark.slow
def test_a_loop_that_hands_its_data_on_cannot_be_forecast():
    y = RNG.normal(size=12)
    run = gb.model(carried, y).sample(draws=40, warmup=40, chains=2)
    with pytest.raises(DataError, match=r"'y' cannot be forecast.*hands y on.*returns"):
        run.predict(y=np.append(y, [np.nan, np.nan]))


@pytest.mark.slow
def test_many_draws_are_written_to_files(run, monkeypatch, tmp_path):
    here = run.predict(new_rows())
    monkeypatch.setattr(program, "_CHUNK", 16 * 5 * 8)
    monkeypatch.setattr(verbs, "MOST_BYTES", 1)
    there = run.predict(new_rows(), to=tmp_path / "p")
    np.testing.assert_array_equal(there.draws["y"], here.draws["y"])
    assert np.load(tmp_path / "p" / "y.npy", mmap_mode="r").shape == (600, 3)
    pd.testing.assert_frame_equal(there.to_frame(), here.to_frame())
    with pytest.raises(StoreError, match="holds something"):
        run.predict(new_rows(), to=tmp_path / "p")
    monkeypatch.setattr(verbs, "available_memory", lambda: 1000)
    with pytest.raises(ResourceError, match="draws="):
        run.predict(new_rows(), draws=300)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "values",
    [(1.0, 3.0), (1, True), ("one", "three"), (jnp.sin, jnp.cos), ({1.0}, {3.0})],
    ids=["number", "flag", "text", "function", "set"],
)
def test_what_is_compiled_in_is_asked_anew(values):
    """An argument that is no array is a constant of the program: another value is another program."""

    def model(y, how):
        a = numpyro.sample("a", dist.Normal(0, 1))
        scale = how(1.0) if callable(how) else len(how) if isinstance(how, str) else 0.5
        scale = max(how) if isinstance(how, set) else 2.0 if how is True else how if how == 3.0 else scale
        numpyro.deterministic("told", a * scale)
        numpyro.sample("y", dist.Normal(a * scale, 1), obs=y)

    run = gb.model(model, np.float32(1), values[0]).sample(draws=20, warmup=50, chains=1)
    first, second, third = (run.predict(how=v).draws["told"] for v in (*values, values[0]))
    given = run.predict(do={"how": values[1]}).draws["told"]
    assert np.array_equal(first, run.draws["told"]) and np.array_equal(first, third)
    assert not np.allclose(first, second) and np.array_equal(second, given)


def trials(x, y, n=10.0):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Binomial(total_count=n, logits=a + 0.5 * x), obs=y)


@pytest.fixture(scope="module")
def counted():
    x = RNG.normal(size=12)
    return gb.model(trials, x, RNG.binomial(10, 0.4, 12)).sample(draws=100, warmup=100, chains=2)


@pytest.mark.slow
def test_totals_of_trials_need_not_be_integers(counted):
    """NumPyro looks its totals up in a table; an argument that stands at its default can be set."""
    assert counted.predict(do={"n": 20}).draws["y"].max() > 10
    np.testing.assert_array_equal(counted.predict().draws["y"], counted.predict(n=10).draws["y"])
    assert counted.model.predict(draws=5).draws["y"].dtype.kind == "i"
    slope = counted.effects("n", [5, 10]).slope.mean()
    assert abs(slope - counted.predict().draws["y"].mean() / 10) < 0.05
    with pytest.raises(UnknownNameError, match="did you mean 'n'"):
        counted.predict(do={"nn": 20})


@pytest.mark.slow
def test_what_has_no_number_or_chance_is_refused_by_its_place(run, counted):
    for value in (np.inf, -np.inf):
        with pytest.raises(DataError, match=rf"df\['x'\].*is {value} in row 'two'"):
            frame = data().iloc[:3].set_axis(["one", "two", "three"])
            run.predict(frame.assign(x=[0.0, value, 1.0]))
    with pytest.raises(DataError, match=r"'x' is inf in row 1 \(and 1 more\)"):
        counted.predict(x=np.array([0, np.inf, np.inf]))
    with pytest.raises(DataError, match="'x' is inf, and finite"):
        counted.predict(do={"x": np.inf})
    # a count is drawn of a chance that is no number, too
    for asked in (
        {"x": np.array([0.0, np.nan])},
        {"do": {"x": np.nan}},
        {"x": np.zeros(2), "n": np.array([3.0, np.nan])},
    ):
        with pytest.raises(DataError, match=r"'y' has no chances: [xn] lacks values"):
            counted.predict(**asked)
    with pytest.raises(DataError, match=r"'y' comes out as no number.*df\['x'\]"):
        run.predict(do={"x": np.nan})


@pytest.mark.slow
def test_gamma_variates_are_those_that_end(monkeypatch):
    """NumPyro's are drawn by loops that for some keys never end on CPUs; inside of `scan`, too."""

    def never(*_, **__):
        raise AssertionError("drawn by NumPyro")

    def model(y, z):
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Gamma(2.0, jnp.exp(a)), obs=y)
        scan(lambda _, v: (None, numpyro.sample("z", dist.StudentT(9.0, a, 1.0), obs=v)), None, z)

    run = gb.model(model, RNG.gamma(2, 1, 5), RNG.normal(size=4)).sample(draws=400, warmup=200, chains=2)
    monkeypatch.setattr(dist.Gamma, "sample", never)
    p = run.predict()
    agrees(
        flat(p.draws["y"]),
        2 / np.exp(flat(run.draws["a"]))[:, None],
        2 / np.exp(flat(run.draws["a"]))[:, None] ** 2,
    )
    agrees(flat(p.draws["z"]), flat(run.draws["a"])[:, None], 9 / 7)


@pytest.mark.slow
def test_sites_without_elements():
    """No value is missing in these data: the model imputes none."""

    def model(x, y, gaps=0):
        a = numpyro.sample("a", dist.Normal(0, 5))
        numpyro.deterministic("filled", jnp.zeros(gaps) + a)
        missing = numpyro.sample("missing", dist.Normal(0, 1).expand([gaps]).to_event(1))
        x = jnp.concatenate([x, missing])
        numpyro.sample("y", dist.Normal(a * x, 1).to_event(1), obs=y)

    x = RNG.normal(size=70)
    run = gb.model(model, x, x + RNG.normal(size=70)).sample(draws=100, warmup=50, chains=2)
    assert list(run.summary().index) == ["a"]
    p = run.predict()
    assert p.draws["y"].shape == (2, 100, 70) and p.draws["filled"].shape == (2, 100, 0)
    agrees(flat(p.draws["y"]), flat(run.draws["a"])[:, None] * x, 1.0)
    assert np.isfinite(run.elpd().elpd) and len(run.checks().statistics)


@pytest.mark.slow
def test_what_numpyro_cannot_draw_without_another_package_is_told():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 3))
        with numpyro.plate("n", 3):
            truncated = dist.LeftTruncatedDistribution(dist.StudentT(4.0, mu, 1.0), low=0.0)
            numpyro.sample("y", truncated, obs=y)

    run = gb.model(model, np.array([0.5, 1.0, 2.0])).sample(draws=30, warmup=30, chains=2)
    with pytest.raises(MissingPackageError, match=r"'y' cannot be drawn here.*tensorflow_probability"):
        run.predict()


@pytest.mark.slow
def test_fewer_rows_that_are_asked_for_by_their_number_are_new():
    def model(y, n=4):
        w = numpyro.sample("w", dist.Beta(2, 2))
        with numpyro.plate("n", n):
            z = numpyro.sample("z", dist.Bernoulli(w))
            numpyro.sample("y", dist.Normal(4.0 * z, 0.1), obs=y)

    run = gb.model(model, np.array([0.0, 0.1, 4.0, 3.9])).sample(draws=500, chains=2, seed=0)
    one = run.predict(y=None, n=1)
    share = run.draws["w"].mean()
    assert abs(one.draws["y"].mean() / 4 - share) < 4 * np.sqrt(0.25 / 1000)
    more = run.predict(y=None, n=5).draws["y"]
    assert abs(more[..., 0].mean()) < 0.1 and abs(more[..., 3].mean() - 4) < 0.1


@pytest.mark.slow
def test_new_groups_are_those_of_the_rows_that_name_them():
    """Of a table of groups in another order a new one had another's covariate, in silence."""
    groups = pd.DataFrame({"name": list("abcd"), "size": [1.0, 2.0, 3.0, 4.0]})
    rows = pd.DataFrame({"g": list("abcdabcd"), "y": [1.0, 2.0, 3.0, 4.0] * 2})

    def nested(sc, t):
        b = numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("s", len(sc)):
            u = numpyro.sample("u", dist.Normal(b * sc["size"], 0.05))
        numpyro.sample("y", dist.Normal(u[t["g"]], 0.1), obs=t["y"])

    run = gb.model(nested, groups, rows).sample(draws=300, warmup=100, chains=1, seed=0)
    new = pd.concat([groups, pd.DataFrame({"name": ["aa"], "size": [10.0]})])
    asked = pd.DataFrame({"g": ["aa", "d"]})
    found = run.predict(sc=new, t=asked).to_frame("y")["mean"].to_numpy()
    np.testing.assert_allclose(found, [10, 4], atol=0.5)
    found = run.predict(sc=new.sort_values("name"), t=asked).to_frame("y")["mean"].to_numpy()
    np.testing.assert_allclose(found, [10, 4], atol=0.5)


@pytest.mark.slow
def test_steps_to_come_alone_are_refused_by_their_labels():
    """Under the labels 40, 41, 42 stood the first three steps, where the run's rows are only numbered."""

    def walk(df):
        q = numpyro.sample("q", dist.HalfNormal(1))

        def step(level, y):
            level = numpyro.sample("level", dist.Normal(level, q))
            numpyro.sample("y", dist.Normal(level, 0.5), obs=y)
            return level, None

        scan(step, 50.0, df.y)

    table = pd.DataFrame({"y": 50 + np.cumsum(np.random.default_rng(0).normal(size=12))})
    run = gb.model(walk, table).sample(draws=40, warmup=40, chains=1, seed=0)
    every = pd.concat([table, pd.DataFrame({"y": [np.nan] * 3})], ignore_index=True)
    with pytest.raises(DataError, match=r"row '12' stands where the run has '0'.* a forecast takes"):
        run.predict(every.tail(3))
    for rows in (every, every.head(3), every.tail(3).reset_index(drop=True)):
        assert run.predict(rows).draws["y"].shape == (1, 40, len(rows))


def test_an_array_alone_needs_no_name():
    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=y)

    run = gb.model(model, np.zeros(4)).sample(draws=20, warmup=20, chains=1, seed=0)
    assert run.predict(np.full(3, np.nan)).draws["y"].shape == (1, 20, 3)


@pytest.mark.parametrize("read", [False, True])
def test_columns_that_are_observed_side_by_side_may_be_missing(read):
    def model(df):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([2]))
        observed = jnp.stack([df["p"], df["q"]], -1)
        x = df["x"] + df["q"] if read else df["x"]
        numpyro.sample("y", dist.Normal(b * x[:, None], 1.0), obs=observed)

    frame = pd.DataFrame({"x": np.arange(4.0), "p": np.ones(4), "q": np.zeros(4)})
    run = gb.model(model, frame).sample(draws=20, warmup=20, chains=1, seed=0)
    if read:
        with pytest.raises(DataError, match=r"lacks df\['q'\], which the model reads; it has 'x'"):
            run.predict(frame[["x"]])
        return
    gaps = run.predict(frame[["x"]].assign(p=np.nan, q=np.nan)).draws["y"]
    assert gaps.shape == (1, 20, 4, 2)
    for lacking in (frame[["x"]], frame[["x", "p"]]):
        np.testing.assert_array_equal(run.predict(lacking).draws["y"], gaps)


@pytest.mark.slow
def test_a_distribution_that_says_nothing_of_its_draws():
    class Peak(dist.Distribution):
        support = dist.constraints.real
        arg_constraints: ClassVar = {"loc": dist.constraints.real}

        def __init__(self, loc, *, validate_args=None):
            self.loc = loc
            super().__init__(batch_shape=jnp.shape(loc), validate_args=validate_args)

        def log_prob(self, value):
            return -jnp.abs(value - self.loc) - jnp.log(2)

    def peaked(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("n", len(x)):
            numpyro.sample("y", Peak(b * x), obs=y)

    x = np.linspace(-1, 1, 9)
    run = gb.model(peaked, x, 2 * x).sample(draws=50, warmup=100, chains=2, seed=0)
    assert np.isfinite(run.elpd().elpd)
    for asked in (lambda: run.predict(), lambda: run.effects("x"), lambda: run.checks(), run.model.predict):
        with pytest.raises(ModelError, match=r"'y' cannot be drawn: Peak does not say how.*sample\(key"):
            asked()
