"""The draws of several hosts put together."""

from pathlib import Path
from typing import Any

from gibbsite.errors import CheckpointError
from gibbsite.ground import sensible
from gibbsite.ground.later import later
from gibbsite.sampling.hosts import parts
from gibbsite.sampling.load import load

xr = later("xarray")


def joined(path: str | Path) -> Any:
    """The draws of all hosts that stored their chains in the folder `path`, as one `xarray.DataTree`.

    Chains keep their numbers. Hosts that were stopped at different moments are cut to the draws that all of
    them have. Raises `CheckpointError` where `path` holds no such runs, or not those of all hosts.
    """
    runs = [load(p) for p in parts(sensible.a_path("path", path))]
    if not runs:
        raise CheckpointError(f"{str(path)!r} holds no runs of several hosts; gibbsite.load reads one run")
    chains = sum(run.settings.chains for run in runs)
    if chains != runs[0].settings.all_chains:
        wanted = runs[0].settings.all_chains
        raise CheckpointError(f"{str(path)!r} holds {chains} of {wanted} chains: a host's folder is missing")
    trees = [run.to_datatree() for run in runs]
    groups: dict[str, Any] = {}
    for name, first in trees[0].children.items():
        sets = [tree[name].to_dataset() for tree in trees]
        groups[name] = xr.concat(sets, dim="chain", join="inner") if "chain" in first.dims else sets[0]
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(trees[0].attrs)
    return tree
