"""The draws of several hosts put together."""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError, OptionError
from gibbsite.ground import arguments as sensible
from gibbsite.ground.lazy_import import later
from gibbsite.sampling.hosts import parts_in, without_folder
from gibbsite.sampling.load import load
from gibbsite.sampling.options import place_of

xr = later("xarray")


def joined(path: str | Path, drop: Collection[int] = ()) -> Any:
    """The draws of all hosts that stored their chains in the folder `path`, as one `xarray.DataTree`.

    Chains keep their numbers. Hosts that were stopped at different moments are cut to the draws that all of
    them have, with a warning that names who has how many; those in `drop`, by number, are left out, and so
    may be missing. Raises `CheckpointError` where `path` holds no such runs, not those of all hosts, or a
    host without draws, `OptionError` where `drop` names none of them or all.
    """
    found = {int(p.name[4:]): p for p in parts_in(place_of(path))}
    if not found:
        raise CheckpointError(f"{str(path)!r} holds no runs of several hosts; gibbsite.load reads one run")
    left_out = _numbers(drop)
    runs = {k: load(str(p)) for k, p in found.items() if k not in left_out}
    if not runs:
        raise OptionError(f"drop: these are all hosts that {str(path)!r} holds chains of: {sorted(found)}")
    first = next(iter(runs.values()))
    of_all = first.settings.all_chains or first.settings.chains
    each = first.settings.chains
    if unknown := sorted(left_out - set(range(of_all // each))):
        raise OptionError(f"drop: there are {of_all // each} hosts, numbered from 0, and not {unknown}")
    if each == of_all:  # one run, of which every host has a copy
        return max(runs.values(), key=lambda run: run.kept.sampled.steps).to_datatree()
    missing = [k for k in without_folder(found.values(), first.settings) if k not in left_out]
    if missing:
        raise CheckpointError(
            f"{str(path)!r} holds {each * len(runs)} of {of_all} chains: the folders of hosts {missing} are "
            f"missing: they have not begun, or stored elsewhere; "
            f"gibbsite.joined(path, drop={sorted(left_out | set(missing))}) goes without"
        )
    _tell_cut({k: run.kept.sampled.steps for k, run in runs.items()}, path, left_out)
    trees = [run.to_datatree() for run in runs.values()]
    groups: dict[str, Any] = {}
    for name, one in trees[0].children.items():
        sets = [tree[name].to_dataset() for tree in trees]
        groups[name] = xr.concat(sets, dim="chain", join="inner") if "chain" in one.dims else sets[0]
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(trees[0].attrs)
    return tree


def _numbers(drop: Any) -> set[int]:
    whole = isinstance(drop, Collection) and not isinstance(drop, str | bytes)
    if not whole or not all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in drop):
        raise OptionError(f"drop must be numbers of hosts, as in drop=[3], not {sensible.shown(drop)}")
    return {int(k) for k in drop}


def _tell_cut(steps: dict[int, int], path: Any, left_out: set[int]) -> None:
    """Say who costs the others how many draws. Raises `CheckpointError` where one has none."""
    least, most = min(steps.values()), max(steps.values())
    behind = sorted(k for k, n in steps.items() if n == least)
    way = f"gibbsite.joined(path, drop={sorted(left_out | set(behind))}) leaves them out"
    if not least:
        raise CheckpointError(f"hosts {behind} of {str(path)!r} have no draws yet; {way}")
    if least < most:
        warnings.warn(
            f"hosts {behind} of {str(path)!r} have {least} draws per chain, others up to {most}: all are cut "
            f"to {least}; {way}",
            stacklevel=3,
        )
