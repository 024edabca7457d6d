"""Turn a `scan` into a map over time where its carry is known without running the loop.

A hidden Markov model written with `numpyro.contrib.control_flow.scan` carries last step's state, and with
the latent values given as inputs that state is simply a shifted input. So each carry that resolves to an
input, a constant or a counter is replaced by the whole sequence of its values, and the body is batched.
A carry that keeps the last few values, `concatenate([new, carry[:-1]])`, as seasons and lags are written, is
those values side by side.
Carries that depend on their own past through arithmetic (`caught = caught | y`) are computed by a scan of
their own, as small as it can be; all else is batched around it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    jaxpr_as_fun,
    jaxpr_outputs,
    make_jaxpr_like,
    scan_inputs,
)
from gibbsite.programs.jaxpr.primitives import ADDS, SCANS, name_of, of_kind
from gibbsite.programs.passes.replaced import traced

_INVARIANT, _COUNTER, _SEQUENCE = "invariant", "counter", "sequence"


def _inputs_of(body: Jaxpr, output: int) -> set[int]:
    """Positions of the body's inputs that its output at position `output` depends on."""
    _, used = jaxpr_outputs(body, [output])
    return {i for i, u in enumerate(used) if u}


def _counter_step(body: Jaxpr, carry_in: Any, carry_out: Any) -> Any | None:
    """The literal `c` if `carry_out = carry_in + c`, else None."""
    for eqn in body.eqns:
        if eqn.outvars[0] is carry_out and of_kind(eqn, ADDS):
            a, b = eqn.invars
            if a is carry_in and isinstance(b, Literal):
                return b.val
            if b is carry_in and isinstance(a, Literal):
                return a.val
    return None


def _pushed(body: Jaxpr, carry_in: Any, carry_out: Any) -> tuple[Any, bool] | None:
    """The new row of a carry that keeps its last rows, and whether it comes first: `concatenate([new,
    carry_in[:-1]])` or `concatenate([carry_in[1:], new])`; else None."""
    made = {v: eqn for eqn in body.eqns for v in eqn.outvars}
    joined = None if isinstance(carry_out, Literal) else made.get(carry_out)
    if joined is None or name_of(joined) != "concatenate" or len(joined.invars) != 2:
        return None
    if joined.params["dimension"] or any(isinstance(v, Literal) for v in joined.invars):
        return None
    for first in (True, False):
        new, kept = joined.invars if first else joined.invars[::-1]
        cut = made.get(kept)
        if cut is None or name_of(cut) != "slice" or cut.invars[0] is not carry_in:
            continue
        if new.aval.shape[0] == 1 and cut.params["start_indices"][0] == (0 if first else 1):
            return new, first  # all rows but one: shapes that join leave nothing else to be cut
    return None


@dataclass(frozen=True)
class _Carries:
    """How each carry of a scan is known, the counters' steps, and an order in which sequences can be
    computed, those that need one another's past together. Of windows, the carries that keep their last rows,
    `body` gives the new row in place of the next value, and `windows` tells whether it comes first."""

    body: Jaxpr
    windows: Mapping[int, bool]
    kinds: tuple[str, ...]
    steps: tuple[Any, ...]
    order: tuple[tuple[int, ...], ...]
    recurrent: frozenset[tuple[int, ...]]


def _classify(body: Jaxpr, n_consts: int, n_carry: int) -> _Carries:
    own = list(zip(body.invars[n_consts:], body.outvars[:n_carry], strict=False))
    rows = {j: found for j, pair in enumerate(own) if (found := _pushed(body, *pair)) is not None}
    outvars = [rows[j][0] if j in rows else v for j, v in enumerate(body.outvars)]
    pushed = make_jaxpr_like(body, body.constvars, body.invars, outvars, body.eqns)
    found = _ordered(pushed, {j: r[1] for j, r in rows.items()}, n_consts, n_carry)
    # a window of what is computed from it is a recurrence like any other
    return (
        _ordered(body, {}, n_consts, n_carry) if any(j in rows for g in found.recurrent for j in g) else found
    )


