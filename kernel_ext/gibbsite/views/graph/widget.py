"""The dependency graph as an interactive figure: hover lights a node's Markov blanket, a click explains it.

Looking (hover, click, search, fold, levels, independence) runs in the page alone, so it also works in an
exported page without a kernel; changing the model and watching a run need Python.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from gibbsite.errors import GibbsiteError
from gibbsite.graph.listing import brief
from gibbsite.views.graph.change import Binding, Change, apply
from gibbsite.views.graph.figure import graph_root
from gibbsite.views.graph.picture import graph_svg
from gibbsite.views.graph.store import store_of
from gibbsite.views.graph.watch import badges, draws_html
from gibbsite.views.host.bokeh import BokehWidget
from gibbsite.views.host.display import svg_html
from gibbsite.views.host.wire import packed

_EVERY = 1.0  # seconds between two looks at a run
_STYLE = (
    "<style>div{font:13px/1.5 system-ui,sans-serif}code{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;"
    "overflow-wrap:anywhere;white-space:pre-wrap;background:rgba(127,127,127,.12);border-radius:4px;"
    "padding:1px 4px}</style>"
)


class GraphWidget(BokehWidget):
    """A dependency graph in a notebook cell.

    `graph` and `model` are what it shows; `selected` is the node last clicked, `message` what the last change
    said. `change(action, value)` does what the buttons do; `attach(run)` shows a run's state on the nodes.
    """

    def __init__(self, graph: Any, model: Any = None, use_greek: bool = False, run: Any = None):
        self.graph, self.model = graph, model
        self.selected: str | None = None
        self.message = ""
        self._use_greek = use_greek
        self._run: Any = None
        self._looked = 0.0
        self._past: list[Change] = []
        self._binding = None if model is None else Binding(model)
        self._change_lock = threading.RLock()
        super().__init__(
            graph_root(graph, model, use_greek),
            static_html=lambda: graph_html(self.graph, use_greek),
            text=lambda: str(self.graph),
        )
        self.on("select", self._on_select)
        self.on("change", lambda detail: self.change(str(detail.get("action")), str(detail.get("value", ""))))
        self.on("close", self._on_close)
        if run is not None:
            self.attach(run)

    def _on_close(self, detail: dict) -> None:
        """Draw the set of plates that the page asks for and was not sent."""
        view, plates = detail.get("view"), detail.get("plates")
        if isinstance(view, str) and isinstance(plates, list):
            self._redraw(asked={view: plates})

    def _redraw(self, asked: Mapping[str, Sequence[str]] | None = None) -> None:
        store = store_of(self.graph, self.model, self._use_greek, asked)
        self.push("graph-store", text=[packed(store)])

    def _on_select(self, detail: dict) -> None:
        name = detail.get("node")
        known = name in self.graph.nodes or name in self.graph.groups
        self.selected = name if known else None
        self._show_draws()
        if known and self._rebound():
            self._say(
                f"{self.model.name!r} has been bound to another model since this graph was drawn. What you "
                f"see and change here is the earlier one; run its cell again to see the new one."
            )

    def _rebound(self) -> bool:
        """Whether the model's name stands for another model in the notebook by now."""
        binding = self._binding
        return binding is not None and isinstance(binding.now, type(self.model)) and binding.taken

    # ------------------------------------------------------------ changing

    def change(self, action: str, value: str = "") -> None:
        """Change the model at the selected node: "condition", "do", "kernel", "reparam", "merge", "undo";
        show an "element"; or "use" the changed model in the notebook ("use!" where its name has come to mean
        something else), and "take back" that.

        A change that does not fit leaves everything as it is and says why in `message`.
        """
        with self._change_lock:
            try:
                if action == "undo":
                    self._undo()
                elif action in ("use", "use!"):
                    self._use(sure=action == "use!")
                elif action == "take back":
                    self._take_back()
                else:
                    name = "model" if self._binding is None else self._binding.name
                    done = apply(self.model, self.selected, action, value, name)
                    if done.model is not self.model and self._binding is not None:
                        self._past.append(Change(self.model, "", done.code))
                        self._binding.know(done.model)
                        self._show_model(done.model)
                    self._say(done.words, self._lines or done.code)
                    self._offer()
            except GibbsiteError as problem:
                self._say(str(problem))

    def _use(self, sure: bool) -> None:
        """Bind the notebook's name to the model as it is now; ask where it means something else by now."""
        if self._binding is None or not self._past:
            self._say("There is no change to use: the notebook has this model already.")
            return
        name = self._binding.name
        if self._binding.use(self.model, sure):
            self._say(
                f"{name!r} is this model in the notebook now: %sample {name} draws from it.", self._lines
            )
            self._offer()
        else:
            self._say(f"{name!r} has been bound to something else since this graph was drawn: replace it?")
            self._offer(taken=True)

    def _take_back(self) -> None:
        if self._binding is None or not self._binding.used:
            self._say("There is nothing to take back.")
            return
        name = self._binding.name
        done = self._binding.take_back()
        self._say(
            f"{name!r} is what it was before."
            if done
            else f"{name!r} has been bound to something else meanwhile: it is left as it is."
        )
        self._offer()

    @property
    def _lines(self) -> str:
        """The changes so far as lines of Python, which are shown and written; empty where there are none."""
        return "\n".join(change.code for change in self._past)

    def _offer(self, taken: bool = False) -> None:
        """Show the buttons that keep a change: where there is one, and where it can be taken back."""
        name = "" if self._binding is None else self._binding.name
        code = self._lines
        label = f"replace {name} all the same" if taken else f"use it as {name}"
        with self.batch():
            self.patch("graph-use", visible=bool(code), label=label, tags=["use!" if taken else "use"])
            self.patch("graph-write", visible=bool(code), label="write the line", tags=[code])
            back = self._binding is not None and self._binding.used
            self.patch("graph-back", visible=back, label=f"give {name} back")

    def _undo(self) -> None:
        if not self._past:
            self._say("There is nothing to undo.")
            return
        self._show_model(self._past.pop().model)
        self._say(f"Undone. The schedule: {self.model.schedule().text}", self._lines)
        self._offer()

    def _show_model(self, model: Any) -> None:
        self.model, self.graph = model, model.graph
        if self.selected not in self.graph.nodes:
            self.selected = None
        self._redraw()

    def _say(self, words: str, code: str = "") -> None:
        self.message = f"{words}\n{code}".strip()
        more = f"<br><code>{escape(code)}</code>" if code else ""
        self.patch("graph-message", text=f"{_STYLE}<div>{escape(words)}{more}</div>")

    # ------------------------------------------------------------ watching

    def attach(self, run: Any) -> None:
        """Show the state of a run on the nodes, now and as it goes on."""
        self._run = run
        own = self.model.schedule().text if self.model is not None else run.schedule_text
        if run.schedule_text != own:
            self._say("The draws shown come from a run with another schedule:", run.schedule_text)
        run.subscribe(self._on_run)
        self._look(run)

    def _on_run(self, run: Any) -> None:
        if run is not self._run:
            return
        if run.status in ("finished", "stopped", "failed") or time.monotonic() - self._looked > _EVERY:
            self._look(run)

    def _look(self, run: Any) -> None:
        self._looked = time.monotonic()
        with self.batch():
            names = {**self.graph.nodes, **self.graph.groups}
            self.push("graph-run", **badges(run, names, self.graph.overview()[1]))
            self._show_draws()

    def _show_draws(self) -> None:
        """A small trace and histogram of the chosen node; of one node at a time, to keep the page light."""
        if self._run is not None and self.selected is not None:
            self.push("graph-draws", name=[self.selected], html=[draws_html(self._run, self.selected)])


def graph_html(graph: Any, use_greek: bool = False) -> str:
    """The graph as a static picture for pages without a kernel."""
    return svg_html(graph_svg(graph, use_greek), alt=brief(graph))


def show_graph(model: Any, use_greek: bool = False, run: Any = None) -> GraphWidget:
    """The interactive graph of a `Model`, or of a bare `DependencyGraph`; with `run`, its state too. No
    conditional and no kernel holds in all structures of a model whose structure changes: its graph alone."""
    graph = getattr(model, "graph", model)
    alone = graph is model or hasattr(model, "structured")
    return GraphWidget(graph, None if alone else model, use_greek, run)
