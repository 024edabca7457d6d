"""What every kernel of Gibbsite has in common, as a block of `numpyro.infer.Gibbs` and on its own.

A kernel of your own is one class: say in `check` which sites it cannot update, and write `step`, a pure
function of key, values, tuning and target:

    class MyKernel(SiteKernel):
        def step(self, key, z, tuning, target, adapting):
            proposal = jax.tree.map(lambda v: v + 0.1, z)
            …
            return z, tuning, StepInfo(accept_prob=…)

It then works in `numpyro.infer.Gibbs([(MyKernel(model), ["x"]), …])` and in `MCMC(MyKernel(model), …)`;
`register_kernel(kernel_row("MyKernel", MyKernel))` puts it into schedules, and one row of the conformance
table (`tests/kernels/blocks/test_conformance.py`) checks that it is right. `docs/kernels.md` has a whole one.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from numpyro.distributions.transforms import biject_to
from numpyro.handlers import seed, substitute, trace
from numpyro.infer.gibbs import conditioned, latent_sample_sites, prototype_trace
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import identity, is_prng_key

from gibbsite.conditional.draws.gamma import own_gammas
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.target import Target, Values, touched_sites


class StepInfo(NamedTuple):
    """What one step tells: probability of acceptance, evaluations of the logdensity, the scale in use."""

    accept_prob: jax.Array
    evaluations: jax.Array
    step_size: jax.Array


class SiteState(NamedTuple):
    """What the next step needs, and the `info` of the last one.

    `z`: constrained values by site; `tuning`: what warm-up adapts, frozen afterwards; `i`: steps taken;
    `num_warmup`: steps that adapt.
    """

    z: dict[str, jax.Array]
    tuning: Any
    info: StepInfo
    mean_accept_prob: jax.Array
    i: jax.Array
    num_warmup: jax.Array
    rng_key: jax.Array

    @property
    def accept_prob(self) -> jax.Array:
        """Acceptance probability of the last step."""
        return self.info.accept_prob

    @property
    def step_size(self) -> jax.Array:
        """Scale used by the last step."""
        return self.info.step_size


def step_info(accept_prob: Any = 1.0, evaluations: Any = 1, step_size: Any = jnp.nan) -> StepInfo:
    """A `StepInfo` of arrays."""
    return StepInfo(
        jnp.asarray(accept_prob, jnp.result_type(float)),
        jnp.asarray(evaluations, jnp.int32),
        jnp.asarray(step_size, jnp.result_type(float)),
    )


def angles_of(kernel: Any) -> Collection[str]:
    """The sites that a kernel of gradients holds as they are: angles in any turn."""
    return getattr(kernel, "angles", ())


def unconstrained(kernel: Any, args: Any, kwargs: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Constrained values by site as a kernel of gradients holds them."""
    model = seed(substitute(kernel.model, data=dict(values)), random.key(0))
    traced, angles = trace(model).get_trace(*args, **kwargs), angles_of(kernel)
    through = {n: biject_to(traced[n]["fn"].support) for n in values if n not in angles}
    return {n: through[n].inv(v) if n in through else v for n, v in values.items()}


class Constrained(MCMCKernel):
    """A kernel on `_model` whose states hold constrained values by site as `z`. Nothing is cached between
    steps, so `refresh` is the identity and the kernel stays right when data or other sites change."""

    sample_field: str = "z"  # type: ignore[assignment]
    _model: Callable[..., Any]

    @property
    def model(self) -> Callable[..., Any]:
        """The model, as given or as wrapped by a composite."""
        return self._model

    def refresh(self, state: Any, model_args: Any, model_kwargs: Any) -> Any:
        """Identity: nothing is cached."""
        return state

    def get_constrain_fn(self, model_args: Any, model_kwargs: Any) -> Callable[[Any], Any]:
        """Identity: values are constrained."""
        return identity


