"""Rewrite a jaxpr so that calls disappear and loops over time become maps over time.

The index-map analysis and the evaluators work on one flat list of equations. Calls (`jit`, custom
derivatives, `remat`) are inlined, but for those with gradients by a rule of their own alone; a `scan` whose
carry only hands on values that are known without running the loop is replaced by the batched body
(`descan`). Whatever cannot be rewritten stays as it is.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.density.program.descan import descan
from gibbsite.density.program.fill import fills, in_bounds
from gibbsite.density.program.scattered import written
from gibbsite.trace.jaxpr.compat import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    bind_equation,
    closed_call_body,
    dce_jaxpr,
    make_jaxpr_like,
    only_by_its_own_slope,
    platform_default,
)
from gibbsite.trace.jaxpr.source_line import equation_line


class Builder:
    """Collects equations over fresh variables."""

    def __init__(self, data: Sequence[Var] = ()) -> None:
        self.eqns: list[JaxprEqn] = []
        self._made: dict[Any, JaxprEqn] = {}
        self._known: dict[Any, Any] = {}
        self._data = frozenset(data)
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self._const_ids: dict[int, Var] = {}
        self._seen: dict[Any, list[Var]] = {}
        self._has_lines: dict[int, tuple[Jaxpr, bool]] = {}

    def constant(self, like: Var, value: Any) -> Var:
        if id(value) not in self._const_ids:
            var = Var(like.aval)
            self.constvars.append(var)
            self.consts.append(value)
            self._known[var] = value
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
        """The body of a library's function with its equations placed at the line of the call.

        JAX traces such functions once and keeps no line of their callers.
        """
        jaxpr = body.jaxpr
        if id(jaxpr) not in self._has_lines:
            # the jaxpr is kept beside the answer, so that no other one can come to have its id
            self._has_lines[id(jaxpr)] = jaxpr, any(equation_line(e) is not None for e in jaxpr.eqns)
        if self._has_lines[id(jaxpr)][1]:
            return body
        eqns = [e.replace(source_info=call.source_info) for e in jaxpr.eqns]
        return ClosedJaxpr(
            make_jaxpr_like(jaxpr, jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns), body.consts
        )

    def equation(self, eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        body = closed_call_body(eqn)
        if body is not None and not only_by_its_own_slope(eqn):
            return self.splice(self.placed(body, eqn), operands)
        portable = platform_default(eqn)
        if portable is not None:
            return self.splice(self.placed(portable, eqn), operands[1:])
        if eqn.primitive.name == "scan":
            mapped = descan(eqn)
            if mapped is not None:
                return self.splice(mapped, operands)
        if eqn.primitive.name == "stack":
            return self.splice(_unstacked(eqn), operands)
        if fills(eqn):
            return self.splice(self.placed(in_bounds(eqn), eqn), operands)
        if eqn.primitive.name in ("scatter", "pad") and not all(map(self._free, operands)):
            at = operands[1]
            body = written(eqn, self._value(at), self._free(at))
            if body is not None:
                return self.splice(self.placed(body, eqn), operands)
        if eqn.primitive.name == "optimization_barrier" and len(operands) > 1:
            one_each = zip(operands, eqn.outvars, strict=True)
            return [self.equation(eqn.replace(invars=[a], outvars=[v]), [a])[0] for a, v in one_each]
        key = _value_key(eqn, operands)
        if key is not None and key in self._seen:
            return self._seen[key]
        fresh = [Var(v.aval) for v in eqn.outvars]
        self.eqns.append(eqn.replace(invars=operands, outvars=fresh))
        self._made.update(dict.fromkeys(fresh, self.eqns[-1]))
        if key is not None:
            self._seen[key] = fresh
        return fresh

    def _value(self, atom: Any) -> np.ndarray | None:
        """The value of an atom that is made of constants alone."""
        if isinstance(atom, Literal):
            return np.asarray(atom.val)
        if atom not in self._known:
            made = self._made.get(atom)
            operands = None if made is None or made.effects else [self._value(a) for a in made.invars]
            if made is None or operands is None or any(x is None for x in operands):
                self._known[atom] = None
            else:
                with jax.ensure_compile_time_eval():
                    found = bind_equation(made, [jnp.asarray(x) for x in operands])
                self._known.update(zip(made.outvars, found, strict=True))
        return self._known[atom]

    def _free(self, atom: Any) -> bool:
        """Whether an atom is made of data and constants alone."""
        stack, seen = [atom], set()
        while stack:
            var = stack.pop()
            if isinstance(var, Literal) or var in seen or var in self._data:
                continue
            seen.add(var)
            if var in self._made:
                stack += self._made[var].invars
            elif self._known.get(var) is None:
                return False
        return True


def jaxpr_of_parts(
    constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Any], eqns: Sequence[JaxprEqn]
) -> Jaxpr:
    """A jaxpr made of equations; its debug information, which names inputs and outputs, is that of another
    one of the same size."""
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in invars]
    template = jax.make_jaxpr(lambda *xs: [0.0] * len(outvars))(*specs).jaxpr
    return make_jaxpr_like(template, constvars, invars, outvars, eqns)


def _unstacked(eqn: JaxprEqn) -> ClosedJaxpr:
    """`jnp.stack`, a primitive of its own in recent versions of JAX, as a concatenation."""
    axis = eqn.params["axis"]
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]

    def concatenated(*xs: Any) -> Any:
        return lax.concatenate([lax.expand_dims(x, [axis]) for x in xs], axis)

    traced: Any = jax.make_jaxpr(concatenated)(*specs)
    return traced


def _value_key(eqn: JaxprEqn, operands: list[Any]) -> Any:
    """Equal for equations that compute the same value, so that `mu[z]` and `sd[z]` share their indices."""
    if eqn.effects:
        return None
    atoms = tuple(
        (repr(a.val), str(a.aval.dtype), a.aval.shape) if isinstance(a, Literal) else a for a in operands
    )
    params = tuple(sorted((k, v) for k, v in eqn.params.items()))
    key = (eqn.primitive, params, atoms, tuple(v.aval for v in eqn.outvars))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def flatten(closed: ClosedJaxpr, data: int = 0) -> ClosedJaxpr:
    """`closed` with calls inlined, scans mapped over time where possible, and dead code removed.

    Inputs and outputs keep their number and order. The last `data` inputs depend on no latent.
    """
    live, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    inputs = [Var(v.aval) for v in live.invars]
    builder = Builder(inputs[len(inputs) - data :])
    outputs = builder.splice(ClosedJaxpr(live, closed.consts), inputs)
    flat = make_jaxpr_like(live, builder.constvars, inputs, outputs, builder.eqns)
    flat, _ = dce_jaxpr(flat, [True] * len(outputs), instantiate=True)
    return ClosedJaxpr(flat, builder.consts)
