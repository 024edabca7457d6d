"""Compiled engines, kept for the next run that can use them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.jaxpr.compiling import Surroundings
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.resources import Place, capacity, choose_device, choose_shards
from gibbsite.sampling.remote.engine import RemoteEngine
from gibbsite.sampling.run import Settings

# 20 to 50 MiB each, with its model; a run that is held keeps its own, another loads what is on disk
_KEPT_ENGINES = 8
_ENGINES: OrderedDict[Any, Engine] = OrderedDict()
_choosing = threading.RLock()


def surroundings_of(plan: Plan) -> Surroundings:
    """What holds for a run of the plan that this thread makes: this thread's settings of JAX, with the types
    of numbers that the model was traced for."""
    here = Surroundings.here()
    return here if plan.density is None else here.with_numbers_of(plan.density.surroundings)


def engine_for(plan: Plan, settings: Settings, device: str | None, on: Any = None) -> tuple[Engine, Place]:
    """A compiled or yet to be compiled engine, and where it runs. Plans of equal `cache_key` share one; one
    that was prepared for the plan's model is taken. With an executor `on`, one that has chains stepped
    there. A model whose structure changes makes its own."""
    if hasattr(plan.origin, "engine_for"):
        return plan.origin.engine_for(plan, settings, device, on)
    if on is not None:
        return _remote(plan, settings, device, on)
    key, place, make = _asked(plan, settings, device)
    with _choosing:
        if key not in _ENGINES:
            _ENGINES[key] = plan.prepared.pop(key, None) or make()
            while len(_ENGINES) > _KEPT_ENGINES:
                _ENGINES.popitem(last=False)
        _ENGINES.move_to_end(key)
        engine = _ENGINES[key]
    return (engine if engine.plan is plan else engine.rebound(plan)), place


def _remote(plan: Plan, settings: Settings, device: str | None, executor: Any) -> tuple[Engine, Place]:
    here = choose_device(device or "cpu", plan, settings.chains).devices[:1]
    room = capacity(plan, settings.chains)
    engine = RemoteEngine(
        plan,
        settings.chains,
        settings.warmup,
        room,
        here,
        settings.thin,
        surroundings=surroundings_of(plan),
        executor=executor,
    )
    return engine, Place(here, f"stepped by {type(executor).__name__}")


def engine_ahead(plan: Plan, settings: Settings, device: str | None) -> Engine:
    """The engine that `engine_for` will give for these. One that is made for it is the model's alone until
    then, and goes with it; of those, a model keeps the last."""
    key, _, make = _asked(plan, settings, device)
    with _choosing:
        if key in _ENGINES:
            return _ENGINES[key]
        if key not in plan.prepared:
            made = make()
            plan.prepared.clear()
            plan.prepared[key] = made
        return plan.prepared[key]


def _asked(
    plan: Plan, settings: Settings, device: str | None
) -> tuple[Hashable, Place, Callable[[], Engine]]:
    """What tells an engine from others, where it runs, and how it is made."""
    if settings.shard is None:
        place = choose_device(device, plan, settings.chains)
    else:
        place = choose_shards(settings.shard, device, plan, settings.chains)
    room = capacity(plan, settings.chains)
    share = (settings.first_chain, settings.all_chains or settings.chains)
    shape = (
        settings.chains,
        settings.warmup,
        room,
        place.devices,
        settings.thin,
        place.shard,
        share,
        place.parts,
    )
    around = surroundings_of(plan)

    def make() -> Engine:
        made = Engine(plan, *shape, surroundings=around)
        made.because = _because(made)
        return made

    return (plan.cache_key, around, *shape), place, make


def _because(engine: Engine) -> str:
    """What sets an engine apart from the last one of the same model, in one line; empty where it is the
    first."""
    plan = engine.plan
    same = [e for e in _ENGINES.values() if e.plan.model_name == plan.model_name]
    if not same:
        return ""
    before = same[-1]
    old = {**before.plan.sites, **before.plan.observed_sites}
    for name, site in {**plan.sites, **plan.observed_sites}.items():
        if name in old and old[name].shape != site.shape:
            return f"{name} {_shapes(site.shape, old[name].shape)}"
    written, first = (getattr(p.origin, "source", None) for p in (plan, before.plan))
    if old.keys() != {**plan.sites, **plan.observed_sites}.keys() or written != first:
        return "the model has changed"
    if before.plan.schedule_text != plan.schedule_text:
        return f"the schedule is {plan.schedule_text} instead of {before.plan.schedule_text}"
    if before.plan.cache_key != plan.cache_key:
        return "the model has changed"
    for what in ("chains", "warmup", "thin", "devices", "shard"):
        now, then = getattr(engine, what), getattr(before, what)
        if now != then:
            return f"{what} is {now} instead of {then}"
    return ""


def _shapes(now: tuple[int, ...], then: tuple[int, ...]) -> str:
    if now and then and now[1:] == then[1:]:
        return f"has {now[0]} rows instead of {then[0]}"
    return f"has shape {now} instead of {then}"
