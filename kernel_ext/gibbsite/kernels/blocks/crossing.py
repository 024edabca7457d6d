"""One update of discrete sites and the continuous ones that decide them, or are decided by them.

Of `x ~ Uniform(2 * z, 2 * z + 1)`, or under a factor that is zero unless `(x > 0) == z`, each site given the
other stays where it is. Here the continuous sites are held by their unconstrained coordinates, in which their
support no longer moves, and sliced (Neal 2003) in the marginal without the discrete ones; these are then
drawn from their joint conditional. Given the coordinates, that is one step in their marginal followed by an
exact draw (van Dyk and Park 2008): where a sum over the bit is positive everywhere, it crosses.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.flatten_util import ravel_pytree
from numpyro.distributions.transforms import biject_to

from gibbsite.conditional.draws.slice import slice_element, slice_in_turn
from gibbsite.conditional.finite.finite import finite_structure
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.reduce import onto_elements
from gibbsite.conditional.reads.support import FiniteSupport, listed
from gibbsite.conditional.reads.term_access import SINGLE, Touch, touches
from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.finite import given_to
from gibbsite.kernels.blocks.slice import SliceTuning
from gibbsite.kernels.blocks.target import Target, Values

APART, IN_TURN, WHOLE = "side by side", "pair by pair", "as a whole"
MOST = 64
"""Combinations of values that are summed over in every evaluation, and numbers that are sliced in turn: both
at this limit are some 25,000 evaluations of the density in a sweep."""


@dataclass(frozen=True, eq=False)
class Together:
    """Discrete sites, whose values are summed out, and continuous ones, which are sliced meanwhile.

    `way` is APART for pairs of elements that are independent of all other pairs, which take their slices at
    once; IN_TURN for pairs of elements one after another; WHOLE where all `combinations` of the discrete
    sites' values are summed over. `touched` are the terms of either site of pairs that are apart.
    """

    discrete: tuple[str, ...]
    continuous: tuple[str, ...]
    supports: dict[str, FiniteSupport]
    way: str
    touched: tuple[Touch, ...] = ()
    combinations: int = 1

    @property
    def cost(self) -> str:
        """The work of one update, in words."""
        if self.way == APART:
            return f"about 10 × {self.combinations} evaluations of the touched factors"
        return f"about 6 × {self.combinations} evaluations of the touched factors for each number"

    @property
    def reason(self) -> str:
        """What is done, in words."""
        x, z = " and ".join(self.continuous), " and ".join(self.discrete)
        verb = "decide" if len(self.discrete) + len(self.continuous) > 2 else "and"
        pair = f"{z} and {x} decide" if verb == "and" else f"{z}, {x} decide"
        return f"{pair} each other: {x} sliced with {z} summed out, then {z} drawn, {self.way}"


def together(density: Density, sites: Sequence[str]) -> Together:
    """How the sites are updated as one. Raises `Refused` where they cannot."""
    found = _together(density, sites)
    if isinstance(found, Refused):
        raise found
    return found


@once
def _together(density: Density, sites: Sequence[str]) -> Together | Refused:
    discrete = tuple(n for n in sites if density.sites[n].discrete)
    continuous = tuple(n for n in sites if n not in discrete)
    if not discrete or not continuous:
        return Refused("Crossing takes discrete sites and continuous ones that they decide, both")
    supports: dict[str, FiniteSupport] = {}
    for name in discrete:
        support = listed(density, name)
        if support is None:
            return Refused(f"the values of {name} cannot be listed")
        supports[name] = support
    sizes = {n: int(np.prod(density.sites[n].shape, dtype=np.int64)) for n in sites}
    values = max(s.size for s in supports.values())
    if len(sites) == 2 and density.sites[discrete[0]].shape == density.sites[continuous[0]].shape:
        found = _apart(density, discrete[0], continuous[0], supports[discrete[0]])
        if found:
            return Together(discrete, continuous, supports, APART, found, values)
        if sizes[discrete[0]] <= MOST and values <= MOST:
            return Together(discrete, continuous, supports, IN_TURN, (), values)
    combinations = math.prod(supports[n].size ** sizes[n] for n in discrete)
    if combinations > MOST or sum(sizes[n] for n in continuous) > MOST:
        return Refused(
            f"their {combinations:,} combinations of values and {sum(sizes[n] for n in continuous)} numbers "
            f"are too many (limit: {MOST} of each)"
        )
    return Together(discrete, continuous, supports, WHOLE, (), combinations)


def _apart(density: Density, z: str, x: str, support: FiniteSupport) -> tuple[Touch, ...]:
    """The terms of either site, where each of them reads at most one element of each and, of both, those of
    one pair; nothing where any does not."""
    if density.sites[x].event_shape or not finite_structure(density, z, support).independent:
        return ()
    of_z = touches(density, z, len(support.elements))
    of_x = touches(density, x, len(support.elements))
    if any(t.kind != SINGLE for t in (*of_z, *of_x)) or any(_moved(t, (z, x)) for t in (*of_z, *of_x)):
        return ()
    read: dict[Any, Touch] = {t.term.atom: t for t in of_z}
    for t in of_x:
        mine = read.get(t.term.atom)
        if mine is not None and set(mine.accesses) != set(t.accesses):
            return ()
    return (*of_z, *(t for t in of_x if t.term.atom not in read))


def _moved(touch: Touch, sites: Sequence[str]) -> bool:
    return any(not a.latents().isdisjoint(sites) for a in touch.accesses)


_WIDTH, _MAX_STEPS = 2.0, 16  # as `Slice` has them


class Crossing(SiteKernel):
    """Updates discrete sites of listed values together with continuous ones: see this file's head.

    `density` is the analysis of the model, over the same sites. Elements of one discrete and one continuous
    site of equal shape are updated as pairs, side by side where pairs are independent of each other.
    """

    def __init__(self, model: Any, density: Density):
        super().__init__(model)
        self._density = density

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Takes both sorts; `together` refuses what does not fit."""

    def init_tuning(self, z: Values, target: Target) -> SliceTuning:
        """Equal widths for the continuous coordinates."""
        free = target.unconstrain(z)
        flat, _ = ravel_pytree({n: free[n] for n in self._how(z).continuous})
        return SliceTuning(jnp.full_like(flat, _WIDTH), jnp.zeros((), jnp.int32))

    def _how(self, z: Values) -> Together:
        return together(self._density, [n for n in self._density.latents if n in z])

    def step(
        self, key: jax.Array, z: Values, tuning: SliceTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], SliceTuning, StepInfo]:
        """One slice of every continuous coordinate with the discrete sites summed out, and their draw."""
        how = self._how(z)
        free = target.unconstrain(z)
        now = {n: free[n] for n in how.continuous}
        start, unravel = ravel_pytree(now)
        if how.way == APART:
            new, evaluations = self._apart(key, free, unravel(tuning.width), target, how)
        elif how.way == IN_TURN:
            new, evaluations = self._pairs(key, free, tuning, target, how)
        else:
            new, evaluations = self._whole(key, free, tuning, target, how)
        flat, _ = ravel_pytree({n: new[n] for n in how.continuous})
        learnt = tuning.after(flat, start, adapting)
        return target.constrain(new), learnt, step_info(1.0, evaluations, jnp.mean(tuning.width))

    def _apart(
        self, key: jax.Array, free: Values, width: Values, target: Target, how: Together
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        (z,), (x,) = how.discrete, how.continuous
        density, shape = self._density, free[x].shape
        others, data = given_to(density, target.args, target.kwargs)
        values = jnp.asarray(how.supports[z].values, free[z].dtype)
        valid = how.supports[z].valid

        def table(u: jax.Array) -> jax.Array:
            """`[K, *shape]`: log densities of each pair at each value, up to constants."""

            def at(value: jax.Array) -> jax.Array:
                filled = jnp.full(shape, value)
                # the support as it is at this value; nothing else of the run of the model is kept
                through = biject_to(target.trace({z: filled, x: u})[x]["fn"].support)
                there = jnp.broadcast_to(through(u), shape)
                ev = density.evaluator({**others, z: filled, x: there}, data)
                total, outside = onto_elements(how.touched, density.bounds, ev, shape)
                total = jnp.broadcast_to(total + through.log_abs_det_jacobian(u, there), shape)
                return jnp.where((outside < 0) | jnp.isnan(total), -jnp.inf, total)

            found = jnp.stack([at(v) for v in values])
            return found if valid is None else jnp.where(jnp.asarray(valid), found, -jnp.inf)

        key_slice, key_draw = random.split(key)
        u, _, evaluations = slice_element(
            key_slice,
            lambda u: jax.nn.logsumexp(table(u), axis=0),
            free[x],
            None,
            width[x],
            _MAX_STEPS,
        )
        return {z: _drawn(key_draw, table(u), values, free[z]), x: u}, evaluations * len(values)

    def _whole(
        self, key: jax.Array, free: Values, tuning: SliceTuning, target: Target, how: Together
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        start, unravel = ravel_pytree({n: free[n] for n in how.continuous})
        many = _combinations(how, free)

        def table(flat: jax.Array) -> jax.Array:
            """`[K]` over the combinations."""
            return jax.vmap(lambda z: target.free_logdensity({**unravel(flat), **z}))(many)

        flat, evaluations = slice_in_turn(
            key, lambda flat: jax.nn.logsumexp(table(flat)), start, tuning.width, _MAX_STEPS, known=False
        )
        logits = table(flat)
        at = random.categorical(random.fold_in(key, start.shape[0]), logits)
        possible = jnp.max(logits) > -jnp.inf
        drawn = {n: jnp.where(possible, v[at], free[n]) for n, v in many.items()}
        return {**unravel(flat), **drawn}, evaluations * how.combinations

    def _pairs(
        self, key: jax.Array, free: Values, tuning: SliceTuning, target: Target, how: Together
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        (z,), (x,) = how.discrete, how.continuous
        values = jnp.asarray(how.supports[z].values, free[z].dtype)
        shape = free[z].shape

        def update(i: jax.Array, carry: Any) -> Any:
            us, zs, evaluations = carry
            key_slice, key_draw = random.split(random.fold_in(key, i))

            def table(u: jax.Array) -> jax.Array:
                def at(value: jax.Array) -> jax.Array:
                    moved = {x: us.at[i].set(u).reshape(shape), z: zs.at[i].set(value).reshape(shape)}
                    return target.free_logdensity(moved)

                return jax.vmap(at)(values)

            u, _, count = slice_element(
                key_slice, lambda u: jax.nn.logsumexp(table(u)), us[i], None, tuning.width[i], _MAX_STEPS
            )
            us = us.at[i].set(u)
            zs = zs.at[i].set(_drawn(key_draw, table(u), values, zs[i]))
            return us, zs, evaluations + count

        first = (free[x].ravel(), free[z].ravel(), jnp.zeros((), jnp.int32))
        us, zs, evaluations = lax.fori_loop(0, free[x].size, update, first)
        return {x: us.reshape(shape), z: zs.reshape(shape)}, evaluations * len(values)


def _drawn(key: jax.Array, logits: jax.Array, values: jax.Array, now: jax.Array) -> jax.Array:
    """Values drawn by logits with the support in front; where none is possible, those of `now`."""
    at = random.categorical(key, logits, axis=0)
    return jnp.where(jnp.max(logits, axis=0) > -jnp.inf, values[at], now)


def _combinations(how: Together, free: Values) -> dict[str, jax.Array]:
    """All combinations of the discrete sites' values, `[K, *shape]` by site."""
    axes = [(n, v) for n in how.discrete for v in [how.supports[n].values] * free[n].size]
    rows = jnp.asarray([[float(v) for v in row] for row in itertools.product(*(v for _, v in axes))])
    out, begin = {}, 0
    for n in how.discrete:
        end = begin + free[n].size
        out[n] = rows[:, begin:end].reshape(-1, *free[n].shape).astype(free[n].dtype)
        begin = end
    return out
