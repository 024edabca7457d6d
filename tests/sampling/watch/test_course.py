"""The moments that a run went through, from its draws."""

import numpy as np
import pytest
from gibbsite.diagnostics.measures.convergence import scalar_stat
from gibbsite.sampling.watch import course as of_courses
from gibbsite.sampling.watch.course import course
from helpers.pages.fakes import FakeRun

LABELS = ("mu[0]", "w[1]")


@pytest.fixture
def run():
    run = FakeRun()
    run.advance(800)
    return run


def test_each_moment_knows_the_draws_until_then_alone(run):
    moments = course(run, LABELS, 8)
    assert [m.draws for m in moments] == [100, 200, 300, 400, 500, 600, 700, 800]
    third = moments[2]
    np.testing.assert_array_equal(third.values("mu[0]"), run.series["mu[0]"][:, :300])
    assert third.divergent.tolist() == [40] and moments[-1].divergent.tolist() == [40, 300, 310]
    trace = third.trace("mu[0]", 50)
    assert trace.draw[-1] < 300 and len(trace.draw) <= 50
    assert trace.high.max() == run.series["mu[0]"][:, :300].max()
    snapshot = third.snapshot(9)
    assert (snapshot.status, snapshot.draws_done, snapshot.draws_total) == ("sampling", 300, 800)


def test_measures_are_those_of_the_draws_until_then(run):
    moments = course(run, LABELS, 8)
    history = moments[4].history()
    assert history.draw.tolist() == [100, 200, 300, 400, 500] and set(history.rhat) == set(LABELS)
    for k, n in enumerate(history.draw):
        alone = scalar_stat("x", "x", (), run.series["mu[0]"][:, :n])
        assert (history.rhat["mu[0]"][k], history.ess["mu[0]"][k]) == (alone.rhat, alone.ess_bulk)
    worst = moments[4].snapshot(1).scalars
    assert [s.label for s in worst] == ["mu[0]"] and worst[0].mean == run.series["mu[0]"][:, :500].mean()


def test_measures_of_long_runs_come_from_moments(run, monkeypatch):
    exact = course(run, LABELS, 8)[-1].snapshot(9).scalars
    monkeypatch.setattr(of_courses, "_NUMBERS", 1000)
    found = course(run, LABELS, 8)[-1].snapshot(9).scalars
    for one, other in zip(exact, found, strict=True):
        assert one.label == other.label and other.mean == pytest.approx(one.mean)
        assert other.rhat == pytest.approx(one.rhat, abs=0.05) and not np.isfinite(other.ess_tail)
        assert 0.4 < other.ess_bulk / one.ess_bulk < 2.5


def test_superchains_count_in_every_measure(run):
    run.superchains = np.array([0, 0, 1, 1])
    last = course(run, LABELS, 4)[-1].snapshot(9).scalars
    found = next(s for s in last if s.label == "mu[0]")
    assert found.rhat == scalar_stat("x", "x", (), run.series["mu[0]"][:, :800], run.superchains).rhat
    assert found.rhat != scalar_stat("x", "x", (), run.series["mu[0]"][:, :800]).rhat


def test_warm_up_comes_first_where_it_is_known():
    run = FakeRun()
    run.warm_up(120)
    run.advance(800)
    moments = course(run, LABELS, 10)
    first, last, *rest = (moments[k] for k in (0, 5, 6, 9))
    assert [m.snapshot(9).status for m in (first, last, *rest)] == [
        "warmup",
        "warmup",
        "sampling",
        "sampling",
    ]
    assert len(first.warmup_trace("mu[0]").draw) == 20 and len(last.warmup_trace("mu[0]").draw) == 120
    assert first.snapshot(9).warmup_done == 167 and first.snapshot(9).scalars == ()
    assert [m.draws for m in rest] == [200, 800]


def test_few_draws_have_few_moments():
    run = FakeRun()
    run.advance(3)
    assert [m.draws for m in course(run, LABELS, 32)] == [2, 3]
