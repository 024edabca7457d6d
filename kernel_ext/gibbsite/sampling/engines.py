"""Compiled engines, kept for the next run that can use them."""

from collections import OrderedDict
from typing import Any

from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.resources import Place, capacity, choose_device, choose_shards
from gibbsite.sampling.run import Settings

_KEPT_ENGINES = 32
_ENGINES: OrderedDict[Any, Engine] = OrderedDict()


def engine_for(plan: Plan, settings: Settings, device: str | None) -> tuple[Engine, Place]:
    """A compiled or yet to be compiled engine, and where it runs. Plans of equal `cache_key` share one."""
    if settings.shard is None:
        place = choose_device(device, plan, settings.chains)
    else:
        place = choose_shards(settings.shard, device, plan)
    room = capacity(plan, settings.chains)
    share = (settings.first_chain, settings.all_chains or settings.chains)
    shape = (settings.chains, settings.warmup, room, place.devices, settings.thin, place.shard, share)
    key = (plan.cache_key, *shape)
    if key not in _ENGINES:
        _ENGINES[key] = Engine(plan, *shape)
        while len(_ENGINES) > _KEPT_ENGINES:
            _ENGINES.popitem(last=False)
    _ENGINES.move_to_end(key)
    engine = _ENGINES[key]
    return (engine if engine.plan is plan else engine.rebound(plan)), place
