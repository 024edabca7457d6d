"""A model whose Python control flow reads what it draws: what is its own of `ChangingModel`."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbsite.density.model.alone import as_columns
from gibbsite.errors import DataError, GibbsiteError, ModelError, OptionError, StructureError, WordError
from gibbsite.ground.lazy_import import later
from gibbsite.inputs.compared import with_columns
from gibbsite.modelling.analysis import bound
from gibbsite.showing import views

if TYPE_CHECKING:
    from gibbsite.graph import DependencyGraph
    from gibbsite.structure.moving import Structured
    from gibbsite.structure.run import StructureRun
    from gibbsite.structure.ways import Way

# most models change nothing: what these need is loaded for those that do
moving, starting = later("gibbsite.structure.moving"), later("gibbsite.sampling.start")
union, ways = later("gibbsite.structure.union"), later("gibbsite.structure.ways")
scheduled = later("gibbsite.plans.schedule.schedule")
unrepeatable = later("gibbsite.validation.unrepeatable")

_SHOWN = 3
"""Structures that are looked at where there may be any number: for pictures and lists."""


_OF_STRUCTURE = (
    "loop-without-end", "decided-through-jax", "computed-by-jax", "sampled-twice", "statements-that-change",
    "values-that-cannot-be-listed",
)  # fmt: skip
"""Headings of errors that only some structure has: of others, that a value was asked for is told first."""
_OF_DATA = (
    "nan-in-a-covariate", "no-numbers", "index-of-another-type", "index-out-of-range", "impossible-parameter",
    "whole-numbers",
)  # fmt: skip
"""Of data, whatever the structure is."""


class Unprepared:
    """What asks for a model's programs before a run finds: nothing, as structures are made when chains come
    to them. `asked` is the text of the model's own schedule. For all else it raises what `told` says."""

    ahead, asked = False, None

    def __init__(self, told: Callable[[], Exception]):
        self._told = told

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else self._told()

    def before_ready(self) -> None:
        """Nothing."""


