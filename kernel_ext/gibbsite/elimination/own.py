"""How likely each datum is given the others, with continuous latents that are its own integrated out.

A latent element is a datum's own where no other datum of the same site reads it: a random effect with one
observation, a missing covariate, the true value behind a measurement. Drawn with the very datum, it hides
what that would be without it. Given all else, `p(y_i | the others)` is `∫ p(y_i | b) c(b) db / ∫ c(b) db`,
where the cavity `c` is the density of all that touches `b` but the datum.

Elements that are independent given the rest are integrated over one by one in unconstrained coordinates, by
the trapezoidal rule in `t` where `u = centre + scale · sinh t` (Takahasi and Mori 1974): its nodes are dense
about the centre and as far apart as they are from it, so that neither has to be known well. Those with a
conjugate law, and vectors of a datum or coupled ones (a random walk, a Gaussian process) that are Gaussian
with the data, are integrated out exactly (`cavity`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from gibbsite.conditional.linear.choose import coupled
from gibbsite.conditional.reads.elements import ElementDensity, element_density
from gibbsite.conditional.reads.term_access import element_indices, resolved
from gibbsite.density import Density
from gibbsite.density.current import scored_elements
from gibbsite.density.model.sites import Site
from gibbsite.elimination.cavity import (
    ConjugateCavity,
    GaussianCavity,
    OwnElements,
    RowsCavity,
    conjugate_cavity,
    gaussian_cavity,
    rows_cavity,
)
from gibbsite.elimination.pointwise import CHANGED, likelihood_of
from gibbsite.programs.maps.access import Access, disjoint, inside

_ROUGH, _FIRST = np.arange(-14, 14.1, 0.8), 0.01
"""Nodes that look for a centre, from a hundredth of the posterior's scale to thousands of it away."""
_FINE = {1: np.arange(-8, 8.1, 0.25), 2: np.arange(-7.2, 7.3, 0.4)}
"""Nodes by the number of latents of a datum's own: at most two, of which all pairs are nodes."""
_FINER = {1: np.arange(-8, 8.001, 0.01), 2: np.arange(-7.2, 7.21, 0.1)}
"""The same for likelihoods with steps and bends, as of a datum that says where its latent lies."""
_MOST_NUMBERS = 2**24
"""Nodes times data: likelihoods that are held at once."""
_LEAST = 1e-6
"""Of scales: chains that stand still have none."""
_TRIED = 8
"""Draws of a latent at which it is looked at which data it moves."""
_END = 1e-4
"""Share of an integral at its outermost nodes: with more it has no end, as under a flat prior."""


