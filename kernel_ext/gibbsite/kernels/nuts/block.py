"""NUTS whose coordinates and metric are learnt, together with the other chains where the engine runs them."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from numpyro.infer import HMC
from numpyro.infer.gibbs import GIBBS_SITES_KWARG
from numpyro.util import is_prng_key

from gibbsite.conditional.draws.directions import turning
from gibbsite.conditional.draws.safe_bijectors import transform_to
from gibbsite.density import Density, build_density
from gibbsite.errors import OptionError
from gibbsite.kernels.base import with_deterministics
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.learnt.components import Place, crossed, mixtures
from gibbsite.kernels.learnt.coordinates import Form
from gibbsite.kernels.learnt.metric import MOST_RANK, SMALL, unit_metric
from gibbsite.kernels.learnt.power_transform import straight
from gibbsite.kernels.nuts import collectives as over_chains
from gibbsite.kernels.nuts.potential import Problem, problem
from gibbsite.kernels.nuts.state import NutsState, averages_after, first_state, pooled
from gibbsite.kernels.nuts.tree import chance, grown
from gibbsite.kernels.nuts.tuning import FIRST_TARGET, MOST_TARGET, as_vector, astray, unmoved
from gibbsite.kernels.nuts.windows import early_depth, ring_length, window_ends

CENTRING = ("auto", "as written", "centred", "non-centred")
_FIXED = {"centred": 1.0, "non-centred": 0.0}
METRIC = ("auto", "diagonal", "low rank")
_MOST_LOW_RANK = 512
_MOST_DEPTH = 20
_FIRST_STEP = 0.2
# beyond the numbers of the keys that a trajectory makes of the same one
_ACROSS = 2**31 - 1


class LearntNUTS(HMC):
    """The no-U-turn sampler (Hoffman and Gelman 2014; NumPyro's trees) in coordinates that warm-up learns.

    Sites whose location or scale read others of the block are centred, every element to a degree of its own;
    the metric is diagonal, or has some directions more; both come from draws and gradients at the end of
    fixed windows. Under Gibbsite's engine all chains learn together: at the end of a window from the draws of
    all, in every step from the mean of their acceptance probabilities (`pooled`). Alone, and as a block of
    any `numpyro.infer.Gibbs`, each chain learns for itself. A site whose prior is a mixture of normals or
    their like also steps between its components, by one more gradient (`learnt/components.py`).

    `model` is a NumPyro model; `density` hands in an analysis made before. `centring`: "auto", "as written",
    or "centred" and "non-centred" for all sites that "auto" would learn; `metric`: "auto", "diagonal" or "low
    rank". `step_size` is where its adaptation begins. `target_accept_prob` is .85 unless it is given; then
    windows of warm-up in which trajectories went astray raise it, to .95 at most. With `argument` it is read
    from the compiled program's inputs, where it is called so (NaN: not given): others need no other program.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        density: Density | None = None,
        centring: str = "auto",
        metric: str = "auto",
        pooled: bool = True,
        target_accept_prob: float | None = None,
        max_tree_depth: int = 10,
        step_size: float = _FIRST_STEP,
        adapt_step_size: bool = True,
        adapt_mass_matrix: bool = True,
        dense_mass: bool = False,
        argument: str | None = None,
    ):
        for name, value, choices in (("centring", centring, CENTRING), ("metric", metric, METRIC)):
            if value not in choices:
                raise OptionError(f"NUTS: {name} is {' or '.join(map(repr, choices))}; got {value!r}")
        self._raises_target = target_accept_prob is None
        target_accept_prob = FIRST_TARGET if target_accept_prob is None else target_accept_prob
        if not 0 < target_accept_prob < 1:
            raise OptionError(f"NUTS: target_accept_prob lies between 0 and 1; got {target_accept_prob!r}")
        if not 1 <= max_tree_depth <= _MOST_DEPTH:
            raise OptionError(
                f"NUTS: max_tree_depth lies between 1 and {_MOST_DEPTH} (a step takes up to 2**depth "
                f"gradients); got {max_tree_depth!r}"
            )
        if not 0 < step_size < float("inf"):
            raise OptionError(f"NUTS: step_size is a number above 0; got {step_size!r}")
        super().__init__(
            model,
            step_size=float(step_size),
            adapt_step_size=adapt_step_size,
            adapt_mass_matrix=adapt_mass_matrix,
            dense_mass=dense_mass,
            target_accept_prob=float(target_accept_prob),
        )
        self._max_tree_depth = int(max_tree_depth)
        self._density, self._traced = density, model
        self._centring, self._metric, self._pooled = centring, metric, pooled
        self._problem: Problem | None = None
        self._ends: tuple[int, ...] = ()
        self._argument = argument

    def wants_smaller_steps(self, states: NutsState) -> bool:
        """Whether the end of this window will raise the acceptance that the states of all chains aim at."""
        if not self._ends:
            return False
        host = states._replace(
            i=np.asarray(states.i), astray=np.asarray(states.astray), raises=np.asarray(states.raises)
        )
        below = np.asarray(states.target) < MOST_TARGET
        return bool(np.any(below & astray(host, np.asarray(self._ends), self._pooled)))

    @property
    def learns_centring(self) -> bool:
        """Whether degrees of centring are learnt in warm-up, and not given."""
        return self._centring == "auto"

    @property
    def angles(self) -> frozenset[str]:
        """The sites whose unconstrained value is the value itself, in any turn; of a model that is analysed
        at `init`, only after it."""
        if self._density is None:
            return frozenset()
        supports = {n: self._density.sites[n].support for n in self._density.latents}
        return frozenset(n for n, support in supports.items() if turning(support) is not None)

    @property
    def problem(self) -> Problem:
        """The block's density and coordinates; only after `init`."""
        assert self._problem is not None, "`init` must be called first"
        return self._problem

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple[Any, ...] = (),
        model_kwargs: Mapping[str, Any] | None = None,
    ) -> NutsState:
        """A state at `init_params`, unconstrained values by site, or at random ones between −2 and 2."""
        if not is_prng_key(rng_key):
            raise ValueError(
                "NUTS takes one random key here; for several chains use `chain_method=jax.vmap`, "
                '"parallel" or "sequential"'
            )
        kwargs = dict(model_kwargs or {})
        rng_key, key_trace, key_start = random.split(rng_key, 3)
        if self._density is None:
            bare = {k: v for k, v in kwargs.items() if k != GIBBS_SITES_KWARG}
            self._density = build_density(self._traced, tuple(model_args), bare)
        assert self._model is not None
        made = problem(self._model, self._density, self._centring, key_trace, model_args, kwargs)
        self._problem, c = made, made.coordinates
        # what `HMC.get_constrain_fn` reads
        self._inv_transforms = {p.name: transform_to(p.support) for p in c.parts}
        self._dynamic_support = False
        given = None if init_params is None else c.flat(getattr(init_params, "z", init_params))
        self._ends = self.window_ends(num_warmup)
        # halfway until something is known; as written where nothing will be
        lam = jnp.where(c.whole, 0.0, 0.5) if self._ends else jnp.asarray(c.written)
        if self._centring in _FIXED:
            lam = jnp.full(c.degrees, _FIXED[self._centring])
        around = made.around(model_args, kwargs)
        # a form as steps have it, so that their program of the gradient does here
        form = Form(lam, straight(len(c.bent_at)))
        v, energy, gradient = made.start(key_start, given, form, model_args, kwargs)
        scale = jnp.clip((jnp.abs(gradient) + 1e-10) ** -0.5, 1e-2, 1e2)
        # a slope may be undefined here and nowhere else, as long as siblings are not what data demand
        scale = jnp.where(jnp.isfinite(gradient), scale, 1.0)
        metric = unit_metric(scale if self._adapt_mass_matrix else jnp.ones_like(v), self._rank(c.size))
        row = 2 * c.size + as_vector(c, around, v.dtype).size
        # where nothing has come yet there is nothing to learn from
        ring = jnp.full((ring_length(num_warmup, row) if self._ends else 0, row), jnp.nan, v.dtype)
        start = (v, energy, gradient)
        aims = self._step_size, *self._target(kwargs)
        return first_state(c, around, start, lam, metric, ring, aims, num_warmup, rng_key)

    def _target(self, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The acceptance that is aimed at first, and whether warm-up may raise it."""
        asked = kwargs.get(INPUTS_KWARG, {}).get("options", {}).get(self._argument)
        if asked is None:
            return self._target_accept_prob, self._raises_target
        return jnp.where(jnp.isnan(asked), FIRST_TARGET, asked), jnp.isnan(asked)

    def _rank(self, size: int) -> int:
        if not self._adapt_mass_matrix or self._metric == "diagonal":
            return 0
        if self._dense_mass or size <= SMALL:
            return size
        return min(MOST_RANK, size) if self._metric == "low rank" or size <= _MOST_LOW_RANK else 0

    def sample(self, state: NutsState, model_args: Any, model_kwargs: Any) -> NutsState:
        """One transition; adapts while fewer than `num_warmup` steps were taken."""
        kwargs, c = dict(model_kwargs or {}), self.problem.coordinates
        lam, metric = state.tuning.form, state.tuning.metric
        gradient_of = self.problem.value_and_grad(lam, model_args, kwargs)
        rng_key, found = chance(state.rng_key, c.size, self._max_tree_depth, state.u.dtype)

        def in_metric(u: jax.Array) -> tuple[jax.Array, jax.Array]:
            energy, gradient = gradient_of(u)
            return energy, metric.transposed(gradient)

        tree = grown(
            lambda w: in_metric(state.u + metric.apply(w)),
            state.potential_energy,
            state.w_grad,
            state.step_size,
            found,
            max_depth=early_depth(state.i, state.num_warmup, self._max_tree_depth),
        )
        around = self.problem.around(model_args, kwargs)
        end = tree.proposal
        at = Place(state.u + metric.apply(end.w), end.potential_energy, end.gradient)
        if among := mixtures(c):
            at = crossed(among, random.fold_in(rng_key, _ACROSS), at, in_metric, around)
        accept = jnp.nan_to_num(tree.accept_prob)
        i = state.i + 1
        n = jnp.where(state.i < state.num_warmup, i, i - state.num_warmup)
        u = c.in_one_turn(at.u)
        moved = state._replace(
            i=i,
            u=u,
            z=c.by_site(c.written_from(u, lam, around)[0]),
            w_grad=at.gradient,
            potential_energy=at.energy,
            energy=tree.proposal.energy,
            num_steps=tree.num_steps,
            accept_prob=accept,
            mean_accept_prob=state.mean_accept_prob + (accept - state.mean_accept_prob) / n,
            diverging=tree.diverging,
            astray=state.astray + tree.diverging,
            rng_key=rng_key,
        )
        return self._adapted(moved, over_chains.same(state.i), model_args, kwargs)

    def _adapted(self, state: NutsState, steps: Any, args: Any, kwargs: Any) -> NutsState:
        """After the step that came after `steps` others: what it teaches, while warm-up lasts."""
        around = self.problem.around(args, kwargs)

        def learn(s: NutsState) -> Any:
            ring, averages, step_size = s.ring, s.averages, s.step_size
            if self._ends:
                slope = -s.tuning.metric.untransposed(s.w_grad)
                v, g = unmoved(self.problem.coordinates, s.u, slope, s.tuning.form, around)
                row = jnp.concatenate([v, g, as_vector(self.problem.coordinates, around, v.dtype)])
                ring = lax.dynamic_update_index_in_dim(ring, row, steps % ring.shape[0], 0)
            if self._adapt_step_size:
                accept = over_chains.mean(s.accept_prob) if self._pooled else s.accept_prob
                averages = averages_after(accept, s.target, averages)
                step_size = jnp.exp(jnp.where(s.i >= s.num_warmup, averages[1], averages[0]))
            return ring, averages, step_size

        warming = steps < over_chains.same(state.num_warmup)
        held = state._replace(rng_key=None)
        ring, averages, step_size = lax.cond(
            warming, learn, lambda s: (s.ring, s.averages, s.step_size), held
        )
        state = state._replace(ring=ring, averages=averages, step_size=step_size)
        if not self._ends or over_chains.bound():
            return state

        # nobody else cuts this warm-up into windows: the chain learns by itself
        def alone(s: NutsState) -> Any:
            one = jax.tree.map(lambda a: a[None], s._replace(rng_key=None))
            siblings = {n: jnp.asarray(a)[None] for n, a in kwargs.get(GIBBS_SITES_KWARG, {}).items()}
            found = self.pool(one, args, kwargs, siblings)
            return jax.tree.map(lambda a: a[0], found)

        ended = jnp.any(steps + 1 == jnp.asarray(self._ends))
        found = lax.cond(ended, alone, lambda s: s, state._replace(rng_key=None))
        return found._replace(rng_key=state.rng_key)

    def refresh(self, state: NutsState, model_args: Any, model_kwargs: Any) -> NutsState:
        """The same values where other blocks may have moved: coordinates, potential and gradient anew."""
        kwargs, c = dict(model_kwargs or {}), self.problem.coordinates
        lam, u = state.tuning.form, state.u
        if c.siblings:  # elsewhere u stays: there and back again is not exact where |m| is far above s
            u = c.learnt_from(c.flat(state.z), lam, self.problem.around(model_args, kwargs))
        energy, gradient = self.problem.value_and_grad(lam, model_args, kwargs)(u)
        return state._replace(u=u, potential_energy=energy, w_grad=state.tuning.metric.transposed(gradient))

    def moved_to(
        self, state: NutsState, z: Mapping[str, Any], model_args: Any, model_kwargs: Any
    ) -> NutsState:
        """The state at other unconstrained values `z` by site."""
        kwargs, c, lam = dict(model_kwargs or {}), self.problem.coordinates, state.tuning.form
        u = c.learnt_from(c.flat(z), lam, self.problem.around(model_args, kwargs))
        energy, gradient = self.problem.value_and_grad(lam, model_args, kwargs)(u)
        w_grad = state.tuning.metric.transposed(gradient)
        return state._replace(z=dict(z), u=u, potential_energy=energy, w_grad=w_grad)

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """After how many steps of a warm-up `pool` is to be called."""
        return window_ends(num_warmup) if self._adapt_mass_matrix else ()

    @staticmethod
    def ending(states: NutsState, num_warmup: int) -> NutsState:
        """The states of all chains with a warm-up of so many steps."""
        return states._replace(num_warmup=jnp.full_like(states.num_warmup, num_warmup))

    def pool(
        self, states: NutsState, model_args: Any, model_kwargs: Any, siblings: Mapping[str, Any]
    ) -> NutsState:
        """The states of all chains, a leading axis, with a tuning learnt anew from the draws that they hold.

        `siblings` are the other blocks' constrained values by site, `[chain, …]`.
        """
        if not self._ends:
            return states
        return pooled(
            self.problem,
            states,
            model_args,
            dict(model_kwargs or {}),
            dict(siblings),
            self._ends,
            self._pooled,
            self.learns_centring,
        )

    def wrap_model(self, wrapper: Callable[..., Any]) -> "LearntNUTS":
        """A copy around the wrapped model; the analysis stays that of the bare one."""
        kernel = cast(LearntNUTS, super().wrap_model(wrapper))
        kernel._problem = None
        return kernel

    def postprocess_fn(self, model_args: Any, model_kwargs: Any) -> Callable[[Any], Any]:
        """Constrained values, and the model's deterministic sites."""
        constrain = self.get_constrain_fn(model_args, model_kwargs)
        whole = with_deterministics(self.problem.model, model_args, model_kwargs)
        return lambda z: whole(constrain(z))

    def get_potential_fn(self, model_args: Any = (), model_kwargs: Any = None) -> Callable[[Any], Any]:
        """The potential of unconstrained values by site, as the model is written."""
        c, kwargs = self.problem.coordinates, dict(model_kwargs or {})
        lam = jnp.asarray(c.written)
        potential, around = (
            self.problem.potential(lam, model_args, kwargs),
            self.problem.around(model_args, kwargs),
        )
        return lambda z: potential(c.learnt_from(c.flat(z), lam, around))
