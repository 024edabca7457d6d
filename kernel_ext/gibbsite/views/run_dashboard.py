"""The live dashboard of a run.

    dashboard = Dashboard(run)      # in a notebook: display it, or let %sample do so
    dashboard.choose("mu[0]", "w")  # plot these; choose() goes back to the worst
    print(dashboard.text())         # the same in words

A background thread draws: it wakes when the run has a new chunk, at most once a second, and sleeps so long
after each update that drawing takes no more than its share of the time. The run itself never waits for it.
What takes longer once the run has ended is done by one worker for all dashboards (`host/beside.py`).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import traitlets
from IPython.core.getipython import get_ipython
from ipywidgets import widget_serialization

from gibbsite.errors import GibbsiteError
from gibbsite.sampling.run import Run
from gibbsite.views.host.assets import joined
from gibbsite.views.host.beside import BESIDE
from gibbsite.views.host.bokeh import BokehWidget, Control, serialised
from gibbsite.views.host.display import first_line, show, svg_html, update_twin
from gibbsite.views.plots import bokeh
from gibbsite.views.posterior.panel import PosteriorPanel
from gibbsite.views.run import words
from gibbsite.views.run.clinic import Clinic
from gibbsite.views.run.content import ENDED, MAX_CHAINS, Content, gather
from gibbsite.views.run.convergence import empty_rows, rows_of
from gibbsite.views.run.picture import dashboard_svg
from gibbsite.views.run.status import told

SLOT_COUNT = 3
INTERVAL = 1.0
# Drawing may take this share of the time that passes.
SHARE = 0.02


@cache
def _layout(chains: int, slots: int) -> str:
    """The empty layout as text: it depends on nothing else, and takes Bokeh a third of a second."""
    return serialised(bokeh.layout(empty_rows(chains, slots)))


def dashboard_ahead(chains: int) -> None:
    """Have made what every dashboard of so many chains takes."""
    _layout(min(chains, MAX_CHAINS), SLOT_COUNT)


class DashboardWidget(BokehWidget):
    """The page's side: plots by `panels`, and around them what `js/dashboard/` builds from `_status`."""

    _esm = joined("dashboard/dashboard.mjs")
    _status = traitlets.Dict().tag(sync=True)
    _cures = traitlets.Dict().tag(sync=True)
    _posterior = traitlets.Dict().tag(sync=True)
    _focus = traitlets.Dict().tag(sync=True)
    _file = traitlets.Dict().tag(sync=True)
    _control = traitlets.Instance(Control).tag(sync=True, **widget_serialization)


