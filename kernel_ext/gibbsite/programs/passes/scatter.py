"""Values written into an array at places that no latent decides, as what they are: a join or a choice.

Filling in what is missing (`x.at[where].set(latent)`) and fixing an element (`mu.at[0].set(0.0)`) are
scatters, `jnp.pad` is a primitive of its own. As concatenations where a box is written, and else as a choice
between the array and a gather from what is written, they are read by every table that reads those.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn
from gibbsite.programs.jaxpr.primitives import PADS, SCATTERS, of_kind
from gibbsite.programs.passes.parts import traced

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
