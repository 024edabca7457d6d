"""What a store says of its model → a plan that shows draws, and runs nothing."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from gibbsite.density import Site
from gibbsite.density.model.names import printed
from gibbsite.errors import CheckpointError, StoreError
from gibbsite.plans.schedule.plan import Block, Plan
from gibbsite.storage.arrays import plain_dtype

_ROLES = ("latent", "observed", "deterministic")
_MOST_ELEMENTS = 2**48


def plan_without_model(described: Mapping[str, Any], folder: Path) -> Plan:
    """The plan that a run is shown with. Raises `CheckpointError` where the description is of no model."""
    try:
        sites = {s["name"]: _site(s) for s in described["sites"]}
        return Plan(
            kernel=cast(Any, None),
            inputs=(),
            blocks=tuple(
                Block(_text(b["label"]), _text(b["kernel"]), _texts(b["sites"])) for b in described["blocks"]
            ),
            sites=sites,
            observed=described["observed"],
            groups={g: _members(names, sites) for g, names in described["groups"].items()},
            fingerprint=_text(described["fingerprint"]),
            cache_key=None,
            model_name=_text(described["model"]),
            schedule_text=_text(described["schedule"]),
            labels=_labels(described["labels"]),
            value_labels=_labels(described.get("value_labels", {})),
            generated=_texts(described.get("generated", ())),
            observed_sites={s["name"]: _site(s) for s in described["observed_sites"]},
            source=_text(described.get("source", "")),
            data=_text(described["data"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise CheckpointError(f"the saved run in {str(folder)!r} is damaged: {problem!r}") from problem


def _site(told: Mapping[str, Any]) -> Site:
    shape, axes = tuple(map(_count, told["shape"])), tuple(told["plate_axes"])
    plates = _texts(told["plates"])
    known = told["role"] in _ROLES and len(plates) == len(axes)
    if not known or math.prod(max(1, n) for n in shape) > _MOST_ELEMENTS:
        raise ValueError(f"no site is {str(told)[:80]}")
    if any(type(a) is not int or not 0 <= a < len(shape) for a in axes):
        raise ValueError(f"{told['name']!r} has no such axes: {str(axes)[:80]}")
    return Site(
        name=_text(told["name"]),
        shape=shape,
        dtype=np.dtype(plain_dtype(told["dtype"])),
        support=None,
        role=told["role"],
        discrete=bool(told["discrete"]),
        plates=plates,
        batch_shape=(),
        event_shape=(),
        fn_name=_text(told["fn_name"]),
        line=None,
        plate_axes=axes,
    )


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} is no text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{str(values)[:40]!r} is no list")
    return tuple(map(_text, values))


def _members(names: Any, sites: Mapping[str, Site]) -> tuple[str, ...]:
    if not names or any(n not in sites for n in _texts(names)):
        raise ValueError(f"{str(names)[:60]!r} are no sites that make a group")
    return _texts(names)


def _labels(told: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(map(printed, _texts(known))) for name, known in told.items()}


RESULTS, INDEX, REMARKS = "results", "index.npz", "remarks.json"
"""What lies beside a run's draws: a folder of results and the list of them in it, and notes."""
_MOST_REMARKS = 2**20


def read_remarks(folder: Path) -> dict[str, Any]:
    """What people noted of the run in a folder; nothing where there is nothing, or nothing that was written
    here. It lies beside the run, whose files it does not touch."""
    path = folder / REMARKS
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_REMARKS:
            return {}
        told = json.loads(path.read_text(encoding="utf-8"))
        return {"note": _text(told.get("note", "")), "tags": list(_texts(told.get("tags", [])))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # notes are no part of a run: whatever stands there, the run is read


def write_remarks(folder: Path, remarks: Mapping[str, Any]) -> None:
    """Replace them, in one step. Raises `StoreError` where the folder cannot be written to."""
    new = folder / f"{REMARKS}.{os.getpid()}.new"
    try:
        new.write_text(json.dumps(remarks, ensure_ascii=False, indent=1), encoding="utf-8")
        os.replace(new, folder / REMARKS)
    except OSError as problem:
        raise StoreError(f"{str(folder)!r} cannot be written to: {problem}") from problem
