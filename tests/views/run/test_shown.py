"""Models, graphs and runs show themselves, in HTML and in words; what they are told by a wrong name."""

import copy
import pickle
import sys
from types import SimpleNamespace

import gibbsite as gb
import jax
import numpy as np
import pytest
from gibbsite import showing
from gibbsite.diagnostics.verdict.history import Runs
from gibbsite.showing import shown_by
from gibbsite.views import shown
from gibbsite.views.host import bokeh as hosted
from gibbsite.views.run.history_widget import RunsWidget
from helpers.models.sampling_models import coins, data
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture(scope="module")
def model():
    return gb.model(coins, data())


@pytest.fixture(scope="module")
def run(model):
    return model.sample(draws=30, warmup=20, chains=2, seed=3, schedule="Gibbs z (*) NUTS [w p]")


def test_every_object_has_html_and_words(model, run):
    for thing, words in ((model, "latent"), (model.graph, "⟨1⟩"), (run, "draws × 2 chains")):
        found = thing._repr_mimebundle_()
        assert set(found) == {"text/plain", "text/html"}
        assert words in found["text/plain"] and found["text/html"] == thing._repr_html_()
        assert "<script" not in found["text/html"]
    assert run.model is model and model.graph.model is model


def test_a_run_tells_its_verdict_first_and_no_reason_twice(run):
    page = run._repr_html_()
    assert not run.verdict.ok and "finished, not converged" in page
    for reason in run.verdict.reasons:
        assert page.count(reason) == 1
    assert page.count("R-hat is above") == 0


def test_without_the_packages_of_the_views_words_are_left(model, monkeypatch):
    def missing():
        raise ImportError("no bokeh")

    monkeypatch.setattr(showing, "views", missing)
    assert model._repr_mimebundle_() == {"text/plain": repr(model)}
    with pytest.raises(NotImplementedError):
        model._ipython_display_()


def test_a_notebook_gets_the_live_graph_with_its_model(model, monkeypatch):
    with pytest.raises(NotImplementedError):  # no kernel: IPython takes the bundle
        model.graph._ipython_display_()
    asked = []
    monkeypatch.setattr(shown, "in_notebook", lambda: True)
    monkeypatch.setattr(shown, "show_graph", lambda of: SimpleNamespace(show=lambda: asked.append(of)))
    model._ipython_display_()
    model.graph._ipython_display_()
    bare = copy.deepcopy(model.graph)
    bare._ipython_display_()
    assert asked == [model, model, bare]


@pytest.mark.parametrize(
    "kind, begins", [("svg", b"<svg"), ("html", b"<!DOCTYPE html>"), ("dot", b"digraph")]
)
def test_a_graph_is_saved_by_the_ending_of_its_name(model, tmp_path, kind, begins):
    written = model.graph.save(tmp_path / f"graph.{kind}").read_bytes()
    assert written.lstrip().startswith(begins) and b"w" in written


def test_a_graph_is_saved_as_a_png_of_its_size(model, tmp_path):
    pytest.importorskip("matplotlib")
    found = model.graph.save(tmp_path / "graph.png").read_bytes()
    wide, high = (int.from_bytes(found[i : i + 4], "big") for i in (16, 20))
    assert found.startswith(b"\x89PNG") and wide > 200 and high > 200


def test_a_png_without_matplotlib_and_an_unknown_ending_are_refused(model, tmp_path, monkeypatch):
    with pytest.raises(gb.GibbsiteError, match=r"did you mean '.png'\?"):
        model.graph.save(tmp_path / "graph.pgn")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        model.graph.save(tmp_path / "graph.png")


def test_a_report_is_written_by_the_run_and_without_its_model(run, tmp_path):
    page = run.report(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<h2>Model</h2>" in page and "<h2>Convergence</h2>" in page
    run.save(tmp_path / "store")
    loaded = gb.load(tmp_path / "store")
    page = loaded.report(tmp_path / "loaded.html").read_text(encoding="utf-8")
    assert loaded.model is None and "<h2>Model</h2>" not in page and "<h2>Convergence</h2>" in page


def test_draws_print_shapes_and_are_a_dictionary_and_a_tree(run):
    draws = run.draws
    assert repr(draws).splitlines()[0] == "<draws of 2 chains × 30, [chain, draw, …] by site>"
    assert "float32 [2, 30" in repr(draws) and len(repr(draws)) < 400
    assert isinstance(draws, dict) and all(isinstance(v, np.ndarray) for v in draws.values())
    means = jax.jit(lambda tree: jax.tree.map(lambda v: v.mean(), tree))(draws)
    assert set(means) == set(draws)
    np.testing.assert_allclose(means["w"], draws["w"].mean(), rtol=1e-5)
    again = pickle.loads(pickle.dumps(draws))
    assert type(again) is type(draws) and set(again) == set(draws)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda model, run: run.draws["zz"],
        lambda model, run: model.sites["zz"],
        lambda model, run: model.conditional("zz"),
        lambda model, run: model.schedule("Gibbs zz (*) NUTS [w p]"),
        lambda model, run: model.reparam(zz="non-centred"),
        lambda model, run: model.condition(zz=0),
        lambda model, run: model.marginal("zz"),
        lambda model, run: model.graph.node("zz"),
        lambda model, run: run.diagnostics("zz"),
    ],
)
def test_a_wrong_site_is_told_the_nearest(model, run, wrong):
    with pytest.raises(gb.GibbsiteError, match="did you mean 'z'"):
        wrong(model, run)


