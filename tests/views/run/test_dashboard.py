"""Content, words, pictures and the dashboard, on a simulated run."""

import html.parser
import inspect
import json
import re
import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import gibbsite
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from bokeh.document import Document
from gibbsite.diagnostics.modes import found, moves, renamed
from gibbsite.diagnostics.verdict import notices, rounding, stake
from gibbsite.diagnostics.verdict.advice import advice, sections
from gibbsite.errors import ModelError, UnknownNameError
from gibbsite.sampling.warm import warming
from gibbsite.views import dashboard
from gibbsite.views.host import wire
from gibbsite.views.plots import bokeh
from gibbsite.views.report import write_report
from gibbsite.views.run import words
from gibbsite.views.run.content import MAX_CHAINS, MAX_POINTS, choose, gather
from gibbsite.views.run.convergence import empty_rows, rows_of
from gibbsite.views.run.picture import dashboard_svg
from gibbsite.views.run.status import advice_html
from gibbsite.views.run_dashboard import SLOT_COUNT, Dashboard


def advanced(run, draws=1000, step=50):
    for _ in range(draws // step):
        run.advance(step)
    return run


def test_chosen_are_the_worst_and_do_not_flicker():
    ranking = list("abcdefgh")
    assert choose((), ranking, 3) == ("a", "b", "c")
    assert choose(("a", "c", "b"), ranking, 3) == ("a", "c", "b")
    assert choose(("b", "e", "f"), ranking, 3) == ("a", "b", "e")
    assert choose(("x", "y", "z"), ranking, 3) == ("a", "b", "c")
    assert choose(("a",), ["a"], 3) == ("a",)


def test_plots_go_round_the_sites(run):
    content = gather(advanced(run), None)
    assert [p.label for p in content.parameters] == ["mu[0]", "w[0]", "mu[1]"]


def test_content_is_bounded_whatever_the_length(make_run):
    content = gather(advanced(make_run(chains=12, total=20_000), 20_000, 100), None)
    assert content.marks.size <= 200
    for parameter in content.parameters:
        assert parameter.values.shape[0] == MAX_CHAINS
        assert parameter.draw.size <= MAX_POINTS
        assert np.any(parameter.low < parameter.high)  # points stand for several draws each
    sent = bokeh.columns(rows_of(content, SLOT_COUNT))
    columns = [c for cols in sent.values() for c in wire.encode(cols).values()]
    assert sum(8 * len(c) if isinstance(c, list) else len(c["data"]) for c in columns) < 200_000


@pytest.mark.parametrize("draws", [0, 1, 2, 50, 2000])
def test_every_source_of_the_layout_is_filled(run, draws):
    if draws:
        run.advance(draws)
    content = gather(run, None)
    document = Document()
    document.add_root(bokeh.layout(empty_rows(4, SLOT_COUNT)))
    titles = document.get_model_by_name("title trace0"), document.get_model_by_name("title ranks0")
    assert all(title.text for title in titles)  # one that begins without text is never drawn
    rows = rows_of(content, SLOT_COUNT)
    for name, columns in bokeh.columns(rows).items():
        source = document.get_model_by_name(name)
        assert set(columns) == set(source.data), name
        assert len({len(c) for c in columns.values()}) == 1, name
    for name, props in bokeh.props(rows).items():
        document.get_model_by_name(name).update(**props)
    json.dumps(bokeh.props(rows), allow_nan=False)


@pytest.mark.parametrize("draws", [0, 1, 2, 50, 2000])
def test_picture_is_wellformed_and_within_bounds(run, draws):
    if draws:
        run.advance(draws)
    picture = dashboard_svg(gather(run, None))
    assert "nan" not in re.sub("finance", "", picture)
    root = ElementTree.fromstring(picture)
    assert root.get("viewBox", "").startswith("0 0 900 ")


def test_words_say_what_the_page_says(run):
    assert "compiling" in words.text(gather(run, None))
    assert "no draws yet" in words.text(gather(run, None))
    told = words.text(gather(advanced(run), None))
    for part in (
        "1\u202f000 of 2\u202f000 draws × 4 chains",
        "mu[0]",
        "1.060",
        "NUTS",
        "accept 0.87",
        "3 divergences",
    ):
        assert part in told
    assert "chain 3 has not moved for 500 draws" in told
    assert "followed, evenly spaced: 2\u202f048 of 84\u202f010 elements of z" in told


def test_an_axis_that_plots_share_is_that_of_those_which_are_seen(run):
    """Whatever slots are empty, of which each has an axis of its own without draws."""
    content = gather(advanced(run), None)
    for count in (1, 2, 3):
        some = replace(content, parameters=content.parameters[:count])
        shown = bokeh.props(rows_of(some, SLOT_COUNT))
        assert shown["draws"]["end"] == content.parameters[0].draw[-1] > 900


def test_what_a_table_leaves_out_is_counted(run):
    content = gather(advanced(run), None)
    many = replace(content, snapshot=replace(content.snapshot, numbers=122))
    listed = len(content.snapshot.scalars)
    assert f"… and {122 - min(listed, 12)} more" in words.text(many)
    assert f"… and {122 - min(listed, 10)} more" in dashboard_svg(many)
    assert "more: run.summary()" not in words.text(
        replace(content, snapshot=replace(content.snapshot, numbers=0))
    )


def test_warm_up_is_plotted_and_not_counted(run):
    view = Dashboard(run)
    run.warm_up(300)
    view.refresh()
    content = view.content
    assert content.warming and [p.label for p in content.parameters] == ["mu[0]", "mu[1]", "mu[2]"]
    assert content.parameters[0].draw.size == 300 and not words.rows(content)
    assert view.widget._status["stage"] and view.widget._status["ready"]
    shown = bokeh.props(rows_of(content, SLOT_COUNT))
    assert shown["axis trace0"] == {"axis_label": "warm-up step"}
    assert shown["title trace0"]["text"].endswith("mu[0]  (warm-up: not counted)")
    assert not shown["plot ranks0"]["visible"] and not shown["row 3"]["visible"]
    ElementTree.fromstring(dashboard_svg(content))
    run.advance(100)
    view.refresh()
    assert not view.content.warming and view.widget._status["stage"] == ""
    shown = bokeh.props(rows_of(view.content, SLOT_COUNT))
    assert shown["plot trace0"]["background_fill_alpha"] == 0 and shown["plot ranks0"]["visible"]
    assert not shown["row 3"]["visible"]  # of one prefix there is no course to plot
    advanced(run, 500)
    view.refresh()
    assert bokeh.props(rows_of(view.content, SLOT_COUNT))["row 3"]["visible"]


def test_blocks_are_measured_when_asked_and_only_after_the_run(run):
    run.timed = False
    view = Dashboard(run)
    assert view.widget._status["timing"] == ""
    advanced(run, 2000)
    view.refresh()
    assert view.widget._status["timing"] == "offered"
    view._heard("time", {})
    view._measure_blocks()
    assert (
        run.timed
        and view.widget._status["timing"] == ""
        and view.widget._status["blocks"][1]["share"] == 0.69
    )


def test_blocks_that_cannot_be_measured(run, monkeypatch):
    def refuse():
        raise ModelError("loaded without its model")

    run.timed = False
    view = Dashboard(advanced(run, 2000))
    monkeypatch.setattr(run, "time_blocks", refuse)
    view._heard("time", {})
    view._measure_blocks()
    assert view.widget._status["timing_note"] == "loaded without its model"
    assert view.widget._status["timing"] == "offered"


def test_every_warning_has_advice_that_needs_no_network():
    tellers = (notices, rounding, found, moves, warming)
    source = "".join(Path(inspect.getfile(module)).read_text() for module in tellers)
    topics = set(re.findall(r'^ +"(\w+)",$|, "(\w+)"(?:\)(?:\]| for )|, \()', source, re.MULTILINE))
    named = {stake.TOPIC, stake.HELD, stake.FORMS, renamed.TOPIC}
    assert {a or b for a, b in topics} | named == set(sections()) - {"failed"}
    for topic in sections():
        assert len(advice(topic)) > 200 and "http" not in advice(topic)
        ElementTree.fromstring(f"<div>{advice_html(topic)}</div>")
    assert advice_html("") == ""
    with pytest.raises(UnknownNameError):
        advice("weather")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.42, "0.4 s"), (12, "12 s"), (185, "3 min 05 s"), (7800, "2 h 10 min"), (None, "–"), (np.inf, "–")],
)
def test_durations(seconds, said):
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0.00"),
        (3.14159, "3.14"),
        (1234.5, "1234"),
        (1e-7, "1.00e-07"),
        (np.nan, "–"),
        (-0.05, "-0.0500"),
    ],
)
def test_numbers(value, said):
    assert words.number(value) == said


