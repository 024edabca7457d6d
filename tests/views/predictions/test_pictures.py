"""Pictures of checks, and of what is made of predictions; nothing is sampled here."""

from dataclasses import replace
from html import escape

import numpy as np
import polars as pl
import pytest
from arviz_stats import ecdf_utils
from gibbsite.errors import DataError
from gibbsite.prediction.prediction import Facts, Prediction
from gibbsite.prediction.uses.checking import CATEGORIES, COUNTS, Checks, Statistic
from gibbsite.prediction.uses.comparing import Compared, Entry
from gibbsite.prediction.uses.contrasting import contrast
from gibbsite.prediction.uses.deciding import decide
from gibbsite.prediction.uses.effects import Effects
from gibbsite.views.ink.svg import elided, told_apart
from gibbsite.views.plots.plot import tables_of
from gibbsite.views.predictions.checks import plots_of_checks
from gibbsite.views.predictions.uses import use_rows

TOWNS = ("Ely", "Bath", "York")


def predicted(shift: float, source=None, count: int = 3) -> Prediction:
    y = np.random.default_rng(0).normal(shift, 1, (2, 50, count))
    labels = {"y": (TOWNS if count == 3 else None,)}
    facts = Facts("rain", "predictions", ("y",), {"y": ("town",)}, labels, pairs=(1, 0), source=source)
    return Prediction({"y": y}, {}, "3 new rows", facts)


def compared() -> Compared:
    k = {f"row {i}": 0.1 * i for i in range(12)}
    first = Entry("with towns", -30.0, 2.0, 3.0, 1.1, 4, 0.0, 0.0, k)
    second = Entry("plain", -36.0, 2.0, 2.0, 0.4, 0, -6.0, 2.5)
    return Compared([first, second], 12, ["plain: a caveat"])


def effects(values) -> Effects:
    return Effects("dose", list(values), [predicted(float(i)) for i in range(len(values))], "y")


ALL = {
    "contrast": lambda: contrast(predicted(1.0), predicted(0.0)),
    "effects": lambda: effects([0.0, 1.0, 4.0]),
    "effects of words": lambda: effects(["none", "half", "all"]),
    "decision": lambda: decide({"a": predicted(0.0), "b": predicted(1.0)}, "profit = 2 * y"),
    "comparison": compared,
}


@pytest.mark.parametrize("name", ALL)
def test_what_is_made_of_predictions_shows_itself(name, tmp_path):
    found = ALL[name]()
    bundle = found._repr_mimebundle_()
    plots = [p for row in use_rows(found) for p in row]
    assert bundle["text/plain"] == repr(found)
    # each plot is an image of its own, so that a narrow page has them below each other
    assert bundle["text/html"].count("<img") == len(plots) > 0
    assert all(escape(p.title) in found.plot().svg for p in plots)
    assert found.plot().save(tmp_path / "use.svg").read_text().startswith("<svg")


def test_what_the_pictures_say():
    (whole, each), *_ = use_rows(ALL["contrast"]())
    assert "100 % above 0" in whole.title
    assert whole.rules[0].of == each.rules[0].of == "x"
    ((average, more),) = use_rows(effects([0.0, 1.0, 4.0]))
    table = average.tables["effects"]
    np.testing.assert_allclose(table["y"], effects([0.0, 1.0, 4.0]).draws.mean(axis=(0, 1)))
    np.testing.assert_allclose(more.tables["effects more"]["y"], [0, 1, 2], atol=1e-12)
    ((expected, best),) = use_rows(ALL["decision"]())
    np.testing.assert_allclose(best.tables["best"]["high"], [0, 1])
    assert [t for _, t in expected.y.ticks] == ["a", "b"]
    rows = use_rows(compared())
    apart = rows[0][0].tables["compared"]
    np.testing.assert_allclose(apart["low"], [0, -8.5])
    names = [n for t, table in tables_of(rows).items() if t.startswith("pareto") for n in table["name"]]
    assert sorted(names) == sorted(f"row {i}" for i in range(12))  # under the pointer
    assert rows[1][0].title == "with towns: Pareto k, 4 above 0.7"


def test_tables_of_polars_are_answered_by_polars():
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
    a, b = predicted(1.0, table), predicted(0.0, table)
    one = contrast(a, b)
    frames = [one.to_frame(), one.to_frame(average=True), one.to_frame(by=np.array([0, 0, 1]))]
    frames += [Effects("x", [0.0, 1.0], [b, a], "y").to_frame(), decide({"a": a, "b": b}, "y").to_frame()]
    assert all(isinstance(f, pl.DataFrame) for f in frames)
    assert frames[1]["contrast"].to_list() == ["difference"]
    assert frames[4]["alternative"].to_list() == ["a", "b"]


