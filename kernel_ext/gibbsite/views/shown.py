"""What models, graphs and runs show of themselves: for `gibbsite.showing`, which asks by these names.

Each kind of object has a row in `_KINDS`: its HTML, and its text for terminals.
"""

from collections.abc import Callable
from typing import Any

from gibbsite.checking import Check
from gibbsite.diagnostics.verdict.history import Runs
from gibbsite.graph import DependencyGraph
from gibbsite.prediction.prediction import Prediction
from gibbsite.prediction.uses.checking import Checks
from gibbsite.prediction.uses.comparing import Compared
from gibbsite.prediction.uses.contrasting import Contrast
from gibbsite.prediction.uses.deciding import Decision
from gibbsite.prediction.uses.effects import Effects
from gibbsite.sampling import Run
from gibbsite.views.graph.save import save_graph
from gibbsite.views.graph.widget import graph_html, show_graph
from gibbsite.views.host.display import bundle, in_notebook
from gibbsite.views.plotted import plot_run
from gibbsite.views.predictions.checks import checks_html, names_of_checks, plot_checks
from gibbsite.views.predictions.plots import plot_prediction, prediction_html, prediction_text
from gibbsite.views.predictions.uses import plot_use, use_html
from gibbsite.views.report import check_html, write_check, write_report
from gibbsite.views.run.content import gather
from gibbsite.views.run.history_widget import RunsWidget, history_html, write_runs
from gibbsite.views.run.status import card_html
from gibbsite.views.run.words import text
from gibbsite.views.run_dashboard import dashboard

__all__ = [
    "bundle_of",
    "dashboard",
    "display",
    "names_of_checks",
    "plot_checks",
    "plot_prediction",
    "plot_run",
    "plot_use",
    "save_graph",
    "watch",
    "write_check",
    "write_report",
    "write_runs",
]


def _run_text(run: Run) -> str:
    return text(gather(run, labels=()))


def _model_text(model: Any) -> str:
    return f"{model!r}\n{model.graph}"


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], str], Callable[[Any], str]], ...] = (
    (lambda thing: isinstance(thing, DependencyGraph), graph_html, str),
    (lambda thing: isinstance(thing, Run), card_html, _run_text),
    (lambda thing: isinstance(thing, Prediction), prediction_html, prediction_text),
    (lambda thing: isinstance(thing, Checks), checks_html, repr),
    (lambda thing: isinstance(thing, Contrast | Effects | Decision | Compared), use_html, repr),
    (lambda thing: isinstance(thing, Runs), history_html, repr),
    (lambda thing: isinstance(thing, Check), check_html, repr),
    (lambda thing: hasattr(thing, "graph"), lambda model: graph_html(model.graph), _model_text),
)


def bundle_of(thing: Any) -> dict[str, Any]:
    """The mime bundle of a model, a graph or a run: words and HTML, which live in every front end."""
    html, words = next((html, words) for fits, html, words in _KINDS if fits(thing))
    return bundle(html=html(thing), text=words(thing))


def watch(run: Run) -> None:
    """Put the live dashboard of a run into the output of the running cell."""
    dashboard(run)._ipython_display_()


def display(thing: Any) -> None:
    """Put the live graph of a model, or of a bare graph, or a live table of runs, into the running cell.

    Raises `NotImplementedError` where there is no kernel with a front end: IPython then takes the bundle.
    """
    if not in_notebook():
        raise NotImplementedError
    if isinstance(thing, Runs):
        RunsWidget(thing).show()
        return
    model = getattr(thing, "model", None) if isinstance(thing, DependencyGraph) else thing
    show_graph(model if model is not None else thing).show()
