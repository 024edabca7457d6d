"""What carries a run out: its thread, what it keeps and writes, and what floors above look at."""

import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gibbsite.diagnostics.measures.convergence import fair_share
from gibbsite.diagnostics.measures.snapshot import (
    BlockStat,
    Efficiency,
    ScalarStat,
    Snapshot,
    Stored,
    TraceView,
)
from gibbsite.diagnostics.measures.thinned import Preview, Thinned
from gibbsite.diagnostics.modes.moves import Move, moves_from, noticed
from gibbsite.diagnostics.modes.renamed import TOPIC as RENAMED
from gibbsite.diagnostics.modes.renamed import notices_from
from gibbsite.diagnostics.predictive.probabilities import Probabilities
from gibbsite.errors import (
    CheckpointError,
    GibbsiteError,
    ModelError,
    OptionError,
    ResourceError,
    StoreError,
    UnknownNameError,
)
from gibbsite.ground import arguments as sensible
from gibbsite.ground.lazy_import import meanwhile
from gibbsite.ground.lock import Writer
from gibbsite.kernels.nuts.report import Centring, aimed_at
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.derived.derived import Derived
from gibbsite.sampling.engine.abandonable import Work
from gibbsite.sampling.engine.engine import INPUTS, Engine
from gibbsite.sampling.engine.in_flight import Flight
from gibbsite.sampling.engine.initial import first_undefined, superchains, undefined_error
from gibbsite.sampling.engine.resources import Place, bytes_per_draw
from gibbsite.sampling.engine.stages import ANALYSING, COMPILING, SAMPLING, STARTING, WARMING, Stages, Ticker
from gibbsite.sampling.engine.starting import Start, Starting
from gibbsite.sampling.engine.timing import BlockClock
from gibbsite.sampling.registry import remember
from gibbsite.sampling.remote.engine import RemoteEngine
from gibbsite.sampling.remote.pieces import WorkersLost
from gibbsite.sampling.warm.trace import KEY as FOLLOWED
from gibbsite.sampling.warm.warming import Warming
from gibbsite.sampling.watch.monitor import Monitor
from gibbsite.sampling.watch.on_disk import store_notices, stored
from gibbsite.sampling.watch.pace import Pace
from gibbsite.sampling.watch.results import Results, question_of
from gibbsite.sampling.watch.until import Until
from gibbsite.storage import checkpoint
from gibbsite.storage.checkpoint import data_hash
from gibbsite.storage.committing import Committing, Packed
from gibbsite.storage.described import read_remarks
from gibbsite.storage.draws import Chunk, Draws, wanted
from gibbsite.storage.names import element_names
from gibbsite.storage.objects import Objects
from gibbsite.storage.store import Store
from gibbsite.storage.summaries import PREFIX

# streaming to disk may take this share of a processor: what an append costs, some milliseconds, comes several
# times a second then
_STORE_SHARE = 0.02
_KEPT_TRACES = 16
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


