"""What one can do to a model from its graph, each also as a line of Python to keep."""

import ast
import keyword
from dataclasses import dataclass, replace
from typing import Any

from gibbsite.errors import DataError, ModelError
from gibbsite.graph import element_blanket, element_text
from gibbsite.kernels.scheduling.parse import Spec, Update
from gibbsite.kernels.scheduling.registry import kernels


@dataclass(frozen=True)
class Change:
    """A model after a change, what there is to say of it, and the Python that makes it."""

    model: Any
    words: str
    code: str


def apply(model: Any, node: str | None, action: str, value: str) -> Change:
    """Do `action` at a node: "condition", "do", "kernel", "reparam", "merge" or "element".

    `value` is what was typed or chosen: a number or list, the name of a kernel, a parameterisation, the other
    node of a block, or an index such as `17` or `[2, 3]`. Raises a `GibbsiteError` where it does not fit.
    """
    if model is None:
        raise ModelError("this is a bare graph: there is no model to change")
    if node is None:
        raise ModelError("click on a node first")
    if action == "element":
        site = model.density.sites.get(node)
        index = () if site is not None and not site.shape else parsed(value)
        at = tuple(index) if isinstance(index, list | tuple) else (index,)
        blanket = element_blanket(model.density, node, at)
        return Change(model, element_text(node, at, blanket), "")
    if action == "kernel":
        text = schedule_with(model, node, value)
        return _after(model.with_schedule(text), f"model = model.with_schedule({text!r})")
    if action == "merge":
        text = schedule_merged(model, node, value)
        return _after(model.with_schedule(text), f"model = model.with_schedule({text!r})")
    if action == "reparam":
        return _after(model.reparam({node: value}), f"model = model.reparam({_named(node, value)})")
    if action not in ("condition", "do"):
        raise ModelError(f"unknown action {action!r}")
    given = parsed(value)
    changed = getattr(model, action)({node: given})
    return _after(changed, f"model = model.{action}({_named(node, given)})")


def _named(node: str, value: Any) -> str:
    """An argument of the node's name, or a dict where that is no name of Python's."""
    plain = node.isidentifier() and not keyword.iskeyword(node)
    return f"{node}={value!r}" if plain else f"{{{node!r}: {value!r}}}"


def _after(model: Any, code: str) -> Change:
    return Change(model, f"Schedule now: {model.schedule().text}", code)


def parsed(text: str) -> Any:
    """A number, or a list of numbers, as typed; raises `DataError` for anything else."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not _numeric(value):
        raise DataError(f"type a number or a list of numbers; got {text.strip() or 'nothing'!r}")
    return value


def _numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_numeric, value))
    return isinstance(value, int | float)


def schedule_with(model: Any, site: str, kernel: str) -> str:
    """The model's schedule as text, with `site` taken out of its block and updated by `kernel`."""
    schedule = model.schedule()
    if not any(site in schedule.members(u.everything) for u in schedule.updates):
        raise ModelError(f"{site!r} has no kernel of its own to change")
    updates: list[Update] = []
    for u in schedule.updates:
        members = schedule.members(u.everything)
        if site not in members:
            updates.append(u)
            continue
        spread = replace(u, sites=schedule.members(u.sites), eliminated=schedule.members(u.eliminated))
        updates += spread.keeping([s for s in members if s != site])
        updates.append(Update(kernel, (site,)))
    return str(Spec(tuple(updates), schedule.random_scan))


_TOGETHER = ("Gibbs", "NUTS", "HMC", "ESlice", "ReflectiveSlice")  # move a block as one


def schedule_merged(model: Any, one: str, other: str) -> str:
    """The model's schedule as text, with the blocks of two sites made one.

    The block is updated by a kernel that moves all its sites together: the one that a block of the two has
    already, or else the first that fits. Raises `ModelError` where there is none.
    """
    schedule, rows = model.schedule(), kernels()
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
    wishes = dict.fromkeys((mine.kernel, theirs.kernel, *_TOGETHER))
    fits = [k for k in wishes if k in _TOGETHER and all(rows[k].fits(model, s) is None for s in sites)]
    if not fits:
        raise ModelError(
            f"no kernel moves {one!r} ({mine.kernel}) and {other!r} ({theirs.kernel}) together: merge "
            f"discrete sites with discrete ones and continuous sites with continuous ones"
        )
    same = next((u for u in (mine, theirs) if u.kernel == fits[0]), None)
    block = Update(fits[0], sites, same.options if same else ())
    updates = [block if u is mine or u is theirs else u for u in schedule.updates]
    return str(Spec(tuple(dict.fromkeys(updates)), schedule.random_scan))
