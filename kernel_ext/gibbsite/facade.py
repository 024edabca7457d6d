"""`Model`: a NumPyro model and its arguments, with every stage of the analysis at hand."""

import copy
import hashlib
import inspect
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite import sampling
from gibbsite.checking import Check
from gibbsite.conditional import Conditional, conditional_of
from gibbsite.conditional.draws.gamma import own_gammas
from gibbsite.conditional.reads.value_labels import value_labels
from gibbsite.density import Density, Site, build_density
from gibbsite.density.build import parameters_of_function
from gibbsite.density.checks import check_proper
from gibbsite.density.current import current
from gibbsite.density.given.objects import Known, Labels
from gibbsite.density.given.tables import as_arrays, order_notes, plate_labels
from gibbsite.density.given.texts import check_texts
from gibbsite.density.handlers.loose import LooseParam
from gibbsite.density.handlers.params import with_constants
from gibbsite.density.handlers.scopes import ScopedScans
from gibbsite.density.levels import generated_latents
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.names import printed, spelt_notes
from gibbsite.density.named import Named
from gibbsite.density.notation.model_tape import tape_of_model
from gibbsite.density.observed import observed_values
from gibbsite.density.ordering import exchangeable, put_in_order
from gibbsite.density.possible.check import impossible_values
from gibbsite.density.possible.columns import check_categories, unit_notes
from gibbsite.density.possible.data import check_missing
from gibbsite.density.told.arguments import check_arguments
from gibbsite.density.told.forgotten import check_forgotten, unused
from gibbsite.elimination import Marginal, eliminable, marginal_of
from gibbsite.errors import ModelError, OptionError, ScheduleError
from gibbsite.graph import DependencyGraph, dependency_graph, element_blanket, plain_name
from gibbsite.ground import sensible
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.ground.sensible import by_name, shown
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.grouped import GROUPED_KERNELS, GroupedModel, grouped_model
from gibbsite.kernels.scheduling.elimination import drawn_jointly, eliminating
from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.kernels.scheduling.schedule import Schedule, make_schedule
from gibbsite.missing import checked_way, without_missing
from gibbsite.padding import kept_padding
from gibbsite.prediction import of_runs
from gibbsite.reparam import checked_auto, fitting_reparams, reparameterised
from gibbsite.sampling import Run
from gibbsite.sampling.options import Options
from gibbsite.sampling.start import made
from gibbsite.showing import Live
from gibbsite.trace.tape.tape import Tape
from gibbsite.transform import (
    carried_over,
    checked_values,
    conditioned,
    intervened,
    observed_arrays,
    unmarked,
    without,
)

# what the other floors ask a model for, and people need not see
_MACHINERY = frozenset(
    "before_ready constants fingerprint generated grouped groups hidden inputs make_ready observed_sites "
    "plan posterior recorded runtime_model seen stacked unread whole written_model".split()
)

_Method = TypeVar("_Method", bound=Callable)


def _with_options(method: _Method) -> _Method:
    """The method with the options of a run in the signature that `help` and notebooks show."""
    own = list(inspect.signature(method).parameters.values())
    more = [p for n, p in inspect.signature(made).parameters.items() if n in Options.__annotations__]
    signature = inspect.signature(method).replace(parameters=[*own[:-1], *more])
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


