"""A model's schedule with one thing changed, as text."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from gibbsite.errors import ModelError
from gibbsite.plans.schedule.parse import Spec, Update
from gibbsite.plans.schedule.registry import kernels

TOGETHER = ("Gibbs", "NUTS", "HMC", "ESlice", "ReflectiveSlice")  # move a block as one


def with_kernel(model: Any, site: str, kernel: str) -> str:
    """With `site` taken out of its block and updated by `kernel`. Raises `ModelError` where it has none."""
    schedule = model.execution.schedule()
    if not any(site in schedule.members(u.everything) for u in schedule.updates):
        raise ModelError(f"{site!r} has no kernel of its own to change")
    return _taken_out(schedule, (site,), Update(kernel, (site,)))


def with_block(schedule: Any, sites: Collection[str], kernel: str, *options: tuple[str, Any]) -> str:
    """With `sites` taken out of their blocks and updated by one block of `kernel`."""
    return _taken_out(schedule, sites, Update(kernel, tuple(sites), tuple(options)))


def _taken_out(schedule: Any, sites: Collection[str], block: Update) -> str:
    updates: list[Update] = []
    for u in schedule.updates:
        members = schedule.members(u.everything)
        if not set(sites) & set(members):
            updates.append(u)
            continue
        spread = replace(u, sites=schedule.members(u.sites), eliminated=schedule.members(u.eliminated))
        updates += spread.keeping([s for s in members if s not in sites])
        updates.append(block)
    return str(Spec(tuple(dict.fromkeys(updates)), schedule.random_scan))


def with_options(schedule: Any, block: Update, **options: Any) -> str:
    """With options of one of its updates set."""
    changed = replace(block, options=tuple((dict(block.options) | options).items()))
    return str(Spec(tuple(changed if u is block else u for u in schedule.updates), schedule.random_scan))


def merged(model: Any, one: str, other: str) -> str:
    """With the blocks of two sites made one.

    The block is updated by a kernel that moves all its sites together: the one that a block of the two has
    already, or else the first that fits. Raises `ModelError` where there is none.
    """
    schedule, rows = model.execution.schedule(), kernels()
    mine, theirs = (
        next((u for u in schedule.updates if site in schedule.members(u.sites)), None)
        for site in (one, other)
    )
    for site, found in ((one, mine), (other, theirs)):
        if found is None:
            raise ModelError(f"{site!r} has no kernel: only latent sites can be merged into a block")
    assert mine is not None and theirs is not None
    if mine is theirs:
        raise ModelError(f"{one!r} and {other!r} are in one block already: {mine}")
    sites = (*schedule.members(mine.sites), *schedule.members(theirs.sites))
    wishes = dict.fromkeys((mine.kernel, theirs.kernel, *TOGETHER))
    fits = [k for k in wishes if k in TOGETHER and all(rows[k].fits(model, s) is None for s in sites)]
    if not fits:
        raise ModelError(
            f"no kernel moves {one!r} ({mine.kernel}) and {other!r} ({theirs.kernel}) together: merge "
            f"discrete sites with discrete ones and continuous sites with continuous ones"
        )
    same = next((u for u in (mine, theirs) if u.kernel == fits[0]), None)
    block = Update(fits[0], sites, same.options if same else ())
    updates = [block if u is mine or u is theirs else u for u in schedule.updates]
    return str(Spec(tuple(dict.fromkeys(updates)), schedule.random_scan))