def test_columns_survive_the_wire():
    def decoded(column):
        return column if isinstance(column, list) else np.frombuffer(column["data"], column["dtype"])

    rng = np.random.default_rng(0)
    for values in (rng.normal(size=9), np.arange(5), np.arange(3) > 1, 1e9 + rng.normal(size=4), []):
        back = decoded(wire.encode_column(values))
        spread = np.ptp(np.asarray(values, float)) if len(values) else 1
        assert np.allclose(np.asarray(back, float), values, rtol=0, atol=1e-6 * max(float(spread), 1))
    assert decoded(wire.encode_column(["a", "b"])) == ["a", "b"]
    with pytest.raises(ValueError, match="differ in length"):
        wire.encode({"x": [1, 2], "y": [1]})


def test_mime_bundle_has_widget_picture_and_text(run):
    view = dashboard(advanced(run))
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert "data:image/svg+xml;base64," in bundle["text/html"]
    assert "R-hat" in bundle["text/plain"]
    advanced(run)  # it follows where front ends ask for the bundle alone
    for _ in range(2000):
        if view.content.snapshot.status == "finished":
            break
        time.sleep(0.01)
    assert view.content.snapshot.draws_done == 2000 and not view.widget._status["stage"]


def test_status_is_plain_json(run):
    view = Dashboard(advanced(run))
    assert json.loads(json.dumps(view.widget._status, allow_nan=False))["rows"][0]["label"] == "mu[0]"


