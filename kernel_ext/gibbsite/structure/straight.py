"""One structure: the static model of one way, its own sweep, and what a chain does that enters or leaves."""

import functools
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import random
from numpyro import handlers
from numpyro.distributions import Normal

from gibbsite.density.known_elements import known_numbers
from gibbsite.density.liveness import idle_latents
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import log_probs, run_model
from gibbsite.density.model.factorials import as_double
from gibbsite.elimination import Marginal, eliminable
from gibbsite.errors import DataError, ModelError
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.plans.schedule.schedule import Schedule
from gibbsite.programs.jaxpr.compiling import ByShape, once
from gibbsite.sampling.engine.initial import Asked as Starts
from gibbsite.sampling.engine.initial import far_below, first_values
from gibbsite.structure.moves.entering import Entering
from gibbsite.structure.moves.learnt import DRAWS, MOST, Anew, Learnt, Reals
from gibbsite.structure.moves.places import Place, place_of
from gibbsite.structure.moves.splitting import Along, Splitting
from gibbsite.structure.tuned import WARMUP, all_frozen, diverging, learns, placed_all
from gibbsite.structure.ways import Way, named
from gibbsite.validation.data import check_support

Values = dict[str, Any]
NOTHING = "nothing is drawn"
_TRIES = 100
"""Draws from the prior among which one is looked for that the data allow."""


def _levels(marginal: Marginal, values: Values) -> tuple[Any, Any]:
    """The log density without some sites at values of all, and what it leaves out."""
    at = {n: v for n, v in values.items() if n not in marginal.sites}
    level = marginal.logdensity(at)
    return level, marginal.complete(at) - level


def _width(real: np.ndarray) -> np.ndarray:
    seen = real[np.isfinite(real)]
    low, high = np.quantile(seen, (0.16, 0.84)) if len(seen) else (0.0, 0.0)
    return np.asarray((high - low) / 2 or 1.0, real.dtype)


def _draws_anything(traced: Mapping[str, Any]) -> bool:
    return any(m["type"] == "sample" and not m["is_observed"] for m in traced.values())


_OF_PRIOR = ("_best", "_fixed")
"""What is kept of draws from the prior: see `Straight.looked_at`."""


def _impossible(density: Any) -> DataError | None:
    """Why a model gives the data no density, where that is known without a draw: what lies outside of its
    support, at which no density looks, and a factor that is minus infinity."""
    try:
        check_support(density)
    except DataError as why:
        return why
    numbers = known_numbers(density, {})
    for name in density.factor_names:
        value = numbers.value(density.outputs["log_prob"][name])
        if value is not None and np.sum(value) == -np.inf:
            return DataError(f"the factor {name!r} is minus infinity")
    return None


