"""Runs read back from disk. Nothing in the file is executed."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial as partial_of
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.diagnostics.verdict.history import Runs
from gibbsite.errors import CheckpointError, GibbsiteError, ModelError, ScheduleError
from gibbsite.ground import arguments as sensible
from gibbsite.ground import services as above
from gibbsite.ground.lock import writer
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.resources import shards_here
from gibbsite.sampling.engines import engine_for
from gibbsite.sampling.hosts import own_part, parts_in
from gibbsite.sampling.options import local_folder, place_of
from gibbsite.sampling.registry import forget
from gibbsite.sampling.registry import runs as of_this_process
from gibbsite.sampling.run import Run, Settings
from gibbsite.sampling.watch.results import Results
from gibbsite.sampling.watch.until import Until
from gibbsite.storage import checkpoint, journal
from gibbsite.storage.described import plan_without_model
from gibbsite.storage.facts import checked_facts, checked_settings
from gibbsite.storage.objects import Objects, ObjectStore, holds_run
from gibbsite.storage.reading import (
    add_later,
    damages,
    read_description,
    read_draws,
    read_whole,
    warn_of,
)
from gibbsite.storage.store import Store


def load(
    path: str | Path,
    model: Any = None,
    device: str | None = None,
    *,
    partial: bool = False,
    on: Any = None,
) -> Run:
    """The run saved, or streamed, in the folder `path`, or in an object store at that URL.

    Its draws, statistics and diagnostics are there at once; to `resume`, give the `model`: the same program
    and data (names of Python objects do not matter). A run that streamed to `path` goes on doing so, unless
    another process is at it (`StoreError`). Each host of a program of several reads its own part of the run.
    With `partial`, of a damaged store the draws before the damage, with a warning that names the files; such
    a run cannot go on. `on`: workers to go on with, as in `sample`. Nothing in the folder is executed,
    whatever it holds. Raises `CheckpointError` where the folder holds no run, or one of another format,
    where a file is missing or not as it was written, or, given a model, where the run is of another model,
    data or schedule, or by other versions of Gibbsite, JAX or NumPyro, whose draws would not be the same."""
    sensible.flag("partial", partial)
    sensible.text("device", device, "cpu")
    if model is not None and not callable(getattr(model, "plan", None)):
        raise ModelError(f"model must be a Model, as gibbsite.model makes it, not {sensible.shown(model)}")
    where = place_of(path)
    if parts_in(where) and not holds_run(where):
        where = own_part(where)
    planned = None if model is None else partial_of(_plan_of, model)
    return read_back(where, planned, device, on=on, partial=partial)


def read_back(where: Path | Objects, *given: Any, **named: Any) -> Run:
    """As `read_folder`, also of a run in an object store."""
    if not isinstance(where, Objects):
        return read_folder(where, *given, **named)
    folder = where.fetched()
    with where.told(folder):
        return read_folder(folder, *given, objects=where, **named)


def kind_of(changing: bool) -> type[Run]:
    """The runs of models whose structure is changing, or of others."""
    return above.ask("structure").StructureRun if changing else Run


def read_folder(
    folder: Path,
    planned: Callable[[dict[str, Any]], Plan] | None,
    device: str | None = None,
    *,
    on: Any = None,
    partial: bool = False,
    streaming: bool = False,
    durable: bool = True,
    going: bool = False,
    objects: Objects | None = None,
) -> Run:
    """As `load`, where `planned` makes of the store's description the plan to go on with; `streaming` has it
    write to `folder` even if it was saved, and not streamed, there. `going`: another process is at it.
    `objects`: what the folder was fetched from, and is kept in."""
    facts, state = checkpoint.read(folder)
    later = _later(folder, facts.get("commit"), partial)
    if later:  # what the draws' arrays hold is the checkpoint's; all else is as of the last commit
        state = later[-1].state
        facts = {**facts, **later[-1].facts, "draws": facts.get("draws")}
    facts = checked_facts(facts, folder)
    told = checked_settings(facts["settings"], folder)
    settings = Settings(**told)
    if settings.keep is not None:
        settings = replace(settings, keep=tuple(settings.keep))
    described = read_description(folder, facts)
    if planned is None or partial:
        plan = plan_without_model(described, folder)
    else:
        checkpoint.same_versions(facts["versions"])
        plan = checked_plan(planned({**described, "structures": facts.get("structures")}), described)
    run = kind_of(facts.get("structures") is not None)(plan, None, settings)
    if partial:
        wrong = read_whole(folder, facts["draws"], run.kept)
        if not wrong:
            add_later(folder, later, run.kept, described)
        warn_of(folder, wrong, run.kept.sampled.steps)
    else:
        read_draws(folder, facts["draws"], run.kept)
        add_later(folder, later, run.kept, described)
    _agree(run, settings, folder)
    run.of_folder(folder, objects)
    other = None if streaming or going else writer(folder)
    try:
        run.take_up(facts, state, going, _results(folder))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        if isinstance(problem, GibbsiteError):
            raise
        raise CheckpointError(
            f"the saved run in {str(folder)!r} is damaged: what it tells of its state is not what was "
            f"written ({problem!r})"
        ) from problem
    if other is not None:
        run.goes_on_in(other)
    if partial:
        return run
    if facts["live"] or streaming:
        store = (
            Store(folder, plan, durable) if objects is None else ObjectStore.fetched(folder, plan, objects)
        )
        store.expect(facts)
        run.attach_store(store)
    if planned is not None:
        engine, place = engine_for(plan, _here(settings, plan, device, on), device, on)
        _same_surroundings(engine, facts.get("surroundings"))
        run.give_engine(engine, place)
    return run


def _later(folder: Path, commit: str | None, partial: bool = False) -> list[journal.Record]:
    """The commits after the checkpoint; `partial`: none where their file is damaged, with a warning."""
    try:
        return journal.read(folder, commit)
    except CheckpointError as problem:
        if not partial:
            raise
        warnings.warn(str(problem).partition(" What is whole of it")[0], stacklevel=3)
        return []


def _results(folder: Path) -> Results:
    """What was kept with the run; nothing, with a warning, where its list is damaged: the draws are whole."""
    try:
        return Results(folder)
    except CheckpointError as problem:
        warnings.warn(f"what was kept with the run is left out: {problem}", stacklevel=4)
        return Results()


def _here(settings: Settings, plan: Plan, device: str | None, on: Any) -> Settings:
    """With the shards of a plate that the devices here allow: others, maybe, than those it was begun on."""
    if settings.shard is None or on is not None:
        return settings
    return replace(settings, shard=shards_here(settings.shard, device, plan, settings.chains))


def _same_surroundings(engine: Engine, saved: Any) -> None:
    """Raise `CheckpointError` where JAX's settings are not those that the run was made in."""
    other = engine.surroundings.others(saved) if isinstance(saved, dict) else []
    if other:
        raise CheckpointError(
            f"the saved run was made with {', '.join(other)}; set this as it was when the run began, or it "
            f"would not go on exactly"
        )


