"""A widget without a face whose messages arrive while a cell is running.

ipykernel 7.4 pins a comm made in a cell to the shell that the cell blocks, so a click would wait for the
cell's end; this comm alone is sent back to the subshell that JupyterLab opened for it. In exchange it may do
nothing but set plain fields: its callbacks run on another thread, in the middle of anything.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import anywidget

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
