"""Draws on disk while a run goes on: a Zarr hierarchy that xarray reads, and a checkpoint beside it.

`PATH/draws.zarr` has groups `posterior`, `sample_stats`, `warmup_sample_stats` (and `warmup_posterior`, if
kept) of arrays `[chain, draw, …]`; `PATH/checkpoint.npz` holds the state after so many steps. Draws are
written first, then the checkpoint is replaced: what counts is what the checkpoint counts, so a crash at any
moment loses at most the draws since the last commit, and the state always fits the draws. At a commit the
disk is waited for in that order (`fsync`), so that a power cut is no worse than a crash. Between checkpoints
commits go to `PATH/journal`, one write and one wait each: see `journal`. Chunks carry checksums, and the
checkpoint remembers what the metadata said: see `arrays`. One run at a time writes: see `lock`."""

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.density import Site
from gibbsite.errors import CheckpointError, StoreError
from gibbsite.ground.lazy_import import later
from gibbsite.ground.lock import FILE as LOCK_FILE
from gibbsite.ground.lock import Lock
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage import arrays as stored
from gibbsite.storage import checkpoint, journal
from gibbsite.storage.draws import Cut, Draws, Part
from gibbsite.storage.names import dims_of, file_name, stat_names

zarr = later("zarr")

DRAWS = "draws.zarr"
# A chunk is a file, and the last one of an array is written anew with every checkpoint: as few files as can
# be, and none of them large.
_CHUNK_BYTES, _CHUNK_ROWS = 2**20, 2**14
GROUPS = {
    "posterior": "sampled",
    "sample_stats": "sampled_stats",
    "warmup_posterior": "warm",
    "warmup_sample_stats": "warm_stats",
}


class GivenUp(Exception):
    """A checkpoint was wanted no longer before it was written; the store is as it was before it."""


