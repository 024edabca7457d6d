"""One exact draw of several sites that are Gaussian together given the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.draws.passes import looped
from gibbsite.conditional.forms.support import certify_quadratic, support_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.curvature import NotPlain, peeled, weight_of
from gibbsite.conditional.gaussian.joint import GaussianChain, GaussianConditional
from gibbsite.conditional.linear.arrow import Bordered, Vector
from gibbsite.conditional.linear.collinear import alike
from gibbsite.conditional.linear.layout import Layout, arranged
from gibbsite.conditional.linear.rows import Row, Rows, Slopes
from gibbsite.conditional.reads.support import bounded_by
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.density.terms import Term, summed
from gibbsite.ground.once import once
from gibbsite.programs.evaluation.evaluate import Evaluator

# a mean that its last step moved by less than this many standard deviations is there
_CLOSE = 0.01
_SHORT = 0.1  # shorter steps, in standard deviations, are rounding
_MOST_STEPS = 8


class Solved(NamedTuple):
    """The mean of jointly Gaussian sites and their factorised precision.

    `rounding` tells what they are worth: the least share that any step towards the mean left of the one
    before (an exact factor leaves rounding alone; of a spread that is wrong by a third, every step leaves a
    third; what sums of large numbers lose in a long step, the next one takes back), and, in standard
    deviations, what the values lose by being held in single precision.
    """

    mean: Vector
    factor: Bordered
    rounding: Any


class JointGaussian(Update):
    """The joint conditional of `sites`: a Gaussian whose precision and mean are read off the terms.

    Terms that are products of affine functions are summed as rows (`rows`); others, such as `b @ P @ b`, are
    differentiated. `replaced` are rows that stand for the terms numbered in `without`. `layout` says how the
    precision is eliminated.
    """

    measured = True

    def __init__(
        self,
        density: Density,
        sites: Sequence[str],
        degrees: Mapping[Any, int],
        replaced: Sequence[Row] = (),
        without: frozenset[int] = frozenset(),
    ):
        self.density, self.sites, self.without = density, tuple(sites), without
        self._replaced = tuple(replaced)
        near = density.terms_reading(sites)
        touching = list(near.values())
        self._terms = [t for i, t in near.items() if i not in without]
        rows, self._flat, self._odd = list(replaced), [], []
        for term in self._terms:
            if degrees[term.atom] < 2:
                self._flat.append(term)
                continue
            row = _row(density, degrees, term)
            if row is None or not is_plain(density, self.sites, degrees, row):
                self._odd.append(term)
            else:
                rows.append(row)
        elements = sum(int(np.prod(r.shape, dtype=np.int64)) for r in rows)
        whole = frozenset(s for t in self._odd for s in self.sites if s in density.maps.latents(t.atom))
        self.layout: Layout = arranged(density, self.sites, whole, elements)
        self._rows = Rows(density, degrees, self.layout, tuple(rows))
        origins = ", ".join(dict.fromkeys(t.origin for t in touching))
        named = " and ".join(self.sites)
        self.reason = (
            f"MultivariateNormal of {named} together: the log density is a quadratic form of them, in the "
            f"terms of {origins}; precision: {self.layout}"
        )
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touching)
        self.cost = f"values and slopes of {n} term elements, a factorisation of {self.layout}"

    def values(self, x: Vector) -> dict[str, Any]:
        """The values by site that a vector holds, in the sites' dtypes."""
        found = self.layout.values(x)
        return {s: found[s].astype(self.density.sites[s].dtype) for s in self.sites}

    def _zero(self) -> dict[str, Any]:
        sites = self.density.sites
        return {s: jnp.zeros(sites[s].shape, sites[s].dtype) for s in self.sites}

    def solved(
        self, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Solved:
        """Mean and factorised precision at the values of the other sites; pure.

        Values of the sites themselves, where there are any, only say where the mean is looked for: from
        close by, sums over data lose nothing to numbers that cancel.
        """
        others = {n: v for n, v in latents.items() if n not in self.sites}
        ev, rows, factor = self._factored(others, data, auxiliary or {})
        return self._settled(latents, data, ev, rows, factor)

    def _settled(
        self, latents: Mapping[str, Any], data: Any, ev: Evaluator, rows: list[Slopes], factor: Bordered
    ) -> Solved:
        """As `solved`, where the precision is factorised."""
        others, zero = {n: v for n, v in latents.items() if n not in self.sites}, self._zero()
        found = {n: jnp.asarray(latents.get(n, v), v.dtype) for n, v in zero.items()}
        start = {n: jnp.where(jnp.isfinite(v), v, 0) for n, v in found.items()}

        def step(at: tuple[Any, ...]) -> tuple[Any, ...]:
            x, before, rounding, times = at
            gradient = self._gradient(x, rows, ev, others, data)
            move = factor.solve(gradient)
            squares = jax.tree.map(lambda g, m: jnp.sum(g * m), gradient, move)
            size = jnp.sqrt(jnp.maximum(sum(squares), 0))
            left = jnp.where(times > 0, size / jnp.maximum(before, _SHORT), jnp.inf)
            return jax.tree.map(jnp.add, x, move), size, jnp.minimum(rounding, left), times + 1

        def unsettled(at: tuple[Any, ...]) -> Any:
            _, size, _, times = at
            return (size > _CLOSE) & (times < _MOST_STEPS)

        # the second step takes back what the first lost to rounding: it starts from residuals
        none = jnp.zeros((), jnp.result_type(*zero.values()))
        first = self.layout.vector(start, none.dtype), none, none + jnp.inf, jnp.zeros((), jnp.int32)
        at = step(step(first))
        if self.alike is not False:
            at = looped(0, unsettled, step, at)  # where two steps were not enough
        mean, _, rounding, _ = at
        return Solved(mean, factor, jnp.sqrt(rounding**2 + factor.rounding(mean)))

    def differentiable(self, latents: Mapping[str, Any], data: Any, held: bool) -> tuple[Vector, Bordered]:
        """Mean and factorised precision, which derivatives of any order go through; where `held`, they hold
        the mean fixed."""
        others = {n: v for n, v in latents.items() if n not in self.sites}
        ev, rows, factor = self._factored(others, data, {}, differentiable=True)
        now = {n: jax.lax.stop_gradient(v) for n, v in latents.items()}
        at = self.density.evaluator({**now, **self._zero()}, data)
        fixed = jax.tree.map(jax.lax.stop_gradient, factor)
        mean = self._settled(now, data, at, self._rows.slopes(at, {}), fixed).mean
        if not held:  # of a quadratic, one step leads to the mean from anywhere
            move = factor.solve(self._gradient(mean, rows, ev, others, data))
            mean = jax.tree.map(jnp.add, mean, move)
        return mean, factor

    def _factored(
        self, others: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any], differentiable: bool = False
    ) -> tuple[Evaluator, list[Slopes], Bordered]:
        """Values at zero of the sites, the slopes of rows there, and the factorised precision."""
        zero = self._zero()
        ev = self.density.evaluator({**others, **zero}, data)
        rows = self._rows.slopes(ev, auxiliary)
        odd, alike = self._curvature(zero, others, data), self.alike is not False
        return ev, rows, self._rows.factored(rows, ev, odd, alike, differentiable)

    def _gradient(self, x: Vector, rows: Any, ev: Evaluator, others: Mapping[str, Any], data: Any) -> Vector:
        """That of the log density at values of the sites."""
        here = self.values(x)
        gradient = self._rows.gradient(rows, self.density.evaluator({**others, **here}, data), ev)
        rest = self._differentiated(here, others, data)
        return gradient if rest is None else jax.tree.map(jnp.add, gradient, rest)

    def replaced_at(self, ev: Evaluator, auxiliary: Mapping[str, Any]) -> Any:
        """What the rows that stand for other terms add to the log density at the values of `ev`: a scalar."""
        out = jnp.zeros(())
        for row in self._replaced:
            weight = row.weight(ev, auxiliary)
            a, b = ev.lazy(row.left), ev.lazy(row.right)
            value = jnp.where(weight == 0, 0, weight * a * b)
            if row.linear is not None:
                value = value + row.linear(ev, auxiliary) * a
            out = out + jnp.sum(jnp.broadcast_to(value, row.shape))
        return out

    def _sum(self, terms: Sequence[Term], x: Mapping[str, Any], others: Mapping[str, Any], data: Any) -> Any:
        return summed(terms, self.density.evaluator({**others, **x}, data))

    def _differentiated(self, x: Mapping[str, Any], others: Mapping[str, Any], data: Any) -> Vector | None:
        """The gradient of the terms that are no rows."""
        terms = self._flat + self._odd
        if not terms:
            return None
        found = jax.grad(lambda x: self._sum(terms, x, others, data))(dict(x))
        return self.layout.vector(found, jnp.result_type(*found.values()))

    def _curvature(self, zero: Mapping[str, Any], others: Mapping[str, Any], data: Any) -> Any:
        """What the terms that are no rows add to the precision of the border."""
        if not self._odd:
            return None
        start = self.layout.vector(zero, jnp.result_type(*zero.values()))

        def gradient(border: Any) -> Any:
            x = self.layout.values(start._replace(border=border))
            found = jax.grad(lambda x: self._sum(self._odd, x, others, data))(x)
            return self.layout.vector(found, border.dtype).border

        def column(unit: Any) -> Any:
            return jax.jvp(gradient, (start.border,), (unit,))[1]

        units = jnp.eye(self.layout.border, dtype=start.border.dtype)
        return -jax.lax.map(column, units, batch_size=64)

    def noise(self, key: Any) -> Vector:
        """Standard Normal numbers, one per element."""
        layout, dtype = self.layout, jnp.result_type(*(self.density.sites[s].dtype for s in self.sites))
        keys = jax.random.split(key, 3)
        shapes = (layout.groups, layout.width), (layout.rest,), (layout.border,)
        return Vector(*(jax.random.normal(k, s, dtype) for k, s in zip(keys, shapes, strict=True)))

    def drawn(
        self, key: Any, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Drawn:
        mean, factor, rounding = self.solved(latents, data, auxiliary)
        return Drawn(self.values(jax.tree.map(jnp.add, mean, factor.noise(self.noise(key)))), rounding)

    @cached_property
    def alike(self) -> bool | None:
        """Whether columns of the data nearly make up for each other, None where it is not known: precisions
        are then formed again where their factors tell so."""
        rows, whole = self._rows, bool(self._replaced or self._odd)
        return alike(self.density, self.layout, rows.rows, lambda ev: rows.slopes(ev, {}), whole)

    @property
    def signature(self) -> str:
        return repr((type(self).__name__, self.sites, self.layout, self.alike))


def is_gaussian(conditional: Conditional, chains: bool = False) -> bool:
    """Whether a site is Gaussian given the rest; `chains`, which are drawn otherwise, count if asked for."""
    if isinstance(conditional, ConjugateConditional):
        return conditional.family.name == "Normal"
    alone = chains or not isinstance(conditional, GaussianChain)
    return isinstance(conditional, GaussianConditional) and alone


def _row(density: Density, degrees: Mapping[Any, int], term: Term) -> Row | None:
    found = peeled(density, degrees, term)
    if found is None:
        return None
    return Row(term.shape, found.left, found.right, lambda ev, auxiliary: weight_of(term, found, ev))


def is_plain(density: Density, sites: Sequence[str], degrees: Mapping[Any, int], row: Row) -> bool:
    """Whether every operation between the sites and the row's functions has a slope."""
    whole = arranged(density, sites, frozenset(sites), 0)
    unweighted = replace(row, weight=lambda ev, auxiliary: jnp.ones((1,) * len(row.shape)), linear=None)
    rows = Rows(density, degrees, whole, (unweighted,))

    def slopes(latents: Mapping[str, Any], data: Any) -> Any:
        found: list[Slopes] = rows.slopes(density.evaluator(latents, data), {})
        return [(s.left, s.right) for s in found]

    try:
        density.on_shapes(slopes)
    except NotPlain:
        return False
    return True


def check_real(density: Density, sites: Sequence[str]) -> None:
    """Raise `Refused`, with the reason, where a site does not live on the real line or moves a support."""
    for site in sites:
        if density.sites[site].discrete:
            raise Refused(f"{site} is discrete")
        moved = bounded_by(density, site)
        if moved:
            raise Refused(f"{site} bounds the support of {', '.join(moved)}")
        kind = support_of(density, site).kind
        if kind != "real":
            raise Refused(f"the support of {site} is of kind {kind!r}, not the real line")


@once
def joint_gaussian(density: Density, sites: Sequence[str]) -> JointGaussian:
    """The joint conditional of several sites of `density`; `Refused` where they are not Gaussian together.

    It is derived once per density.
    """
    check_real(density, sites)
    return JointGaussian(density, sites, certify_quadratic(density, *sites))


def alike_columns(density: Density, site: str) -> JointGaussian | None:
    """The joint conditional of one site's elements where columns of data nearly make up for each other."""
    try:
        found = joint_gaussian(density, (site,))
    except Refused:
        return None
    return found if found.alike else None
