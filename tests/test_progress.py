"""A run's progress as lines of text."""

import io
from dataclasses import replace
from typing import Any

import gibbsite
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.progress import Lines, progress_line


@pytest.fixture(scope="module")
def finished() -> Any:
    def model() -> None:
        numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))

    return gibbsite.model(model).sample(draws=40, warmup=20, chains=2)


def test_a_line_tells_how_far_and_how_well(finished: Any):
    line = progress_line(finished.snapshot())
    worst = finished.snapshot().scalars[0]
    assert line.startswith("finished") and "· 40 of 40 draws × 2 chains" in line
    assert line.endswith(f"worst: {worst.label} R-hat {worst.rhat:.3f}, ESS {worst.ess_bulk:.0f}")


def test_lines_are_few_but_no_status_is_missed_and_the_end_is_told_in_full(finished: Any):
    class Replay:
        """The finished run as it went through its states."""

        def __init__(self) -> None:
            self.status = ""

        def snapshot(self, limit: int = 12) -> Any:
            return replace(finished.snapshot(limit), status=self.status)

        def __getattr__(self, name: str) -> Any:
            return getattr(finished, name)

    out, run = io.StringIO(), Replay()
    lines = Lines(out, seconds=1e9)
    for status in ("compiling", "compiling", "warmup", "sampling", "sampling", "finished"):
        run.status = status
        lines(run)
    said = out.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in said[:3]] == ["compiling", "warming up", "sampling"]
    assert said[3].startswith("model: finished")
    table = "\n".join(said[4:])
    assert all(word in table for word in ("mu[0]", "mu[1]", "R-hat", "ESS bulk"))
