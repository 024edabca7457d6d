"""Begin a run of a plan."""

import inspect
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from gibbsite.errors import ArgumentError, nearest
from gibbsite.ground import arguments as sensible
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.engine.initial import checked_starts
from gibbsite.sampling.engine.resources import planned
from gibbsite.sampling.engine.stages import ANALYSING
from gibbsite.sampling.engines import engine_ahead, engine_for
from gibbsite.sampling.hosts import Host, this_host
from gibbsite.sampling.load import kind_of, taken_up
from gibbsite.sampling.options import (
    MOST_CHAINS,
    MOST_SEED,
    MOST_THIN,
    again,
    elsewhere,
    kept,
    most_draws,
    place_of,
    starts,
    warmup_steps,
    with_probabilities,
)
from gibbsite.sampling.run import Run, Settings
from gibbsite.sampling.watch.until import Until
from gibbsite.storage.objects import holds_run, store_in

_log = logging.getLogger("gibbsite")
# how long a second interrupt waits for the chunk that is under way
_SETTLE_SECONDS = 1.0


def start(plan: Plan, **asked: Any) -> Run:
    """As `made`, and begin in the background: returns the `Run` at once."""
    run = made(plan, **known_options(asked))
    if run.status != "finished":
        run.start()
    return run


def made(
    plan: Plan,
    *,
    draws: int = 1000,
    warmup: int | str = "auto",
    chains: int = 4,
    seed: int = 0,
    device: str | None = None,
    store: str | Path | None = None,
    keep_warmup: bool = False,
    thin: int = 1,
    chunk: int | None = None,
    init: Mapping[str, Any] | None = None,
    until: str | None = None,
    max_draws: int | None = None,
    keep: str | Sequence[str] | None = None,
    shard: str | None = None,
    keep_probs: bool = False,
    rescue: bool = True,
    analysed: float = 0.0,
    durable: bool = True,
    resume: str | None = None,
    host: str | None = None,
    on: Any = None,
) -> Run:
    """A run that has not begun, or with `resume` "auto" the one that has begun in `store`.

    `draws` and `warmup` count steps per chain; a warm-up "auto" ends after 210 to 1000 steps, at one of six
    fixed moments, where chains agree about all latents (R-hat) and what kernels learn has settled. It is 1000
    steps for a single chain, for a program of several hosts, for `random:` and for kernels that lay out
    their adaptation beforehand (HMC). Of every `thin` sweeps after warm-up the last is a draw. Of
    the sites in `keep` ("mu,w" or a list; default: all) every draw is kept, of the others the mean and the
    standard deviation of each element (`Run.summaries`). With `keep_probs` the probabilities of discrete
    sites are computed at the end and saved with the run (`Run.probs`). `init` gives starting values by site,
    for all chains or one per chain; such chains stay in what they find. Of others those start again, or go on
    from another chain's place in warm-up, that are in what is certain to be no mode of weight (`Run.starts`
    tells which, and what that weighs at most); with `rescue` False none does. `store` is a new folder to
    stream draws and state to, or a URL that fsspec knows (`s3://bucket/run`); at every commit the disk is
    waited for, unless `durable` is False. With
    `resume` "auto", a run that is in the store already goes on until it has `draws` in all (and `until`
    holds), so that a script may simply be run again; its model, data, schedule and other options must be
    those that it began with. With `until` (such as "ess>400,
    rhat<1.01") the run goes on past `draws` until all scalars meet it, up to `max_draws` (20,000,
    or `draws` where these are more); of sites with more
    than 2048 elements, evenly spaced ones are judged. `device`: see `choose_device`; with `shard`, a plate's
    name or "auto", all devices of the kind share the data of that plate in every chain (see `choose_shards`).
    `chunk` fixes the steps per chunk (default: about 200 ms). Computes in JAX's default precision: set
    `jax_enable_x64` before the model is made for float64.

    Of several hosts, each of which calls this with the same arguments but for `host` ("3/16" is the fourth of
    sixteen, "auto" asks the batch system), every host runs and returns its share of the chains, on its own
    devices, and streams it to a folder of its own in `store`; `gibbsite.joined` puts the draws together. In a
    program of `jax.distributed` they have JAX's numbers, and with `shard` all of them make one run.

    With `on`, anything with `submit(fn, …)` that returns futures (a `ProcessPoolExecutor`, a Dask client, …),
    chains are stepped by its workers, and everything else happens here: one run, with the draws that it has
    whatever the number of workers. What a lost worker had is sent again from its last chunk. `analysed`:
    seconds that making the plan took, to be shown with what follows.

    Raises `OptionError` for values that make no sense, `ResourceError` where the draws cannot fit into
    memory, `StoreError` where the store cannot be made, `CheckpointError` where what is in it cannot go on.
    """
    settings = settings_for(
        draws=draws,
        warmup=warmup,
        chains=chains,
        seed=seed,
        thin=thin,
        keep_warmup=sensible.flag("keep_warmup", keep_warmup),
        chunk=None if chunk is None else sensible.count("chunk", chunk, 1),
        keep=kept(plan, keep),
        shard=sensible.text("shard", shard, "auto"),
        keep_probs=with_probabilities(plan, keep_probs, keep),
        rescue=sensible.flag("rescue", rescue),
        host=host,
    )
    most = most_draws(max_draws, settings.draws)
    sensible.text("device", device, "cpu")
    sensible.flag("durable", durable)
    target = sensible.text("until", until, "ess>400, rhat<1.01")
    condition = None if target is None else Until.parse(target, settings.chains)
    path = None if store is None else place_of(store, "store")
    again(resume, path)
    given, changing = None, hasattr(plan.origin, "starts")
    if plan.origin is not None and changing:  # a model whose structure changes
        given = plan.origin.starts(settings, init)
    elif starts(init):
        of_all = checked_starts(plan, settings.all_chains or settings.chains, starts(init))
        here = slice(settings.first_chain, settings.first_chain + settings.chains)
        given = {n: v[here] for n, v in of_all.items()}
    if on is not None:
        elsewhere(on, host, shard)
    engine, place = engine_for(plan, settings, device, on)
    s = settings
    planned(plan, s.chains, s.draws, s.warmup, s.keep_warmup, s.thin, s.keep)
    folder = None if path is None else this_host(host).folder_of(path)
    if folder is not None and resume and holds_run(folder):
        run = taken_up(
            folder,
            plan,
            settings,
            until=condition,
            max_draws=most,
            device=device,
            on=on,
            init=given,
            durable=durable,
        )
        if run.status == "finished":  # other hosts, that hold less of it, would wait for this one
            engine.in_step(run.kept.steps)
        return run
    return kind_of(changing)(
        plan,
        engine,
        settings,
        place=place,
        init=given,
        store=None if folder is None else store_in(folder, plan, durable=durable, anew=bool(resume)),
        until=condition,
        max_draws=most,
        analysed=analysed,
    )


