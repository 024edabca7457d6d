"""Terms of a log density that read a positive definite matrix through its Cholesky factor.

Three factors are known: `L` of the site itself; `T`, the lower factor of the site's inverse that NumPyro
computes for a Normal with a precision matrix (the reversed Cholesky factor of the reversed matrix, solved
against the identity); and whatever is gathered from the site beforehand (`cov[z]`). Each may be one of the
matrix times numbers, one for a matrix (`S / kappa`, `L * s`), which are free of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.conditional.forms.walk import known_value
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.evaluation.evaluate import Evaluator, evaluate_lazily
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.maps.access import along
from gibbsite.programs.maps.rules import moved_to

Scale = tuple[tuple[Any, float], ...]
"""Numbers that are free of the matrix, one for each of several matrices, and the powers they are taken to."""

_RESHAPING = op.REARRANGES - op.REVERSES, op.SPREADS, op.COPIES


@dataclass(frozen=True)
class Columns:
    """`b` of a term `(L^-1 b)^2`, the equations that bring it into the term's shape, its rows' axis there;
    and where that is the factor of a multiple of the matrix, by what powers of what it is `L` times."""

    atom: Any
    path: tuple[Any, ...]
    axis: int
    scale: "Scale" = ()

    def value(self, ev: Evaluator) -> Any:
        """`b`, as it is under `L` itself, in the term's shape, constant axes at size 1."""
        x = ev.lazy(self.atom)
        for atom, power in self.scale:
            by = ev.lazy(atom)
            x = x / (by[..., :1, :1] if by.ndim else by) ** power
        for eqn in self.path:
            (x,) = evaluate_lazily(eqn, [x])
        return x