def _agree(run: Run, settings: Settings, folder: Path) -> None:
    """Raise `CheckpointError` where draws are of other chains than the settings say."""
    for name, v in run.kept.sampled.read().items():
        if v.shape[0] != settings.chains:
            raise CheckpointError(
                f"the saved run in {str(folder)!r} is damaged: {name!r} has {v.shape[0]} chains, "
                f"its settings say {settings.chains}"
            )


def runs(folder: str | Path | None = None) -> Runs:
    """The runs of this process, oldest first: those going on, the last few made, and all that something still
    refers to. With a `folder`, those that are stored in it, at any depth, by the time of their last commit.

    A list that shows itself as a table, with what changed from run to run. What is damaged is left out, with
    a warning that names it. Raises `CheckpointError` where there is no such folder.
    """
    if folder is None:
        return of_this_process()
    path = local_folder("folder", folder)
    if not path.is_dir():
        raise CheckpointError(f"there is no folder {str(path)!r}")
    found = Runs()
    found.folder = path
    for saved in sorted(path.rglob(checkpoint.FILE), key=lambda p: p.stat().st_mtime):
        try:
            found.append(read_back(saved.parent, None))
        except CheckpointError as problem:
            warnings.warn(f"{str(saved.parent)!r} is left out: {problem}", stacklevel=2)
        else:
            forget(found[-1])  # it is none of this process's
    return found


@dataclass(frozen=True)
class Verified:
    """A store that is whole: how many draws per chain it holds, and of which sites; `requirements` is the
    line for pip that installs what it can go on with, bit for bit."""

    path: str
    draws: int
    sites: tuple[str, ...]
    requirements: str = ""

    def __str__(self) -> str:
        said = f"{self.path!r} is whole: {self.draws} draws per chain of {', '.join(self.sites)}"
        return f"{said}. To go on with it exactly: {self.requirements}"


