"""What was found from a run is there tomorrow: read back without its model, and without compiling."""

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from gibbsite.errors import CheckpointError, ModelError, OptionError, UnknownNameError

RNG = np.random.default_rng(3)
N = 40
FRAME = pd.DataFrame({"town": RNG.choice(["Ada", "Box"], N), "x": RNG.normal(size=N)})
FRAME["y"] = FRAME.x + RNG.normal(size=N)
NEW = pd.DataFrame({"town": ["Box", "Ada"], "x": [0.0, 2.0]}, index=pd.date_range("2026-01-01", periods=2))


def line(df):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Normal(b * df["x"], 1.0), obs=df["y"])


def flat_line(df):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Normal(a, 1.0), obs=df["y"])


def ran(fn, **options):
    return gb.model(fn, FRAME).sample(draws=200, warmup=100, chains=2, **options)


@pytest.fixture
def no_compiling(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("something is traced")

    monkeypatch.setattr(jax, "make_jaxpr", refused)
    monkeypatch.setattr(jax._src.stages.Lowered, "compile", refused)


@pytest.mark.slow
def test_results_come_back_without_the_model(tmp_path, request):
    run, other = ran(line), ran(flat_line)
    at_new = run.keep("new rows", run.predict(NEW))
    at_new.derive("top = max(y)")
    run.keep("new rows", at_new)
    treated = [run.predict(pl.DataFrame(FRAME.to_dict("list")), do={"x": v}) for v in (0.0, 1.0)]
    run.keep("effect", gb.contrast(treated[1], treated[0]))
    run.keep("over x", run.effects("x", [0.0, 1.0]))
    run.keep("best", gb.decide({"no": treated[0], "yes": treated[1]}, "gain = mean(y) - mean(x) / 2"))
    compared = gb.compare(run, other)
    run.keep("gone", at_new)
    run.forget("gone")
    checked = run.checks(by="town", prior=True, statistics=["max(y)"])
    folds = run.elpd(kfold=4)
    run.report(tmp_path / "r.html", compared=compared)
    run.save(tmp_path / "run")
    other.save(tmp_path / "other")

    request.getfixturevalue("no_compiling")
    back = gb.load(tmp_path / "run")
    assert list(back.results) == ["new rows", "effect", "over x", "best", "Comparison"]
    p = back.results["new rows"]
    pd.testing.assert_frame_equal(p.to_frame(), at_new.to_frame(), check_freq=False)
    np.testing.assert_array_equal(p.draws["y"], at_new.draws["y"])
    np.testing.assert_array_equal(p.derived["top"].values, at_new.derived["top"].values)
    assert p.note == at_new.note
    assert p.plot().svg == at_new.plot().svg
    xr_group = p.to_datatree()["predictions"]
    assert xr_group["y"].dims == at_new.to_datatree()["predictions"]["y"].dims
    assert isinstance(back.results["effect"].a.to_frame(), pl.DataFrame)
    np.testing.assert_array_equal(back.results["effect"].difference, run.results["effect"].difference)
    gb.contrast(back.results["effect"].a, back.results["effect"].b)
    assert repr(back.results["over x"]) == repr(run.results["over x"])
    assert back.results["best"].to_frame().equals(run.results["best"].to_frame())
    assert repr(back.results["Comparison"]) == repr(compared)
    again = back.checks(by="town", prior=True, statistics=["max(y)"])
    assert again.plot().svg == checked.plot().svg
    assert back.checks().plot().svg  # what was asked for holds more than this
    with pytest.raises(ModelError, match="without its model"):
        back.checks(over="x")
    np.testing.assert_array_equal(back.elpd().elpd_i, run.elpd().elpd_i)
    assert back.elpd(kfold=4).elpd == folds.elpd
    assert repr(gb.compare(back, gb.load(tmp_path / "other"))) == repr(compared)
    text = back.report(tmp_path / "again.html").read_text(encoding="utf-8")
    for word in ("LOO-PIT", "Prediction: new rows", "effect", "Comparison", "top"):
        assert word in text
    view = back._repr_mimebundle_()
    assert "line" in view["text/plain"]


@pytest.mark.slow
def test_results_of_a_stored_run_are_written_when_they_are_found(tmp_path):
    folder = tmp_path / "store"
    run = ran(line, store=folder)
    run.keep("new rows", run.predict(NEW, draws=50))
    run.checks()
    back = gb.load(folder)
    assert back.results["new rows"].draws["y"].shape == (2, 50, 2)
    assert back.checks().site == "y"
    assert "is whole" in str(gb.verify(folder))
    back = gb.load(folder, model=run.model)
    back.resume(draws=50)
    back.checks()
    files = sorted((folder / "results").glob("*.npz"))
    assert len(gb.load(folder).results) == 1
    # what was answered of fewer draws is none of these draws' answer, and gone
    assert len(files) == 4  # the index, a prediction, checks and their elpd
    for path in (f for f in files if f.name != "index.npz"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-40] + b"?" + whole[-39:])
    with pytest.raises(CheckpointError, match="results"):
        gb.verify(folder)
    with pytest.raises(CheckpointError):
        gb.load(folder).checks()
    files[0].with_name("index.npz").write_bytes(b"")  # the draws are whole all the same
    with pytest.warns(UserWarning, match="kept with the run is left out"):
        assert gb.load(folder).draws["b"].shape == (2, 250)


def test_what_is_no_result():
    run = ran(line)
    with pytest.raises(OptionError, match="a prediction, checks"):
        run.keep("z", np.zeros(3))
    with pytest.raises(OptionError, match="title"):
        run.keep(3, run.predict(draws=10))
    with pytest.raises(OptionError, match="title"):
        run.keep("", run.predict(draws=10))
    with pytest.raises(UnknownNameError, match="no result"):
        run.results["nothing"]
