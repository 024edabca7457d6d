"""A model whose structure changes → the structures that are known of it, plans over them, and runs."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from gibbsite.density import Site
from gibbsite.density.liveness import MOST_FORMS
from gibbsite.diagnostics.predictive.parts import Part
from gibbsite.errors import (
    ArgumentError,
    DataError,
    GibbsiteError,
    ModelError,
    OptionError,
    ScheduleError,
    nearest,
)
from gibbsite.ground import arguments as sensible
from gibbsite.inputs.reading import program_of
from gibbsite.plans.schedule.plan import Block, Plan
from gibbsite.sampling.engine.resources import Place, capacity, choose_device
from gibbsite.sampling.engines import surroundings_of
from gibbsite.sampling.run import Settings
from gibbsite.sampling.start import option_names, ours, settings_for
from gibbsite.structure.asking import SCHEDULE, Asked, decided_by, named_in
from gibbsite.structure.automaton import INDEX, Automaton
from gibbsite.structure.engine import StructureEngine
from gibbsite.structure.present import Entry
from gibbsite.structure.straight import Straight
from gibbsite.structure.ways import Spread, Way, Ways, named

MOST = 100
"""Structures that one run may know: each is a part of its program, which takes seconds to compile."""
_WARMUP = 500
_DRAWS = 1000
"""Ways that are drawn from the prior until one is found where a chain can start; most of them were before."""
OPTIONS = (
    *("draws", "warmup", "chains", "seed", "thin", "init", "device", "chunk", "until", "max_draws"),
    *("structures", "store", "resume", "durable"),
)


class Structured:
    """What is known of the structures of `fn(*args, **kwargs)`; `make(fn)` makes a static one a `Model`."""

    def __init__(self, fn: Callable, args: tuple, kwargs: Mapping[str, Any], make: Callable, name: str):
        self.ways, self._make, self.name = Ways(fn, args, kwargs), make, name
        self._args, self._kwargs = args, dict(kwargs)
        self._known: dict[tuple[Way, str | None], Straight] = {}
        self._lock = threading.RLock()
        self.origin: Any = None
        self._program = program_of(fn)
        asked = self.ways.node(())
        if asked is None:
            raise ModelError("the model asks for the value of no draw")
        self.all = self.ways.all_of(MOST_FORMS)

    def straight(self, way: Way, inner: str | None = None) -> Straight:
        """The structure of a way, made once. Raises what making its model raises, with the way."""
        with self._lock:
            if (way, inner) not in self._known:

                def make(fn: Callable) -> Any:
                    model = self._make(fn)
                    return model if inner is None else model.with_schedule(self._restricted(inner, model))

                try:
                    self._known[way, inner] = Straight(
                        way,
                        self.ways.model(way),
                        self._args,
                        self._kwargs,
                        make,
                        self.ways.growing(way),
                        self.all is not None,
                    )
                    if (way, None) in self._known:  # a schedule changes nothing of the prior
                        self._known[way, inner].looked_at_as(self._known[way, None])
                except GibbsiteError as problem:
                    told = type(problem)(f"where {named(way)}: {problem}")
                    raise told.at(problem.place, problem.entry, problem.part) from problem
                except Exception as problem:
                    problem.add_note(f"where {named(way)}")
                    raise
            return self._known[way, inner]

    def _restricted(self, inner: str, model: Any) -> str:
        """A schedule's text for the sites that one structure has."""
        latents = [n for n, s in model.sites.items() if s.latent]
        found = self.carried(inner, latents)
        if found is None:
            raise ScheduleError(
                f"the schedule {inner!r} does not update all of {', '.join(latents)}: after `>` stand the "
                f"updates of all sites that any structure has"
            )
        return found

    carried: Callable[[str, Sequence[str]], str | None]

    def way_of(self, values: Mapping[str, Any]) -> Way:
        """The way with these values. Raises `OptionError` for values that are none of what is asked for, or
        that leave something open."""
        left, way = dict(values), ()
        while (node := self.ways.node(way)) is not None:
            if node.site not in left:
                raise OptionError(
                    f"the structure is open: {node.site!r} is asked for"
                    f"{' where ' + named(way) if way else ''}; give its value too"
                )
            way = (*way, (node.site, node.given(left.pop(node.site))))
        if left:
            raise OptionError(f"{next(iter(left))!r} is not asked for where {named(way)}")
        return way

    @property
    def decisions(self) -> tuple[str, ...]:
        """The names of what is asked for, as far as it is known, those of indexed sites without indices."""
        ways = self.all or [way for way, _ in self._known] or [self.ways.drawn(np.random.default_rng(0))]
        return tuple(dict.fromkeys(_unindexed(n) for way in ways for n, _ in way))

    def prior(self, count: int, seed: int) -> list[Part]:
        """So many draws from the prior, by structure: Python runs the model once for each. Raises
        `ModelError` where it has a factor, or draws what the model does not."""
        keys = jax.random.split(jax.random.key(seed), count)
        drawn = [self.ways.forward(key) for key in keys]
        parts = []
        for way in dict.fromkeys(way for way, _ in drawn):
            there = np.array([[w == way for w, _ in drawn]])
            values = [v for w, v in drawn if w == way]
            model, names = self.straight(way).whole, tuple(n for n, _ in way)
            own = [f for f in model.density.factor_names if f not in model.density.decisions]
            lost = [n for n in model.density.latents if n not in values[0] and model.sites[n].shape != ()]
            if own:
                raise ModelError(
                    f"the factor {own[0]!r} has no distribution to be drawn from, so that the prior is not "
                    "what the statements draw"
                )
            if lost:
                raise ModelError(
                    f"{lost[0]!r} is not drawn by the model as it is written: the prior of one structure is "
                    "model.structure(…).predict()"
                )
            shapes = {n: model.sites[n].shape for n in model.density.latents}
            draws = {
                n: np.stack([np.asarray(v.get(n, np.zeros(s, np.float32))) for v in values])[None]
                for n, s in shapes.items()
            }
            parts.append(Part(model, draws, there, names))
        return parts

    # plans

    def plan(self, ways: Sequence[Way], inner: str | None = None) -> Plan:
        """A plan over the structures of `ways`. Raises `ModelError` for more than there may be."""
        if len(ways) > MOST:
            raise ModelError(
                f"chains visit more than {MOST} structures, {named(ways[-1])} last: each is compiled, so a "
                f"run knows no more. Make priors of the decisions tighter, or write what changes as a mask"
            )
        known = [self.straight(way, inner) for way in ways]
        _check_proper(known)
        whole = self.all is not None and set(self.all) == set(ways)
        if whole and all(s.barred is not None for s in known):
            why = known[0].barred
            assert why is not None
            raise DataError(f"the data are impossible in every structure; where {known[0].name}: {why}").at(
                why.place, why.entry, why.part
            )
        automaton = Automaton(
            self.ways,
            known,
            lambda way: self.plan([*ways, way], inner),
            lambda way: way in self.ways.barred or self.straight(way, inner).barred is not None,
            whole,
        )
        return self._planned(automaton, inner)

    def _planned(self, automaton: Automaton, inner: str | None) -> Plan:
        known = automaton.known
        sites: dict[str, Site] = {}
        for name, room in automaton.rooms.items():
            models = [s.model for s in known if s.model is not None and name in s.model.sites]
            if models:
                like = models[0].sites[name]
                latent = name in automaton.latents
                sites[name] = replace(
                    like,
                    shape=room.shape,
                    dtype=room.dtype,
                    role="latent" if latent else "deterministic",
                    support=None,
                )
            else:
                sites[name] = _computed(name, room.shape, room.dtype)
        if INDEX in sites:
            raise ModelError(f"a site may not be called {INDEX!r}, which tells the structure of a draw")
        sites[INDEX] = _computed(INDEX, (), np.dtype(np.int32))
        observed = {n: v for s in known if s.model is not None for n, v in s.model.observed.items()}
        observed = {n: v for n, v in observed.items() if not any(n in dict(s.way) for s in known)}
        text = self.text(inner)
        digest = hashlib.sha256(repr([s.way for s in known]).encode())
        if not automaton.whole:  # what structures that nobody has met will be
            digest.update(self._program.encode())
        for s in known:
            digest.update(b"-" if s.model is None else s.model.execution.fingerprint.encode())
        label = " ".join(self.decisions)
        return Plan(
            kernel=automaton,  # type: ignore[arg-type]
            inputs={"ways": tuple(s.inputs for s in known)},
            blocks=(Block(label, "Structure", tuple(automaton.latents)),),
            sites=sites,
            observed=observed,
            groups={},
            fingerprint=digest.hexdigest()[:32],
            cache_key=None,
            model_name=self.name,
            schedule_text=text,
            density=next((s.model.density for s in known if s.model is not None), None),
            origin=self.origin,
            labels=_labels([s.model for s in known if s.model is not None]),
        )

    def text(self, inner: str | None = None) -> str:
        """The schedule's text: `Structure K > NUTS [mu g]`."""
        head = f"Structure {' '.join(self.decisions)}"
        return head if inner is None else f"{head} > {inner}"

    def inner_of(self, text: Any) -> str | None:
        """What a schedule's text says of the inside of structures; None where it leaves that to them. Raises
        `ScheduleError` for what is no schedule of this model."""
        if text is None:
            return None
        like = f"Structure {' '.join(self.decisions)} > NUTS *"
        found = SCHEDULE.match(text) if isinstance(text, str) else None
        inner = found["inner"] or "" if found else text if isinstance(text, str) else ""
        if asked := [n for n in self.decisions if n in re.findall(_WORD, inner)]:
            rest = re.sub(_WORD, lambda m: "" if m[0] in asked else m[0], inner)
            rest = re.sub(r"\[\s*(\S+)\s*\]", r"\1", rest)
            rest = re.sub(r"(> *[A-Z]\w*) *$", r"\1 *", rest)
            rest = rest if re.match(r"\w+ [\w\[*]", rest) and "Structure" not in rest else "NUTS *"
            raise ScheduleError(
                f"{asked[0]!r} decides how many sites or which statements there are, so it cannot be summed "
                f"out or updated beside them: chains go between its values by Structure, and moves integrate "
                f"out what they can. Write {self.text(rest.strip())!r}"
            )
        if not found:
            raise ScheduleError(
                f"this model's structure changes, so its schedule begins with the structure's own update: "
                f"{like!r}, not {sensible.shown(text)}"
            )
        names = named_in(text)
        for name in names:
            if name not in self.decisions:
                raise ScheduleError(
                    f"Python asks for {', '.join(self.decisions)}, not for {name!r}"
                    f"{nearest(name, self.decisions)}: write {like!r}"
                )
        missing = [n for n in self.decisions if n not in names]
        if missing:
            raise ScheduleError(f"Python also asks for {missing[0]!r}: write {like!r}")
        return found["inner"]

    # runs

    def asked(self, inner: str | None, options: dict[str, Any]) -> tuple[Plan, dict[str, Any]]:
        """The plan of a run with these options (see `OPTIONS`), and the options for `sampling`. `structures`
        are to be known from the beginning, mappings of what Python asks for; draws are the same whichever
        are. Raises `ArgumentError` for other options."""
        for name in options:
            if name not in OPTIONS:
                other = (
                    ", which those of one structure have" if name in option_names() else ours(name, OPTIONS)
                )
                raise ArgumentError(
                    f"sampling a model whose structure changes has no option {name!r}{other} "
                    f"(options: {', '.join(OPTIONS)}, schedule)"
                )
        ahead = [
            self.way_of(sensible.by_name("structures", v)) for v in options.pop("structures", None) or ()
        ]
        if options.get("warmup", "auto") == "auto":
            options["warmup"] = _WARMUP
        like = {k: options[k] for k in ("draws", "warmup", "chains", "seed") if k in options}
        first = [way for way, _ in self.starts(settings_for(**like), options.get("init"))]
        plan = self.plan(list(dict.fromkeys([*(self.all or ()), *first, *ahead])), inner)
        return plan, {**options, "rescue": False}

    def starts(
        self, settings: Settings, init: Mapping[str, Any] | None = None
    ) -> list[tuple[Way, dict[str, np.ndarray]]]:
        """By chain: the structure that it starts in, drawn from the prior so that chains are spread over it,
        of those where the data have a density, and values of sites there. `init` has some of what Python
        asks for and of these values, for all chains or, with an axis of chains before the site's own, for
        each. Raises `OptionError`."""
        init = {} if init is None else {n: np.asarray(v) for n, v in sensible.by_name("init", init).items()}
        total, found, used = settings.all_chains or settings.chains, [], set()
        for c in range(settings.first_chain, settings.first_chain + settings.chains):

            def own(name: str, shape: tuple[int, ...], c: int = c) -> Any:
                used.add(name)
                if init[name].shape not in (shape, (total, *shape)):
                    raise OptionError(
                        f"init: {name!r} has shape {init[name].shape}; it is {shape}, or {(total, *shape)} "
                        f"for each chain"
                    )
                return init[name] if init[name].shape == shape else init[name][c]

            def value(node: Asked, own: Any = own) -> Any:
                return node.given(own(node.site, node.shape)) if node.site in init else None

            way = self._start(Spread(settings.seed, c, total), value)
            places = self.straight(way).places
            found.append((way, {n: own(n, p.shape) for n, p in places.items() if n in init}))
        if rest := [n for n in init if n not in used]:
            raise OptionError(f"init: no chain starts where {rest[0]!r} is drawn: {named(found[0][0])}")
        return found

    def _start(self, numbers: Spread, given: Callable[[Asked], Any]) -> Way:
        """A way from the prior, with what is `given`, where the data have a density: of those that are drawn,
        else of all, where these are few. The first that is drawn where no such way is found."""
        first, looked = self.ways.drawn(numbers, given), set[Way]()

        def agrees(way: Way) -> bool:
            nodes = [self.ways.node(way[:i]) for i in range(len(way))]
            told = [None if node is None else given(node) for node in nodes]
            return all(v is None or v == own for v, (_, own) in zip(told, way, strict=True))

        def drawn() -> Iterator[Way]:
            yield first
            for _ in range(_DRAWS):
                yield self.ways.drawn(numbers, given)
            every = [way for way in self.ways.all_of(MOST) or () if agrees(way)]
            at = int(numbers.random() * len(every))
            yield from (*every[at:], *every[:at])

        for way in drawn():
            if way in looked or way in self.ways.barred:
                continue
            if self.straight(way).possible:
                return way
            looked.add(way)
            if len(looked) == MOST:
                break
        return first

    def engine_for(self, plan: Plan, settings: Settings, device: str | None) -> tuple[StructureEngine, Place]:
        """An engine, yet to be compiled, and where it runs."""
        place = choose_device(device, plan, settings.chains)
        share = (settings.first_chain, settings.all_chains or settings.chains)
        room = capacity(plan, settings.chains)
        shape = (settings.chains, settings.warmup, room, place.devices[:1], settings.thin, None, share)
        made = StructureEngine(plan, *shape, surroundings=surroundings_of(plan))
        return made, place


