"""The course of a run as stages of its plots, and the page that has them."""

import json
import zlib

import numpy as np
import pytest
from gibbsite.views.host.wire import listed
from gibbsite.views.plots import bokeh
from gibbsite.views.plotted import plot_run
from gibbsite.views.run.content import gather
from gibbsite.views.run.convergence import rows_of
from gibbsite.views.run.replay import STAGES, stages_of


@pytest.fixture
def advanced(run):
    run.warm_up(120)
    for _ in range(20):
        run.advance(50)
    return run


def drawn(rows):
    return [(type(m), m.table, m.group, m.colour) for row in rows for plot in row for m in plot.marks]


def test_stages_have_the_plots_of_the_live_view(advanced, make_run):
    content = gather(advanced, None)
    stages = stages_of(advanced, content)
    assert len(stages) == STAGES
    names = [plot.name for row in rows_of(content, 3) for plot in row]
    for stage in stages:
        assert [plot.name for row in stage.rows for plot in row] == names
        assert drawn(stage.rows) == drawn(rows_of(content, 3))
    # what a live view would have been told when there were so many draws
    then = make_run()
    then.advance(577)
    live = gather(then, [p.label for p in content.parameters], points=26)
    stage = next(s for s in stages if s.title.startswith("577 of"))
    for i in range(3):
        for name in (f"ranks{i}", f"acf{i}"):
            shown, told = bokeh.columns(stage.rows)[name], bokeh.columns(rows_of(live, 3))[name]
            assert set(shown) == set(told)
            for column in told:
                np.testing.assert_array_equal(shown[column], told[column])


def test_warm_up_is_told_as_such(advanced):
    first, *_, last = stages_of(advanced, gather(advanced, None))
    assert "warm-up" in first.title and "these steps are no draws" in first.html
    assert first.rows[0][0].ground and not first.rows[0][1].visible
    assert "ESS" in last.html and last.rows[-1][0].visible


def test_columns_are_listed_to_what_a_plot_shows():
    assert listed([0.0, 12.34567, np.nan, np.inf]) == [0.0, 12.35, None, None]
    assert listed([1.00012342, 1.00098768]) == [1.0001234, 1.0009877]
    assert listed(np.array([3, 4])) == [3, 4] and listed(["a", "b"]) == ["a", "b"] and listed([]) == []
    assert listed([2.5, 2.5]) == [2.5, 2.5] and listed([1e9, 3e9]) == [1e9, 3e9]


def test_a_page_with_a_course_stays_small(make_run):
    run = make_run(chains=8, labels=[f"mu[{i}]" for i in range(24)])
    for _ in range(200):
        run.advance(10)
    stages = stages_of(run, gather(run, None))
    packed = zlib.compress(json.dumps(bokeh._course(stages)).encode(), 9)
    assert len(packed) < 350_000, len(packed)


@pytest.mark.slow
def test_a_picture_makes_stages_only_for_a_page(advanced, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("gibbsite.views.plotted.stages_of", lambda *a: asked.append(a) or stages_of(*a))
    picture = plot_run(advanced)
    picture.save(tmp_path / "run.svg")
    assert not asked
    page = picture.save(tmp_path / "run.html").read_text(encoding="utf-8")
    assert len(asked) == 1 and "gb-player" in page


def test_a_run_without_draws_has_no_course(run):
    assert plot_run(run).courses == {}
