"""How fast a run goes, and when it will be done."""

from dataclasses import dataclass, field


@dataclass
class Pace:
    """Steps and seconds of warm-up and of what comes after it, over the whole run; what goes with a step
    (measures, streaming) is included, compiling is not."""

    steps: list[int] = field(default_factory=lambda: [0, 0])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, warming: bool, steps: int, seconds: float) -> None:
        """Count a chunk, of warm-up or after it."""
        self.steps[not warming] += steps
        self.seconds[not warming] += seconds

    def eta(self, warmup_left: int, draws_left: int) -> float | None:
        """Seconds that are left, at the mean pace of each phase so far; None before anything was done.

        While there are no draws yet, they are taken to need as long as steps of warm-up.
        """
        if sum(self.steps) == 0:
            return None
        both = sum(self.seconds) / sum(self.steps)
        paces = [s / n if n else both for s, n in zip(self.seconds, self.steps, strict=True)]
        return warmup_left * paces[0] + draws_left * paces[1]
