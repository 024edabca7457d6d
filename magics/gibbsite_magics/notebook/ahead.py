"""What `%sample` will want is prepared while the kernel is idle."""

import sys
from typing import Any

from gibbsite_magics.show import has_front_end


class Ahead:
    """Has the runs of models prepared in the pauses between cells, where a notebook shows them.

    A terminal has no pauses to speak of: there, and before the first model, nothing is done.
    """

    def __init__(self, shell: Any):
        self._shell = shell
        self._preparing: Any = None

    def ask(self, name: str, model: Any, **options: Any) -> None:
        """Have `%sample name` with these options prepared."""
        if not has_front_end(self._shell):
            return
        if self._preparing is None:
            from gibbsite.preparing import Preparing

            self._preparing = Preparing(quiet, dashboard)
            self._shell.events.register("pre_run_cell", self._begins)
            self._shell.events.register("post_run_cell", self._ended)
        self._preparing.ask(name, model, **options)

    def drop(self, name: str | None = None) -> None:
        """Drop what is prepared under a name, or all of it."""
        if self._preparing is not None:
            self._preparing.drop(name)

    def make_way(self, model: Any = None) -> None:
        """Only what a run of this model waits for goes on."""
        if self._preparing is not None:
            self._preparing.make_way(model)

    def _begins(self, info: Any) -> None:
        self._preparing.busy()

    def _ended(self, result: Any) -> None:
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            self._preparing.drop()
        self._preparing.idle()


def quiet() -> None:
    """Have what this thread prints belong to no cell: who prepares a run runs its model, which may print."""
    for stream in (sys.stdout, sys.stderr):
        belong = getattr(stream, "set_thread_parent", None)
        if belong is None:  # ipykernel before 7 has the means, and no public name for it
            belong = getattr(getattr(stream, "_parent_header", None), "set", None)
        if belong is not None:
            belong({})


def dashboard(options: dict[str, Any]) -> None:
    """Have made what the dashboard of the run will be made of."""
    from gibbsite import views

    views.dashboard_ahead(options["chains"])
