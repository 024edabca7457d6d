"""A sum times a latent number, as the sum of the products.

`b * (z[1:] == z[:-1]).sum()` is one number that reads all of `z`; the sum of `b * (z[1:] == z[:-1])` is the
same, element by element, each of which reads a pair. Sums that no latent multiplies are taken apart where
terms are found; here products, quotients and choices by latents are moved inside sums, and products of
vectors are written as sums: only where that tells elements of a site apart which the multiplier does not
read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from gibbsite.density.passes.program import Program
from gibbsite.programs.domains.degree import ADD, linear_in, wide
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    bind_equation,
)
from gibbsite.programs.jaxpr.primitives import of_kind
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.maps.access import Accesses, Whole
from gibbsite.programs.maps.provenance import Provenance
from gibbsite.programs.passes.flatten import Builder
from gibbsite.programs.passes.replaced import traced

_SHAPES = op.SPREADS | op.JOINS | op.CONTRACTS | op.REARRANGES
"""Linear in their operands, through which a number can be moved and an array cannot."""


@dataclass(frozen=True)
class _By:
    """What is still to be done to an array: multiply or divide it, keep it where a selector is `case`, or
    convert it. `by` is a variable of the array's rank, or a number; `how` is the equation that asks for it.
    """

    how: JaxprEqn
    kind: frozenset[str]
    by: Any = None
    case: int = 0

    def __call__(self, x: Any, by: Any = None) -> Any:
        if self.kind is op.CONVERTS:
            return x.astype(self.how.outvars[0].aval.dtype)
        by = jnp.broadcast_to(by, x.shape)
        if self.kind is op.SELECTS:
            cases = [jnp.zeros_like(x)] * (len(self.how.invars) - 1)
            return lax.select_n(by, *cases[: self.case], x, *cases[self.case + 1 :])
        return lax.mul(x, by) if self.kind is op.MULTIPLIES else lax.div(x, by)


def distributed(program: Program) -> Program:
    """A flat program with the sums beneath its log probabilities so written that they can be taken apart;
    `program` itself where nothing is won."""
    roots = list(program.arranged(range(len(program.closed.jaxpr.outvars)))["log_prob"].values())
    work = _Distribution(program.closed, program.maps)
    if not any(work.wins(program.closed.jaxpr.outvars[i]) for i in roots):
        return program
    return program.rewritten(work.done(roots))


class _Sums:
    """Where elements of a site are told apart within a sum, and not by the sum."""

    def __init__(self, closed: ClosedJaxpr, maps: Provenance):
        self.closed, self.maps = closed, maps
        self._producer = made_by(closed.jaxpr)
        self._sums: dict[Any, frozenset[str]] = {}

    def free(self, atom: Any) -> bool:
        """Whether an atom depends on no latent."""
        return not self.maps.latents(atom)

    def equation(self, atom: Any) -> JaxprEqn | None:
        """The equation that computes an atom from latents."""
        return None if self.free(atom) else self._producer.get(atom)

    def sums(self, atom: Any) -> frozenset[str]:
        """The sites whose elements are told apart within an atom."""
        if isinstance(atom, Literal):
            return frozenset()
        if atom not in self._sums:
            self._sums[atom] = self._found(atom)
        return self._sums[atom]

    def _found(self, atom: Any) -> frozenset[str]:
        eqn = self.equation(atom)
        if eqn is None:
            return frozenset()
        parts = linear_in(eqn, self.free)
        adds = parts is not None and of_kind(eqn, op.TOTALS, op.CONTRACTS, op.ADDS, op.SUBTRACTS)
        told = self._apart(eqn) if adds or products(eqn) else frozenset()
        inner = self.multiplied(eqn) if parts is None else parts
        return told.union(*(self.sums(eqn.invars[i]) for i in inner))

    def _apart(self, eqn: JaxprEqn) -> frozenset[str]:
        """The sites of which the operands read fewer elements than the result does."""
        out = self.maps[eqn.outvars[0]]
        found = set()
        for site, accesses in out.items():
            several = [m[site] for m in map(self.maps.__getitem__, eqn.invars) if site in m]
            if of_kind(eqn, ADD):
                fewer = len(several) > 1 and any(set(a) < set(accesses) for a in several)
            else:
                fewer = max(map(_open, several)) < _open(accesses)
            if fewer:
                found.add(site)
        return frozenset(found)

    def multiplied(self, eqn: JaxprEqn) -> list[int]:
        """The operands within which a product, quotient or choice by latents is better done."""
        if not of_kind(eqn, op.MULTIPLIES, op.DIVIDES, op.SELECTS):
            return []
        if not jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.floating):
            return []
        if of_kind(eqn, op.SELECTS):
            which = self.maps.latents(eqn.invars[0])
            live = [i for i, a in enumerate(eqn.invars) if i and not self.free(a)]
            return live if any(self.sums(eqn.invars[i]) - which for i in live) else []
        a, b = eqn.invars
        found = [0] if self.sums(a) - self.maps.latents(b) else []
        if of_kind(eqn, op.MULTIPLIES) and self.sums(b) - self.maps.latents(a):
            found.append(1)
        return found if len(found) == 1 else []  # of two sums neither

    def wins(self, root: Any) -> bool:
        """Whether anything beneath an output is better written otherwise."""
        stack, seen = [root], set()
        while stack:
            eqn = self.equation(atom := stack.pop())
            if eqn is None or atom in seen:
                continue
            seen.add(atom)
            parts = linear_in(eqn, self.free)
            if parts is None and (self.multiplied(eqn) or (products(eqn) and self._apart(eqn))):
                return True
            stack += [eqn.invars[i] for i in parts or ()]
        return False


def _open(accesses: Accesses) -> int:
    return max(sum(isinstance(c, Whole) for c in a.index) for a in accesses)


def products(eqn: JaxprEqn) -> bool:
    """Whether an equation is a product of vectors, or a batch of such."""
    if not of_kind(eqn, op.CONTRACTS):
        return False
    (left, _), (batch, _) = eqn.params["dimension_numbers"]
    dtype = eqn.outvars[0].aval.dtype
    summed = bool(left) and all(len(a.aval.shape) == len(left) + len(batch) for a in eqn.invars)
    return summed and (jnp.issubdtype(dtype, jnp.floating) or wide(dtype))


def _elements(eqn: JaxprEqn) -> Callable[[Any, Any], Any]:
    """What such a product sums over its last axes."""
    (over_a, over_b), (beside_a, beside_b) = eqn.params["dimension_numbers"]
    dtype = eqn.outvars[0].aval.dtype

    def each(a: Any, b: Any) -> Any:
        a = jnp.transpose(a, (*beside_a, *over_a)).astype(dtype)
        return lax.mul(a, jnp.transpose(b, (*beside_b, *over_b)).astype(dtype))

    return each


class _Distribution(_Sums):
    """A program with products moved inside sums."""

    def done(self, roots: Sequence[int]) -> ClosedJaxpr:
        """The program with the outputs `roots` written anew."""
        jaxpr = self.closed.jaxpr
        self.builder = Builder()
        self._env: dict[Any, Any] = {v: v for v in jaxpr.invars}
        self._written: dict[Any, Any] = {}
        for var, value in zip(jaxpr.constvars, self.closed.consts, strict=True):
            self._env[var] = self.builder.constant(var, value)
        for eqn in jaxpr.eqns:
            made = self.builder.equation(eqn, [self._same(a) for a in eqn.invars])
            self._env.update(zip(eqn.outvars, made, strict=True))
        outputs = [self._same(a) for a in jaxpr.outvars]
        for i in roots:
            outputs[i] = self._new(jaxpr.outvars[i], ())
        return self.builder.finished(jaxpr.invars, outputs)

    def _same(self, atom: Any) -> Any:
        return atom if isinstance(atom, Literal) else self._env[atom]

    def _emit(self, like: JaxprEqn, fn: Callable[..., Any], *operands: Any) -> Any:
        """`fn` of operands as equations, which stand at the line of `like`."""
        return self.builder.splice(self.builder.placed(traced(fn, operands), like), operands)[0]

    def _at(self, var: Any, left: Sequence[_By]) -> Any:
        """`left` done to a variable of the new program."""
        for by in left:
            var = self._emit(by.how, by, var, *([] if by.by is None else [by.by]))
        return var

    def _new(self, atom: Any, left: tuple[_By, ...]) -> Any:
        """`left` done to an atom of the program, first to last: inside its sums where it has any."""
        if isinstance(atom, Literal):
            return self._at(atom, left)
        key = (atom, *((id(by.how), by.kind, by.by, by.case) for by in left))
        if key not in self._written:
            self._written[key] = self._inside(atom, left)
        return self._written[key]

    def _inside(self, atom: Any, left: tuple[_By, ...]) -> Any:
        eqn = self.equation(atom)
        if eqn is None or (left and not self.sums(atom)):
            return self._at(self._same(atom), left)
        parts = linear_in(eqn, self.free)
        if parts is None:
            return self._nonlinear(eqn, atom, left)
        if any(by.by is not None and by.by.aval.shape for by in left):
            shape = eqn.outvars[0].aval.shape
            alike = of_kind(eqn, op.TOTALS) or all(eqn.invars[i].aval.shape == shape for i in parts)
            if of_kind(eqn, _SHAPES) or not alike:
                return self._at(self._same(atom), left)
        if left and of_kind(eqn, op.PASSES, op.CONVERTS):
            convert = () if of_kind(eqn, op.PASSES) else (_By(eqn, op.CONVERTS),)
            return self._new(eqn.invars[0], (*convert, *left))
        inner = left
        if of_kind(eqn, op.TOTALS):
            inner = tuple(self._kept(by, eqn.params["axes"]) for by in left)
        elif left and of_kind(eqn, op.CONTRACTS):  # of mixed types it converts, too
            inner = (_By(eqn, op.CONVERTS), *left)
        adds = range(len(eqn.invars)) if of_kind(eqn, ADD) else parts
        adds = range(1, len(eqn.invars)) if of_kind(eqn, op.SELECTS) else adds
        now = [self._new(a, inner) if i in adds else self._same(a) for i, a in enumerate(eqn.invars)]
        if all(n is o for n, o in zip(now, map(self._same, eqn.invars), strict=True)):
            return self._same(atom)
        return self._emit(eqn, lambda *xs: bind_equation(eqn, xs)[0], *now)

    def _nonlinear(self, eqn: JaxprEqn, atom: Any, left: tuple[_By, ...]) -> Any:
        if products(eqn) and self._apart(eqn):
            each = self._emit(eqn, _elements(eqn), *map(self._same, eqn.invars))
            rank, out = len(each.aval.shape), len(eqn.outvars[0].aval.shape)
            axes = tuple(range(out, rank))
            each = self._at(each, [self._kept(by, axes) for by in left])
            return self._emit(eqn, lambda x: jnp.sum(x, axes, dtype=x.dtype), each)
        sides = self.multiplied(eqn)
        if not sides:
            return self._at(self._same(atom), left)
        if of_kind(eqn, op.SELECTS):
            which = self._number(eqn.invars[0])
            cases = [(_By(eqn, op.SELECTS, which, i), a) for i, a in enumerate(eqn.invars[1:])]
            first, *more = [self._new(a, (by, *left)) for by, a in cases]
            for part in more:
                first = self._emit(eqn, lax.add, first, part)
            return first
        (side,) = sides
        kind = op.MULTIPLIES if of_kind(eqn, op.MULTIPLIES) else op.DIVIDES
        return self._new(eqn.invars[side], (_By(eqn, kind, self._number(eqn.invars[1 - side])), *left))

    def _number(self, atom: Any) -> Any:
        """A multiplier; where it is a number that was repeated, that number."""
        made = None if isinstance(atom, Literal) else self._producer.get(atom)
        if made is not None and of_kind(made, op.SPREADS) and not made.invars[0].aval.shape:
            atom = made.invars[0]
        return self._same(atom)

    def _kept(self, by: _By, axes: Sequence[int]) -> _By:
        """The same, of an array before its sum over `axes`."""
        if by.by is None or not by.by.aval.shape:
            return by
        wider = self._emit(by.how, lambda x: lax.expand_dims(x, axes), by.by)
        return _By(by.how, by.kind, wider, by.case)
