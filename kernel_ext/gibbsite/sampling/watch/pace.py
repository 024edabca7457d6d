"""How fast a run goes, and when it will be done."""

from dataclasses import dataclass, field

_LEAST_SECONDS = 1.0
_LEAST_SHARE = 0.05
_LEAST_STEPS = 20


@dataclass
class Pace:
    """Steps and seconds of warm-up and of what comes after it, over the whole run; what goes with a step
    (measures, streaming) is included, compiling is not.

    A chunk has the time from its departure to that of the next, during which the one before it is taken in:
    what is computed while others are taken in costs, too.
    """

    steps: list[int] = field(default_factory=lambda: [0, 0])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, warming: bool, steps: int, seconds: float) -> None:
        """Count a chunk, of warm-up or after it."""
        self.steps[not warming] += steps
        self.seconds[not warming] += seconds

    @property
    def speed(self) -> float:
        """Steps a second of every chain, after warm-up where there are such; 0 before the first."""
        phase = 1 if self.steps[1] else 0
        return self.steps[phase] / max(self.seconds[phase], 1e-9) if self.steps[phase] else 0.0

    def eta(self, warmup_left: int, draws_left: int) -> float | None:
        """Seconds that are left, at the mean pace of each phase so far; None before that means something:
        before a second, and before twenty steps or a twentieth of the present phase.

        While there are no draws yet, they are taken to need as long as steps of warm-up.
        """
        done, left = (self.steps[0], warmup_left) if warmup_left else (self.steps[1], draws_left)
        if sum(self.seconds) < _LEAST_SECONDS or done < min(_LEAST_STEPS, _LEAST_SHARE * (done + left)):
            return None
        both = sum(self.seconds) / sum(self.steps)
        paces = [s / n if n else both for s, n in zip(self.seconds, self.steps, strict=True)]
        return warmup_left * paces[0] + draws_left * paces[1]
