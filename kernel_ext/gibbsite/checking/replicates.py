"""The model with its data as an argument, parameters and data drawn from it, its kernel at any of them.

Data sets are drawn by the model's own statements (`Model.predict`), and put where the observations were: the
same kernels, with the same programs, then run on other data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer import HMC
from numpyro.infer.gibbs import with_conditioning

from gibbsite.checking.truth import log_terms
from gibbsite.density import Density
from gibbsite.density.handlers.scopes import ScopedScans
from gibbsite.density.known_elements import sources
from gibbsite.errors import GibbsiteError
from gibbsite.kernels.base import unconstrained
from gibbsite.kernels.blocks.eliminated import Eliminated
from gibbsite.kernels.blocks.tempered import Tempered
from gibbsite.kernels.composite import Repeat
from gibbsite.kernels.interleaved import Interleaved, put
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.engine.initial import RADIUS, Asked, first_values

_PREFIX = "replicated "


class NotReplicated(Exception):
    """Why data sets cannot be drawn from a model, in words."""


@dataclass(frozen=True)
class Replicates:
    """`model`: the model whose data are arguments; `plan` its schedule, ready to run; `places` says which of
    the plan's input arrays holds which observed site. `truth` are draws `[data set, *shape]` of all latents,
    `data` those of observed sites that came with them."""

    model: Any
    plan: Plan
    places: Mapping[str, int]
    truth: Mapping[str, np.ndarray]
    data: Mapping[str, np.ndarray]

    @property
    def count(self) -> int:
        """How many data sets there are."""
        return len(next(iter(self.truth.values())))

    def inputs(self, data: Mapping[str, Any]) -> Any:
        """The plan's inputs with other observations."""
        arrays = list(self.plan.inputs["data"])
        for name, at in self.places.items():
            arrays[at] = jnp.asarray(data[name], arrays[at].dtype).reshape(arrays[at].shape)
        return {**self.plan.inputs, "data": tuple(arrays)}

    def planned(self, i: int) -> Plan:
        """The plan of one data set."""
        data = {n: v[i] for n, v in self.data.items()}
        return replace(self.plan, inputs=self.inputs(data), observed={**self.plan.observed, **data})

    def height(self, values: Mapping[str, Any], inputs: Any) -> Any:
        """The log joint density of latents, by the model's names, and data."""
        return jnp.sum(log_terms(self.model, values, inputs))


def replicated(model: Any, count: int, seed: int) -> Replicates:
    """So many data sets. Raises `NotReplicated`."""
    density = model.density
    if density.factor_names:
        raise NotReplicated(
            f"the factor {density.factor_names[0]!r} has no distribution that data could be drawn from"
        )
    observed = [n for n, s in density.sites.items() if s.role == "observed"]
    weights = {n: w for n in (*density.latents, *observed) if (w := _weights(model, n)).size}
    masked = [n for n, w in weights.items() if n in observed and np.isin(w, (0, 1)).all()]
    if weighted := [n for n in weights if n not in masked]:
        how = "masked" if np.isin(weights[weighted[0]], (0, 1)).all() else "weighted"
        raise NotReplicated(f"{weighted[0]!r} is {how}: it has no distribution to be drawn from")
    if density.doubted:
        raise NotReplicated(f"draws of {next(iter(density.doubted))!r} do not follow its log density")
    if set(model.observed) != set(observed):
        raise NotReplicated("some observed values are computed from latents, or held by `condition`")
    try:
        drawn = model.predict(draws=count, seed=seed).draws
    except (GibbsiteError, NotImplementedError) as why:
        raise NotReplicated(f"the prior cannot be drawn from: {why}") from None
    flat: dict[str, np.ndarray] = {}
    for name, values in drawn.items():
        for i, member in enumerate(density.groups.get(name, ())):
            flat[member] = np.asarray(values)[0, :, i]
        flat[name] = np.asarray(values)[0]
    lacking = [n for n in (*density.latents, *observed) if n not in flat]
    if lacking:
        raise NotReplicated(f"{lacking[0]!r} is not among what is drawn forward")
    keys = {f"{_PREFIX}{n}": n for n in observed}

    def at_data(*args: Any, **kwargs: Any) -> Any:
        values = {name: kwargs.pop(key) for key, name in keys.items()}
        return handlers.condition(ScopedScans(model.fn), data=values)(*args, **kwargs)

    at_data.__name__ = model.name
    given = {key: _without_gaps(model.observed[name], flat[name][0]) for key, name in keys.items()}
    made = model.with_data(model.args, {**model.kwargs, **given}, at_data)
    text = model.execution.schedule().text
    plan = made.plan(text)
    names = made.density.arguments.names
    if plan.schedule_text != text or any(key not in names for key in keys):
        raise NotReplicated("the program depends on the values of the data, and is another for other data")
    if read := [n for n in masked if _is_read(made.density, f"{_PREFIX}{n}", n)]:
        raise NotReplicated(
            f"{read[0]!r} is masked in part, and other statements read what was observed there, which has no "
            "distribution"
        )
    if any(isinstance(k, Tempered) for k, _ in plan.kernel.blocks):
        raise NotReplicated("chains at other temperatures do not follow data that change")
    places = {name: names.index(key) for key, name in keys.items()}
    for name, at in places.items():
        if flat[name].shape[1:] != plan.inputs["data"][at].shape:
            raise NotReplicated(f"{name!r} is drawn in the shape {flat[name].shape[1:]}, unlike the data")
    good = np.ones(count, bool)
    for name in (*density.latents, *observed):
        values = flat[name]
        if values.dtype.kind == "f":
            good &= np.isfinite(values).reshape(count, -1).all(1)
    if good.mean() < 0.99:
        raise NotReplicated("the prior's draws are too large for these numbers")
    return Replicates(
        made,
        plan,
        places,
        {n: flat[n][good] for n in density.latents},
        {n: flat[n][good] for n in observed},
    )


