"""Of which degree an array is as a polynomial in inputs: linear, affine and quadratic are read off it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn

Degree = float
NONE: Degree = math.inf
"""Of what is no polynomial."""


class Degrees:
    """The domain: the largest degree of any element, 0 of what is free of the inputs."""

    def __init__(self) -> None:
        # what reads degrees takes slopes equation by equation, which loops have none of
        self.rules: Mapping[str, Any] = {"scan": lambda eqn, ds: [NONE if any(ds) else 0] * len(eqn.outvars)}

    def of_constant(self, value: Any) -> Degree:
        return 0

    def join(self, parts: Sequence[Degree]) -> Degree:
        return max(parts)

    def moved(self, eqn: JaxprEqn, parts: Sequence[Degree], places: Sequence[Degree]) -> Degree:
        cut = any(parts) and op.of_kind(eqn, op.FLAT, op.ROUNDS)
        return NONE if any(places) or cut else max(parts)

    def computed(self, eqn: JaxprEqn, operands: Sequence[Degree]) -> Degree:
        power = op.whole_power(eqn)
        if not any(operands) or power == 0:
            return 0
        if power is not None:
            return power * operands[0] if power > 0 else NONE
        if op.is_product(eqn):
            return sum(operands)
        linear = op.linear_operands(eqn)
        alone = not any(d for i, d in enumerate(operands) if i not in linear)
        cut = op.of_kind(eqn, op.CONVERTS) and eqn.outvars[0].aval.dtype.kind != "f"
        return max(operands[i] for i in linear) if linear and alone and not cut else NONE


DEGREES = Degrees()