def verify(path: str | Path) -> Verified:
    """Read every file of the run in `path` against its checksums.

    Raises `CheckpointError` that names each file which is missing or not as it was written.
    """
    where = place_of(path)
    if isinstance(where, Objects):
        folder = where.fetched()
        with where.told(folder):
            return replace(_verified(folder), path=str(where))
    return _verified(where)


def _verified(folder: Path) -> Verified:
    facts = checked_facts(checkpoint.read(folder)[0], folder)
    checked_settings(facts["settings"], folder)
    wrong = list(damages(folder, facts))
    try:
        later = journal.read(folder, facts.get("commit"))
    except CheckpointError as problem:
        wrong, later = [*wrong, str(problem)], []
    try:
        wrong += Results(folder).damages()
    except CheckpointError as problem:
        wrong.append(str(problem))
    if wrong:
        raise CheckpointError("\n".join(wrong))
    held = facts["draws"]["posterior"]
    new = [r.rows["posterior"] for r in later if r.rows.get("posterior")]
    steps = held["steps"] + sum(next(iter(rows.values())).shape[1] for rows in new)
    needs = checkpoint.requirements(facts["versions"])
    return Verified(str(folder), steps, tuple(new[0] if new else held["names"]), needs)


def _plan_of(model: Any, described: dict[str, Any]) -> Plan:
    """The model's plan under its own schedule, or else the saved one."""
    if described.get("structures") is not None:
        return model.plan_of(described["structures"], described["schedule"])
    own = model.execution.asked
    try:
        return model.plan(described["schedule"] if own is None else None)
    except ScheduleError as problem:
        raise CheckpointError(
            f"the saved run is of the schedule {described['schedule']!r}, which does not fit this model: "
            f"{problem}"
        ) from problem


def checked_plan(plan: Plan, described: dict[str, Any]) -> Plan:
    """The plan, if it is of the same model, data and schedule as what is saved. Raises `CheckpointError`."""
    name = described["model"]
    if plan.fingerprint != described["fingerprint"]:
        mine = {n: (s.shape, str(np.dtype(s.dtype))) for n, s in plan.sites.items()}
        saved = {s["name"]: (tuple(s["shape"]), s["dtype"]) for s in described["sites"]}
        differ = [n for n in {**saved, **mine} if saved.get(n) != mine.get(n)]
        what = f"sites differ: {', '.join(differ[:4])}" if differ else "the sites agree, the program does not"
        own = "this one" if name == plan.model_name else repr(plan.model_name)
        raise CheckpointError(f"the saved run, of {name!r}, is of another model than {own}: {what}")
    if checkpoint.data_hash(plan) != described["data"]:
        raise CheckpointError(
            f"the saved run of {name!r} is on other data than this model; bind the model to the same data"
        )
    if plan.schedule_text != described["schedule"]:
        raise CheckpointError(
            f"the saved run was made by the schedule {described['schedule']!r}, this model has "
            f"{plan.schedule_text!r}; continue with the saved one, or start a new run"
        )
    return plan


# what may be another than when the run began: how far it is to go, and what does not change draws
_FREE = ("draws", "chunk")


def taken_up(
    folder: Path | Objects,
    plan: Plan,
    settings: Settings,
    *,
    until: Until | None,
    max_draws: int,
    device: str | None = None,
    on: Any = None,
    init: Mapping[str, np.ndarray] | None = None,
    durable: bool = True,
) -> Run:
    """The run in `folder`, ready to be started, or finished where nothing is left to do.

    It streams to `folder` from now on, also where it was saved there. `draws` of the settings counts all
    draws per chain, those that are there included. Raises `CheckpointError` where the run was begun with
    another model, data, schedule, versions or options, or is damaged.
    """

    def planned(described: Mapping[str, Any]) -> Plan:
        known = described["structures"]
        return plan if known is None else plan.origin.plan_of(known, plan.schedule_text)  # type: ignore[union-attr]

    run = read_back(folder, planned, device, on=on, streaming=True, durable=durable)
    then, now = asdict(run.settings), asdict(settings)
    differ = [name for name in now if name not in _FREE and then[name] != now[name]]
    if differ:
        raise CheckpointError(
            f"the run in {str(folder)!r} was begun with {_told(then, differ)}; asked for is "
            f"{_told(now, differ)}. Ask for what it began with to go on with it, or choose another path"
        )
    run.begin_from(init)
    run.aim(settings, until, max_draws)
    return run


def _told(settings: Mapping[str, Any], names: list[str]) -> str:
    shown = {n: ",".join(v) if isinstance(v := settings[n], tuple) else v for n in names}
    return ", ".join(f"{name}={value!r}" for name, value in shown.items())
