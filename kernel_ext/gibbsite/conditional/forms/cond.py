"""Forms through `lax.cond` and `lax.switch`, one branch at a time."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.forms.branches import apply_rule, depends
from gibbsite.conditional.forms.forms import Unfit
from gibbsite.conditional.forms.rules import Domain, Operands, rule_of
from gibbsite.programs.evaluation.evaluate import evaluate_lazily
from gibbsite.programs.jaxpr.compat import ClosedJaxpr
from gibbsite.programs.jaxpr.primitives import name_of
from gibbsite.programs.jaxpr.values import FEW, Values
from gibbsite.programs.jaxpr.walker import made_by, walk
from gibbsite.programs.passes.flatten import flatten


def branch_values(branch: ClosedJaxpr, operands: Sequence[Any], domain: Domain) -> list[Any]:
    """The outputs of one branch at operands that are forms, decided comparisons, `Branches` or arrays.

    Raises `Unfit` at the first operation that leaves the linear combinations of statistics.
    """
    flat = flatten(branch)
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    known = Values(made_by(flat.jaxpr), consts, by_jax=True, most=FEW).value

    def rule(eqn: Any, values: list[Any]) -> list[Any]:
        if not any(map(depends, values)):
            return evaluate_lazily(eqn, values)
        if rule_of(eqn) is None:
            raise Unfit(f"computes {name_of(eqn)} of it in a branch")
        try:
            return [apply_rule(Operands(eqn, values, domain, known))]
        except Unfit as why:
            raise Unfit(f"{why} in a branch") from None

    return walk(flat.jaxpr, list(map(jnp.asarray, flat.consts)), operands, {}, rule, jnp.asarray)
