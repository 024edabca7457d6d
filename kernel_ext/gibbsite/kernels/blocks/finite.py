"""Gibbs updates of discrete sites as a NumPyro kernel."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.infer.gibbs import GIBBS_SITES_KWARG

from gibbsite.conditional import conditional_of
from gibbsite.conditional.finite.window import window_draw
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.group import updated_together
from gibbsite.conditional.update import Update
from gibbsite.density import Density, build_density
from gibbsite.density.model.arguments import split_arguments
from gibbsite.elimination import joint_marginal
from gibbsite.errors import ScheduleError
from gibbsite.kernels.base import Constrained

INPUTS_KWARG = "_gibbsite_inputs"
"""Model keyword through which compiled runs pass data arrays as arguments."""


def given_to(
    density: Density, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Any]:
    """What a model's arguments give a block: values of the sites of others, and the data of `density`."""
    own = dict(kwargs or {})
    others = dict(own.pop(GIBBS_SITES_KWARG, {}))
    if INPUTS_KWARG in own:
        return others, own[INPUTS_KWARG]["data"]
    return others, split_arguments(args, own).arrays if density.data_vars else ()


class FiniteGibbsState(NamedTuple):
    """Current values of the block's sites, and the random key for the next step."""

    z: dict[str, Any]
    rng_key: Any


class GaussianGibbsState(NamedTuple):
    """The same of a block with joint Gaussian draws, and what rounding left of the last, in standard
    deviations: see `gibbsite.conditional.linear.joint.Solved`."""

    z: dict[str, Any]
    rng_key: Any
    rounding: Any


State = FiniteGibbsState | GaussianGibbsState


def _known(density: Density, values: Mapping[str, Any]) -> dict[str, Any]:
    packed = density.packed(values)
    return {n: v for n, v in packed.items() if n in density.latent_vars}


