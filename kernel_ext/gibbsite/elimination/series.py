"""Integers without end summed out: element by element, block after block of values, until what is left of the
sum is below its last digit.

No bound is set: how far a sum goes is asked again at every value of the other latents. Its derivative is the
expected derivative of a term, summed over the same blocks.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from gibbsite.conditional.draws.categorical import draw_index
from gibbsite.conditional.finite.window import WindowTables, lowest
from gibbsite.conditional.forms.support import degree_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.density import Density
from gibbsite.elimination.integrals.conjugate import Latents, Moments
from gibbsite.elimination.marginal import Marginal
from gibbsite.elimination.steps.semiring import weights as by_share
from gibbsite.elimination.tables.collect import Summed, Tables
from gibbsite.elimination.tables.safe import guarded
from gibbsite.errors import ModelError
from gibbsite.validation.words import family

TAIL = 1e-12
"""Of a sum, that what is left out of it may be: far below a last digit, in double precision nearly one."""
MOST = 2**17
"""Values that are gone through. Where as many are not enough there is no number: the density is none there,
which ends a trajectory as a divergence, and an element stays where it is."""
WIDTH = 32
"""Values of a block: counts of a few dozen, the commonest, take one or two."""

_ONE_PEAK = frozenset(
    "Poisson GammaPoisson NegativeBinomial NegativeBinomial2 Geometric Binomial BetaBinomial "
    "BetaNegativeBinomial".split()
)
"""Families, as their users call them, whose probabilities rise to one largest and fall from there on."""
_LEVELS = {
    **dict.fromkeys("Normal StudentT Cauchy Laplace Logistic Gumbel".split(), "loc"),
    **dict.fromkeys(("Binomial", "BetaBinomial"), "total_count"),
    **{"Poisson": "rate", "Exponential": "rate", "NegativeBinomial2": "mean"},
}
"""Families whose density of a datum rises to one largest and falls from there on in a parameter."""
_MASS, _LAST, _DIGITS = 1e-5, 1e-6, 0.25
"""Of the prior, what a sum may leave out where it may rise again, and what its last block has of it at most;
what rounding makes of the first, in digits of logarithms of factorials (measured, rates 3 to 50,000)."""
_UNEVEN = 1e-5  # of which shares of a sum may add up to more or less than one: some last digits of 1


class Series:
    """The sum over a discrete site without end, whose elements meet in no term. Raises `Refused`.

    The terms of an element are taken to fall, beyond the last block, at least as fast as they do in its last
    half: so they do where their logarithm is concave from there on, as are those of Poisson, geometric and
    negative binomial counts and of what is thinned out of these. Values that are impossible end a sum
    when twice as far nothing more is possible. Where that is not known (a mixture of rates 2 and 900 is next
    to nothing between, and so may data make it), a sum goes on at least until nearly all of the prior is in
    it.
    """

    def __init__(self, density: Density, site: str):
        low = lowest(density, site)
        if low is None:
            raise Refused(f"the values of {site} go both ways without end")
        self.site, self.low = site, low
        self.tables = WindowTables(guarded(density), site, WIDTH)
        if not self.tables.structure.independent:
            raise Refused(f"the elements of {site} meet in one term")
        self.elements = self.tables.structure.elements
        self.dtype = density.sites[site].dtype
        self._density = density
        self._one_peak = _one_peak(density, site)
        if not self._one_peak and density.sites[site].event_shape:
            raise Refused(
                f"what is likely of {site} may rise again after it has fallen, and how much is left of the "
                f"prior is not known of one element, whose distribution is of several at once (`to_event`; a "
                f"plate would tell)"
            )

    def _mass(self, number: Any, latents: Latents, data: Any) -> Any:
        """What the prior of each element has in a block."""
        site = self._density.sites[self.site]

        def at(value: Any) -> Any:
            filled = {**latents, self.site: jnp.broadcast_to(value, site.shape).astype(self.dtype)}
            ev = self._density.evaluator(filled, data)
            return jnp.exp(ev.full(self._density.outputs["log_prob"][self.site]))

        each = jax.vmap(at)(self.low + number * WIDTH + jnp.arange(WIDTH))
        return jnp.broadcast_to(jnp.sum(jnp.nan_to_num(each), axis=0), self.elements)

    def _block(self, number: Any, latents: Latents, data: Any) -> Any:
        """Log terms of a block's values, `(WIDTH, *elements)`."""
        start = jnp.asarray(self.low + number * WIDTH, self.dtype)
        tables = self.tables.beginning(start.reshape((1,) * len(self.elements)))
        return jnp.broadcast_to(tables.single(latents, data), (WIDTH, *self.elements))

    def through(
        self, latents: Latents, data: Any, kept: Any = None, also: Callable[..., Any] | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """By element the largest log term, the sum in units of that, NaN where it has not ended; in how many
        blocks; and what `also(kept, number, terms, share)` made of `kept` from block to block, of which each
        has a `share` of all so far.

        A logarithm of the sum would not do: at −3000 its last digit, lost block by block, is 1 % of a share.
        """

        def going(carry: Any) -> Any:
            number, *_, ended, _, _ = carry
            return (number * WIDTH < MOST) & ~jnp.all(ended)

        def body(carry: Any) -> Any:
            number, top, total, last, _, mass, kept = carry
            terms = self._block(number, latents, data)
            higher = jnp.maximum(top, jnp.max(terms, axis=0))
            unit = jnp.where(higher > -jnp.inf, higher, 0.0)
            inside = jnp.sum(jnp.exp(terms - unit), axis=0)
            total = total * jnp.exp(top - unit) + inside
            ends = (number + 1) * WIDTH
            last = jnp.where(jnp.any(terms > -jnp.inf, axis=0), ends, last)
            half = terms[WIDTH // 2 :] - unit
            nothing = jnp.all(half == -jnp.inf, axis=0) & (ends >= 2 * last + WIDTH)
            ratio = jnp.max(half[1:] - half[:-1], axis=0)  # NaN, which is never below 0, of impossible values
            tail = half[-1] + ratio - jnp.log1p(-jnp.exp(jnp.minimum(ratio, -1e-7)))
            small = (ratio < 0) & (tail < jnp.log(total) + math.log(TAIL))
            if not self._one_peak:
                here = self._mass(number, latents, data)
                mass = mass + here
                rounded = _DIGITS * jnp.finfo(mass.dtype).eps * ends * jnp.log1p(ends * 1.0)
                small &= ((mass > 1 - _MASS - rounded) & (here < _LAST)) | (ends >= MOST)
            ended = ((nothing | small) & (total > 0)) | jnp.isnan(total)
            if also is not None:
                kept = also(kept, number, terms, jnp.where(total > 0, inside / total, 0.0))
            return number + 1, higher, total, last, ended, mass, kept

        first = (
            jnp.zeros((), jnp.int32),
            jnp.full(self.elements, -jnp.inf),
            jnp.zeros(self.elements),
            jnp.zeros(self.elements, jnp.int32),
            jnp.zeros(self.elements, bool),
            jnp.zeros(self.elements),
            kept,
        )
        number, top, total, _, ended, _, kept = jax.lax.while_loop(going, body, first)
        return top, jnp.where(ended, total, jnp.nan), number, kept

    def total(self, latents: Latents, data: Any) -> Any:
        """The log of the sum of all elements, a scalar with its derivative."""
        return _total(self, (dict(latents), data))

    def slope(
        self, moved: Callable[[Sequence[Any]], Any], at: Sequence[Any], top: Any, total: Any, blocks: Any
    ) -> Any:
        """The derivative by the arrays `at`, of which `moved` makes latents and data: term by term, each with
        its share of the sum, which `through` found.

        Another program rounds logarithms of large factorials otherwise, by the last digit of 20,000: where
        shares do not add up to one, they are taken of what they add up to.
        """

        def block(number: Any, carry: Any) -> Any:
            sums, whole, total = carry
            terms, back = jax.vjp(lambda *xs: self._block(number, *moved(xs)), *at)
            shares = jnp.where(terms > -jnp.inf, jnp.exp(terms - top) / total, 0.0)
            sums = [a + b for a, b in zip(sums, back(shares), strict=True)]
            return sums, whole + jnp.sum(shares, axis=0), total

        def going(carry: Any) -> Any:
            _, whole, _, passes = carry
            return (passes == 0) | ((passes == 1) & jnp.any(jnp.abs(whole - 1) > _UNEVEN))

        def all_blocks(carry: Any) -> Any:
            _, whole, total, passes = carry
            total = total * whole
            nothing = [jnp.zeros_like(x) for x in at], jnp.zeros(self.elements), total
            return *jax.lax.fori_loop(0, blocks, block, nothing), passes + 1

        first = [jnp.zeros_like(x) for x in at], jnp.ones(self.elements), total, jnp.zeros((), jnp.int32)
        return jax.lax.while_loop(going, all_blocks, first)[0]

    def draw(self, key: Any, latents: Latents, data: Any, now: Any) -> Any:
        """One exact draw; elements without a possible value keep `now`."""

        def also(drawn: Any, number: Any, terms: Any, share: Any) -> Any:
            key_here, key_in = jax.random.split(jax.random.fold_in(key, number))
            # taken with its share of all so far, a block is the last one taken as often as it should be
            # (Chao 1982, "A general purpose unequal probability sampling plan")
            index = draw_index(key_in, terms, self.elements)
            taken = (jax.random.uniform(key_here, self.elements) < share) & (index >= 0)
            return jnp.where(taken, self.low + number * WIDTH + index, drawn).astype(self.dtype)

        _, total, _, drawn = self.through(latents, data, jnp.broadcast_to(now, self.elements), also)
        return jnp.where(jnp.isnan(total), now, drawn).astype(self.dtype)

    def best(self, latents: Latents, data: Any) -> Any:
        """The likeliest value of each element."""

        def also(kept: Any, number: Any, terms: Any, share: Any) -> Any:
            height, value = kept
            top, at = jnp.max(terms, axis=0), jnp.argmax(terms, axis=0)
            here = (self.low + number * WIDTH + at).astype(self.dtype)
            return jnp.maximum(height, top), jnp.where(top > height, here, value)

        first = jnp.full(self.elements, -jnp.inf), jnp.full(self.elements, self.low, self.dtype)
        return self.through(latents, data, first, also)[3][1]

    def moments(self, latents: Latents, data: Any) -> Moments:
        """Mean and variance of each element, joined from block to block (Chan, Golub and LeVeque 1979)."""

        def also(kept: Any, number: Any, terms: Any, share: Any) -> Any:
            mean, spread = kept
            values = self.low + number * WIDTH + jnp.arange(WIDTH).reshape((-1,) + (1,) * len(self.elements))
            weights = by_share(terms)
            own = jnp.sum(weights * values, axis=0)
            within = jnp.sum(weights * (values - own) ** 2, axis=0)
            apart = (own - mean) ** 2 * share * (1 - share)
            return mean + share * (own - mean), (1 - share) * spread + share * within + apart

        first = jnp.zeros(self.elements), jnp.zeros(self.elements)
        return Moments(*self.through(latents, data, first, also)[3])


def _one_peak(density: Density, site: str) -> bool:
    """Whether the prior of an element and all that reads it are known to rise to one largest value of it and
    to fall from there on, each."""
    if family(density.sites[site]) not in _ONE_PEAK:
        return False
    for origin in {t.origin for t, _ in density.terms_of(site)} - {site}:
        if origin not in density.sites:
            return False
        level = _LEVELS.get(family(density.sites[origin]))
        for name, atom in density.outputs["parameters"].get(origin, {}).items():
            if degree_of(density, (site,), atom, {}) not in ((0, 1) if name == level else (0,)):
                return False
    return True


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _total(series: Series, at: Any) -> Any:
    top, total, *_ = series.through(*at)
    return jnp.sum(top + jnp.log(total))


def _total_and_slope(series: Series, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Pulled back, the derivative is one pass over the blocks; forwards it has derivatives of its own."""
    leaves, tree = jax.tree.flatten(primals[0])
    dots = jax.tree.leaves(tangents[0], is_leaf=lambda t: isinstance(t, SymbolicZero))
    active = [i for i, t in enumerate(dots) if not isinstance(t, SymbolicZero)]

    def moved(xs: Sequence[Any]) -> Any:
        new = list(leaves)
        for i, x in zip(active, xs, strict=True):
            new[i] = x
        return jax.tree.unflatten(tree, new)

    top, total, blocks, _ = series.through(*primals[0])
    slopes = series.slope(moved, [leaves[i] for i in active], top, total, blocks)
    return jnp.sum(top + jnp.log(total)), sum(
        jnp.vdot(s, dots[i]) for s, i in zip(slopes, active, strict=True)
    )


_total.defjvp(_total_and_slope, symbolic_zeros=True)


class SeriesMarginal(Marginal):
    """Integers without end summed out, each site by its `Series`."""

    def __init__(self, density: Density, sites: Sequence[str], order: Sequence[str] | None = None):
        super().__init__(density, sites)
        density = self.density
        self.series: dict[str, Series] = {}
        for unit in self._units:
            try:
                self.series[unit] = Series(density, unit)
            except Refused as why:
                raise ModelError(
                    f"{unit!r} has infinite support ({density.sites[unit].support}) and cannot be summed "
                    f"out: {why}; truncate it (for example a Categorical over 0…K), or draw it: Window {unit}"
                ) from why
        two = {u: FiniteSupport(s.low + np.arange(2), s.elements, None) for u, s in self.series.items()}
        tables = Tables(density, Summed(two))
        met = next((f for f in tables.factors if len(f.sites) > 1), None)
        if met is not None:
            names = " and ".join(map(repr, dict.fromkeys(met.sites)))
            raise ModelError(
                f"{names} meet in {met.origin!r}, and sums without end are taken one by one: sum out one of "
                f"them given the others, which Window draws"
            )
        self._rest = tables

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(m for u in self._units for m in self._units[u])

    @property
    def cost(self) -> str:
        n = sum(math.prod(t.term.shape) for s in self.series.values() for t in s.tables.filled)
        return f"{n} term elements × as many values as have weight, {WIDTH} at a time"

    @property
    def signature(self) -> str:
        return repr([(s.site, s.low, s.elements) for s in self.series.values()])

    @property
    def read(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
        for unit, series in self.series.items():
            near = [t.origin for t, _ in self.density.terms_of(unit)]
            sites = self.names_of((unit,))
            text = (
                f"sum out {unit}: {math.prod(series.elements):,} elements at once, values from {series.low} "
                f"on until what is left is below {TAIL:g} of the sum, which is asked at every step"
            )
            yield sites, tuple(dict.fromkeys(n for n in near if n not in sites)), text

    def __str__(self) -> str:
        lines = [f"{i}. {text}" for i, (_, _, text) in enumerate(self.read, 1)]
        return "\n".join([*lines, f"   {self.cost}"])

    def logdensity_at(
        self, latents: Latents, data: Any, apart: Latents | None = None, held: bool = True
    ) -> Any:
        left = self.left(latents)
        return self._rest.rest(left, data, apart) + sum(s.total(left, data) for s in self.series.values())

    def settled_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        return {u: s.best(self.left(latents), data) for u, s in self.series.items()}

    def draw_at(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        left, now = self.left(latents), self.density.packed(latents)
        each = zip(self.series.items(), jax.random.split(key, len(self.series)), strict=True)
        return self._by_name({u: s.draw(k, left, data, now.get(u, s.low)) for (u, s), k in each})

    def moments_at(self, latents: Latents, data: Any) -> dict[str, Moments]:
        out = {}
        for unit, series in self.series.items():
            out.update(self._named(unit, series.moments(self.left(latents), data)))
        return out

    def probs_below(self, count: int, latents: Latents, data: Any) -> dict[str, Any]:
        """`P(site = value)` of the values 0 … `count - 1` by site, `[*shape, count]`, of sites without values
        below 0: what is missing of 1 is that of the others."""
        out = {}
        for unit, series in self.series.items():
            left = self.left(latents)
            top, total, *_ = series.through(left, data)
            blocks = [series._block(i, left, data) for i in range(-(-count // WIDTH))]
            p = jnp.exp(jnp.concatenate(blocks) - top) / total
            p = jnp.concatenate([jnp.zeros((series.low, *series.elements)), p])[:count]
            out.update(self._unpacked(unit, jnp.moveaxis(p, 0, -1)))
        return out

    def probs_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        raise ModelError(
            f"{' and '.join(self.sites)}: probabilities are those of listed values, and these have no end; "
            f"`moments` has means and variances"
        )