class Store:
    """A run's folder, written to by the sampling thread. `durable` False leaves it to the operating system
    when the disk is written, which saves some milliseconds a commit."""

    def __init__(self, path: Path, plan: Plan, durable: bool = True):
        self.path, self._plan, self._durable = path, plan, durable
        self._arrays: dict[str, dict[str, Any]] = {name: {} for name in GROUPS}
        self._labels: dict[str, dict[str, str]] = {name: {} for name in GROUPS}
        self._sums: dict[str, dict[str, str]] = {name: {} for name in GROUPS}
        self._blocks: dict[str, dict[str, list[Any]]] = {name: {} for name in GROUPS}
        self._written = dict.fromkeys(GROUPS, 0)
        self._described: dict[str, Any] = {}
        self._on_disk: Mapping[str, Any] | None = None
        self._commit: str | None = None  # names the last commit that this object knows of
        self._mark: Any = None  # the checkpoint's file as we left it
        self._journal: journal.Journal | None = None  # what goes on from that checkpoint
        self._journalled = dict.fromkeys(GROUPS, 0)  # steps that it counts
        self._making, self._newest = False, None  # a checkpoint, and the last that was appended meanwhile
        # what the commit under way has new arrays for, and where their predecessors are
        self._replaced: dict[tuple[str, str], str | None] = {}
        self._lock = Lock(path)
        self._made: list[Path] = []  # what has to go if the run cannot begin
        self.committed: float | None = None  # when, by the monotonic clock
        self.shrinks_to = 1.0  # bytes on disk for a byte of draws, by the last chunks written

    @classmethod
    def create(
        cls, path: str | Path, plan: Plan, lock: bool = True, durable: bool = True, anew: bool = False
    ) -> "Store":
        """A new, empty store, claimed by us unless `lock` is False; `anew` also where one was made that
        nothing was committed to. Raises `StoreError` where the path is taken or cannot be written to; then
        nothing is left behind that was not there."""
        folder = Path(path).expanduser()
        store = cls(folder, plan, durable)
        try:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                if (folder / LOCK_FILE).is_file() and not (folder / LOCK_FILE).is_symlink():
                    store._lock.take()  # says who is writing there, if somebody is
                if not (anew and untouched(folder)):
                    known = folder.is_dir() and (folder / checkpoint.FILE).exists()
                    way = "go on with it by resume='auto', or " if known else ""
                    raise StoreError(f"store {str(path)!r} exists and is not empty; {way}choose another path")
            store._made = [p for p in (folder, *folder.parents) if not p.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            store._made = store._made or [folder / DRAWS, folder / LOCK_FILE, folder / checkpoint.FILE]
            if lock:
                store.claim()
            store._describe()
        except StoreError:
            store.withdraw()
            raise
        except (OSError, ValueError) as problem:
            store.withdraw()
            raise StoreError(f"store {str(path)!r} cannot be written to: {problem}") from problem
        return store

    def _describe(self) -> None:
        """Write what there is to tell of the model, and its data."""
        root = self.path / DRAWS
        group = zarr.open_group(root, mode="w", zarr_format=3)
        group.attrs["gibbsite"] = described(self._plan)
        sums = {}
        for name, v in self._plan.observed.items():
            v, label = np.asarray(v), f"observed_data/{file_name(name)}"
            array = stored.create(root, label, v.shape, v.shape, v.dtype, dims_of(self._plan, name, v.shape))
            array[...] = v
            sums[name] = [label, stored.fingerprint(root, label), stored.content_sum(v)]
        self._described = {"about": stored.fingerprint(root, ""), "observed": sums}

    def withdraw(self) -> None:
        """Take back a store that nothing was committed to: what was there before stays as it was."""
        self._lock.release()
        for path in self._made:
            if not os.path.lexists(path):
                continue
            if path.is_dir() and not path.is_symlink():
                if path in (self.path, self.path / DRAWS):
                    shutil.rmtree(path, ignore_errors=True)
                elif not any(path.iterdir()):
                    path.rmdir()
            else:
                path.unlink(missing_ok=True)
        self._made = []

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return str(self.path)

    def claim(self) -> None:
        """Become the one that writes; does nothing if we are. Raises `StoreError` while another run does, in
        this process or another, and `CheckpointError` where another has gone on from what we know."""
        if self._lock.held:
            return
        self._lock.take()
        if self._commit is not None and self._latest() != self._commit:
            self._lock.release()
            raise CheckpointError(
                f"the run in {self.place!r} has gone on elsewhere since this one was read; load it again"
            )

    def release(self) -> None:
        """Let others write; whoever does begins with a checkpoint."""
        self._close_journal(remove=False)
        self._lock.release()

    def send_beside(self) -> None:
        """Bring what was written beside the draws to where the run is kept. In a folder it is there."""

    def _latest(self) -> str | None:
        commit = checkpoint.read(self.path)[0].get("commit")
        later = journal.read(self.path, commit)
        return later[-1].facts["commit"] if later else commit

    def becomes(self, plan: Plan) -> None:
        """Go on with draws of a plan in which sites are larger, or more. The next commit is a whole one, in
        which what is larger gets an array of its own: what the last checkpoint counts stays as it was."""
        self._plan = plan
        self._close_journal(remove=False)

    @property
    def goes_on(self) -> bool:
        """Whether there is a checkpoint of ours that `append` can go on from."""
        return self._journal is not None

    @property
    def journal_bytes(self) -> int:
        """Bytes of what was committed since the last checkpoint."""
        return 0 if self._journal is None else self._journal.size

    def append(self, draws: Draws | Cut, facts: Mapping[str, Any], state: dict[str, np.ndarray]) -> None:
        """Commit what is new since the last commit, by one write to the journal and one wait for the disk.

        Raises `StoreError` as `commit` does; after that it takes a `commit` to go on.
        """
        assert self._journal is not None
        rows = {g: getattr(draws, part).read(self._journalled[g]) for g, part in GROUPS.items()}
        counts = {g: getattr(draws, part).steps - self._journalled[g] for g, part in GROUPS.items()}
        try:
            self._still_ours()
            self._commit = self._journal.append(facts, state, rows, counts)
        except (OSError, ValueError) as problem:
            self._close_journal(remove=False)
            raise self._cannot(problem) from problem
        self._journalled = {g: n + counts[g] for g, n in self._journalled.items()}
        self._newest: Any = (draws, facts, state) if self._making else None
        self.committed = time.monotonic()

    def _close_journal(self, remove: bool) -> None:
        if self._journal is not None:
            self._journal.close(remove)
            self._journal = None

    def commit(
        self,
        draws: Draws | Cut,
        facts: Mapping[str, Any],
        state: dict[str, np.ndarray],
        wanted: Callable[[], bool] = lambda: True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Bring the whole folder up to date: when this returns, all that the checkpoint counts is there.

        `meanwhile` is called again and again, and may `append` what is newer than `draws`. Where it is
        `wanted` no longer while arrays are written or the disk is waited for, `GivenUp` is
        raised: what counts is the last checkpoint, with its journal, as after a crash, and `append` goes on.
        Raises `StoreError` where it fails, or where the folder was emptied, replaced or cleaned up since the
        last commit, or meanwhile; the run in memory is whole.
        """
        before, self._replaced = dict(self._written), {}
        thread, going_on = threading.get_ident(), None
        self._making = True

        def look() -> None:
            if not wanted():
                raise GivenUp
            if threading.get_ident() == thread:
                meanwhile()

        try:
            if self._on_disk is not None:
                self._reopen(self._on_disk)
                self._on_disk, before = None, dict(self._written)
            if self._mark is not None:
                self._still_ours()
            written: dict[str, tuple[Any, int, int]] = {}
            for group, part in GROUPS.items():
                self._extend(group, getattr(draws, part), written, look)
            if self._durable:
                stored.sync(self.path / DRAWS, written, look)
            look()
            held = {
                g: {
                    "steps": self._written[g],
                    "names": self._labels[g],
                    "sums": self._sums[g],
                    "blocks": self._blocks[g],
                }
                for g in GROUPS
            }
            named = {"format": checkpoint.FORMAT, "draws": held, "commit": uuid.uuid4().hex}
            told = {**facts, **self._described, **named}
            going_on, newest = self._handed_over(named["commit"])
            self._mark = checkpoint.write(self.path, told, state, self._durable)
            self._commit, self._made = newest, []
            if self._durable:
                checkpoint.sync_name(self.path)
            for (group, _), label in self._replaced.items():
                if label is not None:
                    shutil.rmtree(self.path / DRAWS / group / label, ignore_errors=True)
            self._replaced = {}
            self._close_journal(remove=True)
            for name in journal.FILES:  # also of a run that was killed
                if name != going_on.name or not going_on.size:
                    (self.path / name).unlink(missing_ok=True)
            self._still_ours()
            self._still_there()
            self._journal, going_on = going_on, None
            if self._newest is None:
                self._journalled = dict(self._written)
            self.committed = time.monotonic()
            self.shrinks_to = stored.shrinkage(self.path / DRAWS, written) or self.shrinks_to
        except GivenUp:
            self._uncounted(before)
            raise
        except (OSError, CheckpointError, KeyError, ValueError, RuntimeError) as problem:
            self._uncounted(before)
            self._close_journal(remove=False)
            if isinstance(problem, StoreError):  # of what was appended meanwhile
                raise
            raise self._cannot(problem) from problem
        finally:
            self._making, self._newest = False, None
            if going_on is not None:
                going_on.close(remove=False)

    def _handed_over(self, commit: str) -> tuple[journal.Journal, str]:
        """The journal of the checkpoint called `commit`, which is about to be written, with the draws that
        were appended to the one before while it was made, and what the last commit is called then."""
        used = None if self._journal is None else self._journal.name
        found = journal.Journal(self.path, commit, self._durable, next(n for n in journal.FILES if n != used))
        if self._newest is not None:
            draws, facts, state = self._newest
            rows = {g: getattr(draws, part).read(self._written[g]) for g, part in GROUPS.items()}
            counts = {g: getattr(draws, part).steps - self._written[g] for g, part in GROUPS.items()}
            commit = found.append(facts, state, rows, counts)
        return found, commit

    def _uncounted(self, before: dict[str, int]) -> None:
        """Know of what a commit wrote that did not come to its end that it is to be written again."""
        self._written = before
        for (group, name), label in self._replaced.items():
            self._arrays[group].pop(name, None)
            self._labels[group].pop(name, None)
            if label is not None:
                self._labels[group][name] = label

    def _cannot(self, problem: Exception) -> StoreError:
        return StoreError(
            f"store {self.place!r} cannot be written to: {problem}. The draws so far are in memory: "
            f"make room and resume, or save the run elsewhere"
        )

    def _still_ours(self) -> None:
        """Raise `OSError` where the checkpoint is not the one that we wrote: to go on would be to write into
        what is somebody's now; and where what was written once, when the store was made, is gone."""
        if checkpoint.mark(self.path) != self._mark:
            raise OSError(f"{checkpoint.FILE} was removed or replaced meanwhile")
        for label in ("", *(observed[0] for observed in self._described["observed"].values())):
            if gone := stored.missing(self.path / DRAWS, label, None):
                raise OSError(f"{DRAWS}/{gone.lstrip('/')} was removed meanwhile")

    def _still_there(self) -> None:
        """Raise `OSError` where a file of what was written is gone."""
        for group, labels in self._labels.items():
            for name, label in labels.items():
                gone = stored.missing(self.path / DRAWS, f"{group}/{label}", self._arrays[group].get(name))
                if gone:
                    raise OSError(f"{DRAWS}/{gone} was removed meanwhile")

    def _extend(
        self, group: str, part: Part, written: dict[str, tuple[Any, int, int]], between: Callable[[], None]
    ) -> None:
        done, start = part.steps, self._written[group]
        arrays = part.read(0)
        if done == start and all(self._fits(group, name, v) for name, v in arrays.items()):
            return
        stats = group.endswith("sample_stats")
        labels = stat_names(self._plan, list(arrays)) if stats else {n: n for n in arrays}
        for name, v in arrays.items():
            between()
            begin = start if self._fits(group, name, v) else 0
            if name not in self._arrays[group] or (start and not begin):
                self._new_array(group, name, labels[name], v)
            array = self._arrays[group][name]
            array.resize((v.shape[0], done, *v.shape[2:]))
            rows = stored.rows_of(array)
            whole = begin // rows * rows  # a chunk is written from its beginning, not added to what is there
            array[:, whole:done] = v[:, whole:done]
            known = self._blocks[group].get(name, [rows, ""])[1][: begin // rows * 8]
            self._blocks[group][name] = [rows, known + stored.block_sums(v[:, :done], rows, begin // rows)]
            written[f"{group}/{self._labels[group][name]}"] = (array, begin, done)
        self._written[group] = done

    def _dims(self, name: str, like: np.ndarray) -> list[str]:
        return ["chain", "draw", *dims_of(self._plan, name, like.shape[2:])]

    def _fits(self, group: str, name: str, like: np.ndarray) -> bool:
        """Whether there is an array for a site, of its shape and with its axes."""
        array = self._arrays[group].get(name)
        if array is None or array.shape[2:] != like.shape[2:]:
            return False
        return list(array.metadata.dimension_names) == self._dims(name, like)

    def _new_array(self, group: str, name: str, title: str, like: np.ndarray) -> None:
        label, old = file_name(title), self._labels[group].get(name)
        if label == old:
            label += "~"
        self._replaced[group, name] = old
        dims = self._dims(name, like)
        row = max(1, like[:, :1].nbytes)
        chunks = (like.shape[0], int(np.clip(_CHUNK_BYTES // row, 1, _CHUNK_ROWS)), *like.shape[2:])
        root, place = self.path / DRAWS, f"{group}/{label}"
        shape = (like.shape[0], 0, *like.shape[2:])
        self._arrays[group][name] = stored.create(root, place, shape, chunks, like.dtype, dims)
        self._labels[group][name] = label
        self._sums[group][name] = stored.fingerprint(root, place)

    def expect(self, facts: Mapping[str, Any]) -> None:
        """Go on after what the checkpoint counts, when there is something to write. `commit` of the facts is
        the last one's, of the journal where it has some."""
        self._on_disk, self._commit = facts["draws"], facts.get("commit")
        self._described = {k: facts[k] for k in ("about", "observed")}

    def _reopen(self, held: Mapping[str, Any]) -> None:
        """Take up the arrays that the checkpoint counts; what a crash left beyond them is cut off."""
        for group in GROUPS:
            self._written[group] = steps = held[group]["steps"]
            self._labels[group] = dict(held[group]["names"])
            self._sums[group] = dict(held[group]["sums"])
            self._blocks[group] = dict(held[group]["blocks"])
            for name, label in self._labels[group].items():
                array = stored.reopened(self.path / DRAWS, f"{group}/{label}", self._sums[group][name])
                array.resize((array.shape[0], steps, *array.shape[2:]))
                self._arrays[group][name] = array


def untouched(folder: Path) -> bool:
    """Whether all that is in `folder` is a store whose maker was killed before the first commit: then there
    is nothing in it to lose."""
    known = {DRAWS, LOCK_FILE, checkpoint.FILE + ".new"}
    if not folder.is_dir() or any(p.name not in known or p.is_symlink() for p in folder.iterdir()):
        return False
    root = folder / DRAWS
    return not root.exists() or (root.is_dir() and not any((root / group).exists() for group in GROUPS))


_MOST_SOURCE = 100_000  # letters of a model that a store tells


def described(plan: Plan) -> dict[str, Any]:
    """What is worth knowing of a plan without its model, as JSON."""

    def of(s: Site) -> dict[str, Any]:
        return {
            "name": s.name,
            "shape": list(s.shape),
            "dtype": str(np.dtype(s.dtype)),
            "role": s.role,
            "discrete": bool(s.discrete),
            "plates": list(s.plates),
            "plate_axes": list(s.plate_axes),
            "fn_name": s.fn_name,
        }

    blocks = [{"label": b.label, "kernel": b.kernel, "sites": list(b.sites)} for b in plan.blocks]
    return {
        "model": plan.model_name,
        "source": "" if plan.origin is None else str(plan.origin.source)[:_MOST_SOURCE],
        "schedule": plan.schedule_text,
        "fingerprint": plan.fingerprint,
        "data": checkpoint.data_hash(plan),
        "observed": list(plan.observed),
        "observed_sites": [of(s) for s in plan.observed_sites.values()],
        "sites": [of(s) for s in plan.sites.values()],
        "blocks": blocks,
        "labels": {p: list(known) for p, known in plan.labels.items()},
        "value_labels": {n: list(known) for n, known in plan.value_labels.items()},
        "groups": {g: list(names) for g, names in plan.groups.items()},
        "generated": list(plan.generated),
    }
