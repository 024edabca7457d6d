"""Which device to run on, and whether the draws will fit into memory."""

import math
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gibbsite.errors import OptionError, ResourceError, UnknownNameError
from gibbsite.ground.arguments import shown
from gibbsite.ground.process import available_memory, readable
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import empty_like

_BUFFER_BYTES = 64 * 2**20
_MAX_CAPACITY = 1024
_WORTH_A_GPU = 200_000
# a proposal fills so much of the free memory
_FILLED = 0.8


@dataclass(frozen=True)
class Place:
    """Devices that chains run on, and why. With `shard`, the size of a plate, every chain runs on `parts` of
    them, each with its part of the data."""

    devices: tuple[Any, ...]
    reason: str
    shard: int | None = None
    parts: int | None = None


def choose_device(device: str | None, plan: Plan, chains: int) -> Place:
    """Devices by name: "cpu", "gpu", "cuda:1", "cpu:all" (chains dealt out over all of them), None or "auto".

    With "auto" the device that `jax.default_device` says; else a GPU is taken where one step of all chains
    touches enough numbers to keep it busy: small models run faster on the CPU. Raises `OptionError` for a
    device that is not there.
    """
    settings: Any = jax.config
    asked = settings.jax_default_device
    if device in (None, "auto") and asked is not None:
        found = jax.local_devices(backend=asked)[0] if isinstance(asked, str) else asked
        return Place((found,), "as jax.default_device says")
    if device in (None, "auto"):
        default = jax.local_devices()[0]
        if default.platform == "cpu":
            return Place((default,), "JAX sees no accelerator")
        size = chains * (_numbers(plan) + sum(int(np.size(v)) for v in plan.observed.values()))
        if size >= _WORTH_A_GPU:
            return Place((default,), f"a step of all chains touches {size:,} numbers")
        return Place(
            (jax.local_devices(backend="cpu")[0],),
            f"a step of all chains touches only {size:,} numbers, too few for a {default.platform}",
        )
    kind, sep, number = str(device).partition(":")
    try:
        if not kind:
            raise ValueError(device)
        found = jax.local_devices(backend=kind)
        if number == "all":
            used = max(n for n in range(1, len(found) + 1) if chains % n == 0)
            reason = f"{chains} chains over {used} of {len(found)} devices"
            return Place(tuple(found[:used]), reason)
        if sep and not number.isdecimal():
            raise ValueError(number)
        return Place((found[int(number or 0)],), "as asked")
    except (RuntimeError, ValueError, IndexError):
        there = ", ".join(sorted({d.platform for d in jax.local_devices()} | {"cpu"}))
        raise OptionError(f"there is no device {shown(device)} here; JAX sees: {there}") from None


