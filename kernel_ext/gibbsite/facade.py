"""`Model`: a NumPyro model and its arguments, with every stage of the analysis at hand."""

import copy
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import jax
import numpy as np

from gibbsite.density import Density, Site
from gibbsite.density.build import parameters_of_function
from gibbsite.density.current import exchangeable, put_in_order
from gibbsite.density.model.alone import as_columns
from gibbsite.density.named import Named
from gibbsite.errors import CheckpointError, ModelError, OptionError, ScheduleError
from gibbsite.ground import arguments as sensible
from gibbsite.ground.arguments import by_name, in_order, shown
from gibbsite.ground.lazy_import import later, named_later
from gibbsite.ground.of_process import OfProcess
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.inputs.tables import Labels
from gibbsite.modelling.analysis import Analysis, analysed
from gibbsite.modelling.execution import Execution
from gibbsite.modelling.forgotten import unused
from gibbsite.modelling.transform import (
    carried_over,
    checked_values,
    conditioned,
    intervened,
    shifted,
)
from gibbsite.showing import Live
from gibbsite.structure.model import Changing
from gibbsite.validation.check import check_known

if TYPE_CHECKING:
    from gibbsite.checking import Check
    from gibbsite.conditional import Conditional
    from gibbsite.elimination import Marginal
    from gibbsite.graph import DependencyGraph
    from gibbsite.plans.schedule.plan import Plan
    from gibbsite.plans.schedule.schedule import Schedule
    from gibbsite.sampling import Run
    from gibbsite.sampling.options import Options
    from gibbsite.tape.tape import Tape
else:
    Check, Run = named_later("gibbsite.checking", "Check"), named_later("gibbsite.sampling", "Run")
    Conditional = named_later("gibbsite.conditional", "Conditional")
    DependencyGraph = named_later("gibbsite.graph", "DependencyGraph")
    Marginal = named_later("gibbsite.elimination", "Marginal")
    Options = named_later("gibbsite.sampling.options", "Options")
    Plan = named_later("gibbsite.plans.schedule.plan", "Plan")
    Schedule = named_later("gibbsite.plans.schedule.schedule", "Schedule")
    Tape = named_later("gibbsite.tape.tape", "Tape")

# what a model may be asked for is loaded when it is
capturing = later("gibbsite.inputs.captured")
checking, conditional = later("gibbsite.checking"), later("gibbsite.conditional")
elimination, graph, of_runs = (
    later("gibbsite.elimination"),
    later("gibbsite.graph"),
    later("gibbsite.prediction.of_runs"),
)
factorials = later("gibbsite.density.model.factorials")
reparam, sampling = later("gibbsite.modelling.reparam"), later("gibbsite.sampling")
model_tape, options_of = (
    later("gibbsite.printing.statements.model_tape"),
    later("gibbsite.sampling.options"),
)
starting = later("gibbsite.sampling.start")
asking, liveness = later("gibbsite.structure.asking"), later("gibbsite.density.liveness")
structures, plans = later("gibbsite.structure.moving"), later("gibbsite.plans.schedule.plan")

_Method = TypeVar("_Method", bound=Callable)


class _WithOptions(inspect.Signature):
    """A method's signature with the options of a run, put together when `help` or a notebook asks for it."""

    def __init__(self, method: Callable):
        own = inspect.signature(method)
        super().__init__(list(own.parameters.values()), return_annotation=own.return_annotation)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The method's own parameters, and in the place of `**options` those of `made`."""
        made = inspect.signature(starting.made).parameters
        more = {n: made[n] for n in options_of.Options.__annotations__}
        return MappingProxyType({**dict(list(super().parameters.items())[:-1]), **more})

    def replace(self, **changes: Any) -> inspect.Signature:
        """A plain signature, of which something is changed."""
        whole = inspect.Signature(list(self.parameters.values()), return_annotation=self.return_annotation)
        return whole.replace(**changes)


def _with_options(method: _Method) -> _Method:
    method.__signature__ = _WithOptions(method)  # type: ignore[attr-defined]
    return method


