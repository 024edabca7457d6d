"""A model as compiled runs want it: data in one argument, what is recorded or drawn forward, schedules."""

import copy
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpyro import handlers

from gibbsite.density import Density, Site
from gibbsite.density.build import build_density
from gibbsite.density.current import current, generated_latents
from gibbsite.density.handlers.scopes import ScopedScans
from gibbsite.density.known_elements import draws_within, observed_values
from gibbsite.density.model.collect import SEED
from gibbsite.errors import ModelError, ScheduleError
from gibbsite.ground.arguments import listed
from gibbsite.ground.lazy_import import later
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.modelling.analysis import Analysis, analysed
from gibbsite.modelling.transform import observed_arrays, unmarked, without

if TYPE_CHECKING:
    from gibbsite.conditional import Conditional
    from gibbsite.elimination import Marginal
    from gibbsite.kernels.grouped import GroupedModel
    from gibbsite.plans.schedule.parse import Spec
    from gibbsite.plans.schedule.plan import Plan
    from gibbsite.plans.schedule.schedule import Schedule

# what is analysed is not always planned: these are loaded when it is
conditional, gamma = later("gibbsite.conditional"), later("gibbsite.conditional.draws.gamma")
elimination, support = later("gibbsite.elimination"), later("gibbsite.conditional.reads.support")
finite, grouped = later("gibbsite.kernels.blocks.finite"), later("gibbsite.kernels.grouped")
eliminated, scheduled = (
    later("gibbsite.plans.schedule.elimination"),
    later("gibbsite.plans.schedule.schedule"),
)


