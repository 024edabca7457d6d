"""A simulated run: AR(1) chains with the interface that the views ask of a real one."""

import threading
from types import MappingProxyType

import numpy as np
from gibbsite.diagnostics.measures.snapshot import (
    BlockStat,
    Efficiency,
    History,
    Notice,
    ScalarStat,
    Snapshot,
    TraceView,
)


class FakeRun:
    """Advanced by `advance(n)`; subscribers are called in the caller's thread."""

    model_name = "mixture"
    model = None
    superchains = None
    results = MappingProxyType({})
    schedule_text = "Gibbs(z: finite; NUTS(w, mu))"

    def __init__(
        self, chains: int = 4, total: int = 2000, labels=("mu[0]", "mu[1]", "mu[2]", "w[0]", "w[1]")
    ):
        self.chains, self.total, self.labels = chains, total, labels
        rng = np.random.default_rng(0)
        self.series = {}
        for k, label in enumerate(labels):
            rho, noise = (0.97, 0.8, 0.3)[k % 3], rng.normal(size=(chains, total))
            x = np.empty((chains, total))
            x[:, 0] = noise[:, 0]
            for t in range(1, total):
                x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
            self.series[label] = x + k
        self.done, self.status, self.stopped = 0, "compiling", False
        self.marks: list[int] = []
        self.message = None
        self.warmed, self.timed = 0, True
        self.followed: list[str] = []
        self._subscribers: list = []
        self._lock = threading.Lock()

    def advance(self, draws: int, status: str = "sampling") -> None:
        self.done = min(self.total, self.done + draws)
        self.status = "finished" if self.done == self.total else status
        self.marks.append(self.done)
        for callback in tuple(self._subscribers):
            callback(self)

    def stop(self) -> None:
        self.stopped = True

    def follow(self, label: str) -> None:
        self.followed.append(label)

    def subscribe(self, callback):
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def snapshot(self, limit: int = 20) -> Snapshot:
        n = self.done
        scalars = []
        for k, label in enumerate(self.labels):
            rhat, ess = (1.06, 1.013, 1.001)[k % 3], n * self.chains * (0.015, 0.11, 0.54)[k % 3]
            scalars.append(
                ScalarStat(label, label[:-3], (k,), k + 0.01, 1.0, 0.02, rhat, ess, 0.8 * ess, False)
            )
        scalars.sort(key=lambda s: -s.rhat)
        return Snapshot(
            status=self.status, message=self.message, chains=self.chains,
            warmup_done={"compiling": 0, "warmup": self.warmed}.get(self.status, 1000), warmup_total=1000,
            draws_done=n,
            draws_total=self.total, elapsed=0.002 * n, eta=0.002 * (self.total - n), compile_seconds=2.1,
            steps_per_second=500.0, divergences=tuple(3 if c == 1 and n else 0 for c in range(self.chains)),
            chain_states=tuple(self.status for _ in range(self.chains)),
            blocks=(
                BlockStat("z", "finite", ("z",), 0.31 if self.timed else None),
                BlockStat("w, mu", "NUTS", ("w", "mu"), 0.69 if self.timed else None, 0.87, 0.214, 3.0),
            ),
            scalars=tuple(s for i, s in enumerate(scalars) if i < limit or s.label in self.followed)
            if n else (),
            efficiency=Efficiency(120.0), partly={"z": (2048, 84010)},
            warnings=(
                Notice("chain 3 has not moved for 500 draws: z[12]", "try another schedule", "stuck"),
            ) if n else (),
        )  # fmt: skip

    def trace(self, label: str, max_points: int = 500) -> TraceView:
        x = self.values(label)
        if self.done <= max_points:
            return TraceView(np.arange(self.done), x, x, x)
        size = -(-self.done // max_points)
        n = self.done // size
        boxes = x[:, : n * size].reshape(self.chains, n, size)
        return TraceView(np.arange(n) * size + size // 2, boxes.mean(-1), boxes.min(-1), boxes.max(-1))

    def history(self) -> History:
        marks = np.array(self.marks, int)
        decay = {label: 1 + (k + 1) * 3 / (marks + 10.0) for k, label in enumerate(self.labels)}
        return History(marks, decay, {label: marks * 0.2 * (k + 1) for k, label in enumerate(self.labels)})

    def values(self, label: str) -> np.ndarray:
        return self.series[label][:, : self.done]

    @property
    def divergent(self):
        return np.array([d for d in (40, 300, 310) if d < self.done], int)

    def warm_up(self, steps: int) -> None:
        """Make warm-up steps, before any draw."""
        self.warmed += steps
        self.status = "warmup"
        for callback in tuple(self._subscribers):
            callback(self)

    @property
    def warmup_labels(self):
        return self.labels if self.warmed else ()

    def warmup_trace(self, label: str) -> TraceView:
        x = self.series[label][:, : self.warmed] + 9
        return TraceView(np.arange(self.warmed), x, x, x)

    @property
    def derived(self):
        return {}

    @property
    def draws(self):
        sites = {label[:-3] for label in self.labels}
        of = {s: [label for label in self.labels if label[:-3] == s] for s in sorted(sites)}
        return {s: np.stack([self.values(label) for label in labels], axis=2) for s, labels in of.items()}

    @property
    def diverging(self):
        out = np.zeros((self.chains, self.done), bool)
        out[1, self.divergent] = True
        return out

    def element_names(self, site):
        return [label for label in self.labels if label[:-3] == site]

    def axis_labels(self, site):
        return [None]

    def value_labels(self, site):
        return ()

    def prior(self):
        return {"mu": np.random.default_rng(1).normal(0, 5, (500, 3))}

    def time_blocks(self):
        self.timed = True
