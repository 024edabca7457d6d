"""Begin a run of a plan."""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.sampling.engine.initial import checked_starts
from gibbsite.sampling.engine.resources import planned
from gibbsite.sampling.engines import engine_for
from gibbsite.sampling.hosts import folder_of, share_of
from gibbsite.sampling.run import Run, Settings
from gibbsite.sampling.storage.draws import empty_like
from gibbsite.sampling.storage.store import Store
from gibbsite.sampling.watch.until import Until


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise OptionError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise OptionError(f"{name} must be at least {least}, not {value}")
    return int(value)


def _kept(plan: Plan, keep: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if keep is None:
        return None
    names = keep.replace(",", " ").split() if isinstance(keep, str) else list(keep)
    known = empty_like(plan, 1)
    if not names:
        raise OptionError("keep: name at least one site, or leave it out to keep all")
    for name in names:
        if name not in known:
            raise UnknownNameError("site to keep", name, known)
    return tuple(n for n in known if n in names)


def start(
    plan: Plan,
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    device: str | None = None,
    store: str | Path | None = None,
    keep_warmup: bool = False,
    thin: int = 1,
    chunk: int | None = None,
    init: Mapping[str, Any] | None = None,
    until: str | None = None,
    max_draws: int = 20_000,
    keep: str | Sequence[str] | None = None,
    shard: str | None = None,
    analysed: float = 0.0,
) -> Run:
    """Start sampling in the background and return the `Run` at once.

    `draws` and `warmup` count steps per chain; of every `thin` sweeps after warm-up the last is a draw.
    Of the sites in `keep` ("mu,w" or a list; default: all) every draw is kept, of the others the mean and the
    standard deviation of each element (`Run.summaries`).
    `init` gives starting values by site, for all chains or one per chain. `store` is a new folder to stream
    draws and state to. With `until` (such as "ess>400, rhat<1.01") the run goes on past `draws` until all
    scalars meet it, up to `max_draws`; of sites with more than 2048 elements, evenly spaced ones are
    judged. `device`: see `choose_device`; with `shard`, a plate's name or "auto", all devices of the kind
    share the data of that plate in every chain (see `choose_shards`). `chunk` fixes the steps per chunk
    (default: about 200 ms). Computes in JAX's default precision: set `jax_enable_x64` before the model is
    made for float64.

    In a program of several hosts (`jax.distributed`), each of which calls this with the same arguments, every
    host runs and returns its share of the chains, on its own devices, and streams it to a folder of its own
    in `store`; `gibbsite.joined` puts the draws together. `analysed`: seconds that making the plan took, to
    be shown with what follows.

    Raises `OptionError` for values that make no sense, `ResourceError` where the draws cannot fit into
    memory, `StoreError` where the store cannot be made.
    """
    all_chains = _count("chains", chains, 1)
    first_chain, own_chains = share_of(all_chains)
    settings = Settings(
        draws=_count("draws", draws, 1),
        warmup=_count("warmup", warmup, 0),
        chains=own_chains,
        first_chain=first_chain,
        all_chains=all_chains,
        seed=_count("seed", seed, 0),
        thin=_count("thin", thin, 1),
        keep_warmup=bool(keep_warmup),
        chunk=None if chunk is None else _count("chunk", chunk, 1),
        keep=_kept(plan, keep),
        shard=shard,
    )
    condition = None if until is None else Until.parse(until, settings.chains)
    starts = None
    if init:
        of_all = checked_starts(plan, all_chains, init)
        starts = {n: v[first_chain : first_chain + own_chains] for n, v in of_all.items()}
    engine, place = engine_for(plan, settings, device)
    planned(
        plan,
        settings.chains,
        settings.draws,
        settings.warmup,
        settings.keep_warmup,
        settings.thin,
        settings.keep,
    )
    run = Run(
        plan,
        engine,
        settings,
        place=place,
        init=starts,
        store=None if store is None else Store.create(folder_of(store), plan),
        until=condition,
        max_draws=_count("max_draws", max_draws, 1),
        analysed=analysed,
    )
    run.start()
    return run


def sample(plan: Plan, *, on_start: Callable[[Run], Any] | None = None, **options: Any) -> Run:
    """As `start`, and wait. The first interrupt ends the run at the next chunk and keeps its draws; a second
    one raises."""
    run = start(plan, **options)
    if on_start is not None:
        on_start(run)
    return wait_interruptibly(run)


def wait_interruptibly(run: Run) -> Run:
    """Wait for a run; the first SIGINT stops it at the next chunk, the second raises `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():
        return run.wait()
    before = signal.getsignal(signal.SIGINT)
    pressed = False

    def on_interrupt(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        run.stop()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        return run.wait()
    finally:
        signal.signal(signal.SIGINT, before)
