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
import numpy as np
from jax import lax, random

from gibbsite.kernels.nuts import collectives as over_chains

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


class Chance(NamedTuple):
    """What is random of a trajectory: the momentum `[d]`; uniform numbers that decide of every doubling its
    direction and whether the chain goes there `[depth, 2]`, and of the first leaves whether it goes there;
    keys for later leaves."""

    momentum: jax.Array
    doublings: jax.Array
    noise: jax.Array
    later: jax.Array


class _Grown(NamedTuple):
    """What changes when a subtree joins the tree. `depth` and `leaf`, the number of the next within its
    subtree, are those of all chains alike."""

    depth: jax.Array
    leaf: jax.Array
    active: jax.Array
    right: jax.Array
    left_end: Point
    right_end: Point
    r_sum: jax.Array
    weight: jax.Array
    proposal: Proposal
    subtree: _Subtree


class _State(NamedTuple):
    going: jax.Array  # any chain
    grown: _Grown
    checkpoints: tuple[jax.Array, jax.Array]
    noise: jax.Array
    num_steps: jax.Array
    sum_accept_prob: jax.Array
    diverging: jax.Array


def chance(key: Any, size: int, max_tree_depth: int, dtype: Any) -> tuple[Any, Chance]:
    """The next key, and what is random of a trajectory of a momentum of `size` numbers.

    Few calls for many numbers each, since a call is a loop of many small kernels on CPUs.
    """
    block = max(_NOISE, 2**max_tree_depth // _NOISE)
    keys = random.split(key, 2 + (2**max_tree_depth - 2) // block)
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype))
    x = random.uniform(keys[1], (size + 2 * max_tree_depth + block,), dtype, minval=low)
    momentum, rest = np.sqrt(2).astype(dtype) * lax.erf_inv(x[:size]), (x[size:] + 1) / 2
    doublings = rest[: 2 * max_tree_depth].reshape(max_tree_depth, 2)
    return keys[0], Chance(momentum, doublings, rest[2 * max_tree_depth :], keys[2:])


def grown(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    potential_energy: jax.Array,
    gradient: jax.Array,
    step_size: jax.Array,
    chance: Chance,
    max_delta_energy: float = 1000.0,
    max_depth: jax.Array | None = None,
) -> Tree:
    """A trajectory from w = 0, where potential and gradient are known; momenta are standard normal.

    `value_and_grad` gives the potential and its gradient at w. The trajectory has at most `2 ** depth − 1`
    steps, where `chance` is for trees of that depth and `max_depth` may say less; one whose energy exceeds
    that of the start by `max_delta_energy` ends it.
    """
    momentum, doublings, block = chance.momentum, chance.doublings, chance.noise.size
    dtype, most = momentum.dtype, len(doublings)
    deepest = most if max_depth is None else jnp.minimum(max_depth, most)
    first_energy = potential_energy + _kinetic(momentum)
    start = Point(jnp.zeros_like(momentum), momentum, gradient)
    here = Proposal(start.w, gradient, potential_energy, first_energy)
    zero, nothing = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)

    def leaf(s: _State) -> _State:
        tree, sub, n = s.grown, s.grown.subtree, s.grown.leaf
        at = (1 << tree.depth) - 1 + n
        noise = s.noise
        if chance.later.size:
            noise = lax.cond(
                (at % block == 0) & (at > 0),
                lambda: random.uniform(chance.later[at // block - 1], (block,), dtype),
                lambda: s.noise,
            )
        # leapfrog
        step = jnp.where(tree.right, step_size, -step_size)
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
        taken = noise[at % block] < jnp.exp(gain - weight)
        chosen = _where(taken, Proposal(w, gradient, potential, energy), sub.proposal)
        r_sum = sub.r_sum + r
        checkpoints, turning = _checked(s.checkpoints, n, r, r_sum)
        longer = tree._replace(
            leaf=n + 1,
            active=tree.active & ~(turning | diverging),
            subtree=_Subtree(Point(w, r, gradient), r_sum, weight, chosen),
        )
        longer = lax.cond(n + 1 == 1 << tree.depth, doubled, lambda t: t, longer)
        return _State(
            going=over_chains.any_of(longer.active),
            grown=longer,
            checkpoints=checkpoints,
            noise=noise,
            num_steps=s.num_steps + tree.active,
            sum_accept_prob=s.sum_accept_prob + jnp.where(tree.active, jnp.minimum(jnp.exp(gain), 1.0), 0.0),
            diverging=s.diverging | (tree.active & diverging),
        )

    def doubled(t: _Grown) -> _Grown:
        """The finished subtree joins the tree, and the next begins."""
        sub = t.subtree
        taken = t.active & (doublings[t.depth, 1] < jnp.exp(sub.weight - t.weight))
        left, right = _where(t.right, (t.left_end, sub.edge), (sub.edge, t.right_end))
        r_sum, depth = t.r_sum + sub.r_sum, t.depth + 1
        more = t._replace(
            depth=depth,
            leaf=nothing,
            active=t.active & ~_turning(left.r, right.r, r_sum) & (depth < deepest),
            left_end=left,
            right_end=right,
            r_sum=r_sum,
            weight=jnp.logaddexp(t.weight, sub.weight),
            proposal=_where(taken, sub.proposal, t.proposal),
        )
        return begun(more)

    def begun(t: _Grown) -> _Grown:
        right = doublings[jnp.minimum(t.depth, most - 1), 0] < 0.5
        edge = _where(right, t.right_end, t.left_end)
        empty = jnp.zeros_like(edge.r), jnp.full_like(t.weight, -jnp.inf)
        return t._replace(right=right, subtree=_Subtree(edge, *empty, t.subtree.proposal))

    alive = jnp.array(True)
    sub = _Subtree(start, momentum, zero, here)
    root = _Grown(nothing, nothing, alive, alive, start, start, momentum, zero, here, sub)
    rows = jnp.zeros((most + 1, *momentum.shape), dtype)
    begin = _State(alive, begun(root), (rows, rows), chance.noise, nothing, zero, jnp.array(False))
    s = lax.while_loop(lambda s: s.going, leaf, begin)
    return Tree(s.grown.proposal, s.num_steps, s.sum_accept_prob / s.num_steps, s.diverging)


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