_WORD = r"[^\s\[\](),*>]+"


def _unindexed(name: str) -> str:
    return re.sub(r"\[\d+\]" if decided_by(name) else r"\[\d+\]$", "", name)


def _computed(name: str, shape: tuple[int, ...], dtype: Any) -> Site:
    whole = np.dtype(dtype).kind in "iub"
    return Site(name, shape, dtype, None, "deterministic", whole, (), shape, (), "Deterministic", None)


def _labels(models: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """Labels by plate that are the same in all structures which have the plate: of one whose size changes
    they would be of elements that come and go."""
    every: dict[str, set[Any]] = {}
    for model in models:
        for plate in model.density.plates:
            every.setdefault(plate, set()).add(model.plate_labels.get(plate))
    return {n: next(iter(those)) for n, those in every.items() if len(those) == 1 and None not in those}


def ways_from(told: Sequence[Mapping[str, Any]]) -> list[Way]:
    """The ways that a checkpoint tells of, in its order."""
    return [Entry.from_json(one).way for one in told]


def _check_proper(known: Sequence[Straight]) -> None:
    """Refuse structures that differ in what has an improper prior: how probable one is beside another would
    depend on a factor that an improper density does not have. Raises `ModelError`."""
    first: dict[str, tuple[int, ...]] | None = None
    for s in known:
        sites = {} if s.model is None else s.model.density.sites
        flat = {n: v.shape for n, v in sites.items() if v.latent and v.fn_name == "ImproperUniform"}
        first = flat if first is None else first
        if differ := [n for n in {**first, **flat} if first.get(n) != flat.get(n)]:
            name = differ[0]
            holds = next(k for k in known if k.model is not None and name in k.model.density.sites)
            site = holds.model.density.sites[name]
            raise ModelError(
                f"the prior of {name!r} is improper, and structures differ in it ({known[0].name}; {s.name}):"
                f" how probable one is beside another depends on a factor that an improper density has not. "
                f"Give {name!r} a proper prior, or sample one structure at a time, model.structure(…)"
            ).at(site.line)