class MatrixTerms:
    """Recognises what terms are made of."""

    def __init__(self, density: Density, site: str):
        self.density, self.site = density, site

    def free(self, atom: Any) -> bool:
        return self.site not in self.density.maps.latents(atom)

    def made_by(self, atom: Any, *kinds: frozenset[str]) -> Any:
        """The equation that computes `atom`, if it is one of these primitives."""
        eqn = None if self.free(atom) else self.density.producer.get(atom)
        return eqn if op.of_kind(eqn, *kinds) else None

    def squared(self, term: Term) -> Any:
        """The array whose elementwise square a term is, or None."""
        eqn = None if self.free(term.atom) else self.density.producer.get(term.atom)
        return eqn.invars[0] if eqn is not None and op.whole_power(eqn) == 2 else None

    def is_squared_product(self, term: Term) -> bool:
        """`(A^-1 L) ** 2` elementwise for a triangular `A` that is free of the site, weighted alike."""
        atom = self.squared(term)
        solve = None if atom is None else self.made_by(atom, op.SOLVES)
        if solve is None or not self.free(solve.invars[0]) or not solve.params["left_side"]:
            return False
        alike = term.weight.scalar is not None or all(n == 1 for n in term.weight.shape)
        factor = solve.invars[1]
        return alike and self.is_factor(factor) and self._has_zeros_above(factor)

    def columns(self, term: Term, inverse: bool = False) -> Columns | None:
        """What a square is made of: `L^-1 b` (or `T^-1 b`) with all rows of each column weighted alike."""
        atom, weight = self.squared(term), term.weight
        path: list[Any] = []
        while atom is not None and (moved := self.made_by(atom, *_RESHAPING)) is not None:
            path.append(moved)
            atom = moved.invars[0]
        solve = None if atom is None else self.made_by(atom, op.SOLVES)
        if solve is None or not self.free(solve.invars[1]):
            return None
        scale: Scale | None = ()  # squares of T are linear in the matrix whatever that is multiplied by
        if not inverse:
            scale = self.factor_scale(solve.invars[0])
        elif not self.is_inverse_factor(solve.invars[0]):
            scale = None
        if not _plain_solve(solve) or scale is None or not _fits(scale, solve.invars[0]):
            return None
        axis: int | None = len(solve.outvars[0].aval.shape) - 2
        for step in reversed(path):
            axis = None if axis is None else _followed(step, axis)
        even = weight.scalar is not None or (axis is not None and weight.shape[axis] == 1)
        if axis is None or not even:
            return None
        return Columns(solve.invars[1], tuple(reversed(path)), axis, scale)

    def is_log_diagonal(self, atom: Any, inverse: bool = False) -> bool:
        """`log(diag(L))`, or `log(diag(T))`, one entry per row along the last axis."""
        is_factor = self.is_inverse_factor if inverse else self.is_factor
        log = self.made_by(atom, op.LOGARITHMS)
        gather = log and self.made_by(log.invars[0], op.GATHERS)
        if not gather:
            return False
        source, indices = gather.invars
        transposed = self.made_by(source, op.TRANSPOSES)
        if transposed is not None:
            if not _turns(transposed):
                return False
            source = transposed.invars[0]
        rank, d = len(source.aval.shape), source.aval.shape[-1]
        dims, known = gather.params["dimension_numbers"], known_value(self.density, indices)
        diagonal = np.repeat(np.arange(d)[:, None], 2, 1)
        return bool(
            is_factor(source)
            and dims.start_index_map == dims.collapsed_slice_dims == (rank - 2, rank - 1)
            and not dims.operand_batching_dims
            and dims.offset_dims == tuple(range(rank - 2))
            and gather.params["slice_sizes"] == (*source.aval.shape[:-2], 1, 1)
            and known is not None
            and np.array_equal(known, diagonal)
        )

    def is_factor(self, atom: Any) -> bool:
        """Whether it is a Cholesky factor: see `factor_scale`."""
        return self.factor_scale(atom) is not None

    def factor_scale(self, atom: Any) -> Scale | None:
        """By what the Cholesky factor of the site is multiplied in `atom`, its upper triangle perhaps set to
        zero; None where that is something else."""
        atom, outer = self._multiple(self._unwrapped(atom))
        factor = None if atom is None else self._factored(atom)
        inner = None if factor is None else self.site_scale(factor)
        return None if inner is None else (*outer, *((by, power / 2) for by, power in inner))

    def is_inverse_factor(self, atom: Any) -> bool:
        """`T`, lower triangular, with `T T^t` the inverse of a multiple of the site, or a multiple of it."""
        atom, _ = self._multiple(self._unwrapped(atom))
        solve = None if atom is None else self.made_by(atom, op.SOLVES)
        if solve is None or not _plain_solve(solve) or not self._is_identity(solve.invars[1]):
            return False
        turned = self.made_by(self._unwrapped(solve.invars[0]), op.TRANSPOSES)
        if turned is None or not _turns(turned):
            return False
        again = self._reversed(turned.invars[0])
        factor = None if again is None else self._factored(again)
        return factor is not None and self.site_scale(factor, backwards=True) is not None

    def _multiple(self, atom: Any) -> tuple[Any, Scale]:
        """What matrices are multiples of, and by what."""
        scale: list[tuple[Any, float]] = []
        while atom is not None and (eqn := self.made_by(atom, op.MULTIPLIES, op.DIVIDES)) is not None:
            divided, (x, y) = op.of_kind(eqn, op.DIVIDES), eqn.invars
            x, y = (y, x) if not divided and self.free(x) else (x, y)
            if (
                not self.free(y)
                or x.aval.shape[-2:] != atom.aval.shape[-2:]
                or not same_along(self.density, y, (-2, -1))
            ):
                break
            scale.append((y, -1.0 if divided else 1.0))
            atom = self._unwrapped(x)
        return atom, tuple(scale)

    def _unwrapped(self, atom: Any) -> Any:
        """What an array of matrices is a plain copy of; None where matrices are torn apart."""
        while (moved := self.made_by(atom, op.IN_ORDER, op.SPREADS)) is not None:
            if moved.invars[0].aval.shape[-2:] != atom.aval.shape[-2:] or not self._keeps_matrices(moved):
                return None
            atom = moved.invars[0]
        return atom

    def _factored(self, atom: Any) -> Any:
        """The array whose Cholesky factor `atom` is, or None."""
        atom = self._unwrapped(atom)
        masked = None if atom is None else self.made_by(atom, op.SELECTS)
        if masked is not None:
            which, upper, atom = masked.invars
            if len(masked.invars) != 3 or not self.free(upper) or not self._is_lower_mask(which):
                return None
        factor = None if atom is None else self.made_by(atom, op.FACTORS)
        return None if factor is None else factor.invars[0]

    def _has_zeros_above(self, atom: Any) -> bool:
        """Whether the upper triangle of a factor is set to zero."""
        masked = self.made_by(self._unwrapped(atom), op.SELECTS)
        upper = None if masked is None else known_value(self.density, masked.invars[1])
        mask = None if masked is None else self._mask(masked.invars[0])
        return (
            upper is not None
            and mask is not None
            and not np.any(upper)
            and not np.any(mask[np.triu_indices(mask.shape[0], 1)])
        )

    def _reversed(self, atom: Any) -> Any:
        """What `atom` reverses both matrix axes of, or None."""
        eqn = self.made_by(atom, op.REVERSES)
        rank = len(atom.aval.shape)
        backwards = eqn is not None and tuple(sorted(eqn.params["dimensions"])) == (rank - 2, rank - 1)
        return eqn.invars[0] if eqn is not None and backwards else None

    def _is_identity(self, atom: Any) -> bool:
        value = known_value(self.density, atom)
        return value is not None and bool(np.all(value == np.eye(value.shape[-1])))

    def _keeps_matrices(self, eqn: Any) -> bool:
        out = len(eqn.outvars[0].aval.shape)
        return moved_to(eqn)[-2:] == [along(out, out - 2), along(out, out - 1)]

    def _is_lower_mask(self, atom: Any) -> bool:
        mask = self._mask(atom)
        return mask is not None and bool(np.all(mask[np.tril_indices(mask.shape[0])]))

    def _mask(self, atom: Any) -> np.ndarray | None:
        """A known matrix, perhaps the same for a batch of them."""
        eqn = self.density.producer.get(atom) if self.free(atom) and not isinstance(atom, Literal) else None
        if eqn is not None and op.of_kind(eqn, op.SPREADS):
            rank = len(atom.aval.shape)
            if eqn.params["broadcast_dimensions"] != (rank - 2, rank - 1):
                return None
            atom = eqn.invars[0]
        mask = known_value(self.density, atom)
        return mask if mask is not None and mask.ndim == 2 else None

    def site_scale(self, atom: Any, backwards: bool = False) -> Scale | None:
        """By what the site, or matrices gathered from it, are multiplied in `atom`, with both matrix axes
        reversed if `backwards`; `(X + X^T) / 2` is `X`. None where it is something else."""
        half = self.made_by(atom, op.DIVIDES, op.MULTIPLIES)
        if half is not None and (whole := self._symmetrised(half)) is not None:
            return self.site_scale(whole, backwards)
        atom, scale = self._multiple(self._unwrapped(atom))
        if atom is None:
            return None
        if scale:
            inner = self.site_scale(atom, backwards)
            return None if inner is None else (*scale, *inner)
        if backwards:
            atom = self._reversed(atom)
            return None if atom is None else self.site_scale(atom)
        return () if self._is_site(atom) else None

    def _symmetrised(self, half: Any) -> Any:
        """`X` of `(X + X^T) / 2`, or None."""
        by = known_value(self.density, half.invars[1])
        sums = self.made_by(half.invars[0], op.ADDS)
        right = 2.0 if op.of_kind(half, op.DIVIDES) else 0.5
        if by is None or by.size != 1 or float(by.flat[0]) != right or sums is None:
            return None
        x, y = sums.invars
        flipped = self.made_by(y, op.TRANSPOSES)
        return x if flipped is not None and flipped.invars[0] is x and _turns(flipped) else None

    def _is_site(self, atom: Any) -> bool:
        atom = self._unwrapped(atom)
        if atom is None or atom is self.density.latent_vars[self.site]:
            return atom is not None
        gather = self.made_by(atom, op.GATHERS)
        if gather is None or gather.invars[0] is not self.density.latent_vars[self.site]:
            return False
        if not self.free(gather.invars[1]):
            return False
        rank = len(gather.invars[0].aval.shape)
        out = len(atom.aval.shape)
        dims = gather.params["dimension_numbers"]
        whole = gather.params["slice_sizes"][-2:] == gather.invars[0].aval.shape[-2:]
        return bool(whole and dims.offset_dims == (out - 2, out - 1) and max(dims.start_index_map) < rank - 2)