def _weights(model: Any, name: str) -> np.ndarray:
    """The weights of a site's elements, one after another; none where all are 1, or computed from latents."""
    density = model.density
    read = density.evaluator({}).full
    found = [np.zeros(0)]
    for atom in density.outputs["weights"].get(name, ()):
        if not hasattr(atom, "aval") or density.maps.latents(atom):
            continue
        with jax.ensure_compile_time_eval():
            found.append(np.ravel(np.asarray(read(atom), float)))
    every = np.concatenate(found)
    return every if (every != 1).any() else every[:0]


def _without_gaps(data: Any, drawn: np.ndarray) -> Any:
    """The data, with what was drawn in place of NaN, which a mask leaves out."""
    data = np.asarray(data)
    gaps = np.isnan(data) if data.dtype.kind == "f" and data.shape == drawn.shape else np.zeros((), bool)
    return jnp.asarray(np.where(gaps, drawn, data).astype(data.dtype) if gaps.any() else data)


def _is_read(density: Density, data: str, site: str) -> bool:
    """Whether an array of the data enters anything but the density of the site that it is observed at."""
    others = [t.atom for t in density.terms if t.origin != site]
    parameters = [a for n, of in density.outputs["parameters"].items() if n != site for a in of.values()]
    behind = sources(density, [*others, *parameters, *density.outputs["deterministic"].values()])
    return any(density.data_names.get(v) == data for v in behind)


def own_values(plan: Plan, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of latents by the names of the sites that a plan's kernel has."""
    assert plan.density is not None
    packed = plan.density.packed(dict(values))
    return {n: packed[n] for n in plan.density.latents}


def placed(kernel: Any, state: Any, values: Mapping[str, Any], kwargs: Any, key: Any) -> Any:
    """The state of a plan's composite, warmed up elsewhere, moved to other values and other data: what it
    learnt stays, what it caches is made anew. `values` are constrained, by the kernel's own sites."""
    use = dict.fromkeys(values, True)
    asked = Asked(dict(values), use, jnp.asarray(RADIUS))
    exact, native = first_values(kernel, key, kwargs, asked)
    states = []
    # those that `init` has seen, whose models are given the other blocks' values
    blocks = zip(kernel._kernels, kernel._sites, state.block_states, strict=True)
    for i, (block, names, before) in enumerate(blocks):
        around = {**kwargs, **_siblings(exact, names)}
        here = {n: native[n] for n in names}
        moved = _moved(block, before, here, {n: exact[n] for n in names}, around)
        states.append(_with_key(moved, jax.random.fold_in(key, i)))
    return state._replace(z=kernel._merge_z(states), block_states=tuple(states))


def _siblings(values: Mapping[str, Any], own: Any) -> dict[str, Any]:
    from_others = {n: v for n, v in values.items() if n not in own}
    return with_conditioning({}, from_others) if from_others else {}


def _moved(kernel: Any, state: Any, native: Any, exact: Any, kwargs: Any) -> Any:
    if isinstance(kernel, Repeat):
        return _moved(kernel.kernel, state, native, exact, kwargs)
    if isinstance(kernel, Eliminated):
        inner, left = kernel.inner, [n for n in exact if n not in kernel.eliminated]
        own = {n: exact[n] for n in left}
        if isinstance(inner, HMC):
            own = unconstrained(inner, (), kwargs, own)
        return state._replace(
            z={n: jnp.asarray(exact[n], state.z[n].dtype) for n in state.z},
            inner=put(inner, state.inner, own, (), kwargs),
        )
    if isinstance(kernel, Interleaved):
        return put(kernel, state, exact, (), kwargs)
    here = native if isinstance(kernel, HMC) else exact
    return put(kernel, state, here, (), kwargs)


def _with_key(state: Any, key: Any) -> Any:
    """The state with keys of its own, wherever it keeps any."""

    def anew(leaf: Any) -> Any:
        is_key = jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        return key if is_key and jnp.ndim(leaf) == 0 else leaf

    return jax.tree.map(anew, state)
