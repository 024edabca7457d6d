"""Gibbs updates of discrete sites as a NumPyro kernel."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.infer.gibbs import GIBBS_SITES_KWARG
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import identity

from gibbsite.conditional import conditional_of
from gibbsite.conditional.finite.window import window_draw
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.group import updated_together
from gibbsite.density import Density, build_density
from gibbsite.density.model.arguments import split_arguments
from gibbsite.elimination import Marginal, joint_marginal
from gibbsite.errors import ScheduleError

INPUTS_KWARG = "_gibbsite_inputs"
"""Model keyword through which compiled runs pass data arrays as arguments."""


def data_of(density: Density, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The data arrays of `density` among a model's arguments."""
    if INPUTS_KWARG in kwargs:
        return kwargs[INPUTS_KWARG]["data"]
    return split_arguments(args, kwargs).arrays if density.data_vars else ()


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


class Step(NamedTuple):
    """One draw: `draw(key, latents, data)` gives values by unit from latent values of `density`; where it has
    `told`, that gives these and what rounding left of them."""

    density: Density
    draw: Callable[[Any, Mapping[str, Any], Any], dict[str, Any]]
    told: Callable[[Any, Mapping[str, Any], Any], tuple[dict[str, Any], Any]] | None = None


def one_site(unit: str, conditional: Any) -> Step:
    """The draw of one unit from its own conditional."""

    def draw(key: Any, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        return {unit: conditional.update(key, latents, data)}

    if not hasattr(conditional, "told"):
        return Step(conditional.density, draw)

    def told(key: Any, latents: Mapping[str, Any], data: Any) -> tuple[dict[str, Any], Any]:
        value, rounding = conditional.told(key, latents, data)
        return {unit: value}, rounding

    return Step(conditional.density, draw, told)


def jointly(marginal: Marginal, units: Mapping[str, tuple[str, ...]]) -> Step:
    """The exact joint draw of several units."""

    def draw(key: Any, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        drawn = marginal.draw_at(key, latents, data)
        return {
            unit: drawn[unit] if unit in members else jnp.stack([drawn[m] for m in members])
            for unit, members in units.items()
        }

    return Step(marginal.density, draw)


def _known(density: Density, values: Mapping[str, Any]) -> dict[str, Any]:
    packed = density.packed(values)
    return {n: v for n, v in packed.items() if n in density.latent_vars}


class FiniteGibbs(MCMCKernel):
    """Draw discrete sites with finite support from their full conditionals, whole sites at a time.

    Works on any NumPyro model, on its own where all latents are discrete, or as a block:

        Gibbs([(FiniteGibbs(model), ["z"]), (NUTS(model), None)])

    Several sites in one block are drawn jointly where their tables are small enough (`gibbsite.elimination`),
    else in turn; `joint` True insists, also for one site whose elements are coupled, False forbids.
    Independent elements are drawn in one pass, first-order chains by forward filtering and backward sampling,
    other coupled elements in a sweep. Sites `s[0]`, …, `s[n-1]` of a Python loop that are all in one block
    are updated as one array.

    `model` is a NumPyro model function. `density` may hand in an analysis made before; without it the model
    is traced in `init`, from the arguments given there.
    """

    sample_field = "z"  # type: ignore[assignment]
    _kinds: tuple[str, ...] = ("finite", "chain")

    def __init__(self, model: Callable, density: Density | None = None, joint: bool | None = None):
        self._joint_wanted = joint
        self._steps: list[Step] = []
        self._model = model
        self._traced = model
        self._density = density
        self._conditionals: dict[str, Any] = {}
        self._units: dict[str, tuple[str, ...]] = {}

    @property
    def model(self) -> Callable:
        """The model function."""
        return self._model

    def init(
        self, rng_key: Any, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> State:
        """Initial state; `init_params` are constrained values of the block's sites.

        Raises `ScheduleError` for a site that has no finite conditional.
        """
        kwargs = dict(model_kwargs or {})
        given = set(kwargs.pop(GIBBS_SITES_KWARG, {}))
        density = self._density
        if density is None:
            density = self._density = build_density(self._traced, tuple(model_args), kwargs)
        names = list(init_params) if init_params else [n for n in density.latents if n not in given]
        self._units = updated_together(density, names)
        self._accept(density)
        self._steps = self._steps_of(density)
        given_values = init_params or {}
        starts: dict[str, Any] = {}
        for unit, members in self._units.items():
            start = self._start(unit)
            starts.update(dict.fromkeys(members, start if unit in members else start[0]))
        z = {n: jnp.asarray(given_values.get(n, starts[n]), density.sites[n].dtype) for n in names}
        if any(s.told is not None for s in self._steps):
            return GaussianGibbsState(z, rng_key, jnp.zeros(()))
        return FiniteGibbsState(z, rng_key)

    def _accept(self, density: Density) -> None:
        """Derives what each unit is drawn from, or raises."""
        for name in self._units:
            if name not in self._conditionals:
                conditional = conditional_of(density, name)
                if conditional.kind not in self._kinds:
                    raise ScheduleError(f"{type(self).__name__} cannot update {name!r}: {conditional.reason}")
                self._conditionals[name] = conditional

    def _steps_of(self, density: Density) -> list[Step]:
        """The draws of one update: one for all units where they are drawn jointly, else one for each."""
        alone = [one_site(unit, self._conditionals[unit]) for unit in self._units]
        if self._joint_wanted is False or (len(self._units) < 2 and not self._joint_wanted):
            return alone
        names = [m for members in self._units.values() for m in members]
        found = joint_marginal(density, names, insist=bool(self._joint_wanted))
        if not isinstance(found, str):
            return [jointly(found, self._units)]
        if self._joint_wanted:
            raise ScheduleError(f"{' and '.join(self._units)} cannot be drawn jointly: {found}")
        return alone

    def _start(self, name: str) -> Any:
        c = self._conditionals[name]
        shape = c.structure.elements + c.support.shape[1:]
        return jnp.broadcast_to(jnp.asarray(c.support[0]), shape)

    def sample(self, state: FiniteGibbsState, model_args: Any, model_kwargs: Any) -> State:
        """One update of every site of the block, in the order of `state.z`."""
        kwargs = dict(model_kwargs or {})
        latents = {**kwargs.pop(GIBBS_SITES_KWARG, {}), **state.z}
        assert self._density is not None
        data = data_of(self._density, tuple(model_args), kwargs)
        key, *keys = jax.random.split(state.rng_key, 1 + len(self._units))
        z, rounding = dict(state.z), []
        for step, k in zip(self._steps, keys, strict=False):
            known = _known(step.density, {**latents, **z})
            if step.told is None:
                found = step.draw(k, known, data)
            else:
                found, lost = step.told(k, known, data)
                rounding.append(lost)
            for unit, drawn in found.items():
                z.update(self._unpacked(unit, drawn))
        if not isinstance(state, GaussianGibbsState):
            return FiniteGibbsState(z, key)
        return GaussianGibbsState(z, key, jnp.max(jnp.stack(rounding)).astype(state.rounding.dtype))

    def _unpacked(self, unit: str, drawn: Any) -> dict[str, Any]:
        members = self._units[unit]
        return {m: drawn if unit in members else drawn[i] for i, m in enumerate(members)}

    def refresh(self, state: FiniteGibbsState, model_args: Any, model_kwargs: Any) -> State:
        """Nothing is cached that depends on other sites."""
        return state

    @staticmethod
    def ending(states: FiniteGibbsState, num_warmup: int) -> State:
        """Nothing is adapted: a warm-up may end at any step."""
        return states

    def wrap_model(self, wrapper: Callable) -> "FiniteGibbs":
        """The same kernel over a wrapped model; the analysis stays that of the bare one."""
        kernel = copy.copy(self)
        kernel._model = wrapper(self._model)
        kernel._conditionals, kernel._steps = {}, []
        return kernel

    def get_constrain_fn(self, model_args: Any, model_kwargs: Any) -> Callable:
        """Values are already constrained."""
        return identity


class WindowGibbs(FiniteGibbs):
    """Draw integer sites of infinite support (Poisson, geometric, negative binomial) from tables over windows
    placed at random around their values: exact, nothing is cut off.

        Gibbs([(WindowGibbs(model), ["k"]), (NUTS(model), None)])

    Elements that are independent, or that colours keep apart, are drawn at once. Other sites are refused in
    `init`, with what stands in the way.
    """

    def _accept(self, density: Density) -> None:
        """Nothing is asked of the sites but what `_steps_of` asks."""

    def _steps_of(self, density: Density) -> list[Step]:
        steps = []
        for unit in self._units:
            try:
                steps.append(one_site(unit, window_draw(density, unit)))
            except Refused as why:
                raise ScheduleError(f"Window cannot update {unit!r}: {why}") from why
        return steps

    def _start(self, name: str) -> Any:
        site = self._steps[list(self._units).index(name)].density.sites[name]
        return site.support.feasible_like(jnp.zeros(site.shape, site.dtype))
