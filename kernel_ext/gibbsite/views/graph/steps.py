"""The sites that a model's schedule sums out or draws jointly, and the steps by which it does, as a page goes
through them."""

from collections.abc import Iterator
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
