"""Non-reversible parallel tempering: replicas of a block, explored by NUTS or slices, exchange places."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

from gibbsite.conditional.draws.slice import slice_in_turn
from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, SiteState, StepInfo, step_info
from gibbsite.kernels.blocks.target import Target, Values
from gibbsite.kernels.nuts import collectives as over_chains
from gibbsite.kernels.nuts.state import averages_after, averages_at
from gibbsite.kernels.nuts.tree import chance, grown
from gibbsite.kernels.nuts.windows import ring_length, window_ends
from gibbsite.programs.passes.replaced import with_slopes

MOST = 8
"""Normals at most: chains beyond these share them."""
_WIDER = 1.2
"""How much wider the normals are than the draws: what is too narrow has tails that replicas seldom leave."""
_WIDE = 0.1
"""Share of the wide normal. Its draws are mostly rejected, and no exchange can be accepted more often."""
_LEAST = 10.0
"""Draws that a normal is fitted to at least."""


class Reference(NamedTuple):
    """A mixture of normals in flat coordinates `[size]`: `means` `[k, size]` and triangular `factors`
    `[k, size, size]` that are fitted, equally often, and a wide one, location and scale by number, that is
    not.

    One normal for every chain, as chains may have found different modes: a single one that covers modes of
    different widths has no draws in the narrow one, and no power of the density leads there (Woodard,
    Schmidler and Huber 2009). The wide one is for modes that no chain has found (Surjanovic and others 2022).
    """

    means: jax.Array
    factors: jax.Array
    wide_mean: jax.Array
    wide_scale: jax.Array

    def draw(self, key: jax.Array) -> jax.Array:
        """One draw `[size]`."""
        key_wide, key_which, key_e = random.split(key, 3)
        e = random.normal(key_e, self.wide_mean.shape, self.wide_mean.dtype)
        k = random.randint(key_which, (), 0, self.means.shape[0])
        fitted, wide = self.means[k] + self.factors[k] @ e, self.wide_mean + self.wide_scale * e
        return jnp.where(random.bernoulli(key_wide, _WIDE), wide, fitted)

    def logdensity(self, u: jax.Array) -> jax.Array:
        """The normalised log density at `u`."""
        size, k = u.shape[0], self.means.shape[0]
        wide = (u - self.wide_mean) / self.wide_scale
        far = jnp.log(_WIDE) - 0.5 * wide @ wide - jnp.sum(jnp.log(self.wide_scale))
        each = jnp.log((1 - _WIDE) / k) + self._by_normal(u)
        return logsumexp(jnp.append(each, far)) - 0.5 * size * jnp.log(2 * jnp.pi)

    def _by_normal(self, u: jax.Array) -> jax.Array:
        """The log density at `u` of each fitted normal `[k]`, without the constant of all."""

        def one(mean: jax.Array, factor: jax.Array) -> jax.Array:
            e = solve_triangular(factor, u - mean, lower=True)
            return -0.5 * e @ e - jnp.sum(jnp.log(jnp.diag(factor)))

        return jax.vmap(one)(self.means, self.factors)

    def fitted_to(self, x: jax.Array, counts: jax.Array, first: jax.Array) -> "Reference":
        """The same with normals fitted to the draws `[chain, draw, size]` that `counts` `[chain, draw]`
        marks.

        The `first` time each to those of its chain; then to those that are more likely its own than others',
        a step of expectation maximisation. So they stay with their modes when chains go to and fro between
        these. Of few draws of many numbers the correlations count the less."""
        k, rows = self.means.shape[0], x.reshape(-1, x.shape[-1])
        weight = (counts & jnp.isfinite(x).all(axis=-1)).reshape(-1).astype(x.dtype)
        rows = jnp.where(weight[:, None] > 0, rows, self.wide_mean)
        chain = jnp.repeat(jnp.arange(x.shape[0]), x.shape[1]) % k
        own = jax.nn.one_hot(chain, k, dtype=x.dtype)
        share = jnp.where(first, own, jax.nn.softmax(jax.vmap(self._by_normal)(rows), axis=-1))
        means, factors = jax.vmap(_moments, in_axes=(None, 1, 0, 0))(
            rows, share * weight[:, None], self.means, self.factors
        )
        return self._replace(means=means, factors=factors)


def _moments(
    rows: jax.Array, weight: jax.Array, mean: jax.Array, factor: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Location and widened triangular scale of weighted rows; those that were there where rows are few."""
    n, size = weight.sum(), rows.shape[1]
    new = weight @ rows / jnp.maximum(n, 1.0)
    centred = (rows - new) * jnp.sqrt(weight)[:, None]
    cov = centred.T @ centred / jnp.maximum(n - 1, 1.0)
    diagonal, share = jnp.diag(cov), n / (n + size)
    cov = share * cov + jnp.diag((1 - share) * diagonal + 1e-4 * diagonal + 1e-10)
    scale = _WIDER * jnp.linalg.cholesky(cov)
    good = (n > _LEAST) & jnp.isfinite(scale).all() & jnp.isfinite(new).all()
    return jnp.where(good, new, mean), jnp.where(good, scale, factor)


