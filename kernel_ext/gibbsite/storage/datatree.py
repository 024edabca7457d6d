"""Draws as the tree of data sets that ArviZ reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.density.model.names import variable_name
from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import later
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import Draws
from gibbsite.storage.names import dims_of, stat_names

arviz_base = later("arviz_base")
xr = later("xarray")


def named_stats(plan: Plan, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Statistics under ArviZ's names, with those that follow from others: `tree_depth` of NUTS blocks, and
    `lp`, the joint logdensity in unconstrained space where the last block of the sweep tells it."""
    more = dict(stats)
    for i, block in enumerate(plan.blocks):
        steps = stats.get(f"{i}.n_steps")
        if steps is not None and block.kernel == "NUTS":
            more[f"{i}.tree_depth"] = np.ceil(np.log2(steps + 1.0)).astype(np.int32)
    last = stats.get(f"{len(plan.blocks) - 1}.potential_energy")
    names = stat_names(plan, list(more))
    out = {names[k]: v for k, v in more.items()}
    if last is not None:
        out["lp"] = -last
    return out


def to_datatree(
    plan: Plan,
    draws: Draws,
    values: Mapping[str, np.ndarray],
    *,
    extra: Mapping[str, Mapping[str, np.ndarray]],
    warmup: bool,
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any],
) -> Any:
    """Groups `posterior` (of `values`), `sample_stats`, `observed_data`, those in `extra`, and on request
    those of warm-up; plates are dimensions, unless `dims` names others. Raises `UnknownNameError` for sites
    in `dims` that are not there, `OptionError` for names and labels that do not fit."""
    groups: dict[str, Any] = {"posterior": dict(values)}
    stats = named_stats(plan, draws.sampled_stats.read())
    if stats:
        groups["sample_stats"] = stats
    groups |= {name: dict(values) for name, values in extra.items()}
    if warmup:
        groups["warmup_posterior"] = draws.warm.read()
        warm = named_stats(plan, draws.warm_stats.read())
        if warm:
            groups["warmup_sample_stats"] = warm
    if plan.observed:
        groups["observed_data"] = {n: np.asarray(v) for n, v in plan.observed.items()}
    for name in dims or {}:
        if not any(name in values for values in groups.values()):
            raise UnknownNameError("site", name, groups["posterior"])
    for name, labels in (coords or {}).items():
        if isinstance(labels, str) or np.ndim(labels) != 1:
            raise OptionError(f"coords: {name!r} must be a list of labels, not {shown(labels)}")
    tree = xr.DataTree()
    for group, values in groups.items():
        # one by one: a site may have axes in one group that it lacks in another
        leading = 0 if group == "observed_data" else 2
        names = {} if "sample_stats" in group else {n: np.shape(v)[leading:] for n, v in values.items()}
        named = {n: dims_of(plan, n, shape, dims) for n, shape in names.items()}
        if group == "log_likelihood":  # of some elements only, in a row
            some = (n for n, s in names.items() if s != np.shape(plan.observed[n])[: len(s)])
            named |= {n: [f"{variable_name(n)}_datum"] for n in some}
        used = {d for ds in named.values() for d in ds}
        labels = {p: np.asarray(known) for p, known in plan.labels.items() if p in used}
        tree[group] = _data_set(group, values, named, coords, warmup, labels)
    tree.attrs.update(attrs)
    return tree


def _data_set(
    group: str,
    values: Mapping[str, np.ndarray],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Any] | None,
    warmup: bool,
    labels: Mapping[str, Any],
) -> Any:
    """One group as ArviZ makes it. A site that is called as a dimension is (`chain`, `draw`, its own plate)
    takes the place of that dimension's coordinate."""
    titles = {n: variable_name(n) for n in values}
    named = {titles[n]: d for n, d in dims.items()}
    used = {"chain", "draw", *(d for ds in named.values() for d in ds)}
    plain = {titles[n]: v for n, v in values.items() if titles[n] not in used}
    clashing = {titles[n]: v for n, v in values.items() if titles[n] in used}
    given = {c: v for c, v in {**labels, **(coords or {})}.items() if c not in clashing}
    like = plain or {"_": np.zeros(np.shape(next(iter(clashing.values())))[:2])} if clashing else plain
    of_plain = {n: d for n, d in named.items() if n in plain}
    try:
        made = arviz_base.from_dict({group: like}, dims=of_plain, coords=given, save_warmup=warmup)
    except ValueError as problem:  # as many labels as there are elements
        raise OptionError(f"dims, coords: {problem}") from problem
    out = made[group].to_dataset().drop_vars("_", errors="ignore")
    leading = [] if group == "observed_data" else ["chain", "draw"]
    for name, v in clashing.items():
        out = out.drop_vars(name, errors="ignore").assign({name: ([*leading, *named.get(name, ())], v)})
    return out
