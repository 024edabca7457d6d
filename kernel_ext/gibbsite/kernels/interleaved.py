"""Several kernels, one after another, for sites that they may share: k ⊗ k of AugurV2's schedules.

With a centred and a non-centred kernel for one hierarchy this is the interleaving of Yu and Meng ("To center
or not to center: that is not the question", 2011), with Hamiltonian kernels the iHMC of Gorinova, Moore and
Hoffman (2020): where one of the two gets stuck the other moves on.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.infer import HMC
from numpyro.infer.gibbs import conditioned, prototype_trace, with_conditioning
from numpyro.infer.mcmc import MCMCKernel

from gibbsite.errors import ScheduleError
from gibbsite.kernels.base import Constrained, angles_of, unconstrained
from gibbsite.kernels.composite import ends_early
from gibbsite.kernels.nuts.block import LearntNUTS

# how what the kernels tell of a step becomes one number
_TOLD: Mapping[str, Callable[[list[Any]], Any]] = {
    "num_steps": sum,
    "accept_prob": lambda found: sum(found) / len(found),
    "diverging": lambda found: jnp.any(jnp.stack(found), 0),
    "step_size": lambda found: found[-1],
}


class InterleavedState(NamedTuple):
    """Constrained values of all sites of the block, and the states of its kernels.

    A kernel's own values are those after its last step, which may be older than `z`.
    """

    z: dict[str, Any]
    inner: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        found = [getattr(s, name) for s in self.inner if hasattr(s, name)] if name in _TOLD else []
        if not found:
            raise AttributeError(name)
        return _TOLD[name](found)


class Interleaved(Constrained):
    """`parts`, pairs of a kernel and the names of the sites that it updates, one after another in every step.

    All are built on `model`. A part's kernel is given the values of the other sites, and its own as the parts
    before it left them. Each adapts, and learns in windows, by itself.
    """

    def __init__(self, model: Callable[..., Any], parts: Sequence[tuple[MCMCKernel, Sequence[str]]]):
        if not parts:
            raise ScheduleError("Interleave has no kernel")
        self._model = model
        # every kernel reads the others' sites as given, also where it stands outside of a composite
        self._parts: list[tuple[Any, tuple[str, ...]]] = [
            (k.wrap_model(conditioned), tuple(sites)) for k, sites in parts
        ]

    @property
    def parts(self) -> list[tuple[MCMCKernel, tuple[str, ...]]]:
        """The kernels, each with its sites."""
        return list(self._parts)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for _, sites in self._parts for n in sites))

    def init(
        self, rng_key: Any, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> InterleavedState:
        """Starts every part at `init_params`, constrained values of the block's sites, or a prior draw."""
        kwargs = dict(model_kwargs or {})
        key_trace, *keys = jax.random.split(rng_key, 1 + len(self._parts))
        values = dict(init_params or {})
        if not values:
            traced = prototype_trace(conditioned(self._model), key_trace, model_args, kwargs)
            values = {n: traced[n]["value"] for n in self._names}
        values = {n: jnp.asarray(values[n]) for n in self._names}
        inner = []
        for (kernel, sites), key in zip(self._parts, keys, strict=True):
            given = {n: values[n] for n in sites}
            around = self._around(kwargs, values, sites)
            if isinstance(kernel, HMC):
                given = unconstrained(kernel, model_args, around, given)
            inner.append(kernel.init(key, num_warmup, given, model_args, around))
        return InterleavedState(values, tuple(inner))

    @staticmethod
    def _around(kwargs: Mapping[str, Any], values: Mapping[str, Any], own: Sequence[str]) -> dict[str, Any]:
        return with_conditioning(dict(kwargs), {n: v for n, v in values.items() if n not in own})

    def sample(self, state: InterleavedState, model_args: Any, model_kwargs: Any) -> InterleavedState:
        """One step of every part."""
        kwargs, values, inner = dict(model_kwargs or {}), dict(state.z), list(state.inner)
        free: dict[str, Any] = {}  # unconstrained values, where a gradient kernel was the last to move a site
        for (kernel, sites), before in zip(self._parts, state.inner, strict=True):
            if isinstance(kernel, HMC):
                free.update(_free_of(kernel, before.z, sites))
            else:
                free = {n: v for n, v in free.items() if n not in sites}
        for i, (kernel, sites) in enumerate(self._parts):
            around = self._around(kwargs, values, sites)
            here = {n: values[n] for n in sites}
            if isinstance(kernel, HMC):
                unknown = {n: v for n, v in here.items() if n not in free}
                made = unconstrained(kernel, model_args, around, here) if unknown else {}
                here = {n: free.get(n, made.get(n)) for n in sites}
            moved = kernel.sample(put(kernel, inner[i], here, model_args, around), model_args, around)
            now = getattr(moved, kernel.sample_field)  # type: ignore[arg-type]
            found = kernel.get_constrain_fn(model_args, around)(now)
            values.update({n: jnp.asarray(found[n], values[n].dtype) for n in sites})
            free = {n: v for n, v in free.items() if n not in sites}
            free.update(_free_of(kernel, now, sites) if isinstance(kernel, HMC) else {})
            inner[i] = moved
        return InterleavedState(values, tuple(inner))

    def moved_to(
        self, state: InterleavedState, values: Mapping[str, Any], model_args: Any, model_kwargs: Any
    ) -> InterleavedState:
        """The state at other constrained values of the block's sites, in every part."""
        kwargs = dict(model_kwargs or {})
        here = {n: jnp.asarray(values[n], v.dtype) for n, v in state.z.items()}
        inner = []
        for (kernel, sites), own in zip(self._parts, state.inner, strict=True):
            given, around = {n: here[n] for n in sites}, self._around(kwargs, here, sites)
            if isinstance(kernel, HMC):
                given = unconstrained(kernel, model_args, around, given)
            inner.append(put(kernel, own, given, model_args, around))
        return InterleavedState(here, tuple(inner))

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """The ends of the windows of all parts that learn in windows."""
        learning = [k for k, _ in self._parts if hasattr(k, "window_ends")]
        return tuple(sorted({e for k in learning for e in k.window_ends(num_warmup)}))

    @property
    def ends_early(self) -> bool:
        """Whether all parts do."""
        return all(ends_early(k) for k, _ in self._parts)

    def ending(self, states: InterleavedState, num_warmup: int) -> InterleavedState:
        """Every part's."""
        pairs = zip(self._parts, states.inner, strict=True)
        return states._replace(inner=tuple(k.ending(s, num_warmup) for (k, _), s in pairs))  # type: ignore[attr-defined]

    def pool(
        self, states: InterleavedState, model_args: Any, model_kwargs: Any, siblings: Mapping[str, Any]
    ) -> InterleavedState:
        """Every part's, if it learns in windows."""
        inner = list(states.inner)
        for i, (kernel, sites) in enumerate(self._parts):
            if hasattr(kernel, "pool"):
                others = {n: v for n, v in states.z.items() if n not in sites}
                inner[i] = kernel.pool(inner[i], model_args, model_kwargs, {**siblings, **others})
        return states._replace(inner=tuple(inner))

    def wrap_model(self, wrapper: Callable[..., Any]) -> "Interleaved":
        """The same around a wrapped model."""
        kernel = copy.copy(self)
        kernel._model = wrapper(self._model)
        kernel._parts = [(k.wrap_model(wrapper), sites) for k, sites in self._parts]
        return kernel


def _free_of(kernel: Any, z: Mapping[str, Any], sites: Sequence[str]) -> dict[str, Any]:
    """The unconstrained values that every kernel of gradients takes; of angles some take others."""
    return {n: z[n] for n in sites if n not in angles_of(kernel)}


def put(kernel: Any, state: Any, here: Mapping[str, Any], args: Any, kwargs: Any) -> Any:
    """The state of a kernel at other values of its sites, with everything that it caches made anew."""
    if isinstance(kernel, LearntNUTS | Interleaved):
        return kernel.moved_to(state, here, args, kwargs)
    field = kernel.sample_field
    return kernel.refresh(
        state._replace(**{field: {n: here[n] for n in getattr(state, field)}}), args, kwargs
    )