def test_many_rows_are_a_band_with_a_line_at_no_difference():
    ((_, each),) = use_rows(contrast(predicted(1.0, count=60), predicted(0.0, count=60)))
    assert each.rules[0].of == "y"


def test_one_number_has_effects_and_no_groups():
    whole = predicted(0.0)
    one = [Prediction({"y": whole.draws["y"][..., 0] + d}, {}, "", whole.facts) for d in (0.0, 2.0)]
    found = Effects("dose", [0.0, 1.0], one, "y")
    assert found.to_frame()["difference"].tolist() == pytest.approx([0, 2])
    assert "2 per unit" in repr(found)
    for asked in (found.to_frame, contrast(*one).to_frame):
        with pytest.raises(DataError, match="one number"):
            asked(by=[0])


def checked(data, replicates, **more) -> Checks:
    return Checks("rain", "y", COUNTS, np.asarray(data, float), np.asarray(replicates, float), "", **more)


def test_one_value_of_a_statistic_is_a_bar_around_it():
    data, replicates = np.ones(20), np.ones((30, 20))
    found = checked(data, replicates, statistics=(Statistic("max(y)", 1.0, replicates.max(axis=1)),))
    plot = next(p for p in plots_of_checks(found) if p.name == "check max(y)")
    assert list(plot.tables["draws"]["x"]) == [1.0]
    assert list(plot.tables["draws"]["y"]) == [30]


def test_few_counts_along_a_column_are_taken_in_windows():
    rng = np.random.default_rng(0)
    found = checked(rng.poisson(2, 240), rng.poisson(2, (200, 240)), over=("day", np.arange(240.0)))
    plot = next(p for p in plots_of_checks(found) if p.name == "check along")
    assert len(plot.tables["ribbons"]["x"]) <= 30
    assert len(plot.tables["data"]["x"]) == 240  # the data are all there


def test_categories_keep_their_names():
    rng = np.random.default_rng(0)
    called = ("poor", "fair", "good")
    at = rng.integers(0, 2, 60).astype(bool)
    found = replace(
        checked(rng.integers(0, 3, 60), rng.integers(0, 3, (100, 60)), called=called, groups={"a": at}),
        kind=CATEGORIES,
        statistics=(Statistic("mean(y == 'good')", 0.3, np.zeros(100)),),
    )
    plots = plots_of_checks(found)
    assert [t for _, t in plots[0].x.ticks] == list(called)
    assert [p.title for p in plots[1:3]] == ["y ≥ fair: share by its chance", "y ≥ good: share by its chance"]
    (own,) = found.of("a").statistics
    assert own.seen == pytest.approx((found.data[at] == 2).mean())


def test_groups_stand_last_and_counts_have_whole_ticks():
    rng = np.random.default_rng(0)
    at = rng.integers(0, 2, 50).astype(bool)
    found = checked(rng.poisson(2, 50), rng.poisson(2, (200, 50)), by="town", groups={"a": at, "b": ~at})
    plots = plots_of_checks(found)
    assert plots[-1].name == "check by"
    root = next(p for p in plots if p.name == "check root")
    assert all(float(words).is_integer() for _, words in root.y.ticks)


def test_names_that_are_too_long_keep_their_ends():
    assert elided("Newcastle upon Tyne 12") == "Newcastle up…ne 12"
    assert len(elided("Newcastle upon Tyne 12")) == 18
    assert elided("York") == "York"
    alike = [f"a very long county name {i} in the end" for i in (7, 12)]
    assert told_apart([*alike, "York"]) == ["a very long cou…7…", "a very long co…12…", "York"]
    assert told_apart(["Newcastle upon Tyne 12", "York"]) == ["Newcastle up…ne 12", "York"]


@pytest.mark.parametrize("count", [2, 7, 60, 1707])
def test_the_band_is_that_of_arviz(count):
    """It is simulated once for each number of data."""
    rng = np.random.default_rng(3)
    found = checked(rng.poisson(3, count), rng.poisson(3, (100, count)), seed=5)
    values = np.sort(found.pit)
    if count > 1000:
        values = values[np.linspace(0, count - 1, 1000).round().astype(int)]
    x, *lines = ecdf_utils.ecdf_pit(values, 0.95, 500, rng=np.random.default_rng(5))
    np.testing.assert_allclose(found.uniform.x[1:-1], x)
    for mine, theirs in zip((found.uniform.y, found.uniform.low, found.uniform.high), lines, strict=True):
        np.testing.assert_allclose(mine[1:-1], theirs - x, atol=1e-12)
