"""The sites that a model's schedule sums out or draws jointly, and the steps by which it does, as a page goes
through them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypedDict

from gibbsite.errors import GibbsiteError
from gibbsite.plans.schedule.registry import kernels


class Step(TypedDict):
    """The sites that are summed out, the statements whose tables they are in, and the step in words."""

    sites: list[str]
    near: list[str]
    text: str


def summed_out(model: Any) -> frozenset[str]:
    """The sites that the model's own schedule sums out; none where it has none of its own."""
    return frozenset() if model is None else frozenset(model.summed_out)


def steps_of(model: Any) -> list[Step]:
    """The steps of the eliminations that a model's own schedule makes, in their order: what it sums out, and
    what it draws jointly."""
    if model is None:
        return []
    try:
        return [step for marginal in model.eliminations for step in _steps(marginal)]
    except GibbsiteError:
        return []  # a schedule that fits no longer is told where it is used


def _steps(marginal: Any) -> Iterator[Step]:
    for sites, near, text in marginal.read:
        yield {
            "sites": list(dict.fromkeys(sites)),
            "near": [n for n in dict.fromkeys(near) if n not in sites],
            "text": text,
        }


MOST_STANDS = 8


def stands(names: Sequence[str]) -> list[str]:
    """The first of the names that a merged node stands for, and how many more there are."""
    more = len(names) - MOST_STANDS
    return [*names[:MOST_STANDS], *([f"{more} more"] if more > 0 else [])]


def told(
    graph: Any,
    model: Any = None,
    members: Mapping[str, Sequence[str]] | None = None,
    known: Collection[str] = (),
) -> dict[str, dict]:
    """Per node the entries of its panel, empty ones left out; without `model`, only what the graph knows.

    `members` names what merged nodes stand for; those `known` are left out. The keys are those that
    `js/graph/model.mjs` lists.
    """
    rows, steps = _kernel_rows(model), steps_of(model)
    return {
        name: _told(graph, name, model, rows, (members or {}).get(name, ()))
        | _stepped(steps, (name, *(members or {}).get(name, ())))
        for name in graph.nodes
        if name not in known
    }


def _stepped(steps: Sequence[Step], names: Sequence[str]) -> dict[str, Any]:
    """The step, from 1, that sums a node out, and those whose tables it is in."""
    own = [i for i, step in enumerate(steps, 1) if set(names) & set(step["sites"])]
    near = [i for i, step in enumerate(steps, 1) if set(names) & set(step["near"])]
    return ({"summed": own[0]} if own else {}) | ({"near": near} if near else {})


def fitting_kernels(model: Any, site: str) -> list[str]:
    """Kernels that can update a site and need no further options."""
    return [name for name, row in kernels().items() if not row.needs and row.fits(model, site) is None]


def _kernel_rows(model: Any) -> Mapping[str, Any]:
    if model is None:
        return {}
    try:
        schedule = model.schedule()
        rows = schedule.rows
    except GibbsiteError:
        return {}  # a model that cannot be sampled can still be looked at
    return {site: row for row in rows for site in schedule.members(row.sites)}


def _told(graph: Any, name: str, model: Any, rows: Mapping[str, Any], inside: Sequence[str]) -> dict:
    node = graph.nodes[name]
    out: dict[str, Any] = {
        "discrete": node.discrete,
        "shape": list(node.shape),
        "plates": list(node.plates),
        "statement": node.distribution if node.kind != "factor" else "",
        "elements": node.elements,
        "line": node.line[1] if node.line is not None else 0,
    }
    if inside:
        out |= {"plate": name.startswith("plate "), "stands": stands(inside)}
    row = next((rows[n] for n in (name, *inside) if n in rows), None)
    if row is not None:
        out |= {"kernel": row.kernel, "reason": row.reason, "blocked": _in_line(row.blocked)}
    if node.kind == "latent" and model is not None:
        out |= _conditional(model, name if name in model.density.sites or not inside else inside[-1], row)
        if name in rows:
            out["kernels"] = fitting_kernels(model, name)
        out["ways"] = list(model.reparam_choices(name))
    return {k: v for k, v in out.items() if v}


def _in_line(listed: str) -> str:
    """Lines with bullets as one."""
    return "; ".join(line.removeprefix("· ") for line in listed.splitlines())


def _conditional(model: Any, name: str, row: Any) -> dict[str, str]:
    try:
        conditional = model.conditional(name)
    except GibbsiteError as problem:
        return {"form": str(problem)}
    out = {"conditional": conditional.text, "typeset": conditional.html, "latex": conditional.latex}
    if row is None:
        kind = "" if conditional.kind == "none" else f"{conditional.kind}: "
        out["form"] = kind + conditional.reason
    return out