class Model(OfProcess, Live):
    """A NumPyro model bound to its arguments.

    Arguments may be tables and their columns (pandas, polars, xarray, structured arrays), and lists: `args`
    and `kwargs` hold the arrays that the model gets, `labels` those of categories and rows, which results
    are labelled by. Times become days since the first. `notes` are sentences on that and on what merely
    hurts: covariates far from zero, priors that reach where a parameter cannot be.

    The stages can each be looked at: `density`, `graph`, `conditional(site)`, `schedule()`; then
    `sample(…)` runs it and returns a `Run`, and `start(…)` does so in the background. Calling the model runs
    the NumPyro function itself, so a `Model` can stand wherever NumPyro expects a model.
    """

    _keep_by = "make it where it is needed, `gibbsite.model(function, data)`"

    def __init__(self, analysis: Analysis, source: str | None = None):
        self.analysis, self.execution = analysis, Execution(analysis)
        self._source = source
        self._forked: dict[tuple[str, ...], ChangingModel] = {}
        self.posterior = object()  # shared by models of one posterior, in whatever coordinates

    @property
    def fn(self) -> Callable:
        """The NumPyro function."""
        return self.analysis.fn

    @property
    def args(self) -> tuple:
        """Its positional arguments, as arrays."""
        return self.analysis.args

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Its arguments by name, as arrays."""
        return self.analysis.kwargs

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.analysis.name

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the data, on what merely hurts, and on what was not understood and is opaque."""
        found = (*self.analysis.notes, *notes_in(self.density.cache))
        if not self.forms:
            return found
        off = [n for name in self.forms for n in liveness.switched(self.density)[name]]
        names, others = " and ".join(self.forms), ", ".join(n for n in self.density.latents if n in off)
        verb = "switches" if len(self.forms) == 1 else "switch"
        return (*found, f"{names} {verb} between forms, with {others} in some of them")

    @property
    def density(self) -> Density:
        """The log density: sites, additive terms, and which elements each of them reads; printable."""
        return self.analysis.density

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model function, with the bound arguments unless others are given."""
        if args or kwargs:
            return self.fn(*args, **kwargs)
        bound = self.density.arguments
        args, kwargs = bound.rebuild(bound.arrays)
        with as_columns:
            return self.fn(*args, **kwargs)

    @property
    def sites(self) -> Mapping[str, Site]:
        """The model's sites by name, in program order."""
        return MappingProxyType(Named("site", self.density.sites))

    @property
    def unread(self) -> tuple[str, ...]:
        """A sentence for each argument of the function that nothing in it reads; they are among `notes`."""
        failed = notes_in(self.density.cache)
        return tuple(attempted("unread arguments", lambda: unused(self.name, self.fn), list, failed))

    @property
    def source(self) -> str:
        """The plain NumPyro function that the model stands for."""
        if self._source is not None:
            return self._source
        try:
            return inspect.getsource(self.fn)
        except (OSError, TypeError):
            return f"# the source of {self.name!r} is not available"

    @cached_property
    def graph(self) -> "DependencyGraph":
        """The dependency graph: nodes, edges, plates, Markov blankets, independence queries."""
        return graph.dependency_graph(self.density, self.analysis.known, self.plate_labels).of(self)

    @property
    def labels(self) -> Labels:
        """Labels of the codes in the arguments, by name (`county`, `df['county']`), and under
        `index of <name>` those of rows."""
        return self.analysis.known.labels

    @property
    def plate_labels(self) -> Labels:
        """Labels of the elements of plates, where the data have some."""
        return self.analysis.plate_labels

    def element_labels(self, site: str) -> list[tuple[str, ...] | None]:
        """Per axis of a site the labels of its elements, None where they have none."""
        return self.analysis.element_labels(site)

    def element_name(self, site: str, index: Sequence[int]) -> str:
        """What an element is called: `alpha[Hennepin]`, `z[17]`."""
        return graph.plain_name(site, self.analysis.labelled(site, index))

    @property
    def observed(self) -> Mapping[str, np.ndarray]:
        """The data by site, NaN where they are missing."""
        return self.execution.observed

    @property
    def generated(self) -> tuple[str, ...]:
        """The latents that no observation can see, such as predictions."""
        return self.execution.generated

    @cached_property
    def tape(self) -> "Tape":
        """One run of the model as a list of statements with their values, printable; see `gibbsite.track`."""
        return model_tape.tape_of_model(self.fn, self.args, self.kwargs)

    def conditional(self, site: str) -> "Conditional":
        """What the latent `site` is drawn from given the rest.

        Raises `UnknownNameError` (a `KeyError`) for a name that does not exist and `ModelError` for a site
        that is not latent.
        """
        return conditional.conditional_of(self.density, self._named(site))

    def marginal(self, *sites: str, order: Sequence[str] | None = None) -> "Marginal":
        """The density of everything but `sites`: discrete ones are summed out, continuous ones integrated
        out, exactly.

        Without sites, all discrete ones of finite support are; where there are none, as many continuous ones
        as can go in one block. Continuous sites take conditionals in closed form: Gaussian together, given
        the rest, or conjugate. `order` names discrete sites in the order to go by; the default is chosen by
        the size of the tables. Raises `UnknownNameError`, and `ModelError` before anything is compiled: for a
        site that cannot be eliminated, and for tables beyond the limit.
        """
        if not sites:
            sites = tuple(n for n in self.density.latents if self.conditional(n).kind in ("finite", "chain"))
        if not sites:
            sites = next(iter(elimination.eliminable(self.density)), ())
        if not sites:
            raise ModelError(
                f"model {self.name!r} has no discrete latent of finite support to sum out, and no continuous "
                f"one whose conditional has a closed form"
            )
        if isinstance(order, str) or not isinstance(order, Sequence | None):
            raise OptionError(f"order must be a list of sites, not {shown(order)}")
        named = None if order is None else [self._named(s) for s in order]
        found = elimination.marginal_of(self.density, [self._named(s) for s in sites], named)
        if self._constants_lost:

            @contextmanager
            def in_double() -> Iterator[Marginal]:
                with self._doubled() as twin:
                    yield twin.marginal(*found.sites, order=order)

            found.in_double = in_double
        return found

    @cached_property
    def _constants_lost(self) -> bool:
        """Whether single precision does not hold the constants of the log density."""
        return factorials.lost_to_factorials(self.density) > factorials.MOST_NATS

    @contextmanager
    def _doubled(self) -> Iterator["Model"]:
        """The same model in double precision, within whose context it is to be used."""
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            if "_twin" not in self.__dict__:
                self.__dict__["_twin"] = self._remade(self.fn, self.kwargs)
            yield self.__dict__["_twin"]

    def _named(self, site: Any) -> str:
        return sensible.a_name("site", site, [*self.sites, *self.density.groups])

    # models made from this one

    def condition(self, values: Mapping[str, Any] | None = None, **named: Any) -> "Model":
        """A model in which latent sites are observed: `model.condition(z=0)`, or a dict for other names.

        Values broadcast to the sites' shapes; a group's value has its members first. Raises
        `UnknownNameError`, `DataError` for a shape or a value outside the support, `ModelError` where nothing
        latent is left.
        """
        checked = checked_values(self.density, {**by_name("condition", values), **named}, "condition")
        return self._remade(*conditioned(self.fn, self.kwargs, checked))

    def do(self, values: Mapping[str, Any] | None = None, **named: Any) -> "Model":
        """A model in which statements are replaced by values: they no longer depend on what they read.

        Nothing is learnt from an intervened site about its former parents (Pearl 2009, §3.2). Errors as for
        `condition`.
        """
        checked = checked_values(self.density, {**by_name("do", values), **named}, "do")
        return self._remade(*intervened(self.fn, self.kwargs, checked))

    def reparam(self, choices: Mapping[str, Any] | str | None = None, **named: Any) -> "Model":
        """The same model with latent sites in other coordinates: `model.reparam(theta="non-centred")`.

        A choice is "non-centred", a number between 0 (non-centred) and 1 (as written) or an array of such
        numbers, "base" for a transformed distribution, or a `numpyro.infer.reparam.Reparam`. The site becomes
        a deterministic one, whose draws keep its name; `theta_decentered` (or `theta_base`) is sampled.
        "auto" leaves a site as it is, and its degree to NUTS, which learns it in warm-up: `reparam("auto")`
        is that for all sites, as the default schedule does anyway. Raises `UnknownNameError`,
        `DataError` for a choice that does not exist, `ModelError` where it does not fit.
        """
        if not isinstance(choices, str) or named:
            choices = {**by_name("reparam", choices), **named}
        left = reparam.checked_auto(self.density, choices)
        changed = reparam.reparameterised(self.fn, self.density, left) if left else self.fn
        return self._of_one_posterior(self._remade(changed, self.kwargs))

    def ordered(self, site: str) -> "Model":
        """The same model with the elements of a vector in ascending order: of all ways to number the
        components of a mixture one is left, so that chains agree on which is which.

        The site keeps its name and shape, and has the law of the order statistics of its prior. Where
        components can be renamed (equal priors), the posterior of all that does not depend on their labels is
        the same; elsewhere this is another model, and a warning says so. Raises `UnknownNameError`, and
        `ModelError` for a site that is no vector of real or positive numbers, or of shares, drawn element by
        element.
        """
        changed = self._remade(put_in_order(self.fn, self.density, site), self.kwargs)
        if exchangeable(self.density, site):
            self._of_one_posterior(changed)
        else:
            warnings.warn(
                f"{self.name}.ordered({site!r}) is another model: priors or data tell the components apart, "
                f"and an order among them leaves values out",
                stacklevel=2,
            )
        return changed

    def centred(self, *names: str, scaled: bool = False) -> "Model":
        """The model with covariates less the means of their rows, so that no level has to make up for their
        slopes: `model.centred("year")`, of an argument or a column of a table. Without names, those that lie
        far from zero.

        `scaled`: divided by their standard deviations, too; coefficients are then of that unit. What stands
        beside a slope is the level at the mean, to which its prior then applies; where nothing stands beside
        it, this is another model. New data (`run.predict`) are given as they are, and are moved by the same
        numbers. Raises `ModelError` for what is no covariate.
        """
        fn, told = shifted(self.fn, self.density, names, scaled)
        changed = self._remade(fn, self.kwargs)
        changed._source = told + self.source
        return changed

    def reparam_choices(self, site: str) -> tuple[str, ...]:
        """The parameterisations that fit a site, by name; none for a name that does not exist."""
        return reparam.fitting_reparams(self.density, site)

    def _of_one_posterior(self, changed: "Model") -> "Model":
        """`changed`, a model of the same posterior in other coordinates."""
        changed.posterior = self.posterior
        return changed

    def _remade(self, fn: Callable, kwargs: Mapping[str, Any]) -> "Model":
        own = self.analysis
        found = analysed(fn, own.args, kwargs, name=own.name, check_values=own.checked)
        found.known.labels.update(own.known.labels)
        found.known.units.update(own.known.units)
        changed = Model(replace(found, missing=own.missing, imputed=own.imputed), self._source)
        if self.execution.asked is None:
            return changed
        latents = [n for n, s in changed.sites.items() if s.latent]
        try:
            return changed.with_schedule(carried_over(self.execution.asked, latents))
        except ScheduleError:
            return changed  # the chosen kernels do not fit the changed model: the default policy decides

    def with_schedule(self, schedule: Any) -> "Model":
        """The same model with another default schedule, checked now: `ScheduleError` if it does not fit."""
        if (forked := self._forked_by(schedule)) is not None:
            return forked.with_schedule(schedule)
        changed = copy.copy(self)
        changed.execution = self.execution.following(schedule)
        if "graph" in changed.__dict__:
            changed.__dict__["graph"] = self.graph.of(changed)
        return changed

    @property
    def summed_out(self) -> tuple[str, ...]:
        """The sites that the model's own schedule sums or integrates out; none under the default policy."""
        return self.execution.summed_out

    @property
    def eliminations(self) -> "tuple[Marginal, ...]":
        """What the model's own schedule eliminates sites by, or draws discrete ones jointly by; none under
        the default policy."""
        return self.execution.eliminations

    def eliminate(self, *sites: str) -> "Model":
        """The same model with a schedule that eliminates `sites` from one NUTS block, and redraws them.

        Draws of the sites come with the run. Which sites go, and without sites which, is as for `marginal`.
        Where the model has no continuous site to move, discrete ones are drawn jointly. Raises as `marginal`
        does, and `ScheduleError` where the rest of the model fits no such schedule.
        """
        return self.with_schedule(self.execution.eliminating(self.marginal(*sites).sites))

    def fork(self, *sites: str) -> "ChangingModel":
        """The same model with a structure for each value of some discrete latents, between which chains go:
        `model.fork("m")`, as if Python asked for the value, `if m: …`.

        It is for what switches between forms, as in `jnp.where(m == 0, line, curve)`: what the form that is
        not chosen has is then drawn from its prior, where it fits nothing, so that chains hardly find back
        by any other schedule. The schedule `Structure m` is the same. Without names, `forms`. Raises
        `UnknownNameError`, and `ModelError` for what is no discrete latent, or whose values cannot be listed.
        """
        names = tuple(self._named(s) for s in sites) or self.forms
        for name in names:
            if name not in self.density.latents or not self.sites[name].discrete:
                raise ModelError(f"fork: {name!r} is no discrete latent, of which each value is a structure")
        if not names:
            raise ModelError(f"fork: no discrete latent of {self.name!r} switches others off; name one")
        found = ChangingModel(
            asking.asking(self.fn, names), self.args, self.kwargs, source=self._source, name=self.name
        )
        found.analysis.known.labels.update(self.analysis.known.labels)
        found.analysis.known.units.update(self.analysis.known.units)
        return found

    def _forked_by(self, schedule: Any, options: Mapping[str, Any] | None = None) -> "ChangingModel | None":
        """The model whose chains go between the values of what a schedule's text names after `Structure`; of
        what the model's own choice does, for a run with these `options`; None for another schedule."""
        if schedule is None and options is not None and self.execution.asked is None:
            names = self.switching
            if not names or not {*options} <= {*structures.OPTIONS}:
                return None
        elif isinstance(schedule, str) and schedule.lstrip().startswith("Structure "):
            names = asking.named_in(schedule)
        else:
            return None
        if names not in self._forked:
            self._forked[names] = self.fork(*names)
        return self._forked[names]

    def plan_of(self, structures: Sequence[Mapping[str, Any]], schedule: str) -> Any:
        """The plan of a saved run between structures, which knows these."""
        if not {*asking.named_in(schedule)} <= {n for n in self.density.latents if self.sites[n].discrete}:
            raise CheckpointError("the saved run is of a model whose structure changes; this one's does not")
        forked = self._forked_by(schedule)
        assert forked is not None
        return forked.plan_of(structures, schedule)

    @cached_property
    def switching(self) -> tuple[str, ...]:
        """Those of `forms` between whose values chains go as between structures unless another schedule is
        asked for: of few forms, which no exact draw joins."""
        if not self.forms or self.analysis.missing:
            return ()
        updates = self.execution.schedule().updates
        names = plans.drawn_apart(self.density, [(u.kernel, u.sites, u.eliminated) for u in updates])
        return names if liveness.few_forms(self.density, names) else ()

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The discrete latents that switch between forms: at some of their values nothing that is observed
        depends on a continuous latent which counts at others."""
        return tuple(liveness.switched(self.density))

    def element_blanket(self, site: str, index: int | tuple[int, ...]) -> dict[str, Any]:
        """Which elements of which sites share a term with one element of a latent site.

        Per site the indices, or None for "any": see `gibbsite.graph.element_blanket`.
        """
        return graph.element_blanket(self.density, site, index)

    def schedule(
        self, text: Any = None, *, random_scan: bool = False, namespace: Mapping[str, Any] | None = None
    ) -> "Schedule":
        """Which kernel updates which sites, in which order and why; checked against the model.

        `text` is a schedule such as `"Gibbs z (*) NUTS [w mu]"`, a list of `update(…)`, or None for the
        default policy; `namespace` has the values of names that stand for options in it, and `random_scan`
        makes each sweep's order random. Raises `ScheduleError` before anything runs.
        """
        options = {"random_scan": random_scan, "namespace": namespace}
        if (forked := self._forked_by(text, None if random_scan else {})) is not None:
            return forked.schedule(text)  # type: ignore[return-value]
        return self.execution.schedule(text, **{n: v for n, v in options.items() if v})

    def plan(self, schedule: Any = None) -> "Plan":
        """The model and a schedule, ready to run."""
        if (forked := self._forked_by(schedule)) is not None:
            return forked.plan(schedule)
        return replace(self.execution.plan(schedule), origin=self)

    @_with_options
    def start(self, *, schedule: Any = None, **options: "Unpack[Options]") -> "Run":
        """Sample in the background: returns the `Run` at once. Arguments as for `sample`."""
        if (forked := self._forked_by(schedule, options)) is not None:
            return forked.start(schedule=schedule, **options)
        began = time.monotonic()
        plan = self.plan(schedule)
        return sampling.start(plan, analysed=time.monotonic() - began, **options)

    @_with_options
    def sample(
        self,
        *,
        schedule: Any = None,
        on_start: "Callable[[Run], Any] | None" = None,
        **options: "Unpack[Options]",
    ) -> "Run":
        """Sample and wait for the end.

        `draws` (1000) and `warmup` count steps per chain; without a number, or "auto", warm-up ends when
        chains agree and what kernels learn has settled, after 1000 steps at most. `chains` (4) run side by
        side, `seed` (0) fixes the randomness, `device` says where ("cpu", "gpu", "auto"). The first interrupt
        ends the run at the next chunk and keeps its draws. `on_start` is called with the run before it
        begins. Where the model switches between forms (`forms`), chains go between these as between
        structures, unless an option asks for what such runs have not.
        """
        if (forked := self._forked_by(schedule, options)) is not None:
            return forked.sample(schedule=schedule, on_start=on_start, **options)
        began = time.monotonic()
        plan = self.plan(schedule)
        return sampling.sample(plan, analysed=time.monotonic() - began, on_start=on_start, **options)

    def many(self, datasets: Any, /, *, by: str | None = None, **options: Any) -> Any:
        """The same model fitted to many data sets, side by side: `model.many([{"y": y1}, {"y": y2}])`.

        `datasets` are mappings of arguments (what one lacks stays as it is here), or tables, in a sequence or
        by name; or one table, of which `by` names the column that tells data sets apart. Categories keep the
        codes of this model's. Options are those of `sample`.

        Data sets of one program are fitted by it together, shorter ones with rows after them that do not
        count, where that is certain to change nothing; those whose chains do not meet, and all where options
        ask for what a single run alone can do (`store`, a folder with one for each; `until`, `init`, …), have
        a run of their own. With `on` all are dealt out to an executor's workers, with the draws that they
        have whoever these are.

        Returns `Many`: `.runs`, `.verdicts` and `.failures` by name, `.draws`, `.summary()`, and
        `.to_datatree()` with a dimension `dataset`. Raises `OptionError` for what are no data sets,
        `ModelError` where this model has dealt with missing data.
        """
        return of_runs.many(self, datasets, by, self.with_data, options)

    def with_data(self, args: tuple, kwargs: Mapping[str, Any], fn: Callable | None = None) -> "Model":
        """This model, or another function in its place, with other arguments: numbers in place of categories
        and dates mean what they do here, and the schedule is this one's."""
        own = self.analysis
        found = analysed(fn or own.fn, args, kwargs, name=own.name, check_values=own.checked)
        for name, texts in self.labels.items():
            if " of " not in name:
                found.known.labels.setdefault(name, texts)
        for name, unit in own.known.units.items():
            found.known.units.setdefault(name, unit)
        return Model(found, self._source).with_schedule(self.execution.asked)

    def check(self, seconds: float = 60, *, seed: int = 0, wait: bool = True, on: Any = None) -> "Check":
        """Whether the sampler of this model is right, in about so many seconds: `model.check(seconds=60)`.

        In the order of their cost: every derived conditional, and every sum or integral, against NumPyro's
        joint density; `sample` against `log_prob` of every distribution; index maps by perturbation; the
        whole schedule on parameters and data drawn from the model (Geweke 2004; Gandy and Scott 2021); chains
        from dispersed discrete starts; simulation-based calibration (Talts et al. 2018) with what time is
        left. Returns the `Check`: `.ok`, `.findings`, `.report(path)`; without `wait` at once, and `.stop()`
        ends it. An interrupt does, too, and keeps what was found. Compiling is most of the time: of large
        models give it more. With an executor `on`, as in `sample`, its workers fit the data sets of the
        calibration. Raises `OptionError` for what are no seconds, no seed, or no executor.
        """
        if on is not None:
            options_of.elsewhere(on)
        seconds, seed = sensible.seconds("seconds", seconds), sensible.count("seed", seed, 0)
        check = checking.Check(self, seconds, seed, on).start()
        return check.wait() if sensible.flag("wait", wait) else check

    def predict(self, table: Any = None, /, *more: Any, **options: Any) -> Any:
        """What the prior says, before any data: `model.predict(draws=1000, seed=0)`.

        Options are those of `Run.predict`, the model's own arguments with new values among them. Returns a
        `Prediction` of one chain; raises `ModelError` where the prior cannot be drawn forward (`factor`,
        improper distributions), and as `Run.predict` does.
        """
        own = {n: options.pop(n) for n in ("do", "given", "draws", "seed") if n in options}
        return of_runs.predict_prior(self, in_order(table, more), options, **own)

    def checks(self, site: str | None = None, **options: Any) -> Any:
        """The data beside what the prior says of them; options and errors are those of `Run.checks`."""
        return of_runs.checks(self, site, **options)

    def __repr__(self) -> str:
        latents = ", ".join(self.density.latents)
        observed = ", ".join(n for n, s in self.sites.items() if s.role == "observed")
        return f"<Model {self.name}: latent {latents}; observed {observed or 'nothing'}>"


