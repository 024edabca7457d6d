"""What a run shows while it goes on: warm-up, thinned series, the time of its blocks."""

import threading

import gibbsite
import numpy as np
import pytest
from gibbsite.diagnostics.measures.thinned import Thinned
from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.sampling import Run
from gibbsite.sampling.engine import timing
from gibbsite.sampling.engine.timing import BlockClock

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": SCHEDULE}


@pytest.mark.parametrize("most", [2, 7, 50])
@pytest.mark.parametrize("cuts", [1, 13, 997])
def test_a_thinned_series_is_all_of_it_however_it_came(most, cuts):
    x = np.random.default_rng(0).normal(size=(3, 997, 2))
    whole, thinned = x[:, :, 1], Thinned(most)
    for part in np.array_split(x, cuts, axis=1):
        thinned.add(part)
        assert thinned.view((1,)).draw.size <= most
    view = thinned.view((1,))
    assert thinned.steps == 997 and view.draw.size >= min(most - 1, 997) / 2 - 1
    np.testing.assert_array_equal(view.values, whole[:, view.draw])
    np.testing.assert_array_equal(view.low, np.minimum.reduceat(whole, view.draw, axis=1))
    np.testing.assert_array_equal(view.high, np.maximum.reduceat(whole, view.draw, axis=1))


def test_a_series_with_gaps():
    thinned = Thinned(4)
    thinned.add(np.array([[1.0, np.nan, 2.0, 3.0, 4.0, 5.0]]))
    view = thinned.view()
    assert np.isnan(view.low[0, 0]) and view.low[0, 1] == 2.0 and view.high[0, -1] == 5.0


@pytest.mark.slow
def test_warm_up_is_seen_from_its_first_steps_and_never_counted(model, whole):
    seen = []
    look = lambda r: seen.append((r.status, r.warmup_labels)) if r.status == "warmup" else None  # noqa: E731
    run = model.sample(**OPTIONS, chunk=2, on_start=lambda r: r.subscribe(look))
    labels = run.warmup_labels
    assert labels[:2] == ("w[0]", "p[0]") and set(labels) > {"w[1]", "z[11]", "gap"}
    assert any(known == labels for _, known in seen)
    assert run.warmup_trace("p[1]").draw.size == 40
    kept = model.sample(**OPTIONS, keep_warmup=True)
    warm = kept.to_datatree()["warmup_posterior"]
    np.testing.assert_array_equal(run.warmup_trace("p[1]").values, warm["p"].values[:, :, 1])
    np.testing.assert_array_equal(run.warmup_trace("z[3]").values, warm["z"].values[:, :, 3])
    for name, v in whole.draws.items():
        np.testing.assert_array_equal(run.draws[name], v)
    with pytest.raises(UnknownNameError, match="trace of warm-up named 'q'"):
        run.warmup_trace("q")


@pytest.mark.slow
def test_long_runs_measure_their_blocks_between_chunks_and_draw_the_same(model, whole, monkeypatch):
    monkeypatch.setattr(timing, "_SHARE", 1e6)
    never = threading.Event()
    wait = lambda r: never.wait(0.05) if r._engine.block_programs is None else None  # noqa: E731
    run = model.sample(**OPTIONS, chunk=1, on_start=lambda r: r.subscribe(wait))
    if (
        run.snapshot().blocks[0].seconds_share is None
    ):  # compiling took too long: the next run has the programs
        run._engine.compile_blocks({"_gibbsite_inputs": run._plan.inputs}, run._state.block_states)
        run = model.sample(**OPTIONS, chunk=1)
    shares = [b.seconds_share for b in run.snapshot().blocks]
    assert sum(shares) == pytest.approx(1) and min(shares) > 0
    for name, v in whole.draws.items():
        np.testing.assert_array_equal(run.draws[name], v)


def test_blocks_are_measured_within_their_share_of_the_time():
    class Engine:
        block_programs, compile_seconds, asked = None, 3.0, 0

        def compile_blocks(self, kwargs, states):
            self.asked += 1

    clock, engine = BlockClock(2), Engine()
    assert not clock.due(engine, {}, (), 299.0)
    assert engine.asked == 0 and clock.shares is None
    assert not clock.due(engine, {}, (), 301.0) and not clock.due(engine, {}, (), 302.0)
    assert engine.asked == 1
    clock.fix([1.0, 3.0])
    assert clock.shares == (0.25, 0.75)
    assert BlockClock(1).shares == (1.0,)


def test_advice_about_a_runs_warnings(model, whole):
    topics = [n.topic for n in whole.snapshot().warnings]
    assert topics == ["rhat", "renamed"]  # 60 draws are few; all chains have one labelling of the mixture
    assert whole.advice().startswith("R-hat above 1.01\n\n") and "run.extend(" in whole.advice()
    back = Run(whole._plan, None, whole.settings)
    assert back.advice() == "There are no warnings."


def test_a_summary_of_nothing_and_options_that_there_are_none_of(model, whole, tmp_path):
    run = model.start(**OPTIONS | {"warmup": 10**6}, store=tmp_path / "run")
    run.stop()
    run.wait()
    for empty in (run, gibbsite.load(tmp_path / "run")):
        with pytest.raises(OptionError, match="no draws after warm-up yet"):
            empty.summary()
    with pytest.raises(TypeError, match=r"summary has no option 'var_name'.*did you mean 'var_names'"):
        whole.summary(var_name=["w"])
    assert len(whole.summary(var_names=["w"])) == 2
