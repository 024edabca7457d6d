"""Metropolis–Hastings with a proposal given as NumPyro distributions: the user's own, or the prior."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import random
from jax.flatten_util import ravel_pytree
from numpyro.distributions import constraints
from numpyro.infer.gibbs import GIBBS_SITES_KWARG

from gibbsite.conditional.reads.reduce import onto_elements
from gibbsite.conditional.reads.term_access import SINGLE, Touch, touches
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import OptionError, ScheduleError
from gibbsite.ground.once import once
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.adapt import ScaleTuning, adapt_scale, init_scale
from gibbsite.kernels.blocks.finite import INPUTS_KWARG, given_to
from gibbsite.kernels.blocks.target import Target, Values, event_log_prob

Proposal = Callable[[dict[str, jax.Array]], Any]


def _interval(constraint: Any) -> tuple[float | None, float | None] | None:
    """Bounds of a support of scalars, None where a bound is not a number; None for other supports."""
    c = base_constraint(constraint)
    infinite = float("inf")
    if c is constraints.real or c is constraints.real_vector:
        return -infinite, infinite
    if c is constraints.boolean:
        return 0.0, 1.0
    if isinstance(c, constraints.greater_than | constraints.integer_greater_than):
        return _number(c.lower_bound), infinite
    if isinstance(c, constraints.less_than):
        return -infinite, _number(c.upper_bound)
    if isinstance(c, constraints.interval | constraints.integer_interval):
        return _number(c.lower_bound), _number(c.upper_bound)
    return None


def _number(bound: Any) -> float | None:
    if jnp.ndim(bound) != 0:
        return None
    try:
        return float(bound)
    except jax.errors.ConcretizationTypeError:  # it depends on what is being traced
        return None


def covers(proposal: Any, target: Any) -> bool:
    """Whether a proposal's support can reach all of a site's support (unknown bounds count as fitting)."""
    if proposal.is_discrete != target.is_discrete:
        return False
    inner, outer = _interval(target), _interval(proposal)
    if inner is None or outer is None:
        return type(base_constraint(proposal)) is type(base_constraint(target))
    low = outer[0] is None or inner[0] is None or outer[0] <= inner[0]
    high = outer[1] is None or inner[1] is None or outer[1] >= inner[1]
    return low and high


class Metropolis(SiteKernel):
    """Metropolis–Hastings with a proposal of the user's.

    `proposal(state)` gets a dict of the constrained values of *all* latent sites and returns the
    distribution of the block's new value, or a dict of one distribution per site of the block. It is
    checked at `init`: shape and support must fit. Values outside the site's support are rejected.
    """

    def __init__(self, model: Any, proposal: Proposal):
        super().__init__(model)
        if not callable(proposal):
            raise ScheduleError(
                f"Metropolis needs a proposal, a function of the state that returns a NumPyro distribution; "
                f"got {proposal!r}"
            )
        self._proposal: Proposal | None = proposal

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Every support is allowed; the proposal is checked in `init_tuning`."""

    def init_tuning(self, z: Values, target: Target) -> Any:
        """Checks the proposal at the first values; there is nothing to tune."""
        proposals, sites = self._propose(z, target), target.trace(z)
        if set(proposals) != set(z):
            raise ScheduleError(
                f"the proposal must give one distribution for each of {sorted(z)}, got {sorted(proposals)}"
            )
        for name, value in z.items():
            proposed, support = proposals[name], sites[name]["fn"].support
            if not isinstance(proposed, dist.Distribution):
                raise ScheduleError(
                    f"the proposal for {name!r} must be a NumPyro distribution, got {type(proposed).__name__}"
                )
            if tuple(proposed.shape()) != value.shape:
                raise ScheduleError(
                    f"the proposal for {name!r} has shape {tuple(proposed.shape())}, "
                    f"the site has {value.shape}; `.expand({list(value.shape)})` gives a distribution "
                    "of that shape"
                )
            if not covers(proposed.support, support):
                raise ScheduleError(
                    f"the proposal for {name!r} has support {proposed.support}, which does not "
                    f"cover the site's support {support}; propose from a distribution on all of it"
                )
        return ()

    def _propose(self, z: Values, target: Target) -> dict[str, Any]:
        assert self._proposal is not None
        state = {**target.kwargs.get(GIBBS_SITES_KWARG, {}), **z}
        proposed = self._proposal(state)
        if isinstance(proposed, Mapping):
            return dict(proposed)
        if len(z) != 1:
            raise ScheduleError(
                f"the block has sites {sorted(z)}: the proposal must return a dict "
                "with one distribution for each"
            )
        return {next(iter(z)): proposed}

    def step(
        self, key: jax.Array, z: Values, tuning: Any, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        """Propose, then accept with the Hastings ratio."""
        key_draw, key_accept = random.split(key)
        forward = self._propose(z, target)
        keys = dict(zip(z, random.split(key_draw, len(z)), strict=True))
        there = {n: jnp.asarray(forward[n].sample(keys[n]), z[n].dtype) for n in z}
        backward = self._propose(there, target)
        log_ratio = target.logdensity(there) - target.logdensity(z)
        for name in z:
            log_ratio = log_ratio + event_log_prob(backward[name], z[name])
            log_ratio = log_ratio - event_log_prob(forward[name], there[name])
        return _decide(key_accept, z, there, log_ratio)


class IndependenceMetropolis(Metropolis):
    """Metropolis–Hastings with a proposal that ignores the block's own values: by default the prior.

    With the prior as proposal the acceptance ratio is that of the likelihoods, and where `density`, the
    analysis of the model, tells that rows of the block's sites have nothing to do with each other given all
    else, each row is accepted by itself. `proposal(state)`, if given, gets the values of the *other* latent
    sites only.
    """

    def __init__(self, model: Any, proposal: Proposal | None = None, density: Density | None = None):
        super().__init__(model, proposal or dict)  # a function that is never called, where there is none
        self._density = density
        if proposal is None:
            self._proposal = None

    def _propose(self, z: Values, target: Target) -> dict[str, Any]:
        if self._proposal is None:
            sites = target.trace(z)
            return {name: sites[name]["fn"] for name in z}
        proposed = self._proposal(dict(target.kwargs.get(GIBBS_SITES_KWARG, {})))
        return dict(proposed) if isinstance(proposed, Mapping) else {next(iter(z)): proposed}

    def step(
        self, key: jax.Array, z: Values, tuning: Any, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        """A fixed proposal, or an ancestral draw from the prior of the whole block."""
        if self._proposal is not None:
            return super().step(key, z, tuning, target, adapting)
        key_draw, key_accept = random.split(key)
        there = target.draw_prior(key_draw, z)
        there = {name: jnp.asarray(there[name], z[name].dtype) for name in z}
        touched = None if self._density is None else rows_apart(self._density, tuple(z))
        if touched is not None:
            return self._by_rows(key_accept, z, there, target, touched)
        # a site's scale or mask makes its factor differ from the prior that was drawn from
        log_ratio = target.logdensity(there) - target.logdensity(z)
        log_ratio = log_ratio + target.prior_log_prob(z) - target.prior_log_prob(there)
        return _decide(key_accept, z, there, log_ratio)

    def _by_rows(
        self, key: jax.Array, z: Values, there: Values, target: Target, touched: tuple[Touch, ...]
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        density, shape = self._density, jnp.shape(next(iter(z.values())))
        assert density is not None
        others, data = given_to(density, target.args, target.kwargs)

        def height(at: Values) -> jax.Array:
            """Of each row, less its prior."""
            ev = density.evaluator({**others, **at}, data)
            total, outside = onto_elements(touched, density.bounds, ev, shape)
            total -= sum(target.prior_log_probs(at).values())
            return jnp.where((outside < 0) | jnp.isnan(total), -jnp.inf, jnp.broadcast_to(total, shape))

        log_ratio = height(there) - height(z)
        log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
        accepted = -random.exponential(key, shape) < log_ratio
        new = {name: jnp.where(accepted, there[name], z[name]) for name in z}
        return new, (), step_info(jnp.mean(jnp.exp(jnp.minimum(log_ratio, 0.0))), 2)


@once
def rows_apart(density: Density, sites: tuple[str, ...]) -> tuple[Touch, ...] | None:
    """All terms of some latents of one shape, where each reads at most one element of each, and of several
    those at one index, so that their rows are independent of each other given all else. None where not."""
    if any(n not in density.sites or n not in density.latent_vars for n in sites):
        return None
    shapes = {density.sites[n].shape for n in sites}
    if len(shapes) != 1 or not next(iter(shapes)) or any(density.sites[n].event_shape for n in sites):
        return None
    read: dict[Any, Touch] = {}
    for name in sites:
        for touch in touches(density, name, len(density.sites[name].shape)):
            mine = read.setdefault(touch.term.atom, touch)
            moved = any(not a.latents().isdisjoint(sites) for a in touch.accesses)
            if touch.kind != SINGLE or len(touch.accesses) != 1 or moved:
                return None
            if set(mine.accesses) != set(touch.accesses):
                return None
    return tuple(read.values())


def _decide(
    key: jax.Array, z: Values, there: Values, log_ratio: jax.Array
) -> tuple[dict[str, jax.Array], Any, StepInfo]:
    log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    accepted = -random.exponential(key) < log_ratio
    new = {name: jnp.where(accepted, there[name], z[name]) for name in z}
    return new, (), step_info(jnp.exp(jnp.minimum(log_ratio, 0.0)), 2)


class RandomWalk(SiteKernel):
    """Gaussian random-walk Metropolis on all elements of the block together.

    Continuous sites move in unconstrained coordinates; integer sites (Poisson, …) by a rounded Gaussian step,
    which is symmetric too. `step_size`: first scale; global scale and one standard deviation per element are
    adapted in warm-up towards `target_accept_prob` (.44 for one element, .234 for more, unless given). With
    `argument` that is read from the compiled program's inputs, where it is called so (NaN: not given): others
    need no other program.
    """

    def __init__(
        self,
        model: Any,
        step_size: float = 1.0,
        target_accept_prob: float | None = None,
        argument: str | None = None,
    ):
        super().__init__(model)
        if not step_size > 0:
            raise OptionError(f"RandomWalk: step_size must be positive, got {step_size!r}")
        if target_accept_prob is not None and not 0 < target_accept_prob < 1:
            raise OptionError(
                f"RandomWalk: target_accept_prob must lie in (0, 1), got {target_accept_prob!r}"
            )
        self._step_size, self._accept, self._argument = float(step_size), target_accept_prob, argument

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Any support but discrete vectors (Multinomial), whose elements cannot move one by one."""
        support = site["fn"].support
        if support.is_discrete and base_constraint(support).event_dim > 0:
            raise ScheduleError(f"RandomWalk cannot update {name!r}: its support couples integers")

    def init_tuning(self, z: Values, target: Target) -> ScaleTuning:
        flat, _ = ravel_pytree(_as_float(target.unconstrain(z)))
        return init_scale(
            flat, self._step_size if flat.shape[0] == 1 else self._step_size / flat.shape[0] ** 0.5
        )

    def step(
        self, key: jax.Array, z: Values, tuning: ScaleTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], ScaleTuning, StepInfo]:
        """Propose, accept or stay, adapt."""
        here = target.unconstrain(z)
        flat, unravel = ravel_pytree(_as_float(here))
        key_move, key_accept = random.split(key)
        shift = unravel(tuning.scale * random.normal(key_move, flat.shape, flat.dtype))
        there = {name: x + _as_step(shift[name], x.dtype) for name, x in here.items()}
        log_ratio = target.free_logdensity(there) - target.free_logdensity(here)
        accepted = -random.exponential(key_accept, dtype=flat.dtype) < log_ratio
        new = {name: jnp.where(accepted, there[name], here[name]) for name in here}
        accept_prob = jnp.exp(jnp.minimum(jnp.nan_to_num(log_ratio, nan=-jnp.inf, neginf=-jnp.inf), 0.0))
        aim = self._aim(target, 0.44 if flat.shape[0] == 1 else 0.234)
        # an integer coordinate whose scale fell below half a unit would never move again
        floor = ravel_pytree({n: jnp.full(x.shape, _floor(x.dtype), flat.dtype) for n, x in here.items()})[0]
        tuning_new = adapt_scale(tuning, ravel_pytree(_as_float(new))[0], accept_prob, aim, adapting, floor)
        info = step_info(accept_prob, 2, jnp.exp(tuning.log_scale))
        return target.constrain(new), tuning_new, info

    def _aim(self, target: Target, usual: float) -> Any:
        """The acceptance that is aimed at."""
        asked = target.kwargs.get(INPUTS_KWARG, {}).get("options", {}).get(self._argument)
        return self._accept or usual if asked is None else jnp.where(jnp.isnan(asked), usual, asked)


def _as_float(u: Values) -> dict[str, jax.Array]:
    return {name: x.astype(jnp.result_type(float)) for name, x in u.items()}


def _as_step(shift: jax.Array, dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return shift.astype(dtype)
    return jnp.round(shift).astype(dtype)


def _floor(dtype: Any) -> float:
    return 1e-12 if jnp.issubdtype(dtype, jnp.floating) else 0.5