class Changing:
    """For `gibbsite.facade.ChangingModel`, in place of what `Model` says: a NumPyro model in which Python
    asks for the value of a discrete draw, or what continuous ones decide, bound to its arguments.

    For every such value the model is an ordinary one, a *structure*: `structure(K=3)` is it, with all that a
    `Model` has. `sample(…)` draws from all of them: chains go between structures, of which each is analysed
    and compiled when a chain first proposes it.
    """

    fn: Callable
    args: tuple
    kwargs: Mapping[str, Any]
    name: str
    _static: Callable[[Callable], Any]
    _carried: Callable[[str, Any], str | None]

    def __init__(
        self,
        fn: Callable,
        args: tuple = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        source: str | None = None,
        name: str | None = None,
        refused: ModelError | None = None,
    ):
        """`refused`: what the model as a static one was refused with, which is raised where no structure can
        be made of it either."""
        self.analysis = bound(fn, args, kwargs, name)
        self._source, self.posterior, self.execution = source, object(), Unprepared(self._of_one)
        before = unrepeatable.random_state()
        try:
            asking = with_columns(fn, self.analysis.known, as_columns)
            self.structured: Structured = moving.Structured(
                asking, self.args, self.kwargs, self._static, self.name
            )
            self.structured.carried, self.structured.origin = self._carried, self
            first = self.structured.ways.drawn(np.random.default_rng(0))
            self.structured.straight(first)
        except GibbsiteError as problem:
            # what is misspelt there is misspelt, whatever the structure is
            if problem.entry == "missing-values":
                told = str(problem).partition("'). ")[0]
                raise DataError(
                    f"{told}'). Leave their rows out, as with `df.dropna()`: what becomes of missing values "
                    "can be said of a model of one structure alone, and Python asks here for what is drawn"
                ).at(problem.place, problem.entry, problem.part) from problem
            whatever = problem.entry in (*_OF_STRUCTURE, *_OF_DATA) or isinstance(problem, WordError)
            # elsewhere than where the static model ended: behind what Python asked for
            behind = refused is not None and problem.place is not None and problem.place != refused.place
            if refused is None or whatever or behind:
                raise
            raise refused from problem

        found = (
            unrepeatable.other_each_time(
                before, self.structured.ways.model(way), self.args, dict(self.kwargs)
            )
            for way in self.structured.all or [first]
        )
        self._random = next(filter(None, map(tuple, found)), ())
        self._most = self.structured.ways.most(first)

    @property
    def notes(self) -> tuple[str, ...]:
        """With what the structure changes, and what a model with one structure would be told."""
        asked, count = ", ".join(self.structured.decisions), self.structured.all
        many = f"{len(count)} structures" if count is not None else "structures are found as chains go"
        if self._most > moving.MOST:
            many += f", perhaps {self._most:,} of them, and a run that comes to more than {moving.MOST} ends"
        arrays = "; where one formula has both, `jnp.where(condition, a, b)` or `jnp.maximum` keeps one model"
        return (f"its structure changes with {asked}: {many}{arrays if '?' in asked else ''}", *self._random)

    def structure(self, values: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The ordinary model of one structure, in which what Python asks for has these values:
        `model.structure(K=3)`. Raises `OptionError` for values that leave something open or are none, and
        `ModelError` where nothing is drawn there."""
        way = self.structured.way_of({**(values or {}), **more})
        found = self.structured.straight(way).model
        if found is None:
            raise ModelError(f"nothing is left to draw where {ways.named(way)}")
        return found

    @property
    def _looked_at(self) -> "list[Way]":
        if self.structured.all is not None:
            return self.structured.all
        numbers = np.random.default_rng(0)
        found: dict[Way, None] = {}
        for _ in range(100):
            found[self.structured.ways.drawn(numbers)] = None
            if len(found) == _SHOWN:
                break
        return sorted(found, key=len)

    @property
    def one(self) -> Any:
        """The ordinary model of one structure, for what all have in common."""
        return self.structured.straight(self._looked_at[0]).whole

    @property
    def density(self) -> Any:
        """None that holds for all structures: `structure(…)` has one. Raises `ModelError`."""
        raise self._of_one()

    def _of_one(self) -> ModelError:
        return StructureError(
            f"the structure of model {self.name!r} changes with {', '.join(self.structured.decisions)}: "
            f"model.structure(…) is the ordinary model of one structure, which has what is asked for"
        )

    def check(self, *args: Any, **options: Any) -> Any:
        """Of one structure. Raises `ModelError`."""
        raise self._of_one()

    many = check

    @property
    def sites(self) -> Mapping[str, Any]:
        """The sites of the structures that were looked at, by name, each as the first one has it."""
        found: dict[str, Any] = {}
        for way in self._looked_at:
            model = self.structured.straight(way).model
            found.update({n: s for n, s in (model.sites if model else {}).items() if n not in found})
        return MappingProxyType(found)

    @cached_property
    def graph(self) -> "DependencyGraph":
        """The graphs of some structures as one, with gates: edges from what Python asks for to what is there,
        or as large, for some of its values only."""
        return union.union_graph([self.structured.straight(way) for way in self._looked_at])

    def schedule(self, text: Any = None, **options: Any) -> "StructureSchedule":
        """How chains go between structures, and what each is updated by: `Structure K > NUTS [mu g]`, where
        what stands after `>` is for the sites that a structure has; without it, every structure has its own
        default. Raises `ScheduleError`."""
        inner = self.structured.inner_of(self.execution.asked if text is None else text)
        return StructureSchedule(self.structured, tuple(self._looked_at), inner)

    def with_schedule(self, schedule: Any) -> Any:
        """The same model with another default schedule, checked now."""
        text = getattr(schedule, "text", schedule)
        self.structured.inner_of(text)
        changed: Any = type(self)(self.fn, self.args, self.kwargs, source=self._source, name=self.name)
        changed.execution.asked = text
        return changed

    def plan(self, schedule: Any = None) -> Any:
        """The structures that are known and a schedule, ready to run."""
        inner = self.structured.inner_of(self.execution.asked if schedule is None else schedule)
        return self.structured.plan(self._looked_at, inner)

    def plan_of(self, structures: Sequence[Mapping[str, Any]], schedule: str) -> Any:
        """The plan of a saved run, which knows these structures."""
        return self.structured.plan(moving.ways_from(structures), self.structured.inner_of(schedule))

    def starts(self, settings: Any, init: Mapping[str, Any] | None = None) -> Any:
        """Where chains start: see `Structured.starts`."""
        return self.structured.starts(settings, init)

    def engine_for(self, plan: Any, settings: Any, device: str | None, on: Any = None) -> Any:
        """An engine for a plan of this model, yet to be compiled, and where it runs. Raises `OptionError` for
        workers `on`, which such a run cannot have."""
        if on is not None:
            raise OptionError("on: chains that go between structures run on this machine")
        return self.structured.engine_for(plan, settings, device)

    def start(self, *, schedule: Any = None, **options: Any) -> "StructureRun":
        """Sample in the background: returns the run at once. Arguments as for `sample`."""
        return starting.start(**self._asked(schedule, options))

    def sample(
        self, *, schedule: Any = None, on_start: Callable[[Any], Any] | None = None, **options: Any
    ) -> "StructureRun":
        """Sample and wait for the end: `draws`, `warmup` (500), `chains`, `seed`, `thin`, `device`, `chunk`,
        `until`, `max_draws`, `store`, `resume` as for any model. `init` has values of sites and of what
        Python asks for; `structures` are those to be known from the beginning, mappings of what Python asks
        for; draws are the same whichever are. Raises `ArgumentError` for other options."""
        return starting.sample(on_start=on_start, **self._asked(schedule, options))

    def _asked(self, schedule: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        inner = self.structured.inner_of(self.execution.asked if schedule is None else schedule)
        plan, rest = self.structured.asked(inner, dict(options))
        return {"plan": plan, "analysed": time.monotonic() - began, **rest}

    @property
    def unread(self) -> tuple[str, ...]:
        """Not looked for."""
        return ()

    def _ipython_display_(self, **kwargs: Any) -> None:
        self.graph._ipython_display_(**kwargs)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        try:
            return views().bundle_of(self)
        except ImportError:
            return {"text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Model {self.name}: structure changes with {', '.join(self.structured.decisions)}>"


class StructureSchedule:
    """The ways and the moves in words; `text` is the schedule in one line."""

    def __init__(self, structured: "Structured", ways: "tuple[Way, ...]", inner: str | None):
        self._structured, self._ways, self._inner = structured, ways, inner
        self.text = structured.text(inner)

    @property
    def rows(self) -> tuple[Any, ...]:
        """How chains go between structures, and the rows of the schedules of those that were looked at, each
        once."""
        known = [self._structured.straight(way, self._inner) for way in self._ways]
        sites = self._structured.decisions
        moves = "each of its values is a structure, with its own updates, and chains go between these"
        own = scheduled.Row(sites, "Structure", moves, "", "one proposal")
        inner = [row for s in known if s.schedule is not None for row in s.schedule.rows]
        return tuple(dict.fromkeys((own, *inner)))

    def members(self, sites: Sequence[str]) -> tuple[str, ...]:
        """The sites that names stand for: themselves."""
        return tuple(sites)

    def __str__(self) -> str:
        known = [self._structured.straight(way, self._inner) for way in self._ways]
        some = "" if self._structured.all is not None else ", …: others are found as chains propose them"
        lines = [f"{self.text}: a sweep within the structure, then a proposal of another"]
        for s in known:
            text = "nothing to draw" if s.schedule is None else s.schedule.text
            lines.append(f"  where {s.name}:  {text}")
            if s.gone:
                lines.append(f"    moves: {', '.join(s.gone)} {s.marginal.gone}, then drawn exactly")  # type: ignore[union-attr]
            if s.left:
                kept = "kept where both structures have it, else from its prior"
                kept = "kept if both have it, else from its prior or what warm-up learnt" if s.anew else kept
                lines.append(f"    moves: {', '.join(s.left)} {kept}")
        lines.append(f"{len(known)} structures{some}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)  # what `%schedule` shows
