"""A run in an object store (`s3://…`, by fsspec): a folder on this machine, whose files are objects there.

What is written, and how it is checked, is as on a disk: `Store` writes to a folder of this machine, and every
commit sends what changed, the checkpoint last, by one PUT each; what was sent counts when the checkpoint that
counts it is there. Objects cannot be appended to, so that what a commit adds to the journal is an object of
its own. To read is to fetch all of it and to read the folder. There are no locks: the writer signs, and looks
before each commit whether it is still the one who signed last; clocks are not asked.
"""

import json
import os
import shutil
import socket
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError, GibbsiteError, OptionError, StoreError
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import later
from gibbsite.ground.lock import FILE as LOCK_FILE
from gibbsite.ground.lock import Writer
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage import checkpoint, journal
from gibbsite.storage.described import INDEX, REMARKS, RESULTS
from gibbsite.storage.draws import Cut, Draws
from gibbsite.storage.store import DRAWS, Store

fsspec = later("fsspec")

_FETCHES = 5  # tries to read a run that another goes on with meanwhile
_OFFSET = 16  # digits


class Objects:
    """Where a run is, in an object store: a URL that fsspec knows. Raises `OptionError` of one that it does
    not know."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        try:
            self.fs, root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as problem:
            raise OptionError(
                f"{shown(url)} cannot be reached: {str(problem).splitlines()[0]}. URLs need fsspec, and what "
                f"it needs for theirs: pip install 'gibbsite[objects]' has S3's"
            ) from problem
        self.root = root.rstrip("/")
        self.seen: Mapping[str, Any] = {}  # the objects that `fetched` found

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "Objects":
        return Objects(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rpartition("/")[2]

    def at(self, name: str) -> str:
        """An object, as the file system calls it."""
        return f"{self.root}/{name}"

    def has(self, name: str) -> bool:
        """Whether there is an object of that name."""
        return name in self.names()

    def names(self) -> dict[str, Any]:
        """All objects of the run as they are now, by their names below the URL, and what tells a version of
        each from another."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.find(self.root, detail=True)
        except FileNotFoundError:
            return {}
        start = len(self.root) + 1
        return {p[start:]: _version(info) for p, info in found.items() if p.startswith(self.root + "/")}

    def parts(self) -> "list[Objects]":
        """Where hosts keep their parts, in their order."""
        heads = {name.partition("/")[0] for name in self.names() if "/" in name}
        numbers = sorted(int(h[4:]) for h in heads if h.startswith("host") and h[4:].isdecimal())
        return [self / f"host{n}" for n in numbers]

    def fetched(self) -> Path:
        """A folder of this machine with the run in it, which goes with this object. Raises `CheckpointError`
        where there is no run, or one that changes faster than it can be read."""
        with _reaching(self, CheckpointError):
            for _ in range(_FETCHES):
                names = self.names()
                if checkpoint.FILE not in names:
                    raise CheckpointError(f"{self.url!r} holds no saved run")
                folder = _scratch(self)
                folders = (f"{DRAWS}/", f"{RESULTS}/", "journal-")
                wanted = [n for n in names if n in (checkpoint.FILE, REMARKS) or n.startswith(folders)]
                if any(".." in n.split("/") or os.path.isabs(n) for n in wanted):
                    raise CheckpointError(f"{self.url!r} holds objects that are no files of a run")
                for parent in {(folder / n).parent for n in wanted}:
                    parent.mkdir(parents=True, exist_ok=True)
                try:
                    self.fs.get([self.at(n) for n in wanted], [str(folder / n) for n in wanted])
                except FileNotFoundError:  # gone meanwhile
                    continue
                if self.names() == names:
                    with self.told(folder):
                        _put_together(folder, checkpoint.read(folder)[0].get("commit"))
                    self.seen = names
                    return folder
            raise CheckpointError(f"the run in {self.url!r} changes faster than it can be read; try again")

    def send_beside(self, folder: Path) -> None:
        """Send what lies beside the draws in `folder`: results, the list of them last, and notes. Raises
        `StoreError`."""
        files = [p for p in ((folder / RESULTS).glob("*"), [folder / REMARKS]) for p in p if p.is_file()]
        with _reaching(self, StoreError):
            for file in sorted(files, key=lambda p: p.name == INDEX):
                self.fs.pipe_file(self.at(file.relative_to(folder).as_posix()), file.read_bytes())
            gone = [n for n in self.names() if n.startswith(f"{RESULTS}/") and not (folder / n).exists()]
            if gone:
                self.fs.rm([self.at(n) for n in gone])

    @contextmanager
    def told(self, folder: Path) -> Iterator[None]:
        """Errors tell the URL, and not the folder that its objects were fetched to."""
        try:
            yield
        except GibbsiteError as error:
            raise type(error)(str(error).replace(str(folder), self.url)) from error