def _ordered(body: Jaxpr, windows: Mapping[int, bool], n_consts: int, n_carry: int) -> _Carries:
    kinds, steps, needs = [], [], []
    for j in range(n_carry):
        carry_in, carry_out = body.invars[n_consts + j], body.outvars[j]
        step = _counter_step(body, carry_in, carry_out)
        kind = _INVARIANT if carry_out is carry_in else _COUNTER if step is not None else _SEQUENCE
        kinds.append(kind)
        steps.append(step)
        deps = {i - n_consts for i in _inputs_of(body, j) if n_consts <= i < n_consts + n_carry}
        needs.append(deps if kind == _SEQUENCE else set())
    order: list[tuple[int, ...]] = []
    recurrent = set()
    pending = [j for j in range(n_carry) if kinds[j] == _SEQUENCE]
    done = {j for j in range(n_carry) if kinds[j] != _SEQUENCE}
    while pending:
        groups = [(j,) for j in pending if needs[j] <= done]
        if not groups:  # those that need the fewest others, all of which need one another
            groups = [min((_closure(j, needs, done) for j in pending), key=len)]
            recurrent.update(groups)
        order += groups
        done |= {j for g in groups for j in g}
        pending = [j for j in pending if j not in done]
    return _Carries(body, windows, tuple(kinds), tuple(steps), tuple(order), frozenset(recurrent))


def _closure(start: int, needs: Sequence[set[int]], done: set[int]) -> tuple[int, ...]:
    """All carries that the next value of one needs, directly or not, but for those that are done."""
    found, stack = {start}, [start]
    while stack:
        new = needs[stack.pop()] - done - found
        found |= new
        stack += new
    return tuple(sorted(found))


def _side_by_side(init: Any, new: Any, first: bool, reverse: bool) -> tuple[Any, Any]:
    """The rows that a window holds when each step begins, and after the last one, from those that it starts
    with, the newest `first` or last, and those that come `new`, one a step."""
    rows, length = init.shape[0], new.shape[0]
    new = new[::-1] if reverse else new
    line = jnp.concatenate([init[::-1] if first else init, new.astype(init.dtype)])
    back = range(rows)[::-1] if first else range(rows)
    before = jnp.stack([line[r : r + length] for r in back], axis=1)
    last = line[length:]
    return before[::-1] if reverse else before, last[::-1] if first else last


def descan(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """A program equal to the scan `eqn` that loops over true recurrences only; None where `eqn` is one."""
    if not of_kind(eqn, SCANS):
        return None
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    n_consts, n_carry = scan_inputs(eqn.params)
    length, reverse = eqn.params["length"], eqn.params["reverse"]
    if length == 0 or closed.jaxpr.effects:
        return None
    carries = _classify(closed.jaxpr, n_consts, n_carry)
    kinds, steps = carries.kinds, carries.steps
    own = set(closed.jaxpr.invars[n_consts : n_consts + n_carry])
    told = all(not isinstance(v, Literal) and v in own for v in closed.jaxpr.outvars[n_carry:])
    if told and carries.recurrent == {tuple(range(n_carry))}:
        return None

    def outputs(positions: Sequence[int]) -> Any:
        body, _ = jaxpr_outputs(carries.body, positions, keep_inputs=True)
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
                return [jnp.broadcast_to(v, (length, *jnp.shape(v))) for v in one]  # numbers, too
            fn = jax.vmap(outputs(positions), in_axes=in_axes, out_axes=0, axis_size=length)
            return fn(*consts, *before, *xs)

        def recurrence(group: tuple[int, ...]) -> None:
            """The values of carries that need their own past, by a scan over these alone."""
            along = [j for j in range(n_carry) if axes[j] == 0]
            step = outputs(group)

            def turn(now: Any, at: Any) -> tuple[Any, Any]:
                known = list(before)
                for j, value in [*zip(along, at[0], strict=True), *zip(group, now, strict=True)]:
                    known[j] = value
                return tuple(step(*consts, *known, *at[1])), now

            sequences = tuple(before[j] for j in along), tuple(xs)
            start = tuple(init[j] for j in group)
            ends, values = lax.scan(turn, start, sequences, length=length, reverse=reverse)
            for j, end, value in zip(group, ends, values, strict=True):
                last[j], before[j], axes[j] = end, value, 0

        for group in carries.order:
            if group in carries.recurrent:
                recurrence(group)
                continue
            (j,) = group
            (after,) = batched([j])
            if j in carries.windows:
                before[j], last[j] = _side_by_side(init[j], after[:, 0], carries.windows[j], reverse)
                axes[j] = 0
                continue
            head = init[j][None].astype(after.dtype)
            before[j] = jnp.concatenate([after[1:], head]) if reverse else jnp.concatenate([head, after[:-1]])
            last[j] = after[0] if reverse else after[-1]
            axes[j] = 0
        n_out = len(closed.jaxpr.outvars)
        ys = list(batched(range(n_carry, n_out))) if n_out > n_carry else []
        return [*last, *ys]

    return traced(mapped, eqn.invars)
