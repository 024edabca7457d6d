"""What scales all terms of Gaussian sites alike: a number, or the matrix that every row of theirs shares.

Where every term of the Gaussian sites is a number times `s^p`, their precision is `s^p` times one that is
free of `s`, and their mean is free of it. So with them integrated out the conditional of `s` is what it is
at their mean, of the same family, with `p/2` taken from the power of `s` for each of their elements
(O'Hagan and Forster 2004, "Bayesian inference", §11.2). The same holds of a covariance or a precision matrix
where every term is a square under its factor, and what stands there takes rows of the sites to rows, all by
the same numbers: the precision is a Kronecker product of the inverse and of what is free of it (Gelman et
al., *Bayesian Data Analysis* (3rd ed.), §3.6).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.conjugate.matrix import MatrixTerms, same_along
from gibbsite.conditional.conjugate.wishart import INVERSE_WISHART, WishartConditional
from gibbsite.conditional.draws.gamma import GammaPower
from gibbsite.conditional.forms.forms import LOG, ONE, Form, is_number
from gibbsite.conditional.forms.walk import FormEvaluator, Refused
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.maps.access import Affine, along

Latents = Mapping[str, Any]


class Scale(ABC):
    """A site that scales all terms of some Gaussian `sites`, of so many elements. Raises `Refused`, with the
    reason, where it is none."""

    conditional: ConjugateConditional | WishartConditional

    def __init__(self, density: Density, sites: Sequence[str]):
        self.density, self.name = density, self.conditional.site
        self.site = density.sites[self.name]
        self.size = sum(int(np.prod(density.sites[s].shape, dtype=np.int64)) for s in sites)

    @property
    @abstractmethod
    def signature(self) -> str:
        """Equal for scales that compile to the same program for any data."""

    @property
    @abstractmethod
    def one(self) -> Any:
        """The value under which the Gaussian sites' precision is that of all others, up to its scale."""

    @abstractmethod
    def left(self, latents: Latents, data: Any) -> Any:
        """The distribution of the scale with the Gaussian sites integrated out, these being at their mean."""

    @abstractmethod
    def half_log_det(self, place: Any) -> Any:
        """That of the Gaussian sites' precision, less what it is at `one`."""

    @abstractmethod
    def spread(self, d: Any, site: str) -> Any:
        """What the variances at `one` of a Gaussian site's elements are to be multiplied by where the scale
        has the distribution `d`."""

    def _at(self, latents: Latents) -> dict[str, Any]:
        # statements that are alike are one site where single conditionals are derived
        density = self.conditional.density
        given = density.packed({n: v for n, v in latents.items() if n != self.name})
        return {n: v for n, v in given.items() if n in density.latent_vars}


class NumberScale(Scale):
    """A positive number; terms are multiples of the same power of it."""

    conditional: ConjugateConditional

    def __init__(self, density: Density, conditional: Any, sites: Sequence[str]):
        powers = [k for k in getattr(conditional, "keys", ()) if k != LOG]
        named, own = " and ".join(sites), conditional.site
        if (
            not isinstance(conditional, ConjugateConditional)
            or len(powers) != 1
            or conditional.support.kind != "positive"
            or int(np.prod(density.sites[own].shape, dtype=np.int64)) != 1
            or conditional.family.name == "LogNormal"
        ):
            raise Refused(f"with {named} integrated out, {own} has no conditional in closed form")
        (key,) = powers
        for origin in _otherwise(density, conditional, sites, key):
            raise Refused(
                f"with {named} integrated out, {own} has no conditional in closed form: the density of "
                f"{origin} reads {named} and is no multiple of {own}^{key[0]:g}"
            )
        self.conditional, self._power = conditional, key[0]
        super().__init__(density, sites)

    @property
    def signature(self) -> str:
        return repr((self.conditional.signature, self._power))

    @property
    def one(self) -> Any:
        return jnp.ones(self.site.shape, self.site.dtype)

    def left(self, latents: Latents, data: Any) -> Any:
        found = self.conditional.statistics_at(self._at(latents), data)
        gone = self._power * self.size / 2
        found = {**found, LOG: found.get(LOG, jnp.zeros(self.site.shape)) - gone}
        return self.conditional.family.distribution(found, (None, None))

    def half_log_det(self, place: Any) -> Any:
        return self.size * self._power * jnp.sum(jnp.log(place)) / 2

    def spread(self, d: Any, site: str) -> Any:
        gamma: Any = d.base_dist if isinstance(d, GammaPower) else d
        more = gamma.concentration > 1
        mean = gamma.rate / jnp.where(more, gamma.concentration - 1, 1)
        return jnp.reshape(jnp.where(more, mean, jnp.inf), ())  # of `s^-p`, where `s^p` is a gamma variate


def _otherwise(density: Density, scale: ConjugateConditional, sites: Sequence[str], key: Any) -> list[str]:
    """The statements with a term of `sites` that is no multiple of the statistic `key` of the scale."""
    out: list[str] = []

    def look(latents: Any, data: Any) -> Any:
        out.clear()
        forms = FormEvaluator(density, scale.site, scale.support.domain, density.evaluator(latents, data))
        for term in density.terms:
            read = density.maps.latents(term.atom)
            if read.isdisjoint(sites):
                continue
            form = forms.value(term.atom, term.origin) if scale.site in read else None
            parts = form.parts if isinstance(form, Form) else {ONE: 1.0}
            if {k for k, c in parts.items() if not (is_number(c) and c == 0)} != {key}:
                out.append(term.origin)
        return ()

    density.on_shapes(look)  # only the forms are asked for
    return out


