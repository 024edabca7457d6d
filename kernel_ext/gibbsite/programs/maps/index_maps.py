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
from gibbsite.programs.maps.access import Accesses, Shape
from gibbsite.programs.maps.control import interpreted
from gibbsite.programs.maps.provenance import Arg, Provenance


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

    def visit(eqn: JaxprEqn, operands: list[Arg], outs: Any) -> None:
        result.args.update(zip(eqn.outvars, outs, strict=True))

    consts = [
        Arg(tuple(v.aval.shape), {}, v, np.asarray(c) if is_small(c) else None)
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True)
    ]
    args = [start(v) for v in jaxpr.invars]
    for arg in [*consts, *args]:
        result.args[arg.var] = arg
    interpreted(jaxpr, consts, args, result, visit)
    return result
