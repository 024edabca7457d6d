"""Turn a `scan` into a map over time where its carry is known without running the loop.

A hidden Markov model written with `numpyro.contrib.control_flow.scan` carries last step's state, and with
the latent values given as inputs that state is simply a shifted input. So each carry that resolves to an
input, a constant or a counter is replaced by the whole sequence of its values, and the body is batched. One
that is pushed along (`concatenate([new, last[:-1]])`, `stack([new, last[0]])`: the last values, as seasons
and lags have them) is a window that moves over all that were pushed.
Carries that depend on their own past through arithmetic (`caught = caught | y`) are computed by a scan of
their own, as small as it can be; all else is batched around it.
"""

from collections.abc import Sequence
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
from gibbsite.programs.jaxpr.primitives import (
    ADDS,
    IN_ORDER,
    JOINS,
    SCANS,
    SLICES,
    SPREADS,
    STACKS,
    of_kind,
)
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.passes.replaced import traced

_INVARIANT, _COUNTER, _SEQUENCE, _WINDOW = "invariant", "counter", "sequence", "window"


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


@dataclass(frozen=True)
class _Pushed:
    """What is pushed into a window: a variable of the body, its width along an axis of the carry, whether it
    comes in at the front, and whether it has that axis, or is stacked upon the others."""

    fresh: Any
    axis: int
    width: int
    front: bool
    stacked: bool


def _pushed(body: Jaxpr, carry_in: Any, carry_out: Any) -> _Pushed | None:
    """How `carry_out` is `carry_in` pushed along by something else, else None: what is kept is one slice of
    it (`last[:-1]`), or one after another (`last[0], last[1]`)."""
    made = made_by(body)
    eqn = None if isinstance(carry_out, Literal) else made.get(carry_out)
    if eqn is None or not of_kind(eqn, JOINS, STACKS) or len(eqn.invars) < 2:
        return None
    stacked = of_kind(eqn, STACKS)
    axis = eqn.params.get("axis" if stacked else "dimension")
    if axis is None:
        return None
    first, last = eqn.invars[0], eqn.invars[-1]
    for fresh, kept, front in ((first, eqn.invars[1:], True), (last, eqn.invars[:-1], False)):
        width = 1 if stacked else fresh.aval.shape[axis]
        start = 0 if front else width
        at: int | None = start
        for piece in kept:
            cut = _cut(made, piece, carry_in, axis)
            at = cut[1] if cut is not None and cut[0] == at else None
        if at == start + carry_in.aval.shape[axis] - width and not isinstance(fresh, Literal):
            return _Pushed(fresh, axis, width, front, stacked)
    return None


def _cut(made: Any, piece: Any, whole: Any, axis: int) -> tuple[int, int] | None:
    """From where to where along an axis a piece is of a whole, of which it has all else; None of others."""

    def maker(atom: Any) -> JaxprEqn | None:
        return None if isinstance(atom, Literal) else made.get(atom)

    eqn = maker(piece)
    while eqn is not None and of_kind(eqn, IN_ORDER, SPREADS):
        if eqn.invars[0].aval.size != eqn.outvars[0].aval.size:
            return None
        eqn = maker(eqn.invars[0])
    if eqn is None or not of_kind(eqn, SLICES) or eqn.invars[0] is not whole:
        return None
    if {*(eqn.params["strides"] or (1,))} != {1}:
        return None
    cut = [*zip(eqn.params["start_indices"], eqn.params["limit_indices"], strict=True)]
    rest = [c == (0, n) for a, (c, n) in enumerate(zip(cut, whole.aval.shape, strict=True)) if a != axis]
    return cut[axis] if all(rest) else None


@dataclass(frozen=True)
class _Carries:
    """How each carry of a scan is known, the counters' steps and what windows are pushed by, and an order in
    which sequences can be computed, those that need one another's past together."""

    kinds: tuple[str, ...]
    steps: tuple[Any, ...]
    order: tuple[tuple[int, ...], ...]
    recurrent: frozenset[tuple[int, ...]]


