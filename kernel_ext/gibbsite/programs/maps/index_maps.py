"""One pass over a flat jaxpr that gives every array its index maps.

This is an interpretation on the generic walker; the rules per primitive stand in `rules`
and `control`.
A primitive without a rule makes its outputs depend on everything its inputs depend on, and is remembered,
so that an explanation can name it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn, Var
from gibbsite.programs.jaxpr.values import is_small
from gibbsite.programs.jaxpr.walker import walk
from gibbsite.programs.maps.access import Accesses, Shape
from gibbsite.programs.maps.control import RULES, opaque_if_failed
from gibbsite.programs.maps.provenance import Arg, Provenance
from gibbsite.programs.maps.rules import default_rule


def index_maps(
    closed: ClosedJaxpr, inputs: Mapping[Any, tuple[str, Accesses]], site_shapes: Mapping[str, Shape]
) -> Provenance:
    """Index maps for every variable of `closed`.

    `inputs` gives, for the input variables that are sites, the site's name and the accesses they start with;
    all other inputs are data.
    """
    result = Provenance({}, site_shapes)
    jaxpr = closed.jaxpr

    def start(var: Var) -> Arg:
        accesses = {}
        if var in inputs:
            name, maps = inputs[var]
            accesses = {name: maps}
        return Arg(tuple(var.aval.shape), accesses, var)

    def literal(value: Any) -> Arg:
        array = np.asarray(value)
        return Arg(array.shape, {}, None, array)

    def visit(eqn: JaxprEqn, operands: list[Arg], outs: Any) -> None:
        for var, out in zip(eqn.outvars, outs, strict=True):
            result.args[var] = out

    def guarded(rule: Any) -> Any:
        def run(eqn: JaxprEqn, operands: list[Arg]) -> list[Arg]:
            outs = opaque_if_failed(rule, eqn, operands, result)
            return [
                Arg(tuple(v.aval.shape), o.accesses, v, o.known)
                for v, o in zip(eqn.outvars, outs, strict=True)
            ]

        return run

    consts = [
        Arg(tuple(v.aval.shape), {}, v, np.asarray(c) if is_small(c) else None)
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True)
    ]
    args = [start(v) for v in jaxpr.invars]
    for arg in [*consts, *args]:
        result.args[arg.var] = arg
    rules = {name: guarded(rule) for name, rule in RULES.items()}
    walk(jaxpr, consts, args, rules, guarded(default_rule), literal, visit)
    return result