def settings_for(
    *,
    draws: int = 1000,
    warmup: int | str = "auto",
    chains: int = 4,
    seed: int = 0,
    thin: int = 1,
    host: str | None = None,
    **rest: Any,
) -> Settings:
    """What was asked for, checked, for this host's share of the chains. Raises `OptionError`."""
    all_chains = sensible.count("chains", chains, 1, MOST_CHAINS)
    own = this_host(host)
    # in a program of several hosts a plate is divided over all of them, and each has all chains
    first_chain, own_chains = (Host() if rest.get("shard") and host is None else own).share_of(all_chains)
    most_warmup, auto = warmup_steps(warmup)
    return Settings(
        draws=sensible.count("draws", draws, 1),
        warmup=most_warmup,
        # chains can only agree with others that are here
        auto_warmup=auto and 1 < own_chains == all_chains,
        chains=own_chains,
        first_chain=first_chain,
        all_chains=all_chains,
        seed=sensible.count("seed", seed, 0, MOST_SEED),
        thin=sensible.count("thin", thin, 1, MOST_THIN),
        **rest,
    )


_ELSEWHERE = {
    **dict.fromkeys(("tune", "num_warmup", "iter_warmup", "burn", "burnin", "n_tune"), "warmup"),
    **dict.fromkeys(("num_samples", "iter", "iter_sampling", "samples", "n_samples"), "draws"),
    **dict.fromkeys(("num_chains", "n_chains"), "chains"),
    **dict.fromkeys(("random_seed", "rng_key", "random_state"), "seed"),
    "thinning": "thin",
    **dict.fromkeys(("init_params", "initvals", "inits"), "init"),
    **dict.fromkeys(("step", "kernel", "nuts_sampler", "target_accept", "target_accept_prob"), "schedule"),
}
"""What options are called in PyMC, Stan, BUGS and NumPyro."""


def ours(name: str, known: Sequence[str]) -> str:
    """`; here it is 'warmup'`, of other packages' names for options, else as `nearest`."""
    return f"; here it is {_ELSEWHERE[name]!r}" if name in _ELSEWHERE else nearest(name, known)