class Execution:
    """What carries a run out, and what the floors above read of it; people see `Run`, which is one.

    Reading is safe from any thread.
    """

    kept: Draws
    # what `Run` adds to it
    memory: Any
    draws: Any
    model: Any
    model_name: Any
    results: Any
    derived: Any
    moves: Any
    centring: Any
    elapsed: Any
    verdict: Any
    probs: Any
    values: Any
    _derive_again: Any
    _scalar: Any
    to_datatree: Any

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
        self._elsewhere: Writer | None = None
        self._told, self._placed = "", False
        self._restarts: tuple[Move, ...] = ()
        if init:
            self._place_chains(superchains(plan, init))
        self._saved_centring, self._probs = Centring({}), (0, Probabilities())
        self._stop, self._leaving = threading.Event(), False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # and not what the thread says: an interrupt within `join` has Python 3.11 take it for ended
        self._ended = threading.Event()
        self._ended.set()
        self._subscribers: list[Callable[[Any], Any]] = []
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
                try:
                    self._store.claim()
                except StoreError as error:
                    self._fail(error)
                    self._notify()  # whoever shows the run waits for nothing
                    raise
            self._stop.clear()
            self._leaving = False  # whoever was told to end and did not goes on as before
            self._error = self._message = self._store_error = self._elsewhere = None
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

    def leave(self) -> None:
        """Stop because the process is about to end: draws go to the journal, which needs one wait for the
        disk, and whoever goes on from there makes a checkpoint of it."""
        self._leaving = True
        self._stop.set()

    def settle(self, seconds: float) -> None:
        """Wait at most so long for the sampling thread to end; raises nothing of the run's."""
        if self._thread is not threading.current_thread():
            self._ended.wait(seconds)

    def continue_(self, draws: int | None = None, *, on: Any = None) -> Any:
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

    def aim(self, asked: Settings, until: Until | None, max_draws: int) -> None:
        """Have a loaded run go on, when it is started, until there are as many draws per chain in all as
        `asked` and `until` holds, or there are `max_draws`; it is finished where nothing is left to do."""
        done = self.kept.sampled.steps
        self._until, self._max_draws, self._target = until, max_draws, max(asked.draws, done)
        self.settings = replace(self.settings, draws=self._target, chunk=asked.chunk)
        enough = until is None or done >= max_draws or until.met(self._monitor.worst(self.kept))
        self._status = "finished" if enough and done >= asked.draws else "compiling"

    def subscribe(self, callback: Callable[[Any], Any]) -> Callable[[], None]:
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
        ending = "stopped"
        try:
            engine = self._ready_engine()
            carried, device = engine.surroundings.carried(), jax.default_device(engine.home)
            if isinstance(engine, RemoteEngine):
                engine.stop = self._stop
            with carried, device, Ticker(self._notify):
                ending = self._loop(engine)
        except WorkersLost as lost:
            self._message = str(lost) or None
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
                    self._status = ending  # not before: whoever sees it reads the measures of all draws
                    if self.settings.keep_probs and self.kept.sampled.steps:
                        self.probs  # noqa: B018
                    self._commit(now=True, whole=not self._leaving)
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

    def _loop(self, engine: Engine) -> str:
        """Chunk after chunk, until the run is "finished" or "stopped". While one is taken in, the next is
        already on its way; where the run ends before that one does, it is made again, from the same state,
        when the run goes on."""
        self._prepare(engine)
        if self._state is None:  # stopped before the start was found
            return "stopped"
        kwargs = {INPUTS: engine.placed(self._plan.inputs, by_chain=False)}
        size = self.settings.chunk or engine.first_chunk
        ahead: Flight | None = None
        while self.kept.steps < self._warmup + self._target or self._wants_more():
            stopping, size = engine.agreed(self._stop.is_set(), size)
            if stopping:
                self._commit(now=True, whole=False)  # first of all: the process may be about to end
                if ahead is not None:  # given up; meanwhile the last one was taken in
                    self._pace.add(ahead.warming, 0, time.monotonic() - ahead.began)
                return "stopped"
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
        return "finished"

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

        def work(told: Callable[[str, bool], None]) -> Any:
            def tell(stage: str, breakable: bool) -> None:
                if stage == COMPILING:  # XLA leaves Python to others
                    meanwhile("arviz_stats.base")
                told(stage, breakable)

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
        probs = self._probs[1].pack() if self._probs[0] == self.kept.sampled.steps else {}
        return {**self.kept.summaries.pack(), **probs, **warm}

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
        if self._store is not None and self._state is None and self._saved_state is not None:
            warnings.warn(
                "what is derived stays in memory: a run that was loaded writes to its store when it goes on; "
                + (
                    "run.save(…) writes it elsewhere"
                    if self._plan.kernel is not None
                    else "with its model, gibbsite.load(path, model), it can be saved elsewhere"
                ),
                stacklevel=4,
            )
            return
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

    def goes_on_in(self, process: Writer) -> None:
        """Say that what was read is not the run's end: another process, or another run here, writes on."""
        self._elsewhere = process
        self._message = f"it goes on in {process}: here are the draws that it had when they were read"

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
    def reached(self) -> tuple[Any, Any]:
        """The kernel, and the state of all chains where they stand; of a run that has begun."""
        return self._ready_engine().kernel, self._state

    def _compiling_seconds(self) -> float | None:
        left = 0.0 if self._engine is None or self._stages.now != COMPILING else self._engine.compiling_left
        return self._stages.seconds().get(COMPILING, 0.0) + left if left else None

    @property
    def _aims(self) -> dict[int, float]:
        """The acceptance that blocks of gradients aim at, by their place in the sweep."""
        if self._state is None or self._engine is None:
            return self._saved_aims
        return aimed_at(self._engine.kernel, self._state)

    # what floors above read

    @property
    def plan(self) -> Plan:
        """What is run: the model and its schedule, as one kernel with its inputs."""
        return self._plan

    @property
    def fingerprint(self) -> str:
        """A hash of the model's structure, not of the data's values."""
        return self._plan.fingerprint

    @cached_property
    def data_fingerprint(self) -> str:
        """A hash of the data that the run is of; empty where a store does not tell."""
        return self._plan.data or data_hash(self._plan)

    @property
    def known_elpd(self) -> Any:
        """What `elpd` has found of the draws of now; None where it was not asked yet."""
        return self._results.answered(question_of("elpd"), self.kept.sampled.steps)

    @cached_property
    def _numbers_kept(self) -> int:
        sites = self._plan.sites.items()
        return sum(math.prod(s.shape) for n, s in sites if wanted(n, self.settings.keep))

    def snapshot(self, limit: int = 12) -> Snapshot:
        """The state of the run now; `limit` bounds the scalars listed: the worst of every site,
        worst first. Those that are followed are always there."""
        steps, warmup, elapsed = self.kept.steps, self._warmup, self.elapsed
        going = self._status in ("warmup", "sampling")
        warmup_left, draws_left = max(0, warmup - steps), self._target - self.kept.sampled.steps
        stuck = self._monitor.stuck
        on_disk = self._stored(draws_left + (warmup_left if self.settings.keep_warmup else 0))
        return Snapshot(
            status=self._status,
            # engines of workers have it; the thread that waited may outlive a run that was stopped
            message=self._message or (getattr(self._engine, "waits", None) if self.going else None),
            chains=self._chains,
            warmup_done=min(steps, warmup),
            warmup_total=warmup,
            draws_done=self.kept.sampled.steps,
            draws_total=self._target,
            elapsed=elapsed,
            eta=self._pace.eta(warmup_left, draws_left) if going else None,
            compile_seconds=self._compile_seconds,
            steps_per_second=self._pace.speed,
            divergences=tuple(self._monitor.divergences.tolist()),
            chain_states=tuple("stuck" if c in stuck else self._status for c in range(self._chains)),
            blocks=self._block_stats(),
            scalars=(
                *self._derived_stats(),
                *fair_share(self._monitor.scalars, limit, self._monitor.followed),
            ),
            warnings=(*store_notices(on_disk, self._store_error), *self._monitor.notices),
            efficiency=self._efficiency(),
            partly=self._monitor.moments.partly,
            verdict=self.verdict,
            stage=self._stages.now,
            stages=self._stages.seconds(),
            because=self._because,
            stored=on_disk,
            compiling=self._compiling_seconds(),
            groups=self._monitor.groups,
            numbers=self._numbers_kept,
            centring={n: found.degrees for n, found in self.centring.learnt.items() if found.known},
        )

    def _stored(self, steps_left: int) -> Stored | None:
        if self._status in ("finished", "stopped", "failed"):
            return None
        return stored(self._store, steps_left * self._chains * bytes_per_draw(self._plan, self.settings.keep))

    def _derived_stats(self) -> list[ScalarStat]:
        if not len(self._derived) or not self.kept.sampled.steps:
            return []
        ended = self._status in ("finished", "stopped", "failed")
        return [s for q in self.derived.values() for s in q.stats(ended)]

    def _least_ess(self) -> float | None:
        latent = {n for n, s in self._plan.sites.items() if s.role == "latent"} | set(self._plan.groups)
        found = [s.ess_bulk for s in self._monitor.scalars if s.site in latent and np.isfinite(s.ess_bulk)]
        return min(found, default=None)

    def _efficiency(self) -> Efficiency:
        least, seconds = self._least_ess(), self._pace.seconds[1]
        return Efficiency(least / seconds if least is not None and seconds else None)

    def _outcome(self) -> Mapping[str, Any] | None:
        promised, least = self._plan.promised, self._least_ess()
        draws = self._chains * self.kept.sampled.steps
        speed = self._efficiency().ess_per_second
        return None if promised is None else promised.outcome(draws / least if least else None, speed)

    def _block_stats(self) -> tuple[BlockStat, ...]:
        stats, shares, aims = self.kept.recent_stats(), self._clock.shares, self._aims

        def mean(i: int, name: str) -> float | None:
            v = stats.get(f"{i}.{name}")
            return float(np.mean(v)) if v is not None and v.size else None

        out = []
        for i, b in enumerate(self._plan.blocks):
            steps = mean(i, "n_steps")
            share = None if shares is None else shares[i]
            depth = None if steps is None else float(np.log2(steps + 1))
            accept, size = mean(i, "acceptance_rate"), mean(i, "step_size")
            out.append(BlockStat(b.label, b.kernel, b.sites, share, accept, size, depth, aims.get(i)))
        return tuple(out)

    def trace(self, label: str, max_points: int = 500) -> TraceView:
        """A scalar over the whole run, thinned to at most `max_points` points with the range of each.

        What was looked at before costs only what has come since.
        """
        x = self.values(label)
        with self._looking:
            thinned = self._thinned.pop((label, max_points), None) or Thinned(max_points)
            thinned.add(x[:, thinned.steps :])
            self._thinned[label, max_points] = thinned  # the last that was looked at
            while len(self._thinned) > _KEPT_TRACES:
                del self._thinned[next(iter(self._thinned))]
            return thinned.view()

    def follow(self, label: str) -> None:
        """Measure and list this scalar from now on, be it among the worst or not: the last eight that were
        asked for."""
        site, index = self._scalar(label)
        if site not in self._derived:  # those are always listed
            self._monitor.follow(label, site, index, self.kept)

    @property
    def superchains(self) -> np.ndarray | None:
        """Which superchain each chain is of, `[chain]`; None where each counts for itself."""
        return self._monitor.superchains

    @property
    def warmup_labels(self) -> tuple[str, ...]:
        """The scalars whose warm-up `warmup_trace` shows."""
        return self._preview.labels

    def warmup_trace(self, label: str) -> TraceView:
        """One of `warmup_labels` over the warm-up steps that this session made, in the first eight chains, at
        400 points at most. Warm-up steps are no draws: nothing else counts them."""
        if label not in self.warmup_labels:
            raise UnknownNameError("scalar in the trace of warm-up", label, self.warmup_labels)
        return self._preview.trace(label)

    def element_names(self, site: str) -> list[str]:
        """What people call the elements of a site, or of a derived quantity: by labels where there are."""
        held = self.derived.get(site)
        return element_names(self._plan, site, held.shape if held else self.draws[site].shape[2:])

    def value_labels(self, site: str) -> tuple[str, ...]:
        """What the values 0, 1, … of a discrete site are called; empty where nobody said."""
        return tuple(self._plan.value_labels.get(site, ()))

    @property
    def diverging(self) -> np.ndarray:
        """Which draws diverged in any block, `[chain, draw]`."""
        found = [v for k, v in self.kept.sampled_stats.read().items() if k.endswith(".diverging")]
        steps = self.kept.sampled.steps
        return np.any([v[:, :steps] for v in found], axis=0) if found else np.zeros((0, steps), bool)


def _by_step(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: np.moveaxis(v, 1, 0) for n, v in arrays.items()}


def _explained(error: BaseException, run: Execution) -> BaseException:
    """The error, or for a device that ran out of memory one that says what to lower."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        explained = ResourceError(
            f"out of memory: {run.memory} were planned, for {run.settings.chains} chains. Lower chains, or "
            f"raise thin; draws that are complete are kept"
        )
        explained.__cause__ = error
        return explained
    return error
