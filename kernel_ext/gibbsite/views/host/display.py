"""Puts a live view and its static twin into a cell's output.

JupyterLab picks the richest entry of one mime bundle. Once the kernel is gone the widget entry still wins,
and shows only "model not found"; nbconvert leaves it blank. So a view is displayed as *two* outputs: the
widget without any text, and a static twin (HTML and text) that the widget's JS hides while it is alive. A
saved, re-opened, converted or previewed notebook shows the twin, and the twin's style hides the line "model
not found" that JupyterLab puts in the place of a widget without a kernel.
"""

import base64
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
Content = str | Callable[[], str]


class Hosted(Protocol):
    """What `show` needs of a view."""

    def widget_mime(self) -> dict[str, Any]: ...
    def static_html(self) -> str: ...
    def text(self) -> str: ...
    def put_away(self) -> None: ...


def first_line(text: str) -> str:
    """What stands in for a view whose text is long."""
    return text.splitlines()[0] if text else "gibbsite view"


def resolve(content: Content) -> str:
    """The text itself, or what the function returns."""
    return content() if callable(content) else content


def bundle(widget: dict[str, Any] | None = None, *, html: str = "", text: str = "") -> dict[str, Any]:
    """A mime bundle of the entries that there are; `text/plain` is always among them."""
    out: dict[str, Any] = {"text/plain": text}
    if html:
        out["text/html"] = html
    return out | (widget or {})


def in_notebook() -> bool:
    """True under a kernel that can carry widgets, False in a terminal or a script."""
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def twin_html(html: str, twin: str) -> str:
    """Static HTML that the live view can find and hide."""
    lost = f".jp-OutputArea-child:has(> .jupyter-widgets):not(:has(.gb-view)):has(+ * #{twin})"
    return f'<style>{lost}{{display:none}}</style><div id="{twin}" class="gibbsite-static">{html}</div>'


class _Outputs:
    """The views in the outputs of cells. Whoever runs a cell again has its former output removed from the
    page: what stands in no other cell's is put away, or a kernel would hold all runs that it ever showed.
    """

    def __init__(self) -> None:
        self._cells: dict[str, tuple[str, list[Hosted]]] = {}  # by their id: the execution, and its views

    def hold(self, view: Hosted) -> None:
        """`view` is shown in the running cell; nothing is known of cells where the front end names none."""
        kernel = get_ipython().kernel  # type: ignore[union-attr]
        message = getattr(kernel, "get_parent", dict)()  # kernels of other makes have none
        cell = message.get("metadata", {}).get("cellId")
        if not cell:
            return
        execution = message.get("header", {}).get("msg_id", "")
        before, views = self._cells.get(cell, (execution, []))
        self._cells[cell] = (execution, [*views, view] if before == execution else [view])
        if before != execution:
            shown = {id(v) for _, some in self._cells.values() for v in some}
            for former in views:
                if id(former) not in shown:
                    former.put_away()


_OUTPUTS = _Outputs()


def show(view: Hosted, twin: str, live: str) -> None:
    """Display `view` as live output and static twin; in a terminal, print its text.

    The twin's display id is `twin`, so that `update_twin` can replace it when the view has changed;
    that of the live output is `live`, another one each time, for `show_again`.
    """
    text = view.text()
    if not in_notebook():
        print(text)
        return
    _OUTPUTS.hold(view)
    publish_display_data(bundle(view.widget_mime()), transient={"display_id": live})
    html = view.static_html()
    if html:
        publish_display_data(bundle(html=twin_html(html, twin), text=text), transient={"display_id": twin})


def show_again(view: Hosted, live: str) -> None:
    """Have a page draw a live output that it could not: the widget was not there yet."""
    if in_notebook():
        publish_display_data(bundle(view.widget_mime()), transient={"display_id": live}, update=True)


def update_twin(view: Hosted, twin: str) -> None:
    """Replace the static twin by the view's state of now; does nothing outside a notebook."""
    if in_notebook():
        publish_display_data(
            bundle(html=twin_html(view.static_html(), twin), text=view.text()),
            transient={"display_id": twin},
            update=True,
        )


def name_of(thing: Any, otherwise: str) -> str:
    """The notebook's name for a thing: `otherwise` if that is it, or nothing else is."""
    shell = get_ipython()
    space = {} if shell is None else shell.user_ns
    if space.get(otherwise) is thing:
        return otherwise
    own = (n for n, v in list(space.items()) if v is thing and not n.startswith("_"))
    return next(own, otherwise)


# Static renderings that survive every viewer: a self-contained SVG inside an ``<img>``.
#
# JupyterLab empties inline ``<svg>`` in a notebook that is not trusted, and code hosting does so always; an
# image with a data address is kept by both, scales to the cell's width and cannot clash with page styles.


def svg_html(svg: str, alt: str, width: int | None = None) -> str:
    """An ``<img>`` that holds `svg`; `alt` is read where images are not shown.

    Args:
        svg: a complete SVG document with ``xmlns`` and a ``viewBox``.
        alt: one line that says what the picture shows.
        width: pixels it would like to have; it shrinks with the page.
    """
    data = base64.b64encode(svg.encode()).decode()
    size = f' width="{width}"' if width else ""
    return (
        f'<img class="gibbsite-svg" alt="{escape(alt, quote=True)}"{size} '
        f'style="max-width:100%;height:auto;vertical-align:top" src="data:image/svg+xml;base64,{data}">'
    )
