"""The posterior in a dashboard and in pictures, on a simulated run."""

import json
import re
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import GlyphRenderer
from gibbsite.errors import ExpressionError, OptionError, UnknownNameError
from gibbsite.sampling.derived.interval import Interval
from gibbsite.sampling.derived.marginals import (
    Forest,
    Marginal,
    Strip,
    elements,
    explained,
    marginal,
    places,
    ribbon,
    with_prior,
)
from gibbsite.views.plots import bokeh
from gibbsite.views.plots.plot import axes
from gibbsite.views.plotted import plot_run
from gibbsite.views.posterior.gather import gather_posterior
from gibbsite.views.posterior.marginals import plot_of, told
from gibbsite.views.run_dashboard import Dashboard
from helpers.pages.fakes import FakeRun

RNG = np.random.default_rng(2)
ETI = Interval(0.89, "eti")
NORMAL = RNG.normal(size=(3, 500))
SHOWN = {
    "density": with_prior(marginal("mu", "mu", NORMAL, ETI), RNG.normal(0, 3, 2000)),
    "bars": marginal("tau", "tau", RNG.poisson(3, (3, 500)), ETI),
    "named": marginal("coin", "coin", RNG.integers(0, 3, (3, 500)), ETI, ("<penny>", "dime", "nickel")),
    "named strip": elements("z", RNG.integers(0, 2, (3, 500, 4)), list("abcd"), ETI, ("no", "yes")),
    "two runs": marginal("mu", "mu", NORMAL, ETI, beside=NORMAL + 4),
    "two runs of counts": marginal("k", "k", RNG.poisson(3, (3, 500)), ETI, beside=RNG.poisson(9, (2, 90))),
    "two forests": elements("t", RNG.normal(size=(3, 50, 2)), ["a", "b"], ETI, (), np.full((2, 60, 2), 8.0)),
    "event": marginal("tau > 2", "tau > 2", NORMAL > 0, ETI),
    "constant": marginal("c", "c", np.ones((3, 500)), ETI),
    "not finite": marginal("lost", "lost", np.full((3, 50), np.nan), ETI),
    "forest": elements("theta", RNG.normal(size=(3, 500, 5)), ["<a>", "b", "c", "d", "e"], ETI),
    "long forest": elements("beta", RNG.normal(size=(2, 50, 90)), [f"beta[{i}]" for i in range(90)], ETI),
    "upright strip": elements("z", RNG.integers(0, 3, (3, 500, 4)), list("abcd"), ETI),
    "ribbon": ribbon(
        "level", RNG.normal(size=(2, 50, 30)), [f"{k}" for k in range(30)], ETI, np.arange(30.0)
    ),
    "ribbons of two runs with data": ribbon(
        "age",
        RNG.normal(size=(2, 50, 30)),
        [f"<{k}>" for k in range(30)],
        ETI,
        np.arange(30.0) + 60,
        RNG.normal(size=30),
        RNG.normal(size=(2, 60, 30)),
    ),
    "strip": elements("z", RNG.integers(0, 3, (2, 50, 400)), [f"z[{i}]" for i in range(400)], ETI),
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", SHOWN)
def test_each_plot_has_both_renderings(kind, large):
    plot = plot_of(SHOWN[kind], "p", large=large)
    for table in plot.tables.values():
        assert len({len(column) for column in table.values()}) == 1
    picture = axes(plot, 300).render()
    assert "nan" not in picture.lower()
    ElementTree.fromstring(f"<svg>{picture}</svg>")
    document = Document()
    rows = ((plot,),)
    document.add_root(bokeh.layout(rows))
    for name, columns in bokeh.columns(rows).items():
        assert set(columns) == set(document.get_model_by_name(name).data)
    for name, props in bokeh.props(rows).items():
        document.get_model_by_name(name).update(**props)
    drawn = list(document.roots[0].select({"type": GlyphRenderer}))
    assert len(drawn) == len(plot.marks)
    json.dumps(bokeh.props(rows), allow_nan=False)


def test_two_runs_share_their_plots():
    """Both are in sight, each with the mass that it has; nobody's chains are among them."""
    mu, forest = SHOWN["two runs"], SHOWN["two forests"]
    assert isinstance(mu, Marginal) and isinstance(forest, Forest) and mu.other is not None
    step = mu.x[1] - mu.x[0]
    centres = [float((mu.x * y).sum() * step) for y in (mu.y, mu.other)]
    np.testing.assert_allclose(centres, [NORMAL.mean(), NORMAL.mean() + 4], atol=0.1)
    plot = plot_of(mu, "p")
    assert not any(mark.group for mark in plot.marks) and "stroke-dasharray" in axes(plot, 300).render()
    assert plot_of(forest, "p").x.high > 8


def test_a_run_is_plotted_beside_another():
    one, two = advanced(FakeRun()), advanced(FakeRun(labels=("mu[0]", "mu[1]", "mu[2]", "v[0]")))
    found = plot_run(one, beside=two)
    assert "solid: " in found.svg and "dashed" in repr(found)
    shown = gather_posterior(one, beside=two).shown
    assert [isinstance(s, Forest) and s.other is not None for s in shown] == [True, False]
    with pytest.raises(OptionError, match="posterior view alone"):
        plot_run(one, view="convergence", beside=two)


def test_labels_of_values_stand_in_their_place():
    coin, strip = SHOWN["named"], SHOWN["named strip"]
    assert isinstance(coin, Marginal) and isinstance(strip, Strip)
    plot = plot_of(coin, "p", large=True)
    assert plot.x.ticks == ((0.0, "<penny>"), (1.0, "dime"), (2.0, "nickel"))
    assert re.fullmatch(r"coin: (<penny>|dime|nickel) 0\.\d\d", plot.title)
    assert "&lt;penny&gt;" in axes(plot, 300).render() and "median" not in told(coin)
    assert [words for _, words in plot_of(strip, "p").x.ticks or ()] == ["no", "yes"]
    assert {tip for mark in plot_of(strip, "p", large=True).marks for tip in mark.tip} >= {
        ("value", "@value")
    }


def advanced(run, draws=1000):
    for _ in range(draws // 50):
        run.advance(50)
    return run


def heard(dashboard, kind, **detail):
    dashboard.widget._control._receive(None, {"kind": kind, **detail}, [])
    dashboard.refresh()


def test_posterior_is_the_default_once_the_run_has_converged(run, monkeypatch):
    view = Dashboard(advanced(run, 2000))
    assert view.widget._status["view"] == "convergence"
    real = run.snapshot

    def converged(limit=20):
        shot = real(limit)
        return SimpleNamespace(
            **{**vars(shot), "verdict": SimpleNamespace(ok=True, state="converged", reasons=(), notes=())}
        )

    monkeypatch.setattr(run, "snapshot", converged)
    view.refresh()
    assert view.widget._status["view"] == "posterior"
    assert view.widget._status["words"] == "finished, converged"
    assert view.widget._status["verdict"].startswith("Converged: every R-hat")
    heard(view, "view", view="convergence")
    assert view.widget._status["view"] == "convergence"
    heard(view, "view", view="<script>")
    assert view.widget._status["view"] == "convergence"


def test_nothing_is_gathered_while_nobody_looks(run):
    view = Dashboard(advanced(run))
    view.refresh()
    assert view.widget._posterior == {} and "gibbsite" not in str(view.widget._focus)
    heard(view, "view", view="posterior")
    told = view.widget._posterior
    assert [card["label"] for card in told["cards"]] == ["mu", "w"]
    assert [row["label"] for row in told["cards"][0]["rows"]] == ["mu[0]", "mu[1]", "mu[2]"]
    assert all(0 < row["at"] < 1 for row in told["cards"][0]["rows"])
    assert len(json.dumps(told)) < 60_000


def test_a_click_plots_large_and_a_second_pairs(run):
    view = Dashboard(advanced(run))
    heard(view, "view", view="posterior")
    assert view.widget._focus == {"item": "", "key": ""}
    heard(view, "focus", label="mu[0]")
    one = view.widget._focus
    assert one["item"] and view.widget._posterior["focus"] == ["mu[0]"]
    run.advance(50)
    view.refresh()
    assert view.widget._focus == one  # more draws are columns, no new layout
    heard(view, "focus", label="w[1]")
    assert view.widget._focus["key"] != one["key"]
    pair = gather_posterior(run, ("mu[0]", "w[1]")).pair
    assert pair is not None and pair.labels == ("mu[0]", "w[1]")
    marks = run.divergent
    np.testing.assert_array_equal(pair.diverged_x, run.values("mu[0]")[1, marks])
    np.testing.assert_array_equal(pair.diverged_y, run.values("w[1]")[1, marks])
    heard(view, "focus", label="mu[0]")
    assert view.widget._posterior["focus"] == ["w[1]"]
    heard(view, "focus", label="nu")  # somebody's own message
    assert view.widget._posterior["focus"] == []


def test_an_expression_is_added_or_told_where_it_fails(run, monkeypatch):
    asked = []

    def derive(text):
        asked.append(text)
        if "nu" in text:
            raise ExpressionError("no site is called 'nu'", text, 5, 2)

    monkeypatch.setattr(run, "derive", derive, raising=False)
    view = Dashboard(advanced(run))
    before = view.widget._status["answered"]
    heard(view, "derive", text="mu - nu")
    note = view.widget._status["expression_note"]
    assert note == {"sentence": "no site is called 'nu'", "text": "mu - nu", "at": 5, "length": 2}
    heard(view, "derive", text="mu[1] - mu[0]")
    assert view.widget._status["expression_note"] == {} and view.widget._status["answered"] == before + 2
    assert asked == ["mu - nu", "mu[1] - mu[0]"]


def test_the_view_is_saved_as_it_is(run):
    view = Dashboard(advanced(run))
    heard(view, "save", format="svg")
    file = view.widget._file
    assert file["name"] == "mixture-convergence" and "autocorrelation" in file["svg"]
    heard(view, "view", view="posterior")
    heard(view, "save", format="png")
    file = view.widget._file
    assert file["id"] == 2 and "mu: median" in file["svg"] and "autocorrelation" not in file["svg"]
    ElementTree.fromstring(file["svg"])


def test_run_plot_is_one_picture(run, tmp_path):
    advanced(run)
    overview = plot_run(run)
    assert "mu: median" in overview.svg and "nan" not in re.sub("finance", "", overview.svg)
    pair = plot_run(run, "mu[0]", "w[1]")
    assert "w[1] against mu[0]" in pair.svg and "mixture" in repr(pair)
    assert set(pair._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "ranks" in plot_run(run, "mu[2]", view="convergence").svg
    assert pair.save(tmp_path / "pair.svg").read_text().startswith("<svg")
    with pytest.raises(OptionError):
        pair.save(tmp_path / "pair.pdf")
    with pytest.raises(OptionError):
        plot_run(run, view="prior")
    with pytest.raises(OptionError):
        plot_run(run, "mu[0]", "mu[1]", "w[0]")
    with pytest.raises((UnknownNameError, KeyError)):
        plot_run(run, "nu")


def test_what_has_an_order_is_a_ribbon():
    """Years, months and time are; groups are not, in whatever order they stand."""
    walk = np.cumsum(RNG.normal(size=40)) + 0.1 * RNG.normal(size=(2, 50, 40))
    apart = 3 * RNG.normal(size=40) + 0.1 * RNG.normal(size=(2, 50, 40))
    plain, years = [f"level[{i}]" for i in range(40)], [str(1900 + 2 * i) for i in range(40)]
    months = [f"{2018 + i // 12}-{i % 12 + 1:02d}" for i in range(40)]
    np.testing.assert_array_equal(places(years, apart), 1900.0 + 2 * np.arange(40))
    found = places(months, apart)
    assert found is not None and set(np.diff(found)) == {28, 29, 30, 31}
    np.testing.assert_array_equal(places(plain, walk), np.arange(40))
    assert places(plain, apart) is None and places(plain, apart, in_time=True) is not None
    assert places([f"county {i}" for i in range(40)], walk) is None
    assert places(years[::-1], walk) is None and places(years, walk[..., None]) is None
    assert places(years[:5], walk[..., :5]) is None
    data = np.median(walk, axis=(0, 1)) + 0.1
    assert 0.9 < explained(walk, data) < 1 and explained(walk, data + 100) < 0 > explained(
        walk, np.exp(5 * data)
    )


def test_titles_end_where_the_next_plot_begins():
    plot = plot_of(marginal("a" * 300, "mu", NORMAL, ETI), "card")
    drawn = axes(plot, 290).render()
    title = re.search(r'font-weight="600"[^>]*>([^<]*)<', drawn)
    assert title is not None and len(title[1]) < 290 / 6 and re.fullmatch("a+…a+: mean -?0.0[0-9]+", title[1])


def test_titles_keep_their_numbers_whatever_the_name():
    found = marginal("measurement_error_standard_deviation", "s", 4.7 + 0.1 * NORMAL, ETI)
    title = re.search(r'font-weight="600"[^>]*>([^<]*)<', axes(plot_of(found, "card0"), 290).render())
    assert title is not None and re.fullmatch(r"measurement\w*…\w+: mean 4\.\d+", title[1])
    rows = elements("regional_deviation_from_the_population_average", RNG.normal(size=(2, 50, 3)), "abc", ETI)
    assert re.fullmatch(r"regional_\w+…\w+: (median, )?89 % ETI", plot_of(rows, "card1").title)
    short = marginal("error", "s", 4.7 + 0.1 * NORMAL, ETI)
    assert re.fullmatch(r"error: mean 4\.\d+ \(4\.5\d* to 4\.8\d*\)", plot_of(short, "card2").title)


def test_what_is_only_there_in_some_draws_is_told_of_these():
    values = np.where(np.arange(500) % 4 == 0, 2 + NORMAL, np.nan)
    found = marginal("b", "b", values, ETI)
    assert found.there == 0.25 and found.mean == pytest.approx(np.nanmean(values))
    assert plot_of(found, "card0").title.endswith(", 25% there") and np.all(np.isfinite(found.chains))
    assert "where it is there (25% of the draws)" in plot_of(found, "focus0", large=True).title


def test_means_are_of_all_draws():
    """As in tables, whose errors are those of all: what is drawn is of some."""
    values = RNG.normal(size=(2, 300_000))
    assert marginal("mu", "mu", values, ETI).mean == pytest.approx(values.mean(), abs=1e-12)
