"""Forms through `lax.cond` and `lax.switch`, one branch at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.branches import apply_rule, depends
from gibbsite.conditional.forms.forms import Unfit
from gibbsite.conditional.forms.rules import Domain, Operands, rule_of
from gibbsite.density.evaluation.evaluate import evaluate_lazily
from gibbsite.density.program.flatten import flatten
from gibbsite.trace.jaxpr.compat import ClosedJaxpr, Literal, bind_equation
from gibbsite.trace.jaxpr.primitives import name_of

_KNOWN_SIZE = 4096


def branch_values(branch: ClosedJaxpr, operands: Sequence[Any], domain: Domain) -> list[Any]:
    """The outputs of one branch at operands that are forms, decided comparisons, `Branches` or arrays.

    Raises `Unfit` at the first operation that leaves the linear combinations of statistics.
    """
    flat = flatten(branch)
    env: dict[Any, Any] = dict(zip(flat.jaxpr.constvars, map(jnp.asarray, flat.consts), strict=True))
    numbers: dict[Any, np.ndarray] = {
        v: np.asarray(c) for v, c in zip(flat.jaxpr.constvars, flat.consts, strict=True)
    }
    env.update(zip(flat.jaxpr.invars, operands, strict=True))

    def known(atom: Any) -> np.ndarray | None:
        return np.asarray(atom.val) if isinstance(atom, Literal) else numbers.get(atom)

    def read(atom: Any) -> Any:
        return jnp.asarray(atom.val, atom.aval.dtype) if isinstance(atom, Literal) else env[atom]

    for eqn in flat.jaxpr.eqns:
        values = [read(a) for a in eqn.invars]
        if any(map(depends, values)):
            env[eqn.outvars[0]] = _applied(eqn, values, domain, known)
            continue
        env.update(zip(eqn.outvars, evaluate_lazily(eqn, values), strict=True))
        fixed = [known(a) for a in eqn.invars]
        if all(v is not None and v.size <= _KNOWN_SIZE for v in fixed):
            with jax.ensure_compile_time_eval():
                found = bind_equation(eqn, [jnp.asarray(v) for v in fixed])
            numbers.update({v: np.asarray(x) for v, x in zip(eqn.outvars, found, strict=True)})
    return [read(a) for a in flat.jaxpr.outvars]


def _applied(eqn: Any, values: list[Any], domain: Domain, known: Callable[[Any], Any]) -> Any:
    if rule_of(eqn) is None:
        raise Unfit(f"computes {name_of(eqn)} of it in a branch")
    try:
        return apply_rule(Operands(eqn, values, domain, known))
    except Unfit as why:
        raise Unfit(f"{why} in a branch") from None
