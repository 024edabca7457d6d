"""A no-U-turn trajectory as one flat loop over its leapfrog steps, the same for one chain and for many.

The tree is that of NumPyro (`numpyro.infer.hmc_util.build_tree`): doublings in random directions, uniform
progressive sampling within a subtree and biased between subtrees, the generalised turning criterion
(Betancourt 2017, appendix A), and a check of every balanced subtree against checkpoints of momenta, of which
as many are kept as the tree is deep (Phan, Pradhan and Jankowiak 2019). But no loop of leapfrog steps stands
in another: how many leaves there are so far tells which subtree the next one belongs to, in all chains alike,
because a chain whose subtree ends early is done. So chains that run side by side share the counters, and the
gradient stands once in what is traced and compiled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from gibbsite.kernels.nuts import over_chains

_NOISE = 32
"""Leaves whose random numbers are drawn at once."""


class Point(NamedTuple):
    """A place on the trajectory: w, momentum, and the potential's gradient at w."""

    w: jax.Array
    r: jax.Array
    gradient: jax.Array


class Proposal(NamedTuple):
    """Where the chain may go: w, potential and gradient there, and potential plus kinetic energy."""

    w: jax.Array
    gradient: jax.Array
    potential_energy: jax.Array
    energy: jax.Array


class Tree(NamedTuple):
    """Where the trajectory led, its number of leapfrog steps, their mean acceptance probability, and whether
    one of them went astray."""

    proposal: Proposal
    num_steps: jax.Array
    accept_prob: jax.Array
    diverging: jax.Array


class _Subtree(NamedTuple):
    """What grows now: its last leaf, the sum of its momenta, its log weight, and its proposal."""

    edge: Point
    r_sum: jax.Array
    weight: jax.Array
    proposal: Proposal


class _State(NamedTuple):
    # of all chains alike
    depth: jax.Array
    leaf: jax.Array  # within the subtree
    going: jax.Array
    # of each chain
    active: jax.Array
    right: jax.Array
    left_end: Point
    right_end: Point
    r_sum: jax.Array
    weight: jax.Array
    proposal: Proposal
    subtree: _Subtree
    checkpoints: tuple[jax.Array, jax.Array]
    noise: jax.Array
    num_steps: jax.Array
    sum_accept_prob: jax.Array
    diverging: jax.Array


