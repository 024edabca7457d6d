"""Which device to run on, and whether the draws will fit into memory."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gibbsite.errors import OptionError, ResourceError
from gibbsite.kernels.plan import Plan

_BUFFER_BYTES = 64 * 2**20
_MAX_CAPACITY = 1024
_WORTH_A_GPU = 200_000


@dataclass(frozen=True)
class Place:
    """Devices that chains run on, and why."""

    devices: tuple[Any, ...]
    reason: str


def choose_device(device: str | None, plan: Plan, chains: int) -> Place:
    """Devices by name: "cpu", "gpu", "cuda:1", "cpu:all" (chains dealt out over all of them), None or "auto".

    With "auto" a GPU is taken where one step of all chains touches enough numbers to keep it busy; small
    models run faster on the CPU. Raises `OptionError` for a device that is not there.
    """
    if device in (None, "", "auto"):
        default = jax.devices()[0]
        if default.platform == "cpu":
            return Place((default,), "JAX sees no accelerator")
        size = chains * (_numbers(plan) + _observed(plan))
        if size >= _WORTH_A_GPU:
            return Place((default,), f"a step of all chains touches {size:,} numbers")
        return Place(
            (jax.devices("cpu")[0],),
            f"a step of all chains touches only {size:,} numbers, too few for a {default.platform}",
        )
    kind, _, number = str(device).partition(":")
    try:
        found = jax.devices(kind)
        if number == "all":
            used = max(n for n in range(1, len(found) + 1) if chains % n == 0)
            reason = f"{chains} chains over {used} of {len(found)} devices"
            return Place(tuple(found[:used]), reason)
        return Place((found[int(number or 0)],), "as asked")
    except (RuntimeError, ValueError, IndexError):
        there = ", ".join(sorted({d.platform for d in jax.devices()} | {"cpu"}))
        raise OptionError(f"there is no device {device!r} here; JAX sees: {there}") from None


def _numbers(plan: Plan) -> int:
    return sum(int(np.prod(s.shape, dtype=np.int64)) for s in plan.sites.values())


def _observed(plan: Plan) -> int:
    return sum(int(np.size(v)) for v in plan.observed.values())


def bytes_per_draw(plan: Plan) -> int:
    """Bytes of all recorded sites in one draw of one chain."""
    return sum(
        int(np.prod(s.shape, dtype=np.int64)) * np.dtype(s.dtype).itemsize for s in plan.sites.values()
    )


def capacity(plan: Plan, chains: int) -> int:
    """Most steps of one call: as many as fit into 64 MiB on the device, 1024 at most."""
    return int(np.clip(_BUFFER_BYTES // max(1, bytes_per_draw(plan) * chains), 1, _MAX_CAPACITY))


def readable(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def available_memory() -> int:
    """Bytes of memory that can be had now without swapping, as far as the system tells."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Estimate:
    """Bytes that the draws of a run will take: in all, and on the device at a time."""

    host: int
    device: int

    def __str__(self) -> str:
        return f"{readable(self.host)} of memory for the draws, {readable(self.device)} on the device"


def planned(plan: Plan, chains: int, draws: int, warmup: int, keep_warmup: bool) -> Estimate:
    """What a run will need. Raises `ResourceError` where the draws cannot fit into memory."""
    kept = draws + (warmup if keep_warmup else 0)
    per_draw = bytes_per_draw(plan) * chains
    estimate = Estimate(per_draw * kept, 2 * per_draw * capacity(plan, chains))
    room = available_memory()
    if estimate.host > room:
        big = max(plan.sites.values(), key=lambda s: int(np.prod(s.shape, dtype=np.int64)))
        fits = max(1, room // max(1, per_draw))
        raise ResourceError(
            f"this run needs {estimate}, but {readable(room)} are free. Keep fewer: draws={fits} would fit; "
            f"or raise thin, or lower chains ({chains}). The largest site is {big.name!r}, {list(big.shape)}"
        )
    return estimate
