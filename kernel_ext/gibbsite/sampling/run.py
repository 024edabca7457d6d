"""A run: sampling that can be watched, stopped and continued."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from gibbsite.errors import GibbsiteError, ModelError, UnknownNameError
from gibbsite.kernels.plan import Plan
from gibbsite.sampling.diagnostics import all_stats
from gibbsite.sampling.draws import Draws, empty_like, label_of, scalar_labels
from gibbsite.sampling.engine import Chunk, Engine
from gibbsite.sampling.snapshot import BlockStat, History, Notice, ScalarStat, Snapshot, TraceView

_CHUNK_SECONDS = 0.2
_WATCHED_PER_SITE = 24
# in-run measures may take this share of the time that passes between them
_DIAGNOSTIC_SHARE = 0.02


class Run:
    """Chains of one plan, sampled in chunks in a background thread.

    Made by `Model.sample` and `Model.start`. `draws` holds what is completed at any moment; `stop` ends at
    the next chunk and keeps everything; `resume` goes on from there. The draws are the same however the run
    was cut into chunks, stopped and resumed.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        *,
        draws: int,
        warmup: int,
        seed: int,
        chunk: int | None,
        device: Any = None,
    ):
        self._plan, self._engine, self._device = plan, engine, device
        self._warmup, self._target, self._seed = warmup, draws, seed
        self._fixed_chunk = chunk
        self._draws = Draws(plan)
        self._state: Any = None
        self._status = "compiling"
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._subscribers: list[Callable[[Run], Any]] = []
        self._elapsed, self._began = 0.0, None
        self._compile_seconds = 0.0
        self._step_seconds = float("nan")
        self._scalars: list[ScalarStat] = []
        self._marks: list[tuple[int, dict[str, tuple[float, float]]]] = []
        self._next_measure = 0.0

    # what it is

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._plan.model_name

    @property
    def schedule_text(self) -> str:
        """The schedule, as text."""
        return self._plan.schedule_text

    @property
    def status(self) -> str:
        """ "compiling", "warmup", "sampling", "finished", "stopped" or "failed"."""
        return self._status

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """Completed draws after warm-up, `[chain, draw, *shape]` by site; equal counts over chains."""
        values = self._draws.values(skip=self._warmup)
        return values or empty_like(self._plan, self._engine.chains)

    @property
    def info(self) -> dict[str, dict[str, np.ndarray]]:
        """Per block, statistics `[chain, draw]` after warm-up: acceptance, step size, divergences, …"""
        out: dict[str, dict[str, np.ndarray]] = {b.label: {} for b in self._plan.blocks}
        for key, v in self._draws.stats(skip=self._warmup).items():
            block, name = key.split(".", 1)
            out[self._plan.blocks[int(block)].label][name] = v
        return out

    def __repr__(self) -> str:
        s = self.snapshot(limit=1)
        text = f"<Run of {self.model_name}: {s.status}, {s.chains} chains × {s.draws_done} draws"
        return text + (f", {sum(s.divergences)} divergences>" if any(s.divergences) else ">")

    # running

    def start(self) -> None:
        """Sample in a background thread until the target is reached or `stop` is called."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._sample, name=f"gibbsite {self.model_name}", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> "Run":
        """Block until the run ends (or `timeout` seconds pass); raises what made it fail."""
        deadline = None if timeout is None else time.monotonic() + timeout
        thread = self._thread
        while thread is not None and thread.is_alive():
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if left <= 0:
                return self
            thread.join(left)  # in short pieces, so that an interrupt is seen
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self

    def stop(self) -> None:
        """End at the next chunk; all completed draws are kept. Returns at once."""
        self._stop.set()

    def resume(self, draws: int | None = None) -> "Run":
        """Go on with `draws` more draws per chain (default: those that are left), and block until done.

        An unfinished warm-up is finished first.
        """
        self.continue_(draws)
        return self.wait()

    def continue_(self, draws: int | None = None) -> "Run":
        """As `resume`, in the background."""
        if self._thread is not None and self._thread.is_alive():
            raise GibbsiteError("the run is still going; stop it, or wait for it, before resuming")
        if draws is not None:
            self._target = max(0, self._draws.steps - self._warmup) + draws
        self._status = "compiling" if self._state is None else self._phase()
        self.start()
        return self

    def subscribe(self, callback: Callable[["Run"], Any]) -> Callable[[], None]:
        """Call `callback(run)` from the sampling thread after every chunk and change of status.

        Returns a function that ends it.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback) if callback in self._subscribers else None

    def _phase(self) -> str:
        return "warmup" if self._draws.steps < self._warmup else "sampling"

    def _notify(self) -> None:
        for callback in list(self._subscribers):
            callback(self)

    def _sample(self) -> None:
        self._began = time.monotonic()
        try:
            with jax.default_device(self._device):
                self._loop()
        except BaseException as error:
            self._error, self._status = error, "failed"
        finally:
            self._elapsed += time.monotonic() - self._began
            self._began = None
        if self._status != "failed":
            self._measure(force=True)
        try:
            self._notify()
        except BaseException as error:
            self._error = self._error or error

    def _loop(self) -> None:
        total = self._warmup + self._target
        if self._state is None:
            self._notify()
            began = time.monotonic()
            self._engine.compile()
            self._state = jax.block_until_ready(self._engine.init(jax.random.key(self._seed)))
            _check_start(self._state)
            self._compile_seconds += time.monotonic() - began
        size = self._fixed_chunk or 1
        while self._draws.steps < total:
            if self._stop.is_set():
                self._status = "stopped"
                return
            self._status = self._phase()
            edge = self._warmup if self._draws.steps < self._warmup else total
            n = min(size, self._engine.capacity, edge - self._draws.steps)
            began = time.monotonic()
            state, chunk = self._engine.advance(self._state, n)
            jax.block_until_ready(state)
            seconds = time.monotonic() - began
            self._record(state, chunk)
            self._step_seconds = seconds / n
            if self._fixed_chunk is None:
                size = int(np.clip(_CHUNK_SECONDS / max(seconds / n, 1e-9), max(1, n // 4), 4 * n))
            self._status = self._phase() if self._draws.steps < total else self._status
            self._measure()
            self._notify()
        self._status = "finished"

    def _record(self, state: Any, chunk: Chunk) -> None:
        with self._lock:
            self._draws.append(chunk)
            self._state = state

    # looking at it

    def _measure(self, force: bool = False) -> None:
        done = self._draws.steps - self._warmup
        if done <= 0 or (not force and time.monotonic() < self._next_measure):
            return
        began = time.monotonic()
        self._scalars = all_stats(self.draws, per_site=_WATCHED_PER_SITE)
        self._marks.append((done, {s.label: (s.rhat, s.ess_bulk) for s in self._scalars}))
        self._next_measure = time.monotonic() + (time.monotonic() - began) / _DIAGNOSTIC_SHARE

    def _divergences(self) -> tuple[int, ...]:
        stats = self._draws.stats(skip=self._warmup)
        total = np.zeros(self._engine.chains, int)
        for key, v in stats.items():
            if key.endswith(".diverging"):
                total += v.sum(axis=1).astype(int)
        return tuple(total.tolist())

    def snapshot(self, limit: int = 12) -> Snapshot:
        """The state of the run now; `limit` bounds the scalars listed, worst first."""
        steps, warmup = self._draws.steps, self._warmup
        began = self._began
        elapsed = self._elapsed + (time.monotonic() - began if began is not None else 0.0)
        left = warmup + self._target - steps
        going = self._status in ("warmup", "sampling") and steps > 0
        spent = max(elapsed - self._compile_seconds, 1e-9)
        return Snapshot(
            status=self._status,
            message=str(self._error) if self._error is not None else None,
            chains=self._engine.chains,
            warmup_done=min(steps, warmup),
            warmup_total=warmup,
            draws_done=max(0, steps - warmup),
            draws_total=self._target,
            elapsed=elapsed,
            eta=left * self._step_seconds if going else None,
            compile_seconds=self._compile_seconds,
            steps_per_second=steps / spent if steps else 0.0,
            divergences=self._divergences(),
            chain_states=(self._status,) * self._engine.chains,
            blocks=self._block_stats(),
            scalars=tuple(self._scalars[:limit]),
            warnings=self._notices(),
        )

    def _block_stats(self) -> tuple[BlockStat, ...]:
        stats = self._draws.stats(skip=max(0, self._draws.steps - 200))

        def mean(i: int, name: str) -> float | None:
            v = stats.get(f"{i}.{name}")
            return float(np.mean(v)) if v is not None and v.size else None

        out = []
        for i, b in enumerate(self._plan.blocks):
            steps = mean(i, "n_steps")
            out.append(
                BlockStat(
                    b.label,
                    b.kernel,
                    b.sites,
                    None,
                    mean(i, "acceptance_rate"),
                    mean(i, "step_size"),
                    None if steps is None else float(np.log2(steps + 1)),
                )
            )
        return tuple(out)

    def _notices(self) -> tuple[Notice, ...]:
        out = []
        divergent = sum(self._divergences())
        if divergent:
            done = max(1, (self._draws.steps - self._warmup) * self._engine.chains)
            out.append(
                Notice(
                    f"{divergent} divergent transitions ({100 * divergent / done:.1f} % of draws)",
                    "raise target_accept_prob, or write hierarchies in non-centred form",
                )
            )
        bad = [s for s in self._scalars if s.rhat > 1.01]
        if bad and self._status in ("finished", "stopped"):
            names = ", ".join(s.label for s in bad[:3]) + (", …" if len(bad) > 3 else "")
            out.append(
                Notice(f"R-hat is above 1.01 for {names}", "draw more, or look whether chains swapped labels")
            )
        return tuple(out)

    def trace(self, label: str, max_points: int = 500) -> TraceView:
        """A scalar over the whole run, thinned to at most `max_points` points with the range of each."""
        x = self.values(label)
        n = x.shape[1]
        if n == 0:
            empty = np.zeros((x.shape[0], 0))
            return TraceView(np.zeros(0, int), empty, empty, empty)
        edges = np.unique(np.linspace(0, n, min(n, max_points) + 1).astype(int))
        starts = edges[:-1]
        low, high = np.minimum.reduceat(x, starts, axis=1), np.maximum.reduceat(x, starts, axis=1)
        return TraceView(starts, x[:, starts], low, high)

    def values(self, label: str) -> np.ndarray:
        """All draws of one scalar, `[chain, draw]`."""
        site, index = self._scalar(label)
        if self._draws.steps == 0:
            return np.zeros((self._engine.chains, 0))
        return self._draws.scalar(site, index, skip=self._warmup)

    def _scalar(self, label: str) -> tuple[str, tuple[int, ...]]:
        """Site and index of a label such as `mu[0]`, read from its text: big sites have many labels."""
        empty = empty_like(self._plan, 1)
        shapes = {n: v.shape[2:] for n, v in empty.items()}
        if shapes.get(label) == ():
            return label, ()
        site, _, rest = label.removesuffix("]").rpartition("[")
        index = tuple(int(i) for i in rest.split(", ") if i.isdecimal())
        shape = shapes.get(site, ())
        within = len(index) == len(shape) > 0 and all(i < n for i, n in zip(index, shape, strict=True))
        if not within or label != label_of(site, index):
            raise UnknownNameError("parameter", label, (name for name, _, _ in scalar_labels(empty)))
        return site, index

    def history(self) -> History:
        """R-hat and ESS as they went, by label."""
        marks = list(self._marks)
        labels = {label for _, m in marks for label in m}
        nan = (np.nan, np.nan)
        return History(
            np.array([d for d, _ in marks], int),
            {n: np.array([m.get(n, nan)[0] for _, m in marks]) for n in labels},
            {n: np.array([m.get(n, nan)[1] for _, m in marks]) for n in labels},
        )

    def diagnostics(self, site: str | None = None) -> list[ScalarStat]:
        """The measures of every scalar (of `site`, or of all sites), worst first."""
        draws = self.draws
        if site is not None and site not in draws:
            raise UnknownNameError("site", site, draws)
        return all_stats(draws if site is None else {site: draws[site]})

    def summary(self, **options: Any) -> Any:
        """ArviZ's summary table of the draws so far."""
        from arviz_stats.summary import summary

        return summary(self.to_datatree(), **options)

    def to_datatree(self) -> Any:
        """The draws as the `xarray.DataTree` that ArviZ reads; see `datatree.to_datatree`."""
        from gibbsite.sampling.datatree import to_datatree

        return to_datatree(self._plan, self.draws, self._draws.stats(skip=self._warmup))


def _check_start(state: Any) -> None:
    """Refuse chains that start at a non-finite density."""
    for block in state.block_states:
        energy = getattr(block, "potential_energy", None)
        if energy is not None and not np.all(np.isfinite(np.asarray(energy))):
            bad = int(np.sum(~np.isfinite(np.asarray(energy))))
            raise ModelError(
                f"{bad} chains start at a point of zero or undefined density; look for data outside the "
                f"support of their distribution, or for a prior that allows impossible parameters"
            )
