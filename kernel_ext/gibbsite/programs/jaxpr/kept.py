"""Compiled programs that outlive the process: a folder of the user's, bounded and cleaned.

An entry is what XLA compiled, machine code, under a hash of the program, its options, the versions and the
machine. Nothing is unpickled. Entries are read only from a folder and files that belong to the user and that
nobody else may write to, and only if they are whole. Whatever is wrong with the folder or an entry, the run
goes on without, and a line tells of it, once.
"""

import hashlib
import logging
import os
import platform
import stat
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import platformdirs

_HEAD = b"gibbsite compiled 1\n"
_SUFFIX = ".compiled"
_MOST_BYTES = 512 * 2**20
# where there is too much, how much stays
_AFTER_CLEANING = 0.8
VARIABLE = "GIBBSITE_CACHE"
T = TypeVar("T")
_logger = logging.getLogger("gibbsite")


class Kept:
    """Programs by key in `folder`, which is made when it is first written to."""

    def __init__(self, folder: Path, most_bytes: int = _MOST_BYTES):
        self.folder, self._most = folder, most_bytes
        self._told: set[str] = set()

    def read(self, key: str) -> bytes | None:
        """What was kept, or None. An entry that is not whole, or that others may write to, is none."""
        path = self._path(key)
        try:
            _of_the_user(self.folder)
            # a pipe of that name would be waited for
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(path, flags), "rb") as file:
                found = os.fstat(file.fileno())
                _private(found, path)
                if not stat.S_ISREG(found.st_mode):
                    raise OSError(f"{path} is not a plain file")
                said = file.read()
            with suppress(OSError):  # of a folder that can only be read, as in a container's image
                os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tell("read", error)
            return None
        digest, content = said[len(_HEAD) : len(_HEAD) + 32], said[len(_HEAD) + 32 :]
        if not said.startswith(_HEAD) or hashlib.sha256(content).digest() != digest:
            self.drop(key, "it is damaged")
            return None
        return zlib.decompress(content)

    def write(self, key: str, program: bytes) -> None:
        """Keep a program; of the oldest some go where that makes too much."""
        content = zlib.compress(program, 1)
        if len(content) > self._most:
            return
        try:
            put(self._path(key), _HEAD + hashlib.sha256(content).digest() + content)
            self._clean()
        except OSError as error:
            self._tell("write to", error)

    def drop(self, key: str, why: str) -> None:
        """Forget an entry that is of no use."""
        self._path(key).unlink(missing_ok=True)
        _logger.warning("a compiled program in %s is compiled again: %s", self.folder, why)

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _clean(self) -> None:
        entries = [(s.st_mtime, s.st_size, p) for p in self.folder.glob(f"*{_SUFFIX}") if (s := _stat(p))]
        total = sum(size for _, size, _ in entries)
        if total <= self._most:
            return
        for _, size, path in sorted(entries):
            path.unlink(missing_ok=True)  # another kernel may clean, too
            total -= size
            if total <= _AFTER_CLEANING * self._most:
                return

    def _tell(self, what: str, error: OSError) -> None:
        if what not in self._told:
            self._told.add(what)
            _logger.warning("cannot %s the cache of compiled programs, %s: %s", what, self.folder, error)


def put(path: Path, content: bytes) -> None:
    """Write a file of a cache folder as a whole, for its owner alone. Raises `OSError`, and leaves nothing
    then."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _of_the_user(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _of_the_user(folder: Path) -> None:
    """Raises `PermissionError` for a folder in which somebody else could put something."""
    _private(folder.stat(), folder)


def _private(found: os.stat_result, path: Path) -> None:
    if not hasattr(os, "getuid"):
        return
    if found.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to somebody else")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others may write to {path}")


@cache
def machine() -> str:
    """What machine code for this machine may rely on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.system()} {platform.machine()} {hashlib.sha256(features.encode()).hexdigest()}"


_chosen: Kept | str | None = "auto"


def choose(where: str) -> None:
    """Keep programs in the folder `where`; "auto": in the user's cache folder, unless the variable
    `GIBBSITE_CACHE` names another or is "off"; "off" or "": nowhere."""
    global _chosen
    _chosen = "auto" if where == "auto" else _at(where)


def _at(where: str) -> Kept | None:
    return (
        None if where.strip().lower() in ("", "off", "0", "false", "none") else Kept(Path(where).expanduser())
    )


def chosen() -> Kept | None:
    """Where programs are kept; None: nowhere."""
    return _default(os.environ.get(VARIABLE)) if isinstance(_chosen, str) else _chosen


@cache
def _default(said: str | None) -> Kept | None:
    if said is not None:
        return _at(said)
    return Kept(Path(platformdirs.user_cache_dir("gibbsite", appauthor=False)) / "compiled")


def found_or_made(
    key: Callable[[], str],
    load: Callable[[bytes], T],
    make: Callable[[], T],
    dump: Callable[[T], bytes],
) -> T:
    """`load` of what is kept under `key()`, or what `make` makes, which is kept from then on."""
    kept = chosen()
    if kept is None:
        return make()
    name = f"{machine()} {key()}"
    content = kept.read(name)
    if content is not None:
        try:
            return load(content)
        except Exception as error:  # of another version's making, or XLA's own reasons
            kept.drop(name, f"XLA does not take it ({str(error).splitlines()[0][:100]})")
    made = make()
    kept.write(name, dump(made))
    return made
