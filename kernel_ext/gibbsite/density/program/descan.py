"""Turn a `scan` into a map over time where its carry is known without running the loop.

A hidden Markov model written with `numpyro.contrib.control_flow.scan` carries last step's state, and with
the latent values given as inputs that state is simply a shifted input. So each carry that resolves to an
input, a constant or a counter is replaced by the whole sequence of its values, and the body is batched.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.trace.jaxpr.compat import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun, jaxpr_outputs

_INVARIANT, _COUNTER, _SEQUENCE = "invariant", "counter", "sequence"


def _inputs_of(body: Jaxpr, output: int) -> set[int]:
    """Positions of the body's inputs that its output at position `output` depends on."""
    _, used = jaxpr_outputs(body, [output])
    return {i for i, u in enumerate(used) if u}


def _counter_step(body: Jaxpr, carry_in: Any, carry_out: Any) -> Any | None:
    """The literal `c` if `carry_out = carry_in + c`, else None."""
    for eqn in body.eqns:
        if eqn.outvars[0] is carry_out and eqn.primitive.name == "add":
            a, b = eqn.invars
            if a is carry_in and isinstance(b, Literal):
                return b.val
            if b is carry_in and isinstance(a, Literal):
                return a.val
    return None


def _classify(body: Jaxpr, n_consts: int, n_carry: int) -> tuple[list[str], list[Any], list[int]] | None:
    """How each carry is known, the counters' steps, and an order in which sequences can be computed."""
    kinds, steps, needs = [], [], []
    for j in range(n_carry):
        carry_in, carry_out = body.invars[n_consts + j], body.outvars[j]
        step = _counter_step(body, carry_in, carry_out)
        kind = _INVARIANT if carry_out is carry_in else _COUNTER if step is not None else _SEQUENCE
        kinds.append(kind)
        steps.append(step)
        deps = {i - n_consts for i in _inputs_of(body, j) if n_consts <= i < n_consts + n_carry}
        needs.append(deps if kind == _SEQUENCE else set())
    order: list[int] = []
    pending = [j for j in range(n_carry) if kinds[j] == _SEQUENCE]
    done = {j for j in range(n_carry) if kinds[j] != _SEQUENCE}
    while pending:
        ready = [j for j in pending if needs[j] <= done]
        if not ready:  # a carry that depends on its own past through arithmetic
            return None
        order += ready
        done |= set(ready)
        pending = [j for j in pending if j not in done]
    return kinds, steps, order


def descan(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """A scan-free jaxpr equal to the scan `eqn`, or None where the carry is a true recurrence."""
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    n_consts, n_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    length, reverse = eqn.params["length"], eqn.params["reverse"]
    if length == 0 or closed.jaxpr.effects:
        return None
    plan = _classify(closed.jaxpr, n_consts, n_carry)
    if plan is None:
        return None
    kinds, steps, order = plan

    def outputs(positions: Sequence[int]) -> Any:
        body, _ = jaxpr_outputs(closed.jaxpr, positions, keep_inputs=True)
        return jaxpr_as_fun(ClosedJaxpr(body, closed.consts))

    def mapped(*args: Any) -> list[Any]:
        consts, init, xs = args[:n_consts], args[n_consts : n_consts + n_carry], args[n_consts + n_carry :]
        # the value that each carry has when step t begins, for all t
        before: list[Any] = list(init)
        last: list[Any] = list(init)
        axes: list[int | None] = [None] * n_carry
        for j in range(n_carry):
            if kinds[j] == _COUNTER:
                ticks = jnp.arange(length, dtype=init[j].dtype)
                ticks = ticks[::-1] if reverse else ticks
                shape = (length,) + (1,) * init[j].ndim
                before[j] = init[j][None] + ticks.reshape(shape) * steps[j]
                last[j] = init[j] + length * steps[j]
                axes[j] = 0

        def batched(positions: Sequence[int]) -> Any:
            in_axes = (None,) * n_consts + tuple(axes) + (0,) * len(xs)
            if all(a is None for a in in_axes):
                one = outputs(positions)(*consts, *before, *xs)
                return [jnp.broadcast_to(v[None], (length, *v.shape)) for v in one]
            fn = jax.vmap(outputs(positions), in_axes=in_axes, out_axes=0, axis_size=length)
            return fn(*consts, *before, *xs)

        for j in order:
            (after,) = batched([j])
            head = init[j][None].astype(after.dtype)
            before[j] = jnp.concatenate([after[1:], head]) if reverse else jnp.concatenate([head, after[:-1]])
            last[j] = after[0] if reverse else after[-1]
            axes[j] = 0
        n_out = len(closed.jaxpr.outvars)
        ys = list(batched(range(n_carry, n_out))) if n_out > n_carry else []
        return [*last, *ys]

    avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    traced: Any = jax.make_jaxpr(mapped)(*avals)
    return traced
