"""`store=…, resume="auto"`: the run that a store holds, if it is the one asked for."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import CheckpointError
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.load import read_back
from gibbsite.sampling.run import Run, Settings
from gibbsite.sampling.watch.until import Until
from gibbsite.storage.objects import Objects

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
