"""The rewritings of single equations, in the order in which an equation is offered to them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn
from gibbsite.programs.passes.calls import inlined, one_each, unstacked
from gibbsite.programs.passes.descan import descan
from gibbsite.programs.passes.fill import in_bounds
from gibbsite.programs.passes.scatter import padded, written


class Known(Protocol):
    """What is known of the operands of an equation when a program is rewritten."""

    def value(self, atom: Any) -> np.ndarray | None:
        """The value of an atom that is made of constants alone; None for others."""
        ...

    def free(self, atom: Any) -> bool:
        """Whether an atom is made of data and constants alone."""
        ...


@dataclass(frozen=True)
class Local:
    """A rewriting of single equations: `body` gives a program of their operands that computes the same, or
    None where an equation stays as it is. `does` says it in words."""

    name: str
    does: str
    body: Callable[[JaxprEqn, Known], ClosedJaxpr | None]


LOCAL = (
    Local("inline", "calls become what they run", inlined),
    Local("descan", "loops over time become maps over time, but for true recurrences", descan),
    Local("unstack", "stacks become concatenations", unstacked),
    Local("fill", "gathers that fill become gathers in bounds and a choice", in_bounds),
    Local("scatter", "values written at places that no latent decides become joins or choices", written),
    Local("pad", "paddings become joins", padded),
    Local("barriers", "barriers of several arrays become barriers of one", one_each),
)
