"""What an analysis is: a domain of values, and how each kind of equation makes one of others.

What moves elements is written once, for all domains: a result is the join of what its elements are copies of.
So are branches (the join of them all) and loops (a fixed point, widened where it does not settle).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn, closed_call_body, scan_inputs
from gibbsite.programs.jaxpr.primitives import BRANCHES, SCANS, copied, of_kind, of_table
from gibbsite.programs.jaxpr.walker import Rule, walk

T = TypeVar("T")
_ROUNDS = 3


class Domain(Protocol[T]):
    """The values of an analysis. `rules` compute the results of an equation by its primitive's name, and come
    before what holds of its kind."""

    rules: Mapping[str, Rule[T]]

    def of_constant(self, value: Any) -> T:
        """Of a known array."""
        ...

    def join(self, parts: Sequence[T]) -> T:
        """The least that holds of each part."""
        ...

    def moved(self, eqn: JaxprEqn, parts: Sequence[T], places: Sequence[T]) -> T:
        """Of elements of the operands `parts`, picked by `places`."""
        ...

    def computed(self, eqn: JaxprEqn, operands: Sequence[T]) -> T:
        """Of the results of an equation that computes them, and that there is no rule for."""
        ...


def results(domain: Domain[T], eqn: JaxprEqn, operands: Sequence[T]) -> list[T]:
    """What a domain says of the results of an equation, by what it says of the operands."""
    xs = list(operands)
    rule = of_table(eqn, domain.rules)
    if rule is not None:
        return list(rule(eqn, xs))
    body = closed_call_body(eqn)
    if body is not None:
        return outputs(domain, body, xs)
    if of_kind(eqn, BRANCHES):
        ways = [outputs(domain, b, xs[1:]) for b in eqn.params["branches"]]
        return [domain.moved(eqn, way, xs[:1]) for way in zip(*ways, strict=True)]
    if of_kind(eqn, SCANS):
        return _scanned(domain, eqn, xs)
    outs = []
    for i in range(len(eqn.outvars)):
        at = copied(eqn, i)
        places = [] if len(eqn.outvars) > 1 else [x for j, x in enumerate(xs) if j not in at]
        outs.append(domain.moved(eqn, [xs[j] for j in at], places) if at else domain.computed(eqn, xs))
    return outs


def outputs(domain: Domain[T], closed: ClosedJaxpr, inputs: Sequence[T]) -> list[T]:
    """What a domain says of the outputs of a program."""
    consts = [domain.of_constant(c) for c in closed.consts]
    return walk(
        closed.jaxpr, consts, inputs, {}, lambda eqn, xs: results(domain, eqn, xs), domain.of_constant
    )


def _scanned(domain: Domain[T], eqn: JaxprEqn, xs: list[T]) -> list[T]:
    """Of a loop over rows: what is carried holds of its start and of all that the body makes of it."""
    body, (n_consts, n_carry) = eqn.params["jaxpr"], scan_inputs(eqn.params)
    consts, carry, rows = xs[:n_consts], xs[n_consts : n_consts + n_carry], xs[n_consts + n_carry :]
    for _ in range(_ROUNDS):
        outs = outputs(domain, body, [*consts, *carry, *rows])
        after = [domain.join([a, b]) for a, b in zip(carry, outs[:n_carry], strict=True)]
        if after == carry:
            return [*carry, *outs[n_carry:]]
        carry = after
    carry = [domain.computed(eqn, xs)] * n_carry
    return [*carry, *outputs(domain, body, [*consts, *carry, *rows])[n_carry:]]
