"""Draws on disk while a run goes on: a Zarr hierarchy that xarray reads, and a checkpoint beside it.

`PATH/draws.zarr` has groups `posterior`, `sample_stats`, `warmup_sample_stats` (and `warmup_posterior`, if
kept) of arrays `[chain, draw, …]`; `PATH/checkpoint.npz` holds the state after so many steps. Draws are
written first, then the checkpoint is replaced: what counts is what the checkpoint counts, so a crash at any
moment loses at most the draws since the last commit, and the state always fits the draws. One run at a time
writes: see `lock`.
"""

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from gibbsite.density import Site
from gibbsite.errors import CheckpointError, StoreError
from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.sampling import checkpoint
from gibbsite.sampling.storage.draws import Draws, Part
from gibbsite.sampling.storage.lock import FILE as LOCK_FILE
from gibbsite.sampling.storage.lock import Lock
from gibbsite.sampling.storage.names import dims_of, stat_names

DRAWS = "draws.zarr"
_CHUNK_BYTES = 2**20
_GROUPS = {
    "posterior": "sampled",
    "sample_stats": "sampled_stats",
    "warmup_posterior": "warm",
    "warmup_sample_stats": "warm_stats",
}


class Store:
    """A run's folder, written to by the sampling thread."""

    def __init__(self, path: Path, plan: Plan):
        self.path, self._plan = path, plan
        self._arrays: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
        self._labels: dict[str, dict[str, str]] = {name: {} for name in _GROUPS}
        self._written = dict.fromkeys(_GROUPS, 0)
        self._on_disk: Mapping[str, Any] | None = None
        self._commit: str | None = None  # names the last commit that this object knows of
        self._lock = Lock(path)

    @classmethod
    def create(cls, path: str | Path, plan: Plan, lock: bool = True) -> "Store":
        """A new, empty store, claimed by us unless `lock` is False. Raises `StoreError` where the path is
        taken or cannot be written to."""
        folder = Path(path).expanduser()
        try:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                if (folder / LOCK_FILE).exists():
                    Lock(folder).take()  # says who is writing there, if somebody is
                known = folder.is_dir() and (folder / checkpoint.FILE).exists()
                way = "gibbsite.load it and resume, or " if known else ""
                raise StoreError(f"store {str(path)!r} exists and is not empty; {way}choose another path")
            folder.mkdir(parents=True, exist_ok=True)
            store = cls(folder, plan)
            if lock:
                store.claim()
            root = zarr.open_group(folder / DRAWS, mode="w")
            root.attrs["gibbsite"] = described(plan)
            for name, v in plan.observed.items():
                v = np.asarray(v)
                root.create_array(
                    f"observed_data/{name}", data=v, dimension_names=dims_of(plan, name, v.shape)
                )
        except StoreError:
            raise
        except OSError as problem:
            raise StoreError(f"store {str(path)!r} cannot be written to: {problem}") from problem
        return store

    def claim(self) -> None:
        """Become the one that writes; does nothing if we are. Raises `StoreError` while another run does, in
        this process or another, and `CheckpointError` where another has gone on from what we know."""
        if self._lock.held:
            return
        self._lock.take()
        if self._commit is not None and checkpoint.read(self.path)[0].get("commit") != self._commit:
            self._lock.release()
            raise CheckpointError(
                f"the run in {str(self.path)!r} has gone on elsewhere since this one was read; load it again"
            )

    def release(self) -> None:
        """Let others write."""
        self._lock.release()

    def commit(self, draws: Draws, facts: Mapping[str, Any], state: dict[str, np.ndarray]) -> None:
        """Bring the folder up to date. Raises `StoreError` where that fails; the run in memory is whole."""
        try:
            if self._on_disk is not None:
                self._reopen(self._on_disk)
                self._on_disk = None
            for group, part in _GROUPS.items():
                self._extend(group, getattr(draws, part))
            held = {g: {"steps": self._written[g], "names": self._labels[g]} for g in _GROUPS}
            named = {"format": checkpoint.FORMAT, "draws": held, "commit": uuid.uuid4().hex}
            checkpoint.write(self.path, {**facts, **named}, state)
            self._commit = named["commit"]
        except OSError as problem:
            raise StoreError(
                f"store {str(self.path)!r} cannot be written to: {problem}. The draws so far are in memory: "
                f"make room and resume, or save the run elsewhere"
            ) from problem

    def _extend(self, group: str, part: Part) -> None:
        done, start = part.steps, self._written[group]
        arrays = part.read(start)
        if done == start:
            return
        stats = group.endswith("sample_stats")
        labels = stat_names(self._plan, list(arrays)) if stats else {n: n for n in arrays}
        for name, v in arrays.items():
            if name not in self._arrays[group]:
                self._arrays[group][name] = self._new_array(f"{group}/{labels[name]}", name, v)
                self._labels[group][name] = labels[name]
            array = self._arrays[group][name]
            array.resize((v.shape[0], done, *v.shape[2:]))
            array[:, start:done] = v
        self._written[group] = done

    def _new_array(self, label: str, name: str, like: np.ndarray) -> Any:
        dims = dims_of(self._plan, name, like.shape[2:])
        row = max(1, like[:, :1].nbytes)
        chunks = (like.shape[0], int(np.clip(_CHUNK_BYTES // row, 1, 1024)), *like.shape[2:])
        return zarr.open_group(self.path / DRAWS, mode="a").create_array(
            label,
            shape=(like.shape[0], 0, *like.shape[2:]),
            chunks=tuple(max(1, c) for c in chunks),
            dtype=like.dtype,
            dimension_names=["chain", "draw", *dims],
            overwrite=True,  # what a crash left is not counted by any checkpoint
        )

    def expect(self, facts: Mapping[str, Any]) -> None:
        """Go on after what the checkpoint counts, when there is something to write."""
        self._on_disk, self._commit = facts["draws"], facts.get("commit")

    def _reopen(self, held: Mapping[str, Any]) -> None:
        """Take up the arrays that the checkpoint counts; what a crash left beyond them is cut off."""
        root = zarr.open_group(self.path / DRAWS, mode="a")
        for group in _GROUPS:
            self._written[group] = steps = held[group]["steps"]
            self._labels[group] = dict(held[group]["names"])
            for name, label in self._labels[group].items():
                array: Any = root[f"{group}/{label}"]
                array.resize((array.shape[0], steps, *array.shape[2:]))
                self._arrays[group][name] = array


def read_draws(path: Path, held: Mapping[str, Any], draws: Draws) -> None:
    """Fill `draws` with what the checkpoint of a store counts. Raises `CheckpointError` where it is gone."""
    try:
        root = zarr.open_group(path / DRAWS, mode="r")
        for group, part in _GROUPS.items():
            steps = held[group]["steps"]
            names = held[group]["names"].items()
            values = {n: np.asarray(root[f"{group}/{label}"][:, :steps]) for n, label in names}  # type: ignore
            if any(v.shape[1] < steps for v in values.values()):
                raise CheckpointError(f"the store {str(path)!r} is damaged: {group} has too few draws")
            if steps:
                getattr(draws, part).append({n: np.moveaxis(v, 1, 0) for n, v in values.items()}, steps)
    except (OSError, KeyError) as problem:
        raise CheckpointError(f"the store {str(path)!r} is damaged: {problem}") from problem


def read_description(path: Path) -> dict[str, Any]:
    """What the store says of the model and the schedule; its observed values under "observed"."""
    try:
        root = zarr.open_group(path / DRAWS, mode="r")
        facts: dict[str, Any] = dict(root.attrs["gibbsite"])  # type: ignore[arg-type]
        names = facts["observed"]
        facts["observed"] = {n: np.asarray(root[f"observed_data/{n}"][...]) for n in names}  # type: ignore
    except (OSError, KeyError, ValueError) as problem:
        raise CheckpointError(f"the saved run in {str(path)!r} is damaged: {problem}") from problem
    return facts


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
        "schedule": plan.schedule_text,
        "fingerprint": plan.fingerprint,
        "data": checkpoint.data_hash(plan),
        "observed": list(plan.observed),
        "observed_sites": [of(s) for s in plan.observed_sites.values()],
        "sites": [of(s) for s in plan.sites.values()],
        "blocks": blocks,
        "groups": {g: list(names) for g, names in plan.groups.items()},
        "generated": list(plan.generated),
    }


def discard(path: Path) -> None:
    """Remove a folder that was not finished."""
    shutil.rmtree(path, ignore_errors=True)
