"""A run's progress as lines of text."""

import io
from dataclasses import dataclass, replace
from typing import Any

from gibbsite.progress import Lines, progress_line


@dataclass(frozen=True)
class Scalar:
    label: str = "mu[0]"
    rhat: float = 1.2345
    ess_bulk: float = 67.8


@dataclass(frozen=True)
class Snapshot:
    status: str = "sampling"
    message: str | None = None
    chains: int = 2
    warmup_done: int = 10
    warmup_total: int = 10
    draws_done: int = 5
    draws_total: int = 20
    elapsed: float = 1.26
    eta: float | None = 3.4
    divergences: tuple[int, ...] = (1, 2)
    scalars: tuple[Scalar, ...] = (Scalar(),)


def test_a_line_tells_what_a_person_wants_to_know():
    assert progress_line(Snapshot()) == (
        "sampling · 5/20 draws in 2 chains · 1.3 s · about 3 s left · 3 divergences · "
        "worst: mu[0] R-hat 1.234, ESS 68"
    )


def test_compiling_and_warming_up_are_told_apart():
    early = Snapshot(divergences=(0, 0), eta=None, scalars=())
    assert progress_line(replace(early, status="compiling")) == "compiling · 1.3 s"
    assert progress_line(replace(early, status="warmup")) == "warmup · 10/10 · 1.3 s"


def test_a_message_comes_last():
    line = progress_line(replace(Snapshot(), status="failed", message="it broke"))
    assert line.startswith("failed") and line.endswith("it broke")


def test_lines_are_few_but_no_status_is_missed():
    class Run:
        status = "compiling"

        def snapshot(self) -> Any:
            return Snapshot(status=self.status)

    out, run = io.StringIO(), Run()
    lines = Lines(out, seconds=1e9)
    for status in ("compiling", "compiling", "warmup", "sampling", "sampling", "finished"):
        run.status = status
        lines(run)
    assert [line.split(" · ")[0] for line in out.getvalue().splitlines()] == [
        "compiling",
        "warmup",
        "sampling",
        "finished",
    ]
