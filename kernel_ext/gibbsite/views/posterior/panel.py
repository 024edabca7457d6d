"""The posterior in a live dashboard: which view is shown, what is plotted large, what was asked for."""

import threading
from typing import Any

from gibbsite.errors import ExpressionError, GibbsiteError
from gibbsite.views.host.bokeh import serialised
from gibbsite.views.plots import bokeh
from gibbsite.views.plots.plot import Rows
from gibbsite.views.posterior.cards import told_cards
from gibbsite.views.posterior.gather import Posterior, gather_posterior
from gibbsite.views.posterior.marginals import focus_rows
from gibbsite.views.run.content import ENDED, Content, RunLike
from gibbsite.views.run.picture import dashboard_svg

VIEWS = ("posterior", "convergence")


class PosteriorPanel:
    """Hears the page on any thread, and answers from the thread that draws."""

    def __init__(self, run: RunLike):
        self._run = run
        self._view: str | None = None
        self._focus: tuple[str, ...] = ()
        self._asked: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._note: dict[str, Any] = {}
        self._answered = 0
        self._save = 0
        self._saved = 0
        self._sent: tuple[Any, ...] = ()
        self.now: Posterior | None = None

    def view(self, content: Content) -> str:
        """What is shown: what a person chose, else the posterior as soon as the run has converged."""
        verdict = getattr(content.snapshot, "verdict", None)
        converged = content.snapshot.status in ENDED and verdict is not None and verdict.ok
        return self._view or ("posterior" if converged else "convergence")

    # ------------------------------------------------------------ the page asks

    def hear(self, kind: str, detail: dict[str, Any]) -> None:
        """A message: sets fields alone."""
        with self._lock:
            if kind == "view" and detail.get("view") in VIEWS:
                self._view = detail["view"]
            elif kind == "focus":
                self._focus = _toggled(self._focus, str(detail.get("label", "")))
            elif kind == "derive":
                self._asked.append(("derive", str(detail.get("text", ""))))
            elif kind == "forget":
                self._asked.append(("forget", str(detail.get("name", ""))))
            elif kind == "save":
                self._save += 1

    def _answer(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, []
        for kind, text in asked:
            self._note = {}
            try:
                if kind == "derive":
                    self._run.derive(text)
                else:
                    self._run.forget(text)
            except ExpressionError as error:
                self._note = {
                    "sentence": error.sentence, "text": error.text, "at": error.start, "length": error.length,
                }  # fmt: skip
            except (GibbsiteError, OSError) as error:
                self._note = {"sentence": str(error)}
            self._answered += 1

    # ------------------------------------------------------------ what it shows

    def refresh(self, content: Content) -> None:
        """Gather what is shown now; nothing while nobody looks at it."""
        self._answer()
        ended = content.snapshot.status in ENDED
        if content.snapshot.draws_done < 2 or not (ended or self.view(content) == "posterior"):
            self.now = None
            return
        prior = ended and content.snapshot.status != "failed"
        state = (content.snapshot.draws_done, ended, self._focus, self._answered)
        if self.now is not None and state == self._sent[:4]:
            return
        try:
            self.now = gather_posterior(self._run, self._focus, prior=prior)
        except KeyError:  # what was plotted large is gone
            self._focus = ()
            self.now = gather_posterior(self._run, prior=prior)
        self._sent = (*state, False)

    def told(self, content: Content) -> dict[str, Any]:
        """What it adds to the dashboard's `_status`."""
        return {"view": self.view(content), "answered": self._answered, "expression_note": self._note}

    def tell(self, widget: Any, content: Content) -> None:
        """Send what has changed to the page, within a batch."""
        if self.now is not None and not self._sent[4]:
            prior = any(getattr(found, "prior", None) is not None for found in self.now.shown)
            widget._posterior = told_cards(self.now, self._run, prior=prior)
            rows = focus_rows(self.now)
            widget.push_all(bokeh.columns(rows))
            widget.patch_all(bokeh.props(rows))
            widget._focus = {"item": _layout(rows) if rows else "", "key": _structure(rows)}
            self._sent = (*self._sent[:4], True)
        if self._save != self._saved:
            self._saved = self._save
            posterior = self.view(content) == "posterior"
            text = dashboard_svg(content, self.now if posterior else None, plots=not posterior, paper=True)
            widget._file = {"id": self._saved, "name": f"{content.model}-{self.view(content)}", "svg": text}


def _toggled(labels: tuple[str, ...], label: str) -> tuple[str, ...]:
    if label in labels:
        return tuple(other for other in labels if other != label)
    return (*labels, label)[-2:]


def _structure(rows: Rows) -> str:
    """What a layout depends on, but for what can be sent anew."""
    return "; ".join(
        f"{plot.name}: {plot.height} {plot.marks} {[(n, *t) for n, t in plot.tables.items()]} "
        f"{plot.x.ticks is None} {plot.y.ticks is None}"
        for row in rows
        for plot in row
    )


_layouts: dict[str, str] = {}


def _layout(rows: Rows) -> str:
    """The layout as text; the last one is kept: it is most of the cost, and changes with a choice alone."""
    key = _structure(rows)
    if key not in _layouts:
        _layouts.clear()
        _layouts[key] = serialised(bokeh.layout(rows))
    return _layouts[key]
