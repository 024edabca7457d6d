"""What a phase of a run costs: the time of its steps, also of those made while others are taken in."""

import time

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.sampling import execution as running
from gibbsite.sampling.engine import in_flight as flying
from gibbsite.sampling.watch.pace import Pace
from gibbsite.storage.draws import Draws

STEP, TAKE = 1.0, 10.0  # seconds of a step, and of taking in a chunk


class Clock:
    """Time that passes only where it is told to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str):
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, land, append = Clock(), flying.Flight.landed, Draws.append

    def landed(self):
        chunk, _ = land(self)
        clock.now = max(clock.now, self.began + self.steps * STEP)
        return chunk, self.steps * STEP

    def appended(self, *args):
        clock.now += TAKE
        return append(self, *args)

    monkeypatch.setattr(running, "time", clock)
    monkeypatch.setattr(flying, "time", clock)
    monkeypatch.setattr(flying.Flight, "landed", landed)
    monkeypatch.setattr(Draws, "append", appended)
    return clock


def test_draws_that_are_made_while_warmup_is_taken_in_are_paid_for_by_the_draws(clock: Clock):
    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal(0, 1)), 1), obs=y)

    run = gb.model(model, np.zeros(3, np.float32)).sample(draws=40, warmup=20, chains=2, chunk=10)
    # two chunks of warm-up, each 10 s from its departure to the next one's; four of draws, and the last to be
    # taken in when nothing is on its way
    assert run._pace.steps == [20, 40]
    assert run._pace.seconds == [20 * STEP, 40 * STEP + TAKE]
    found = run.snapshot(5)
    assert found.efficiency.ess_per_second == pytest.approx(
        min(s.ess_bulk for s in found.scalars) / (40 * STEP + TAKE)
    )


def test_the_time_left_goes_by_the_pace_of_each_phase():
    pace = Pace()
    pace.add(True, 100, 50.0)
    assert pace.eta(100, 200) == pytest.approx(150.0)
    pace.add(False, 100, 10.0)
    assert pace.eta(0, 100) == pytest.approx(10.0)