class Own:
    """`log p(y_i | the other data, latents)` of the data of an observed site, with the elements of `sites`
    that are single data's own integrated out. `given` are sites with such elements that cannot be, and
    discrete sites that the integral is given. `draws` are those of all latents, `[draw, *shape]`; `finer`
    takes more nodes."""

    def __init__(self, density: Density, name: str, draws: Mapping[str, Any], finer: bool = False):
        self._density, self._name, self._nodes = density, name, _FINER if finer else _FINE
        found = [s for n in density.latents if (s := _own(density, name, n, draws)) is not None]
        kept = {k: tuple(t for t in getattr(density, k) if t.origin != name) for k in ("terms", "bounds")}
        left = replace(density, **kept, cache={})
        self._sites: list[OwnElements] = []
        self._cavities: list[ElementDensity] = []
        self._scales: list[np.ndarray] = []
        self._closed: ConjugateCavity | RowsCavity | GaussianCavity | None = None
        if len(found) == 1 and not finer:
            self._closed = conjugate_cavity(density, name, found[0]) or rows_cavity(
                density, left, name, found[0]
            )
        for site in () if self._closed else found:
            cavity = element_density(left, site.name) if self._fits(left, site) else None
            if cavity is not None:
                self._sites.append(site)
                self._cavities.append(cavity)
                each = np.asarray(cavity.unconstrained(draws[site.name]), float)
                self._scales.append(np.maximum(np.std(each, axis=0), _LEAST))
        if found and not self._sites and not self._closed:
            self._closed = self._gaussian(found, draws)
        self.sites = tuple(s.name for s in self._sites) if self._closed is None else self._closed.sites
        near = {n for s in self.sites for t, _ in density.terms_of(s) for n in density.maps.latents(t.atom)}
        labels = (n for n in density.latents if n in near and density.sites[n].discrete)
        behind = self._behind(self.sites, draws)
        self.given: tuple[str, ...] = (*(s.name for s in found if s.name not in self.sites), *labels, *behind)

    def _behind(self, sites: Collection[str], draws: Mapping[str, Any]) -> list[str]:
        """What an element that is integrated out has of its own: that was drawn with the very datum, too."""
        density = self._density
        near = {n for s in sites for t, _ in density.terms_of(s) for n in density.maps.latents(t.atom)}
        return [
            n
            for n in density.latents
            if n in near and n not in sites and any(_own(density, s, n, draws) for s in sites)
        ]

    def _gaussian(self, found: Sequence[OwnElements], draws: Mapping[str, Any]) -> GaussianCavity | None:
        """With all that is behind them integrated out as well, if that can be."""
        alone = names = tuple(s.name for s in found)
        while more := self._behind(names, draws):
            names = (*names, *more)
        tried = (gaussian_cavity(self._density, self._name, found, n) for n in dict.fromkeys((names, alone)))
        return next((cavity for cavity in tried if cavity is not None), None)

    def _fits(self, left: Density, site: OwnElements) -> bool:
        """Whether a site can be integrated over beside those that are."""
        names = [*(s.name for s in self._sites), site.name]
        return (
            site.alone.shape == left.sites[site.name].shape
            and len(names) in self._nodes
            and len(self._nodes[len(names)]) ** len(names) * site.number.size <= _MOST_NUMBERS
            and len(coupled(left, names)) == len(names)
        )

    @property
    def at_once(self) -> int:
        """Draws to evaluate together."""
        if self._closed is not None:
            return 16
        held = len(self._nodes[len(self.sites)]) ** len(self.sites) * self._sites[0].number.size
        return int(np.clip(_MOST_NUMBERS // held, 1, 16))

    def __call__(self, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        """An array of the log density's shape, by name, and under `CHANGED` how far it may be off."""
        known = self._density.packed(latents)
        latents = {n: known[n] for n in self._density.latent_vars}
        found, off = (self._closed or self._integrated)(latents, data)
        return {self._name: found, CHANGED: off}

    def _likelihood(self, latents: Mapping[str, Any], data: Any, values: list[Any]) -> Any:
        """With `values` of the elements that are single data's own."""
        there = dict(latents)
        for site, value in zip(self._sites, values, strict=True):
            there[site.name] = jnp.where(site.alone, value, latents[site.name])
        return likelihood_of(self._density, self._name, self._density.evaluator(there, data))

    def _integrated(self, latents: Mapping[str, Any], data: Any) -> Any:
        cavities, sites, scales = self._cavities, self._sites, self._scales
        drawn = [c.unconstrained(latents[s.name]) for c, s in zip(cavities, sites, strict=True)]

        def likelihood(us: list[Any]) -> Any:
            return self._likelihood(
                latents, data, [c.constrained(u) for c, u in zip(cavities, us, strict=True)]
            )

        below, places, wrong = jnp.zeros(()), [], jnp.zeros(())
        for i, (cavity, site, scale) in enumerate(zip(cavities, sites, scales, strict=True)):

            def alone(u: Any, cavity: ElementDensity = cavity) -> Any:
                found = cavity.at(u, latents, data)
                return jnp.where(found == jnp.inf, jnp.nan, found)  # of values that round onto an end

            def with_datum(u: Any, i: int = i, site: OwnElements = site, alone: Any = alone) -> Any:
                each = jnp.where(site.reads, likelihood([*drawn[:i], u, *drawn[i + 1 :]]), 0)
                onto = jnp.zeros(u.size, each.dtype).at[site.number.reshape(-1)].add(each.reshape(-1))
                return alone(u) + onto.reshape(u.shape)

            steps = self._nodes[1]
            place = _centre(alone, drawn[i], scale)
            each = jax.vmap(lambda t, place=place, alone=alone: _weighted(alone, place, t))(steps)
            total, off = _summed(each, steps[:, None])
            below = below + total.reshape(-1)[site.number]
            wrong = jnp.maximum(wrong, jnp.max(jnp.where(site.alone, off, 0)))
            places.append((alone, _centre(with_datum, drawn[i], scale)))
        steps = self._nodes[len(sites)]
        grid = np.stack([g.reshape(-1) for g in np.meshgrid(*(steps,) * len(sites), indexing="ij")], axis=1)

        def together(t: Any) -> Any:
            us = [place[0] + place[1] * jnp.sinh(x) for (_, place), x in zip(places, t, strict=True)]
            total = likelihood(us)
            for site, (alone, place), x in zip(sites, places, t, strict=True):
                total = total + _weighted(alone, place, x).reshape(-1)[site.number]
            return total

        above, off = _summed(jax.vmap(together)(jnp.asarray(grid)), grid)
        mine = np.any([s.reads for s in sites], axis=0)
        found = jnp.where(mine, above - below, likelihood(drawn))
        return found, jnp.maximum(wrong, jnp.max(jnp.where(mine, off, 0)))


def _weighted(fn: Any, place: tuple[Any, Any], t: Any) -> Any:
    """The integrand over `t` of the exponential of a log density."""
    return fn(place[0] + place[1] * jnp.sinh(t)) + jnp.log(place[1] * jnp.cosh(t))


def _centre(fn: Any, start: Any, scale: Any) -> tuple[Any, Any]:
    """Mean and standard deviation of each element under its log density, roughly."""
    centre, scale = start, jnp.asarray(scale, start.dtype)
    for _ in range(2):
        place = (centre, _FIRST * scale)
        each = jax.vmap(lambda t, place=place: _weighted(fn, place, t))(_ROUGH)
        w = jax.nn.softmax(jnp.where(jnp.isnan(each), -jnp.inf, each), axis=0)
        steps = jnp.reshape(jnp.asarray(_ROUGH, start.dtype), (-1,) + (1,) * start.ndim)
        away, gap = jnp.sinh(steps) * place[1], 0.8 * jnp.cosh(steps) * place[1]
        mean = jnp.sum(w * away, axis=0)
        variance = jnp.sum(w * ((away - mean) ** 2 + gap**2 / 12), axis=0)  # with that between nodes
        centre, scale = centre + mean, jnp.sqrt(variance)
    return centre, scale


def _summed(each: Any, grid: np.ndarray) -> tuple[Any, Any]:
    """The log integral of what `each` is the log of at the nodes `grid`, and how far it may be off: what is
    left falls by as much again as from a quarter of the nodes (along each axis) to a half and from there to
    all. That is to its square where the integrand is smooth (Trefethen and Weideman 2014, §3), and to its
    half where it has a step. Nodes whose value is no number are left out, where next to nothing is beside
    them."""
    step, end = np.diff(np.unique(grid[:, 0]))[0], np.abs(grid).max()
    at = np.rint((grid + end) / step).astype(int)
    none = jnp.isnan(each)
    each = jnp.where(none, -jnp.inf, each)
    totals = []
    for apart in (1, 2, 4):
        some = np.all(at % apart == 0, axis=1)
        totals.append(jax.nn.logsumexp(each[some], axis=0) + grid.shape[1] * np.log(apart * step))
    total, half, quarter = totals
    fine, rough = jnp.abs(total - half), jnp.abs(half - quarter)
    left = jnp.where(fine < rough, fine * fine / jnp.where(rough > 0, rough, 1), fine)
    sides = (at.max() + 1,) * grid.shape[1]
    last = np.any(np.isclose(np.abs(grid), end), axis=1).reshape(-1, *(1,) * (each.ndim - 1))
    for axis in range(grid.shape[1]):
        holes = none.reshape(*sides, *each.shape[1:])
        beside = jnp.roll(holes, 1, axis) | jnp.roll(holes, -1, axis)
        last = last | beside.reshape(each.shape)
    ends = jax.nn.logsumexp(jnp.where(last, each, -jnp.inf), axis=0)
    outside = ends + grid.shape[1] * np.log(step) - total
    return total, jnp.where(outside < np.log(_END), left, jnp.inf)


def _own(density: Density, name: str, latent: str, draws: Mapping[str, Any]) -> OwnElements | None:
    """The elements of a continuous latent that single data of the observed site `name` read alone."""
    site, atom = density.sites[latent], density.outputs["log_prob"][name]
    accesses = density.maps[atom].get(latent, ())
    there = scored_elements(density, name)
    if site.discrete or not accesses or there.sum() < 2:
        return None
    (found,) = resolved(density, [(None, accesses)])
    for rank in dict.fromkeys((len(site.shape), site.element_rank, len(site.batch_shape))):
        batch = tuple(dict.fromkeys(Access(a.index[:rank], a.window) for a in found))
        if rank and disjoint(batch) and all(a.single and not a.latents() for a in batch):
            number, reads = _numbers(density, batch, site.shape[:rank], there.shape)
            return _alone(site, number, reads & there & _changed(density, name, latent, draws), rank)
    return None


def _numbers(
    density: Density, accesses: tuple[Access, ...], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Which element each datum may read, and whether it may read any."""
    number, reads = np.zeros(shape, int), np.zeros(shape, bool)
    with jax.ensure_compile_time_eval():
        for access in accesses:
            here = np.broadcast_to(inside(access.window, shape), shape)
            index = [np.where(here, i, 0) for i in element_indices(density, access, shape)]
            number, reads = np.where(here, np.ravel_multi_index(index, sizes), number), reads | here
    return number, reads


def _changed(density: Density, name: str, latent: str, draws: Mapping[str, Any]) -> np.ndarray:
    """Which data's likelihoods move with the draws of a latent: index maps do not know that `where` takes a
    missing covariate in some rows alone."""
    first, each = {n: v[0] for n, v in draws.items()}, np.asarray(draws[latent])
    rows = np.unique(np.linspace(0, len(each) - 1, _TRIED).astype(int))
    tried = [*each[rows]]
    # a datum that says where its latent lies shows nothing at draws that lie there
    tried += [np.roll(each[k].ravel(), i + 1).reshape(each[k].shape) for i, k in enumerate(rows)]
    if density.sites[latent].support is constraints.real:
        far = 10 * np.abs(each).max()
        tried += [np.full_like(each[0], far), np.full_like(each[0], -far)]
    found = [
        np.asarray(likelihood_of(density, name, density.evaluator({**first, latent: jnp.asarray(v)})))
        for v in tried
    ]
    return np.any(np.stack(found) != found[0], axis=0)


def _alone(site: Site, number: np.ndarray, reads: np.ndarray, rank: int) -> OwnElements | None:
    sizes = site.shape[:rank]
    alone = np.bincount(number[reads], minlength=int(np.prod(sizes))) == 1
    reads = reads & alone[number]
    if not alone.any():
        return None
    number = np.where(reads, number, np.flatnonzero(alone)[0])
    return OwnElements(
        site.name, alone.reshape(*sizes, *(1,) * (len(site.shape) - rank)), reads, number, rank
    )
