"""The runs of a process side by side: what changed, how they did, how well they predict."""

import os
import re
import warnings
from contextlib import nullcontext

import arviz_stats
import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.verdict.history import Runs, changes
from gibbsite.errors import CheckpointError, OptionError
from gibbsite.storage import checkpoint

Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SOURCES = ("def m(y):\n  sd ~ HalfNormal(5)\n", "def m(y):\n  sd ~ HalfNormal(1)\n")
ASKED = {"draws": 60, "warmup": 60, "chains": 2}


def normal(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    sd = numpyro.sample("sd", dist.HalfNormal(5))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(mu, sd), obs=y)


@pytest.fixture(scope="module")
def runs():
    model = gb.model(normal, Y, _source=SOURCES[0], _name="m")
    other = gb.model(normal, Y + 1, _source=SOURCES[0], _name="m")
    changed = gb.model(normal, Y, _source=SOURCES[1], _name="m")
    renamed = gb.model(normal, Y, _source=SOURCES[1], _name="k")
    # runs of another model stand between those that are compared
    return Runs(
        [
            model.sample(**ASKED),
            model.sample(**ASKED | {"seed": 1}),
            other.sample(**ASKED | {"seed": 1}),
            renamed.sample(**ASKED),
            changed.sample(**ASKED | {"seed": 1}),
        ]
    )


@pytest.mark.slow
def test_what_changed_is_told_from_run_to_run_of_a_model(runs):
    assert [entry.changed for entry in runs.entries] == [
        "",
        "seed 0 → 1",
        "data",
        "",
        "- sd ~ HalfNormal(5) + sd ~ HalfNormal(1)",
    ]
    assert [entry.before for entry in runs.entries] == [None, runs[0], runs[1], None, runs[2]]
    sliced = runs[0].model.sample(schedule="Slice mu (*) Slice sd", **ASKED)
    assert changes(runs[0], sliced) == ["schedule"]


@pytest.mark.slow
def test_elpd_is_arviz_own_and_kept_with_the_draws(runs):
    assert runs[0].known_elpd is None and all(e.elpd is None for e in runs.entries)
    assert runs.with_elpd() is runs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        own = arviz_stats.loo(runs[0].to_datatree(log_likelihood=True))
    assert runs[0].elpd() is runs[0].known_elpd
    np.testing.assert_allclose([runs[0].elpd().elpd, runs[0].elpd().se], [own.elpd, own.se], rtol=1e-5)
    assert all(e.elpd is not None for e in runs.entries)


def test_no_elpd_without_a_likelihood_or_a_model(runs, tmp_path):
    prior = gb.model(lambda: numpyro.sample("mu", dist.Normal(0, 1)))
    with pytest.raises(gb.GibbsiteError, match="lacks observed sites"):
        prior.sample(**ASKED).elpd()
    runs[0].resume(10)  # what was found of fewer draws is no answer
    runs[0].save(tmp_path / "run")
    with pytest.raises(gb.GibbsiteError, match="lacks its model"):
        gb.load(tmp_path / "run").elpd()


def test_the_table_is_words_and_html(runs):
    words = repr(runs)
    assert len(words.splitlines()) == len(runs) + 1 and "HalfNormal(1)" in words
    page = runs._repr_html_()
    assert page.count("<tr>") == len(runs) + 1 and "seed 0 → 1" in page and "<script" not in page
    first = runs.entries[0]
    assert first.cells(0)[6] == f"{first.seconds - first.compiling:.1f} + {first.compiling:.1f}"
    assert "seconds + compiling" in words and 0 < first.compiling < first.seconds == runs[0].elapsed
    assert repr(Runs()) == "<no runs yet>" and "no runs yet" in Runs()._repr_html_()
    assert isinstance(gb.runs(), list) and runs[0] in gb.runs()


def test_two_runs_side_by_side(runs):
    found = runs.compare(0, 1)
    assert found.compared == 2 and "ESS/s" in repr(found)
    assert str(runs[0].compare(runs[1])) == str(found)


class Logged:
    """What MLflow is asked for."""

    def __init__(self):
        self.asked = {}

    def __getattr__(self, name):
        return lambda *values, **named: self.asked.setdefault(name, values or named) and None

    def start_run(self, run_name):
        self.asked["start_run"] = run_name
        return nullcontext()


