"""One pass over a flat jaxpr that gives every array its index maps.

This is an interpretation on the generic walker; the rules per primitive stand in `rules`
and `control`.
A primitive without a rule makes its outputs depend on everything its inputs depend on, and is remembered,
so that an explanation can name it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.ground.opaque import attempted
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, Jaxpr, JaxprEqn, Var, scan_inputs
from gibbsite.programs.jaxpr.values import is_small
from gibbsite.programs.jaxpr.walker import walk
from gibbsite.programs.maps.access import (
    WHOLE,
    Access,
    Accesses,
    Component,
    Shape,
    along,
    everything,
    is_static,
)
from gibbsite.programs.maps.provenance import Arg, Provenance, merged
from gibbsite.programs.maps.rules import RULES as STRAIGHT
from gibbsite.programs.maps.rules import Rule, default_rule, moved, shape_of
from gibbsite.programs.passes.flatten import flatten

# Index maps through branches and loops that cannot be taken apart.
#
# A loop's maps are a fixed point: what is carried may depend on what it starts with and on all that the body
# makes of it, however often the body runs.


Maps = Mapping[str, Accesses]
_ROUNDS = 3


def _cond(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    predicate, operands = args[0], args[1:]
    runs = [_body(branch, operands, p) for branch in eqn.params["branches"]]
    outs = []
    for i in range(len(eqn.outvars)):
        shape = shape_of(eqn, i)
        outs.append(Arg(shape, merged([run[i].accesses for run in runs] + [moved(predicate, [], shape)])))
    return outs


def _scan(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    n_consts, n_carry = scan_inputs(eqn.params)
    consts, init, xs = args[:n_consts], args[n_consts : n_consts + n_carry], args[n_consts + n_carry :]
    steps = [_one_of_all(x) for x in xs]

    def run(carry: Sequence[Maps], into: Provenance) -> list[Arg]:
        carried = [Arg(a.shape, m) for a, m in zip(init, carry, strict=True)]
        return _body(eqn.params["jaxpr"], [*consts, *carried, *steps], into)

    carry = _fixed_point(init, lambda c: [a.accesses for a in run(c, _scratch(p))[:n_carry]], p)
    outs = [Arg(a.shape, m) for a, m in zip(init, carry, strict=True)]
    for i, y in enumerate(run(carry, p)[n_carry:], start=n_carry):
        shape = shape_of(eqn, i)
        outs.append(Arg(shape, moved(y, [along(len(shape), a + 1) for a in range(len(y.shape))], shape)))
    return _noted(eqn, outs, p)


def _while(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    n_test, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    tested, consts, init = args[:n_test], args[n_test : n_test + n_body], args[n_test + n_body :]

    def run(carry: Sequence[Maps], into: Provenance) -> list[Arg]:
        carried = [Arg(a.shape, m) for a, m in zip(init, carry, strict=True)]
        return _body(eqn.params["body_jaxpr"], [*consts, *carried], into)

    carry = _fixed_point(init, lambda c: [a.accesses for a in run(c, _scratch(p))], p)
    run(carry, p)
    carried = [Arg(a.shape, m) for a, m in zip(init, carry, strict=True)]
    # whatever decides how often the body runs is in every result; under `vmap` each copy decides for itself
    (again,) = _body(eqn.params["cond_jaxpr"], [*tested, *carried], p)
    of_any = [WHOLE] * len(again.shape)
    return _noted(
        eqn, [Arg(a.shape, merged([a.accesses, moved(again, of_any, a.shape)])) for a in carried], p
    )


def _one_of_all(x: Arg) -> Arg:
    """What a loop's body sees of an array that it runs along: one of its rows, not known which."""
    shape = x.shape[1:]
    exprs: list[Component] = [WHOLE, *(along(len(shape), a) for a in range(len(shape)))]
    return Arg(shape, moved(x, exprs, shape))


def _scratch(p: Provenance) -> Provenance:
    return Provenance({}, p.site_shapes, notes=p.notes)


def _noted(eqn: JaxprEqn, outs: list[Arg], p: Provenance) -> list[Arg]:
    """`outs`, the loop remembered as what blurred the sites that they may read more than one element of."""
    blurred = {s for o in outs for s, accesses in o.accesses.items() if not all(a.single for a in accesses)}
    if blurred:
        p.blockers.append((eqn, frozenset(blurred)))
    return outs


def _fixed_point(
    init: list[Arg], step: Callable[[Sequence[Maps]], Sequence[Maps]], p: Provenance
) -> Sequence[Maps]:
    """The least maps, or not much more, that hold `init` and what `step` makes of themselves."""
    now: Sequence[Maps] = [a.accesses for a in init]
    for _ in range(_ROUNDS):
        after = [merged([a, b]) for a, b in zip(now, step(now), strict=True)]
        if after == now:
            return now
        now = after
    while True:  # offsets that grow from round to round: the sets of sites, which are finite, settle
        now = [
            {s: everything(len(p.site_shapes[s]), a.shape) for s in m} for a, m in zip(init, now, strict=True)
        ]
        after = [{**dict.fromkeys(b), **a} for a, b in zip(now, step(now), strict=True)]
        if all(set(a) == set(b) for a, b in zip(now, after, strict=True)):
            return now
        now = after


def interpreted(
    jaxpr: Jaxpr,
    consts: list[Arg],
    inputs: list[Arg],
    p: Provenance,
    visit: Callable[[JaxprEqn, list[Arg], Sequence[Arg]], None] | None = None,
    told: Callable[[Maps], Maps] = lambda maps: maps,
) -> list[Arg]:
    """The maps of the outputs of a flat program, as `told` of each variable. Where a rule fails unforeseen,
    what is said of a primitive without one holds."""

    def guarded(rule: Rule) -> Any:
        def run(eqn: JaxprEqn, args: list[Arg]) -> list[Arg]:
            what = f"how `{eqn.primitive}` reads its operands"
            outs = attempted(what, lambda: rule(eqn, args, p), lambda: default_rule(eqn, args, p), p.notes)
            shapes = [tuple(v.aval.shape) for v in eqn.outvars]
            found = zip(shapes, outs, eqn.outvars, strict=True)
            return [Arg(shape, told(o.accesses), v, o.known) for shape, o, v in found]

        return run

    rules = {name: guarded(rule) for name, rule in RULES.items()}
    return walk(jaxpr, consts, inputs, rules, guarded(default_rule), _literal, visit)


def _literal(value: Any) -> Arg:
    return Arg(np.shape(value), {}, None, np.asarray(value))


def _body(closed: ClosedJaxpr, operands: list[Arg], p: Provenance) -> list[Arg]:
    """The maps of the outputs of a branch or a loop's body, whose variables cannot be read from outside, so
    that their indices stay unknown."""
    flat = flatten(closed)
    consts = [Arg(np.shape(c), {}, v) for v, c in zip(flat.jaxpr.constvars, flat.consts, strict=True)]
    return interpreted(flat.jaxpr, consts, operands, p, told=_closed_maps)


def _closed_maps(maps: Any) -> dict[str, Any]:
    def close(access: Any) -> Any:
        return Access(tuple(c if is_static(c) else WHOLE for c in access.index), access.window)

    return {s: tuple(close(a) for a in accesses) for s, accesses in maps.items()}


RULES: dict[str, Rule] = {**STRAIGHT, "cond": _cond, "scan": _scan, "while": _while}


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
        return Arg(tuple(var.aval.shape), dict([inputs[var]] if var in inputs else []), var)

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
