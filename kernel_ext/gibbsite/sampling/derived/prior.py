"""Draws of the prior: the model as written, forward, where that is possible and quick."""

from collections.abc import Collection, Mapping
from math import prod

import jax
import numpy as np
from numpyro.infer import Predictive

from gibbsite.density.current import weighted_latents
from gibbsite.density.model.alone import handlers_alone
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.jaxpr.compiling import Quick

DRAWS = 2000
_MOST = 400


def prior_draws(plan: Plan, names: Collection[str], seed: int = 0) -> Mapping[str, np.ndarray]:
    """`[draw, *shape]` of those of the sites in `names` that have at most 400 elements.

    Nothing where the prior is not what the model draws forward: with `factor` statements, with improper
    distributions, with latents that are weighted or masked, with those whose draws are
    doubted, or for a run that was loaded without its model.
    """
    if plan.model is None or plan.density is None or plan.density.factor_names:
        return {}
    if weighted_latents(plan.density) or plan.density.doubted:
        return {}
    members = {m: g for g, ms in plan.groups.items() for m in ms if g in names}
    wanted = {*names, *members}
    small = [n for n, site in plan.sites.items() if n in wanted and prod(site.shape) <= _MOST]
    forward = Predictive(plan.model, num_samples=DRAWS, return_sites=small, parallel=True)
    # one program for all runs of a model, kept from kernel to kernel as those of runs are: it takes what the
    # model reads of a plan's inputs, and not what kernels of one schedule do
    data = {"data": plan.inputs["data"]}
    held = plan.density.cache.setdefault(
        ("prior", tuple(small)), Quick(lambda key, inputs: forward(key, **{INPUTS_KWARG: inputs}))
    )
    try:
        with handlers_alone:  # a dashboard asks from a thread of its own
            drawn = held(jax.random.key(seed), data)
    except NotImplementedError:
        # `Distribution.sample` is abstract, and says so by this: what is improper (`ImproperUniform`, and
        # whatever wraps it) has no prior to draw from
        return {}
    found = {n: np.asarray(v) for n, v in drawn.items()}
    out = {n: v for n, v in found.items() if n in names}
    for group, ms in plan.groups.items():
        if group in names and all(m in found for m in ms):
            out[group] = np.stack([found[m] for m in ms], axis=1)
    return out
