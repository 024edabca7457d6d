"""Hosts a Bokeh layout in a notebook: offline, updated from Python, never blank when the kernel is gone.

`BokehWidget` is an anywidget around a Bokeh root. BokehJS comes from the installed ``bokeh`` package and is
sent once per kernel, by a shared `Library` widget. Everything the page shows is held in traits, so a second
view, a reloaded page and a saved notebook see the newest state; nothing depends on messages that were missed.

    source = ColumnDataSource({"x": [], "y": []}, name="points")
    figure = bokeh.plotting.figure(name="fig"); figure.line("x", "y", source=source)
    view = BokehWidget(figure, static_html=lambda: svg_html(...), text=lambda: "three points")
    view.push("points", x=[1, 2, 3], y=[4, 5, 6])        # replaces the columns of a source, by its name
    view.patch("fig", visible=False)                     # sets properties of a model, by its name
    view.on("click", lambda detail: ...)                 # sent by JS: send("click", {...})
    with view.batch(): ...                               # several pushes, one message

Browser → Python: ``send(kind, detail)`` in a JS hook; in CustomJS,
``cb_obj.document.gibbsite?.(kind, detail)``.
A view with behaviour of its own subclasses with ``_esm = joined("mine.mjs")``.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anywidget
import bokeh
import traitlets
from bokeh.embed import json_item
from bokeh.models import Model as BokehModel
from IPython.core.getipython import get_ipython
from ipywidgets import Widget, widget_serialization
from numpy.typing import ArrayLike

from gibbsite.views.host import wire
from gibbsite.views.host.assets import joined
from gibbsite.views.host.display import WIDGET_MIME, Content, bundle, resolve, show, show_again

# A widget without a face whose messages arrive while a cell is running.
#
# ipykernel 7.4 pins a comm made in a cell to the shell that the cell blocks, so a click would wait for the
# cell's end; this comm alone is sent back to the subshell that JupyterLab opened for it. In exchange it may
# do nothing but set plain fields: its callbacks run on another thread, in the middle of anything.


# Without subshells (before ipykernel 7) a click waits for the running cell.
HEARD_WHILE_BUSY = int(version("ipykernel").split(".")[0]) >= 7


def hear_while_busy(widget: Any) -> None:
    """Have the messages of a widget come in while a cell runs, on another thread."""
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default


class Control(anywidget.AnyWidget):
    """Passes on messages ``{"kind": …}`` from the page: `callback(kind, content)`, from any thread.

    On ipykernel 6 there are no subshells: messages wait for the cell's end, and the kernel's interrupt is the
    way to stop.
    """

    _esm = "export default {}"

    def __init__(self, callback: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__()
        self._callback = callback
        self.on_msg(self._receive)

    def open(self) -> None:
        """As of any widget, which does this when it is made."""
        super().open()
        hear_while_busy(self)

    def _receive(self, _: Any, content: Any, buffers: list) -> None:
        if isinstance(content, dict) and isinstance(content.get("kind"), str):
            self._callback(content["kind"], content)


_BOKEH_JS = Path(bokeh.__file__).parent / "server" / "static" / "js"
# The core, and the widgets that a layout may hold (`Div`, …).
_FRESH = 60.0  # seconds: what was shown before is only out of sight where no page has drawn it
_SCRIPTS = ("bokeh.min.js", "bokeh-widgets.min.js")


def bokeh_js() -> str:
    """The text of BokehJS, of the installed version."""
    return "\n".join((_BOKEH_JS / name).read_text(encoding="utf-8") for name in _SCRIPTS)


class Library(anywidget.AnyWidget):
    """Carries BokehJS to the page; one per kernel (`library`).

    `source` holds the text while the cell runs that needs it first, for a page cannot ask then, where there
    are no subshells. At the cell's end it is put away, so that no saved notebook carries it; a page that
    comes later asks.
    """

    _esm = "export default {}"
    version = traitlets.Unicode().tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(version=bokeh.__version__, source=bokeh_js())
        self.on_msg(self._asked)
        hear_while_busy(self)
        shell = get_ipython()
        if shell is not None:
            shell.events.register("post_run_cell", self._put_away)

    def _put_away(self, *_: Any) -> None:
        shell = get_ipython()
        if shell is not None:
            shell.events.unregister("post_run_cell", self._put_away)
        self.source = ""

    def _asked(self, _: Any, content: Any, buffers: list) -> None:
        if isinstance(content, dict) and content.get("kind") == "source":
            self.send({"kind": "source", "source": bokeh_js()})


@cache
def library() -> Library:
    """The library widget of this kernel, made at the first use."""
    return Library()


def serialised(root: BokehModel) -> str:
    """A layout as packed text. Worth keeping where several views share one: it is most of a view's cost."""
    return wire.packed(json_item(root))


