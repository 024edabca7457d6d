"""The rewritings of single equations, in the order in which an equation is offered to them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    Var,
    closed_call_body,
    only_by_its_own_slope,
    platform_default,
)
from gibbsite.programs.jaxpr.primitives import BARRIERS, BRANCHES, GATHERS, PADS, SCATTERS, STACKS, of_kind
from gibbsite.programs.passes.descan import descan
from gibbsite.programs.passes.replaced import jaxpr_of_parts, traced

# Values written into an array at places that no latent decides, as what they are: a join or a choice.
#
# Filling in what is missing (`x.at[where].set(latent)`) and fixing an element (`mu.at[0].set(0.0)`) are
# scatters, `jnp.pad` is a primitive of its own. As concatenations where a box is written, and else as a
# choice between the array and a gather from what is written, they are read by every table that reads those.


_MOST = 2**20
"""Elements of an array whose written places are looked up when the program is analysed."""


def written(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """A scatter that sets values at known places, or at places read off data, without a scatter; None for
    other equations, and where nothing is won: no latent is written, or into no latent."""
    if not of_kind(eqn, SCATTERS) or all(map(known.free, eqn.invars)):
        return None
    array, at, values = eqn.invars
    indices = known.value(at)
    if indices is None and not known.free(at):
        return None
    shape, dtype = _of(array)
    new, _ = _of(values)
    if not np.prod(new) or not np.prod(shape) or not isinstance(dtype, np.dtype):
        return None
    if indices is None or np.prod(shape) > _MOST:
        return traced(lambda x, at, v: _chosen(x, v, _sources(eqn, at)), eqn.invars)
    with jax.ensure_compile_time_eval():
        source = np.asarray(_sources(eqn, jnp.asarray(indices)))
    if (source < 0).all():
        return traced(lambda x, at, v: x, eqn.invars)
    box = _box(source)
    if box is not None:
        return traced(lambda x, at, v: _joined(x, v, box), eqn.invars)
    return traced(lambda x, at, v: _chosen(x, v, source), eqn.invars)


def padded(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """A padding as a concatenation; None for other equations, and where no latent is padded."""
    if not of_kind(eqn, PADS) or all(map(known.free, eqn.invars)):
        return None
    config = eqn.params["padding_config"]
    if any(low < 0 or high < 0 or interior for low, high, interior in config):
        return None
    if not isinstance(_of(eqn.invars[0])[1], np.dtype):
        return None

    def joined(x: Any, fill: Any) -> Any:
        for axis, (low, high, _) in enumerate(config):
            beside = [jnp.full((*x.shape[:axis], n, *x.shape[axis + 1 :]), fill) for n in (low, high)]
            parts = [p for p in (beside[0], x, beside[1]) if p.shape[axis]]
            x = lax.concatenate(parts, axis) if len(parts) > 1 else x
        return x

    return traced(joined, eqn.invars)


def _of(atom: Any) -> tuple[tuple[int, ...], Any]:
    return tuple(atom.aval.shape), atom.aval.dtype


def _sources(eqn: JaxprEqn, indices: Any) -> Any:
    """For every element of the array the number of the value that is written there, or -1; as XLA writes."""
    (shape, _), (new, _), p = _of(eqn.invars[0]), _of(eqn.invars[2]), eqn.params
    numbers = jnp.arange(int(np.prod(new)), dtype=jnp.int32).reshape(new)
    return lax.scatter(
        jnp.full(shape, -1, jnp.int32),
        indices,
        numbers,
        p["dimension_numbers"],
        indices_are_sorted=p["indices_are_sorted"],
        unique_indices=p["unique_indices"],
        mode=p["mode"],
    )


def _box(source: np.ndarray) -> tuple[tuple[int, int], ...] | None:
    """The box that all values are written to in their order, per axis its first place and the one after its
    last; None where it is none."""
    places = np.nonzero(source >= 0)
    box = tuple((int(p.min()), int(p.max()) + 1) for p in places)
    inside = source[tuple(slice(*b) for b in box)]
    return box if np.array_equal(inside.ravel(), np.arange(inside.size)) else None


def _joined(x: Any, values: Any, box: tuple[tuple[int, int], ...]) -> Any:
    """`x` with `values` in the box: what stands before it, they, and what stands behind, axis by axis."""
    sizes = tuple(high - low for low, high in box)
    if int(np.prod(sizes)) != values.size:  # some were dropped
        values = jnp.ravel(values)[: int(np.prod(sizes))]
    out = jnp.reshape(values, sizes).astype(x.dtype)
    for axis in reversed(range(x.ndim)):
        low, high = box[axis]
        if (low, high) == (0, x.shape[axis]):
            continue
        beside = lax.slice(
            x,
            [b if a < axis else 0 for a, (b, _) in enumerate(box)],
            [b if a < axis else n for a, ((_, b), n) in enumerate(zip(box, x.shape, strict=True))],
        )
        parts = [lax.slice_in_dim(beside, 0, low, axis=axis), out]
        parts.append(lax.slice_in_dim(beside, high, x.shape[axis], axis=axis))
        out = lax.concatenate([p for p in parts if p.shape[axis]], axis)
    return out


def _chosen(x: Any, values: Any, source: Any) -> Any:
    """Where something is written that, else `x`."""
    array: Any = np if isinstance(source, np.ndarray) else jnp
    places = array.unravel_index(array.maximum(source, 0), values.shape) if values.ndim else ()
    # a place that takes nothing reads a neighbour's value, or the first
    read = values.at[tuple(places)].get(mode="clip", wrap_negative_indices=False)
    return jnp.where(source >= 0, read.astype(x.dtype), x)


def in_bounds(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """`where(the index is in range, gather at the nearest index in range, fill_value)` in place of a gather
    that gives a filling value for an index out of range, as XLA computes it; None for other equations.

    So no reader of gathers can take an element that is not read for the last one of the array.
    """
    if not of_kind(eqn, GATHERS) or eqn.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
        return None
    if not isinstance(eqn.invars[0].aval.dtype, np.dtype):
        return None
    specs = tuple((tuple(a.aval.shape), np.dtype(a.aval.dtype)) for a in eqn.invars)
    p = eqn.params
    flags = (p["unique_indices"], p["indices_are_sorted"])
    out = tuple(eqn.outvars[0].aval.shape)
    fill = _fill_value(p["fill_value"], specs[0][1])
    return _rewritten(specs, p["dimension_numbers"], tuple(p["slice_sizes"]), flags, fill.tobytes(), out)


@lru_cache(maxsize=512)
def _rewritten(
    specs: Any, dims: Any, sizes: tuple[int, ...], flags: tuple[bool, bool], fill: bytes, out: tuple[int, ...]
) -> ClosedJaxpr:
    (shape, dtype), indexed = specs
    room = np.array([shape[d] - sizes[d] for d in dims.start_index_map], np.int64)
    batch = [a for a in range(len(out)) if a not in dims.offset_dims]
    value = np.frombuffer(fill, dtype)[0]

    def chosen(operand: Any, indices: Any) -> Any:
        limit = jnp.asarray(np.minimum(room, np.iinfo(indices.dtype).max), indices.dtype)
        inside = jnp.all((indices >= 0) & (indices <= limit), axis=-1)
        picked = lax.gather(
            operand,
            indices,
            dims,
            sizes,
            unique_indices=flags[0],
            indices_are_sorted=flags[1],
            mode=lax.GatherScatterMode.CLIP,
        )
        inside = lax.broadcast_in_dim(inside, out, batch)
        return lax.select(inside, picked, jnp.full(out, value, dtype))

    traced: Any = jax.make_jaxpr(chosen)(*[jax.ShapeDtypeStruct(*s) for s in (specs[0], indexed)])
    return traced


def _fill_value(given: Any, dtype: Any) -> np.ndarray:
    """What JAX fills with: NaN for inexact numbers, the largest or most negative integer, True."""
    if given is not None:
        return np.asarray(given, dtype)
    if np.issubdtype(dtype, np.inexact) or jnp.issubdtype(dtype, jnp.inexact):
        return np.asarray(np.nan, dtype)
    if dtype.kind == "b":
        return np.asarray(True)
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if dtype.kind == "i" else limits.max, dtype)


def inlined(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """What a call runs (`jit`, custom derivatives, `remat`; not what has gradients by a rule
    of its own alone), or the usual branch of a choice by platform."""
    body = closed_call_body(eqn)
    if body is not None:
        return None if only_by_its_own_slope(eqn) else body
    if (portable := platform_default(eqn)) is None:
        return None
    jaxpr, choice = portable.jaxpr, Var(eqn.invars[0].aval)
    taken = jaxpr_of_parts(jaxpr.constvars, [choice, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns)
    return ClosedJaxpr(taken, portable.consts)


def unstacked(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """`jnp.stack`, a primitive of its own in recent versions of JAX, as a concatenation."""
    if not of_kind(eqn, STACKS):
        return None
    axis = eqn.params["axis"]
    return traced(lambda *xs: lax.concatenate([lax.expand_dims(x, [axis]) for x in xs], axis), eqn.invars)


def one_each(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """A barrier of several arrays as one of each: it hands on every one of them, none for another."""
    if not of_kind(eqn, BARRIERS) or len(eqn.invars) < 2:
        return None
    return traced(lambda *xs: [lax.optimization_barrier(x) for x in xs], eqn.invars)


def shared(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """A choice between branches that give the same for some of its outputs, as `cond` around what is observed
    at one datum: those are handed on, and no choice."""
    if not of_kind(eqn, BRANCHES):
        return None
    branches = eqn.params["branches"]
    alike = [_given_by_all(branches, i) for i in range(len(eqn.outvars))]
    if all(a is None for a in alike):
        return None
    operands = [Var(a.aval) for a in eqn.invars]
    fresh = [Var(v.aval) for v in eqn.outvars]
    outs = [
        v if a is None else a if isinstance(a, Literal) else operands[1 + a]
        for v, a in zip(fresh, alike, strict=True)
    ]
    rest = [i for i, a in enumerate(alike) if a is None]
    params = {**eqn.params, "branches": tuple(_only(b, rest) for b in branches)}
    made = [eqn.replace(invars=operands, outvars=[fresh[i] for i in rest], params=params)] if rest else []
    return ClosedJaxpr(jaxpr_of_parts([], operands, outs, made), [])


def _given_by_all(branches: Any, output: int) -> Any:
    """The literal, or the place of the operand, that is the output of every branch; None for others."""
    found = [_origin(b.jaxpr, b.jaxpr.outvars[output]) for b in branches]
    first = found[0]
    if isinstance(first, Literal):
        same = all(isinstance(a, Literal) and np.array_equal(a.val, first.val) for a in found)
        return first if same and all(a.aval == first.aval for a in found) else None
    places = [
        b.jaxpr.invars.index(a) if a is not None and a in b.jaxpr.invars else None
        for a, b in zip(found, branches, strict=True)
    ]
    return places[0] if len(set(places)) == 1 else None


def _origin(jaxpr: Any, atom: Any) -> Any:
    """What an atom is, through choices between branches that give the same."""
    made = None if isinstance(atom, Literal) else next((e for e in jaxpr.eqns if atom in e.outvars), None)
    if made is None or not of_kind(made, BRANCHES):
        return atom
    alike = _given_by_all(made.params["branches"], made.outvars.index(atom))
    return alike if alike is None or isinstance(alike, Literal) else _origin(jaxpr, made.invars[1 + alike])


def _only(branch: ClosedJaxpr, outputs: list[int]) -> ClosedJaxpr:
    jaxpr = branch.jaxpr
    kept = [jaxpr.outvars[i] for i in outputs]
    return ClosedJaxpr(jaxpr_of_parts(jaxpr.constvars, jaxpr.invars, kept, jaxpr.eqns), branch.consts)


@dataclass(frozen=True)
class Local:
    """A rewriting of single equations: `body` gives a program of their operands that computes the same, or
    None where an equation stays as it is; beside the equation it gets the `Builder`, whose `value` and `free`
    tell of its operands. `does` says it in words."""

    name: str
    does: str
    body: Callable[[JaxprEqn, Any], ClosedJaxpr | None]


LOCAL = (
    Local("inline", "calls become what they run", inlined),
    Local("descan", "loops over time become maps over time, but for true recurrences", descan),
    Local("unstack", "stacks become concatenations", unstacked),
    Local("fill", "gathers that fill become gathers in bounds and a choice", in_bounds),
    Local("scatter", "values written at places that no latent decides become joins or choices", written),
    Local("pad", "paddings become joins", padded),
    Local("shared", "what all branches of a choice give alike is no choice", shared),
    Local("barriers", "barriers of several arrays become barriers of one", one_each),
)