def test_other_wrong_names_are_told_the_nearest(model, run):
    with pytest.raises(TypeError, match="did you mean 'draws'"):
        model.sample(drws=3)
    with pytest.raises(ValueError, match="did you mean 'non-centred'"):
        model.reparam(w="non-centrd")
    with pytest.raises(KeyError, match="no block named"):
        run.info["NUTZ"]


def test_the_public_surface_is_what_people_use(model, run):
    names = (
        "advice annotate axis_labels centring checks compare dashboard derive derived device diagnostics "
        "divergent draws effects elapsed elpd elsewhere extend forget history info keep log_to memory "
        "model model_name modes moves path plot predict prior probs remarks report results resume save "
        "schedule_text settings source starts status stop summaries summary time_blocks to_datatree "
        "values verdict wait"
    )
    assert [n for n in dir(run) if not n.startswith("_")] == names.split()
    assert {"graph", "sample", "conditional", "reparam"} <= set(dir(model))
    assert not {"runtime_model", "written_model", "seen", "grouped", "fingerprint"} & set(dir(model))


@pytest.mark.slow
def test_a_table_of_runs_opens_compares_overlays_and_goes_on(model, run):
    again = model.sample(draws=40, warmup=20, chains=2, seed=5)
    view = RunsWidget(Runs([run, again]))
    rows = view._runs["rows"]
    assert [row["cells"][1] for row in rows] == [run.model_name] * 2 and "gibbsite-runs" in view.static_html()
    known = run.known_elpd is not None
    assert ("elpd (LOO)" in view._runs["heads"]) is known  # a column for what is known
    assert len(rows[0]["cells"]) == len(view._runs["heads"]) == 8 + known
    assert rows[0]["cells"][view._runs["verdict"]][0] in "✓…✗" and rows[1]["more"] == 500
    for what, chosen, seen in (
        ("open", [1], "<svg"),
        ("compare", [0, 1], "highest R-hat"),
        ("overlay", [0, 1], "stroke-dasharray"),
    ):
        view.ask(what, chosen)
        assert seen in view._below["html"]
        shown = view._below
        for wrong in ([], [7, 8, 9], "01", [None, "x"]):
            view.ask(what, wrong)
            assert view._below is shown
    view.ask("resume", [1])  # nothing is left of it
    done = again.wait().draws["w"].shape[1]
    view.ask("more", [1])
    assert again.wait().draws["w"].shape[1] == done + 500
    assert view._runs["rows"][1]["cells"][4] == f"2 × {done + 500}"


def test_the_library_is_put_away_and_given_to_who_asks(monkeypatch):
    calls = []
    events = SimpleNamespace(
        register=lambda name, call: calls.append(call), unregister=lambda name, call: calls.remove(call)
    )
    monkeypatch.setattr(hosted, "get_ipython", lambda: SimpleNamespace(events=events))
    library = hosted.Library()
    text = library.source
    assert len(text) > 10**6
    (put_away,) = calls
    put_away()
    assert library.source == "" and not calls
    sent = []
    monkeypatch.setattr(library, "send", sent.append)
    library._asked(library, {"kind": "source"}, [])
    library._asked(library, {"kind": "other"}, [])
    assert sent == [{"kind": "source", "source": text}]


def test_a_cell_that_shows_a_dashboard_does_not_show_its_run_again(run):
    """A bare `%sample model` returns what its dashboard shows; later cells show it when they name it."""
    format_ = InteractiveShell.instance().display_formatter.format
    shell = SimpleNamespace(execution_count=3)
    assert "text/html" in format_(run)[0]
    shown_by(shell, run)
    try:
        assert format_(run) == ({}, {})
        shell.execution_count = 4
        assert "text/html" in format_(run)[0]
    finally:
        run._shown = None
