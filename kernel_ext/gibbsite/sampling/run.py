"""A run: sampling that can be watched, stopped and continued."""

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gibbsite.conditional.reads.support import finite_support
from gibbsite.diagnostics.measures.preview import Preview
from gibbsite.diagnostics.modes.moves import Move, moves_from, noticed
from gibbsite.diagnostics.modes.renamed import TOPIC as RENAMED
from gibbsite.diagnostics.modes.renamed import notices_from
from gibbsite.diagnostics.predictive import predict
from gibbsite.diagnostics.predictive.likelihood import without_labels
from gibbsite.diagnostics.predictive.probabilities import Probabilities, probabilities
from gibbsite.errors import CheckpointError, GibbsiteError, ModelError, OptionError, ResourceError, StoreError
from gibbsite.ground import arguments as sensible
from gibbsite.kernels.nuts.report import Centring, aimed_at, learnt_centring
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling import options
from gibbsite.sampling.derived.derived import Derived
from gibbsite.sampling.engine.abandonable import Work
from gibbsite.sampling.engine.engine import INPUTS, Engine
from gibbsite.sampling.engine.in_flight import Flight
from gibbsite.sampling.engine.initial import superchains
from gibbsite.sampling.engine.not_finite import first_undefined, undefined_error
from gibbsite.sampling.engine.resources import Place
from gibbsite.sampling.engine.stages import ANALYSING, COMPILING, SAMPLING, STARTING, WARMING, Stages, Ticker
from gibbsite.sampling.engine.starting import Start, Starting
from gibbsite.sampling.engine.timing import BlockClock, block_seconds
from gibbsite.sampling.registry import remember
from gibbsite.sampling.remote.engine import RemoteEngine
from gibbsite.sampling.remote.pieces import WorkersLost
from gibbsite.sampling.warm.trace import KEY as FOLLOWED
from gibbsite.sampling.warm.warming import Warming
from gibbsite.sampling.watch.inspection import Looking
from gibbsite.sampling.watch.monitor import Monitor
from gibbsite.sampling.watch.pace import Pace
from gibbsite.sampling.watch.results import Results
from gibbsite.sampling.watch.until import Until
from gibbsite.showing import watch
from gibbsite.storage import checkpoint
from gibbsite.storage.committing import Committing, Packed
from gibbsite.storage.datatree import to_datatree
from gibbsite.storage.described import read_remarks, write_remarks
from gibbsite.storage.draws import Chunk, Drawn, Draws, empty_like
from gibbsite.storage.objects import Objects, store_in
from gibbsite.storage.store import Store
from gibbsite.storage.summaries import PREFIX

# streaming to disk may take this share of a processor: what an append costs, some milliseconds, comes several
# times a second then
_STORE_SHARE = 0.02
_log = logging.getLogger("gibbsite")


@dataclass(frozen=True)
class Settings:
    """What was asked for. `draws` is the target per chain, which `resume` and `extend` move; `warmup` the
    most steps of a warm-up that with `auto_warmup` may end sooner. Of several hosts
    each has `chains` of `all_chains`, from `first_chain` on."""

    draws: int
    warmup: int
    chains: int
    seed: int
    thin: int = 1
    keep_warmup: bool = False
    auto_warmup: bool = False
    chunk: int | None = None
    keep: tuple[str, ...] | None = None
    shard: str | None = None
    first_chain: int = 0
    all_chains: int | None = None
    keep_probs: bool = False
    rescue: bool = True

    @property
    def asked_warmup(self) -> int | str:
        """What gives the same warm-up again: a number of steps, or "auto"."""
        return "auto" if self.auto_warmup else self.warmup


