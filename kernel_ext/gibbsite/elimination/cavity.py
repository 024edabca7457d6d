"""How likely each datum is given the others, where what is known of its own latents has a closed form: that
divided by its likelihood.

Gaussian latents, one or several of a datum's own, coupled to those of others or not: about their mean given
all data the elements that it reads are `m + R z` of standard Normal numbers `z`, and its log likelihood is
exactly `l + g z + z M z / 2`. With `A = 1 + M`, `p(y_i | the others)` is `exp(l - g A^-1 g / 2) sqrt(det A)`
(Vehtari, Mononen, Tolvanen, Sivula and Winther 2016, §3.4). Conjugate latents: the constant of their law
over that which it has without the datum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.support import certify_quadratic
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.chained import ChainedGaussian
from gibbsite.conditional.gaussian.joint import GaussianChain, GaussianConditional
from gibbsite.conditional.linear.choose import coupled
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.density import Density
from gibbsite.density.current import element_weights
from gibbsite.elimination.integrals.conjugate import exponents, is_closed, place_of, ratio_of
from gibbsite.elimination.integrals.gaussian import GaussianMessage, gaussian_message
from gibbsite.elimination.pointwise import likelihood_of
from gibbsite.programs.jaxpr.compat import Literal

Latents = Mapping[str, Any]
Spread = Callable[[Latents, Any], tuple[dict[str, Any], dict[str, Any]]]
"""Other latents and data -> mean of each site, and what standard Normal numbers move it by, `[z, *shape]`."""

_MOST_TOGETHER = 16
"""Normal numbers behind a vector of data: each pair of them is one derivative."""


@dataclass(frozen=True)
class OwnElements:
    """A site some of whose elements are single data's own: `alone`, of its shape, or with axes of 1 where a
    datum reads a vector; `rank` axes count what is read. `number` is that which a datum reads, where it
    `reads` one, and else any of them; both of the log density's shape."""

    name: str
    alone: np.ndarray
    reads: np.ndarray
    number: np.ndarray
    rank: int


class GaussianCavity:
    """`sites` that are Gaussian together given the rest, of which `own` are single data's own."""

    def __init__(
        self, density: Density, name: str, own: Sequence[OwnElements], sites: tuple[str, ...], spread: Spread
    ):
        self._density, self._name, self._spread = density, name, spread
        self.sites = sites
        self._reads = np.any([s.reads for s in own], axis=0)
        self._scalar = len(density.sites[name].shape) == self._reads.ndim

    def __call__(self, latents: Latents, data: Any) -> tuple[Any, Any]:
        """Of every datum, and how far it may be off; given their draws where none is a datum's own."""
        others = {n: v for n, v in latents.items() if n not in self.sites}
        mean, ways = self._spread(others, data)

        def at(x: Latents) -> Any:
            return likelihood_of(self._density, self._name, self._density.evaluator({**others, **x}, data))

        def slope(x: Latents, way: Latents) -> Any:
            return jax.jvp(at, (x,), (way,))[1]

        def curved(one: Latents, other: Latents) -> Any:
            return jax.jvp(lambda x: slope(x, one), (mean,), (other,))[1]

        g = jax.lax.map(lambda way: slope(mean, way), ways)
        if self._scalar:  # reads one combination of them, so that M is g g over some number
            left = 1 + jnp.sum(jax.lax.map(lambda way: curved(way, way), ways), 0)
            moved = jnp.log(left) - jnp.sum(g**2, 0) / left
        else:
            m = jax.lax.map(lambda a: jax.vmap(lambda b: curved(a, b))(ways), ways)
            m = jnp.moveaxis(m, (0, 1), (-2, -1))
            root = jnp.linalg.cholesky(jnp.eye(len(g)) + (m + jnp.swapaxes(m, -1, -2)) / 2)
            solved = solve_triangular(root, jnp.moveaxis(g, 0, -1)[..., None], lower=True)[..., 0]
            pivots = jnp.diagonal(root, axis1=-2, axis2=-1)
            left, moved = (
                jnp.min(pivots, -1) ** 2,
                2 * jnp.sum(jnp.log(pivots), -1) - jnp.sum(solved**2, -1),
            )
        lost = jnp.where(left > 0, jnp.finfo(left.dtype).eps / left, jnp.inf)  # also where it is no number
        found = jnp.where(self._reads, at(mean) + moved / 2, at({n: latents[n] for n in self.sites}))
        return found, jnp.max(jnp.where(self._reads, lost, 0))


