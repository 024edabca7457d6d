"""What one can do to a model from its graph, each also as a line of Python to keep."""

import ast
from dataclasses import dataclass
from typing import Any

from gibbsite.errors import DataError, ModelError
from gibbsite.graph import element_blanket, element_text


@dataclass(frozen=True)
class Change:
    """A model after a change, what there is to say of it, and the Python that makes it."""

    model: Any
    words: str
    code: str


def apply(model: Any, node: str | None, action: str, value: str) -> Change:
    """Do `action` ("condition", "do", "kernel", "element") at a node; a `GibbsiteError` if it cannot be.

    `value` is what was typed: a number or list, the name of a kernel, or an index such as `17` or `[2, 3]`.
    """
    if model is None:
        raise ModelError("this is a bare graph: there is no model to change")
    if node is None:
        raise ModelError("click on a node first")
    if action == "element":
        index = parsed(value)
        at = tuple(index) if isinstance(index, list | tuple) else (index,)
        blanket = element_blanket(model.density, node, at)
        return Change(model, element_text(node, at, blanket), "")
    if action == "kernel":
        text = schedule_with(model, node, value)
        return _after(model.with_schedule(text), f"model = model.with_schedule({text!r})")
    if action not in ("condition", "do"):
        raise ModelError(f"unknown action {action!r}")
    given = parsed(value)
    changed = getattr(model, action)({node: given})
    code = f"{node}={given!r}" if node.isidentifier() else f"{{{node!r}: {given!r}}}"
    return _after(changed, f"model = model.{action}({code})")


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
    from gibbsite.kernels.parse import Spec, Update

    schedule = model.schedule()
    if not any(site in schedule.members(u.sites) for u in schedule.updates):
        raise ModelError(f"{site!r} has no kernel of its own to change")
    updates: list[Update] = []
    for u in schedule.updates:
        members = schedule.members(u.sites)
        if site not in members:
            updates.append(u)
            continue
        rest = tuple(s for s in members if s != site)
        if rest:
            updates.append(Update(u.kernel, rest, u.options, u.repeat))
        updates.append(Update(kernel, (site,)))
    return str(Spec(tuple(updates), schedule.random_scan))
