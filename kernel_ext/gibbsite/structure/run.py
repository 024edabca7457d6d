"""A run whose chains go between structures."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.convergence import worst_first
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.diagnostics.measures.thinned import Preview
from gibbsite.diagnostics.predictive.parts import Part
from gibbsite.errors import GibbsiteError, ModelError, OptionError, UnknownNameError
from gibbsite.ground.arguments import a_name
from gibbsite.kernels.nuts.report import Centring
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.evaluation.pieces import in_marked
from gibbsite.sampling.derived.derived import Derived
from gibbsite.sampling.derived.expression import Shape, parse
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.in_flight import Chunk
from gibbsite.sampling.engine.resources import Place
from gibbsite.sampling.engine.stages import COMPILING, SAMPLING, WARMING
from gibbsite.sampling.engine.starting import Start
from gibbsite.sampling.run import Run, Settings
from gibbsite.storage.draws import Drawn, Draws, scalar_labels
from gibbsite.storage.names import axis_labels
from gibbsite.storage.store import described
from gibbsite.structure.automaton import INDEX, Automaton, with_room
from gibbsite.structure.engine import StructureEngine
from gibbsite.structure.found import Structures, conditional_stats, found, summarised
from gibbsite.structure.present import Entry, InStructures, seen
from gibbsite.structure.watching import FixedWarmup, StructureMonitor
from gibbsite.structure.ways import Way

_ATTEMPTS, _OF_PRIOR = 50, 25


class _NoClock:
    """Blocks are not timed: every structure has its own."""

    shares = None

    def due(self, *_: Any) -> bool:
        """Never."""
        return False


class StructureRun(Run):
    """Chains over the structures of one model. `draws` have NaN where a site is absent; `structures` tells
    which there are, with their probabilities. Draws are those of all structures there could be, whichever are
    known when it begins."""

    _engine: StructureEngine | None

    def __init__(
        self, plan: Plan, engine: Engine | None, settings: Settings, *, init: Any = None, **more: Any
    ):
        self._entries: list[Entry] = entries_of(plan.kernel) if isinstance(plan.kernel, Automaton) else []
        super().__init__(plan, engine, settings, **more)
        self._init = init
        if isinstance(engine, StructureEngine) and self._place is not None:
            self.give_engine(engine, self._place)
        self._fresh()
        self._warming = FixedWarmup(plan, settings.warmup, False, False)
        self._clock = _NoClock()  # type: ignore[assignment]

    def _fresh(self) -> None:
        self._monitor = StructureMonitor(self._plan, self._chains, lambda: self._entries)
        self._preview = Preview(self._plan)
        told = self._derived.facts()
        self._derived = Derived(self._parsed)
        self._derive_again(told)  # of arrays that may be larger now

    def _parsed(self, text: str, sites: Mapping[str, Shape]) -> Any:
        return InStructures(parse(text, sites), INDEX, lambda: self._entries)

    @property
    def _read(self) -> Mapping[str, np.ndarray]:
        return {**self.draws, INDEX: self._raw[0]}

    # running

    def begin_from(self, init: Any) -> None:
        """Start there, if the run that was saved had not begun yet."""
        self._init = init

    def _first_start(self, engine: StructureEngine) -> Start:
        """Chains in the structures that are given or were drawn for them, at draws from the prior that have a
        density with the data; where few of them have one, at the best that is known."""
        kernel, origin = engine.kernel, self._plan.origin
        starts = self._init or origin.starts(self.settings)  # type: ignore[union-attr]
        index = np.array([kernel.index(way) or 0 for way, _ in starts])
        z, given = {}, {}
        for name, room in kernel.latents.items():
            z[name] = np.stack([with_room(own.get(name), room) for _, own in starts])
            given[name] = np.array([name in own for _, own in starts])
        told = any(own for _, own in starts)
        state, level = engine.begin(self.settings.seed, 0, index, z, given)
        for attempt in range(1, _ATTEMPTS):
            bad = ~np.isfinite(level)
            if not bad.any():
                return Start(state if told else engine.walked(state), "chains start at init=" * told)
            for c in np.flatnonzero(bad) if attempt == _OF_PRIOR else ():
                for name, value in kernel.known[index[c]].best.items():
                    if not given[name][c]:
                        z[name][c], given[name][c] = with_room(value, kernel.latents[name]), True
            other, there = engine.begin(self.settings.seed, attempt, index, z, given)
            state = in_marked(bad, other, state)
            level = np.where(bad, there, level)
        names = " or ".join(f"({kernel.known[i].name})" for i in np.unique(index[~np.isfinite(level)]))
        agrees = " that agrees with init" if told else ""
        raise ModelError(
            f"chains find no start: where {names}, no draw from the prior{agrees} has a density with the "
            "data, nor was another structure found that has. The data are impossible there, or priors are "
            "far from them; init= says where chains start: structures (by what Python asks for) and values"
        )

    def learnt(self, way: Way) -> None:
        """Make known what a chain proposes, and give room for it."""
        engine, before = self._engine, self._plan.kernel
        if engine is None or not isinstance(before, Automaton):
            raise ModelError(f"the run of {self.model_name!r} goes on only with its model")
        with self._compiling():
            self._become(engine, before.learn(way))

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """Something is made ready that chains wait for."""
        stage = self._stages.now
        if stage in (None, COMPILING):
            yield
            return
        began = time.monotonic()
        self._stages.enter(COMPILING)
        self._notify()
        try:
            yield
        finally:
            if stage in (WARMING, SAMPLING):  # what is before is counted as a whole
                self._compile_seconds += time.monotonic() - began
            self._stages.enter(stage)

    def _become(self, engine: StructureEngine, plan: Plan) -> None:
        """Give room for what a plan knows that the run's does not."""
        after = plan.kernel
        assert isinstance(after, Automaton)
        engine.become(plan)
        with self._lock:
            self._plan, self._entries = plan, entries_of(after)
            self.kept = with_room_for(plan, self.kept, self.settings)
            self._state = after.widened(self._state)
            raw = self.kept.sampled.read()
            divergences = self._monitor.divergences
            self._fresh()
            self._monitor.divergences = divergences
            self._monitor._draws = next((v.shape[1] for v in raw.values()), 0)
        if self._committing is not None:
            self._committing.becomes(plan)

    # what it tells

    @property
    def _raw(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        raw = dict(self.kept.sampled.read())
        index = raw.pop(INDEX, np.zeros((self._chains, 0), np.int32))
        return index, raw

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """Completed draws after warm-up, `[chain, draw, *shape]` by site, the values that Python asked for
        first: NaN where a site, or an element of it, is absent."""
        index, raw = self._raw
        return Drawn(seen(index, raw, self._entries))

    @property
    def structures(self) -> Structures:
        """The structures that draws are in, the most probable first, each with its probability, the standard
        error of that, and its share of each chain."""
        kernel = self._plan.kernel
        known = kernel.known if isinstance(kernel, Automaton) else ()

        def log_prior(name: str) -> float | None:
            told = next((e.log_prior for e in self._entries if e.name == name), None)
            return next((s.log_prior for s in known if s.name == name), told)

        return found(self._raw[0], self._entries, [s.name for s in known if s.impossible], log_prior)

    def diagnostics(self, site: str | None = None) -> list[ScalarStat]:
        """The measures of every scalar (of `site`, or of all) in the draws that have it, worst first."""
        draws = {**self.draws, **self._numbers()}
        if site is not None and a_name("site", site, draws) not in draws:
            raise UnknownNameError("site", site, draws)
        return worst_first(conditional_stats(draws if site is None else {site: draws[site]}))

    def _scalar(self, label: str) -> tuple[str, tuple[int, ...]]:
        known = {n: (site, at) for n, site, at in scalar_labels(self._told_values)}
        if label not in known:
            raise UnknownNameError("parameter", label, known)
        return known[label]

    @property
    def _told_values(self) -> dict[str, np.ndarray]:
        """What a person may look at by its label: draws, what is derived, and indicators of structures."""
        raw = self.kept.sampled.read()
        judged = self._monitor.judge(raw) if raw else {}  # type: ignore[attr-defined]
        return {**self.draws, **self._numbers(), **{n: v for n, v in judged.items() if n not in raw}}

    def values(self, label: str) -> np.ndarray:
        """All draws of one scalar, `[chain, draw]`: NaN where it is absent; `[K = 2]` is the indicator of a
        structure."""
        site, index = self._scalar(label)
        return self._told_values[site][(..., *index)]

    def summary(self, var_names: str | Sequence[str] | None = None) -> Any:
        """A table of every scalar in the draws that have it: the share that have, mean, standard deviation,
        an interval of 89 %, and the Monte Carlo error of the mean. Raises `OptionError` of no draws, and
        `UnknownNameError` for a name that is not there."""
        if not self.kept.sampled.steps:
            raise OptionError("summary: there are no draws after warm-up yet; run.resume() goes on")
        every = {**self.draws, **self._numbers()}
        names = [var_names] if isinstance(var_names, str) else var_names or every
        for name in names:
            if a_name("variable", name, every) not in every:
                raise UnknownNameError("variable", name, every)
        shapes = {n: every[n].shape[2:] for n in names}
        return summarised({n: every[n] for n in names}, lambda n: axis_labels(self._plan, n, shapes[n]))

    def to_datatree(self, **options: Any) -> Any:
        """As a run's; NaN where a site is absent. `sample_stats.structure` numbers the structures, whose
        names are its attribute `names`."""
        for name in ("posterior_predictive", "log_likelihood"):
            if options.get(name):
                raise OptionError(
                    f"{name} is computed for one structure at a time: condition the model on the values that "
                    f"Python asks for, model.structure(…), and sample that"
                )
        tree = super().to_datatree(**options)
        found = self.structures
        stats = tree["sample_stats"].to_dataset()
        named = (["chain", "draw"], found.index, {"names": [s.name for s in found]})
        tree["sample_stats"] = type(tree)(stats.assign(structure=named))
        return tree

    def parts(self) -> list[Part]:
        """The structures that have draws, each with its model and the draws there of what that draws. Raises
        `ModelError` for a run without its model."""
        index, raw = self._raw
        out = []
        for i in np.unique(index):
            entry, there = self._entries[i], index == i
            model = self.model.structured.straight(entry.way).whole
            shapes = {n: s.shape for n, s in model.sites.items() if n in model.density.latents and n in raw}
            draws = {n: raw[n][there][(None, slice(None), *map(slice, s))] for n, s in shapes.items()}
            for name in model.density.latents:  # nothing is left to draw there
                draws.setdefault(name, np.zeros((1, int(there.sum())), np.float32))
            out.append(Part(model, draws, there, tuple(n for n, _ in entry.way)))
        return out

    @property
    def probs(self) -> Mapping[str, np.ndarray]:
        """Not across structures: `structures` has their probabilities. Raises `ModelError`."""
        raise ModelError("probabilities of discrete sites are those of one structure; see run.structures")

    def elpd(self, *, kfold: int | None = None, by: Any = None, refit: bool = False) -> Any:
        """As a run's, over all structures: what each draw says of a datum is said in its structure. Raises
        `ModelError` for refits."""
        if kfold is not None or by is not None or refit:
            raise ModelError(
                "elpd: data are left out in refits of one structure at a time, model.structure(…)"
            )
        return super().elpd()

    def time_blocks(self) -> dict[str, float]:
        """Not across structures. Raises `GibbsiteError`."""
        raise GibbsiteError("every structure has blocks of its own, which are not timed apart")

    @property
    def centring(self) -> Centring:
        """None: structures learn by themselves."""
        return Centring({})

    @property
    def _aims(self) -> dict[int, float]:
        return {}

    def _facts(self, live: bool) -> dict[str, Any]:
        # what is known changes as the run goes on, and is that of the draws which are counted with it
        told = described(self._plan)
        now = {k: told[k] for k in ("sites", "observed_sites", "blocks", "fingerprint", "data")}
        kernel = self._plan.kernel
        ended = not live or self._status in ("finished", "stopped")
        if isinstance(kernel, Automaton) and ended:  # it takes a moment for each
            both = zip(self._entries, kernel.known, strict=False)
            self._entries = [replace(e, log_prior=_finite(s.log_prior)) for e, s in both]
        known = [e.as_json() for e in self._entries]
        return {**super()._facts(live), "structures": known, "described": now}

    def take_up(self, facts: Mapping[str, Any], *given: Any) -> None:
        """As a run's."""
        self._entries = [Entry.from_json(told) for told in facts["structures"]]
        super().take_up(facts, *given)

    def give_engine(self, engine: Engine, place: Place) -> None:
        """As a run's."""
        super().give_engine(engine, place)
        if isinstance(engine, StructureEngine):
            engine.learns_by(self.learnt, self._compiling)


def _finite(log_prior: float | None) -> float | None:
    return None if log_prior is None or not np.isfinite(log_prior) else log_prior


def entries_of(automaton: Automaton) -> list[Entry]:
    """What a run remembers of the known structures."""
    return [
        Entry(
            s.way,
            {n: p.shape for n, p in s.places.items()} | {n: shape for n, (shape, _) in s.computed.items()},
            {n: p.values for n, p in s.places.items() if p.values},
        )
        for s in automaton.known
    ]


def with_room_for(plan: Plan, kept: Draws, settings: Settings) -> Draws:
    """The same draws in arrays with room for the sites of a plan that knows more."""
    new = Draws(plan, kept.warmup, settings.draws, settings.keep_warmup)
    for values, stats in ((kept.warm, kept.warm_stats), (kept.sampled, kept.sampled_stats)):
        told = {n: np.moveaxis(v, 1, 0) for n, v in stats.read().items()}
        if not stats.steps:
            continue
        old = {n: np.moveaxis(v, 1, 0) for n, v in values.read().items()}
        wide = {}
        for name, site in plan.sites.items():
            lead = (stats.steps, settings.chains)
            array = np.zeros((*lead, *site.shape), site.dtype)
            if name in old:
                array[(slice(None), slice(None), *map(slice, old[name].shape[2:]))] = old[name]
            wide[name] = array
        new.append(Chunk(wide, told), stats.steps)
    return new