class MatrixScale(Scale):
    """A covariance or a precision matrix; terms are squares of rows of the sites under its factor."""

    conditional: WishartConditional

    def __init__(self, density: Density, conditional: WishartConditional, sites: Sequence[str]):
        named, own = " and ".join(sites), conditional.site
        if len(density.sites[own].shape) != 2:
            raise Refused(f"with {named} integrated out, {own} has no conditional in closed form")
        self.conditional, self._inverse = conditional, conditional.family is INVERSE_WISHART
        rows = _Rows(density, own, sites)
        for term in density.terms:
            read = density.maps.latents(term.atom)
            if not read.isdisjoint(sites) and not rows.kept(term, self._inverse):
                raise Refused(
                    f"with {named} integrated out, {own} has no conditional in closed form: the density of "
                    f"{term.origin} reads {named}, and not in rows that {own} scales alike"
                )
        self._axes = rows.axes
        super().__init__(density, sites)

    @property
    def signature(self) -> str:
        return repr((self.conditional.signature, sorted(self._axes.items())))

    @property
    def one(self) -> Any:
        return jnp.eye(self.site.shape[-1], dtype=self.site.dtype)

    @property
    def _rows(self) -> float:
        """How many rows the sites have: as often stands the matrix in their precision."""
        return self.size / self.site.shape[-1]

    def left(self, latents: Latents, data: Any) -> Any:
        power, matrix = self.conditional.statistics_at(self._at(latents), data)
        power = power + (self._rows if self._inverse else -self._rows) / 2
        return self.conditional.family.distribution(power, matrix, self.site.shape[-1])

    def half_log_det(self, place: Any) -> Any:
        return (-self._rows if self._inverse else self._rows) * jnp.linalg.slogdet(place)[1] / 2

    def spread(self, d: Any, site: str) -> Any:
        size = self.site.shape[-1]
        matrix, free = d.scale_matrix if self._inverse else d.rate_matrix, d.concentration - size - 1
        mean = jnp.where(free > 0, jnp.diagonal(matrix) / jnp.where(free > 0, free, 1), jnp.inf)
        shape = [1] * len(self.density.sites[site].shape)
        shape[self._axes[site]] = size
        return jnp.reshape(mean, shape)


_SUMS = (
    op.ADDS | op.SUBTRACTS | op.NEGATES | op.CONVERTS | op.MOVES | op.JOINS | op.TOTALS | op.RUNNING_TOTALS
)
"""What only moves elements, or adds some up."""


class _Rows:
    """Whether terms read rows of sites as they are, all by the same numbers; `axes`: which axis of each."""

    def __init__(self, density: Density, matrix: str, sites: Sequence[str]):
        self._density, self._terms = density, MatrixTerms(density, matrix)
        self._sites, self.axes = frozenset(sites), dict[str, int]()
        self._size = density.sites[matrix].shape[-1]

    def kept(self, term: Term, inverse_wishart: bool) -> bool:
        """Whether a term is such a square."""
        columns = self._terms.columns(term, inverse=not inverse_wishart)
        return columns is not None and self._linear(columns.atom, columns.atom.aval.ndim - 2)

    def _linear(self, atom: Any, axis: int) -> bool:
        """Whether rows along an axis are sums of rows of the sites, times numbers that all rows share."""
        maps = self._density.maps[atom]
        read = self._sites & self._density.maps.latents(atom)
        if not read:
            return True
        if any(n not in maps or not self._row_of(n, maps[n], atom.aval.ndim, axis) for n in read):
            return False
        if any(atom is self._density.latent_vars[n] for n in read):
            return True
        eqn = self._density.producer[atom]
        own = [a for a in eqn.invars if self._sites & self._density.maps.latents(a)]
        if op.of_kind(eqn, op.MULTIPLIES, op.DIVIDES):
            others = [a for a in eqn.invars if a is not own[0]]
            if len(own) != 1 or eqn.outvars[0].aval.shape != own[0].aval.shape:
                return False
            return all(same_along(self._density, a, (axis,)) for a in others) and self._linear(own[0], axis)
        if op.of_kind(eqn, op.CONTRACTS):
            batched = eqn.params["dimension_numbers"][1][0]
            return len(own) == 1 and not batched and self._through(own[0])
        return bool(op.of_kind(eqn, _SUMS)) and all(self._through(a) for a in own)

    def _through(self, atom: Any) -> bool:
        """As `_linear`, along whichever axis rows of the sites lie in an operand."""
        found = set()
        for name in self._sites & self._density.maps.latents(atom):
            for access in self._density.maps[atom].get(name, ()):
                place = access.index[self.axes[name]] if name in self.axes else None
                found.add(place.axes if isinstance(place, Affine) else None)
        axes = found.pop() if len(found) == 1 else None
        return axes is not None and len(axes) == 1 and self._linear(atom, axes[0])

    def _row_of(self, name: str, accesses: Any, rank: int, axis: int) -> bool:
        """Whether an array's axis is one of a site's, all of it and the same one everywhere."""
        here = along(rank, axis)
        for access in accesses:
            whole = (n == self._size for n in self._density.sites[name].shape)
            axes = [a for a, fits in enumerate(whole) if fits and access.index[a] == here]
            if len(axes) != 1 or self.axes.setdefault(name, axes[0]) != axes[0]:
                return False
        return bool(accesses)