@pytest.mark.slow
def test_a_project_across_days(tmp_path):
    """Stores of a folder tell source, data and what was noted, without the model; a page shows them."""
    first = gb.model(normal, Y, _source=SOURCES[0], _name="m").sample(**ASKED, store=tmp_path / "a")
    first.annotate("as in the <paper>", tags=["paper"])
    second = gb.model(normal, Y, _source=SOURCES[1], _name="m").sample(**ASKED)
    second.annotate(tags=["try"])
    second.save(tmp_path / "b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        elpd = first.elpd()
    with pytest.raises(OptionError, match="list of texts"):
        second.annotate(tags="try")
    os.utime(tmp_path / "a" / "checkpoint.npz", (1, 1))
    found = gb.runs(tmp_path)
    entries = found.entries
    other = gb.model(normal, Y, _source=SOURCES[0], _name="k").sample(**ASKED)
    mixed = Runs([first, other, second]).page(tmp_path / "mixed.html").read_text()
    assert mixed.count("<summary>difference") == 1  # from the model's own run before, not from the other's
    frame = found.to_frame()
    assert [e.path for e in entries] == ["a", "b"] and list(frame.path) == [str(tmp_path / n) for n in "ab"]
    assert frame.elpd_se[0] == pytest.approx(float(elpd.se)) and np.isnan(frame.elpd[1])
    assert list(frame.seed) == [0, 0] and str(entries[1].cells(1)[0]) == "1 b" and second.path is None
    assert [e.note for e in entries] == ["as in the <paper>", ""] and entries[1].tags == ("try",)
    assert entries[1].changed == "- sd ~ HalfNormal(5) + sd ~ HalfNormal(1)"
    assert entries[0].data == first.data_fingerprint == entries[1].data
    assert entries[0].elpd.elpd == pytest.approx(float(elpd.elpd)) and entries[1].elpd is None
    page = found.page(tmp_path / "runs.html").read_text()
    assert "\\u202f" not in page  # what parts thousands is a space
    assert "as in the &lt;paper&gt;" in page and '<span class="tag">try</span>' in page
    assert '<span class="gone">-  sd ~ HalfNormal(5)</span>' in page and "<script" not in page
    # notes are no part of a run: where they are damaged it is read without
    for damage in ("{", "[]", '{"note": 1}', '{"elpd": {"elpd": "x"}}'):
        (tmp_path / "a" / "remarks.json").write_text(damage)
        assert gb.load(tmp_path / "a").remarks == {"note": "", "tags": []}
    log = Logged()
    second.log_to(log, report=True)
    (params,), (numbers,), (tags,) = (log.asked[n] for n in ("log_params", "log_metrics", "set_tags"))
    assert log.asked["start_run"] == "m" and params["chains"] == 2 and numbers["draws_done"] == 60
    assert tags["source"] == SOURCES[1] and tags["try"] == "true" and "log_artifact" in log.asked
    report = first.report(tmp_path / "report.html").read_text()
    for told in (
        "seed",
        "fingerprint of the data",
        "+src.",
        "8 numbers, -3 to 28",
        "prefers-color-scheme: dark",
    ):
        assert told in report
    first.annotate(tags=["wider prior?", "../x"])  # MLflow takes no such names
    log = Logged()
    first.log_to(log)
    assert {"wider prior_", "__x"} <= log.asked["set_tags"][0].keys()


def test_unreleased_sources_are_told_apart(monkeypatch):
    now = checkpoint.versions()
    checkpoint.same_versions(now)
    assert re.fullmatch(r"[\d.]+\+src\.[0-9a-f]{12}", now["gibbsite"])
    assert "(sources" in checkpoint.requirements(now) and "+src" not in checkpoint.requirements(now)
    monkeypatch.setattr(checkpoint, "_sources", lambda: "0" * 12)
    with pytest.raises(CheckpointError, match=r"src.*would not go on exactly"):
        checkpoint.same_versions(now)
    monkeypatch.setattr(checkpoint, "RELEASED", True)
    assert "+" not in checkpoint.versions()["gibbsite"]
