"""Forms through `lax.cond` and `lax.switch`, one branch at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.forms.branches import apply_rule, depends
from gibbsite.conditional.forms.forms import Unfit
from gibbsite.conditional.forms.rules import Domain, Operands, rule_of
from gibbsite.programs.evaluation.evaluate import evaluate_lazily
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, Literal
from gibbsite.programs.jaxpr.primitives import name_of
from gibbsite.programs.jaxpr.values import FEW, Values
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.passes.flatten import flatten


def branch_values(branch: ClosedJaxpr, operands: Sequence[Any], domain: Domain) -> list[Any]:
    """The outputs of one branch at operands that are forms, decided comparisons, `Branches` or arrays.

    Raises `Unfit` at the first operation that leaves the linear combinations of statistics.
    """
    flat = flatten(branch)
    env: dict[Any, Any] = dict(zip(flat.jaxpr.constvars, map(jnp.asarray, flat.consts), strict=True))
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    known = Values(made_by(flat.jaxpr), consts, by_jax=True, most=FEW).value
    env.update(zip(flat.jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> Any:
        return jnp.asarray(atom.val, atom.aval.dtype) if isinstance(atom, Literal) else env[atom]

    for eqn in flat.jaxpr.eqns:
        values = [read(a) for a in eqn.invars]
        if any(map(depends, values)):
            env[eqn.outvars[0]] = _applied(eqn, values, domain, known)
            continue
        env.update(zip(eqn.outvars, evaluate_lazily(eqn, values), strict=True))
    return [read(a) for a in flat.jaxpr.outvars]


def _applied(eqn: Any, values: list[Any], domain: Domain, known: Callable[[Any], Any]) -> Any:
    if rule_of(eqn) is None:
        raise Unfit(f"computes {name_of(eqn)} of it in a branch")
    try:
        return apply_rule(Operands(eqn, values, domain, known))
    except Unfit as why:
        raise Unfit(f"{why} in a branch") from None
