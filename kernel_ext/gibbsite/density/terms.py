"""The log density as a sum of terms, recovered by walking back from each log probability.

Addition, subtraction, negation, sums, broadcasts, reshapes, concatenation and multiplication by anything
free of latents are linear, so they pass through; what remains is a list of arrays whose un-summed axes
survive. `.to_event(1)`, `factor("f", jnp.sum(…))` and a plate all decompose alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.programs.domains.degree import linear_in
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn, Literal, bind_equation
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.maps.access import Read, Shape, of_site
from gibbsite.programs.maps.provenance import Provenance


@dataclass(frozen=True)
class Weight:
    """A latent-free coefficient array, of an array's rank and size 1 where it is constant.

    `scalar` holds its value where that is one known number.
    """

    shape: Shape
    scalar: float | None
    value: Callable[[Read], Any] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Term:
    """`sum(weight * array)`: one additive part of the log density, owed to the site or factor `origin`.

    Of a `bounded` one, others rule out what is beyond a support. There it may be anything, as a factorial of
    a total below 0 is; NaN and plus infinity count as 0, so that sums are what the others make of them.
    """

    origin: str
    atom: Any
    shape: Shape
    weight: Weight
    bounded: bool = False

    def contribution(self, value: Any, read: Read) -> Any:
        """`weight * value`, with `0 * inf` taken as 0 (a masked-out element contributes nothing)."""
        if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            value = jnp.asarray(value, jnp.result_type(float))  # sums of narrow integers would wrap around
        if self.weight.scalar is not None:
            found = value if self.weight.scalar == 1 else self.weight.scalar * value
        else:
            w = self.weight.value(read)
            found = jnp.where(w == 0, 0, w * value)
        return jnp.where(found < jnp.inf, found, 0) if self.bounded else found

    def at(self, ev: Evaluator) -> Any:
        """`contribution` at the values of an evaluator, constant axes at size 1."""
        return self.contribution(ev.lazy(self.atom), ev.full)


def summed(terms: Iterable[Term], ev: Evaluator, start: Any = None, lazily: bool = False) -> Any:
    """The sum of terms at the values of an evaluator, added to `start` one after another: a scalar. What is
    constant along axes is multiplied out before it is summed, unless `lazily` after."""
    out = jnp.zeros(()) if start is None else start
    for term in terms:
        value = term.at(ev) if lazily else term.contribution(ev.full(term.atom), ev.full)
        out = out + jnp.sum(jnp.broadcast_to(value, term.shape))
    return out


def levels(terms: Iterable[Term], ev: Evaluator) -> list[Any]:
    """What is taken off the elements of each term wherever these are compared: what they are at the values of
    an evaluator, and nothing where that is not finite."""
    values = (term.at(ev) for term in terms)
    return [jnp.where(jnp.isfinite(v), v, 0) for v in values]


def summed_beyond(terms: Iterable[Term], ev: Evaluator, less: Iterable[Any]) -> Any:
    """The sum of terms at the values of an evaluator, a scalar, each `less` its level elsewhere: of many
    large numbers what they differ by, before it is rounded away."""
    out = jnp.zeros(())
    for term, off in zip(terms, less, strict=True):
        out = out + jnp.sum(jnp.broadcast_to(term.at(ev) - off, term.shape))
    return out


def number(rank: int, x: float) -> Weight:
    """The same known coefficient everywhere."""
    return Weight((1,) * rank, x, lambda read: jnp.full((1,) * rank, x, jnp.result_type(float)))


def _negated(w: Weight) -> Weight:
    if w.scalar is not None:
        return number(len(w.shape), -w.scalar)
    return Weight(w.shape, None, lambda read: -w.value(read))


def _times(w: Weight, other: Any, shape: Shape, invert: bool = False) -> Weight:
    """`w * other` (or `w / other`), where the atom `other` is free of latents; what is left out remains so,
    also where the other is infinite: `where(y > 0, z * log(y), 0)` is 0 at y = 0."""
    if isinstance(other, Literal) and np.ndim(other.val) == 0 and w.scalar is not None:
        c = float(other.val)
        return number(len(shape), w.scalar / c if invert else w.scalar * c)
    o_shape = np.shape(other.val) if isinstance(other, Literal) else tuple(other.aval.shape)
    padded = o_shape if o_shape else (1,) * len(shape)

    def value(read: Read) -> Any:
        o = jnp.reshape(jnp.asarray(read(other)), padded).astype(jnp.result_type(float))
        before = w.value(read)
        return jnp.where(before == 0, 0, before / o if invert else before * o)

    return Weight(tuple(np.broadcast_shapes(w.shape, padded)), None, value)


def _where(w: Weight, which: Any, case: int, shape: Shape) -> Weight:
    """`w` where the latent-free selector `which` picks `case`, else 0."""
    s_shape = tuple(which.aval.shape) or (1,) * len(shape)

    def value(read: Read) -> Any:
        chosen = jnp.reshape(jnp.asarray(read(which)).astype(jnp.int32), s_shape) == case
        return jnp.where(chosen, w.value(read), 0.0)

    return Weight(tuple(np.broadcast_shapes(w.shape, s_shape)), None, value)


def _summed_to(w: Weight, out: Shape, operand: Shape) -> Weight:
    """The weight of an operand that was broadcast (same rank, or rank 0) to `out` before weighting."""
    if operand == out:
        return w
    gone = tuple(a for a in range(len(out)) if not operand or (operand[a] == 1 and out[a] != 1))
    copies = int(np.prod([out[a] for a in gone if w.shape[a] == 1], dtype=np.int64))
    kept = tuple(1 if a in gone else w.shape[a] for a in range(len(out)))
    shape = kept if operand else ()
    if w.scalar is not None:
        return number(len(shape), w.scalar * copies)

    def value(read: Read) -> Any:
        v = jnp.sum(w.value(read), axis=tuple(a for a in gone if w.shape[a] != 1), keepdims=True) * copies
        return jnp.reshape(v, shape)

    return Weight(shape, None, value)


def _broadcast_back(w: Weight, eqn: JaxprEqn, out: Shape, operand: Shape) -> Weight:
    dims = eqn.params["broadcast_dimensions"]
    aligned = tuple(operand[dims.index(a)] if a in dims else 1 for a in range(len(out)))
    summed = _summed_to(w, out, aligned) if out else w
    shape = tuple(summed.shape[d] for d in dims)
    if summed.scalar is not None:
        return number(len(shape), summed.scalar)
    return Weight(shape, None, lambda read: jnp.reshape(summed.value(read), shape))


def _sum_back(w: Weight, axes: tuple[int, ...], operand: Shape) -> Weight:
    if w.scalar is not None:
        return number(len(operand), w.scalar)
    gone = {a % len(operand) for a in axes}
    kept = iter(w.shape)
    shape = tuple(1 if a in gone else next(kept) for a in range(len(operand)))
    return Weight(shape, None, lambda read: jnp.reshape(w.value(read), shape))


def _piece(w: Weight, axis: int, start: int, size: int) -> Weight:
    if w.scalar is not None or w.shape[axis] == 1:
        return w
    shape = tuple(size if a == axis else n for a, n in enumerate(w.shape))
    return Weight(
        shape, None, lambda read: jax.lax.slice_in_dim(w.value(read), start, start + size, axis=axis)
    )


def _without_holes(x: Any) -> tuple[Any, Any]:
    """An operand with zeros for what is no number, and ones where that is; None for the one that is asked."""
    if x is None or not jnp.issubdtype(x.dtype, jnp.inexact):
        return x, None if x is None else jnp.zeros_like(x)
    finite = jnp.isfinite(x)
    return jnp.where(finite, x, 0), jnp.where(finite, 0, 1).astype(x.dtype)


def _transposed(w: Weight, eqn: JaxprEqn, at: int, out: Shape, operand: Shape) -> Weight:
    """The weight before any linear operation, by transposing it."""
    if w.scalar is not None and op.of_kind(eqn, op.REARRANGES):
        return number(len(operand), w.scalar)

    def value(read: Read) -> Any:
        others = [None if i == at else jnp.asarray(read(a)) for i, a in enumerate(eqn.invars)]
        # weights of integers are real, and a product of mixed types converts its operands
        kind = eqn.outvars[0].aval.dtype
        kind = kind if jnp.issubdtype(kind, jnp.floating) else jnp.result_type(float)
        spec = jax.ShapeDtypeStruct(operand, kind)

        def back(others: Sequence[Any], x: Any) -> Any:
            def linear(x: Any) -> Any:
                return bind_equation(eqn, [x if o is None else o for o in others])[0]

            return jax.linear_transpose(linear, spec)(x)[0]

        full = jnp.broadcast_to(w.value(read), out).astype(kind)
        if w.scalar is not None or len(others) < 2:
            return back(others, full)
        # what is left out remains so, also rows with holes
        filled, holes = zip(*(_without_holes(o) for o in others), strict=True)
        met = back(holes, (full != 0).astype(kind)) != 0
        return jnp.where(met, jnp.nan, back(filled, full))

    return Weight(operand, None, value)


class Decomposition:
    """Walks back from log-probability outputs to their terms."""

    def __init__(self, closed: ClosedJaxpr, provenance: Provenance):
        self.provenance = provenance
        self.producer = made_by(closed.jaxpr)

    def terms(self, origin: str, atom: Any) -> Iterator[Term]:
        """The terms of the sum of all elements of `atom`."""
        if isinstance(atom, Literal):
            return
        stack = [(atom, number(len(atom.aval.shape), 1.0))]
        while stack:
            atom, weight = stack.pop()
            if not self.provenance.latents(atom):
                continue
            eqn = self.producer.get(atom)
            parts = None if eqn is None else self._linear(eqn, weight)
            if parts is None:
                yield Term(origin, atom, tuple(atom.aval.shape), weight)
            else:
                stack += parts

    def _free(self, atom: Any) -> bool:
        return not self.provenance.latents(atom)

    def _held(self, atom: Any) -> bool:
        """Whether an operand has no derivative, as the largest element has that is taken off before a
        logarithm of sums and added after: what the derivative of the rest is then stays with it."""
        eqn = None if isinstance(atom, Literal) else self.producer.get(atom)
        while eqn is not None and op.of_kind(eqn, op.REARRANGES, op.SPREADS, op.CONVERTS):
            eqn = self.producer.get(eqn.invars[0])
        return eqn is not None and op.of_kind(eqn, op.STOPS)

    def _linear(self, eqn: JaxprEqn, w: Weight) -> list[tuple[Any, Weight]] | None:
        """The operands that the equation is linear in, with their weights; None where it is not linear."""
        positions = linear_in(eqn, self._free)
        if positions is None or any(self._held(eqn.invars[i]) for i in positions):
            return None
        out, sum_of = tuple(eqn.outvars[0].aval.shape), op.signs(eqn)

        def back(at: int, weight: Weight) -> tuple[Any, Weight]:
            atom = eqn.invars[at]
            return atom, _summed_to(weight, out, tuple(atom.aval.shape))

        if sum_of:
            return [back(i, _negated(w) if sum_of[i] < 0 else w) for i in positions]
        if op.of_kind(eqn, op.MULTIPLIES):
            return [back(i, _times(w, eqn.invars[1 - i], out)) for i in positions]
        if op.of_kind(eqn, op.DIVIDES):
            return [back(i, _times(w, eqn.invars[1], out, invert=True)) for i in positions]
        if op.of_kind(eqn, op.SELECTS):
            return [back(i, _where(w, eqn.invars[0], i - 1, out)) for i in positions]
        return [(eqn.invars[i], self._before(eqn, i, w, out)) for i in positions]

    def _before(self, eqn: JaxprEqn, at: int, w: Weight, out: Shape) -> Weight:
        """The weight of an operand of an equation that changes shapes at most."""
        operand = tuple(eqn.invars[at].aval.shape)
        if op.of_kind(eqn, op.CONVERTS, op.PASSES):
            return w
        if op.of_kind(eqn, op.TOTALS):
            return _sum_back(w, eqn.params["axes"], operand)
        if op.of_kind(eqn, op.SPREADS):
            return _broadcast_back(w, eqn, out, operand)
        if op.of_kind(eqn, op.JOINS):
            axis = eqn.params["dimension"]
            start = sum(a.aval.shape[axis] for a in eqn.invars[:at])
            return _piece(w, axis, start, operand[axis])
        return _transposed(w, eqn, at, out, operand)


def whole_term(origin: str, atom: Any, maps: Provenance) -> tuple[Term, ...]:
    """An output as one term; none where no latent enters it."""
    if not maps.latents(atom):
        return ()
    shape = tuple(atom.aval.shape)
    return (Term(origin, atom, shape, number(len(shape), 1.0)),)


def bound_terms(
    walk_back: Decomposition, maps: Provenance, inside: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> tuple[Term, ...]:
    """The terms of the support indicators `inside` (by site) whose bounds move with a latent.

    `shapes` are those of the latent sites. An indicator that depends on nothing but its own site's same
    element is left out: a kernel draws no value outside a support that stands still.
    """

    def moves(name: str, atom: Any) -> bool:
        still = {name: of_site(shapes[name])} if name in shapes else {}
        return any(still.get(n) != accesses for n, accesses in maps[atom].items())

    return tuple(t for n, atom in inside.items() if moves(n, atom) for t in walk_back.terms(n, atom))
