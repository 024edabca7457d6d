"""Inverse-Wishart conditionals of covariance matrices, certified by the shape of their terms.

A term counts if it is a weighted sum of squares of `L^-1 b`, or of the logarithms of the diagonal of `L`,
where `L` is the Cholesky factor of the site (of the matrix that each element reads, `cov[z]`) and `b` is
free of it. Together such terms are `a log|X| - tr(A X^-1) / 2`, if rows are weighted alike and the
diagonal's logarithms have equal weights in total: `A` sums the outer products of the columns `b`, `a` the
weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate_gaussian import batch_axes
from gibbsite.conditional.conjugate_walk import Blame, Refused, known_value
from gibbsite.conditional.moving import bounded_by
from gibbsite.conditional.outer import outer_onto, sum_onto
from gibbsite.density import Density
from gibbsite.density.access import Access
from gibbsite.density.evaluate import Evaluator, evaluate_lazily
from gibbsite.density.terms import Term
from gibbsite.trace.compat import Literal

_RESHAPING = ("squeeze", "reshape", "broadcast_in_dim", "expand_dims", "transpose", "copy")


@dataclass(frozen=True)
class Columns:
    """`b` of a term `(L^-1 b)^2`, the equations that bring it into the term's shape, its rows' axis there."""

    atom: Any
    path: tuple[Any, ...]
    axis: int

    def value(self, ev: Evaluator) -> Any:
        """`b` in the term's shape, constant axes at size 1."""
        x = ev.lazy(self.atom)
        for eqn in self.path:
            (x,) = evaluate_lazily(eqn, [x])
        return x


