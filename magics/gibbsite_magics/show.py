"""Where things are shown: rich displays where a front end may draw them, text in a plain terminal."""

import sys
import time
from typing import Any

from IPython.display import display


def has_front_end(shell: Any) -> bool:
    """Whether displays go to a Jupyter front end rather than to a terminal."""
    return getattr(shell, "kernel", None) is not None


def show(shell: Any, view: str, subject: Any, text: Any) -> None:
    """Display `gibbsite.views.<view>(subject)`; without a front end, or its packages, print `text`."""
    shown = None
    if has_front_end(shell):
        try:
            from gibbsite import views

            shown = getattr(views, view)(subject) if hasattr(views, view) else subject
        except ImportError as missing:
            print(f"(shown as text: {missing})", file=sys.stderr)
    if shown is None:
        print(text)
    else:
        display(shown)


class FirstWait:
    """The first model of a kernel waits for JAX and NumPyro to be loaded: a line says so, and then what took
    how long, where somebody is at the page. Other models take too little to speak of."""

    def __init__(self, shell: Any):
        watched = getattr(getattr(shell, "kernel", None), "_allow_stdin", False)
        self._began = self._loaded = time.monotonic()
        self._handle: Any = None
        if watched and "jax" not in sys.modules:
            self._handle = display(Line("loading JAX and NumPyro, once per kernel …"), display_id=True)

    def loaded(self) -> None:
        """They are there."""
        self._loaded = time.monotonic()
        if self._handle is not None:
            self._handle.update(Line("analysing the model …"))

    def failed(self) -> None:
        """The cell shows an error, which says more."""
        if self._handle is not None:
            self._handle.update(Line(""))

    def analysed(self) -> None:
        """The model is there."""
        if self._handle is not None:
            first, second = self._loaded - self._began, time.monotonic() - self._loaded
            words = (
                f"JAX and NumPyro loaded in {first:.1f} s, once per kernel; model analysed in {second:.1f} s"
            )
            self._handle.update(Line(words if first + second >= 1 else ""))


def begin(shell: Any, start: Any, quiet: bool = False) -> Any:
    """Have `start()` make a run in the background, show it where there is a front end, and return it."""
    run = start()
    foretell(run)
    if not quiet and has_front_end(shell):
        _dashboard(shell, run)
    return run


def _dashboard(shell: Any, run: Any) -> None:
    from gibbsite.showing import shown_by

    show(shell, "dashboard", run, run)
    shown_by(shell, run)


def foretell(run: Any) -> None:
    """Say what a long run will take, before it begins."""
    from gibbsite.sampling.start import foretold

    if words := foretold(run):
        print(f"{words}; an interrupt (■) keeps what is there", flush=True)


def watch(shell: Any, sample: Any, name: str | None, quiet: bool = False) -> Any:
    """Have `sample(on_start=…)` make a run, show it until it ends, and return it. The first interrupt stops
    it and keeps its draws; the run is bound to `name` before anything can interrupt it."""
    __tracebackhide__ = True
    from gibbsite.progress import Lines

    forget: list[Any] = []

    def begin(run: Any) -> None:
        if name is not None:
            shell.user_ns[name] = run
        foretell(run)
        if quiet:
            return
        if has_front_end(shell):
            _dashboard(shell, run)
        else:
            lines = Lines()
            lines(run)
            forget.append(run.subscribe(lines))

    try:
        run = sample(on_start=begin)
    finally:
        for ended in forget:
            ended()
    if quiet and not run.verdict.ok:
        print(f"{run.model_name}: {run.verdict}", file=sys.stderr)
    return run


def follow(shell: Any, check: Any, again: bool) -> None:
    """Show the findings of a check as they come: a table in a front end, lines in a terminal. `again`: the
    cell shows the check at its end, and nothing is left here."""
    if not has_front_end(shell):
        told: list[str] = []

        def say(check: Any) -> None:
            for finding in check.findings:
                if (line := str(finding)) not in told:
                    told.append(line)
                    print(line, flush=True)

        check.subscribe(say)
        return
    handle: Any = display(check, display_id=True)
    check.subscribe(lambda c: handle.update(Line("") if again and c.status != "running" else c))


class Line(str):
    """A line of text as a display."""

    def __repr__(self) -> str:
        return str(self)