def same_along(density: Density, atom: Any, axes: Sequence[int]) -> bool:
    """Whether an array has the same numbers all along some of its axes, as far as the program tells."""
    shape = atom.aval.shape
    if isinstance(atom, Literal) or not shape or all(shape[a] == 1 for a in axes):
        return True
    eqn, along_them = density.producer.get(atom), {a % len(shape) for a in axes}
    if eqn is not None and op.of_kind(eqn, op.SPREADS):
        whence = eqn.invars[0].aval.shape
        return all(
            whence[i] == 1 for i, a in enumerate(eqn.params["broadcast_dimensions"]) if a in along_them
        )
    value = known_value(density, atom)
    first = tuple(slice(1) if a in along_them else slice(None) for a in range(len(shape)))
    return value is not None and bool(np.all(value == value[first]))


def _fits(scale: Scale, factor: Any) -> bool:
    """Whether numbers stand beside the factor's matrices as they stood beside those that they multiply: not
    where axes were put between."""
    rank, batch = len(factor.aval.shape), factor.aval.shape[:-2]

    def beside(shape: tuple[int, ...]) -> bool:
        return len(shape) == rank and all(a in (1, b) for a, b in zip(shape, batch, strict=False))

    return all(not atom.aval.shape or beside(atom.aval.shape) for atom, _ in scale)


def _turns(eqn: Any) -> bool:
    """Whether an equation transposes matrices, and nothing else."""
    *lead, rows, columns = range(len(eqn.invars[0].aval.shape))
    return eqn.params["permutation"] == (*lead, columns, rows)


def _plain_solve(eqn: Any) -> bool:
    p = eqn.params
    return p["left_side"] and p["lower"] and not p["transpose_a"] and not p["unit_diagonal"]


def _followed(eqn: Any, axis: int) -> int | None:
    """Where an axis goes in a rearrangement; None where that is not plain to see."""
    p = eqn.params
    if op.of_kind(eqn, op.SQUEEZES):
        gone = [d % len(eqn.invars[0].aval.shape) for d in p["dimensions"]]
        return None if axis in gone else axis - sum(d < axis for d in gone)
    if op.of_kind(eqn, op.SPREADS):
        return p["broadcast_dimensions"][axis]
    if op.of_kind(eqn, op.TRANSPOSES):
        return p["permutation"].index(axis)
    if op.of_kind(eqn, op.REARRANGES):
        operand, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
        before = int(np.prod(operand[:axis], dtype=np.int64))
        ahead = [int(np.prod(out[:a], dtype=np.int64)) for a in range(len(out))]
        return next((a for a, n in enumerate(ahead) if n == before and out[a] == operand[axis]), None)
    return axis
