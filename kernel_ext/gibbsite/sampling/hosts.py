"""Several hosts in one program (`jax.distributed`): each runs its share of the chains, and keeps it."""

from pathlib import Path

import jax

from gibbsite.errors import CheckpointError, OptionError


def share_of(chains: int) -> tuple[int, int]:
    """Number of this host's first chain, and how many of `chains` it runs.

    Raises `OptionError` where they do not divide evenly over the hosts.
    """
    hosts = jax.process_count()
    if chains % hosts:
        raise OptionError(
            f"chains: {chains} do not divide over the {hosts} hosts of this program; give a multiple"
        )
    return jax.process_index() * (chains // hosts), chains // hosts


def folder_of(path: str | Path) -> Path:
    """Where this host keeps the run that is stored in `path`: a folder of its own, if there are others."""
    path = Path(path).expanduser()
    return path if jax.process_count() == 1 else path / f"host{jax.process_index()}"


def own_part(path: Path) -> Path:
    """What this host stored in `path`. Raises `CheckpointError` in a program of one host."""
    if jax.process_count() == 1:
        raise CheckpointError(
            f"{str(path)!r} holds the chains of several hosts: gibbsite.joined reads the draws of all, "
            f"gibbsite.load one of {', '.join(p.name for p in parts(path))}"
        )
    return folder_of(path)


def parts(path: str | Path) -> list[Path]:
    """The folders that hosts have made in `path`, in their order."""
    found = Path(path).expanduser().glob("host*")
    numbered = [(int(p.name[4:]), p) for p in found if p.name[4:].isdecimal() and p.is_dir()]
    return [p for _, p in sorted(numbered)]
