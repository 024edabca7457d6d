"""Structures without end: they become known as chains propose them, and that changes no draw."""

import math
import shutil

import gibbsite
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from gibbsite.diagnostics.verdict.cures import cures
from gibbsite.errors import ArgumentError, CheckpointError, OptionError, ScheduleError
from gibbsite.sampling.start import settings_for
from gibbsite.views.run.clinic import Clinic
from numpyro import sample
from scipy import stats

X = 0.9


def tails(x, p=0.65):
    """As many statements as there are tails, and a Gaussian: evidences are in closed form."""
    n = 0
    while sample(f"flip[{n}]", dist.Bernoulli(p)) == 0:
        n += 1
    mu = sample("mu", dist.Normal(0.0, 0.5))
    sample("x", dist.Normal(1.0 * n + mu, 0.6), obs=x)


@pytest.fixture(scope="module")
def run():
    return gibbsite.model(tails, X).sample(draws=1000, warmup=50, chains=2, seed=3)


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n], equal_nan=True) for n in a)


@pytest.mark.slow
def test_a_geometric_recursion(run):
    n = np.arange(60)
    exact = 0.65 * 0.35**n * stats.norm(n, np.hypot(0.5, 0.6)).pdf(X)
    exact /= exact.sum()
    assert len(run.structures) >= 4
    for s in run.structures:
        k = len(s.given) - 1
        if exact[k] > 0.005:
            assert abs(s.probability - exact[k]) < 4 * s.error, (s, exact[k])
    gone = 0.25 / (0.25 + 0.36)
    table = run.summary()
    mean = sum(w * gone * (X - k) for k, w in enumerate(exact))
    assert abs(table.loc["mu", "mean"] - mean) < 4 * table.loc["mu", "mcse_mean"]
    # a flip is there only after tails
    flips = run.draws
    assert np.array_equal(np.isnan(flips["flip[1]"]), flips["flip[0]"] == 1)
    assert abs(table.loc["flip[1]", "present"] - (1 - exact[0])) < 0.05
    assert run.verdict.ok, run.verdict


@pytest.mark.slow
def test_repeats_within_structures():
    """A repeat of a kernel that learns is taken to other values, and what it has learnt with it."""
    run = gibbsite.model(tails, X).sample(
        schedule="Structure flip > 2 x NUTS mu", draws=400, warmup=50, chains=2, seed=3
    )
    n = np.arange(60)
    exact = 0.65 * 0.35**n * stats.norm(n, np.hypot(0.5, 0.6)).pdf(X)
    row = run.summary().loc["mu"]
    mean = (exact / exact.sum()) @ (X - n) * 0.25 / (0.25 + 0.36)
    assert abs(row["mean"] - mean) < 4 * row["mcse_mean"]


def test_all_chains_get_room_for_a_site_that_becomes_known():
    def switched(x):
        mu = sample("mu", dist.Normal())
        shift = sample("shift", dist.Normal()) if sample("on", dist.Bernoulli(0.5)) else 0.0
        sample("x", dist.Normal(mu + shift, 0.6), obs=x)

    structured = gibbsite.model(switched, X).structured
    off, on = (structured.way_of({"on": i}) for i in range(2))
    fewer, more = structured.plan([off], None).kernel, structured.plan([off, on], None).kernel
    before, expected = fewer.template(3), more.template(3)
    assert "shift" in expected.z.keys() - before.z.keys()
    wide = more.widened(
        before._replace(index=np.zeros(3), z={n: np.ones(v.shape) for n, v in before.z.items()})
    )
    assert {n: (v.shape, v.dtype) for n, v in wide.z.items()} == {
        n: (v.shape, v.dtype) for n, v in expected.z.items()
    }
    assert (wide.z["mu"] == 1).all() and not wide.z["shift"].any()