class Straight:
    """One structure of a model: `model` is the static one of its way, None where nothing is left to draw.

    `gone` are the sites that moves between structures sum or integrate out: their new values are drawn from
    their exact conditional, and no ratio knows of them. The others, `left`, keep what they have where the
    other structure has it too, and are drawn from their priors where it has not. Discrete sites that are
    `growing` from structure to structure have tables that grow with the power of that: they are left where
    continuous sites can be integrated out, in all of these structures alike. Where it is `settled` before any
    chain enters, some moves draw those of `left` that its warm-up has learnt from what that found.
    """

    def __init__(
        self,
        way: Way,
        fn: Callable,
        args: tuple,
        kwargs: Mapping[str, Any],
        make: Callable,
        growing: AbstractSet[str] = frozenset(),
        settled: bool = False,
    ):
        self.way, self._fn, self._args, self._kwargs = way, fn, args, dict(kwargs)
        self._make, self._before = make, settled
        traced = self._traced()
        self.model: Any = make(fn) if traced is None or _draws_anything(traced) else None
        self.places: dict[str, Place] = {}
        self.marginal: Marginal | None = None
        self.gone: tuple[str, ...] = ()
        density = self.whole.density
        self.barred = _impossible(density)
        """Why the data are impossible here, whatever is drawn."""
        if self.model is None:
            return
        for name in density.latents:
            own = traced[name]["fn"] if traced is not None and name in traced else None
            self.places[name] = place_of(density, name, own)
        if self.barred is not None:  # no chain is ever here
            return
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

    def _traced(self) -> dict[str, Any] | None:
        """The model's statements as they are run; None where NumPyro refuses, which is told where the model
        is made."""
        try:
            return run_model(self._fn, self._args, self._kwargs, {})[0]
        except AssertionError:
            return None
        except ModelError as error:
            if error.entry != "sampled-twice":
                raise
            return None

    @property
    def _allowed(self) -> bool:
        return self.barred is None

    @property
    def name(self) -> str:
        """`K = 3`."""
        return named(self.way)

    @property
    def left(self) -> dict[str, Place]:
        """The latents that moves keep or draw from their priors."""
        return {n: p for n, p in self.places.items() if n not in self.gone}

    @cached_property
    def idle(self) -> frozenset[str]:
        """The latents whose posterior is their prior here, whatever reads them elsewhere."""
        return frozenset() if self._still else idle_latents(self.model.density)

    @cached_property
    def anew(self) -> frozenset[str]:
        """The sites that some moves draw anew where both structures have them: what is learnt, and what is
        idle."""
        return frozenset({*self._reals.places, *(self.idle if self._before else ())})

    @cached_property
    def _reals(self) -> Reals:
        """The sites whose posterior is learnt, as many as can be."""
        found: dict[str, Place] = {}
        if self._before and not self._still:
            for name, p in self.left.items():
                size = sum(int(np.prod(q.shape)) for q in (*found.values(), p))
                if p.coordinate is not None and not p.weights and name not in self.idle and size <= MOST:
                    found[name] = p
        return Reals(found)

    @cached_property
    def learnt(self) -> Learnt | None:
        """What the structure's warm-up has found."""
        return Learnt.of(self._reals, np.asarray(self._settled[2])) if self._reals.places else None

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
            total = sum(float(jnp.sum(v)) for v in log_probs(traced, lines).values())
        return total if self._allowed else -np.inf

    def logdensity(self, values: Values) -> Any:
        """The log of the joint density of the decisions, what is `left` and the data, with all constants."""
        return self._up_to_constant(values) + self.constant

    @property
    def constant(self) -> float:
        """What the log density of a structure without the sites that are `gone` leaves out. It is computed
        when it is first read, not while something is traced."""
        if not self._allowed or self.model is None:
            return 0.0
        return self._best[1] if self.marginal is not None or self.model._constants_lost else 0.0

    def _up_to_constant(self, values: Values) -> Any:
        if self.model is None:
            return jnp.asarray(self._fixed, jnp.result_type(float))
        if not self._allowed:
            return jnp.asarray(-jnp.inf)
        if self.marginal is None:
            return self.model.density.log_joint(values)
        return self.marginal.logdensity(values)

    def enter(
        self,
        key: Any,
        values: Values,
        kept: Mapping[str, Any],
        draw: Any,
        level: Any,
        moving: tuple[Any, Mapping[str, Sequence[Along]]] | None = None,
        anew: Any = False,
    ) -> Any:
        """A chain enters (`draw`) or is looked at where it is: its values there, or those of what the other
        structure has, too; the log density less that of how the elements come about which are not `kept`
        (masks over `Place.batch`, by site); and whether that minus `level` is as high as the log of a
        uniform number. Only then are the sites that are `gone` drawn.

        New elements come out of others as the key and the axes of `moving` say, or `anew` from what the
        structure has learnt, else from their priors.
        """
        key_new, key_accept, key_gone = random.split(key, 3)
        if self.model is None:
            score = self.logdensity({})
            return {}, score, jnp.log(random.uniform(key_accept)) < score - level
        if self.barred is not None:
            return values, jnp.asarray(-jnp.inf, jnp.result_type(float)), jnp.zeros((), bool)
        splitting = learnt = None
        if moving is not None:
            if self.learnt is not None:
                learnt = self.learnt.drawn(random.fold_in(key_new, 1), anew, values, kept, draw)
            fresh, may = random.fold_in(key_new, 0), jnp.logical_not(anew)
            splitting = Splitting(moving[0], self.left, self.widths, moving[1], values, draw, fresh, may)
        run = self._forward(key_new, values, kept, draw, splitting, learnt)
        # where it is not known how values come about, nothing is left and nothing entered
        total = jnp.where(jnp.isnan(run.total), jnp.where(draw, jnp.inf, -jnp.inf), run.total)
        score = self.logdensity(run.now) - total
        score = jnp.where(jnp.isnan(score), -jnp.inf, score)
        taken = jnp.log(random.uniform(key_accept)) < score - level
        new = run.front
        if self.marginal is not None:
            new = jax.lax.cond(taken & draw, partial(self._redrawn, key_gone), lambda at: at, new)
        return new, score, taken

    def _forward(
        self,
        key: Any,
        values: Values,
        kept: Mapping[str, Any],
        draw: Any,
        splitting: Splitting | None = None,
        anew: Anew | None = None,
    ) -> Entering:
        """The model after a chain has entered or was looked at (see `enter`)."""
        run = Entering(handlers.seed(self._fn, key), values, self.left, kept, draw, splitting, anew)
        with handlers_alone:
            run(*self._args, **self._kwargs)
        return run

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

    def looked_at(self) -> None:
        """Have what is known of draws from the prior, and what moves draw from: no program finds that while
        another is traced."""
        if self.barred is None:
            _ = self._fixed if self.model is None else self._best, self.constant, self.learnt

    def looked_at_as(self, other: "Straight") -> None:
        """Know what another one of the same way knows of its prior."""
        self.__dict__.update({n: v for n, v in other.__dict__.items() if n in _OF_PRIOR})

    def ready(self) -> None:
        """Have everything that a program needs which is traced: what kernels learn, and constants."""
        self.looked_at()
        _ = self.computed, self.tuning

    @property
    def impossible(self) -> bool:
        """Whether it was looked at, and found not `possible`."""
        looked = self.barred is not None or bool({*_OF_PRIOR} & {*self.__dict__})
        return looked and not self.possible

    @cached_property
    def possible(self) -> bool:
        """Whether any of some draws from the prior has a density with the data."""
        if self.barred is not None:
            return False
        if self.model is None:
            return bool(np.isfinite(self._fixed))
        return self._best[0] > -np.inf

    @property
    def _still(self) -> bool:
        """Whether nothing moves here: nothing is drawn, or no chain is ever here."""
        return self.model is None or self.barred is not None

    @property
    def best(self) -> Values:
        """Of some draws from the prior the best with the data, of the sites that are `left`."""
        return {} if self._still else self._best[2]

    @cached_property
    def tuning(self) -> tuple[Any, ...]:
        """States of the blocks that have learnt what there is to learn, in a warm-up of this structure alone,
        which is always the same one."""
        return () if self._still else self._settled[0]

    def readying(self) -> Callable[[], None]:
        """Trace what `ready` runs, and return what compiles it, for another thread."""
        if self._still:
            return lambda: None
        at = self._settling
        with handlers_alone:
            self._warm.lower(*at)
        return lambda: self._warm.compile(*at)

    @property
    def _settling(self) -> tuple[Any, ...]:
        return random.key(2), self._start(self._best[2]), self._plan.inputs

    @cached_property
    def _settled(self) -> tuple[tuple[Any, ...], Values, Any]:
        at = self._settling
        with handlers_alone:
            return self._warm(*at)

    def _start(self, values: Mapping[str, Any]) -> Values:
        """Of values of any sites those that a warm-up begins with, as its program takes them."""
        return {n: np.asarray(values[n], p.dtype) for n, p in self.left.items()}

    @property
    def learns(self) -> bool:
        """Whether kernels learn in a warm-up."""
        return self.model is not None and self.possible and any(map(learns, self._plan.kernel._kernels))

    def walked(self, key: Any, values: Values) -> Values:
        """Where a warm-up of this structure alone leads from some values: those of a prior may lie so far out
        that every step of what has learnt elsewhere diverges. Where it leads far below what the one that
        kernels learn from has found, from there."""
        settled, elements = self._settled[1], sum(int(np.prod(p.shape)) for p in self.places.values())
        with handlers_alone:
            for start in (values, settled):
                found = self._warm(key, self._start(start), self._plan.inputs)[1]
                level, best = (np.asarray(self._level(v), float) for v in (found, settled))
                if not far_below(level, best, elements):
                    return found
        return values

    @cached_property
    def _level(self) -> ByShape:
        return ByShape(lambda values: self.logdensity(values))

    @cached_property
    def _warm(self) -> ByShape:
        """A warm-up from values of the sites that are `left`: states of the blocks, values of all, and draws
        of what is to be learnt from them."""
        kernel, steps, reals = self._plan.kernel, WARMUP if self.learns else 0, self._reals
        total = steps + DRAWS if reals.places else steps

        def warm(key: Any, values: Values, inputs: Any) -> Any:
            kwargs = {INPUTS_KWARG: inputs}
            key_values, key_state, key_gone = random.split(key, 3)
            if self.marginal is not None:
                values = self._redrawn(key_gone, values)
            use = {n: jnp.ones((), bool) for n in values}
            _, native = first_values(kernel, key_values, kwargs, Starts(values, use, jnp.zeros(())))
            state = kernel.init(key_state, WARMUP, native, (), kwargs)

            def constrained(state: Any) -> Values:
                found = kernel.get_constrain_fn((), kwargs)(state.z)
                return {n: jnp.asarray(found[n], p.dtype) for n, p in self.places.items()}

            def step(i: Any, at: tuple[Any, Any]) -> tuple[Any, Any]:
                state = kernel.sample(at[0], (), kwargs)
                row = jnp.where(i < steps, DRAWS, i - steps)  # beyond the last: not kept
                drawn = (
                    at[1].at[row].set(reals.of(constrained(state)), mode="drop") if total > steps else at[1]
                )
                return state, drawn

            drawn = jnp.zeros((DRAWS, reals.size))
            if total:
                state, drawn = jax.lax.fori_loop(0, total, step, (state, drawn))
            return state.block_states, constrained(state), drawn

        return ByShape(warm)

    @cached_property
    def _kernel(self) -> Any:
        """The composite of the structure's own schedule, which learns no more."""
        _ = self.tuning  # initialises it
        return all_frozen(self._plan.kernel)

    @cached_property
    def _best(self) -> tuple[float, float, Values, dict[str, np.ndarray]]:
        """The best of some draws from the prior: its log density less what the marginal leaves out, which is
        the same wherever it is looked at; that; the draw, of the sites that are `left`; and how wide the
        draws of a number of a site are in its real coordinate. One program, compiled quickly."""

        def one(key: Any) -> tuple[Any, Any, Values, Values]:
            nothing = {n: jnp.zeros(p.batch, bool) for n, p in self.left.items()}
            new = self._forward(key, self._any(), nothing, jnp.ones((), bool)).now
            real = {n: p.coordinate.inv(new[n]) for n, p in self.left.items() if p.coordinate is not None}
            if self.marginal is None or not self._allowed:
                return self._up_to_constant(new), jnp.zeros(()), new, real
            return *_levels(self.marginal, new), new, real

        with handlers_alone:
            keys = random.split(random.key(1), _TRIES)
            levels, constants, values, real = once(lambda keys: jax.lax.map(one, keys), keys)
        levels = np.asarray(levels, np.float64)
        levels = np.where(np.isfinite(levels) & np.isfinite(constants), levels, -np.inf)
        best = int(np.argmax(levels))
        constant = float(constants[best]) if levels[best] > -np.inf else -np.inf
        widths = {n: _width(np.asarray(v)) for n, v in real.items()}
        at = {n: v[best] for n, v in values.items()}
        if constant > -np.inf and self.model._constants_lost:
            constant = self._exactly({n: at[n] for n in self.left}) - float(levels[best])
        return float(levels[best]), constant, at, widths

    def _exactly(self, at: Values) -> float:
        """The log density at values of the sites that are `left`, in double precision."""
        if self.marginal is None:
            with self.model._doubled() as twin:
                return float(twin.density.log_joint({n: as_double(v) for n, v in at.items()}))
        return float(self.marginal.logdensity(at, constants=True))

    @property
    def widths(self) -> dict[str, np.ndarray]:
        """Of a prior's draws in real coordinates, half of what holds two thirds of them, by site."""
        return self._best[3]

    @property
    def inputs(self) -> Any:
        """What the compiled sweep takes as arguments."""
        return {} if self._still else self._plan.inputs

    def sweep(self, key: Any, values: Values, inputs: Any) -> tuple[Values, Any]:
        """One sweep of the structure's own schedule: values, and whether a trajectory diverged."""
        if self._still:
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
