"""The end of a window: one tuning for all chains, from the draws of all."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.infer.gibbs import with_conditioning

from gibbsite.kernels.nuts import collectives as over_chains
from gibbsite.kernels.nuts.potential import Problem
from gibbsite.kernels.nuts.state import NutsState, averages_at
from gibbsite.kernels.nuts.tuning import Rows, Tuning, raised, refit
from gibbsite.kernels.nuts.windows import FINAL


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

    Each chain's own draws alone count for it unless `together`. `ends` are the ends of all windows. Degrees
    of centring stay what they are unless `centring`.
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

    def learn(ring: jax.Array, weight: jax.Array, tuning: Tuning) -> Tuning:
        rows = Rows(ring[:, : c.size], ring[:, c.size : 2 * c.size], ring[:, 2 * c.size :])
        return refit(c, rows, weight, tuning, data, rank, last if centring else None)

    if together:
        chains = states.ring.shape[0]
        first = jax.tree.map(lambda a: a[0], states.tuning)
        rows = states.ring.reshape(chains * length, -1)
        tuning = learn(rows, jnp.tile(weight, chains), first)
        tuning = jax.tree.map(lambda a: jnp.broadcast_to(a, (chains, *a.shape)), tuning)
    else:
        tuning = jax.vmap(learn, (0, None, 0))(states.ring, weight, states.tuning)

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