def grown(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    potential_energy: jax.Array,
    gradient: jax.Array,
    momentum: jax.Array,
    step_size: jax.Array,
    key: Any,
    max_tree_depth: int = 10,
    max_delta_energy: float = 1000.0,
) -> Tree:
    """A trajectory from w = 0, where potential and gradient are known, with a standard normal `momentum`.

    `value_and_grad` gives the potential and its gradient at w. The trajectory has at most
    `2 ** max_tree_depth − 1` steps; one whose energy exceeds that of the start by `max_delta_energy` ends it.
    """
    dtype = momentum.dtype
    key_doublings, key_leaves = random.split(key)
    # of every doubling its direction, and whether the chain goes there
    doublings = random.uniform(key_doublings, (max_tree_depth, 2), dtype)
    first_energy = potential_energy + _kinetic(momentum)
    start = Point(jnp.zeros_like(momentum), momentum, gradient)
    here = Proposal(start.w, gradient, potential_energy, first_energy)
    zero, nothing = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)

    def leaf(s: _State) -> _State:
        sub, n = s.subtree, s.leaf
        last = n + 1 == 1 << s.depth
        at = (1 << s.depth) - 1 + n
        noise = lax.cond(
            at % _NOISE == 0,
            lambda: random.uniform(random.fold_in(key_leaves, at), (_NOISE,), dtype),
            lambda: s.noise,
        )
        # leapfrog
        step = jnp.where(s.right, step_size, -step_size)
        r = sub.edge.r - 0.5 * step * sub.edge.gradient
        w = sub.edge.w + step * r
        potential, gradient = value_and_grad(w)
        r = r - 0.5 * step * gradient
        energy = potential + _kinetic(r)
        gain = first_energy - energy
        gain = jnp.where(jnp.isnan(gain), -jnp.inf, gain)
        diverging = gain < -max_delta_energy
        # the subtree with it
        weight = jnp.logaddexp(sub.weight, gain)
        taken = noise[at % _NOISE] < jnp.exp(gain - weight)
        chosen = _where(taken, Proposal(w, gradient, potential, energy), sub.proposal)
        r_sum = sub.r_sum + r
        checkpoints, turning = _checked(s.checkpoints, n, r, r_sum)
        active = s.active & ~(turning | diverging)
        accept = jnp.minimum(jnp.exp(gain), 1.0)
        grown = s._replace(
            leaf=n + 1,
            active=active,
            subtree=_Subtree(Point(w, r, gradient), r_sum, weight, chosen),
            checkpoints=checkpoints,
            noise=noise,
            num_steps=s.num_steps + s.active,
            sum_accept_prob=s.sum_accept_prob + jnp.where(s.active, accept, 0.0),
            diverging=s.diverging | (s.active & diverging),
        )
        grown = lax.cond(last, doubled, lambda s: s, grown)
        return grown._replace(going=over_chains.any_of(grown.active))

    def doubled(s: _State) -> _State:
        """The finished subtree joins the tree, and the next begins."""
        sub = s.subtree
        taken = s.active & (doublings[s.depth, 1] < jnp.exp(sub.weight - s.weight))
        left, right = _where(s.right, (s.left_end, sub.edge), (sub.edge, s.right_end))
        r_sum, depth = s.r_sum + sub.r_sum, s.depth + 1
        more = s._replace(
            depth=depth,
            leaf=nothing,
            active=s.active & ~_turning(left.r, right.r, r_sum) & (depth < max_tree_depth),
            left_end=left,
            right_end=right,
            r_sum=r_sum,
            weight=jnp.logaddexp(s.weight, sub.weight),
            proposal=_where(taken, sub.proposal, s.proposal),
        )
        return begun(more)

    def begun(s: _State) -> _State:
        right = doublings[jnp.minimum(s.depth, max_tree_depth - 1), 0] < 0.5
        edge = _where(right, s.right_end, s.left_end)
        fresh = s.subtree._replace(
            edge=edge, r_sum=jnp.zeros_like(edge.r), weight=jnp.full_like(s.weight, -jnp.inf)
        )
        return s._replace(right=right, subtree=fresh)

    rows = jnp.zeros((max_tree_depth + 1, *momentum.shape), dtype)
    begin = _State(
        depth=nothing,
        leaf=nothing,
        going=jnp.array(True),
        active=jnp.array(True),
        right=jnp.array(True),
        left_end=start,
        right_end=start,
        r_sum=momentum,
        weight=zero,
        proposal=here,
        subtree=_Subtree(start, momentum, zero, here),
        checkpoints=(rows, rows),
        noise=jnp.zeros(_NOISE, dtype),
        num_steps=nothing,
        sum_accept_prob=zero,
        diverging=jnp.array(False),
    )
    s = lax.while_loop(lambda s: s.going, leaf, begun(begin))
    accept = s.sum_accept_prob / s.num_steps
    return Tree(s.proposal, s.num_steps, accept, s.diverging)


def _checked(
    checkpoints: tuple[jax.Array, jax.Array], n: jax.Array, r: jax.Array, r_sum: jax.Array
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """The checkpoints after leaf `n` of a subtree, and whether a balanced part that ends there turns.

    `r_sum` is the sum of the momenta of the subtree so far.
    """
    momenta, sums = checkpoints
    # leaf n is the first of a part where it is even, and the last of as many as its number ends in ones
    row = lax.population_count(n >> 1)
    unread = momenta.shape[0] - 1
    at = jnp.where(n % 2 == 0, row, unread)
    momenta = lax.dynamic_update_index_in_dim(momenta, r, at, 0)
    sums = lax.dynamic_update_index_in_dim(sums, r_sum, at, 0)
    parts = lax.population_count((~n & (n + 1)) - 1)

    def look(i: Any, turning: jax.Array) -> jax.Array:
        first = lax.dynamic_index_in_dim(momenta, i, 0, keepdims=False)
        before = lax.dynamic_index_in_dim(sums, i, 0, keepdims=False) - first
        return turning | _turning(first, r, r_sum - before)

    turning = lax.fori_loop(row - parts + 1, row + 1, look, jnp.array(False))
    return (momenta, sums), turning


def _turning(left: jax.Array, right: jax.Array, r_sum: jax.Array) -> jax.Array:
    """Whether going on at either end of a part of the trajectory would bring the ends nearer to each other
    (Betancourt 2017, appendix A.4.2)."""
    middle = r_sum - (left + right) / 2
    return (jnp.dot(left, middle) <= 0) | (jnp.dot(right, middle) <= 0)


def _kinetic(r: jax.Array) -> jax.Array:
    return 0.5 * jnp.dot(r, r)


def _where(condition: jax.Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
