"""Means of what a schedule integrates out or draws exactly, by averages of conditional moments."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.model.alone import handlers_alone
from gibbsite.elimination import Marginal, eliminable, marginal_of
from gibbsite.errors import GibbsiteError
from gibbsite.programs.jaxpr.compiling import once
from gibbsite.storage.summaries import Summary

MOST = 2000
"""Draws of all chains that moments are averaged over: they are of conditional means, which vary little."""
_AT_ONCE = 32
_EXACT = ("Collapsed", "Conjugate")


def averaged(model: Any, schedule: str, draws: Mapping[str, np.ndarray]) -> dict[str, Summary]:
    """Mean and standard deviation of every element of the continuous sites that a schedule eliminates, or
    draws exactly, by Rao and Blackwell's theorem (Gelfand and Smith 1990, "Sampling-based approaches to
    calculating marginal densities"): of the conditional means and variances at draws `[chain, draw, *shape]`
    of the rest. Sites whose moments are not known are left out."""
    found: dict[str, Summary] = {}
    for marginal in _marginals(model, schedule):
        try:
            found |= _of(marginal, draws)
        except GibbsiteError:  # its moments are not known: its draws are what there is
            continue
    return found


def _marginals(model: Any, schedule: str) -> list[Marginal]:
    try:
        updates = model.execution.schedule(schedule).updates
    except GibbsiteError:  # kernels of one's own, of which the text says nothing
        return []
    density, out = model.density, []
    for u in updates:
        own = u.eliminated or (u.sites if u.kernel in _EXACT else ())
        names = [m for n in own for m in density.groups.get(n, (n,))]
        smooth = [n for n in names if n in density.sites and not density.sites[n].discrete]
        block = next((b for b in eliminable(density) if {*b} <= {*smooth}), ()) if smooth else ()
        discrete = [n for n in names if n in density.sites and density.sites[n].discrete]
        if block:
            try:
                out.append(marginal_of(density, [*discrete, *block] if u.eliminated else block))
            except GibbsiteError:  # not exactly, after all
                continue
    return out


def _of(marginal: Marginal, draws: Mapping[str, np.ndarray]) -> dict[str, Summary]:
    rest = [n for n in draws if n not in marginal.sites]
    chains, count = next(iter(draws.values())).shape[:2]
    at = np.unique(np.linspace(0, count - 1, max(1, min(count, MOST // chains))).astype(int))
    states = {n: jnp.asarray(draws[n][:, at].reshape(chains * len(at), *draws[n].shape[2:])) for n in rest}

    def one(state: Any) -> dict[str, Any]:
        return {n: tuple(m) for n, m in marginal.moments(state).items()}

    with handlers_alone:
        found = once(lambda states: jax.lax.map(one, states, batch_size=_AT_ONCE), states)
    out = {}
    for name, (mean, variance) in found.items():
        if marginal.density.sites.get(name) is not None and marginal.density.sites[name].discrete:
            continue
        mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
        out[name] = Summary(mean.mean(axis=0), np.sqrt(variance.mean(axis=0) + mean.var(axis=0)), len(at))
    return out
