"""The posterior in a live dashboard: which view is shown, what is plotted large, what was asked for."""

import threading
import time
from collections.abc import Callable
from typing import Any

from gibbsite.errors import ExpressionError, GibbsiteError
from gibbsite.prediction.uses.checking import Checks
from gibbsite.sampling.run import Run
from gibbsite.views.host.bokeh import serialised
from gibbsite.views.plots import bokeh
from gibbsite.views.plots.plot import Rows
from gibbsite.views.posterior.cards import told_cards
from gibbsite.views.posterior.gather import Posterior, gather_posterior, with_priors
from gibbsite.views.posterior.marginals import LARGE, focus_rows
from gibbsite.views.predictions.checks import (
    CARD,
    check_card,
    large_rows,
    legend_of,
    plot_checks,
    plots_of_checks,
)
from gibbsite.views.run.content import ENDED, Content
from gibbsite.views.run.picture import dashboard_svg

_LEAST, _LIVE = 50, 200  # draws per chain before replicates are made, and how many of these
_SHARE = 0.02  # of a run's processor time for replicates, the first of them counted
_MOST_WEIGHTS = 20_000_000  # of leave-one-out, which nobody has asked for: a second or two
_BY = "by "  # what is written before a column in place of a statistic
VIEWS = ("posterior", "check", "convergence")


class PosteriorPanel:
    """Hears the page on any thread, and answers from the thread that draws."""

    def __init__(self, run: Run):
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
        self._turned = False
        self.with_prior = False
        self._checks = CheckPanel(run)

    @property
    def replicating(self) -> float:
        """Seconds of processor time that checks took while the run went on: a share of their own."""
        return self._checks.spent

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
                self._turned = True
            elif self._view == "check" and kind in ("focus", "derive", "forget"):
                self._checks.hear(kind, detail)
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
            except (GibbsiteError, OSError) as error:
                self._note = _noted(error)
            self._answered += 1

    # ------------------------------------------------------------ what it shows

    def refresh(self, content: Content) -> None:
        """Gather what is shown now; nothing while nobody looks at it."""
        self._answer()
        if self._turned:  # below the tabs are the other view's cards
            self._turned, self.now = False, None
            self._checks.forget_sent()
        if self.view(content) == "check":
            self.now = None
            self._checks.refresh(content)
            return
        ended = content.snapshot.status in ENDED
        if content.snapshot.draws_done < 2 or not (ended or self.view(content) == "posterior"):
            self.now = None
            return
        state = (content.snapshot.draws_done, ended, self._focus, self._answered)
        if self.now is None or state != self._sent[:4]:
            try:
                self.now = gather_posterior(self._run, self._focus)
            except KeyError:  # what was plotted large is gone
                self._focus = ()
                self.now = gather_posterior(self._run)
            self._sent = (*state, False, False)
        # compiled where it was not yet: not while somebody waits for the run's end
        if self.with_prior and ended and content.snapshot.status != "failed" and not self._sent[4]:
            self.now = with_priors(self.now, self._run)
            self._sent = (*state, True, False)

    def told(self, content: Content) -> dict[str, Any]:
        """What it adds to the dashboard's `_status`."""
        check = self.view(content) == "check"
        note, answered = self._checks.answer if check else (self._note, self._answered)
        return {"view": self.view(content), "answered": answered, "expression_note": note}

    def tell(self, widget: Any, content: Content) -> None:
        """Send what has changed to the page, within a batch."""
        if self.view(content) == "check":
            self._checks.tell(widget)
        elif self.now is not None and not self._sent[5]:
            prior = any(getattr(found, "prior", None) is not None for found in self.now.shown)
            widget._posterior = told_cards(self.now, self._run, prior=prior)
            _show(widget, focus_rows(self.now))
            self._sent = (*self._sent[:5], True)
        if self._save != self._saved:
            self._saved = self._save
            view = self.view(content)
            text = dashboard_svg(
                content, self.now if view == "posterior" else None, plots=view == "convergence", paper=True
            )
            if view == "check" and self._checks.now is not None:
                text = plot_checks(self._checks.now).svg
            widget._file = {"id": self._saved, "name": f"{content.model}-{self.view(content)}", "svg": text}


def _toggled(labels: tuple[str, ...], label: str) -> tuple[str, ...]:
    if label in labels:
        return tuple(other for other in labels if other != label)
    return (*labels, label)[-2:]