@pytest.mark.slow
def test_what_is_known_at_the_beginning_changes_no_draw(run, tmp_path):
    known = [{f"flip[{i}]": int(i == n) for i in range(n + 1)} for n in (2, 1)]
    other = gibbsite.model(tails, X).sample(
        draws=600, warmup=50, chains=2, seed=3, structures=known, chunk=37
    )
    assert same(other.draws, {n: v[:, :600] for n, v in run.draws.items()})
    # stopped, saved, loaded, resumed
    other.save(tmp_path / "run")
    loaded = gibbsite.load(tmp_path / "run")
    assert same(loaded.draws, other.draws)
    assert repr(loaded.structures) == repr(other.structures)
    back = gibbsite.load(tmp_path / "run", model=gibbsite.model(tails, X))
    back.resume(draws=400)
    assert same(back.draws, run.draws)
    back.extend("ess>1500", max_draws=20_000)
    worst = min(min(s.ess_bulk, s.ess_tail) for s in back._monitor.worst(back.kept))
    assert 1000 < back.kept.sampled.steps < 20_000 and worst > 1500


@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_store(run, tmp_path, monkeypatch):
    """What was on disk before a structure became known and after it, in the journal: both go on, with the
    draws of a run that was never killed. Every other step is a draw."""
    monkeypatch.setattr("gibbsite.sampling.execution._STORE_SHARE", math.inf)
    options = {"draws": 250, "warmup": 50, "chains": 2, "seed": 3, "thin": 2}
    counts = []

    def copied(one):
        counts.append(len(one._entries))
        one._committing.settle()
        if one.kept.sampled.steps in (30, 240):
            shutil.copytree(tmp_path / "run", tmp_path / f"at {one.kept.sampled.steps}", dirs_exist_ok=True)

    model = gibbsite.model(tails, X)
    run_stored = model.start(**options, store=str(tmp_path / "run"), chunk=30)
    run_stored.subscribe(copied)
    run_stored.wait()
    assert counts[-1] > counts[0]
    assert same(run_stored.draws, {n: v[:, 1:500:2] for n, v in run.draws.items() if n in run_stored.draws})
    gibbsite.verify(tmp_path / "run")
    assert same(gibbsite.load(tmp_path / "run").draws, run_stored.draws)
    tree = xr.open_zarr(tmp_path / "run" / "draws.zarr", group="posterior", consolidated=False)
    assert tree.sizes["draw"] == 250 and tree.sizes["chain"] == 2
    for steps in (30, 240):
        back = gibbsite.load(tmp_path / f"at {steps}", model=gibbsite.model(tails, X))
        assert back.kept.sampled.steps == steps
        back.resume()
        assert same(back.draws, run_stored.draws)
    # a script that is run again finds all done, and goes on where it asks for more
    again = gibbsite.model(tails, X).sample(**options, store=str(tmp_path / "run"), resume="auto")
    assert again.kept.sampled.steps == 250 and same(again.draws, run_stored.draws)
    with pytest.raises(CheckpointError, match="thin=2"):
        model.sample(**{**options, "thin": 1}, store=str(tmp_path / "run"), resume="auto")


def counted(x, most=3.0):
    n = sample("n", dist.Poisson(0.2))
    mu = sample("mu", dist.Normal(0.0, 1.0))
    sample("x", dist.Normal(mu * most if n > 6 else mu, 1.0), obs=x)


def _otherwise():
    def counted(x, most=3.0):
        n = sample("n", dist.Poisson(0.2))
        mu = sample("mu", dist.Normal(0.0, 1.0))
        sample("x", dist.Normal(mu * most + 1.0 if n > 6 else mu, 1.0), obs=x)

    return counted


counted_otherwise = _otherwise()


def listed(x):
    n = sample("n", dist.Poisson(2.0))
    sample("x", dist.Normal([0.0, 1.0][n], sample("s", dist.HalfNormal(1.0))), obs=x)