class BokehWidget(anywidget.AnyWidget):
    """A Bokeh root in a notebook cell.

    Args:
        root: a figure or layout, or what `serialised` made of one. Data sources and models that will be
            updated need a `name`.
        static_html: what a page without a kernel shows (see `static.svg_html`); text, or a function that is
            called when the display is made.
        text: the same for a terminal.
        columns: first contents of data sources, by name.
    """

    _esm = joined("host/figure.mjs")
    _library = traitlets.Instance(Library).tag(sync=True, **widget_serialization)
    _item = traitlets.Unicode().tag(sync=True)
    _columns = traitlets.Dict().tag(sync=True)
    _props = traitlets.Dict().tag(sync=True)
    _twin = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        root: BokehModel | str,
        *,
        static_html: Content = "",
        text: Content = "",
        columns: Mapping[str, Mapping[str, ArrayLike]] | None = None,
        **traits: Any,
    ) -> None:
        self._lock = threading.RLock()
        self._callbacks: dict[str, list[Callable[[dict], None]]] = {}
        self._static_html, self._text = static_html, text
        self._stamp, self._shown, self._live = 0, -math.inf, ""
        self.bytes_sent = 0
        super().__init__(
            _library=library(),
            _item=root if isinstance(root, str) else serialised(root),
            _twin=f"gibbsite-{uuid.uuid4().hex[:12]}",
            _columns={name: self._encoded(values) for name, values in (columns or {}).items()},
            **traits,
        )
        self.on_msg(self._receive)
        self.on("unseen", lambda _: self._show_again())

    # ------------------------------------------------------------ Python → browser

    def push(self, source: str, **columns: ArrayLike) -> None:
        """Replace all columns of the data source named `source`. Bounded by what you pass: decimate first."""
        self.push_all({source: columns})

    def patch(self, target: str, **props: Any) -> None:
        """Set properties (JSON values) of the Bokeh model named `target`."""
        self.patch_all({target: props})

    def push_all(self, columns: Mapping[str, Mapping[str, ArrayLike]]) -> None:
        """`push` for several sources."""
        with self._lock:
            self._columns = {**self._columns, **{n: self._encoded(values) for n, values in columns.items()}}

    def patch_all(self, props: Mapping[str, Mapping[str, Any]]) -> None:
        """`patch` for several models."""
        with self._lock:
            self._props = {
                **self._props,
                **{target: {**self._props.get(target, {}), **new} for target, new in props.items()},
            }

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Send all pushes and patches inside as one message."""
        with self._lock, self.hold_sync():
            yield

    def _encoded(self, columns: Mapping[str, ArrayLike]) -> dict[str, Any]:
        encoded = wire.encode(columns)
        self._stamp += 1
        self.bytes_sent += sum(
            len(c["data"]) if isinstance(c, dict) else 8 * len(c) for c in encoded.values()
        )
        # The stamp lets the page skip the sources that did not change.
        return {"stamp": self._stamp, "columns": encoded}

    # ------------------------------------------------------------ browser → Python

    def on(self, kind: str, callback: Callable[[dict], None]) -> Callable[[], None]:
        """Call `callback(detail)` for every event of `kind`; returns a function that ends that."""
        listeners = self._callbacks.setdefault(kind, [])
        listeners.append(callback)
        return lambda: listeners.remove(callback)

    def _receive(self, _: Any, content: Any, buffers: list) -> None:
        if isinstance(content, dict):
            for callback in tuple(self._callbacks.get(content.get("kind", ""), ())):
                callback(content)

    # ------------------------------------------------------------ display

    def static_html(self) -> str:
        """The rendering for a page without a kernel, as it is now."""
        return resolve(self._static_html)

    def text(self) -> str:
        """The rendering for a terminal, as it is now."""
        return resolve(self._text)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Widget, static HTML and text in one bundle. `show` is kinder to saved notebooks: see there."""
        return bundle(self.widget_mime(), html=self.static_html(), text=self.text())

    def widget_mime(self) -> dict[str, Any]:
        """The bundle entry that makes a front end show this widget; if it was put away, it is there again."""
        for widget in self._widgets():
            if widget.comm is None:
                widget.open()
        return {WIDGET_MIME: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}

    def put_away(self) -> None:
        """Let go of the page's side, with the widgets that belong to this one: it is on no page any more."""
        for widget in self._widgets():
            widget.close()

    def _widgets(self) -> list[Widget]:
        """This one and those that it is made of, these first; not what all views share."""
        traits = self.trait_values().items()
        return [*(w for name, w in traits if isinstance(w, Widget) and name != "_library"), self]

    def show(self) -> None:
        """Display in the running cell: the live view, and its static twin for the time after."""
        show(self, self._twin, self.displayed())

    def displayed(self) -> str:
        """A display id for an output that is to be made now, which is shown again where no page draws it."""
        self._shown, self._live = time.monotonic(), uuid.uuid4().hex
        return self._live

    def _show_again(self) -> None:
        """A page has the widget and drew no view: display it once more, unless it was shown long ago, and is
        only out of sight."""
        if time.monotonic() - self._shown < _FRESH:
            self._shown = -math.inf
            show_again(self, self._live)

    def _ipython_display_(self, **kwargs: Any) -> None:
        self.show()
