"""One structure: the static model of one way, its own sweep, and what a chain does that enters or leaves."""

import functools
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import random
from numpyro import handlers
from numpyro.distributions import MaskedDistribution, Normal
from numpyro.primitives import Messenger

from gibbsite.conditional.reads.support import listed_values
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import is_factor, log_probs, run_model
from gibbsite.elimination import Marginal, eliminable
from gibbsite.errors import DataError, ModelError
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.plans.schedule.schedule import Schedule
from gibbsite.programs.jaxpr.compiling import once
from gibbsite.sampling.engine.initial import Asked as Starts
from gibbsite.sampling.engine.initial import first_values
from gibbsite.structure.tuned import WARMUP, all_frozen, diverging, learns, placed_all
from gibbsite.structure.ways import Way, named
from gibbsite.validation.data import check_support

Values = dict[str, Any]
NOTHING = "nothing is drawn"
_TRIES = 100
"""Draws from the prior among which one is looked for that the data allow."""


@dataclass(frozen=True)
class Place:
    """What a latent site is in one structure: its shape, of which the last `event_dim` axes are one element,
    the kind of its support, in words, and how many values that lists (0: none). Elements are shared by sites
    of one kind."""

    shape: tuple[int, ...]
    dtype: Any
    event_dim: int
    kind: str
    values: int = 0

    @property
    def batch(self) -> tuple[int, ...]:
        """The axes along which elements are shared with other structures."""
        return self.shape[: len(self.shape) - self.event_dim]

    def like(self, other: "Place") -> bool:
        """Whether an element of one can be an element of the other."""
        events = self.shape[len(self.batch) :], other.shape[len(other.batch) :]
        ranks = len(self.shape), len(other.shape)
        return events[0] == events[1] and ranks[0] == ranks[1] and self.kind == other.kind


def _levels(marginal: Marginal, values: Values) -> tuple[Any, Any]:
    """The log density without some sites at values of all, and what it leaves out."""
    at = {n: v for n, v in values.items() if n not in marginal.sites}
    level = marginal.logdensity(at)
    return level, marginal.logdensity(at, constants=True) - level


class _Entering(Messenger):
    """Runs a model forward: of the sites in `left` elements that are not kept are drawn from their priors
    where `draw` says so; notes the log density of those elements."""

    def __init__(
        self, fn: Any, values: Values, left: Mapping[str, Place], kept: Mapping[str, Any], draw: Any
    ):
        super().__init__(fn)
        self.now, self._left, self._kept, self._draw = dict(values), left, kept, draw
        self.total: Any = jnp.zeros(())

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["is_observed"]:
            return
        name = msg["name"]
        if name not in self._left:
            msg["value"] = self.now[name]
            return
        fn, place = msg["fn"], self._left[name]
        while isinstance(fn, MaskedDistribution):
            fn = fn.base_dist
        try:
            drawn = fn.sample(msg["kwargs"]["rng_key"], tuple(msg["kwargs"].get("sample_shape", ())))
        except NotImplementedError as problem:
            raise ModelError(
                f"the site {name!r} cannot be drawn from its prior ({type(fn).__name__}), which a chain does "
                f"that enters a structure: give it a proper prior"
            ) from problem
        kept = self._kept[name]
        whole = kept.reshape(kept.shape + (1,) * place.event_dim)
        value = jnp.where(whole | ~self._draw, self.now[name], jnp.asarray(drawn, place.dtype))
        msg["value"] = self.now[name] = value
        self.total += jnp.sum(jnp.where(kept, 0.0, fn.log_prob(value)))