@pytest.mark.slow
def test_another_model_is_one_before_its_structures_are_met(tmp_path):
    """What had changed in a structure that no chain had proposed yet was accepted."""
    options = {"draws": 10, "warmup": 5, "chains": 1, "seed": 1, "store": str(tmp_path / "run")}
    gibbsite.model(counted, X).sample(**options)
    again = gibbsite.model(counted, X).sample(**{**options, "draws": 12}, resume="auto")
    assert again.kept.sampled.steps == 12 and (again.draws["n"] < 6).all()
    with pytest.raises(CheckpointError, match="of another model"):
        gibbsite.model(counted_otherwise, X).sample(**{**options, "draws": 14}, resume="auto")


def test_an_error_of_the_model_names_its_structure():
    with pytest.raises(IndexError) as caught:
        gibbsite.model(listed, X).sample(draws=400, chains=2, seed=1)
    assert any(note.startswith("where n = ") for note in caught.value.__notes__)


@pytest.mark.slow
def test_chains_start_where_they_are_told():
    model = gibbsite.model(tails, X)
    init = {"flip[0]": 0, "flip[1]": [1, 0], "flip[2]": 1, "mu": [0.25, -0.5]}
    starts = model.structured.starts(settings_for(chains=2), init)
    assert [len(way) for way, _ in starts] == [2, 3]
    assert [float(values["mu"]) for _, values in starts] == [0.25, -0.5]
    run = model.start(draws=1, warmup=0, chains=2, init=init, chunk=1)
    run.wait()
    begun, _ = run._engine.begin(0, 0, np.array([0, 1]), {"mu": np.array([0.25, -0.5])}, {"mu": [True, True]})
    assert np.array_equal(begun.z["mu"], np.float32([0.25, -0.5]))
    for wrong, told in (
        ({"flip[0]": 2}, "cannot be 2"),
        ({"nu": 1.0}, "no chain"),
        ({"mu": [1.0] * 3}, "shape"),
    ):
        with pytest.raises(OptionError, match=told):
            model.sample(chains=2, init=wrong)


@pytest.mark.slow
def test_the_tree_of_data_masks_what_is_absent(run):
    tree = run.to_datatree()
    assert np.isnan(tree["posterior"]["flip[2]"].values).any()
    index = tree["sample_stats"]["structure"]
    assert index.attrs["names"][0] == run.structures[0].name
    assert (index.values == 0).mean() == pytest.approx(run.structures[0].probability)


def test_what_is_no_option_or_schedule_is_told():
    model = gibbsite.model(tails, X)
    with pytest.raises(ArgumentError, match="no option 'keep'"):
        model.sample(keep="mu")
    with pytest.raises(OptionError, match=r"'flip\[1\]' is asked for where flip\[0\] = 0"):
        model.structure({"flip[0]": 0})
    with pytest.raises(ScheduleError, match="Structure flip > "):
        model.schedule("NUTS mu")
    with pytest.raises(ScheduleError, match="not for 'mu'"):
        model.schedule("Structure mu")
    assert model.schedule("Structure flip > NUTS mu").text == "Structure flip > NUTS mu"
    told = str(model.schedule())
    assert "where flip[0] = 1:" in told and "mu integrated out, then drawn exactly" in told
    one = model.structure({"flip[0]": 0, "flip[1]": 1})
    assert one.conditional("mu").kind == "conjugate"
    assert {"flip[0]", "mu", "x"} <= set(model.graph.nodes)


@pytest.mark.slow
def test_a_run_that_is_too_short_is_told_to_draw_more():
    """Other cures change a schedule, which each structure has of its own."""
    short = gibbsite.model(tails, X).sample(draws=60, warmup=20, chains=2, seed=5)
    assert 0 < short.snapshot().compile_seconds < short.elapsed
    assert not short.verdict.ok
    found = cures(short)
    assert all(c.draws for c in found)
    clinic = Clinic(short, lambda: None)
    clinic.work()
    assert [c["words"] for c in clinic.told()["cures"]] == [c.words for c in found]
