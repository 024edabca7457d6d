"""What a run will want is made before the run is asked for."""

from collections.abc import Callable
from typing import Any

import jax

from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.engine.stages import ANALYSING
from gibbsite.sampling.engines import engine_ahead
from gibbsite.sampling.start import settings_for


def made_ahead(
    plan: Callable[[], Plan],
    tell: Callable[[str, bool], None],
    awaited: Callable[[Callable[[], bool]], None],
    *,
    device: str | None = None,
    **asked: Any,
) -> None:
    """Have the programs made that a run of the plan with these options takes, and nothing run.

    `tell(stage, breakable)` is told what it is at; `awaited` is given a function that says whether a run
    waits for that. A run that begins meanwhile takes over what is there, and waits for the rest. Raises what
    the run would raise.
    """
    tell(ANALYSING, False)
    found = plan()
    engine = engine_ahead(found, settings_for(**asked), device)
    awaited(lambda: engine.awaited)
    with engine.surroundings.carried(), jax.default_device(engine.devices[0]):
        engine.compile(tell)
        engine.compile_rest()
