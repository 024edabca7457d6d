"""Draws of a run by the static model that they are of: one for an ordinary run, and one for each structure of
a run that goes between structures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gibbsite.density.model.factorials import as_double
from gibbsite.errors import ModelError, ScheduleError


@dataclass(frozen=True)
class Part:
    """`draws` `[chain, draw, *shape]` of the latents of `model`. Of a run over structures `there` tells which
    draws of the run they are, `[chain, draw]`, and they stand in one chain, one after another; `decided`
    names the sites whose values make the structure."""

    model: Any
    draws: Mapping[str, np.ndarray]
    there: np.ndarray | None = None
    decided: tuple[str, ...] = ()

    @cached_property
    def plan(self) -> Any:
        """The model's own plan."""
        return self.model.plan()


@contextmanager
def in_full(part: Part) -> Iterator[tuple[Any, Mapping[str, np.ndarray]]]:
    """A part's plan and draws for what asks for log densities with their constants: within, those of the same
    model in double precision, where single precision does not hold the constants of its data."""
    if not part.model._constants_lost:
        with part.model.density.surroundings.carried():
            yield part.plan, part.draws
        return
    with part.model._doubled() as twin:
        try:
            plan = twin.plan(part.plan.schedule_text)
        except ScheduleError:  # of kernels that have no text
            plan = twin.plan()
        yield plan, {n: as_double(v) for n, v in part.draws.items()}


def parts_of(run: Any) -> Sequence[Part]:
    """Of a run over structures its parts, the structures that have draws; of another one it alone. Raises
    `ModelError` for one without its model."""
    if run.model is None:
        raise ModelError("this run was loaded without its model; give it: gibbsite.load(path, model=…)")
    return run.parts() if hasattr(run, "parts") else (_Whole(run),)


class _Whole(Part):
    def __init__(self, run: Any):
        super().__init__(run.model, run.draws)
        self.__dict__["plan"] = run.plan


def joined(parts: Sequence[Part], values: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays `[chain, draw, *shape]` by name, of each part, in the run's own order of draws: what all parts
    have, of one shape."""
    if parts[0].there is None:
        return dict(values[0])
    out = {}
    for name, first in values[0].items():
        if any(name not in v or v[name].shape[2:] != first.shape[2:] for v in values):
            continue
        dtype = np.result_type(*(v[name].dtype for v in values))
        whole = np.zeros((*np.shape(parts[0].there), *first.shape[2:]), dtype)
        for part, own in zip(parts, values, strict=True):
            whole[part.there] = own[name][0]
        out[name] = whole
    return out