class Exact(Constrained):
    """One `Update` after another: what blocks of exact draws have in common. Abstract: `_found` gives the
    updates of a block's sites.

    `model` is a NumPyro model function. `density` may hand in an analysis made before; without it the model
    is traced in `init`, from the arguments given there. Sites `s[0]`, …, `s[n-1]` of a Python loop that are
    all in one block are updated as one array.
    """

    def __init__(self, model: Callable, density: Density | None = None):
        self._updates: list[Update] = []
        self._model = model
        self._traced = model
        self._density = density
        self._units: dict[str, tuple[str, ...]] = {}

    @abstractmethod
    def _found(self, density: Density) -> list[Update]:
        """The updates of the sites in `_units`, or `ScheduleError` with what stands in the way."""

    def init(
        self, rng_key: Any, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> State:
        """Initial state; `init_params` are constrained values of the block's sites.

        Raises `ScheduleError` for sites without such updates.
        """
        kwargs = dict(model_kwargs or {})
        given = set(kwargs.pop(GIBBS_SITES_KWARG, {}))
        density = self._density
        if density is None:
            density = self._density = build_density(self._traced, tuple(model_args), kwargs)
        names = list(init_params) if init_params else [n for n in density.latents if n not in given]
        self._units = updated_together(density, names)
        self._updates = self._found(density)
        given_values = init_params or {}
        starts: dict[str, Any] = {}
        for unit, members in self._units.items():
            start = self._start(unit)
            starts.update(dict.fromkeys(members, start if unit in members else start[0]))
        z = {n: jnp.asarray(given_values.get(n, starts[n]), density.sites[n].dtype) for n in names}
        if any(u.measured for u in self._updates):
            return GaussianGibbsState(z, rng_key, jnp.zeros(()))
        return FiniteGibbsState(z, rng_key)

    def _start(self, unit: str) -> Any:
        """A value that a unit may have."""
        site = next(u.density.sites[unit] for u in self._updates if unit in u.density.sites)
        return site.support.feasible_like(jnp.zeros(site.shape, site.dtype))  # type: ignore[union-attr]

    def sample(self, state: FiniteGibbsState, model_args: Any, model_kwargs: Any) -> State:
        """One update of every site of the block, in the order of `state.z`."""
        assert self._density is not None
        others, data = given_to(self._density, tuple(model_args), model_kwargs)
        latents = {**others, **state.z}
        key, *keys = jax.random.split(state.rng_key, 1 + len(self._units))
        z, rounding = dict(state.z), []
        for update, k in zip(self._updates, keys, strict=False):
            values, lost = update.drawn(k, _known(update.density, {**latents, **z}), data)
            rounding += [lost] if update.measured else []
            for name, value in values.items():
                members = self._units.get(name, (name,))
                z.update({m: value if m == name else value[i] for i, m in enumerate(members)})
        if not isinstance(state, GaussianGibbsState):
            return FiniteGibbsState(z, key)
        return GaussianGibbsState(z, key, jnp.max(jnp.stack(rounding)).astype(state.rounding.dtype))

    @staticmethod
    def ending(states: FiniteGibbsState, num_warmup: int) -> State:
        """Nothing is adapted: a warm-up may end at any step."""
        return states

    def wrap_model(self, wrapper: Callable) -> "Exact":
        """The same kernel over a wrapped model; the analysis stays that of the bare one."""
        kernel = copy.copy(self)
        kernel._model = wrapper(self._model)
        kernel._updates = []
        return kernel


def conditionals(kernel: Exact, density: Density, kinds: tuple[str, ...]) -> dict[str, Any]:
    """The conditionals of a block's units; `ScheduleError` for one that is of none of the `kinds`."""
    found = {unit: conditional_of(density, unit) for unit in kernel._units}
    for unit, conditional in found.items():
        if conditional.kind not in kinds:
            raise ScheduleError(f"{type(kernel).__name__} cannot update {unit!r}: {conditional.reason}")
    return found


class FiniteGibbs(Exact):
    """Draw discrete sites with finite support from their full conditionals, whole sites at a time.

    Works on any NumPyro model, on its own where all latents are discrete, or as a block:

        Gibbs([(FiniteGibbs(model), ["z"]), (NUTS(model), None)])

    Several sites in one block are drawn jointly where their tables are small enough (`gibbsite.elimination`),
    else in turn; `joint` True insists, also for one site whose elements are coupled, False forbids.
    Independent elements are drawn in one pass, first-order chains by forward filtering and backward sampling,
    other coupled elements in a sweep.
    """

    def __init__(self, model: Callable, density: Density | None = None, joint: bool | None = None):
        super().__init__(model, density)
        self._joint_wanted = joint

    def _found(self, density: Density) -> list[Update]:
        alone = [*conditionals(self, density, ("finite", "chain")).values()]
        if self._joint_wanted is False or (len(alone) < 2 and not self._joint_wanted):
            return alone
        names = [m for members in self._units.values() for m in members]
        found = joint_marginal(density, names, insist=bool(self._joint_wanted))
        if not isinstance(found, str):
            return [found]
        if self._joint_wanted:
            raise ScheduleError(f"{' and '.join(self._units)} cannot be drawn jointly: {found}")
        return alone

    def _start(self, unit: str) -> Any:
        assert self._density is not None
        c: Any = conditional_of(self._density, unit)
        return jnp.broadcast_to(jnp.asarray(c.support[0]), c.structure.elements + c.support.shape[1:])


class WindowGibbs(Exact):
    """Draw integer sites of infinite support (Poisson, geometric, negative binomial) from tables over windows
    placed at random around their values: exact, nothing is cut off.

        Gibbs([(WindowGibbs(model), ["k"]), (NUTS(model), None)])

    Elements that are independent, or that colours keep apart, are drawn at once; those that meet in sums go
    one after another. Other sites are refused in `init`, with what stands in the way.
    """

    def _found(self, density: Density) -> list[Update]:
        out: list[Update] = []
        for unit in self._units:
            try:
                out.append(window_draw(density, unit))
            except Refused as why:
                raise ScheduleError(f"Window cannot update {unit!r}: {why}") from why
        return out