class _Matcher:
    """Recognises the two kinds of term."""

    def __init__(self, density: Density, site: str):
        self.density, self.site = density, site

    def free(self, atom: Any) -> bool:
        return isinstance(atom, Literal) or self.site not in self.density.maps.latents(atom)

    def made_by(self, atom: Any, *names: str) -> Any:
        """The equation that computes `atom`, if it is one of these primitives."""
        eqn = None if self.free(atom) else self.density.producer.get(atom)
        return eqn if eqn is not None and eqn.primitive.name in names else None

    def kind(self, term: Term) -> str | None:
        """ "quadratic", "logdet", or None."""
        if self.is_square(term):
            return "quadratic"
        return "logdet" if self.is_log_diagonal(term.atom) else None

    def is_square(self, term: Term) -> bool:
        """`(L^-1 b) ** 2`, elementwise, rows weighted alike."""
        eqn = self.made_by(term.atom, "square", "integer_pow")
        if eqn is None or eqn.params.get("y", 2) != 2:
            return False
        return self.columns(term) is not None

    def columns(self, term: Term) -> Columns | None:
        """What a square is made of: `L^-1 b` with all rows of each column weighted alike; else None."""
        atom, weight, path = self.density.producer[term.atom].invars[0], term.weight, []
        while (moved := self.made_by(atom, *_RESHAPING)) is not None:
            path.append(moved)
            atom = moved.invars[0]
        solve = self.made_by(atom, "triangular_solve")
        if solve is None or not self.free(solve.invars[1]):
            return None
        p = solve.params
        plain = p["left_side"] and p["lower"] and not p["transpose_a"] and not p["unit_diagonal"]
        if not plain or not self.is_factor(solve.invars[0]):
            return None
        axis: int | None = len(atom.aval.shape) - 2
        for step in reversed(path):
            axis = None if axis is None else _followed(step, axis)
        even = weight.scalar is not None or (axis is not None and weight.shape[axis] == 1)
        return Columns(solve.invars[1], tuple(reversed(path)), axis) if axis is not None and even else None

    def is_log_diagonal(self, atom: Any) -> bool:
        """`log(diag(L))`, one entry per row along the last axis."""
        log = self.made_by(atom, "log")
        gather = log and self.made_by(log.invars[0], "gather")
        if not gather:
            return False
        source, indices = gather.invars
        transposed = self.made_by(source, "transpose")
        if transposed is not None:
            rank = len(source.aval.shape)
            if transposed.params["permutation"] != (*range(rank - 2), rank - 1, rank - 2):
                return False
            source = transposed.invars[0]
        rank, d = len(source.aval.shape), source.aval.shape[-1]
        dims, known = gather.params["dimension_numbers"], known_value(self.density, indices)
        diagonal = np.repeat(np.arange(d)[:, None], 2, 1)
        return bool(
            self.is_factor(source)
            and dims.start_index_map == dims.collapsed_slice_dims == (rank - 2, rank - 1)
            and not dims.operand_batching_dims
            and dims.offset_dims == tuple(range(rank - 2))
            and gather.params["slice_sizes"] == (*source.aval.shape[:-2], 1, 1)
            and known is not None
            and np.array_equal(known, diagonal)
        )

    def is_factor(self, atom: Any) -> bool:
        """The Cholesky factor of the site, its upper triangle perhaps set to zero."""
        reshaped = self.made_by(atom, "squeeze", "broadcast_in_dim")
        if reshaped is not None and reshaped.invars[0].aval.shape[-2:] == atom.aval.shape[-2:]:
            if not self._keeps_matrices(reshaped):
                return False
            atom = reshaped.invars[0]
        masked = self.made_by(atom, "select_n")
        if masked is not None:
            which, upper, atom = masked.invars
            if len(masked.invars) != 3 or not self.free(upper) or not self._is_lower_mask(which):
                return False
        factor = self.made_by(atom, "cholesky")
        return factor is not None and self.is_site(factor.invars[0])

    def _keeps_matrices(self, eqn: Any) -> bool:
        rank, out = len(eqn.invars[0].aval.shape), len(eqn.outvars[0].aval.shape)
        if eqn.primitive.name == "squeeze":
            return max(d % rank for d in eqn.params["dimensions"]) < rank - 2
        return eqn.params["broadcast_dimensions"][-2:] == (out - 2, out - 1)

    def _is_lower_mask(self, atom: Any) -> bool:
        eqn = self.density.producer.get(atom) if self.free(atom) and not isinstance(atom, Literal) else None
        if eqn is not None and eqn.primitive.name == "broadcast_in_dim":
            rank = len(atom.aval.shape)
            if eqn.params["broadcast_dimensions"] != (rank - 2, rank - 1):
                return False
            atom = eqn.invars[0]
        mask = known_value(self.density, atom)
        return mask is not None and mask.ndim == 2 and bool(np.all(mask[np.tril_indices(mask.shape[0])]))

    def is_site(self, atom: Any) -> bool:
        """The site itself, or matrices gathered from it; `(X + X^T) / 2` is the same."""
        half = self.made_by(atom, "div", "mul")
        if half is not None:
            by = known_value(self.density, half.invars[1])
            sums = self.made_by(half.invars[0], "add")
            right = {"div": 2.0, "mul": 0.5}[half.primitive.name]
            if by is None or by.size != 1 or float(by.flat[0]) != right or sums is None:
                return False
            x, y = sums.invars
            flipped = self.made_by(y, "transpose")
            rank = len(x.aval.shape)
            swap = (*range(rank - 2), rank - 1, rank - 2)
            if flipped is None or flipped.invars[0] is not x or flipped.params["permutation"] != swap:
                return False
            return self.is_site(x)
        if atom is self.density.latent_vars[self.site]:
            return True
        gather = self.made_by(atom, "gather")
        if gather is None or gather.invars[0] is not self.density.latent_vars[self.site]:
            return False
        if not self.free(gather.invars[1]):
            return False
        rank = len(gather.invars[0].aval.shape)
        out = len(atom.aval.shape)
        dims = gather.params["dimension_numbers"]
        whole = gather.params["slice_sizes"][-2:] == gather.invars[0].aval.shape[-2:]
        return bool(whole and dims.offset_dims == (out - 2, out - 1) and max(dims.start_index_map) < rank - 2)


def _followed(eqn: Any, axis: int) -> int | None:
    """Where an axis goes in a rearrangement; None where that is not plain to see."""
    name, p = eqn.primitive.name, eqn.params
    if name == "squeeze":
        gone = [d % len(eqn.invars[0].aval.shape) for d in p["dimensions"]]
        return None if axis in gone else axis - sum(d < axis for d in gone)
    if name == "broadcast_in_dim":
        return p["broadcast_dimensions"][axis]
    if name == "transpose":
        return p["permutation"].index(axis)
    if name in ("reshape", "expand_dims"):
        operand, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
        before = int(np.prod(operand[:axis], dtype=np.int64))
        ahead = [int(np.prod(out[:a], dtype=np.int64)) for a in range(len(out))]
        return next((a for a, n in enumerate(ahead) if n == before and out[a] == operand[axis]), None)
    return axis if name == "copy" else None


