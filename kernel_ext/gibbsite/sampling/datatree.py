"""Draws as the tree of data sets that ArviZ reads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from arviz_base import from_dict

from gibbsite.kernels.plan import Plan


def _dims(plan: Plan, name: str, shape: tuple[int, ...]) -> list[str]:
    """Dimension names of a site: plates where it has them, else `<site>_dim_<i>`."""
    site = plan.sites.get(name)
    axes = {} if site is None else dict(zip(site.plate_axes, site.plates, strict=True))
    return [axes.get(a, f"{name}_dim_{a}") for a in range(len(shape))]


def to_datatree(plan: Plan, draws: Mapping[str, np.ndarray], stats: Mapping[str, np.ndarray]) -> Any:
    """Groups `posterior`, `sample_stats` and `observed_data`, with plates as dimensions.

    Statistics of a single block keep ArviZ's names; of several, the first block that has one keeps the name
    and the others are prefixed with their label.
    """
    dims = {n: _dims(plan, n, v.shape[2:]) for n, v in draws.items()}
    observed = {n: np.asarray(v) for n, v in plan.observed.items()}
    dims |= {n: _dims(plan, n, v.shape) for n, v in observed.items()}
    named: dict[str, np.ndarray] = {}
    for key, v in stats.items():
        block, name = key.split(".", 1)
        named[name if name not in named else f"{plan.blocks[int(block)].label}_{name}"] = v
    groups: dict[str, Any] = {"posterior": dict(draws)}
    if named:
        groups["sample_stats"] = named
    if observed:
        groups["observed_data"] = observed
    return from_dict(groups, dims=dims)
