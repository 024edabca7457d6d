"""A block of NUTS → how long it remembers, where a part of it is Gaussian given the rest: by its curvature.

A density that is Gaussian in some sites has a Hessian that is the same wherever these are; that it differs
with the rest, draws from the prior show. What counts is what is left of it in the coordinates that warm-up
can learn: as written or non-centred, a diagonal metric, and the low-rank one where there are draws for it.

With standard deviations σ along the axes of what is left, momenta of one and q the path of the Hamiltonian,
the mean of (q(t) − q(0)) · p(t) is Σ σ sin(t/σ). Trajectories turn where that is zero, which the many
directions decide, and a direction much longer than that moves by as much of its length as they do: the
correlation of its draws is the mean of cos(t/σ) along the trajectory. Normal distributions of 60 to 372
numbers with one long direction, many and none have times of .5 to 1810 (NumPyro's NUTS, four chains of 1500),
of which this tells .3 to 2 of all above 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.linear.choose import gaussian_blocks
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.elimination import eliminable
from gibbsite.kernels.learnt.coordinates import Coordinates, Surroundings, coordinates
from gibbsite.kernels.learnt.metric import MOST_RANK, SMALL
from gibbsite.kernels.nuts.tuning import PER_DIMENSION
from gibbsite.plans.candidates.limits import MOST_CURVED, PRIOR_STATES, WARM_DRAWS
from gibbsite.plans.schedule.irreducible import prior_states
from gibbsite.plans.schedule.registry import Facts
from gibbsite.programs.jaxpr.compiling import once

_POWERS = 100
_OVERSHOT = 1.5
"""Trajectories double until they turn, and end at once to twice the time at which they would."""


def gaussian_part(facts: Facts, sites: Sequence[str]) -> tuple[str, ...]:
    """Those of a block's sites that are Gaussian together given all others, in its largest part; none where
    they are so few that any direction of them is learnt, or too many to be looked at."""
    density = facts.density
    own = [
        n for n in sites if n in density.latent_vars and is_gaussian(conditional_of(density, n), chains=True)
    ]
    together = [*gaussian_blocks(density, own, MOST_CURVED).values()]
    parts = [*together, *(b for b in eliminable(density) if {*b} <= {*own}), *((n,) for n in own)]
    sizes = {part: sum(int(np.prod(density.sites[n].shape)) for n in part) for part in parts}
    best = max(parts, key=sizes.__getitem__, default=())
    return best if best and SMALL < sizes[best] <= MOST_CURVED else ()


Blocks = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Curvature:
    """The precision `[state, degrees, n, n]` of a Gaussian part, at draws of the rest from the prior: as
    written, and with what is centred non-centred and the reverse. `places` says where its sites stand, and
    `learns` whether warm-up has the draws for more than a diagonal metric."""

    places: Mapping[str, np.ndarray]
    precisions: np.ndarray
    learns: bool
    _turns: dict[Blocks, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def by_gradients(self) -> tuple[float, float]:
        """The integrated autocorrelation time of the longest direction where NUTS draws all of them: the
        quartiles over states, in the better of the coordinates. (1, 1) where nothing can be told."""
        return _quartiles([min(_time(m, self.learns) for m in each) for each in self.precisions])

    def in_turn(self, blocks: Blocks) -> tuple[float, float]:
        """Likewise where each of the blocks, which hold all sites, is drawn exactly given the others: of the
        direction in which they hold each other (Roberts and Sahu 1997, theorem 1)."""
        if blocks not in self._turns:
            order = np.concatenate([self.places[n] for names in blocks for n in names])
            sizes = [sum(len(self.places[n]) for n in names) for names in blocks]
            number = np.repeat(np.arange(len(blocks)), sizes)
            before = number[:, None] >= number
            each = [_in_turn(ms[0][np.ix_(order, order)], before) for ms in self.precisions]
            self._turns[blocks] = _quartiles(each)
        return self._turns[blocks]


def curvature_of(facts: Facts, sites: Sequence[str], part: Sequence[str]) -> Curvature:
    """The curvature of what is Gaussian together among the `sites` of a block."""
    density = facts.density
    moved = [n for n in sites if n in density.latent_vars]
    through = {n: biject_to(density.sites[n].support) for n in moved}
    shapes = {
        n: (b.inverse_shape(density.sites[n].shape), density.sites[n].support) for n, b in through.items()
    }
    others = [n for n in density.latents if n not in moved]
    found = coordinates(density, shapes, others)
    spans = {p.name: np.arange(p.at.start, p.at.stop) for p in found.parts if p.name in part}
    at = np.concatenate([*spans.values()])
    data = tuple(density.arguments.arrays)

    def precision(state: Mapping[str, Any], lam: Any) -> Any:
        free = {n: b.inv(state[n]) if n not in part else jnp.zeros(shapes[n][0]) for n, b in through.items()}
        return _precision(found, at, found.flat(free), lam, {n: state[n] for n in others}, data)

    def of_all(states: Mapping[str, Any]) -> Any:
        degrees = np.stack([found.written, 1 - found.written][: 1 + bool(found.degrees)])
        return jax.vmap(jax.vmap(precision, (None, 0)), (0, None))(states, jnp.asarray(degrees))

    precisions = np.asarray(once(of_all, prior_states(facts, density, PRIOR_STATES)), np.float64)
    places = {n: np.flatnonzero(np.isin(at, span)) for n, span in spans.items()}
    return Curvature(places, precisions, found.size * PER_DIMENSION <= WARM_DRAWS)


def _quartiles(times: Sequence[float]) -> tuple[float, float]:
    told = [t for t in times if np.isfinite(t)]
    low, high = np.quantile(told or [1.0], (0.25, 0.75)).tolist()
    return low, high


def _precision(
    found: Coordinates, at: np.ndarray, v: Any, lam: Any, others: Mapping[str, Any], data: Any
) -> Any:
    """Minus the Hessian of the log density by the coordinates at `at`, `[n, n]`."""
    around = Surroundings({n: others[n] for n in found.siblings}, data)
    u = found.learnt_from(v, lam, around)

    def slope(own: Any) -> Any:
        def height(own: Any) -> Any:
            written, log_size = found.written_from(u.at[at].set(own), lam, around)
            values, more = found.constrained(written)
            return found.density.log_joint_at({**others, **values}, data) + log_size + more

        return jax.grad(height)(own)

    return -jax.vmap(lambda e: jax.jvp(slope, (u[at],), (e,))[1])(jnp.eye(len(at), dtype=u.dtype))


def _time(precision: np.ndarray, learns: bool) -> float:
    """The time of the longest direction; infinite where the matrix is no precision."""
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return np.inf
    variance = (np.linalg.inv(root) ** 2).sum(0)
    scale = (variance / np.diag(precision)) ** 0.25  # as warm-up has it: from draws and slopes
    values = np.linalg.eigvalsh(precision * scale * scale[:, None])
    axes = np.maximum(values, values[-1] * 1e-15) ** -0.5
    if learns:
        axes = np.where(np.argsort(np.argsort(-np.abs(np.log(axes)))) < MOST_RANK, 1.0, axes)
    t = np.linspace(0.0, 20.0, 401)[1:, None] * np.median(axes)
    turned = np.flatnonzero((axes * np.sin(t / axes)).sum(1) < 0)
    end = _OVERSHOT * float(t[turned[0], 0] if len(turned) else t[-1, 0])
    longest = float(axes.max())
    return _of_correlation(max(0.0, np.sin(end / longest) / (end / longest)))


def _in_turn(precision: np.ndarray, before: np.ndarray) -> float:
    """The time of a sweep of exact draws; `before` says which elements are drawn already when one is, or with
    it. Infinite where the matrix is no precision."""
    try:
        sweep = -np.linalg.solve(np.where(before, precision, 0.0), np.where(before, 0.0, precision))
    except np.linalg.LinAlgError:
        return np.inf
    x, rate = np.random.default_rng(0).normal(size=len(sweep)), 0.0
    for _ in range(_POWERS):
        x = sweep @ x
        rate = float(np.linalg.norm(x))
        if not 0 < rate < np.inf:
            return 1.0 if rate == 0 else np.inf
        x /= rate
    return _of_correlation(rate) if rate < 1 else np.inf


def _of_correlation(rate: float) -> float:
    return (1 + rate) / (1 - rate)
