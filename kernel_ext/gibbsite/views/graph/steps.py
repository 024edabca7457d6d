"""The sites that a model's schedule sums out, and the steps by which it does, as a page goes through them."""

from typing import Any, TypedDict

from gibbsite.errors import GibbsiteError


class Step(TypedDict):
    """The sites that are summed out, the statements whose tables they are in, and the step in words."""

    sites: list[str]
    near: list[str]
    text: str


def summed_out(model: Any) -> frozenset[str]:
    """The sites that the model's own schedule sums out; none where it has none of its own."""
    return frozenset() if model is None else frozenset(model.summed_out)


def steps_of(model: Any) -> list[Step]:
    """The steps of the eliminations that a model's own schedule makes, in their order."""
    if model is None or not (names := model.summed_out):
        return []
    try:
        marginal = model.marginal(*names)
    except GibbsiteError:
        return []  # a schedule that fits no longer is told where it is used
    written = set(marginal.plan.tables.factors)  # and not what earlier steps have made of them
    out: list[Step] = []
    for step in marginal.plan.steps:
        sites = [n for unit in step.sites for n in (unit, *marginal.members(unit))]
        near = [n for f in step.used if f in written for n in f.origin.split(" ") if n]
        tables = (*step.used, *step.made)
        near += [n for f in tables for unit in f.sites for n in (unit, *marginal.members(unit))]
        out.append(
            {
                "sites": list(dict.fromkeys(sites)),
                "near": [n for n in dict.fromkeys(near) if n not in sites],
                "text": step.text,
            }
        )
    return out
