"""How objects of the lower floors show themselves: by the views, which stand above them and are asked for
only when there is something to show.

The package's top says where the views are (`use`); a `Shown` object asks them.
"""

import logging
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

_log = logging.getLogger("gibbsite")
_where: list[Callable[[], Any]] = []


def use(load: Callable[[], Any]) -> None:
    """Have `load()` give the module that shows things, when it is first needed."""
    _where[:] = [load]
    views.cache_clear()


@cache
def views() -> Any:
    """The module that shows things: `gibbsite.views.shown`. Raises `ImportError` where its packages lack."""
    if not _where:
        raise ImportError("nothing can be shown before `gibbsite` itself is imported")
    return _where[0]()


def watch(run: Any) -> None:
    """Put the live view of a run into the output of the running cell; nothing where there is no notebook.

    What fails in showing it is told in the log (`gibbsite`): the run goes on.
    """
    ipython = sys.modules.get("IPython")  # a script that has not imported it is no notebook
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    try:
        views().watch(run)
    except Exception:
        _log.exception("what was to show the run failed; the run goes on")


class Shown:
    """Rich displays in every front end: pictures and tables where HTML is shown, words elsewhere."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        try:
            shown = views()
        except ImportError:  # a slim installation: words will do
            return {"text/plain": repr(self)}
        return shown.bundle_of(self)

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get("text/html")


class Once(Shown):
    """As `Shown`, but for a cell whose output has it already: a bare `%sample model` is shown by its
    dashboard, and is what the cell returns."""

    _shown: tuple[Any, int] | None = None  # by which shell, in which of its cells

    def _ipython_display_(self, **kwargs: Any) -> None:
        # IPython's protocol (`core.formatters.catch_format_error`): an object that does not display itself
        # raises this, and its bundle is asked for; one that returns has been displayed
        if self._shown is None or self._shown[0].execution_count != self._shown[1]:
            raise NotImplementedError


def shown_by(shell: Any, shown: Once) -> None:
    """Have an object keep in mind that the running cell of IPython's `shell` shows it."""
    shown._shown = shell, shell.execution_count


class Live(Shown):
    """As `Shown`; in a notebook with a kernel, the view that answers to the pointer."""

    def _ipython_display_(self, **kwargs: Any) -> None:
        try:
            display = views().display
        except ImportError as missing:
            raise NotImplementedError from missing  # which sends IPython to the bundle
        display(self)