class Swaps(NamedTuple):
    """Which replica each rung takes `[rung]`, and the probability that each pair of neighbours rejects an
    exchange `[rung - 1]`."""

    taken: jax.Array
    rejects: jax.Array


def swaps(key: jax.Array, betas: jax.Array, log_ratio: jax.Array, odd: jax.Array) -> Swaps:
    """Exchanges of neighbouring replicas, whose log densities beside the reference's are `log_ratio`
    `[rung]`: of the odd pairs or of the even ones, in turn and not at random, which makes replicas go on in
    the direction in which they went (Okabe and others 2001; Syed and others 2022). Each is accepted as
    Metropolis has it, so that every rung's density is left as it is."""
    rungs = betas.shape[0]
    gain = jnp.diff(betas) * (log_ratio[:-1] - log_ratio[1:])
    gain = jnp.where(jnp.isnan(gain), -jnp.inf, gain)
    accepts = jnp.exp(jnp.minimum(gain, 0.0))
    pair = jnp.arange(rungs - 1)
    turn = pair % 2 == jnp.where(odd, 1, 0)
    swapped = turn & (random.uniform(key, (rungs - 1,), betas.dtype) < accepts)
    up = jnp.concatenate([swapped, jnp.zeros(1, bool)])
    down = jnp.concatenate([jnp.zeros(1, bool), swapped])
    at = jnp.arange(rungs)
    return Swaps(jnp.where(up, at + 1, jnp.where(down, at - 1, at)), 1 - accepts)


def even_rungs(betas: jax.Array, rejects: jax.Array) -> jax.Array:
    """Rungs `[rung]` between which, by the mean rejections between those of now `[rung - 1]`, exchanges are
    rejected equally often (Syed and others 2022, algorithm 4): evenly spaced in the communication barrier."""
    barrier = jnp.concatenate([jnp.zeros(1), jnp.cumsum(rejects + 1e-3)])
    wanted = jnp.linspace(0.0, 1.0, betas.shape[0]) * barrier[-1]
    return jnp.interp(wanted, barrier, betas).at[0].set(0.0).at[-1].set(1.0).astype(betas.dtype)


def first_rungs(rungs: int) -> jax.Array:
    """Where rungs stand before anything is known: closer to the reference, where densities change most."""
    return jnp.linspace(0.0, 1.0, rungs) ** 3


EXPLORERS = ("NUTS", "Slice")
_TARGET = 0.8
_FIRST_STEP, _FITTED_STEP = 0.2, 0.5
_STEPS_OUT = 8
_PRIOR_DRAWS = 100
_FARTHEST = 1e4  # of an unconstrained number that a prior draw counts with
_LEAST_SPREAD = 2.0
_FIRST_FIT = 45
"""Steps after which normals are fitted first: exchanges with a wide reference have moved no chain yet."""


class Ladder(NamedTuple):
    """What a chain's replicas hold: `u` and log densities `level` by rung, the rungs themselves, the
    `reference` and the parity of the next exchanges; what is learnt in warm-up and frozen afterwards:
    `metric`, a triangular scale for each normal of the reference, and step sizes by rung; and what that is
    learnt from: a ring of draws, and rejections since the window began."""

    u: jax.Array
    level: jax.Array
    betas: jax.Array
    reference: Reference
    odd: jax.Array
    metric: jax.Array
    averages: Any
    ring: jax.Array
    rejects: jax.Array
    count: jax.Array