class Execution:
    """What schedules and plans ask of a model, as `GroupedModel` answers it for array sites.

    `asked` is the text of its own schedule, None for the default policy. `whole` is set for a model without
    the latents that no observation can see: the one that they belong to.
    """

    ahead = True  # whether its programs can be made before they are asked for
    stacked: Mapping[str, tuple[str, ...]] = {}
    follows: frozenset[str] = frozenset()

    def __init__(self, analysis: Analysis, whole: "Execution | None" = None):
        self.analysis, self.name = analysis, analysis.name
        self.asked: str | None = None
        self.prepared: dict[Any, Any] = {}
        self._own_whole = whole
        self._usual: Schedule | None = None  # what `schedule()` found
        self._scheduling = threading.RLock()

    @property
    def whole(self) -> "Execution":
        """The whole of the model, with what `seen` lacks."""
        return self._own_whole or self

    @property
    def density(self) -> Density:
        """The analysed density."""
        return self.analysis.density

    @property
    def sites(self) -> Mapping[str, Site]:
        """The model's sites by name, in program order."""
        return self.density.sites

    def conditional(self, site: str) -> "Conditional":
        """As `Model.conditional`."""
        return conditional.conditional_of(self.density, site)

    @cached_property
    def runtime_model(self) -> Callable:
        """The model as kernels of a compiled run see it: its data come in as one keyword argument."""
        fn, arguments = self.analysis.fn, self.density.arguments
        if draws_within(self.density):  # the same one as where it was traced
            fn = handlers.seed(fn, jax.random.key(SEED))

        def model(**kwargs: Any) -> Any:
            args, named = arguments.rebuild(kwargs[finite.INPUTS_KWARG]["data"])
            with gamma.own_gammas(), unmarked(), observed_arrays(), ScopedScans():
                return fn(*args, **named)

        model.__name__ = self.name
        return model

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
        if self.whole is not self:
            return self.whole.fingerprint
        digest = hashlib.sha256()
        for site in self.density.sites.values():
            row = (site.name, site.shape, str(site.dtype), site.role, site.fn_name, str(site.support))
            digest.update(repr(row).encode())
        self.density.feed(digest)
        return digest.hexdigest()[:32]

    @cached_property
    def observed(self) -> dict[str, np.ndarray]:
        """The data by site, in the sense of `gibbsite.density.current`: NaN where they are missing."""
        values, missing = observed_values(self.density), self.whole.analysis.missing
        return {
            n: np.where(missing[n], np.nan, values[n]) if n in missing else values[n]
            for n in current(self.whole.density).data
        }

    @property
    def observed_sites(self) -> dict[str, Site]:
        """The sites of `observed`."""
        return {n: self.density.sites[n] for n in self.observed}

    @property
    def recorded(self) -> dict[str, Site]:
        """The sites whose draws a run keeps: latent and deterministic ones."""
        return {n: s for n, s in self.whole.density.sites.items() if s.role != "observed"}

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The indexed sites to be stacked under one name."""
        return self.whole.density.groups

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """The deterministic sites that no latent enters."""
        density = self.whole.density
        computed = density.outputs["deterministic"].items()
        return tuple(n for n, atom in computed if not density.maps.latents(atom))

    @cached_property
    def generated(self) -> tuple[str, ...]:
        """The latents that no observation can see, such as predictions."""
        return generated_latents(self.whole.density)

    @property
    def ancestral(self) -> bool:
        """Whether no latent is informed by anything."""
        return set(self.generated) >= set(self.density.latents)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The latents of the whole model that this one lacks: they are drawn forward."""
        return () if self.whole is self else self.generated

    @cached_property
    def seen(self) -> "Execution | None":
        """The model without its `generated` latents, which runs draw forward, once per draw; None where there
        are none, or nothing else."""
        if self.whole is not self or not self.generated or self.ancestral:
            return None
        hidden = {n: self.density.sites[n] for n in self.generated}
        if any(site.in_scan for site in hidden.values()):
            return None  # a loop over time runs as a whole
        own = self.analysis
        left = analysed(without(own.fn, hidden), own.args, own.kwargs, name=own.name, check_values=False)
        return Execution(left, whole=self)

    @cached_property
    def grouped(self) -> "GroupedModel | None":
        """The model with every group of alike sites as one array, for runs; None where it has none."""
        notes = notes_in(self.density.cache)
        return attempted("a loop as arrays", lambda: grouped.grouped_model(self), lambda: None, notes)

    # schedules

    def following(self, schedule: Any) -> "Execution":
        """The same with a schedule of its own, checked now: `ScheduleError` if it does not fit."""
        changed = copy.copy(self)
        changed.asked = self.schedule(schedule).text if schedule is not None else None
        changed._usual, changed._scheduling, changed.prepared = None, threading.RLock(), {}
        return changed

    def schedule(self, text: Any = None, **options: Any) -> "Schedule":
        """As `Model.schedule`."""
        if text is not None or options:
            return self._scheduled(text, options)
        with self._scheduling:  # who comes second waits for what the first finds
            if self._usual is None:
                self._usual = self._scheduled(None, {})
            return self._usual

    def _scheduled(self, text: Any, options: Mapping[str, Any]) -> "Schedule":
        asked = self.asked if text is None else text
        if self.seen is not None:
            try:
                return self.seen.schedule(asked, **options)
            except ScheduleError:
                pass  # it names a prediction, or is wrong: the whole model then tells
        self._proper  # noqa: B018
        return self._grouped_schedule(asked, options) or scheduled.make_schedule(self, asked, **options)

    @cached_property
    def _proper(self) -> None:
        """Refuse flat priors that leave no posterior, whatever draws from it; raises `ModelError`."""
        if not elimination.improper(self.density):
            return
        own = self.analysis
        # single precision cannot tell a small difference between columns from none
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            names = elimination.improper(build_density(own.fn, own.args, dict(own.kwargs)))
        if names:
            have = "has a flat prior" if len(names) == 1 else "have flat priors"
            raise ModelError(
                f"there is no posterior: {listed(names)} {have}, over which the density has no finite "
                f"integral given the data: along some direction, such as a constant that one may have more "
                f"and another less, it does not fall, or not fast enough. Give {names[0]!r} a proper prior, "
                f"or fix what cannot be told (one level to 0, columns that say the same left out, "
                f"`ZeroSumNormal`)"
            ).at(self.density.sites[names[0]].line)

    def _grouped_schedule(self, asked: Any, options: Mapping[str, Any]) -> "Schedule | None":
        """The schedule over array sites; None where it names members of groups, or has a kernel that needs
        the model as written (or is wrong: the model as written then tells in the user's own names)."""
        if self.grouped is None or (asked is None and self.ancestral):
            return None
        try:
            schedule = scheduled.make_schedule(self.grouped, asked, **options)
        except ScheduleError:
            return None
        return schedule if grouped.GROUPED_KERNELS.issuperset(u.kernel for u in schedule.updates) else None

    def written_schedule(self) -> "Schedule":
        """The schedule of the model as written, all of its latents among the updates."""
        return scheduled.make_schedule(self, self.asked)

    def plan(self, schedule: Any = None) -> "Plan":
        """The model and a schedule, ready to run."""
        chosen, own = self.schedule(schedule), self.analysis
        found = chosen.plan()
        labels = own.known.labels
        return replace(
            found,
            labels=own.plate_labels | own.imputed_labels(),
            value_labels=support.value_labels(self.density, own.plate_labels, labels) if labels else {},
            values_checked=own.checked,
            prepared=self.prepared,
            work=lambda: chosen.work,
        )

    def before_ready(self) -> None:
        """Do what runs the function under settings of NumPyro's that hold for the whole process, so that a
        plan may be made in another thread than the user's."""
        if self.seen is not None:
            self.seen.before_ready()
        self.grouped  # noqa: B018

    # eliminations

    @property
    def summed_out(self) -> tuple[str, ...]:
        """The sites that the model's own schedule sums or integrates out; none under the default policy."""
        if self.asked is None:
            return ()
        return tuple(n for u in self.schedule().updates for n in self._flat(u.eliminated))

    @property
    def eliminations(self) -> "tuple[Marginal, ...]":
        """What the model's own schedule eliminates sites by, or draws discrete ones jointly by; none under
        the default policy."""
        if self.asked is None:
            return ()
        found = [
            elimination.marginal_of(self.density, self._flat(u.eliminated))
            if u.eliminated
            else eliminated.drawn_jointly(self, u)
            for u in self.schedule().updates
        ]
        return tuple(marginal for marginal in found if marginal is not None)

    def eliminating(self, names: Sequence[str]) -> "Spec":
        """A schedule that eliminates sites from one block."""
        return eliminated.eliminating(self, names, scheduled.make_schedule(self).updates)

    def _flat(self, names: Sequence[str]) -> tuple[str, ...]:
        """Sites, with the members of groups in place of their names."""
        return tuple(m for n in names for m in self.density.groups.get(n, (n,)))
