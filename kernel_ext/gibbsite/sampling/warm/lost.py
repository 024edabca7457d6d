"""Chains of a warm-up that are far from where others are → chains that go on from there.

A start may lie where the likelihood is flat (a growth curve that has ended before the first datum): no
gradient leads out, and passes of the schedule only walk about. Another chain finds what the data say; the
first is lost.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.lost import far_below, level_of


def found_again(engine: Engine, state: Any) -> tuple[Any, dict[int, int]]:
    """The state with every lost chain at the place of one that is not, and which went where.

    A chain is lost where another lies far above it, in the density of all and in that of the data alone: for
    the former alone may be as high as it will, where a scale shrinks to nothing. What is random of a chain
    stays its own.
    """
    density = engine.plan.density
    if density is None:
        return state, {}
    values = engine.constrained(state)
    level = level_of(*engine.init(jax.random.key(0), values))
    # sites that no data see are not in the chains, and are not asked about
    absent = {n: jnp.zeros((len(level), *density.sites[n].shape)) for n in density.latent_vars}
    fit = np.asarray(jax.vmap(density.log_likelihood)({**absent, **values}), np.float64)
    lost, above = _lost(level, fit, engine.elements)
    if not lost.any():
        return state, {}
    places = {int(c): int(above[c]) for c in np.flatnonzero(lost)}
    source = np.array([places.get(c, c) for c in range(len(level))])

    def moved(a: Any) -> Any:
        return a if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a[source]

    return engine.placed(jax.tree.map(moved, state), by_chain=True), places


def _lost(level: np.ndarray, fit: np.ndarray, elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Which chains are lost, and for each of them one that is not and lies far above it."""
    rows = [
        far_below(level, a, elements) & far_below(fit, b, elements) & np.isfinite(a + b)
        for a, b in zip(level, fit, strict=True)
    ]
    below = np.stack(rows)  # [by which, which]
    lost = np.any(below, axis=0)
    others = [np.flatnonzero(row) for row in (below & ~lost[:, None]).T]
    return lost, np.array([found[i % len(found)] if len(found) else 0 for i, found in enumerate(others)])