class CheckPanel:
    """Predictive checks, below the same tabs: gathered while somebody looks at them."""

    def __init__(self, run: Run):
        self._run = run
        self._statistics: list[str] = []
        self._by: str | None = None
        self._asked: list[str] = []
        self._focus = ""
        self._note: dict[str, Any] = {}
        self._answered = 0
        self._at: tuple[Any, ...] = ()
        self._sent: tuple[Any, ...] = ()
        self.spent, self._takes = 0.0, 0.0
        self._began, self._looked = time.process_time(), time.monotonic()
        self.now: Checks | None = None

    @property
    def answer(self) -> tuple[dict[str, Any], int]:
        """Why the last expression was refused, and how many were answered."""
        return self._note, self._answered + 10_000  # other numbers than the posterior's

    def hear(self, kind: str, detail: dict[str, Any]) -> None:
        """A message: sets fields alone."""
        if kind == "focus":
            label = str(detail.get("label", ""))
            self._focus = "" if label == self._focus else label
        elif kind == "derive":
            self._asked.append(str(detail.get("text", "")))
        elif detail.get("name") == f"{_BY}{self._by}":
            self._by = None
        else:
            self._statistics = [t for t in self._statistics if t != detail.get("name")]

    def forget_sent(self) -> None:
        """Send everything again."""
        self._sent = ()

    def refresh(self, content: Content) -> None:
        """Make replicates of the draws so far: the first as soon as somebody looks, later ones while the run
        goes on in a small share of its time in all, the first counted."""
        ended, done = content.snapshot.status in ENDED, content.snapshot.draws_done
        asked, self._asked = self._asked, []
        state = (done, ended, tuple(self._statistics), self._by)
        if done < _LEAST or (state == self._at and not asked):
            return
        due = (self.spent + self._takes) / _SHARE
        if not ended and not asked and self._gone(content) < due:
            return
        cost = self._cost()
        for text in [*asked, None]:
            by = text[len(_BY) :].strip() if text is not None and text.startswith(_BY) else self._by
            wanted = self._statistics + ([text] if text is not None and by == self._by else [])
            try:
                few = done * content.snapshot.chains * self._data() <= _MOST_WEIGHTS
                how = {"prior": ended, "leave_one_out": ended and few}
                self.now = self._run.checks(statistics=wanted, by=by, draws=_LIVE, **how)
                self._statistics, self._by, self._note = wanted, by, {}
            except GibbsiteError as error:
                self._note = _noted(error)
            if text is not None:
                self._answered += 1
                break
        self._at = (done, ended, tuple(self._statistics), self._by)
        if not ended:
            took = cost()
            # the first are compiled, which says nothing of the next
            self._takes = took if self.spent else 0.0
            self.spent += took

    def _cost(self) -> Callable[[], float]:
        """Begin to count the processor's seconds: those of this thread, and what others that it sets to work
        add to what the process takes as the run goes on."""
        thread, process, wall = time.thread_time(), time.process_time(), time.monotonic()
        usual = (process - self._began) / max(wall - self._looked, 1e-9)

        def taken() -> float:
            rest = time.process_time() - process - usual * (time.monotonic() - wall)
            return max(time.thread_time() - thread, rest)

        return taken

    def _gone(self, content: Content) -> float:
        """Seconds that replicates have a share of: on processors those that the process has had of them,
        which on a crowded machine are few by the clock; elsewhere they take nothing from the draws."""
        if "cpu" in self._run.device.lower():
            return min(time.process_time() - self._began, content.snapshot.elapsed)
        return content.snapshot.elapsed

    def _data(self) -> int:
        observed = {} if self._run.model is None else self._run.model.observed
        return sum(v.size for v in observed.values())

    def tell(self, widget: Any) -> None:
        """Send cards, and what is plotted large."""
        state = (self._at, self._focus, self._answered)
        if self.now is None:
            told = f"There are no replicates yet: the first are made at {_LEAST} draws of each chain."
            widget._posterior = {"legend": self._note.get("sentence") or told}
            return
        if state == self._sent:
            return
        self._sent = state
        plots = {p.name: p for p in plots_of_checks(self.now, CARD)}
        written = {f"check {s}": s for s in self._statistics} | {"check by": f"{_BY}{self._by}"}
        widget._posterior = {
            "check": True,
            "cards": [check_card(p, written.get(n, "")) for n, p in plots.items()],
            "focus": [self._focus] if self._focus in plots else [],
            "legend": legend_of(self.now),
            "more": "",
        }
        _show(widget, large_rows(self.now, self._focus, LARGE), "check ")


def _noted(error: Exception) -> dict[str, Any]:
    """Why what was asked for is refused, and where in its text."""
    if not isinstance(error, ExpressionError):
        return {"sentence": str(error)}
    return {"sentence": error.sentence, "text": error.text, "at": error.start, "length": error.length}


def _show(widget: Any, rows: Rows, prefix: str = "") -> None:
    """Plot the rows large; a layout is made anew where its key is another."""
    widget.push_all(bokeh.columns(rows))
    widget.patch_all(bokeh.props(rows))
    widget._focus = {
        "item": _layout(rows) if rows else "",
        "key": f"{prefix}{_structure(rows)}" if rows else "",
    }


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
