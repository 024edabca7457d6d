"""Cures of a run, tried beside it: a new run in the background, and how the two compare."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gibbsite.diagnostics.verdict.compare import Comparison, compare
from gibbsite.diagnostics.verdict.cure import Cure
from gibbsite.diagnostics.verdict.cures import cures
from gibbsite.errors import GibbsiteError
from gibbsite.views.host.display import name_of
from gibbsite.views.run.content import ENDED, status_of
from gibbsite.views.run.words import fixed, number, progress, whole

_WHOLE = ("lowest ESS", "divergences")
MORE = 500  # draws that the button adds
_EVERY = 1.0  # seconds between two looks at what is tried


class Trial:
    """A cure that is tried: `run` is the new run, `error` why there is none."""

    def __init__(self, cure: Cure, old: Any, woken: Callable[[], None]):
        self.cure, self._old = cure, old
        self.run: Any = None
        self.error = ""
        self.comparison: Comparison | None = None
        try:
            model, s = cure.applied(old.model), old.settings
            self.run = model.start(
                draws=s.draws, warmup=cure.warmup or s.asked_warmup, chains=s.chains, seed=s.seed, thin=s.thin
            )
        except GibbsiteError as problem:
            self.error = str(problem)
        else:
            self._woken, self._last = woken, 0.0
            self.run.subscribe(self._heard)

    def _heard(self, run: Any) -> None:
        if run.status in ENDED or time.monotonic() - self._last > _EVERY:
            self._last = time.monotonic()
            self._woken()

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.run is None or self.run.status in ENDED

    def look(self) -> None:
        """Compare, once the new run has ended with draws."""
        if self.ended and self.run is not None and self.comparison is None:
            if self.run.status == "failed":
                self.error = self.run.snapshot(1).message or "the run failed"
            elif self.run.kept.sampled.steps:
                self.comparison = compare(self._old, self.run)

    def told(self) -> dict[str, Any]:
        """What the page shows of it."""
        if self.error:
            return {"state": "failed", "words": self.error}
        snapshot = self.run.snapshot(1)
        if not self.ended:
            return {"state": "trying", "words": f"{status_of(snapshot)[0]} · {progress(snapshot)}"}
        verdict = str(self.run.verdict)
        if self.comparison is None:
            return {"state": "done", "words": verdict}
        agreement = str(self.comparison)
        return {
            "state": "done",
            "words": verdict,
            "rows": trial_rows(self.comparison),
            "agreement": agreement,
        }


def trial_rows(found: Comparison) -> list[list[Any]]:
    """The measures of two runs in words, and which is better: 1 the second, -1 the first, 0 neither."""
    return [[r.name, _figure(r.name, r.first), _figure(r.name, r.second), r.better] for r in found.rows]


def _figure(name: str, value: float) -> str:
    if "R-hat" in name and not value <= 100:
        return fixed(value)
    return whole(value) if name in _WHOLE or abs(value) >= 1000 else number(value)


class Clinic:
    """The cures of one run, and those that are tried.

    `ask` takes a message of the page, on any thread; `work` does what was asked, on the thread that draws.
    """

    def __init__(self, run: Any, woken: Callable[[], None]):
        self._run, self._woken = run, woken
        self._asked: deque[tuple[str, int]] = deque()
        self._cures: tuple[Cure, ...] = ()
        self._trials: dict[int, Trial] = {}
        self._of: Any = None
        self._lock = threading.Lock()
        self.note = ""

    def ask(self, kind: str, number: Any = 0) -> None:
        """Take note of what was asked: "try" or "end" a cure by its number, "more" or "resume"."""
        self._asked.append((kind, int(number)))

    @property
    def waiting(self) -> bool:
        """Whether something was asked that is not done yet."""
        return bool(self._asked)

    @property
    def trials(self) -> dict[int, Trial]:
        """The cures that are tried, by number."""
        return dict(self._trials)

    def work(self) -> bool:
        """Find the cures of a run that has ended, do what was asked, look at what is tried; True where there
        may be something new to show."""
        with self._lock:
            before = self._of
            shot = self._run.snapshot(1)
            # what is wrong may be told some time after the run is told to have ended
            now = (self._run.status, shot.draws_done, tuple((w.topic, w.sites) for w in shot.warnings))
            if self._run.status in ENDED and now != before:
                self._cures, self._of = cures(self._run), now
                self._trials = {}
            busy = bool(self._asked) or bool(self._trials) or now != before
            while self._asked:
                self._do(*self._asked.popleft())
            for trial in self._trials.values():
                trial.look()
            return busy

    def _do(self, kind: str, number: int) -> None:
        self.note = ""
        if kind == "end":
            if number in self._trials and self._trials[number].run is not None:
                self._trials[number].run.stop()
        elif kind in ("more", "resume"):
            self._go_on(None if kind == "resume" else number or MORE)
        elif kind == "try" and 0 <= number < len(self._cures):
            cure = self._cures[number]
            if cure.draws:
                self._go_on(cure.draws)
            else:
                self._trials[number] = Trial(cure, self._run, self._woken)

    def _go_on(self, draws: int | None) -> None:
        try:
            self._run.continue_(draws)
        except GibbsiteError as problem:
            self.note = str(problem)

    def told(self) -> dict[str, Any]:
        """The trait `_cures` of a dashboard, which `js/dashboard/cures.mjs` reads."""
        run, status = self._run, self._run.status
        model = run.model
        ended = status in ENDED
        unfinished = status == "stopped" or (status == "failed" and model is not None)
        names = {} if model is None else {"model": name_of(model, model.name), "run": name_of(run, "run")}
        return {
            "note": self.note,
            "resume": bool(ended and unfinished and model is not None),
            "more": MORE if ended and status != "failed" and model is not None else 0,
            "cures": [
                {
                    "words": c.words,
                    "expects": c.expects,
                    "code": c.code(
                        **names, flags=_flags(run.settings, c.warmup or run.settings.asked_warmup)
                    ),
                    "trial": self._trials[i].told() if i in self._trials else None,
                }
                for i, c in enumerate(self._cures)
            ]
            if ended
            else [],
        }


def _flags(settings: Any, warmup: Any) -> str:
    """The options of `%sample` that differ from its defaults."""
    asked = (("n", settings.draws, 1000), ("w", warmup, "auto"), ("c", settings.chains, 4))
    asked += (("s", settings.seed, 0),)
    return "".join(f" -{letter} {value}" for letter, value, default in asked if value != default)
