"""Kinds of faults: what happens to files at rest, and to a run while it writes."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def _flipped(file: Path, rng: Any, other: Path) -> None:
    body = bytearray(file.read_bytes())
    body[rng.integers(len(body))] ^= 1 << int(rng.integers(8))
    file.write_bytes(bytes(body))


def _noise(file: Path, rng: Any, other: Path) -> None:
    body = bytearray(file.read_bytes())
    at = int(rng.integers(len(body)))
    body[at : at + 16] = rng.bytes(len(body[at : at + 16]))
    file.write_bytes(bytes(body))


def _cut(file: Path, rng: Any, other: Path) -> None:
    body = file.read_bytes()
    file.write_bytes(body[: rng.integers(len(body))])


def _longer(file: Path, rng: Any, other: Path) -> None:
    file.write_bytes(file.read_bytes() + rng.bytes(int(rng.integers(1, 200))))


def _zeros(file: Path, rng: Any, other: Path) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


def _emptied(file: Path, rng: Any, other: Path) -> None:
    file.write_bytes(b"")


def _deleted(file: Path, rng: Any, other: Path) -> None:
    file.unlink()


def _renamed(file: Path, rng: Any, other: Path) -> None:
    file.rename(file.with_name(file.name + ".bak"))


def _folder(file: Path, rng: Any, other: Path) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path, rng: Any, other: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _link(file: Path, rng: Any, other: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/hostname")


def _loop(file: Path, rng: Any, other: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def _exchanged(file: Path, rng: Any, other: Path) -> None:
    """With its neighbour: another chunk of the array, or the metadata of another array."""
    near = file.parent.parent
    if "draws.zarr" not in near.parts:
        return
    beside = [p for p in near.rglob(file.name) if p != file and p.is_file() and p.parent.parent == near]
    if beside:
        mine, theirs = file.read_bytes(), beside[0].read_bytes()
        file.write_bytes(theirs)
        beside[0].write_bytes(mine)


def _older(file: Path, rng: Any, other: Path) -> None:
    """As it was at an earlier commit, or in another run of the same model: whole by its own checksum."""
    if other.exists():
        shutil.copy(other, file)
    else:
        file.unlink()


AT_REST: dict[str, Callable[[Path, Any, Path], None]] = {
    "a bit flipped": _flipped,
    "sixteen bytes of noise": _noise,
    "cut short": _cut,
    "made longer": _longer,
    "zeros": _zeros,
    "emptied": _emptied,
    "deleted": _deleted,
    "renamed": _renamed,
    "a folder instead": _folder,
    "a pipe instead": _pipe,
    "a link instead": _link,
    "a link to itself": _loop,
    "exchanged": _exchanged,
    "of an earlier commit": _older,
    "of another run": _older,
}


class Killed(BaseException):
    """The process is gone."""


WHILE_WRITING: dict[str, tuple[str, BaseException]] = {
    "killed at a rename": ("rename", Killed()),
    "killed at a wait for the disk": ("fsync", Killed()),
    "the disk is full at a rename": ("rename", OSError(28, "No space left on device")),
    "the disk is full at a file's opening": ("open", OSError(28, "No space left on device")),
    "the disk fails when it is waited for": ("fsync", OSError(5, "Input/output error")),
    "no more rights at a file's opening": ("open", PermissionError(13, "Permission denied")),
}


@contextmanager
def failing(monkeypatch: Any, what: str, at: int, error: BaseException, ever_after: bool) -> Iterator[Any]:
    """Have the `at`-th rename, opening for writing or `fsync` fail: that one alone, or all that follow."""
    lock, count = threading.Lock(), 0

    def due() -> None:
        nonlocal count
        with lock:
            count += 1
            hit = count > at if ever_after else count == at + 1
        if hit:
            raise error

    def wrapped(real: Any, applies: Callable[..., bool] = lambda *_: True) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if applies(*given):
                due()
            return real(*given, **named)

        return call

    with monkeypatch.context() as patch:
        if what == "rename":
            patch.setattr(os, "replace", wrapped(os.replace))
            patch.setattr(Path, "replace", wrapped(Path.replace))
        elif what == "fsync":
            patch.setattr(os, "fsync", wrapped(os.fsync))
        else:
            patch.setattr(
                Path, "open", wrapped(Path.open, lambda path, mode="r", *_: set(mode) & set("wax+"))
            )
        yield lambda: count


def draws_agree(run: Any, whole: Any) -> int | None:
    """How many draws a run has, if all of them are the first ones of `whole`; None if any is another."""
    steps = {v.shape[1] for v in run.draws.values()}
    if len(steps) > 1:
        return None
    for name, v in run.draws.items():
        if not np.array_equal(v, whole.draws[name][:, : v.shape[1]]):
            return None
    return steps.pop() if steps else 0
