"""The state of the block: all that stop, resume and checkpoints need."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from numpyro.infer.gibbs import with_conditioning
from numpyro.infer.hmc_util import dual_averaging

from gibbsite.density.hierarchy.exchangeability import mixes
from gibbsite.kernels.learnt.coordinates import Coordinates, Surroundings
from gibbsite.kernels.learnt.metric import Metric
from gibbsite.kernels.nuts import collectives as over_chains
from gibbsite.kernels.nuts.potential import Problem
from gibbsite.kernels.nuts.tuning import Rows, Tuning, in_other_places, raised, refit, untuned
from gibbsite.kernels.nuts.windows import FINAL


class NutsState(NamedTuple):
    """What the next step needs, and what a person may want to see.

    `z` holds the unconstrained values as the model is written, by site; `u` the flat learnt coordinates and
    `w_grad` the potential's gradient in those of the metric, both at `z`. `averages` are those of dual
    averaging, which leads to the mean acceptance `target`, which warm-up `raises` or not; `astray` counts the
    trajectories since the last window that diverged; `ring` the last draws of warm-up, a flat row each, of
    which step i stands at i modulo its length.
    """

    i: jax.Array
    z: dict[str, jax.Array]
    u: jax.Array
    w_grad: jax.Array
    potential_energy: jax.Array
    energy: jax.Array
    num_steps: jax.Array
    accept_prob: jax.Array
    mean_accept_prob: jax.Array
    diverging: jax.Array
    step_size: jax.Array
    averages: Any
    target: jax.Array
    raises: jax.Array
    astray: jax.Array
    tuning: Tuning
    ring: jax.Array
    num_warmup: jax.Array
    rng_key: jax.Array


def first_state(
    c: Coordinates,
    around: Surroundings,
    start: tuple[jax.Array, jax.Array, jax.Array],
    lam: jax.Array,
    metric: Metric,
    ring: jax.Array,
    aims: tuple[float, Any, Any],
    num_warmup: int,
    rng_key: jax.Array,
) -> NutsState:
    """The state before any step, at `start`: v, and potential and gradient there at degrees `lam`.

    `aims`: the first step size, the acceptance that is aimed at, and whether warm-up may raise that.
    """
    step_size, target, raises = aims
    v, energy, gradient = start
    zero, first = jnp.zeros((), jnp.int32), jnp.asarray(step_size, v.dtype)
    return NutsState(
        i=zero,
        z=c.by_site(v),
        u=c.learnt_from(v, lam, around),
        w_grad=metric.transposed(gradient),
        potential_energy=energy,
        energy=energy,
        num_steps=zero,
        accept_prob=jnp.zeros((), v.dtype),
        mean_accept_prob=jnp.zeros((), v.dtype),
        diverging=jnp.array(False),
        step_size=first,
        averages=averages_at(first),
        target=jnp.asarray(target, v.dtype),
        raises=jnp.asarray(raises, bool),
        astray=zero,
        tuning=untuned(c, lam, metric),
        ring=ring,
        num_warmup=jnp.asarray(num_warmup, jnp.int32),
        rng_key=rng_key,
    )


_START, _UPDATE = dual_averaging()
_LEAST_STEP, _MOST_STEP = 1e-3, 2.0


def averages_at(step_size: jax.Array) -> Any:
    """Dual averaging that begins at a step size."""
    log_size = jnp.log(jnp.clip(step_size, _LEAST_STEP, _MOST_STEP))
    _, _, gradient, count, _ = _START()
    return log_size, log_size, gradient, count, log_size


def averages_after(accept_prob: jax.Array, target: jax.Array, averages: Any) -> Any:
    """Dual averaging after one more step (Hoffman and Gelman 2014, §3.2)."""
    new = _UPDATE(target - accept_prob, averages)
    return tuple(jnp.asarray(a, b.dtype) for a, b in zip(new, averages, strict=True))


def _split(rows: jax.Array, size: int) -> list[jax.Array]:
    """Values, gradients, and what other blocks held, along the last axis."""
    return jnp.split(rows, [size, 2 * size], axis=-1)


def pooled(
    problem: Problem,
    states: NutsState,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    siblings: dict[str, Any],
    ends: tuple[int, ...],
    together: bool,
    centring: bool,
) -> NutsState:
    """States `[chain, …]` with a tuning learnt from the later half of the draws so far, in its coordinates.

    Each chain's own draws alone count for it unless `together`, and then where chains are in different modes.
    `ends` are the ends of all windows. Degrees of centring stay what they are unless `centring`.
    """
    c = problem.coordinates
    data = problem.around(args, with_conditioning(dict(kwargs), jax.tree.map(lambda a: a[0], siblings))).data
    steps, rank = states.i[0], states.tuning.metric.stretch.shape[-1]
    length = states.ring.shape[1]
    age = (steps - 1 - jnp.arange(length)) % length
    weight = jnp.where(age < jnp.minimum((steps + 1) // 2, length), 1.0, 0.0).astype(states.ring.dtype)
    # a repeated block may be a little short of the end; a warm-up may end sooner than it was laid out for
    num_warmup, all_ends = states.num_warmup[0], jnp.asarray(ends)
    sooner = num_warmup < ends[-1] + FINAL
    none_left = ~jnp.any((all_ends > steps + FINAL // 2) & (all_ends < num_warmup))
    last = (steps > max([0, *ends[:-1]])) | (sooner & none_left)

    def learn(rows: jax.Array, weight: jax.Array, tuning: Tuning) -> Tuning:
        parts = Rows(*_split(rows, c.size))
        return refit(c, parts, weight, tuning, data, rank, last if centring else None)

    chains, several = states.ring.shape[0], together and mixes(c.density)
    rows = states.ring.reshape(chains * length, -1)
    if c.turns.any():
        turned = c.in_the_turn_of_most(rows[:, : c.size], jnp.tile(weight, chains))
        rows = jnp.concatenate([turned, rows[:, c.size :]], axis=1)
    ring = rows.reshape(states.ring.shape)
    if together:
        apart = several and in_other_places(Rows(*_split(ring, c.size)), weight)

        def of(chain: Any, found: Tuning) -> Tuning:
            counts = jnp.where(apart & (jnp.arange(chains) != chain), 0.0, 1.0)
            own = jax.tree.map(lambda a: a[chain], states.tuning)
            own = learn(rows, jnp.outer(counts, weight).ravel(), own)
            return jax.tree.map(lambda a, b: a.at[chain].set(b), found, own)

        # what has one mode is spared a loop, which takes longer to compile
        found = (
            lax.fori_loop(0, jnp.where(apart, chains, 1), of, states.tuning)
            if several
            else of(0, states.tuning)
        )
        tuning = jax.tree.map(lambda a: jnp.where(apart, a, a[0]), found)
    else:
        tuning = jax.vmap(learn, (0, None, 0))(ring, weight, states.tuning)

    def move(z: Any, tuning: Tuning, averages: Any, siblings: dict[str, Any]) -> Any:
        around = with_conditioning(dict(kwargs), siblings)
        u = c.learnt_from(c.flat(z), tuning.form, problem.around(args, around))
        energy, gradient = problem.value_and_grad(tuning.form, args, around)(u)
        restarted = averages_at(jnp.exp(averages[0]))
        return u, energy, tuning.metric.transposed(gradient), restarted

    named = jax.vmap(
        move, axis_name=over_chains.AXIS
    )  # as where they step: JAX traces the gradient once then
    u, energy, w_grad, averages = named(states.z, tuning, states.averages, siblings)
    return states._replace(
        u=u,
        potential_energy=energy,
        w_grad=w_grad,
        averages=averages,
        step_size=jnp.exp(averages[0]),
        tuning=tuning,
        target=raised(states, ends, together),
        astray=jnp.zeros_like(states.astray),
    )
