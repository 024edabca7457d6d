"""Begin a run of a plan."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gibbsite.errors import OptionError
from gibbsite.kernels.plan import Plan
from gibbsite.sampling.engine import Engine
from gibbsite.sampling.run import Run

_BUFFER_BYTES = 64 * 2**20
_MAX_CAPACITY = 1024
_ENGINES: dict[Any, Engine] = {}


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise OptionError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise OptionError(f"{name} must be at least {least}, not {value}")
    return int(value)


def _capacity(plan: Plan, chains: int) -> int:
    per_step = sum(
        int(np.prod(s.shape, dtype=np.int64)) * np.dtype(s.dtype).itemsize for s in plan.sites.values()
    )
    return int(np.clip(_BUFFER_BYTES // max(1, per_step * chains), 1, _MAX_CAPACITY))


def choose_device(device: str | None) -> Any:
    """The JAX device that `device` names ("cpu", "gpu", "cuda:1", None or "auto" for JAX's default)."""
    if device in (None, "", "auto"):
        return jax.devices()[0]
    kind, _, number = str(device).partition(":")
    try:
        found = jax.devices(kind)
        return found[int(number or 0)]
    except (RuntimeError, ValueError, IndexError):
        there = ", ".join(sorted({d.platform for d in jax.devices()} | {"cpu"}))
        raise OptionError(f"there is no device {device!r} here; JAX sees: {there}") from None


def start(
    plan: Plan,
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    device: str | None = None,
    chunk: int | None = None,
) -> Run:
    """Start sampling in the background and return the `Run` at once.

    `draws` and `warmup` count steps per chain; `chunk` fixes the steps per chunk (default: about 200 ms).
    Raises `OptionError` for values that make no sense.
    """
    draws = _count("draws", draws, 1)
    warmup, chains = _count("warmup", warmup, 0), _count("chains", chains, 1)
    seed = _count("seed", seed, 0)
    chunk = None if chunk is None else _count("chunk", chunk, 1)
    place = choose_device(device)
    capacity = _capacity(plan, chains)
    key = (plan.cache_key, chains, warmup, capacity, place)
    if key not in _ENGINES:
        _ENGINES[key] = Engine(plan, chains, warmup, capacity)
    engine = _ENGINES[key].rebound(plan) if _ENGINES[key].plan is not plan else _ENGINES[key]
    run = Run(plan, engine, draws=draws, warmup=warmup, seed=seed, chunk=chunk, device=place)
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