def option_names() -> list[str]:
    """What a run of an ordinary model can be asked for."""
    return [n for n, p in inspect.signature(made).parameters.items() if p.kind is p.KEYWORD_ONLY]


def known_options(asked: dict[str, Any]) -> dict[str, Any]:
    """The options, all of which there are. Raises `ArgumentError` (a `TypeError`) that names the nearest."""
    names = option_names()
    public = [n for n in names if n not in ("analysed", "durable")]
    for name in asked:
        if name not in names:
            raise ArgumentError(
                f"sampling has no option {name!r}{ours(name, public)} (options: {', '.join(public)}, "
                f"schedule)"
            )
    return asked


def foretold(run: Run) -> str:
    """What a long run will take, to be said before it begins; empty for others."""
    settings, expected = run.settings, run.memory
    count = f"{settings.draws:,}".replace(",", " ")
    return f"{count} draws × {settings.chains} chains: {expected}" if expected.long else ""


def sample(plan: Plan, *, on_start: Callable[[Run], Any] | None = None, **asked: Any) -> Run:
    """As `start`, and wait. The first interrupt ends the run at the next chunk and keeps its draws; a second
    one raises. SIGTERM does as the first interrupt, and takes its course when the run has ended. Whatever is
    raised once there is a run has it as its attribute `run`. What a long run will take is told in the log.

    `on_start` (a dashboard) is called with the run before it begins; where it raises, that is told in the log
    and the run goes on."""
    run: Run | None = None
    pressed = False

    def told(end: Callable[[Run], None]) -> bool:
        nonlocal pressed
        if run is not None:
            pressed = True
            end(run)
        return run is not None

    def on_interrupt(number: int, frame: Any) -> None:
        if not told(Run.stop):
            raise KeyboardInterrupt

    with termination(lambda: told(Run.leave)), interrupts(on_interrupt):
        run = made(plan, **known_options(asked))
        try:
            if on_start is not None:
                try:
                    on_start(run)
                except Exception:
                    _log.exception("what was to show the run of %r failed; the run goes on", run.model_name)
            if run.status == "finished":  # nothing was left to do
                return run
            if on_start is None and (words := foretold(run)):
                _log.warning("%s; an interrupt keeps what is there", words)
            run.start()
            if pressed:  # before there was a thread to stop
                run.stop()
            return wait_interruptibly(run)
        except BaseException as error:
            error.run = run  # type: ignore[attr-defined]
            run.stop()
            run.settle(_SETTLE_SECONDS)
            raise


def wait_interruptibly(run: Run) -> Run:
    """Wait for a run; the first SIGINT stops it at the next chunk, the second raises `KeyboardInterrupt`,
    whose attribute `run` is the run."""
    pressed = False

    def on_interrupt(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            interrupt = KeyboardInterrupt()
            interrupt.run = run  # type: ignore[attr-defined]
            raise interrupt
        pressed = True
        run.stop()

    with interrupts(on_interrupt):
        return run.wait()


def made_ahead(
    plan: Callable[[], Plan],
    tell: Callable[[str, bool], None],
    awaited: Callable[[Callable[[], bool]], None],
    *,
    device: str | None = None,
    **asked: Any,
) -> None:
    """Have the programs made that a run of the plan with these options takes, and nothing run.

    `tell(stage, breakable)` is told what it is at; `awaited` is given a function that says whether a run
    waits for that. A run that begins meanwhile takes over what is there, and waits for the rest. Raises what
    the run would raise.
    """
    tell(ANALYSING, False)
    found = plan()
    engine = engine_ahead(found, settings_for(**asked), device)
    awaited(lambda: engine.awaited)
    with engine.surroundings.carried(), jax.default_device(engine.devices[0]):
        engine.compile(tell)
        engine.compile_rest()


@contextmanager
def interrupts(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Have SIGINT call `handler`, where this thread may say so, and leave all as it was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def termination(stop: Callable[[], bool]) -> Iterator[None]:
    """Put SIGTERM off until the run has ended and is on disk: batch systems send it some time before they
    kill.

    The first one calls `stop`, and is delivered when the context is left, to whom it would have gone. A
    second one is delivered at once, and so is the first where `stop` returns False: there was no run yet.
    Where the process ignores SIGTERM, it still does.
    """
    before = signal.getsignal(signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    if not main or before in (signal.SIG_IGN, None):
        yield
        return
    waiting = False

    def deliver() -> None:
        nonlocal waiting
        waiting = False
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)

    def handler(number: int, frame: Any) -> None:
        nonlocal waiting
        if waiting or not stop():
            deliver()
        else:
            waiting = True

    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if waiting:
            deliver()
