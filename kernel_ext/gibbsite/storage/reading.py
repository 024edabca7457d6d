"""A store → draws and description, or an error that names the file that is not as it was written."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError
from gibbsite.storage import arrays as stored
from gibbsite.storage import journal
from gibbsite.storage.draws import Draws
from gibbsite.storage.store import DRAWS, GROUPS


def read_draws(path: Path, held: Mapping[str, Any], draws: Draws) -> None:
    """Fill `draws` with what the checkpoint of a store counts.

    Raises `CheckpointError`, which names the file, where one is missing or not as it was written.
    """
    for group, part in GROUPS.items():
        values = {name: _read(path, group, held[group], name) for name in held[group]["names"]}
        _fill(getattr(draws, part), values, held[group]["steps"])


def add_later(
    path: Path, later: Sequence[journal.Record], draws: Draws, described: Mapping[str, Any]
) -> None:
    """Add to `draws`, which hold what the checkpoint counts, what the journal has of later commits.

    Raises `CheckpointError` where that does not fit: other sites than are described, or other shapes.
    """
    known = {s["name"]: s["shape"] for s in described["sites"]}
    for group, names in described["groups"].items():
        known[group] = [len(names), *known.get(names[0], [])]
    for record in later:
        if set(record.counts) != set(GROUPS) or not set(record.rows) <= set(GROUPS):
            raise _not_of_this_run(path, "groups")
        for group, n in record.counts.items():
            part, rows = getattr(draws, GROUPS[group]), record.rows.get(group, {})
            fits = n >= 0 and all(v.ndim > 1 and v.shape[1] == n for v in rows.values())
            fits = fits and all(v.dtype.name in stored.PLAIN for v in rows.values())
            if fits and not group.endswith("sample_stats"):
                fits = all(list(v.shape[2:]) == known.get(name) for name, v in rows.items())
            if fits and part.steps and n:
                old = {k: (v.dtype, v.shape[0], v.shape[2:]) for k, v in part.read().items()}
                fits = old == {k: (v.dtype, v.shape[0], v.shape[2:]) for k, v in rows.items()}
            if not fits:
                raise _not_of_this_run(path, repr(group))
            _fill(part, rows, n)


def _not_of_this_run(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"the saved run in {str(path)!r} is damaged: {journal.FILE}: what it has of {what} is not of this run"
    )


def read_whole(path: Path, held: Mapping[str, Any], draws: Draws) -> list[str]:
    """Fill `draws` with what is whole: of every group the draws before the first that is damaged in any of
    its sites, without sites of which nothing is left. Returns what is wrong, one line a file."""
    wrong: list[str] = []
    found: dict[str, dict[str, np.ndarray]] = {}
    for group in GROUPS:
        found[group] = {}
        for name in held[group]["names"]:
            try:
                found[group][name] = _read(path, group, held[group], name)
            except CheckpointError as problem:
                wrong.append(str(problem).partition(" What is whole of it")[0])
                left = _leading(path, group, held[group], name)
                if left is not None and left.shape[1]:
                    found[group][name] = left
    for pair in (("posterior", "sample_stats"), ("warmup_posterior", "warmup_sample_stats")):
        lengths = [v.shape[1] for g in pair for v in found[g].values()]
        for group in pair:
            steps = min([*lengths, held[group]["steps"]])
            _fill(getattr(draws, GROUPS[group]), {n: v[:, :steps] for n, v in found[group].items()}, steps)
    return wrong


def damages(path: Path, facts: Mapping[str, Any]) -> Iterator[str]:
    """Every file of a store that is missing or not as it was written, one line each."""
    for group in GROUPS:
        for name in facts["draws"][group]["names"]:
            try:
                _read(path, group, facts["draws"][group], name)
            except CheckpointError as problem:
                yield str(problem)
    try:
        read_description(path, facts)
    except CheckpointError as problem:
        yield str(problem)


def read_description(path: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the store says of the model and the schedule; its observed values under "observed"."""
    told = stored.attributes(path / DRAWS, facts["about"])
    try:
        found = dict(told["gibbsite"]) | dict(facts.get("described", {}))
        names = list(found["observed"])
        if sorted(names) != sorted(facts["observed"]):
            raise CheckpointError(f"the store {str(path)!r} is damaged: observed sites differ")
    except (KeyError, TypeError, ValueError) as problem:
        raise CheckpointError(f"the saved run in {str(path)!r} is damaged: {problem}") from problem
    found["observed"] = {n: _read_observed(path / DRAWS, *facts["observed"][n]) for n in names}
    return found


def _read_observed(root: Path, label: str, remembered: str, content: int) -> np.ndarray:
    values = stored.read(root, label, remembered)
    if stored.content_sum(values) != content:
        raise stored.damaged(root, label, "it is not what was written")
    return values


def _read(path: Path, group: str, held: Mapping[str, Any], name: str, steps: int | None = None) -> np.ndarray:
    """The first `steps` draws of a site, or all of them; `steps` ends a chunk, or the draws."""
    steps, label = held["steps"] if steps is None else steps, f"{group}/{held['names'][name]}"
    values = stored.read(path / DRAWS, label, held["sums"][name], steps)
    rows, remembered = held["blocks"][name]
    found = stored.block_sums(values, rows)
    for number in range(len(found) // 8):
        block = slice(8 * number, 8 * number + 8)
        if found[block] != remembered[block]:
            raise stored.damaged(
                path / DRAWS,
                stored.chunk_of(label, values.shape, number),
                "it is whole, but older than its checkpoint, or of another place",
            )
    return values


def _leading(path: Path, group: str, held: Mapping[str, Any], name: str) -> np.ndarray | None:
    """The draws of a site before the first damaged chunk; None where not even its metadata can be trusted."""
    rows = held["blocks"][name][0]
    best = None
    low, high = 0, -(-held["steps"] // rows)
    while low <= high:  # chunks before the first damaged one are readable: find how many by halving
        middle = (low + high) // 2
        try:
            best = _read(path, group, held, name, min(middle * rows, held["steps"]))
            low = middle + 1
        except CheckpointError:
            high = middle - 1
    return best


def _fill(part: Any, values: Mapping[str, np.ndarray], steps: int) -> None:
    if steps:
        part.append({n: np.moveaxis(v, 1, 0) for n, v in values.items()}, steps)


def warn_of(path: Path, wrong: list[str], steps: int) -> None:
    """Say what a partly loaded run lacks."""
    if wrong:
        warnings.warn(
            f"the store {str(path)!r} is damaged; its first {steps} draws are whole. " + "; ".join(wrong),
            stacklevel=3,
        )
