"""Wishart and inverse-Wishart conditionals of positive definite matrices, certified term by term.

As a function of a matrix `X`, a log density is `a log|X| - tr(A X^-1) / 2` where its terms are sums of
logarithms of the diagonal of a Cholesky factor and of squares of `L^-1 b`; with squares of `A L`, of `T^-1 b`
(a Normal whose precision is `X`), or anything linear in `X`, it is `a log|X| - tr(B X) / 2`. Rows have to be
weighted alike, and the diagonal's logarithms equally in total. `A` sums the outer products of the columns
`b`; `B` is a gradient at the identity. Source: Gelman et al., *Bayesian Data Analysis* (3rd ed.), §3.6.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.matrix import Columns, MatrixTerms
from gibbsite.conditional.draws.gamma import drawn_here
from gibbsite.conditional.forms.support import degree_of
from gibbsite.conditional.forms.walk import Refused, known_value, refusal
from gibbsite.conditional.reads.reduce import outer_onto, sum_onto
from gibbsite.conditional.reads.support import bounded_by
from gibbsite.conditional.reads.term_access import batch_axes
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.terms import Term, summed
from gibbsite.programs.maps.access import Access
from gibbsite.programs.passes.for_cpu import jitted

Kind = str | Columns


@dataclass(frozen=True)
class MatrixFamily:
    """How a kind of conditional is recognised and drawn.

    `kind(density, site)` gives a function that tells a term's kind: "log|L|", "log|T|" (by which factor's
    diagonal), the columns `b`, "trace", or None.
    """

    name: str
    text: str
    kind: Callable[[Density, str], Callable[[Term], Kind | None]]
    distribution: Callable[[Any, Any, int], Any]


def _inverse_wishart_kind(density: Density, site: str) -> Callable[[Term], Kind | None]:
    terms = MatrixTerms(density, site)

    def kind(term: Term) -> Kind | None:
        return terms.columns(term) or ("log|L|" if terms.is_log_diagonal(term.atom) else None)

    return kind


def _wishart_kind(density: Density, site: str) -> Callable[[Term], Kind | None]:
    terms = MatrixTerms(density, site)

    def kind(term: Term) -> Kind | None:
        squares = terms.is_squared_product(term) or terms.columns(term, inverse=True) is not None
        if squares or degree_of(density, (site,), term.atom, {}) == 1:
            return "trace"
        if terms.is_log_diagonal(term.atom):
            return "log|L|"
        return "log|T|" if terms.is_log_diagonal(term.atom, inverse=True) else None

    return kind


INVERSE_WISHART = MatrixFamily(
    "InverseWishart",
    "log|{0}| and {0}^-1",
    _inverse_wishart_kind,
    lambda power, trace, d: drawn_here(dist.InverseWishart(-2.0 * power - d - 1, scale_matrix=trace)),
)
WISHART = MatrixFamily(
    "Wishart",
    "log|{0}| and {0}",
    _wishart_kind,
    lambda power, trace, d: drawn_here(dist.Wishart(2.0 * power + d + 1, rate_matrix=trace)),
)


class WishartConditional(Conditional):
    """A positive definite matrix, or a batch of them, with (inverse) Wishart conditionals."""

    kind = "conjugate"

    def __init__(self, density: Density, site: str, family: MatrixFamily, kinds: Mapping[int, Kind]):
        self.family, self.kinds = family, kinds
        touched = [t for t, _ in density.terms_of(site)]
        origins = ", ".join(dict.fromkeys(t.origin for t in touched))
        stats = family.text.format(site)
        reason = f"{family.name}: the log density is linear in {stats}, in the terms of {origins}"
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touched)
        passes = "one pass" if family is INVERSE_WISHART else "2 gradients"
        super().__init__(density, site, reason, f"{passes} over {n} term elements")

    def distribution_at(self, latents: Mapping[str, Any], data: Any) -> Any:
        """As `distribution`, at complete latent values and data arrays."""
        return self.family.distribution(
            *self.statistics_at(latents, data), self.density.sites[self.site].shape[-1]
        )

    def statistics_at(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """The power of the determinant `[*batch]`, and `A` or `B` `[*batch, d, d]`."""
        return (self._sums if self.family is INVERSE_WISHART else self._gradients)(latents, data)

    def _sums(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """The power of the determinant `[*batch]` and `A` `[*batch, d, d]`."""
        site = self.density.sites[self.site]
        batch, d = site.shape[:-2], site.shape[-1]
        ev = self.density.evaluator(latents, data)
        power = jnp.zeros(batch, site.dtype)
        scale = jnp.zeros(site.shape, site.dtype)
        for i, (term, accesses) in enumerate(self.density.terms_of(self.site)):
            block = Access(accesses[0].index[:-2], accesses[0].window)
            w = jnp.reshape(term.weight.value(ev.full), term.weight.shape)
            columns = self.kinds[i]
            if not isinstance(columns, Columns):
                power = power + sum_onto(w, term.shape, block, batch, ev.full) / 2
                continue
            b = columns.value(ev)
            scale = scale - 2 * outer_onto(w, b, columns.axis, term.shape, block, batch, ev.full)
        return power / d, scale

    def _gradients(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """The power of the determinant `[*batch]` and `B` `[*batch, d, d]`."""
        site = self.density.sites[self.site]
        d = site.shape[-1]
        # hidden from the compiler, which would evaluate whole batches of factorisations of a constant
        eye = jax.lax.optimization_barrier(jnp.eye(d, dtype=site.dtype))
        identity, touching = jnp.broadcast_to(eye, site.shape), self.density.terms_of(self.site)

        def part(trace: bool) -> Any:
            def total(x: Any) -> Any:
                ev = self.density.evaluator({**latents, self.site: x}, data)
                terms = [t for i, (t, _) in enumerate(touching) if (self.kinds[i] == "trace") == trace]
                return summed(terms, ev, jnp.zeros((), site.dtype))

            g = jax.grad(total)(identity)
            return (g + jnp.swapaxes(g, -1, -2)) / 2

        return jnp.trace(part(trace=False), axis1=-2, axis2=-1) / d, -2.0 * part(trace=True)

    def distribution(self, state: Mapping[str, Any]) -> Any:
        """The NumPyro distribution that is drawn from."""
        return self._distribution(self._latents(state), self._data)

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`concentration`, and `scale_matrix` of an inverse Wishart or `rate_matrix` of a Wishart."""
        d = self.distribution(state)
        matrix = "scale_matrix" if self.family is INVERSE_WISHART else "rate_matrix"
        return {"concentration": d.concentration, matrix: getattr(d, matrix)}

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        d = self.distribution_at({n: v for n, v in latents.items() if n != self.site}, data)
        return d.sample(key).astype(self.density.sites[self.site].dtype)

    @property
    def signature(self) -> str:
        kinds = [k if isinstance(k, str) else "columns" for _, k in sorted(self.kinds.items())]
        return repr((self.family.name, self.site, kinds))

    @cached_property
    def _distribution(self) -> Any:
        return jitted(self.distribution_at)


