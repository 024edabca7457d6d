"""A kernel on a marginal: sites are summed or integrated out of its target and redrawn right after every
step.

The redraw belongs to the step: a sweep that updates anything else in between would leave another distribution
invariant (van Dyk and Park 2008, "Partially collapsed Gibbs samplers").
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro
from numpyro.infer import HMC
from numpyro.infer.gibbs import GIBBS_SITES_KWARG
from numpyro.infer.mcmc import MCMCKernel

from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density, Site
from gibbsite.elimination import Marginal
from gibbsite.kernels.base import Constrained, unconstrained
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.composite import Around
from gibbsite.kernels.grouped import Flat
from gibbsite.kernels.learnt.residuals import known_distances

_NEAR = "near"
"""Among a program's inputs, the values that eliminated sites had when a step began."""


class EliminatedState(NamedTuple):
    """Constrained values of all sites of the block, the state of the inner kernel, and the key of the redraw.

    What else is asked of it (energies, step sizes, divergences) is the inner kernel's.
    """

    z: dict[str, Any]
    inner: Any
    rng_key: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)


@dataclass(frozen=True, eq=False)
class MarginalModel:
    """What a kernel's row asks of a model, where some sites are eliminated from it."""

    name: str
    density: Density
    marginal: Marginal
    inputs: Mapping[str, Any]
    summed_out: tuple[str, ...]

    @property
    def sites(self) -> Mapping[str, Site]:
        """The sites that are left."""
        return {n: s for n, s in self.density.sites.items() if n not in self.summed_out}

    @property
    def runtime_model(self) -> Callable[..., None]:
        """A NumPyro model with the latents that are left, and their marginal log density as one factor."""
        density, marginal = self.density, self.marginal
        left = [n for n in density.latents if n not in self.summed_out]
        first = {n: _any_value(density, n) for n in left if density.sites[n].discrete}

        def model(**kwargs: Any) -> None:
            latents = {n: numpyro.sample(n, Flat(density.sites[n], first.get(n))) for n in left}
            inputs = kwargs[INPUTS_KWARG]
            latents.update(inputs.get(_NEAR, {}))
            found = marginal.logdensity_at(latents, inputs["data"], known_distances())
            numpyro.factor("log marginal", found)

        model.__name__ = self.name
        return model


def _any_value(density: Density, name: str) -> Any:
    """A value of a discrete site, to trace with."""
    support = finite_support(density, name)
    if support is not None:
        return support.values[0]
    site = density.sites[name]
    assert site.support is not None
    return site.support.feasible_like(np.zeros(site.shape, site.dtype))


class Eliminated(Around, Constrained):
    """`inner`, a kernel on a `MarginalModel`, followed by an exact joint draw of the sites that are
    eliminated.

    `model` is the whole model, which the other blocks of a composite share.
    """

    def __init__(self, model: Callable[..., Any], inner: MCMCKernel, marginal: Marginal):
        self._model, self._inner, self._marginal = model, inner, marginal

    @property
    def inner(self) -> MCMCKernel:
        """The kernel on the marginal."""
        return self._inner

    @property
    def eliminated(self) -> tuple[str, ...]:
        """The sites that are drawn after it."""
        return self._marginal.sites

    def init(
        self, rng_key: Any, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> EliminatedState:
        """Starts the inner kernel; `init_params` are constrained values of the block's sites."""
        kwargs = dict(model_kwargs or {})
        key_inner, key_draw, key_next = jax.random.split(rng_key, 3)
        given = {n: v for n, v in (init_params or {}).items() if n not in self._marginal.sites}
        if isinstance(self._inner, HMC) and given:
            given = unconstrained(self._inner, model_args, kwargs, given)
        inner = self._inner.init(key_inner, num_warmup, given or None, model_args, kwargs)
        return self._redrawn(inner, key_draw, key_next, model_args, kwargs)

    def _redrawn(
        self, inner: Any, key: Any, key_next: Any, model_args: Any, kwargs: Mapping[str, Any]
    ) -> EliminatedState:
        own = getattr(inner, self._inner.sample_field)  # type: ignore[arg-type]
        values = dict(self._inner.get_constrain_fn(model_args, dict(kwargs))(own))
        known = {n: v for n, v in values.items() if n in self._marginal.others}
        known.update(kwargs.get(GIBBS_SITES_KWARG, {}))
        known.update(kwargs[INPUTS_KWARG].get(_NEAR, {}))
        drawn = self._marginal.draw_at(key, known, kwargs[INPUTS_KWARG]["data"])
        kept = {n: v for n, v in values.items() if n in own}
        return EliminatedState({**kept, **drawn}, inner, key_next)

    def sample(self, state: EliminatedState, model_args: Any, model_kwargs: Any) -> EliminatedState:
        """One step of the inner kernel, then the joint draw."""
        kwargs = self._from(state, model_kwargs)
        key, key_next = jax.random.split(state.rng_key)
        inner = self._inner.sample(state.inner, model_args, kwargs)
        return self._redrawn(inner, key, key_next, model_args, kwargs)

    def _from(self, state: EliminatedState, model_kwargs: Any) -> dict[str, Any]:
        kwargs = dict(model_kwargs or {})
        if self._marginal.near:
            near = {n: state.z[n] for n in self._marginal.near}
            kwargs[INPUTS_KWARG] = {**kwargs[INPUTS_KWARG], _NEAR: near}
        return kwargs

    def refresh(self, state: EliminatedState, model_args: Any, model_kwargs: Any) -> EliminatedState:
        """The inner kernel's; the draw caches nothing."""
        inner = self._inner.refresh(state.inner, model_args, self._from(state, model_kwargs))
        return state._replace(inner=inner)

    def _own(self, state: EliminatedState) -> Any:
        return state.inner

    def _with(self, state: EliminatedState, own: Any) -> EliminatedState:
        return state._replace(inner=own)

    def wrap_model(self, wrapper: Callable[..., Any]) -> "Eliminated":
        """The same around wrapped models, the whole one and the marginal one."""
        kernel = copy.copy(self)
        kernel._model, kernel._inner = wrapper(self._model), self._inner.wrap_model(wrapper)
        return kernel
