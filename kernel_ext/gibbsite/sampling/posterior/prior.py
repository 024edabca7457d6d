"""Draws of the prior: the model as written, forward, where that is possible and quick."""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions import Unit

from gibbsite.density.model.alone import handlers_alone
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.trace.jaxpr.for_cpu import jitted

DRAWS = 2000
_MOST = 400


def prior_draws(plan: Plan, names: Collection[str], seed: int = 0) -> Mapping[str, np.ndarray]:
    """`[draw, *shape]` of those of the sites in `names` that have at most 400 elements.

    Nothing where the prior is not what the model draws forward: with `factor` statements, with improper
    distributions, or for a run that was loaded without its model.
    """
    if plan.model is None:
        return {}
    model, kwargs = plan.model, {INPUTS_KWARG: plan.inputs}

    def one(key: Any) -> dict[str, Any]:
        traced = handlers.trace(handlers.seed(model, key)).get_trace(**kwargs)
        if any(isinstance(s.get("fn"), Unit) for s in traced.values()):
            raise NotImplementedError("a factor")
        return {n: s["value"] for n, s in traced.items() if n in wanted and np.size(s["value"]) <= _MOST}

    members = {m: g for g, ms in plan.groups.items() for m in ms if g in names}
    wanted = {*names, *members}
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    try:
        with handlers_alone:  # a dashboard asks from a thread of its own
            lowered = jitted(lambda keys: jax.lax.map(one, keys, batch_size=DRAWS)).lower(keys)
        found = lowered.compile()(keys)
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        return {}  # a distribution that cannot be drawn from
    out = {n: np.asarray(v) for n, v in found.items() if n in names}
    for group, ms in plan.groups.items():
        if group in names and all(m in found for m in ms):
            out[group] = np.stack([np.asarray(found[m]) for m in ms], axis=1)
    return out