class Model(Live):
    """A NumPyro model bound to its arguments.

    Arguments may be tables and their columns (pandas, polars, xarray, structured arrays), and lists: `args`
    and `kwargs` hold the arrays that the model gets, `labels` those of categories and rows, which results
    are labelled by. Times become days since the first. `notes` are sentences on that and on what merely
    hurts: covariates far from zero, priors that reach where a parameter cannot be.

    The stages can each be looked at: `density`, `graph`, `conditional(site)`, `schedule()`; then
    `sample(…)` runs it and returns a `Run`, and `start(…)` does so in the background. Calling the model runs
    the NumPyro function itself, so a `Model` can stand wherever NumPyro expects a model.
    """

    def __init__(
        self,
        fn: Callable,
        args: tuple = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        source: str | None = None,
        name: str | None = None,
        check_values: bool = True,
        missing: str | None = None,
    ):
        handlers_alone.refuse_others()
        self.fn = fn
        self._known = known = Known()
        parameters = parameters_of_function(fn)
        named = [*parameters, *(f"argument {i}" for i in range(len(parameters), len(args)))]
        self.args = tuple(as_arrays(v, n, known) for v, n in zip(args, named, strict=False))
        self.kwargs = {n: as_arrays(v, n, known) for n, v in (kwargs or {}).items()}
        known.labels = {n: tuple(map(printed, texts)) for n, texts in known.labels.items()}
        self.name = name or getattr(fn, "__name__", "model")
        self._source = source
        self._missing: Mapping[str, np.ndarray] = {}  # which elements of which observed sites
        self._imputed: Mapping[str, np.ndarray] = {}  # those of them that are drawn
        self._whole: Model | None = None  # of the model as its data see it, the whole of it
        self.posterior = object()  # shared by models of one posterior, in whatever coordinates
        self._schedule: Any = None  # what `with_schedule` chose; None is the default policy
        self._usual: Schedule | None = None  # what `schedule()` found
        self._scheduling, self._prepared = threading.RLock(), {}
        check_arguments(fn, self.name, self.args, self.kwargs)
        check_texts(fn, known.labels)
        self._checked = sensible.flag("check_values", check_values)
        if (missing := checked_way(missing)) is not None:
            dealt = without_missing(fn, self.args, self.kwargs, missing, known.labels)
            fn, self.args, self.kwargs, self._missing = dealt
            self._imputed = self._missing if missing == "impute" else {}
            self.fn = fn
        try:
            self.density: Density = build_density(fn, self.args, self.kwargs)
        except LooseParam:
            self.fn = fn = with_constants(fn, self.args, self.kwargs)
            self.density = build_density(fn, self.args, self.kwargs)
        if not self.density.latents:
            raise ModelError(
                f"model {self.name!r} has no latent sites: every `sample` statement is observed, so there is "
                f"nothing to infer. Leave at least one site without `obs=` (or with a value of None)"
            )
        failed, density = notes_in(self.density.cache), self.density
        padded = attempted("padding", lambda: kept_padding(fn, density), lambda: None, failed)
        if padded is not None:
            self.fn, self.density = padded, build_density(padded, self.args, self.kwargs)
        self._look(fn, known, check_values)

    def _look(self, written: Callable, known: Known, check_values: bool) -> None:
        """Look at what the data and parameters are, and note what people had better know."""
        failed = notes_in(self.density.cache)

        def looked(what: str, look: Callable[[], Any]) -> tuple[str, ...]:
            return tuple(attempted(what, look, tuple, failed) or ())

        density, given = self.density, (self.args, self.kwargs)
        looked("unread arguments", lambda: check_forgotten(written, self.name, density, *given))
        looked("missing values", lambda: check_missing(density))
        looked("improper densities", lambda: check_proper(density))
        looked("categories", lambda: check_categories(density, known.labels))
        self._notes: tuple[str, ...] = (
            *looked("the order of data", lambda: order_notes(known)),
            *looked("units", lambda: unit_notes(density, known.units)),
            *looked("names", lambda: spelt_notes(density.sites)),
            *self.unread,
            *(
                f"{n} is not drawn forward, but by its log density: its draws do not follow that ({why})"
                for n, why in density.doubted.items()
            ),
        )
        if check_values:
            values = looked("impossible values", lambda: impossible_values(self.fn, density, known.labels))
            self._notes += values

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the data, on what merely hurts, and on what was not understood and is opaque."""
        return (*self._notes, *notes_in(self.density.cache))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model function, with the bound arguments unless others are given."""
        return self.fn(*args, **kwargs) if args or kwargs else self.fn(*self.args, **self.kwargs)

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
    def graph(self) -> DependencyGraph:
        """The dependency graph: nodes, edges, plates, Markov blankets, independence queries."""
        return dependency_graph(self.density, self._known, self.plate_labels).of(self)

    @property
    def labels(self) -> Labels:
        """Labels of the codes in the arguments, by name (`county`, `df['county']`), and under
        `index of <name>` those of rows."""
        return self._known.labels

    @cached_property
    def plate_labels(self) -> Labels:
        """Labels of the elements of plates, where the data have some."""
        return plate_labels({n: plate.size for n, plate in self.density.plates.items()}, self.labels)

    def element_labels(self, site: str) -> list[tuple[str, ...] | None]:
        """Per axis of a site the labels of its elements, None where they have none."""
        one = self.density.site(site)
        plates = dict(zip(one.plate_axes, one.plates, strict=True))
        return [self.plate_labels.get(plates.get(axis, "")) for axis in range(len(one.shape))]

    def _imputed_labels(self) -> Labels:
        """Labels of imputed elements, those of their places in the data, by dimension."""
        found: Labels = {}
        for name, gone in self._imputed.items():
            labels = self.element_labels(name)
            if any(labels):
                places = np.argwhere(gone)
                found[f"{name}_missing_dim_0"] = tuple(
                    ", ".join(str(i) if m is None else m[i] for i, m in zip(at, labels, strict=True))
                    for at in places
                )
        return found

    def element_name(self, site: str, index: Sequence[int]) -> str:
        """What an element is called: `alpha[Hennepin]`, `z[17]`."""
        labels = self.element_labels(site)
        return plain_name(site, [k if m is None else m[k] for k, m in zip(index, labels, strict=True)])

    @cached_property
    def tape(self) -> Tape:
        """One run of the model as a list of statements with their values, printable; see `gibbsite.track`."""
        return tape_of_model(self.fn, self.args, self.kwargs)

    def conditional(self, site: str) -> Conditional:
        """What the latent `site` is drawn from given the rest.

        Raises `UnknownNameError` (a `KeyError`) for a name that does not exist and `ModelError` for a site
        that is not latent.
        """
        return conditional_of(self.density, self._named(site))

    def marginal(self, *sites: str, order: Sequence[str] | None = None) -> Marginal:
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
            sites = next(iter(eliminable(self.density)), ())
        if not sites:
            raise ModelError(
                f"model {self.name!r} has no discrete latent of finite support to sum out, and no continuous "
                f"one whose conditional has a closed form"
            )
        if isinstance(order, str) or not isinstance(order, Sequence | None):
            raise OptionError(f"order must be a list of sites, not {shown(order)}")
        named = None if order is None else [self._named(s) for s in order]
        return marginal_of(self.density, [self._named(s) for s in sites], named)

    def _named(self, site: Any) -> str:
        return sensible.a_name("site", site, [*self.sites, *self.groups])

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
        left = checked_auto(self.density, choices)
        changed = reparameterised(self.fn, self.density, left) if left else self.fn
        return self._of_one_posterior(self._remade(changed, self.kwargs))

    def ordered(self, site: str) -> "Model":
        """The same model with the elements of a vector in ascending order: of all ways to number the
        components of a mixture one is left, so that chains agree on which is which.

        The site keeps its name and shape, and has the law of the order statistics of its prior. Where
        components can be renamed (equal priors), the posterior of all that does not depend on their labels is
        the same; elsewhere this is another model, and a warning says so. Raises `UnknownNameError`, and
        `ModelError` for a site that is no vector of real or positive numbers drawn element by element.
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

    def reparam_choices(self, site: str) -> tuple[str, ...]:
        """The parameterisations that fit a site, by name; none for a name that does not exist."""
        return fitting_reparams(self.density, site)

    def _of_one_posterior(self, changed: "Model") -> "Model":
        """`changed`, a model of the same posterior in other coordinates."""
        changed.posterior = self.posterior
        return changed

    def _remade(self, fn: Callable, kwargs: Mapping[str, Any]) -> "Model":
        changed = Model(
            fn, self.args, kwargs, source=self._source, name=self.name, check_values=self._checked
        )
        changed.labels.update(self.labels)
        changed._known.units.update(self._known.units)
        changed._missing, changed._imputed = self._missing, self._imputed
        if self._schedule is None:
            return changed
        latents = [n for n, s in changed.sites.items() if s.latent]
        try:
            return changed.with_schedule(carried_over(self._schedule, latents))
        except ScheduleError:
            return changed  # the chosen kernels do not fit the changed model: the default policy decides

    def with_schedule(self, schedule: Any) -> "Model":
        """The same model with another default schedule, checked now: `ScheduleError` if it does not fit."""
        changed = copy.copy(self)
        changed._schedule = self.schedule(schedule).text if schedule is not None else None
        changed._usual, changed._scheduling, changed._prepared = None, threading.RLock(), {}
        if "graph" in changed.__dict__:
            changed.__dict__["graph"] = self.graph.of(changed)
        return changed

    @property
    def summed_out(self) -> tuple[str, ...]:
        """The sites that the model's own schedule sums or integrates out; none under the default policy."""
        if self._schedule is None:
            return ()
        return tuple(n for u in self.schedule().updates for n in self._flat(u.eliminated))

    def _flat(self, names: Sequence[str]) -> tuple[str, ...]:
        """Sites, with the members of groups in place of their names."""
        return tuple(m for n in names for m in self.density.groups.get(n, (n,)))

    @property
    def eliminations(self) -> tuple[Marginal, ...]:
        """What the model's own schedule eliminates sites by, or draws discrete ones jointly by; none under
        the default policy."""
        if self._schedule is None:
            return ()
        found = [
            self.marginal(*self._flat(u.eliminated)) if u.eliminated else drawn_jointly(self, u)
            for u in self.schedule().updates
        ]
        return tuple(marginal for marginal in found if marginal is not None)

    def eliminate(self, *sites: str) -> "Model":
        """The same model with a schedule that eliminates `sites` from one NUTS block, and redraws them.

        Draws of the sites come with the run. Which sites go, and without sites which, is as for `marginal`.
        Where the model has no continuous site to move, discrete ones are drawn jointly. Raises as `marginal`
        does, and `ScheduleError` where the rest of the model fits no such schedule.
        """
        names = self.marginal(*sites).sites
        return self.with_schedule(eliminating(self, names, make_schedule(self).updates))

    def element_blanket(self, site: str, index: int | tuple[int, ...]) -> dict[str, Any]:
        """Which elements of which sites share a term with one element of a latent site.

        Per site the indices, or None for "any": see `gibbsite.graph.element_blanket`.
        """
        return element_blanket(self.density, site, index)

    # what compiled runs need

    @cached_property
    def runtime_model(self) -> Callable:
        """The model as kernels of a compiled run see it: its data come in as one keyword argument."""
        fn, arguments = self.fn, self.density.arguments

        def model(**kwargs: Any) -> Any:
            args, named = arguments.rebuild(kwargs[INPUTS_KWARG]["data"])
            with own_gammas(), unmarked(), observed_arrays(), ScopedScans():
                return fn(*args, **named)

        model.__name__ = self.name
        return model

    @property
    def whole(self) -> "Model":
        """The whole of the model, with what `seen` lacks."""
        return self._whole or self

    @property
    def written_model(self) -> Callable:
        """What predictions run: the model as written, with its data as one keyword argument."""
        return self.whole.runtime_model

    @property
    def inputs(self) -> dict[str, Any]:
        """The arrays that a compiled run takes as arguments."""
        return {"data": tuple(self.density.arguments.arrays)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's structure: sites, shapes and program, not the data's values."""
        if self._whole is not None:
            return self._whole.fingerprint
        digest = hashlib.sha256()
        for site in self.density.sites.values():
            row = (site.name, site.shape, str(site.dtype), site.role, site.fn_name, str(site.support))
            digest.update(repr(row).encode())
        digest.update(str(self.density.closed.jaxpr).encode())
        for const in self.density.closed.consts:
            keys = jnp.issubdtype(jnp.result_type(const), jax.dtypes.prng_key)
            const = jax.random.key_data(const) if keys else const
            digest.update(np.asarray(jax.device_get(const)).tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def observed(self) -> dict[str, np.ndarray]:
        """The data by site, in the sense of `gibbsite.density.current`: NaN where they are missing."""
        values, whole = observed_values(self.density), self.whole
        return {
            n: np.where(whole._missing[n], np.nan, values[n]) if n in whole._missing else values[n]
            for n in current(whole.density).data
        }

    @cached_property
    def generated(self) -> tuple[str, ...]:
        """The latents that no observation can see, such as predictions."""
        return generated_latents(self.whole.density)

    @cached_property
    def seen(self) -> "Model | None":
        """The model without its `generated` latents, which runs draw forward, once per draw; None where there
        are none, or nothing else."""
        if self._whole is not None or not self.generated or self._ancestral:
            return None
        hidden = {n: self.density.sites[n] for n in self.generated}
        if any(site.in_scan for site in hidden.values()):
            return None  # a loop over time runs as a whole
        found = Model(without(self.fn, hidden), self.args, self.kwargs, name=self.name, check_values=False)
        found._whole = self
        return found

    @property
    def _ancestral(self) -> bool:
        """Whether no latent is informed by anything."""
        return set(self.generated) >= set(self.density.latents)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The latents of the whole model that this one lacks: they are drawn forward."""
        return () if self._whole is None else self.generated

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """The deterministic sites that no latent enters."""
        density = self.whole.density
        computed = density.outputs["deterministic"].items()
        return tuple(n for n, atom in computed if not density.maps.latents(atom))

    @property
    def stacked(self) -> Mapping[str, tuple[str, ...]]:
        """Which recorded sites are stacks of the model's own: none but in its grouped form."""
        return {}

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The indexed sites to be stacked under one name."""
        return self.whole.density.groups

    @property
    def recorded(self) -> dict[str, Site]:
        """The sites whose draws a run keeps: latent and deterministic ones."""
        return {n: s for n, s in self.whole.density.sites.items() if s.role != "observed"}

    @property
    def observed_sites(self) -> dict[str, Site]:
        """The sites of `observed`."""
        return {n: self.density.sites[n] for n in self.observed}

    @cached_property
    def grouped(self) -> GroupedModel | None:
        """The model with every group of alike sites as one array, for runs; None where it has none."""
        notes = notes_in(self.density.cache)
        return attempted("a loop as arrays", lambda: grouped_model(self), lambda: None, notes)

    def schedule(self, text: Any = None, **options: Any) -> Schedule:
        """Which kernel updates which sites, in which order and why; checked against the model.

        `text` is a schedule such as `"Gibbs z (*) NUTS [w mu]"`, a list of `update(…)`, or None for the
        default policy; options as for `make_schedule`. Raises `ScheduleError` before anything runs.
        """
        if text is not None or options:
            return self._scheduled(text, options)
        with self._scheduling:  # who comes second waits for what the first finds
            if self._usual is None:
                self._usual = self._scheduled(None, {})
            return self._usual

    def _scheduled(self, text: Any, options: Mapping[str, Any]) -> Schedule:
        asked = self._schedule if text is None else text
        if self.seen is not None:
            try:
                return self.seen.schedule(asked, **options)
            except ScheduleError:
                pass  # it names a prediction, or is wrong: the whole model then tells
        return self._grouped_schedule(asked, options) or make_schedule(self, asked, **options)

    def _grouped_schedule(self, asked: Any, options: Mapping[str, Any]) -> Schedule | None:
        """The schedule over array sites; None where it names members of groups, or has a kernel that needs
        the model as written (or is wrong: the model as written then tells in the user's own names)."""
        if self.grouped is None or (asked is None and self._ancestral):
            return None
        try:
            schedule = make_schedule(self.grouped, asked, **options)
        except ScheduleError:
            return None
        return schedule if GROUPED_KERNELS.issuperset(u.kernel for u in schedule.updates) else None

    def plan(self, schedule: Any = None) -> Plan:
        """The model and a schedule, ready to run."""
        found = self.schedule(schedule).plan()
        values = value_labels(self.density, self.plate_labels, self.labels) if self.labels else {}
        return replace(
            found,
            labels=self.plate_labels | self._imputed_labels(),
            value_labels=values,
            values_checked=self._checked,
            origin=self,
            prepared=self._prepared,
        )

    def before_ready(self) -> None:
        """Do what runs the function under settings of NumPyro's that hold for the whole process, so that
        `make_ready` may be called in another thread than the user's."""
        if self.seen is not None:
            self.seen.before_ready()
        self.grouped  # noqa: B018

    def make_ready(
        self, tell: Callable[[str, bool], None], awaited: Callable[[Callable[[], bool]], None], **options: Any
    ) -> None:
        """Have made what `sample(**options)` will take, as `gibbsite.sampling.made_ahead` says; it goes with
        the model."""
        sampling.made_ahead(self.plan, tell, awaited, **options)

    @_with_options
    def start(self, *, schedule: Any = None, **options: Unpack[Options]) -> Run:
        """Sample in the background: returns the `Run` at once. Arguments as for `sample`."""
        began = time.monotonic()
        plan = self.plan(schedule)
        return sampling.start(plan, analysed=time.monotonic() - began, **options)

    @_with_options
    def sample(
        self,
        *,
        schedule: Any = None,
        on_start: Callable[[Run], Any] | None = None,
        **options: Unpack[Options],
    ) -> Run:
        """Sample and wait for the end.

        `draws` (1000) and `warmup` count steps per chain; without a number, or "auto", warm-up ends when
        chains agree and what kernels learn has settled, after 1000 steps at most. `chains` (4) run side by
        side, `seed` (0) fixes the randomness, `device` says where ("cpu", "gpu", "auto"). The first interrupt
        ends the run at the next chunk and keeps its draws. `on_start` is called with the run before it
        begins.
        """
        began = time.monotonic()
        plan = self.plan(schedule)
        return sampling.sample(plan, analysed=time.monotonic() - began, on_start=on_start, **options)

    def many(self, datasets: Any, /, *, by: str | None = None, **options: Any) -> Any:
        """The same model fitted to many data sets, one after another: `model.many([{"y": y1}, {"y": y2}])`.

        `datasets` are mappings of arguments (what one lacks stays as it is here), or tables, in a sequence or
        by name; or one table, of which `by` names the column that tells data sets apart. Categories keep the
        codes of this model's. Options are those of `sample`. Returns `Many`: `.runs`, `.verdicts`,
        `.failures` by name, `.to_datatree()` with a dimension `dataset`. One that fails leaves the others
        alone. Raises `OptionError` for what are no data sets, `ModelError` where this model has dealt with
        missing data.
        """

        def made(args: tuple, kwargs: Mapping[str, Any]) -> Model:
            one = Model(
                self.fn, args, kwargs, source=self._source, name=self.name, check_values=self._checked
            )
            one.labels.update({n: texts for n, texts in self.labels.items() if " of " not in n})
            return one if self._schedule is None else one.with_schedule(self._schedule)

        return of_runs.many(self, datasets, by, made, options)

    def check(self, seconds: float = 60, *, seed: int = 0, wait: bool = True) -> Check:
        """Whether the sampler of this model is right, in about so many seconds: `model.check(seconds=60)`.

        In the order of their cost: every derived conditional, and every sum or integral, against NumPyro's
        joint density; `sample` against `log_prob` of every distribution; index maps by perturbation; the
        whole schedule on parameters and data drawn from the model (Geweke 2004; Gandy and Scott 2021); chains
        from dispersed discrete starts; simulation-based calibration (Talts et al. 2018) with what time is
        left. Returns the `Check`: `.ok`, `.findings`, `.report(path)`; without `wait` at once, and `.stop()`
        ends it. An interrupt does, too, and keeps what was found. Compiling is most of the time: of large
        models give it more. Raises `OptionError` for what are no seconds, or no seed.
        """
        seconds, seed = sensible.seconds("seconds", seconds), sensible.count("seed", seed, 0)
        check = Check(self, seconds, seed).start()
        return check.wait() if sensible.flag("wait", wait) else check

    def predict(self, table: Any = None, /, **options: Any) -> Any:
        """What the prior says, before any data: `model.predict(draws=1000, seed=0)`.

        Options are those of `Run.predict`, the model's own arguments with new values among them. Returns a
        `Prediction` of one chain; raises `ModelError` where the prior cannot be drawn forward (`factor`,
        improper distributions), and as `Run.predict` does.
        """
        own = {n: options.pop(n) for n in ("do", "given", "draws", "seed") if n in options}
        return of_runs.predict_prior(self, table, options, **own)

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n not in _MACHINERY]

    def __repr__(self) -> str:
        latents = ", ".join(self.density.latents)
        observed = ", ".join(n for n, s in self.sites.items() if s.role == "observed")
        return f"<Model {self.name}: latent {latents}; observed {observed or 'nothing'}>"


def model(fn: Callable, *args: Any, **kwargs: Any) -> Model:
    """Trace and analyse the NumPyro model `fn(*args, **kwargs)` at once.

    `missing` says what becomes of observations that are NaN: "impute" makes them latent sites of the same
    distribution (`y_missing`, in the order of the data), "mask" leaves them out of the density, "drop" drops
    their rows in all arguments that are as long, and rows whose covariates are missing.
    `check_values=False` leaves out the look at what parameters and data can be. Either is the function's own
    argument where that has one of the name.

    Raises `ModelError` where the model cannot be analysed, `DataError` for data that do not fit it, and lets
    exceptions of the model itself pass through.
    """
    own = set(parameters_of_function(fn.fn if isinstance(fn, Model) else fn))
    options = {n: kwargs.pop(n) for n in ("check_values", "missing") if n in kwargs and n not in own}
    source, name = kwargs.pop("_source", None), kwargs.pop("_name", None)
    if isinstance(fn, Model):
        source = source or fn._source
        return Model(fn.fn, args or fn.args, kwargs or fn.kwargs, source=source, name=name, **options)
    if not callable(fn):
        raise ModelError(f"a model is a function with NumPyro statements; got {type(fn).__name__}")
    return Model(fn, args, kwargs, source=source, name=name, **options)
