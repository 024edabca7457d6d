"""What came after a checkpoint, in one file that is only appended to: a commit is one write and one wait.

A checkpoint beside its arrays is many files, each of which the disk has to be waited for. Between checkpoints
a commit is a record in `PATH/journal`: the new draws, the state that they led to, and the facts, under a
digest that goes on from the record before. The file begins with the name of the checkpoint that it goes on
from; with the next checkpoint it is of no more use, and goes. What is committed while that one is made goes
on in the file there is, and what of it the new checkpoint does not count begins the next file, of another
name, before the new checkpoint takes the old one's place: at any moment one file goes on from the checkpoint
that counts. A record that is not whole is what a crash left of a commit that never was. (A write-ahead log:
Gray and Reuter 1993, ch. 9; Zarr's arrays are what it is written ahead of.)
"""

import hashlib
import os
import stat
import struct
import uuid
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError
from gibbsite.ground.process import available_memory
from gibbsite.storage import checkpoint
from gibbsite.storage.draws import Arrays

FILE = "journal"
FILES = FILE, f"{FILE}~"
_MAGIC = b"gibbsite journal 1 "
_DIGEST = hashlib.sha256().digest_size
HEAD = len(_MAGIC) + 32 + _DIGEST  # the checkpoint's commit in hexadecimal digits, and their digest
_LENGTH = struct.Struct("<QI")  # bytes of a record's body, and a checksum of that number


def goes_on_from(head: bytes) -> str:
    """The name of the checkpoint that a journal with these first `HEAD` bytes goes on from."""
    return head[len(_MAGIC) : len(_MAGIC) + 32].decode()


class Journal:
    """The journal of a store, for the one that writes, in the file `name`. `durable` as in `Store`."""

    def __init__(self, folder: Path, commit: str, durable: bool, name: str = FILE):
        self._folder, self._durable = folder, durable
        self.name, self.path = name, folder / name
        head = _MAGIC + commit.encode()
        self._digest = hashlib.sha256(head).digest()
        self._file: int | None = None
        self._head, self._size = head + self._digest, 0

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def append(
        self,
        facts: Mapping[str, Any],
        state: dict[str, np.ndarray],
        rows: dict[str, Arrays],
        counts: dict[str, int],
    ) -> str:
        """A commit: `rows` are the draws `[chain, draw, …]` since the last, by group and site, `counts` how
        many by group. Returns its name. Raises `OSError`, and leaves the file as it was then."""
        rows = {group: arrays for group, arrays in rows.items() if counts[group]}
        named = {"rows": [[group, name] for group, arrays in rows.items() for name in arrays]}
        named |= {"counts": counts, "commit": (commit := uuid.uuid4().hex)}
        values = [np.ascontiguousarray(v) for arrays in rows.values() for v in arrays.values()]
        beside = {f"rows {i}": v for i, v in enumerate(values)}
        body = checkpoint.encoded({**facts, **named}, {**state, **beside})
        length = struct.pack("<Q", len(body))
        hashed = hashlib.sha256(self._digest)  # and not of the two joined: bodies are large
        hashed.update(body)
        digest = hashed.digest()
        new = self._file is None
        file = self._open()
        before = (self._head if new else b"") + length + struct.pack("<I", zlib.crc32(length)) + digest
        try:
            if os.fstat(file).st_size != self._size or not self._in_place(file):
                raise OSError(f"{self.name} was removed or replaced meanwhile")
            for view in (memoryview(before), memoryview(body)):
                while view:
                    view = view[os.write(file, view) :]
            if self._durable:
                os.fsync(file)
                if new:
                    checkpoint.sync_name(self._folder)
        except OSError:
            os.ftruncate(file, self._size)
            raise
        self._size, self._digest = self._size + len(before) + len(body), digest
        return commit

    def _open(self) -> int:
        if self._file is None:
            # of an earlier checkpoint; also where it is a link to somebody's file
            self.path.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            self._file = os.open(self.path, flags, 0o666)
        return self._file

    def _in_place(self, file: int) -> bool:
        own, found = os.fstat(file), os.stat(self.path, follow_symlinks=False)
        return (own.st_ino, own.st_dev) == (found.st_ino, found.st_dev)

    def close(self, remove: bool) -> None:
        """Write no more; `remove` what a checkpoint has made superfluous."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if remove:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Record:
    """One commit of a journal: `rows` are draws `[chain, draw, …]` by group and site, `counts` how many."""

    facts: dict[str, Any]
    state: dict[str, np.ndarray]
    rows: dict[str, Arrays]
    counts: dict[str, int]


def read(folder: Path, commit: str | None) -> list[Record]:
    """The commits that go on from the checkpoint called `commit`.

    Raises `CheckpointError` where the file is damaged before its end; where its last record is not what was
    written, that one is left out, with a warning.
    """
    return next(filter(None, (_read(folder / name, commit) for name in FILES)), [])


def _read(file: Path, commit: str | None) -> list[Record]:
    try:
        found = os.stat(file, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_size > available_memory():
            raise _damaged(file, "it is not a plain file, or larger than the memory there is")
        content = memoryview(file.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise _damaged(file, str(problem)) from problem
    if len(content) < HEAD:
        return []  # the first commit never was
    head, digest = bytes(content[: HEAD - _DIGEST]), bytes(content[HEAD - _DIGEST : HEAD])
    if not head.startswith(_MAGIC) or hashlib.sha256(head).digest() != digest:
        raise _damaged(file, "its beginning is not what was written")
    if head != _MAGIC + (commit or "").encode():
        return []  # of another checkpoint: the last one came, and was all there, before this was taken away
    return [_record(file, body) for body in _bodies(file, content, digest)]


def _bodies(file: Path, content: memoryview, digest: bytes) -> Iterator[bytes]:
    at = HEAD
    while len(content) - at >= _LENGTH.size + _DIGEST:
        length, check = _LENGTH.unpack_from(content, at)
        if zlib.crc32(content[at : at + 8]) != check:
            if any(content[at:]):  # zeros: a power cut, before the disk was done
                raise _damaged(file, f"what is at byte {at} is no record")
            return
        start = at + _LENGTH.size + _DIGEST
        end = start + length
        if end > len(content):
            return
        body = bytes(content[start:end])
        told, digest = bytes(content[start - _DIGEST : start]), hashlib.sha256(digest + body).digest()
        if told != digest:
            if end < len(content):
                raise _damaged(file, f"the record at byte {at} is not what was written")
            warnings.warn(
                f"the last commit of the store {str(file.parent)!r} is not what was written, and left out: "
                f"{file.name}, from byte {at} on",
                stacklevel=2,
            )
            return
        yield body
        at = end


def _record(file: Path, body: bytes) -> Record:
    try:
        facts, arrays = checkpoint.decoded(body)
        named, counts, rows = facts.pop("rows"), facts.pop("counts"), {}
        for i, (group, name) in enumerate(named):
            rows.setdefault(str(group), {})[str(name)] = arrays.pop(f"rows {i}")
        counts = {str(group): n for group, n in counts.items()}
        if not isinstance(facts.get("commit"), str) or not all(type(n) is int for n in counts.values()):
            raise ValueError("a record without a name, or with other counts than numbers")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise _damaged(file, str(problem)) from problem
    return Record(facts, arrays, rows, counts)


def _damaged(file: Path, why: str) -> CheckpointError:
    store = str(file.parent)
    return CheckpointError(
        f"the store {store!r} is damaged: {file.name}: {why}. What is whole of it: "
        f"gibbsite.load({store!r}, partial=True)"
    )