def located(name: str, value: Any) -> Objects | None:
    """A place in an object store; None for what is no URL, or one of this machine's files (see `local`)."""
    if not isinstance(value, str) or "://" not in value or value.startswith(("file://", "local://")):
        return None
    if not value.partition("://")[2].strip("/"):
        raise OptionError(f"{name}: {shown(value)} names no place to keep a run in")
    return Objects(value)


def local(value: Any) -> Any:
    """`file:///a/b` as a path; anything else as it is."""
    if isinstance(value, str) and value.startswith(("file://", "local://")):
        return value.partition("://")[2]
    return value


class ObjectStore(Store):
    """The store of a run whose folder is sent on to `objects` at every commit."""

    def __init__(self, path: Path, plan: Plan, objects: Objects):
        super().__init__(path, plan, durable=False)  # what counts is what was sent
        self._objects, self._token = objects, uuid.uuid4().hex
        self._sent: dict[str, tuple[int, int]] = {}  # files that are there, by size and time
        self._known: Mapping[str, Any] | None = None  # the objects as we left them
        self._offset = 0  # bytes of the journal that are there
        self._signed = False

    @classmethod
    def begun(cls, objects: Objects, plan: Plan, lock: bool = True, anew: bool = False) -> "ObjectStore":
        """As `Store.create`."""
        with _reaching(objects, StoreError):
            there = set(objects.names()) - {LOCK_FILE}
        if there and not (anew and checkpoint.FILE not in there):
            way = "go on with it by resume='auto', or " if checkpoint.FILE in there else ""
            raise StoreError(f"store {objects.url!r} exists and is not empty; {way}choose another place")
        store = cls(_scratch(objects), plan, objects)
        if lock:
            store.claim()
        store._describe()
        return store

    @classmethod
    def fetched(cls, folder: Path, plan: Plan, objects: Objects) -> "ObjectStore":
        """Of a run that was fetched to `folder`."""
        store = cls(folder, plan, objects)
        store._known, store._sent = _unsigned(objects.seen), dict(store._files())
        return store

    @property
    def place(self) -> str:
        return self._objects.url

    def claim(self) -> None:
        """As `Store.claim`; whoever signed before, and is not known to be gone, finds this at its next
        commit, and ends."""
        if self._signed:
            return
        with _reaching(self._objects, StoreError):
            names = self._objects.names()
            if self._known is not None and _unsigned(names) != self._known:
                raise CheckpointError(
                    f"the run in {self.place!r} has gone on elsewhere since this one was read; load it again"
                )
            if LOCK_FILE in names:
                before = _signature(self._objects)
                if before is not None and before.host == socket.gethostname() and not before.gone:
                    raise StoreError(
                        f"store {self.place!r} is being written to by {before}; stop that run first, or "
                        f"sample to another place"
                    )
            super().claim()
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            told = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "token": self._token}
            self._objects.fs.pipe_file(self._objects.at(LOCK_FILE), json.dumps(told).encode())
            self._signed = True

    def release(self) -> None:
        super().release()
        if self._signed:
            self._signed = False
            with _reaching(self._objects, StoreError):
                if self._ours():
                    self._objects.fs.rm_file(self._objects.at(LOCK_FILE))
                    self._known = _unsigned(self._objects.names())

    def withdraw(self) -> None:
        self.release()

    def commit(
        self,
        draws: Draws | Cut,
        facts: Mapping[str, Any],
        state: dict[str, np.ndarray],
        wanted: Callable[[], bool] = lambda: True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._look()
        super().commit(draws, facts, state, wanted, meanwhile)
        self._send(self._checkpoint)

    def append(self, draws: Draws | Cut, facts: Mapping[str, Any], state: dict[str, np.ndarray]) -> None:
        self._look()
        super().append(draws, facts, state)
        self._send(self._appended)

    def send_beside(self) -> None:
        with _reaching(self._objects, StoreError):
            same = self._known is not None and _unsigned(self._objects.names()) == self._known
            self._objects.send_beside(self.path)
            if same:
                self._known = _unsigned(self._objects.names())

    def _ours(self) -> bool:
        try:
            return json.loads(self._objects.fs.cat_file(self._objects.at(LOCK_FILE)))["token"] == self._token
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False

    def _look(self) -> None:
        """Raise `StoreError` where another has signed since."""
        if not self._signed:  # saved at once, to a place that was empty
            return
        with _reaching(self._objects, StoreError):
            if not self._ours():
                raise StoreError(
                    f"store {self.place!r} is another process's now, which took it over; the draws so far "
                    f"are in memory: save the run elsewhere"
                )

    def _send(self, some: Callable[[], Any]) -> None:
        try:
            with _reaching(self._objects, StoreError):
                some()
        except StoreError:
            self._close_journal(remove=False)  # the next commit is a whole one
            raise

    def _checkpoint(self) -> None:
        """Send the draws that changed, what the journal has beyond them, then the checkpoint; what was of an
        earlier one goes."""
        fs, at = self._objects.fs, self._objects.at
        changed = {name: mark for name, mark in self._files() if self._sent.get(name) != mark}
        if changed:
            fs.put([str(self.path / n) for n in changed], [at(n) for n in changed])
        self._sent.update(changed)
        self._offset = 0
        goes_on = [self._appended()] if self.journal_bytes else []
        fs.pipe_file(at(checkpoint.FILE), (self.path / checkpoint.FILE).read_bytes())
        if gone := [name for name in self._sent if not (self.path / name).exists()]:
            fs.rm([at(name) for name in gone])
            self._sent = {name: mark for name, mark in self._sent.items() if name not in gone}
        old = [at(n) for n in self._objects.names() if n.startswith("journal-") and n not in goes_on]
        if old:
            fs.rm(old)

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """The files of draws, and what tells that one has changed."""
        for file in (self.path / DRAWS).rglob("*"):
            if file.is_file():
                found = file.stat()
                yield file.relative_to(self.path).as_posix(), (found.st_size, found.st_mtime_ns)

    def _appended(self) -> str:
        """Send what was added to the journal; returns the object's name."""
        assert self._journal is not None
        with self._journal.path.open("rb") as file:
            name = journal.goes_on_from(file.read(journal.HEAD))
            file.seek(self._offset)
            new = file.read()
        sent = f"journal-{name}-{self._offset:0{_OFFSET}d}"
        self._objects.fs.pipe_file(self._objects.at(sent), new)
        self._offset += len(new)
        return sent


def store_in(
    where: Path | Objects, plan: Plan, lock: bool = True, durable: bool = True, anew: bool = False
) -> Store:
    """As `Store.create`, in a folder or in an object store."""
    if isinstance(where, Objects):
        return ObjectStore.begun(where, plan, lock, anew)
    return Store.create(where, plan, lock, durable, anew)


def holds_run(where: Path | Objects) -> bool:
    """Whether a run has begun there."""
    if isinstance(where, Objects):
        return where.has(checkpoint.FILE)
    return (where / checkpoint.FILE).is_file()


def _unsigned(names: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in names.items() if n != LOCK_FILE}


def _version(info: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(info.get(k)) for k in ("size", "ETag", "etag", "md5Hash", "created", "LastModified"))


def _scratch(objects: Objects) -> Path:
    """A folder for what is sent or fetched, which goes with the place that it stands for."""
    top = tempfile.mkdtemp(prefix="gibbsite-")
    weakref.finalize(objects, shutil.rmtree, top, ignore_errors=True)
    folder = Path(top) / "run"
    folder.mkdir()
    return folder


def _put_together(folder: Path, commit: str | None) -> None:
    """One journal of its parts, those that go on from the checkpoint; what is behind a gap never was."""
    content = b""
    for part in sorted(folder.glob(f"journal-{commit}-*")):
        if part.name.rpartition("-")[2] != f"{len(content):0{_OFFSET}d}":
            break
        content += part.read_bytes()
    for part in folder.glob("journal-*"):
        part.unlink()
    if content:
        (folder / journal.FILE).write_bytes(content)


def _signature(objects: Objects) -> Writer | None:
    try:
        told = json.loads(objects.fs.cat_file(objects.at(LOCK_FILE)))
        return Writer(int(told["pid"]), str(told["host"]), str(told["since"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _reaching(objects: Objects, kind: type[GibbsiteError]) -> Iterator[None]:
    """What a file system raises, which may be anything, as an error of ours."""
    try:
        yield
    except GibbsiteError:
        raise
    except Exception as problem:
        raise kind(
            f"{objects.url!r} cannot be reached: {type(problem).__name__}: "
            f"{(str(problem).splitlines() or [''])[0][:200]}"
        ) from problem