class ChangingModel(Changing, Model):
    """A NumPyro model in which Python asks for the value of a discrete draw (`if`, `range`, the size of a
    plate), bound to its arguments: for each such value it is another `Model`, and `sample(…)` draws from all
    of them."""

    _carried = staticmethod(carried_over)

    def _static(self, fn: Callable) -> Model:
        found = analysed(fn, self.args, self.kwargs, name=self.name, check_values=False)
        check_known(found.density)
        return Model(replace(found, known=self.analysis.known))


def model(fn: Callable, *args: Any, **kwargs: Any) -> Model:
    """Trace and analyse the NumPyro model `fn(*args, **kwargs)` at once.

    `missing` says what becomes of observations that are NaN: "impute" makes them latent sites of the same
    distribution (`y_missing`, in the order of the data), "mask" leaves them out of the density, "drop" drops
    their rows in all arguments that are as long, and rows whose covariates are missing.
    `check_values=False` leaves out the look at what parameters and data can be. Either is the function's own
    argument where that has one of the name.

    Where Python asks for the value of a discrete draw (`if`, `range`, the size of a plate), the model is a
    `ChangingModel`, whose chains go between the structures that there are.

    What the function reads beside its arguments (names of the notebook, functions of the user's own) stays
    what it is now, and arrays are copied: what is changed later changes no model and none of its runs.

    Raises `ModelError` where the model cannot be analysed, `DataError` for data that do not fit it, and lets
    exceptions of the model itself pass through.
    """
    own = set(parameters_of_function(fn.fn if isinstance(fn, Model) else fn))
    options = {n: kwargs.pop(n) for n in ("check_values", "missing") if n in kwargs and n not in own}
    source, name = kwargs.pop("_source", None), kwargs.pop("_name", None)
    if isinstance(fn, Model):
        source = source or fn._source
        found, old = args or fn.args, kwargs or fn.kwargs
        if isinstance(fn, ChangingModel):
            return ChangingModel(fn.fn, found, old, source=source, name=name)
        return Model(analysed(fn.fn, found, old, name=name, **options), source)
    if not callable(fn):
        raise ModelError(f"a model is a function with NumPyro statements; got {type(fn).__name__}")
    fn = capturing.captured(fn)
    args = tuple(capturing.kept(fn, v) for v in args)
    kwargs = {n: capturing.kept(fn, v) for n, v in kwargs.items()}
    try:
        return Model(analysed(fn, args, kwargs, name=name, **options), source)
    except ModelError as error:
        if error.entry != "value-of-a-latent":
            raise
        # Python asks for what is drawn: where that is discrete, each of its values gives a model
        return ChangingModel(fn, args, kwargs, source=source, name=name, refused=error)