class Straight:
    """One structure of a model: `model` is the static one of its way, None where nothing is left to draw.

    `gone` are the sites that moves between structures sum or integrate out: their new values are drawn from
    their exact conditional, and no ratio knows of them. The others, `left`, keep what they have where the
    other structure has it too, and are drawn from their priors where it has not. Discrete sites that are
    `growing` from structure to structure have tables that grow with the power of that: they are left where
    continuous sites can be integrated out, in all of these structures alike.
    """

    def __init__(
        self,
        way: Way,
        fn: Callable,
        args: tuple,
        kwargs: Mapping[str, Any],
        make: Callable,
        growing: AbstractSet[str] = frozenset(),
    ):
        self.way, self._fn, self._args, self._kwargs = way, fn, args, dict(kwargs)
        self._make = make
        self.model: Any = make(fn) if self._draws_anything() else None
        self.places: dict[str, Place] = {}
        self.marginal: Marginal | None = None
        self.gone: tuple[str, ...] = ()
        self._allowed = True
        if self.model is None:
            return
        density = self.model.density
        for name in density.latents:
            site = density.sites[name]
            kind = type(site.support).__name__ if site.discrete else str(site.support)
            values = len(listed_values(density, name))
            self.places[name] = Place(site.shape, np.dtype(site.dtype), len(site.event_shape), kind, values)
        try:  # the log density does not look at fixed supports of data
            check_support(density)
        except DataError:
            self._allowed = False
        self.marginal, self.gone = self._summed(growing)
        loops = [n for n in self.left if density.sites[n].in_scan]
        if loops:
            raise ModelError(
                f"the site {loops[0]!r} is drawn inside of NumPyro's `scan`, and cannot be summed out of "
                f"the structure {named(way)}: a chain could not enter it. Draw it in a plate"
            )

    @cached_property
    def whole(self) -> Any:
        """The model; where nothing is left to draw, one that draws a number that nothing reads."""
        if self.model is not None:
            return self.model

        @functools.wraps(self._fn)
        def with_something(*args: Any, **kwargs: Any) -> Any:
            numpyro.sample(NOTHING, Normal(0.0, 1.0))
            return self._fn(*args, **kwargs)

        return self._make(with_something)

    def _draws_anything(self) -> bool:
        try:
            traced, _ = run_model(self._fn, self._args, self._kwargs, {})
        except AssertionError:  # what NumPyro refuses is told where the model is made
            return True
        return any(m["type"] == "sample" and not m["is_observed"] for m in traced.values())

    @property
    def name(self) -> str:
        """`K = 3`."""
        return named(self.way)

    @property
    def left(self) -> dict[str, Place]:
        """The latents that moves keep or draw from their priors."""
        return {n: p for n, p in self.places.items() if n not in self.gone}

    def _summed(self, growing: AbstractSet[str]) -> tuple[Marginal | None, tuple[str, ...]]:
        """What is eliminated from moves: discrete latents where there are any that can be, else as many
        continuous ones as go in one block."""
        model = self.model
        density = model.density
        discrete = [n for n in density.latents if density.sites[n].discrete]
        finite = tuple(n for n in discrete if model.conditional(n).kind in ("finite", "chain"))
        summed = finite or tuple(discrete)  # tables, or sums without end
        closed = eliminable(density)[:1] if not summed or growing & set(summed) else ()
        for names in (*closed, summed) if summed else closed:
            if self._read_by_left(names):
                continue
            try:
                found = model.marginal(*names)
                jax.eval_shape(partial(_levels, found), self._any())
            except ModelError:
                continue  # too large a table, or no closed form after all: priors will do
            return found, names
        return None, ()

    def _read_by_left(self, gone: tuple[str, ...]) -> bool:
        """Whether the prior of a site that is left reads one of these: it could not be drawn without them."""
        density = self.model.density
        priors = density.outputs["log_prob"]
        read = {n: set(density.maps.latents(priors[n])) for n in density.latents}
        return any(read[n] & set(gone) for n in density.latents if n not in gone)

    # what chains do

    @cached_property
    def log_prior(self) -> float | None:
        """The log of the prior probability of what was asked for; None where other draws have a say in it, as
        they have in all decisions of continuous ones."""
        names = [n for n, _ in self.way]
        if self.model is None:
            traced, lines = run_model(self._fn, self._args, self._kwargs, {})
            found = log_probs(traced, lines)
            return None if set(names) - set(found) else sum(float(jnp.sum(found[n])) for n in names)
        density = self.model.density
        atoms = [density.outputs["log_prob"].get(n) for n in names]
        if any(a is None or density.maps.latents(a) for a in atoms):
            return None
        read = density.evaluator({}).full
        return sum(float(jnp.sum(read(a))) for a in atoms)

    @cached_property
    def _fixed(self) -> Any:
        """The log density of a structure in which nothing is drawn."""
        with jax.ensure_compile_time_eval():  # moves between structures may be what asks for it, traced
            traced, lines = run_model(self._fn, self._args, self._kwargs, {})
            seen = [m for m in traced.values() if m["type"] == "sample" and not is_factor(m["fn"])]
            inside = all(bool(np.all(m["fn"].support(m["value"]))) for m in seen)
            total = sum(float(jnp.sum(v)) for v in log_probs(traced, lines).values())
        return total if inside else -np.inf

    def logdensity(self, values: Values) -> Any:
        """The log of the joint density of the decisions, what is `left` and the data, with all constants."""
        return self._up_to_constant(values) + self.constant

    @property
    def constant(self) -> float:
        """What the log density of a structure without the sites that are `gone` leaves out. It is computed
        when it is first read, not while something is traced."""
        return self._best[1] if self.marginal is not None and self._allowed else 0.0

    def _up_to_constant(self, values: Values) -> Any:
        if self.model is None:
            return jnp.asarray(self._fixed, jnp.result_type(float))
        if not self._allowed:
            return jnp.asarray(-jnp.inf)
        if self.marginal is None:
            return self.model.density.log_joint(values)
        return self.marginal.logdensity(values)

    def enter(self, key: Any, values: Values, kept: Mapping[str, Any], draw: Any, level: Any) -> Any:
        """A chain enters (`draw`) or is looked at where it is: its values, the log density there less that of
        the elements which are not `kept` (masks over `Place.batch`, by site) being drawn from their priors,
        and whether that minus `level` is as high as the log of a uniform number. Only then are the sites that
        are `gone` drawn."""
        key_new, key_accept, key_gone = random.split(key, 3)
        if self.model is None:
            score = self.logdensity({})
            return {}, score, jnp.log(random.uniform(key_accept)) < score - level
        new, own = self._forward(key_new, values, kept, draw)
        score = self.logdensity(new) - own
        score = jnp.where(jnp.isnan(score), -jnp.inf, score)
        taken = jnp.log(random.uniform(key_accept)) < score - level
        if self.marginal is not None:
            new = jax.lax.cond(taken & draw, partial(self._redrawn, key_gone), lambda at: at, new)
        return new, score, taken

    def _forward(self, key: Any, values: Values, kept: Mapping[str, Any], draw: Any) -> tuple[Values, Any]:
        """Values of which elements of the sites that are `left`, those that are not `kept`, are drawn from
        their priors (see `enter`), and the log density of these."""
        run = _Entering(handlers.seed(self._fn, key), values, self.left, kept, draw)
        with handlers_alone:
            run(*self._args, **self._kwargs)
        return run.now, run.total

    def _redrawn(self, key: Any, at: Values) -> Values:
        """Values of which those of the sites that are `gone` are drawn from their exact conditional."""
        assert self.marginal is not None
        found = self.marginal.sample(key, at)
        return {**at, **{n: found[n].astype(p.dtype) for n, p in self.places.items() if n in found}}

    @cached_property
    def schedule(self) -> Schedule | None:
        """What updates the sites within the structure."""
        return None if self.model is None else self.model.execution.written_schedule()

    @cached_property
    def _plan(self) -> Any:
        assert self.schedule is not None
        return self.schedule.plan()

    def ready(self) -> None:
        """Have everything that a program needs which is traced: what kernels learn, and constants."""
        _ = self.computed, self.tuning, self._fixed if self.model is None else None

    @property
    def impossible(self) -> bool:
        """Whether it was looked at, and found not `possible`."""
        return bool({"_best", "_fixed"} & set(self.__dict__)) and not self.possible

    @cached_property
    def possible(self) -> bool:
        """Whether any of some draws from the prior has a density with the data."""
        if self.model is None:
            return bool(np.isfinite(self._fixed))
        return self._best[0] > -np.inf

    @cached_property
    def tuning(self) -> tuple[Any, ...]:
        """States of the blocks that have learnt what there is to learn, in a warm-up of this structure alone,
        which is always the same one."""
        if self.model is None:
            return ()
        kernel, inputs = self._plan.kernel, self._plan.inputs
        steps = WARMUP if self.possible and any(learns(k) for k in kernel._kernels) else 0

        def warm(key: Any, values: Values, inputs: Any) -> Any:
            kwargs = {INPUTS_KWARG: inputs}
            key_values, key_state, key_gone = random.split(key, 3)
            if self.marginal is not None:
                values = self._redrawn(key_gone, values)
            use = {n: jnp.ones((), bool) for n in values}
            _, native = first_values(kernel, key_values, kwargs, Starts(values, use, jnp.zeros(())))
            state = kernel.init(key_state, WARMUP, native, (), kwargs)
            if steps:
                state = jax.lax.fori_loop(0, steps, lambda _, s: kernel.sample(s, (), kwargs), state)
            return state.block_states

        with handlers_alone:
            return once(warm, random.key(2), self._best[2], inputs)

    @cached_property
    def _kernel(self) -> Any:
        """The composite of the structure's own schedule, which learns no more."""
        _ = self.tuning  # initialises it
        return all_frozen(self._plan.kernel)

    @cached_property
    def _best(self) -> tuple[float, float, Values]:
        """The best of some draws from the prior: its log density less what the marginal leaves out, which is
        the same wherever it is looked at; that; and the draw, of the sites that are `left`. One program,
        compiled quickly."""

        def one(key: Any) -> tuple[Any, Any, Values]:
            nothing = {n: jnp.zeros(p.batch, bool) for n, p in self.left.items()}
            new, _ = self._forward(key, self._any(), nothing, jnp.ones((), bool))
            if self.marginal is None or not self._allowed:
                return self._up_to_constant(new), jnp.zeros(()), new
            return *_levels(self.marginal, new), new

        with handlers_alone:
            keys = random.split(random.key(1), _TRIES)
            levels, constants, values = once(lambda keys: jax.lax.map(one, keys), keys)
        levels = np.asarray(levels, np.float64)
        levels = np.where(np.isfinite(levels) & np.isfinite(constants), levels, -np.inf)
        best = int(np.argmax(levels))
        constant = float(constants[best]) if levels[best] > -np.inf else -np.inf
        return float(levels[best]), constant, {n: v[best] for n, v in values.items()}

    @property
    def inputs(self) -> Any:
        """What the compiled sweep takes as arguments."""
        return {} if self.model is None else self._plan.inputs

    def sweep(self, key: Any, values: Values, inputs: Any) -> tuple[Values, Any]:
        """One sweep of the structure's own schedule: values, and whether a trajectory diverged."""
        if self.model is None:
            return values, jnp.zeros((), bool)
        kernel, kwargs = self._kernel, {INPUTS_KWARG: inputs}
        state = placed_all(kernel, self.tuning, key, values, kwargs)
        moved = kernel.sample(state, (), kwargs)
        found = kernel.get_constrain_fn((), kwargs)(moved.z)
        return {n: jnp.asarray(found[n], p.dtype) for n, p in self.places.items()}, diverging(moved)

    @cached_property
    def computed(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shapes and dtypes of the deterministic sites."""
        found = jax.eval_shape(lambda: self.deterministic(self._any()))
        return {n: (tuple(v.shape), np.dtype(v.dtype)) for n, v in found.items()}

    def _any(self) -> Values:
        return {n: jnp.zeros(p.shape, p.dtype) for n, p in self.places.items()}

    def deterministic(self, values: Values) -> Values:
        """The deterministic sites at values."""
        run = handlers.seed(handlers.substitute(self._fn, data=dict(values)), random.key(0))
        with handlers_alone:
            traced = handlers.trace(run).get_trace(*self._args, **self._kwargs)
        return {n: jnp.asarray(m["value"]) for n, m in traced.items() if m["type"] == "deterministic"}