class Tempered(SiteKernel):
    """Parallel tempering of all sites of the block between a reference and their density.

    Every replica is at `reference^(1 - beta) density^beta`; that of beta 0 is drawn anew from the reference
    in every step, the others take a step of `explorer` ("NUTS", in trees of up to `max_tree_depth` doublings,
    or "Slice", each number in turn), and neighbours exchange places by the deterministic even-odd scheme of
    Syed, Bouchard-Côté, Deligiannidis and Doucet (2022, "Non-reversible parallel tempering"). The replica of
    beta 1 is the chain's. In warm-up the reference is fitted to the draws of all chains (Surjanovic and
    others 2022, "Parallel tempering with a variational reference"), and `rungs` are placed so that exchanges
    are rejected equally often.

    The block holds all latents that observations see, but for those that are summed out of it: replicas at
    other temperatures know nothing of what other blocks draw.
    """

    def __init__(self, model: Any, rungs: int = 10, explorer: str = "NUTS", max_tree_depth: int = 4):
        super().__init__(model)
        if int(rungs) != rungs or not 2 <= rungs <= 200:
            raise OptionError(f"Tempered: rungs is a whole number from 2 to 200, got {rungs!r}")
        if explorer not in EXPLORERS:
            raise OptionError(f"Tempered explores by {' or '.join(EXPLORERS)}, not by {explorer!r}")
        if int(max_tree_depth) != max_tree_depth or not 1 <= max_tree_depth <= 10:
            raise OptionError(f"Tempered: max_tree_depth lies between 1 and 10, got {max_tree_depth!r}")
        self._rungs, self._explorer, self._depth = int(rungs), explorer, int(max_tree_depth)
        self._ends: tuple[int, ...] = ()
        self._length = 0

    def init(
        self, rng_key: Any, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> SiteState:
        """As every kernel's; replicas begin where the chain does."""
        self._length, self._ends = int(num_warmup), window_ends(int(num_warmup))
        return super().init(rng_key, num_warmup, init_params, model_args, model_kwargs)

    def init_tuning(self, z: Values, target: Target) -> Ladder:
        """Replicas at `z`, and a reference as wide as the priors."""
        flat, unravel = ravel_pytree(target.unconstrain(z))
        size, rungs = flat.shape[0], self._rungs

        def prior(key: jax.Array) -> jax.Array:
            drawn = target.draw_prior(key, z)
            return ravel_pytree(target.unconstrain({n: drawn[n].astype(z[n].dtype) for n in z}))[0]

        draws = jax.vmap(prior)(random.split(random.key(0), _PRIOR_DRAWS))
        draws = jnp.clip(jnp.nan_to_num(draws), -_FARTHEST, _FARTHEST)
        low, middle, high = jnp.quantile(draws, jnp.array([0.16, 0.5, 0.84]), axis=0)
        spread = jnp.maximum((high - low) / 2, _LEAST_SPREAD).astype(flat.dtype)
        middle = middle.astype(flat.dtype)
        normals = min(over_chains.number(), MOST)
        means = jnp.broadcast_to(middle, (normals, size))
        factors = jnp.broadcast_to(jnp.diag(spread), (normals, size, size))
        reference = Reference(means, factors, middle, spread)
        ring = ring_length(self._length, size) if self._ends else 0
        step = jnp.full(rungs, _FIRST_STEP, flat.dtype)
        return Ladder(
            u=jnp.broadcast_to(flat, (rungs, size)),
            level=jnp.broadcast_to(target.free_logdensity(unravel(flat)), (rungs,)),
            betas=first_rungs(rungs).astype(flat.dtype),
            reference=reference,
            odd=jnp.zeros((), bool),
            metric=jnp.broadcast_to(jnp.eye(size, dtype=flat.dtype), (normals, size, size)),
            averages=jax.vmap(averages_at)(step),
            ring=jnp.full((ring, size), jnp.nan, flat.dtype),
            rejects=jnp.zeros(rungs - 1, flat.dtype),
            count=jnp.zeros((), flat.dtype),
        )

    def step(
        self, key: jax.Array, z: Values, tuning: Ladder, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Ladder, StepInfo]:
        """Every replica explores, then the odd or the even pairs exchange places."""
        t = tuning
        _, unravel = ravel_pytree(target.unconstrain(z))
        key_reference, key_explore, key_metric, key_swap = random.split(key, 4)

        def logdensity(u: jax.Array) -> jax.Array:
            return target.free_logdensity(unravel(u))

        drawn = t.reference.draw(key_reference)
        u = t.u.at[0].set(drawn)
        explore = partial(self._nuts if self._explorer == "NUTS" else self._slices, logdensity, t.reference)
        log_step, log_mean = t.averages[0], t.averages[1]
        size = jnp.exp(jnp.where(adapting, log_step, log_mean))
        keys = random.split(key_explore, self._rungs - 1)
        # modes have metrics of their own: each in turn, by chance, which no place has a say in
        which = random.randint(key_metric, (self._rungs - 1,), 0, len(t.metric))
        moved, accept, work = jax.vmap(explore)(keys, u[1:], t.betas[1:], t.metric[which], size[1:])
        u = u.at[1:].set(moved)
        level = jax.vmap(logdensity)(u)
        ratio = level - jax.vmap(t.reference.logdensity)(u)
        found = swaps(key_swap, t.betas, ratio, t.odd)
        u, level = u[found.taken], level[found.taken]
        accepts = jnp.concatenate([jnp.full(1, _TARGET, accept.dtype), accept])
        new = t._replace(u=u, level=level, odd=~t.odd)
        learnt = self._learnt(new, accepts, found.rejects)
        new = jax.tree.map(lambda a, b: jnp.where(adapting, a, b), learnt, new)
        return target.constrain(unravel(u[-1])), new, step_info(accept.mean(), work.sum(), size[-1])

    def _learnt(self, t: Ladder, accept: jax.Array, rejects: jax.Array) -> Ladder:
        """What one step of warm-up teaches."""
        after = jax.vmap(averages_after, in_axes=(0, None, 0))
        averages = after(over_chains.mean(accept), jnp.asarray(_TARGET, accept.dtype), t.averages)
        ring = t.ring
        if ring.shape[0]:
            ring = jnp.concatenate([ring[1:], t.u[-1:]])
        return t._replace(
            averages=averages,
            ring=ring,
            rejects=t.rejects + rejects,
            count=t.count + 1,
        )

    def _nuts(
        self, logdensity: Any, reference: Reference, key: Any, u: Any, beta: Any, metric: Any, size: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """A trajectory of NUTS at one rung: where it leads, its acceptance, and its gradients."""

        def potential(w: jax.Array) -> jax.Array:
            x = u + metric @ w
            return -((1 - beta) * reference.logdensity(x) + beta * logdensity(x))

        value_and_grad = jax.value_and_grad(with_slopes(potential))
        start = jnp.zeros_like(u)
        energy, gradient = value_and_grad(start)
        _, noise = chance(key, u.shape[0], self._depth, u.dtype)
        tree = grown(value_and_grad, energy, gradient, size, noise)
        accept = jnp.nan_to_num(tree.accept_prob)
        return u + metric @ tree.proposal.w, accept, tree.num_steps.astype(jnp.int32)

    def _slices(
        self, logdensity: Any, reference: Reference, key: Any, u: Any, beta: Any, metric: Any, size: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """A slice through each number in turn at one rung."""

        widths = 2.5 * jnp.sqrt((metric**2).sum(axis=1))

        def at(x: jax.Array) -> jax.Array:
            return (1 - beta) * reference.logdensity(x) + beta * logdensity(x)

        x, work = slice_in_turn(key, at, u, widths, _STEPS_OUT)
        return x, jnp.full((), _TARGET, u.dtype), work

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """After how many steps of a warm-up `pool` is to be called."""
        return window_ends(num_warmup)

    def pool(self, states: SiteState, model_args: Any, model_kwargs: Any, siblings: Mapping[str, Any]) -> Any:
        """The states of all chains, a leading axis, with reference, rungs and scales learnt from all."""
        t: Ladder = states.tuning
        if not t.ring.shape[1]:
            return states
        # the later half of the draws so far
        steps, length = states.i[0], t.ring.shape[1]
        recent = jnp.arange(length) >= length - jnp.minimum(length, (steps + 1) // 2)
        one = jax.tree.map(lambda a: a[0], t.reference)
        ends = jnp.asarray(self._ends)
        first = steps <= jnp.min(jnp.where(ends >= _FIRST_FIT, ends, ends[-1]))
        fitted = one.fitted_to(t.ring, jnp.broadcast_to(recent, t.ring.shape[:2]), first)
        reference = jax.tree.map(lambda a, b: jnp.where(steps >= _FIRST_FIT, a, b), fitted, one)
        n = jnp.maximum(t.count.sum(), 1.0)
        metric = jnp.where(steps >= _FIRST_FIT, reference.factors, t.metric[0])
        sizes = jnp.where(first & (steps >= _FIRST_FIT), _FITTED_STEP, jnp.exp(t.averages[1]))
        averages = jax.vmap(jax.vmap(averages_at))(sizes)
        rejects = t.rejects.sum(axis=0) / n
        betas = jnp.where(n > 10, even_rungs(t.betas[0], rejects), t.betas[0])

        def every(a: jax.Array) -> jax.Array:
            return jnp.broadcast_to(a, (t.count.shape[0], *a.shape))

        nothing = {k: jnp.zeros_like(getattr(t, k)) for k in ("rejects", "count")}
        new = t._replace(
            reference=jax.tree.map(every, reference),
            metric=every(metric),
            betas=every(betas),
            averages=averages,
            **nothing,
        )
        return states._replace(tuning=new)