class Dashboard:
    """A run's live view, its static twin and its text.

    Args:
        run: what to watch; see `gibbsite.sampling.run`.
        slots: how many parameters to plot at a time.
        interval: least seconds between two updates.
    """

    def __init__(self, run: Run, *, slots: int = SLOT_COUNT, interval: float = INTERVAL) -> None:
        self._run, self._slots, self._interval = run, slots, interval
        self._labels: tuple[str, ...] | None = None
        self._note, self._was_auto = "", True
        self._failure: str | None = None
        self._asked_to_stop = self._asked_to_time = False
        self._timing_note = ""
        self._twinned: Any = None
        self._wake, self._urgent = threading.Event(), threading.Event()
        self._lock, self._drawing = threading.Lock(), threading.RLock()
        self._thread: threading.Thread | None = None
        self._shown = False
        self.updates = 0
        self.seconds = 0.0
        self._panel = PosteriorPanel(run)
        self._content = gather(run, None, slots=slots)
        self._clinic = Clinic(run, lambda: self._start())
        self._widget: DashboardWidget | None = None
        self._forget: Callable[[], None] | None = None
        self._follow()

    # ------------------------------------------------------------ what it shows

    @property
    def content(self) -> Content:
        """What was shown last."""
        return self._content

    def choose(self, *labels: str) -> None:
        """Plot these scalars, for example ``"mu[0]"``; without arguments, the worst ones.

        Raises:
            UnknownNameError: the run has no such scalar.
        """
        for label in labels:
            self._run.trace(label, max_points=2)
        self._labels = labels or None
        self.refresh()

    def _follow(self) -> None:
        if self._forget is None:
            self._forget = self._run.subscribe(self._chunk_done)

    def close(self) -> None:
        """Stop watching the run; what is shown stays."""
        if self._forget is not None:
            self._forget()
            self._forget = None

    def put_away(self) -> None:
        """The same, of a dashboard that is on no page any more; displayed again, it watches again."""
        self.close()
        self._shown = False
        with self._lock:  # the drawing thread ends
            self._wake.set()
            self._urgent.set()
        if self._widget is not None:
            self._widget.put_away()

    def text(self) -> str:
        """The dashboard in words."""
        return words.text(self._content)

    def brief(self) -> str:
        """The dashboard in one line."""
        return first_line(self.text())

    def static_html(self) -> str:
        """The dashboard as a picture, for a page without a kernel."""
        return svg_html(dashboard_svg(self._content, self._panel.now), alt=self.brief(), width=900)

    def widget_mime(self) -> dict[str, Any]:
        """The bundle entry of the live view."""
        return self.widget.widget_mime()

    @property
    def widget(self) -> DashboardWidget:
        """The live view, made when it is first asked for."""
        if self._widget is None:
            rows = rows_of(self._content, self._slots)
            self._widget = DashboardWidget(
                _layout(min(self._content.snapshot.chains, MAX_CHAINS), self._slots),
                columns=bokeh.columns(rows),
                _control=Control(self._heard),
                _status=self._status(),
                _props=bokeh.props(rows),
            )
        return self._widget

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """For front ends that do not let an object show itself, as marimo; it follows the run there, too."""
        self.refresh()
        out = {"text/plain": self.text(), "text/html": self.static_html()} | self.widget_mime()
        self._follow()
        self._shown = True
        self._chunk_done(self._run)
        return out

    def _ipython_display_(self, **kwargs: Any) -> None:
        self.refresh()
        twin = self.widget._twin
        show(self, twin, self.widget.displayed())
        self._follow()
        self._shown = True
        shell = get_ipython()
        if shell is not None and hasattr(shell, "kernel"):
            # Where nobody watches, the output is what it is at the cell's end.
            shell.events.register("post_run_cell", self._cell_done)
        self._chunk_done(self._run)

    def _cell_done(self, *_: Any) -> None:
        shell = get_ipython()
        if shell is not None:
            shell.events.unregister("post_run_cell", self._cell_done)
        thread = self._thread
        if self._run.status in ENDED and not _watched(shell):
            if thread is not None:
                thread.join(timeout=10)
            BESIDE.settle(10)

    # ------------------------------------------------------------ events

    def _heard(self, kind: str, detail: dict[str, Any]) -> None:
        """A message from the page; on any thread, so it sets fields and wakes the drawing thread."""
        if kind == "stop":
            self._asked_to_stop = True
            self._run.stop()
        elif kind == "time":
            self._asked_to_time = True
        elif kind == "cure":
            self._clinic.ask(str(detail.get("what", "")), detail.get("number", 0))
        elif kind == "choose":
            self._labels = tuple(str(label) for label in detail.get("labels", ())) or None
        else:
            self._panel.hear(kind, detail)
        self._start(urgent=True)

    def _chunk_done(self, _: Any) -> None:
        # A person waits for the first draws and for the end: these are shown at once.
        status = self._run.status
        if status == "failed":
            # Read here, in the sampling thread: whoever waits for the run takes its error away.
            self._failure = self._run.snapshot(1).message
        self._start(urgent=status in ENDED or status != self._content.snapshot.status)

    def _start(self, urgent: bool = False) -> None:
        """Wake the drawing thread; start one if there is none, as after `Run.resume`."""
        if not self._shown:
            return
        with self._lock:
            self._wake.set()
            if urgent:
                self._urgent.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._draw, name="gibbsite dashboard", daemon=True)
                self._thread.start()

    def _draw(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self._urgent.clear()
            with self._lock:
                if not self._shown:  # it was put away
                    self._thread = None
                    return
            began, replicating = time.thread_time(), self._panel.replicating
            self.refresh()
            ended = self._content.snapshot.status in ENDED
            if ended and self._asked_to_time:
                self._measure_blocks()
            if ended:
                if self._clinic.waiting:  # a person waits
                    self._attend()
                else:
                    BESIDE.ask(self)
            elif self.widget._cures:
                self.widget._cures = {}
            spent = time.thread_time() - began
            self.updates += 1
            self.seconds += spent
            if ended and not self._clinic.waiting:
                with self._lock:
                    if not self._wake.is_set():
                        self._thread = None
                        return
            else:
                # Until there is something to see, look more often.
                early = not self._content.parameters or self._content.warming
                least = self._interval / 4 if early else self._interval
                drawing = spent - (self._panel.replicating - replicating)
                self._urgent.wait(max(least, drawing / SHARE))

    def finish(self, whole: bool = True) -> None:
        """What nobody waits for once the run has ended: the picture that a page without a kernel shows, and
        with `whole` the prior's densities and what would help the run; for `BESIDE`."""
        if self._run.status not in ENDED or not self._shown:
            return  # it goes on, or nobody looks
        try:
            if whole:
                self._panel.with_prior = True
                self.refresh()
                self._attend()
        finally:
            self._leave_twin()

    def _leave_twin(self) -> None:
        """Bring the static twin up to date, unless it shows all this already."""
        snapshot = self._content.snapshot
        prior = self._panel.with_prior
        shown = (snapshot.status, snapshot.draws_done, snapshot.verdict, self._labels, snapshot.blocks, prior)
        if shown != self._twinned:
            self._twinned = shown
            update_twin(self, self.widget._twin)

    def _attend(self) -> None:
        """Show what would help the run, and how what was tried of it does."""
        if self._clinic.work() or not self.widget._cures:
            self.widget._cures = self._clinic.told()

    def _measure_blocks(self) -> None:
        try:
            self._run.time_blocks()
            self._timing_note = ""
        except GibbsiteError as error:
            self._timing_note = str(error)
        self._asked_to_time = False
        self.refresh()

    # ------------------------------------------------------------ drawing

    def refresh(self) -> None:
        """Gather the run's state and send it."""
        with self._drawing:
            previous = [p.label for p in self._content.parameters] if self._was_auto else []
            try:
                content = gather(self._run, self._labels, previous, self._slots)
                self._note = ""
            except KeyError as error:
                # A name that was typed into the page and does not exist: say so, show the worst instead.
                self._labels, self._note = None, str(error.args[0]) if error.args else str(error)
                content = gather(self._run, None, previous, self._slots)
            if content.snapshot.status == "failed" and not content.snapshot.message:
                content = replace(content, snapshot=replace(content.snapshot, message=self._failure))
            self._content, self._was_auto = content, self._labels is None
            self._panel.refresh(content)
            if content.snapshot.status in ENDED:
                self._asked_to_stop = False
            widget = self._widget
            if widget is None:
                return
            rows = rows_of(content, self._slots)
            with widget.batch():
                widget.push_all(bokeh.columns(rows))
                widget.patch_all(bokeh.props(rows))
                self._panel.tell(widget, content)
                widget._status = self._status()

    def _status(self) -> dict[str, Any]:
        return told(
            self._content,
            auto=self._labels is None,
            slots=self._slots,
            note=self._note,
            stopping=self._asked_to_stop,
            measuring=self._asked_to_time,
            timing_note=self._timing_note,
        ) | self._panel.told(self._content)


def _watched(shell: Any) -> bool:
    """Whether somebody is at the page, who takes in the static twin when it is ready and need not wait for
    it. What runs notebooks unattended takes no input, and writes them when their last cell ends."""
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


def dashboard(run: Run) -> Dashboard:
    """The dashboard of `run`; display it, or let `%sample` do so."""
    return Dashboard(run)