class InverseWishartConditional(Conditional):
    """A covariance matrix, or a batch of them, with inverse-Wishart conditionals.

    `kinds` gives the columns of each quadratic term by number, None for one of the determinant.
    """

    kind = "conjugate"

    def __init__(self, density: Density, site: str, kinds: Mapping[int, Columns | None]):
        self.kinds = kinds
        touched = [t for t, _ in density.terms_of(site)]
        origins = ", ".join(dict.fromkeys(t.origin for t in touched))
        stats = f"log|{site}| and {site}^-1"
        reason = f"InverseWishart: the log density is linear in {stats}, in the terms of {origins}"
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touched)
        super().__init__(density, site, reason, f"one pass over {n} term elements")

    def parameters(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """Concentration `[*batch]` and scale matrix `[*batch, d, d]`."""
        site = self.density.sites[self.site]
        batch, d = site.shape[:-2], site.shape[-1]
        ev = self.density.evaluator(latents, data)
        power = jnp.zeros(batch, site.dtype)
        scale = jnp.zeros(site.shape, site.dtype)
        for i, (term, accesses) in enumerate(self.density.terms_of(self.site)):
            block = Access(accesses[0].index[:-2], accesses[0].window)
            w = jnp.reshape(term.weight.value(ev.full), term.weight.shape)
            columns = self.kinds[i]
            if columns is None:
                power = power + sum_onto(w, term.shape, block, batch, ev.full) / 2
                continue
            b = columns.value(ev)
            scale = scale - 2 * outer_onto(w, b, columns.axis, term.shape, block, batch, ev.full)
        return -2 * power / d - d - 1, scale

    def distribution(self, state: Mapping[str, Any]) -> Any:
        """The NumPyro distribution that is drawn from."""
        latents = self.density.state_values(state, without=(self.site,))
        concentration, scale = self._parameters(latents, tuple(self.density.arguments.arrays))
        return dist.InverseWishart(concentration, scale_matrix=scale)

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`concentration` and `scale_matrix`."""
        d = self.distribution(state)
        return {"concentration": d.concentration, "scale_matrix": d.scale_matrix}

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """One exact draw of the site, pure in latent values and data arrays."""
        site = self.density.sites[self.site]
        concentration, scale = self.parameters({n: v for n, v in latents.items() if n != self.site}, data)
        return dist.InverseWishart(concentration, scale_matrix=scale).sample(key).astype(site.dtype)

    def sample(self, key: Any, state: Mapping[str, Any]) -> Any:
        """An exact draw of the site, shape `site.shape`, given the rest of `state`."""
        latents = self.density.state_values(state, without=(self.site,))
        return self._sample(key, latents, tuple(self.density.arguments.arrays))

    @property
    def signature(self) -> str:
        """Equal for conditionals whose compiled programs are the same for any data they are given."""
        return repr(("inverse wishart", self.site, sorted((i, c is None) for i, c in self.kinds.items())))

    @cached_property
    def _sample(self) -> Any:
        return jax.jit(self.update)

    @cached_property
    def _parameters(self) -> Any:
        return jax.jit(self.parameters)


def is_covariance(density: Density, site: str) -> bool:
    """Whether the site's support is that of covariance matrices."""
    support = density.sites[site].support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is constraints.positive_definite


def inverse_wishart_of(density: Density, site: str) -> InverseWishartConditional:
    """The inverse-Wishart conditional of a covariance site; `Refused` where it is not certified."""
    s = density.sites[site]
    moved = bounded_by(density, site)
    if moved:
        raise Refused(f"it bounds the support of {', '.join(moved)}")
    match = _Matcher(density, site)
    kinds: dict[int, Columns | None] = {}
    powers: dict[Any, Any] = {}
    for i, (term, accesses) in enumerate(density.terms_of(site)):
        kind = match.kind(term)
        if kind is None:
            eqn = density.producer.get(term.atom)
            why = f"is neither a quadratic form in {site}^-1 nor part of log|{site}|"
            if eqn is None:
                raise Refused(f"the density of {term.origin} {why}")
            raise Blame(density).refuse(eqn, term.origin, why)
        kinds[i] = match.columns(term) if kind == "quadratic" else None
        if kind == "logdet" and term.weight.scalar is None and term.weight.shape[-1] != 1:
            # powers may cancel between terms that read the same matrices, element by element
            same = (term.shape, accesses)
            powers[same] = powers.get(same, 0.0) + _known_weight(density, term)
    for total in powers.values():
        if np.any(np.ptp(total, axis=-1) > 1e-4 * (1 + np.max(np.abs(total)))):
            raise Refused(f"the diagonal of the factor of {site} has unequal powers in total")
    if set(range(len(s.shape) - 2)) - set(batch_axes(density, site)):
        raise Refused(f"several matrices of {site} meet in one term")
    return InverseWishartConditional(density, site, kinds)


def _known_weight(density: Density, term: Term) -> np.ndarray:
    """A term's weight as numbers known when the program is analysed, of the term's shape."""

    def read(atom: Any) -> Any:
        value = known_value(density, atom)
        if value is None:
            raise Refused(
                f"the powers of the factor's diagonal in the density of {term.origin} are not known"
            )
        return jnp.asarray(value)

    with jax.ensure_compile_time_eval():
        weight = np.asarray(jnp.broadcast_to(term.weight.value(read), term.shape))
    return weight