def choose_shards(plate: str, device: str | None, plan: Plan, chains: int = 1) -> Place:
    """Devices that share the data of a plate: `plate` is its name, that with a number of parts ("n:4"), or
    "auto" for the largest that can be shared.

    All devices of the kind take part, those of all hosts in a program of `jax.distributed`, or as many of
    them as divide the plate's size; chains are dealt out over what several such groups are left. Raises
    `OptionError` where there is no such plate, nothing to share it with, or a host without a part.
    """
    sizes: dict[str, int] = {}
    for site in (*plan.sites.values(), *plan.observed_sites.values()):
        sizes |= {p: site.shape[a] for p, a in zip(site.plates, site.plate_axes, strict=True)}
    kind = (device or "auto").partition(":")[0]
    platform = (
        jax.local_devices()[0].platform
        if kind == "auto"
        else choose_device(kind, plan, 1).devices[0].platform
    )
    hosts = jax.process_count()
    found = jax.local_devices(backend=platform) if hosts == 1 else jax.devices(platform)
    parts = {p: max(n for n in range(1, len(found) + 1) if size % n == 0) for p, size in sizes.items()}
    name, sep, number = plate.rpartition(":")
    if sep and plate not in sizes and number.isdecimal():
        plate, wanted = name, int(number)
        if plate in sizes and not (1 < wanted <= len(found) and sizes[plate] % wanted == 0):
            raise OptionError(
                f"shard: {sizes[plate]} elements of plate {plate!r} do not divide into {wanted} parts over "
                f"{len(found)} {platform} device{'s' * (len(found) != 1)}; {plate}:{parts[plate]} is the most"
            )
        parts[plate] = wanted
    if plate == "auto":
        usable = [p for p, n in parts.items() if n > 1]
        if not usable and hosts > 1:
            raise OptionError(
                f"shard: no plate divides evenly over the {len(found)} {platform} devices of {hosts} hosts; "
                f"leave shard= out, and the hosts share the chains"
            )
        if not usable:
            why = "there is one device" if len(found) == 1 else "no plate divides evenly over the devices"
            return Place((found[0],), f"nothing is sharded: {why}")
        plate = max(usable, key=sizes.__getitem__)
    elif plate not in sizes:
        raise UnknownNameError("plate", plate, sizes)
    size, n = sizes[plate], parts[plate]
    if n == 1:
        raise OptionError(
            f"shard: {size} elements of plate {plate!r} do not divide over {len(found)} {platform} "
            f"device{'s' * (len(found) != 1)}; "
            + (
                "on a CPU, set XLA_FLAGS=--xla_force_host_platform_device_count=N before JAX starts"
                if len(found) == 1
                else "give a number of rows that a number of devices divides"
            )
        )
    groups = max(g for g in range(1, len(found) // n + 1) if chains % g == 0)
    used = tuple(found[: groups * n])
    if hosts > 1 and (without := set(range(hosts)) - {d.process_index for d in used}):
        raise OptionError(
            f"shard: {groups} × {n} devices share plate {plate!r}, and hosts {sorted(without)} would have no "
            f"part in it; start fewer hosts, or take a multiple of {groups + 1} chains"
        )
    told = f"plate {plate!r} in {n} parts of {size // n}"
    told += f", {chains} chains over {groups} such groups of devices" if groups > 1 else ""
    return Place(used, told + (f", of {hosts} hosts" if hosts > 1 else ""), size, n)


def shards_here(asked: str, device: str | None, plan: Plan, chains: int) -> str | None:
    """What a run that was begun with the shards `asked` goes on with here: these; with other devices its
    plate in as many parts as divide it; or on one device None, with a warning each. Raises `OptionError`
    as `choose_shards` where that cannot be done in a program of several hosts."""
    for shards in dict.fromkeys([asked, asked.rpartition(":")[0] or asked]):
        try:
            place = choose_shards(shards, device, plan, chains)
        except OptionError:
            continue
        if shards != asked:
            warnings.warn(_OTHERWISE.format(asked, place.reason), stacklevel=5)
        return shards
    if jax.process_count() > 1:
        choose_shards(asked, device, plan, chains)
    warnings.warn(_OTHERWISE.format(asked, "one device"), stacklevel=5)
    return None


_OTHERWISE = (
    "the run was begun with shard={!r}, which the devices here do not allow; it goes on with {}. "
    "What it draws from here on is as right, and equal to rounding at first"
)


def _numbers(plan: Plan) -> int:
    return sum(int(np.prod(s.shape, dtype=np.int64)) for s in plan.sites.values())


def bytes_per_draw(plan: Plan, keep: Collection[str] | None = None) -> int:
    """Bytes of all recorded sites, or of those in `keep`, in one draw of one chain."""
    empty = empty_like(plan, 1, keep).values()
    return sum(int(np.prod(v.shape[2:], dtype=np.int64)) * v.itemsize for v in empty)


def capacity(plan: Plan, chains: int) -> int:
    """Most steps of one call: as many as fit into 64 MiB on the device, 1024 at most."""
    return int(np.clip(_BUFFER_BYTES // max(1, bytes_per_draw(plan) * chains), 1, _MAX_CAPACITY))


@dataclass(frozen=True)
class Estimate:
    """Bytes that the draws of a run will take: in all, and on the device at a time; and `seconds` of sampling
    on a processor that is not busy, from the work that was counted for the choice of the schedule, right
    within a factor of three; None for a schedule that was asked for."""

    host: int
    device: int
    seconds: float | None = None

    @property
    def long(self) -> bool:
        """Whether a person would want to know before it begins: a gigabyte, or ten minutes."""
        return self.host >= 2**30 or (self.seconds or 0.0) >= 600

    def __str__(self) -> str:
        told = f"{readable(self.host)} of memory for the draws, {readable(self.device)} on the device"
        if self.seconds is None:
            return told
        low, high = self.seconds / 3, self.seconds * 3
        return f"{told}, {_duration(low)} to {_duration(high)} of sampling where the processor is free"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.2g} seconds"


def estimated(
    plan: Plan,
    chains: int,
    draws: int,
    warmup: int,
    keep_warmup: bool,
    keep: Collection[str] | None,
) -> Estimate:
    """What a run will need."""
    kept = draws + (warmup if keep_warmup else 0)
    host = bytes_per_draw(plan, keep) * chains * kept
    return Estimate(host, 2 * bytes_per_draw(plan) * chains * capacity(plan, chains))


def expected_seconds(plan: Plan, chains: int, sweeps: int) -> float | None:
    """What so many sweeps take on a processor that is not busy; None where their work cannot be counted."""
    seconds = plan.work() * 1e-9 * chains / 4 * sweeps
    return None if math.isnan(seconds) else seconds


def planned(
    plan: Plan,
    chains: int,
    draws: int,
    warmup: int,
    keep_warmup: bool,
    thin: int = 1,
    keep: Collection[str] | None = None,
) -> Estimate:
    """What a run will need. Raises `ResourceError` where the draws cannot fit into memory, with what would:
    fewer draws of the same sweeps, or the draws of some sites and a summary of the others."""
    estimate, room = estimated(plan, chains, draws, warmup, keep_warmup, keep), available_memory()
    if estimate.host <= room:
        return estimate
    ways = []
    factor = math.ceil(estimate.host / (_FILLED * room))
    if draws // factor >= 1 and not keep_warmup:
        fewer, sparser = draws // factor, thin * factor
        ways.append(f"draws={fewer}, thin={sparser}: the same sweeps, of which one in {sparser} is kept")
    sizes = {n: bytes_per_draw(plan, [n]) for n in empty_like(plan, 1, keep)}
    small, taken = [], 0
    for name in sorted(sizes, key=sizes.__getitem__):
        taken += sizes[name]
        if taken * (estimate.host / max(1, sum(sizes.values()))) > _FILLED * room:
            break
        small.append(name)
    if small:
        rest = ", ".join(n for n in sizes if n not in small)
        ways.append(f"keep='{','.join(small)}': all draws of these, and mean and spread of {rest}")
    if chains > 1:
        ways.append(f"fewer chains than {chains}")
    biggest = max(sizes, key=sizes.__getitem__)
    raise ResourceError(
        f"this run needs {estimate}, but {readable(room)} are free; the largest site is {biggest!r}, "
        f"{readable(sizes[biggest])} a draw. What would fit: " + "; or ".join(ways)
    )