class RowsCavity:
    """A site whose rows are Gaussian vectors, independent given the rest, `own` rows single data's: by what
    is known of a row with its datum and without, which loses nothing where the one is far narrower."""

    def __init__(self, density: Density, name: str, own: OwnElements, known: Sequence[GaussianConditional]):
        self._density, self._name, self._own, self._known = density, name, own, known
        self.sites = (own.name,)

    def __call__(self, latents: Latents, data: Any) -> tuple[Any, Any]:
        """Of every datum, and how far it may be off; given their draws where none is a datum's own."""
        own, part = self._own, self._known[0].part
        others = {n: v for n, v in latents.items() if n != own.name}
        (vector, precision), (before, cavity) = (k.information(others, data) for k in self._known)
        root, wider = jnp.linalg.cholesky(precision), jnp.linalg.cholesky(cavity)
        mean = cho_solve((root, True), vector[..., None])
        pull = solve_triangular(wider, before[..., None] - cavity @ mean, lower=True)
        grown = (jnp.log(jnp.diagonal(x, axis1=-2, axis2=-1)) for x in (wider, root))
        apart = jnp.sum(next(grown) - next(grown), -1)
        moved = apart - jnp.sum(pull**2, (-2, -1)) / 2

        def at(x: Any) -> Any:
            evaluator = self._density.evaluator({**others, own.name: x}, data)
            return likelihood_of(self._density, self._name, evaluator)

        found = at(part.joined(mean[..., 0])) + moved[own.number]
        lost = jnp.finfo(found.dtype).eps * (abs(found) + abs(moved[own.number]))
        lost = jnp.where(jnp.isfinite(found), lost, jnp.inf)
        found = jnp.where(own.reads, found, at(latents[own.name]))
        return found, jnp.max(jnp.where(own.reads, lost, 0))


class ConjugateCavity:
    """A site whose elements are independent members of one family, its `own` single data's."""

    def __init__(self, density: Density, name: str, own: OwnElements, conditional: ConjugateConditional):
        self._density, self._name, self._own, self._conditional = density, name, own, conditional
        self._ratio = ratio_of(conditional)
        self.sites = (own.name,)

    def __call__(self, latents: Latents, data: Any) -> tuple[Any, Any]:
        """Of every datum, and how far it may be off; given their draws where none is a datum's own."""
        own, drawn = self._own, latents[self._own.name]
        others = {n: v for n, v in latents.items() if n != own.name}
        place = place_of(self._conditional.distribution_at(others, data))
        place = jnp.broadcast_to(place, drawn.shape).astype(drawn.dtype)
        told, rest = self._conditional.parts(self._name, others, data)

        def each(x: Any) -> Any:
            by_element = x.reshape(*drawn.shape[: min(own.rank, x.ndim)], -1)
            return jnp.sum(by_element, -1).reshape(-1)[own.number]

        exponent = each(sum(exponents(told, place), start=jnp.zeros(drawn.shape)))
        assert self._ratio is not None
        ratio = each(self._ratio(rest, told))

        def at(x: Any) -> Any:
            evaluator = self._density.evaluator({**others, own.name: x}, data)
            return likelihood_of(self._density, self._name, evaluator)

        there = at(place)
        found = jnp.where(own.reads, there - exponent + ratio, at(drawn))
        lost = jnp.finfo(found.dtype).eps * (abs(there) + abs(exponent) + abs(ratio))
        return found, jnp.max(jnp.where(own.reads, jnp.where(jnp.isfinite(found), lost, jnp.inf), 0))


