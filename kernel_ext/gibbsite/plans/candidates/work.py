"""A program → its work: one number, the same on every machine.

The unit is one element of an elementwise operation (a nanosecond or so). Three things cost: elements, which
a processor takes in one after another; arithmetic of matrices, of which several go into a unit; and
operations as such, which XLA starts one by one. What each is worth is in `limits`, and
`benchmarks/regret.py` holds the count against the time of the program.
"""

import math
from collections.abc import Callable
from typing import Any

import jax

from gibbsite.conditional.draws.passes import passes_of
from gibbsite.plans.candidates.limits import (
    ARITHMETIC,
    AT_ONCE,
    COSTLY,
    FACTORISATION,
    LONG,
    LOOP,
    OPERATION,
    OPERATION_IN_LOOP,
    VARIATE,
)
from gibbsite.programs.jaxpr.compat import staged

_FREE = {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "stop_gradient", "copy"}
_COSTLY = {"exp", "log", "log1p", "expm1", "tanh", "logistic", "pow", "sin", "cos", "lgamma", "digamma"}
_COSTLY |= {"erf", "erf_inv", "sqrt", "rsqrt", "random_bits", "threefry2x32", "sort"}
_STARTED = ("reduce", "arg", "gather", "scatter", "dynamic", "concatenate", "cum", "sort", "select_and")


def work_of(fn: Callable[..., Any], *arguments: Any) -> float:
    """The work of `fn(*arguments)`, which is traced and not run; arguments may be shapes."""
    with staged():
        closed = jax.make_jaxpr(fn)(*arguments)
    return work_of_program(closed.jaxpr)


def work_of_program(jaxpr: Any, start: float = OPERATION) -> float:
    """The work of one run of a jaxpr, of whose operations each takes `start` to begin with. Loops that end by
    chance are taken as often as is told where they stand (`draws.passes`), others `limits.LOOP` times. On
    CPUs a loop is one function, whose operations begin sooner.
    """
    return sum(_work(eqn, start) for eqn in jaxpr.eqns)


def _work(eqn: Any, start: float) -> float:
    name, params = eqn.primitive.name, eqn.params
    size = max((_worth(v) for v in eqn.outvars), default=1.0)
    if name == "scan":
        return start + params["length"] * work_of_program(params["jaxpr"].jaxpr, OPERATION_IN_LOOP)
    if name == "while":
        parts = params["body_jaxpr"].jaxpr, params["cond_jaxpr"].jaxpr
        body, test = (work_of_program(part, OPERATION_IN_LOOP) for part in parts)
        told = passes_of(eqn)
        passes = LOOP if told is None else told
        return start + passes * body + (passes + 1) * test
    if name == "cond":
        return max(work_of_program(b.jaxpr, start) for b in params["branches"])
    if name == "random_gamma":
        return start + VARIATE * size
    inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
    if inner is not None:
        return work_of_program(getattr(inner, "jaxpr", inner), start)
    if name in _FREE:
        return 0.0
    if name == "dot_general":
        (left, _), _ = params["dimension_numbers"]
        summed = math.prod(eqn.invars[0].aval.shape[a] for a in left)
        return start + 2 * math.prod(eqn.outvars[0].aval.shape) * summed / ARITHMETIC
    if name in ("cholesky", "triangular_solve", "lu", "eigh", "qr"):
        shape = eqn.invars[0].aval.shape
        right = eqn.invars[-1].aval.shape[-1] if name == "triangular_solve" else shape[-1] / 3
        return FACTORISATION + math.prod(shape) * right / ARITHMETIC
    if name.startswith(_STARTED):
        return start + max(size, _worth(eqn.invars[0]))
    return size * (COSTLY if name in _COSTLY else 1.0)


def _worth(variable: Any) -> float:
    """Elements of a variable, of which long arrays hand a processor several at once."""
    size = math.prod(getattr(variable.aval, "shape", ()))
    return size if size <= LONG else LONG + (size - LONG) / AT_ONCE