def test_choosing(run):
    view = Dashboard(advanced(run))
    view.choose("w[1]", "mu[2]")
    assert [p.label for p in view.content.parameters] == ["w[1]", "mu[2]"]
    assert view.widget._status["auto"] is False
    with pytest.raises(KeyError):
        view.choose("nu")
    assert [p.label for p in view.content.parameters] == ["w[1]", "mu[2]"]
    view.choose()
    assert [p.label for p in view.content.parameters] == ["mu[0]", "w[0]", "mu[1]"]


def test_a_mistyped_name_in_the_page_is_told_there(run):
    view = Dashboard(advanced(run))
    view._heard("choose", {"labels": ["nu"]})
    view.refresh()
    assert "nu" in view.widget._status["note"]
    assert len(view.content.parameters) == 3


def drawn(view, condition, seconds=20):
    """Wait for the drawing thread."""
    until = time.monotonic() + seconds
    while not condition(view) and time.monotonic() < until:
        time.sleep(0.01)
    assert condition(view)


def test_drawing_thread_follows_the_run_and_ends_with_it(run, capsys):
    view = Dashboard(run, interval=0.01)
    view._ipython_display_()
    assert "no draws yet" in capsys.readouterr().out
    run.advance(100)
    drawn(view, lambda v: v.content.snapshot.draws_done == 100)
    run.advance(1900)
    drawn(view, lambda v: v.content.snapshot.status == "finished" and v._thread is None)
    # A resumed run is followed again.
    run.total += 100
    run.series = {k: np.concatenate([v, v[:, :100]], axis=1) for k, v in run.series.items()}
    run.advance(100)
    drawn(view, lambda v: v.content.snapshot.draws_done == 2100 and v._thread is None)
    view.close()
    assert not [t for t in threading.enumerate() if t.name == "gibbsite dashboard"]


def test_stop_reaches_the_run(run):
    view = Dashboard(advanced(run))
    view.widget._control._receive(None, {"kind": "stop"}, [])
    assert run.stopped
    view.refresh()
    assert view.widget._status["stopping"]
    assert view.widget._status["words"] == "stopping after this chunk"


def test_a_failed_run_says_why_even_when_its_error_was_taken(run):
    view = Dashboard(run)
    run.message = "the density is not finite"
    run.advance(10, status="failed")
    run.message = None
    view.refresh()
    assert view.widget._status["words"] == "failed"
    assert view.widget._status["message"] == "the density is not finite"
    assert "the density is not finite" in view.text()


def test_report_is_one_page_that_asks_for_nothing(run, tmp_path):
    class Row:
        sites, kernel, reason, blocked, cost = ("z",), "Gibbs", "finite <support>", None, "3 × 150"

    class Schedule:
        rows = (Row,)

    model = gibbsite.model(coin, np.ones(20))
    model.__dict__["schedule"] = lambda text: Schedule
    page = write_report(advanced(run), model, tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|url\(", page)
    for part in (
        "mixture",
        "R-hat so far",
        "<h2>Posterior</h2>",
        "strokes 89 % ETI",
        "finite &lt;support&gt;",
        "mu[0]",
        "chain 3 has not moved",
        "<summary>what to try</summary><p>The named scalar",
        "def coin",
    ):
        assert part in page
    parser = html.parser.HTMLParser()
    parser.feed(page)


def coin(x):
    p = numpyro.sample("p", dist.Beta(1, 1))
    with numpyro.plate("toss", len(x)):
        numpyro.sample("x", dist.Bernoulli(p), obs=x)