def is_covariance(density: Density, site: str) -> bool:
    """Whether the site's support is that of covariance matrices."""
    return base_constraint(density.sites[site].support) is constraints.positive_definite


def wishart_of(density: Density, site: str) -> WishartConditional:
    """The (inverse) Wishart conditional of a positive definite site; `Refused` where none is certified, with
    the obstacle to the family of its prior."""
    moved = bounded_by(density, site)
    if moved:
        raise Refused(f"it bounds the support of {', '.join(moved)}")
    families = [INVERSE_WISHART, WISHART]
    if density.sites[site].fn_name == "Wishart":
        families.reverse()
    try:
        return _certified(density, site, families[0])
    except Refused as why:
        first = why
    try:
        return _certified(density, site, families[1])
    except Refused:
        raise first from None


def _certified(density: Density, site: str, family: MatrixFamily) -> WishartConditional:
    kind_of = family.kind(density, site)
    kinds: dict[int, Kind] = {}
    powers: dict[Any, Any] = {}
    for i, (term, accesses) in enumerate(density.terms_of(site)):
        kind = kind_of(term)
        if kind is None:
            eqn = density.producer.get(term.atom)
            trace = f"{site}^-1" if family is INVERSE_WISHART else site
            why = f"is neither linear in {trace} nor part of log|{site}|"
            if eqn is None:
                raise Refused(f"the density of {term.origin} {why}")
            raise refusal(density, eqn, term.origin, why)
        kinds[i] = kind
        if kind in ("log|L|", "log|T|") and term.weight.scalar is None and term.weight.shape[-1] != 1:
            # powers may cancel between terms that read the same matrices, element by element
            same = (kind, term.shape, accesses)
            powers[same] = powers.get(same, 0.0) + _known_weight(density, term)
    for total in powers.values():
        if np.any(np.ptp(total, axis=-1) > 1e-4 * (1 + np.max(np.abs(total)))):
            raise Refused(f"the diagonal of the factor of {site} has unequal powers in total")
    if set(range(len(density.sites[site].shape) - 2)) - set(batch_axes(density, site)):
        raise Refused(f"several matrices of {site} meet in one term")
    return WishartConditional(density, site, family, kinds)


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