class SiteKernel(Constrained):
    """A pure update of some latent sites of a NumPyro model given the others, in constrained space.

    Abstract: subclasses define `step`, and where needed `check` and `init_tuning`.
    """

    def __init__(self, model: Callable[..., Any]):
        if not callable(model):
            raise TypeError(f"{type(self).__name__} needs a NumPyro model, a callable; got {model!r}")
        self._model = model
        self._touched: frozenset[str] = frozenset()

    @abstractmethod
    def step(
        self, key: jax.Array, z: Values, tuning: Any, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        """One transition that leaves `target` invariant whenever `adapting` is False."""

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Raise `ScheduleError` if the traced latent `site` is one that this kernel cannot update."""
        if site["fn"].support.is_discrete:
            raise ScheduleError(
                f"{type(self).__name__} updates continuous sites, but {name!r} is discrete; "
                "use a finite Gibbs kernel or RandomWalk"
            )

    def init_tuning(self, z: Values, target: Target) -> Any:
        """What warm-up adapts, at its start; None by default."""
        return ()

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Mapping[str, Any] | None,
        model_args: tuple[Any, ...],
        model_kwargs: Mapping[str, Any] | None,
    ) -> SiteState:
        """Values from `init_params` (constrained, by site) or else drawn from the prior."""
        if not is_prng_key(rng_key):
            raise ValueError(
                f"{type(self).__name__} takes one random key; for several chains use "
                '`chain_method=jax.vmap`, "parallel" or "sequential"'
            )
        kwargs = dict(model_kwargs or {})
        rng_key, key_trace = random.split(rng_key)
        model = conditioned(own_gammas(self._model))
        model_trace = prototype_trace(model, key_trace, model_args, kwargs)
        names = latent_sample_sites(model_trace)
        if not names:
            raise ScheduleError(f"{type(self).__name__} has no latent site to update")
        for name in names:
            if model_trace[name]["infer"].get("enumerate") == "parallel":
                raise ScheduleError(
                    f"{name!r} is marked enumerate='parallel', which only NumPyro's own kernels sum out; "
                    "drop the mark, or update these sites with HMC or NUTS"
                )
            self.check(name, model_trace[name])
        given = init_params or {}
        z = {name: jnp.asarray(given.get(name, model_trace[name]["value"])) for name in names}
        self._touched = touched_sites(model, model_args, kwargs, z)
        tuning = self.init_tuning(z, self._target(model_args, kwargs))
        zero, n = jnp.zeros((), jnp.int32), jnp.asarray(num_warmup, jnp.int32)
        return SiteState(z, tuning, step_info(0.0, 0), jnp.zeros(()), zero, n, rng_key)

    def _target(self, model_args: tuple[Any, ...], model_kwargs: Mapping[str, Any] | None) -> Target:
        return Target(conditioned(self._model), model_args, dict(model_kwargs or {}), self._touched)

    def sample(
        self, state: SiteState, model_args: tuple[Any, ...], model_kwargs: Mapping[str, Any] | None
    ) -> SiteState:
        """One step; adapts while fewer than `num_warmup` steps were taken."""
        rng_key, key = random.split(state.rng_key)
        target = self._target(model_args, model_kwargs)
        z, tuning, info = self.step(key, state.z, state.tuning, target, state.i < state.num_warmup)
        z = {name: jnp.asarray(z[name], state.z[name].dtype) for name in state.z}
        i = state.i + 1
        # the running mean starts anew after warm-up, as in NumPyro's HMC
        n = jnp.where(state.i < state.num_warmup, i, i - state.num_warmup)
        mean = state.mean_accept_prob + (info.accept_prob - state.mean_accept_prob) / n
        return SiteState(z, tuning, info, mean, i, state.num_warmup, rng_key)

    @staticmethod
    def ending(states: SiteState, num_warmup: int) -> SiteState:
        """The states of all chains with a warm-up of so many steps."""
        return states._replace(num_warmup=jnp.full_like(states.num_warmup, num_warmup))

    def wrap_model(self, wrapper: Callable[..., Any]) -> "SiteKernel":
        """A copy whose model is `wrapper(model)`."""
        kernel = copy.copy(self)
        kernel._model = wrapper(self._model)
        kernel._touched = frozenset()
        return kernel

    def postprocess_fn(self, model_args: Any, model_kwargs: Any) -> Callable[[Any], Any]:
        """Adds the model's deterministic sites to the values."""
        return with_deterministics(conditioned(self._model), model_args, model_kwargs)


def with_deterministics(model: Any, model_args: Any, model_kwargs: Any) -> Callable[[Values], Any]:
    """A function of values of all latents of a conditioned model that adds its deterministic sites."""
    kwargs = dict(model_kwargs or {})

    def values(z: Values) -> dict[str, jax.Array]:
        sites = trace(substitute(seed(model, random.key(0)), data=dict(z))).get_trace(*model_args, **kwargs)
        return {**z, **{k: s["value"] for k, s in sites.items() if s["type"] == "deterministic"}}

    return values
