"""One writer at a time for a store.

The lock is the operating system's own (`flock`) on the file `lock` in the store's folder, and held while the
run samples. It ends with the process that holds it, however that ends, so a killed kernel leaves nothing
behind that would have to be cleared away. The file names the holder, for people.
"""

import json
import os
import socket
import time
import warnings
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gibbsite.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows, where the loader of two writers has to take care
    fcntl = None

FILE = "lock"
_LOOKS = 0.2  # seconds: far longer than a look takes


class Lock:
    """The right to write to the store in `folder`."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._release: Any = None
        self._holder = 0

    @property
    def held(self) -> bool:
        """Whether it is ours now; what a fork copied is its parent's."""
        return self._release is not None and self._release.alive and self._holder == os.getpid()

    def take(self) -> None:
        """Take it, or raise `StoreError` with the name of the process that has it; does nothing if held."""
        if self.held or fcntl is None:
            return
        try:  # never through a link: the file behind it is somebody's
            if (self._folder / FILE).is_symlink():
                (self._folder / FILE).unlink()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self._folder / FILE, flags, 0o666)
        except OSError as problem:
            raise StoreError(f"store {str(self._folder)!r} cannot be locked: {FILE}: {problem}") from problem
        try:
            _lock(file)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise StoreError(
                f"store {str(self._folder)!r} is being written to by {holder}; stop that run first, or "
                f"sample to another path"
            ) from None
        except OSError as problem:
            os.close(file)
            warnings.warn(
                f"store {str(self._folder)!r} cannot be locked ({problem}): see to it that no other process "
                f"writes to it",
                stacklevel=2,
            )
            return
        told = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(told).encode(), 0)
        self._holder = os.getpid()
        self._release = weakref.finalize(self, _give_up, file, self._holder)

    def release(self) -> None:
        """Give it up; does nothing if it is not held."""
        if self._release is not None:
            self._release()
            self._release = None


def _lock(file: int) -> None:
    """Take the lock, or raise `BlockingIOError`: not at once, since whoever looks holds it for a moment."""
    until = time.monotonic() + _LOOKS
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[union-attr]
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(_LOOKS / 20)


def _give_up(file: int, holder: int) -> None:
    """Unlock and close. A forked child has a copy of the file that would hold the lock as long as it lives,
    so it is unlocked and not only closed; the child itself leaves its parent's lock alone. Nobody is named
    from now on."""
    if os.getpid() == holder:
        os.ftruncate(file, 0)
        fcntl.flock(file, fcntl.LOCK_UN)  # type: ignore[union-attr]
    os.close(file)


def _holder(file: int) -> str:
    """Whoever wrote into the lock's file."""
    found = _signed(file)
    return "another process" if found is None else str(found)  # None: it has only just taken the lock


@dataclass(frozen=True)
class Writer:
    """The process that has a store's lock."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @property
    def gone(self) -> bool:
        """Whether it is known to have ended: that of a process on another machine is not known."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # somebody else's, and alive
            return False
        return False


def writer(folder: Path) -> Writer | None:
    """Whoever is writing to the store in `folder`; None where nobody does.

    A name that a killed process left counts for nothing, whichever machine it was on and whoever has its
    number now: the lock ended with it. It is tried, together with all others who look, for a moment.
    """
    if fcntl is None:
        return None
    try:
        file = os.open(folder / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = _signed(file)
        if found is not None and _free(file):
            found = None
    finally:
        os.close(file)
    return None if found is None or found.gone else found


def _free(file: int) -> bool:
    """Whether nobody has the lock; False where that cannot be known."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # type: ignore[union-attr]
        fcntl.flock(file, fcntl.LOCK_UN)  # type: ignore[union-attr]
    except OSError:
        return False
    return True


def _signed(file: int) -> Writer | None:
    try:
        told = json.loads(os.pread(file, 1000, 0))
        return Writer(int(told["pid"]), str(told["host"]), str(told["since"]))
    except (ValueError, KeyError, TypeError, OSError):
        return None