def _classify(body: Jaxpr, n_consts: int, n_carry: int) -> _Carries:
    kinds, steps, needs = [], [], []
    for j in range(n_carry):
        carry_in, carry_out = body.invars[n_consts + j], body.outvars[j]
        step = _counter_step(body, carry_in, carry_out)
        kind = _INVARIANT if carry_out is carry_in else _COUNTER if step is not None else _SEQUENCE
        pushed = _pushed(body, carry_in, carry_out) if kind == _SEQUENCE else None
        reads = _inputs_of(body, j)
        if pushed is not None:
            by_pushed = _inputs_of(_with_outputs(body, [pushed.fresh]), len(body.outvars))
            if n_consts + j not in by_pushed:
                kind, step, reads = _WINDOW, pushed, by_pushed
        kinds.append(kind)
        steps.append(step)
        deps = {i - n_consts for i in reads if n_consts <= i < n_consts + n_carry}
        needs.append(deps if kind in (_SEQUENCE, _WINDOW) else set())
    order: list[tuple[int, ...]] = []
    recurrent = set()
    pending = [j for j in range(n_carry) if kinds[j] in (_SEQUENCE, _WINDOW)]
    done = {j for j in range(n_carry) if j not in pending}
    while pending:
        groups = [(j,) for j in pending if needs[j] <= done]
        if not groups:  # those that need the fewest others, all of which need one another
            groups = [min((_closure(j, needs, done) for j in pending), key=len)]
            recurrent.update(groups)
        order += groups
        done |= {j for g in groups for j in g}
        pending = [j for j in pending if j not in done]
    return _Carries(tuple(kinds), tuple(steps), tuple(order), frozenset(recurrent))


def _with_outputs(body: Jaxpr, more: Sequence[Any]) -> Jaxpr:
    return make_jaxpr_like(body, body.constvars, body.invars, [*body.outvars, *more], body.eqns)


def _closure(start: int, needs: Sequence[set[int]], done: set[int]) -> tuple[int, ...]:
    """All carries that the next value of one needs, directly or not, but for those that are done."""
    found, stack = {start}, [start]
    while stack:
        new = needs[stack.pop()] - done - found
        found |= new
        stack += new
    return tuple(sorted(found))


def _windows(pushed: _Pushed, init: Any, fresh: Any, reverse: bool) -> tuple[Any, Any]:
    """What the carry is before each step, and after the last, where `fresh` is pushed into it in turn."""
    fresh = fresh[::-1] if reverse else fresh
    fresh = jnp.expand_dims(fresh, pushed.axis + 1) if pushed.stacked else fresh
    size, end = init.shape[pushed.axis], len(fresh) * pushed.width
    own, blocks = jnp.moveaxis(init, pushed.axis, 0), jnp.moveaxis(fresh, pushed.axis + 1, 1)
    if pushed.front:  # the newest last: what comes in at the front is read from the end
        own, blocks = own[::-1], blocks[:, ::-1] if pushed.width > 1 else blocks
    line = jnp.concatenate([own.astype(fresh.dtype), blocks.reshape(end, *own.shape[1:])])
    back = range(size)[::-1] if pushed.front else range(size)
    # side by side, not gathered: each is the sequence itself, some steps later
    before = jnp.stack([line[r : r + end : pushed.width] for r in back], axis=pushed.axis + 1)
    last = jnp.moveaxis(line[end:][::-1] if pushed.front else line[end:], 0, pushed.axis)
    return before[::-1] if reverse else before, last


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

    windows = {j: step for j, step in enumerate(steps) if kinds[j] == _WINDOW}
    n_out = len(closed.jaxpr.outvars)
    whole = _with_outputs(closed.jaxpr, [w.fresh for w in windows.values()])

    def outputs(positions: Sequence[int]) -> Any:
        body, _ = jaxpr_outputs(whole, positions, keep_inputs=True)
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
            if j in windows:
                (fresh,) = batched([n_out + [*windows].index(j)])
                before[j], last[j] = _windows(windows[j], init[j], fresh, reverse)
                axes[j] = 0
                continue
            (after,) = batched([j])
            head = init[j][None].astype(after.dtype)
            before[j] = jnp.concatenate([after[1:], head]) if reverse else jnp.concatenate([head, after[:-1]])
            last[j] = after[0] if reverse else after[-1]
            axes[j] = 0
        ys = list(batched(range(n_carry, n_out))) if n_out > n_carry else []
        return [*last, *ys]

    return traced(mapped, eqn.invars)