class Run(Looking):
    """Chains of one plan, sampled in chunks in a background thread.

    Made by `Model.sample`, `Model.start` and `gibbsite.load`. `draws` holds what is completed at any moment;
    `stop` ends at the next chunk and keeps everything; `resume` and `extend` go on from there. The draws are
    the same however the run was cut into chunks, stopped, saved and resumed.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine | None,
        settings: Settings,
        *,
        place: Place | None = None,
        init: Mapping[str, np.ndarray] | None = None,
        store: Store | None = None,
        until: Until | None = None,
        max_draws: int | None = None,
        analysed: float = 0.0,
    ):
        self._plan, self._engine, self._place, self.settings = plan, engine, place, settings
        self._init, self._store = init, store
        self._until, self._max_draws = until, max_draws
        self._warming = Warming(plan, settings.warmup, settings.auto_warmup, settings.rescue)
        self._target, self._chains = settings.draws, settings.chains
        self.kept = Draws(plan, settings.warmup, settings.draws, settings.keep_warmup, settings.keep)
        self._monitor = Monitor(plan, settings.chains, lambda: self._aims)
        self._saved_aims: dict[int, float] = {}
        self._preview = Preview(plan)
        self._thinned, self._looking = {}, threading.Lock()
        self._results, self._remarks, self._folder, self._objects = Results(), {}, None, None
        self._derived, self._prior = Derived(), None
        self._state: Any = None
        self._saved_state: dict[str, np.ndarray] | None = None
        self._status = "compiling"
        self._error: BaseException | None = None
        self._message: str | None = None
        self._told, self._placed = "", False
        self._restarts: tuple[Move, ...] = ()
        if init:
            self._place_chains(superchains(plan, init))
        self._saved_centring, self._probs = Centring({}), (0, Probabilities())
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # and not what the thread says: an interrupt within `join` has Python 3.11 take it for ended
        self._ended = threading.Event()
        self._ended.set()
        self._subscribers: list[Callable[[Run], Any]] = []
        self._elapsed, self._began = 0.0, None
        self._compile_seconds = 0.0
        self._pace = Pace()
        self._stages, self._because, self._notifying = Stages(), "", threading.RLock()
        if analysed:
            self._stages.add(ANALYSING, analysed)
            self._elapsed = self._compile_seconds = analysed  # a person waits for that, too
        self._clock = BlockClock(len(plan.blocks))
        self._committing = None if store is None else Committing(store)
        self._store_error: StoreError | None = None
        self._continuing, self._telling = threading.RLock(), threading.Lock()
        self._process = os.getpid()
        remember(self)

    # running

    def start(self) -> None:
        """Sample in a background thread until the target is reached or `stop` is called.

        Raises `StoreError` where another run is writing to this one's store.
        """
        if self.going:
            return
        with self._by_one_thread("resuming"):
            self._check_process()
            if self._store is not None:
                self._store.claim()
            self._stop.clear()
            self._error = self._message = self._store_error = None
            name = f"gibbsite {self.model_name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._ended.clear()
            try:
                self._thread.start()
            except RuntimeError:  # the system has no more threads
                self._ended.set()
                raise

    @contextmanager
    def _by_one_thread(self, doing: str) -> Iterator[None]:
        """Raise `GibbsiteError` while the run is going, or another thread is about to have it go on."""
        going = f"the run is still going; stop it, or wait for it, before {doing}"
        if not self._continuing.acquire(blocking=False):
            raise GibbsiteError(going)
        try:
            if self.going:
                raise GibbsiteError(going)
            yield
        finally:
            self._continuing.release()

    def wait(self, timeout: float | None = None) -> "Run":
        """Block until the run ends (or `timeout` seconds pass); raises what made it fail, with this run as
        the error's attribute `run`."""
        deadline = None if timeout is None else time.monotonic() + sensible.seconds("timeout", timeout)
        while not self._ended.is_set():
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if left <= 0:
                return self
            self._ended.wait(left)  # in short pieces, so that an interrupt is seen
        if self._error is not None:
            error, self._error = self._error, None
            error.run = self  # type: ignore[attr-defined]
            raise error
        return self

    def settle(self, seconds: float) -> None:
        """Wait at most so long for the sampling thread to end; raises nothing of the run's."""
        if self._thread is not threading.current_thread():
            self._ended.wait(seconds)

    def stop(self) -> None:
        """End at the next chunk; all completed draws are kept. Returns at once."""
        self._stop.set()

    def resume(self, draws: int | None = None, *, on: Any = None) -> "Run":
        """Go on with `draws` more draws per chain (default: those that are left), and block until done.

        An unfinished warm-up is finished first. In a notebook, the cell shows it as it goes on. `on`: other
        workers for a run that was begun with some, as many as there are.
        """
        self.continue_(draws, on=on)
        watch(self)
        return self.wait()

    def continue_(self, draws: int | None = None, *, on: Any = None) -> "Run":
        """As `resume`, in the background. Raises `GibbsiteError` while the run is going."""
        draws = None if draws is None else sensible.count("draws", draws, 1)
        with self._by_one_thread("resuming"):
            self._check_process()
            engine = self._ready_engine()
            if on is not None:
                if not isinstance(engine, RemoteEngine):
                    raise OptionError(
                        "on: this run was begun on this machine; save it, and load(path, model=…, on=…) goes "
                        "on with it elsewhere"
                    )
                self._engine = engine.moved(on)
            if self._store is not None:
                self._store.claim()
            if draws is not None:
                self._target = self.kept.sampled.steps + draws
            self.settings = replace(self.settings, draws=self._target)
            self._status = "compiling" if self._state is None else self._phase()
            self.start()
        return self

    @property
    def going(self) -> bool:
        """Whether it has a thread that samples, or is about to end."""
        return not self._ended.is_set()

    def forked(self) -> None:
        """Be what a run is in a forked child: draws so far, and nothing that goes on. Locks are new: threads
        that are not here may have held the others."""
        self._lock, self._continuing, self._notifying = threading.Lock(), threading.RLock(), threading.RLock()
        self._looking, self._subscribers, self._began = threading.Lock(), [], None
        self._telling = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()
        if self._status not in ("finished", "stopped", "failed"):
            self._status, self._message = "stopped", "it goes on in the process that this one was forked from"

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise GibbsiteError(
                "this process was forked from the one that made the run, and JAX does not survive that; go "
                "on there, or load the run's store in a new process (multiprocessing: 'spawn')"
            )

    def _ready_engine(self) -> Engine:
        if self._engine is None and self._plan.kernel is not None:
            raise ModelError(
                "this run was made beside those of longer data, whose program it shares, and cannot go on; "
                "sample its model: run.model.sample(draws=…)"
            )
        if self._engine is None:
            raise ModelError(
                f"this run was loaded without its model; to go on: "
                f"gibbsite.load(path, model={self.model_name})"
            )
        return self._engine

    def extend(self, until: str, max_draws: int = 20_000) -> "Run":
        """Go on until every scalar meets `until` (such as "ess>400, rhat<1.01") or there are `max_draws`
        draws per chain in all; blocks. Conditions are looked at whenever the draws have grown by half."""
        if sensible.text("until", until, "ess>400, rhat<1.01") is None:
            raise OptionError("until: say what to go on for, such as 'ess>400, rhat<1.01'")
        aim, most = Until.parse(until, self._chains), sensible.count("max_draws", max_draws, 1)
        self._until, self._max_draws = aim, most
        return self.resume()

    def aim(self, asked: Settings, until: Until | None, max_draws: int) -> None:
        """Have a loaded run go on, when it is started, until there are as many draws per chain in all as
        `asked` and `until` holds, or there are `max_draws`; it is finished where nothing is left to do."""
        done = self.kept.sampled.steps
        self._until, self._max_draws, self._target = until, max_draws, max(asked.draws, done)
        self.settings = replace(self.settings, draws=self._target, chunk=asked.chunk)
        enough = until is None or done >= max_draws or until.met(self._monitor.worst(self.kept))
        self._status = "finished" if enough and done >= asked.draws else "compiling"

    def subscribe(self, callback: Callable[["Run"], Any]) -> Callable[[], None]:
        """Call `callback(run)` after every chunk and change of status, and every second: from the run's own
        threads, one at a time.

        Returns a function that ends it. A callback that raises is told in the log (`gibbsite`) and called no
        more; the run goes on.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback) if callback in self._subscribers else None

    @property
    def _warmup(self) -> int:
        """Steps of warm-up."""
        return self._warming.length

    def _too_short(self) -> str:
        return self._warming.too_short(self._plan)

    def _phase(self) -> str:
        return "warmup" if self.kept.steps < self._warmup else "sampling"

    def _notify(self) -> None:
        with self._notifying:
            for callback in list(self._subscribers):
                try:
                    callback(self)
                except Exception:
                    _log.exception(
                        "a subscriber of the run of %r failed, and is called no more", self.model_name
                    )
                    if callback in self._subscribers:
                        self._subscribers.remove(callback)

    def _run(self) -> None:
        try:
            self._sample()
        finally:
            self._ended.set()

    def _sample(self) -> None:
        self._began = began = time.monotonic()
        try:
            engine = self._ready_engine()
            carried, device = engine.surroundings.carried(), jax.default_device(engine.home)
            if isinstance(engine, RemoteEngine):
                engine.stop = self._stop
            with carried, device, Ticker(self._notify):
                self._loop(engine)
        except WorkersLost as lost:
            self._status, self._message = "stopped", str(lost) or None
        except BaseException as error:
            self._fail(_explained(error, self))
        finally:
            self._stages.enter(None)
        try:
            try:
                if self._status == "failed":  # its draws are as good as before
                    self._commit(now=True, whole=False)
                else:
                    notices = (*self._warming.notices(self.centring), *noticed(self.moves))
                    self._monitor.lasting = notices
                    self._monitor.measure(self.kept, ended=True)
                    if self.settings.keep_probs and self.kept.sampled.steps:
                        self.probs  # noqa: B018
                    self._commit(now=True)
                if self._store is not None and self._store_error is None:
                    self._write_results(self._store)
            finally:
                if self._committing is not None and self._store is not None:
                    self._committing.settle()
                    self._store.release()
                # what is measured and written at the end is waited for like the rest
                self._elapsed += time.monotonic() - began
                self._began = None
            if self._store_error is not None and self._status != "failed":
                self._fail(self._store_error)
            self._notify()
        except BaseException as error:
            self._fail(self._error or error)

    def _fail(self, error: BaseException) -> None:
        self._error, self._message, self._status = error, str(error) or repr(error), "failed"

    def _loop(self, engine: Engine) -> None:
        """Chunk after chunk. While one is taken in, the next is already on its way; where the run ends before
        that one does, it is made again, from the same state, when the run goes on."""
        self._prepare(engine)
        if self._state is None:  # stopped before the start was found
            self._status = "stopped"
            return
        kwargs = {INPUTS: engine.placed(self._plan.inputs, by_chain=False)}
        size = self.settings.chunk or engine.first_chunk
        ahead: Flight | None = None
        while self.kept.steps < self._warmup + self._target or self._wants_more():
            stopping, size = engine.agreed(self._stop.is_set(), size)
            if stopping:
                self._status = "stopped"
                self._commit(now=True, whole=False)  # first of all: the process may be about to end
                if ahead is not None:  # given up; meanwhile the last one was taken in
                    self._pace.add(ahead.warming, 0, time.monotonic() - ahead.began)
                return
            self._status = self._phase()
            self._stages.enter(WARMING if self._status == "warmup" else SAMPLING)
            flight = ahead or self._depart(engine, self._state, self.kept.steps, size)
            chunk, seconds = flight.landed()
            n, state = flight.steps, flight.state
            if self.settings.chunk is None:
                size = int(np.clip(engine.chunk_seconds / max(seconds / n, 1e-9), max(1, n // 4), 4 * n))
            ran = sum(self._pace.seconds)
            measuring = not engine.across and self._clock.due(engine, kwargs, state.block_states, ran)
            undefined = first_undefined(self._plan, chunk)
            if undefined is not None:
                self._end_undefined(engine, flight, chunk, undefined)
            if flight.warming:
                self._warming.follow(chunk.values, self.kept.steps)
            done = self.kept.steps + n
            alone = measuring or engine.across or self._stop.is_set() or done >= self._warmup + self._target
            ahead = None if alone else self._depart(engine, state, done, size)
            with self._lock:
                values, stats = self.kept.append(chunk, n)
                self._state = state
            if flight.warming:
                self._preview.add(values)
            else:
                self._monitor.add(values, stats)
            if self.kept.steps < self._warmup + self._target:
                self._status = self._phase()
            self._monitor.measure(self.kept)
            self._commit()
            if measuring:
                self._clock.measure(engine, kwargs, state.block_states)
            self._pace.add(flight.warming, n, (ahead.began if ahead else time.monotonic()) - flight.began)
            self._notify()
        self._status = "finished"

    def _depart(self, engine: Engine, state: Any, done: int, size: int) -> Flight:
        """Begin a chunk after `done` steps, which led to `state`."""
        self._warming.look(engine, state, done)
        self.kept.warmup = self._warmup
        state = self._warming.found_again(engine, state, done)
        return engine.depart(state, *self._leg(engine, done, size), warmup=self._warmup)

    def _end_undefined(self, engine: Engine, flight: Flight, chunk: Chunk, step: int) -> None:
        """Keep what came before the first undefined draw, made again, so that the state fits; and fail."""
        error = undefined_error(self._plan, chunk, step, self.kept.steps, self._warmup)
        if step:
            state = self._warming.found_again(engine, self._state, self.kept.steps)
            shorter = engine.depart(state, step, flight.warming, self.kept.steps, self._warmup)
            sound, _ = shorter.landed()
            if flight.warming:
                self._warming.follow(sound.values, self.kept.steps)
            with self._lock:
                values, stats = self.kept.append(sound, step)
                self._state = shorter.state
            if not flight.warming:
                self._monitor.add(values, stats)
        raise error

    def _leg(self, engine: Engine, done: int, size: int) -> tuple[int, bool, int]:
        """How many steps to make after `done`, within one window of a phase of the run, whether that is
        warm-up, and `done` itself."""
        warming = done < self._warmup
        edge = self._warmup if warming else self._warmup + self._target
        edge = min([edge, *(e for e in self._warming.ends(engine) if e > done)])
        return min(size, engine.capacity, edge - done), warming, done

    def _prepare(self, engine: Engine) -> None:
        """Compile, and make the state: initial, or as it was saved. None is made where `stop` comes first."""
        if self._state is not None:
            return
        self._commit(now=True)  # whoever is killed while compiling can go on by the same line
        self._because = "" if engine.ready else engine.because
        self._notify()
        began = time.monotonic()

        def work(tell: Callable[[str, bool], None]) -> Any:
            with engine.surroundings.carried(), jax.default_device(engine.home):
                engine.in_step(self.kept.steps)
                engine.compile(tell)
                tell(STARTING, False)
                if self._saved_state is None:
                    return self._first_start(engine)
                saved = checkpoint.unpack(engine.template, self._saved_state)
                return Start(engine.placed(saved, by_chain=True), self._told, self._restarts)

        # hosts that step in common look for a stop in common, too
        left = threading.Event() if engine.across else self._stop
        start = Work(work, f"gibbsite programs of {self.model_name}").result(left, self._stages.enter)
        if start is not None:
            self._state, self._told, self._restarts = start.state, start.told, start.moves
        self._compile_seconds += time.monotonic() - began

    def _first_start(self, engine: Any) -> Start | None:
        seed, rescue = self.settings.seed, self.settings.rescue
        return Starting(engine, self._plan, seed, self._init, rescue).found(self._stop)

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {INPUTS: self._plan.inputs}

    def _wants_more(self) -> bool:
        """Whether the target was reached but not what the run goes on until; moves the target then."""
        if self._until is None:
            return False
        most = self._max_draws or 0
        met = self._until.met(self._monitor.worst(self.kept))
        if met or self.kept.sampled.steps >= most:
            reached = "reached" if met else "not reached"
            self._message = f"{self._until.text}: {reached} after {self.kept.sampled.steps} draws per chain"
            for site, (some, size) in self._monitor.moments.partly.items():
                self._message += f"; of {site}, {some} of {size} elements were judged"
            self._until = None
            return False
        self._target = min(most, max(self._target + 100, self._target * 3 // 2))
        self.settings = replace(self.settings, draws=self._target)
        return True

    # keeping it

    def _facts(self, live: bool) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "until": None if self._until is None else self._until.text,
            "max_draws": self._max_draws,
            "live": live,
            "elapsed": self.elapsed,
            "pace": asdict(self._pace),
            "compile_seconds": self._compile_seconds,
            "starts": self._told,
            "restarts": [m.as_json() for m in self._restarts],
            "placed": self._placed,
            "superchains": [] if self._monitor.superchains is None else self._monitor.superchains.tolist(),
            "warming": self._warming.as_json(),
            "centring": self.centring.as_json(),
            "aims": self._aims,
            "renamed": [[n.text, n.hint, list(n.sites)] for n in self._monitor.notices if n.topic == RENAMED],
            "derived": self._derived.facts(),
            "finished": self._status == "finished",
            "versions": checkpoint.versions(),
            "surroundings": None if self._engine is None else asdict(self._engine.surroundings),
        }

    def _beside(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds beside the state of the chains."""
        warm = self._warming.pack(self.kept.steps)
        return {**self.kept.summaries.pack(), **self._probs[1].pack(), **warm}

    def _packed(self) -> Packed:
        # a run that ends before its first step can be loaded, and begins then
        state = {} if self._state is None else checkpoint.pack(self._state)
        return self._facts(live=True), state | self._beside()

    def _commit(self, now: bool = False, whole: bool = True) -> None:
        """Stream to the store: beside the sampling, as often as its share of time allows, or, with `now`,
        before this returns; `whole` as in `Committing.now`. Where that fails the run goes on in memory, and
        ends as failed unless a later commit succeeds."""
        store = self._committing
        if store is None or (self._state is None and self._saved_state is not None):
            return
        if not now and (self._state is None or not store.due(_STORE_SHARE)):
            return
        error = store.error
        try:
            if now:
                store.now(self.kept, self._packed, whole)
                error = None
            else:
                store.begin(self.kept, self._packed, _STORE_SHARE)
        except StoreError as problem:
            error = problem
        if error is not None and not isinstance(error, StoreError):
            raise error
        if error is not None and self._store_error is None:
            _log.warning("%s", error)  # the draws are in memory: go on, try again, and say so at the end
        self._store_error = error

    def _derived_changed(self) -> None:
        """While the run goes on the next commit tells the store; afterwards there is none."""
        self._tell_store("what is derived", lambda store: self._commit(now=True))

    def _results_changed(self) -> None:
        self._tell_store("what is kept", self._write_results)

    def _write_results(self, store: Store) -> None:
        self._results = self._results.written(store.path)
        store.send_beside()

    def _tell_store(self, what: str, write: Callable[[Store], None]) -> None:
        """`write` to the store of a run that has ended; of one that goes on, its end does."""
        store = self._store
        if store is None or self.going:
            return
        with self._telling:  # the dashboard's thread finds checks, too
            try:
                store.claim()
            except (StoreError, CheckpointError) as problem:  # what is in memory can be read all the same
                warnings.warn(f"{what} stays in memory: {problem}", stacklevel=5)
                return
            try:
                write(store)
            except OSError as problem:
                warnings.warn(f"{what} stays in memory: {problem}", stacklevel=5)
            finally:
                store.release()

    def save(self, path: str | Path) -> None:
        """Write draws, statistics and state to a new folder, which `gibbsite.load` and xarray read.

        While the run goes on, what is complete now is written. Raises `StoreError` where the path is taken
        or cannot be written to, `CheckpointError` before there is anything to save.
        """
        where = options.place(path)
        if self._plan.kernel is None:
            raise ModelError("a run that was loaded without its model is on disk already; copy the folder")
        with self._lock:  # the sampling thread waits at the end of its chunk: state and draws fit
            state = self._saved_state if self._state is None else checkpoint.pack(self._state)
            if state is None:
                raise CheckpointError(
                    "the run has not begun yet: there is nothing to save before its first chunk"
                )
            state = {**state, **self._beside()}
            store = store_in(where, self._plan, lock=False)
            try:
                store.commit(self.kept, self._facts(live=False), state)
                self._results.written(store.path)
                if self._remarks:
                    write_remarks(store.path, self.remarks)
                store.send_beside()
            except BaseException:
                store.withdraw()
                raise

    def time_blocks(self) -> dict[str, float]:
        """Measure now how long one application of each block takes: seconds for all chains, by label.

        Compiles every block by itself, which takes some seconds, and changes nothing of the run; from then on
        the dashboard shows each block's share. A run of some minutes does the like by itself. Raises
        `GibbsiteError` while the run is going.
        """
        with self._by_one_thread("timing its blocks"):
            engine = self._ready_engine()
            self._stop.clear()
            with engine.surroundings.carried(), jax.default_device(engine.home):
                self._prepare(engine)
                kwargs = {INPUTS: engine.placed(self._plan.inputs, by_chain=False)}
                states = self._state.block_states
                found = block_seconds(engine.compile_blocks(kwargs, states), kwargs, states)
        self._clock.fix(found)
        self._notify()
        return {b.label: s for b, s in zip(self._plan.blocks, found, strict=True)}

    # what `load` puts in

    def take_up(
        self,
        facts: Mapping[str, Any],
        state: dict[str, np.ndarray],
        going: bool = False,
        results: Results | None = None,
    ) -> None:
        """Be the run that was saved: for `load`. With `going`, look as it does while another process goes on
        with it."""
        self._results = self._results if results is None else results
        self.kept.summaries.unpack({k: v for k, v in state.items() if k.startswith(PREFIX)})
        self._probs = (self.kept.sampled.steps, Probabilities.unpack(state))
        beside = (PREFIX, Probabilities.PREFIX, FOLLOWED)
        own = {k: v for k, v in state.items() if not k.startswith(beside)}
        self._saved_state = own or None
        if facts["until"] is not None:
            self._until, self._max_draws = Until.parse(facts["until"], self._chains), facts["max_draws"]
        self._pace = Pace(**facts["pace"])
        self._elapsed, self._compile_seconds = facts["elapsed"], facts["compile_seconds"]
        self._told, self._restarts = facts.get("starts", ""), moves_from(facts.get("restarts", ()))
        if facts.get("placed", self._told.startswith("chains start at init=")):
            known = np.asarray(facts.get("superchains", ()), np.int64)
            self._place_chains(known if len(known) == self._chains else None)
        self._saved_centring = Centring.from_json(facts.get("centring", {}))
        self._saved_aims = {int(i): float(aim) for i, aim in facts.get("aims", {}).items()}
        self._warming.take_up(facts["warming"], state, self.kept.steps)
        self.kept.warmup = self._warmup
        self._status = "finished" if facts["finished"] else "stopped"
        if going:
            self._status = "compiling" if self._saved_state is None else self._phase()
        if self.kept.sampled.steps:
            values, stats = self.kept.sampled.read(), self.kept.sampled_stats.read()
            self._monitor.add(_by_step(values), _by_step(stats))
            known = self._warming.notices(self._saved_centring)
            # with its model, it is seen again
            others = () if self._plan.density is not None else notices_from(facts.get("renamed", ()))
            self._monitor.lasting = (*known, *noticed(self.moves), *others)
            self._monitor.measure(self.kept, ended=True)
        self._derive_again(facts.get("derived", ()))

    def made_elsewhere(
        self,
        values: Mapping[str, np.ndarray],
        stats: Mapping[str, np.ndarray],
        warm: Mapping[str, np.ndarray],
        warmup: int,
        state: Any,
        seconds: float,
    ) -> None:
        """Be the run of draws that another program made of the same plan, beside those of other data: arrays
        `[draw, chain, …]`, statistics `warm` of `warmup` steps before them, and the `state` that they ended
        in; without one it cannot go on."""
        self._warming.length = self.kept.warmup = warmup
        if warmup:
            self.kept.append(Chunk({}, dict(warm)), warmup)
        count = len(next(iter(values.values())))
        self._monitor.add(*self.kept.append(Chunk(dict(values), dict(stats)), count))
        self._saved_state = None if state is None else checkpoint.pack(state)
        self._elapsed, self._status = seconds, "finished"
        self._pace.add(False, count, seconds)
        self._monitor.measure(self.kept, ended=True)

    def of_folder(self, folder: Path, objects: Objects | None) -> None:
        """Be the run that is in `folder`, with what was noted of it; `objects` are what it was fetched from,
        which the folder is there as long as."""
        self._folder, self._objects, self._remarks = folder, objects, read_remarks(folder)

    def attach_store(self, store: Store) -> None:
        """Stream to `store` when the run goes on."""
        self._store, self._committing = store, Committing(store)

    def begin_from(self, init: Mapping[str, np.ndarray] | None) -> None:
        """Start there, if the run that was saved had not begun yet."""
        self._init = init
        if init:
            self._place_chains(superchains(self._plan, init))

    def _place_chains(self, together: np.ndarray | None) -> None:
        """Chains were put where they start, and stay in what they find there; `together`: see
        `superchains`."""
        self._placed, self._warming.rescue, self._monitor.superchains = True, False, together

    def give_engine(self, engine: Engine, place: Place) -> None:
        """Make it possible to go on."""
        self._engine, self._place = engine, place

    # what it shows (the rest is in `Looking`)

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """Completed draws after warm-up, `[chain, draw, *shape]` by site; equal counts over chains.

        Read-only views of the arrays that the run writes to: copy what you want to change. Printed, it tells
        shapes.
        """
        return Drawn(self.kept.sampled.read() or empty_like(self._plan, self._chains, self.settings.keep))

    @property
    def reached(self) -> tuple[Any, Any]:
        """The kernel, and the state of all chains where they stand; of a run that has begun."""
        return self._ready_engine().kernel, self._state

    @property
    def moves(self) -> tuple[Move, ...]:
        """Which chains started again, or went on from another one's place in warm-up, and out of what: at
        most what log weight beside the other mode (`.log_weight`; None where there was no density)."""
        return (*self._restarts, *self._warming.moves)

    @property
    def probs(self) -> Mapping[str, np.ndarray]:
        """`P(site = value)` of every discrete site with listed values, `[*shape, K]`: the mean over draws of
        its exact probabilities given the others (Rao-Blackwell), which is closer than the share of draws.

        Computed when asked for, from the draws so far; after `sample(keep_probs=True)`, at its end, and saved
        with the run. Raises `ModelError` where there is no such site, or where draws of others are missing.
        """
        steps = self.kept.sampled.steps
        if self._probs[0] != steps or not self._probs[1]:
            self._probs = (steps, probabilities(self._plan, self.draws))
        return self._probs[1].named(lambda n: (self.element_names(n), self._values_called(n)))

    def _values_called(self, site: str) -> Sequence[Any]:
        """The values of a discrete site: by labels, or as they are where the model is known."""
        if (labels := self.value_labels(site)) or self._plan.density is None:
            return labels
        found = finite_support(self._plan.density, self._plan.groups.get(site, (site,))[0])
        return () if found is None or found.values.ndim > 1 else found.values.tolist()

    @property
    def centring(self) -> Centring:
        """Degrees of centring that NUTS has learnt, by site, of its shape: 1 is centred, 0 non-centred.

        Printed, it tells how well they fit.
        """
        if self._state is None or self._engine is None:
            return self._saved_centring
        return learnt_centring(self._engine.kernel, self._state)

    def _compiling_seconds(self) -> float | None:
        left = 0.0 if self._engine is None or self._stages.now != COMPILING else self._engine.compiling_left
        return self._stages.seconds().get(COMPILING, 0.0) + left if left else None

    @property
    def _aims(self) -> dict[int, float]:
        """The acceptance that blocks of gradients aim at, by their place in the sweep."""
        if self._state is None or self._engine is None:
            return self._saved_aims
        return aimed_at(self._engine.kernel, self._state)

    @property
    def elapsed(self) -> float:
        """Seconds that a person has waited so far: the schedule's choice, compiling, sampling, and what is
        measured at the end."""
        began = self._began
        return self._elapsed + (time.monotonic() - began if began is not None else 0.0)

    def to_datatree(
        self,
        *,
        posterior_predictive: bool = False,
        log_likelihood: bool | str = False,
        warmup: bool | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> Any:
        """The draws as the `xarray.DataTree` that ArviZ reads.

        Dimensions are named after plates, unless `dims` names those of a site; `coords` labels dimensions.
        New data and pointwise log-likelihoods are computed on request; warm-up is there if it was kept. With
        `log_likelihood=True` these are given the draws of all latents; "marginal" sums the discrete ones of
        listed values out: `log p(y_i | the other data, parameters)`, which is what LOO wants of a mixture.
        Weights and masks count; what the model is conditioned on is no datum. The attribute
        `log_likelihood_given` says what was summed out. Raises `OptionError` for labels and names that do not
        fit, and for warm-up that was not kept; `ModelError` where "marginal" cannot be had of all data.
        """
        sensible.flag("posterior_predictive", posterior_predictive)
        if not (isinstance(log_likelihood, str) and log_likelihood == "marginal"):
            sensible.flag("log_likelihood (unless 'marginal')", log_likelihood)
        with_warmup = self.settings.keep_warmup if warmup is None else sensible.flag("warmup", warmup)
        if with_warmup and not self.settings.keep_warmup:
            raise OptionError("warm-up was not kept; sample with keep_warmup=True")
        extra: dict[str, Mapping[str, np.ndarray]] = {}
        asked = self._plan, self._kwargs, self.draws, self.settings.seed
        if posterior_predictive:
            extra["posterior_predictive"] = predict.posterior_predictive(*asked)
        given = "all latents"
        if log_likelihood == "marginal":
            found = without_labels(*asked, strict=True)
            extra["log_likelihood"], given = found.values, found.words
        elif log_likelihood:
            extra["log_likelihood"] = predict.log_likelihood(*asked)
        attrs = {
            "log_likelihood_given": given,
            "model": self.model_name,
            "schedule": self.schedule_text,
            "seed": self.settings.seed,
            "thin": self.settings.thin,
            "sampling_time": self.elapsed - self._compile_seconds,
            "tuning_steps": self._warmup,
        }
        return to_datatree(
            self._plan,
            self.kept,
            {**self.draws, **self._numbers()},
            extra=extra,
            warmup=with_warmup,
            dims=sensible.by_name("dims", dims),
            coords={
                "chain": np.arange(self._chains) + self.settings.first_chain,
                **sensible.by_name("coords", coords),
            },
            attrs=attrs,
        )


def _by_step(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: np.moveaxis(v, 1, 0) for n, v in arrays.items()}


def _explained(error: BaseException, run: Run) -> BaseException:
    """The error, or for a device that ran out of memory one that says what to lower."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        explained = ResourceError(
            f"out of memory: {run.memory} were planned, for {run.settings.chains} chains. Lower chains, or "
            f"raise thin; draws that are complete are kept"
        )
        explained.__cause__ = error
        return explained
    return error
