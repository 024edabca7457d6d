"""`Check`: all tests of one model in the order of their cost, in a thread, until they are through or time is
over."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.checking.calibration import calibration, pilot
from gibbsite.checking.conditionals import conditionals
from gibbsite.checking.dependence import dependence
from gibbsite.checking.distributions import distributions
from gibbsite.checking.finding import LEVEL, STATES, Finding
from gibbsite.checking.invariance import Sweeps, invariance
from gibbsite.checking.marginals import marginals
from gibbsite.checking.reach import reach
from gibbsite.checking.replicates import NotReplicated, Replicates, replicated
from gibbsite.checking.truth import places, states
from gibbsite.errors import GibbsiteError
from gibbsite.ground import opaque
from gibbsite.ground.process import Wait, at_end
from gibbsite.showing import Shown, views

DATA_SETS = 2048
_PLACES = 3
_EARLY, _SHARE, _WHOLE = 0.35, 0.1, 0.65
"""Of the time: what conditionals and distributions may take, what these have whatever came before, and the
pairs that are swept; calibration takes all that is left."""
_GOING: set["Check"] = set()


class Check(Shown):
    """Whether the sampler of a model is right, test by test; made by `Model.check`.

    `findings` grow while it goes on; `ok` says that none of them is "wrong". `stop()` ends it at the next
    step and keeps what was found, `wait()` blocks until the end.
    """

    def __init__(self, model: Any, seconds: float, seed: int, on: Any = None):
        self.model, self.seconds, self.seed, self._on = model, seconds, seed, on
        self._findings: dict[str, Finding] = {}
        self._stop, self._ended = threading.Event(), threading.Event()
        self._all_told = threading.Event()  # who waits goes on when those who watch know the end
        self._subscribers: list[Callable[[Check], Any]] = []
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._thread = threading.Thread(target=self._run, name=f"check of {model.name}", daemon=True)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far, in the order of the tests."""
        return tuple(self._findings.values())

    @property
    def ok(self) -> bool:
        """Whether something was tested, and nothing that was found is wrong."""
        states = {f.state for f in self.findings}
        return "wrong" not in states and bool(states & {"right", "doubtful"})

    @property
    def status(self) -> str:
        """ "running", "stopped" or "finished"."""
        if not self._ended.is_set():
            return "running"
        return "stopped" if self._stop.is_set() else "finished"

    @property
    def verdict(self) -> str:
        """All of it in one line."""
        states = [f.state for f in self.findings]
        told = ", ".join(f"{states.count(s)} {s}" for s in STATES if s in states)
        going = {"running": " (going on)", "stopped": " (stopped)"}.get(self.status, "")
        return f"{told or 'nothing tested yet'}{going}"

    def start(self) -> "Check":
        """Begin in the background."""
        _GOING.add(self)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End after the step that is under way; returns at once."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> "Check":
        """Block until the end, or for so many seconds. An interrupt stops the check, and keeps what was
        found."""
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._all_told.wait(0.1):
                if until is not None and time.monotonic() >= until:
                    break
        except KeyboardInterrupt:
            self.stop()
        return self

    def settle(self, seconds: float) -> None:
        """Wait at most so long for the thread to end."""
        self._all_told.wait(seconds)

    def subscribe(self, callback: Callable[["Check"], Any]) -> None:
        """Have `callback(self)` called at every finding, in the check's own thread."""
        self._subscribers.append(callback)

    def report(self, path: str | Path) -> Path:
        """Write the findings, with the ranks of calibration, to one HTML file; returns its path."""
        return views().write_check(self, path)

    def _going(self) -> bool:
        return not self._stop.is_set() and time.monotonic() < self._until

    def _early(self) -> bool:
        return self._going() and time.monotonic() < self._began + _EARLY * self.seconds

    def _for_a_while(self) -> Callable[[], bool]:
        """Whether the step that begins now goes on: until what is early is over, and for a share of the time
        wherever others took more."""
        until = max(self._began + _EARLY * self.seconds, time.monotonic() + _SHARE * self.seconds)
        return lambda: self._going() and time.monotonic() < until

    def _told(self, finding: Finding) -> None:
        self._findings[finding.test] = finding
        for callback in list(self._subscribers):
            callback(self)

    def _run(self) -> None:
        try:
            for test, step in self._steps():
                if not self._going():
                    self._told(Finding(test, "open", self._why_not()))
                    continue
                began = time.monotonic()
                try:
                    found = step()
                except NotReplicated as why:
                    found = Finding(test, "open", f"data sets cannot be drawn from this model: {why}")
                except Exception as error:  # the others' verdicts are worth having
                    if opaque.is_strict() and not isinstance(error, GibbsiteError):
                        raise
                    text = str(error).splitlines()[0] if str(error) else ""
                    found = Finding(test, "open", f"the test itself failed: {type(error).__name__}: {text}")
                if found is not None:
                    self._told(replace(found, seconds=time.monotonic() - began))
        finally:
            _GOING.discard(self)
            self._ended.set()
            try:
                for callback in list(self._subscribers):
                    callback(self)
            finally:
                self._all_told.set()

    def _why_not(self) -> str:
        if self._stop.is_set():
            return "stopped before it was its turn"
        return f"not reached within {self.seconds:g} seconds: give it more"

    def _steps(self) -> Iterator[tuple[str, Callable[[], Finding | None]]]:
        """Tests by name; one that finds that there is nothing to ask of this model returns None."""
        model, seed = self.model, self.seed
        at = places(model, states(model, _PLACES, seed) or self._reached())
        yield "conditionals", lambda: conditionals(model, at, seed, self._early)
        yield "sums and integrals", lambda: marginals(model, at, seed)
        yield "distributions", lambda: distributions(model, at, seed, self._for_a_while())
        yield "index maps", lambda: dependence(model, at)
        yield "the whole schedule", self._whole
        if any(model.density.sites[n].discrete for n in model.density.latents):
            yield "reach", self._reach
        yield "calibration", self._calibration

    def _reached(self) -> list[dict[str, Any]]:
        """Where chains get to, of a model whose statements hardly ever draw what data allow; nothing where
        they have no start. Places are all that is taken from them."""
        try:
            run = self._awaited(pilot(self.model.plan(), self.seed))
        except GibbsiteError:
            return []
        draws = {n: np.asarray(run.draws[n]) for n in self.model.density.latents}
        made = run.kept.sampled.steps
        return [{n: v[c, -1] for n, v in draws.items()} for c in range(_PLACES)] if made else []

    def _awaited(self, run: Any) -> Any:
        while run.going:
            if self._stop.is_set():
                run.stop()
            run.wait(0.2)
        return run.wait()

    _replicates: Replicates | None = None
    _sweeps: Sweeps | None = None

    def _made(self) -> tuple[Replicates, Sweeps]:
        if self._replicates is None:
            self._replicates = replicated(self.model, DATA_SETS, self.seed)
        if self._sweeps is None:
            run = self._awaited(pilot(self._replicates.plan, self.seed))
            kernel, state = run.reached
            self._sweeps = Sweeps(self._replicates, kernel, state)
        return self._replicates, self._sweeps

    def _whole(self) -> Finding:
        replicates, sweeps = self._made()
        until = self._began + _WHOLE * self.seconds
        return invariance(sweeps, replicates, until, self._going)

    def _reach(self) -> Finding:
        replicates, sweeps = self._made()
        return reach(sweeps, replicates, self.model, self._going)

    def _calibration(self) -> Finding:
        replicates, _ = self._made()
        sound = self._findings["the whole schedule"].state == "right"
        return calibration(replicates, self.seed, self._until, self._going, sound, self._told, self._on)

    def __repr__(self) -> str:
        head = f"check of {self.model.name}: {self.verdict}"
        blind = "\n            cannot see: "
        lines = [f"  {f}{blind + f.blind if f.blind else ''}" for f in self.findings]
        rate = (
            f"  A test calls what is right wrong in one case of {1 / LEVEL:.0f} at most; see docs/trust.md."
        )
        return "\n".join([head, *lines, rate])


def _end() -> list[Wait]:
    going = list(_GOING)
    for check in going:
        check.stop()
    return [check.settle for check in going]


at_end(_end)