def _counted_once(density: Density, name: str) -> bool:
    """Whether data count once or not at all, whatever the latents are."""
    latent = any(
        density.maps.latents(a)
        for a in density.outputs["weights"].get(name, ())
        if not isinstance(a, Literal)
    )
    return not latent and bool(np.isin(element_weights(density, name), (0, 1)).all())


def conjugate_cavity(density: Density, name: str, own: OwnElements) -> ConjugateCavity | None:
    """None where the constants are not known as a ratio."""
    found = conditional_of(density, own.name)
    if not isinstance(found, ConjugateConditional) or found.density is not density or found.limits:
        return None
    known = is_closed(found) and ratio_of(found) is not None
    return ConjugateCavity(density, name, own, found) if known and _counted_once(density, name) else None


def rows_cavity(density: Density, left: Density, name: str, own: OwnElements) -> RowsCavity | None:
    """None where rows are not Gaussian by themselves, with the data and in what is `left` of the density
    without; or where what a datum reads is not all of a row."""
    found = conditional_of(density, own.name)
    if not isinstance(found, GaussianConditional) or isinstance(found, GaussianChain):
        return None
    batch = found.part.batch
    if found.density is not density or not batch or batch != tuple(range(own.rank)):
        return None
    try:
        before = GaussianConditional(left, own.name, batch, certify_quadratic(left, own.name))
    except Refused:
        return None
    return RowsCavity(density, name, own, (found, before)) if _counted_once(density, name) else None


def gaussian_cavity(
    density: Density, name: str, own: Sequence[OwnElements], names: Sequence[str]
) -> GaussianCavity | None:
    """With all sites `names`, among which the `own` are, integrated out; None where they are not Gaussian
    together, or data read elements of which it is not known how they vary together."""
    conditionals = [conditional_of(density, n) for n in names]
    if not _counted_once(density, name) or not all(is_gaussian(c, chains=True) for c in conditionals):
        return None
    if len(coupled(density, names)) > 1:
        return None
    try:
        found = _along(density, name, gaussian_message(density, tuple(names)), own)
    except Refused:
        return None
    if found is None:
        return None
    vector = len(density.sites[name].shape) > own[0].reads.ndim
    spread, count = found
    return (
        None
        if vector and count > _MOST_TOGETHER
        else GaussianCavity(density, name, own, tuple(names), spread)
    )


def _along(
    density: Density, name: str, message: GaussianMessage, own: Sequence[OwnElements]
) -> tuple[Spread, int] | None:
    """Of sites that are coupled: all that a datum reads is in one step of a chain, or one element."""
    gaussian = message.gaussian
    read = density.maps.latents(density.outputs["log_prob"][name]) & set(message.sites)
    if isinstance(gaussian, ChainedGaussian):
        layout = gaussian.layout
        inner = {s.site for s in layout.strands} & read
        if inner - {s.name for s in own}:
            return None  # elements that several data read, of who knows which steps
        if not _within_a_step([(layout.step_of(s.name), s) for s in own if s.name in inner]):
            return None

        def along(others: Latents, data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            mean, factor = message.solved(others, data, held=True)
            ways = jax.vmap(message.values, in_axes=-1)(factor.spread())
            return message.values(mean), ways

        return along, layout.width + sum(layout.sizes())
    if len(message.sites) > 1 or own[0].rank < len(density.sites[own[0].name].shape):
        return None

    def alone(others: Latents, data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        (moments,) = message.moments(others, data).values()
        (site,) = message.sites
        return {site: moments.mean}, {site: jnp.sqrt(moments.variance)[None]}

    return alone, 1


def _within_a_step(own: Sequence[tuple[np.ndarray, OwnElements]]) -> bool:
    """Whether what each datum reads is in one step: `own` has the steps of a site's elements."""
    found = []
    for steps, site in own:
        rows = steps.reshape(int(np.prod(steps.shape[: site.rank])), -1)
        if np.any(rows != rows[:, :1]):
            return False
        found.append(np.where(site.reads, rows[site.number, 0], -1))
    return all(np.array_equal(f, found[0]) for f in found)
