"""Several hosts, each of which runs its share of the chains and keeps it: told by a text, or by JAX.

Hosts never communicate: all that one has to know is which of how many it is. That is told (`host="3/16"`),
or read from what a batch system tells (`host="auto"`), so that a host that fails or ends first is no matter
to the others. In a program of `jax.distributed` it is JAX's number.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from gibbsite.errors import CheckpointError, OptionError
from gibbsite.ground import arguments as sensible
from gibbsite.storage.objects import Objects

_TOLD = re.compile(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*")
# number and count, by batch system: tasks of one Slurm job step, a Slurm array from 0, an Indexed Job of
# Kubernetes (which does not tell its containers how many there are)
_BATCH = (
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"),
)


@dataclass(frozen=True)
class Host:
    """The `number`-th, from 0, of `count` hosts."""

    number: int = 0
    count: int = 1

    def share_of(self, chains: int) -> tuple[int, int]:
        """Number of this host's first chain, and how many of `chains` it runs.

        Raises `OptionError` where they do not divide evenly over the hosts.
        """
        if chains % self.count:
            raise OptionError(
                f"chains: {chains} do not divide over the {self.count} hosts of this program; give a multiple"
            )
        return self.number * (chains // self.count), chains // self.count

    def folder_of(self, path: Path | Objects) -> Path | Objects:
        """Where it keeps the run that is stored in `path`: a folder of its own, if there are others."""
        return path if self.count == 1 else path / f"host{self.number}"


def this_host(asked: str | None = None, environment: Mapping[str, str] = os.environ) -> Host:
    """Which host this is: `asked` is "3/16", the fourth of sixteen; "auto", what the batch system says; or
    None, what JAX says. Raises `OptionError` of anything else."""
    asked = sensible.text("host", asked, "3/16")
    if asked is None:
        return Host(jax.process_index(), jax.process_count())
    if jax.process_count() > 1:
        raise OptionError("host: leave it out under jax.distributed, which numbers the hosts of a program")
    if asked.strip() == "auto":
        return _by_batch(environment)
    told = _TOLD.fullmatch(asked)
    if told is None:
        raise OptionError(
            f"host must be a number, from 0, of how many, as '3/16', or 'auto', not {sensible.shown(asked)}"
        )
    return _checked(int(told[1]), int(told[2]), f"host {sensible.shown(asked)}")


def _by_batch(environment: Mapping[str, str]) -> Host:
    for number, count in _BATCH:
        told = [environment.get(name, "") for name in (number, count)]
        if all(t.isdecimal() for t in told) and int(told[1]) > 1:
            return _checked(int(told[0]), int(told[1]), f"host 'auto': {number}={told[0]}, {count}={told[1]}")
    known = "; ".join(f"{number} and {count}" for number, count in _BATCH)
    raise OptionError(f"host 'auto': none of these are set to the number of one of several hosts: {known}")


def _checked(number: int, count: int, what: str) -> Host:
    if not count:
        raise OptionError(f"{what}: of no hosts there is none; the first of two is '0/2'")
    if not number < count:
        raise OptionError(f"{what}: hosts are numbered from 0, the last of {count} is {count - 1}")
    return Host(number, count)


def own_part(path: Path | Objects) -> Path | Objects:
    """What this host stored in `path`. Raises `CheckpointError` in a program of one host."""
    if jax.process_count() == 1:
        raise CheckpointError(
            f"{str(path)!r} holds the chains of several hosts: gibbsite.joined reads the draws of all, "
            f"gibbsite.load one of {', '.join(p.name for p in parts_in(path))}"
        )
    return this_host().folder_of(path)


def parts(path: Path) -> list[Path]:
    """The folders that hosts have made in `path`, in their order."""
    numbered = [(int(p.name[4:]), p) for p in path.glob("host*") if p.name[4:].isdecimal() and p.is_dir()]
    return [p for _, p in sorted(numbered)]


def without_folder(folders: Iterable[Path | Objects], settings: Any) -> list[int]:
    """The hosts of a run of such `settings`, by number, that none of the `folders` is of."""
    each, of_all = settings.chains, settings.all_chains or settings.chains
    return sorted({*range(of_all // each)} - {int(p.name[4:]) for p in folders}) if each < of_all else []


def parts_in(where: Path | Objects) -> Sequence[Path | Objects]:
    """As `parts`, also in an object store."""
    return where.parts() if isinstance(where, Objects) else parts(where)
