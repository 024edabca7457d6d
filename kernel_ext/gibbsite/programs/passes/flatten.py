"""Programs as one flat list of equations, rewritten where an equation says more than it need.

Index maps, certificates and evaluators work on that list. An equation is offered to the local passes, what
they make of it again, until none has anything for it; equations that compute the same become one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    make_jaxpr_like,
)
from gibbsite.programs.jaxpr.source_line import equation_line
from gibbsite.programs.jaxpr.values import Values
from gibbsite.programs.jaxpr.walker import behind
from gibbsite.programs.passes.local import LOCAL, Local
from gibbsite.programs.passes.replaced import jaxpr_of_parts, live


class Builder:
    """Collects equations over fresh variables, rewritten by `passes`; `data` are inputs that no latent
    enters. `done` lists what was rewritten: the pass and the equation, of the programs put in."""

    def __init__(self, data: Sequence[Var] = (), passes: Sequence[Local] = LOCAL) -> None:
        self.eqns: list[JaxprEqn] = []
        self.constants: dict[Var, Any] = {}
        self.done: list[tuple[Local, JaxprEqn]] = []
        self._passes = passes
        self._made: dict[Any, JaxprEqn] = {}
        self._values = Values(self._made, {}, by_jax=True)
        self._data = frozenset(data)
        self._const_ids: dict[int, Var] = {}
        self._seen: dict[Any, list[Var]] = {}
        self._lost: dict[int, tuple[Jaxpr, list[bool]]] = {}

    def constant(self, like: Var, value: Any) -> Var:
        """The variable of a constant."""
        if id(value) not in self._const_ids:
            var = Var(like.aval)
            self.constants[var] = value
            self._values.give(var, value)
            self._const_ids[id(value)] = var
        return self._const_ids[id(value)]

    def splice(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """Append the equations of `closed` applied to `args`; returns its outputs."""
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            env[var] = self.constant(var, value)

        def read(atom: Any) -> Any:
            return atom if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            operands = [read(a) for a in eqn.invars]
            env.update(zip(eqn.outvars, self.equation(eqn, operands), strict=True))
        return [read(a) for a in jaxpr.outvars]

    def placed(self, body: ClosedJaxpr, call: JaxprEqn) -> ClosedJaxpr:
        """A body with its equations that are of no line of the user's placed at the line of the call.

        JAX traces a library's functions once and keeps no line of their callers.
        """
        jaxpr = body.jaxpr
        if id(jaxpr) not in self._lost:
            # the jaxpr is kept beside the answer, so that no other one can come to have its id
            self._lost[id(jaxpr)] = jaxpr, [equation_line(e) is None for e in jaxpr.eqns]
        lost = self._lost[id(jaxpr)][1]
        if not any(lost):
            return body
        at = call.source_info
        eqns = [e.replace(source_info=at) if gone else e for e, gone in zip(jaxpr.eqns, lost, strict=True)]
        return ClosedJaxpr(
            make_jaxpr_like(jaxpr, jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns), body.consts
        )

    def equation(self, eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        """Append an equation applied to `operands`, or what the passes make of it; returns its outputs."""
        eqn = eqn.replace(invars=operands)
        for local in self._passes:
            body = local.body(eqn, self)
            if body is not None:
                self.done.append((local, eqn))
                return self.splice(self.placed(body, eqn), operands)
        key = _value_key(eqn)
        if key is not None and key in self._seen:
            return self._seen[key]
        fresh = [Var(v.aval) for v in eqn.outvars]
        self.eqns.append(eqn.replace(outvars=fresh))
        self._made.update(dict.fromkeys(fresh, self.eqns[-1]))
        if key is not None:
            self._seen[key] = fresh
        return fresh

    def finished(self, inputs: Sequence[Var], outputs: Sequence[Any]) -> ClosedJaxpr:
        """The program of these inputs and outputs, without dead code."""
        jaxpr = jaxpr_of_parts(list(self.constants), inputs, outputs, self.eqns)
        return ClosedJaxpr(live(jaxpr), list(self.constants.values()))

    def value(self, atom: Any) -> np.ndarray | None:
        """The value of an atom that is made of constants alone; None for others."""
        return self._values.value(atom)

    def free(self, atom: Any) -> bool:
        """Whether an atom is made of data and constants alone."""
        found = behind(self._made, [atom], ends=self._data.__contains__)
        return all(v in self._data or v in self._made or v in self.constants for v in found)


def _value_key(eqn: JaxprEqn) -> Any:
    """Equal for equations that compute the same value, so that `mu[z]` and `sd[z]` share their indices."""
    if eqn.effects:
        return None
    atoms = tuple(
        (repr(a.val), str(a.aval.dtype), a.aval.shape) if isinstance(a, Literal) else a for a in eqn.invars
    )
    params = tuple(sorted((k, v) for k, v in eqn.params.items()))
    return hashable((eqn.primitive, params, atoms, tuple(v.aval for v in eqn.outvars)))


def hashable(key: Any) -> Any:
    """The key itself, or None where it has no hash."""
    try:
        hash(key)
    except TypeError:
        return None
    return key


def flatten(
    closed: ClosedJaxpr, data: int = 0, passes: Sequence[Local] = LOCAL, done: list[Any] | None = None
) -> ClosedJaxpr:
    """`closed` rewritten by local passes, by all of them unless told otherwise, and without dead code.

    Inputs and outputs keep their number and order. The last `data` inputs depend on no latent.
    """
    jaxpr = live(closed.jaxpr)
    inputs = [Var(v.aval) for v in jaxpr.invars]
    builder = Builder(inputs[len(inputs) - data :], passes)
    outputs = builder.splice(ClosedJaxpr(jaxpr, closed.consts), inputs)
    if done is not None:
        done += builder.done
    return builder.finished(inputs, outputs)
