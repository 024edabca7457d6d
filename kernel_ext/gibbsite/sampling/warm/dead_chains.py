"""Chains of a warm-up that are far from where others are → chains that go on from there.

A start may lie where the likelihood is flat (a growth curve that has ended before the first datum): no
gradient leads out, and passes of the schedule only walk about. Another chain finds what the data say; the
first is lost. It is so where the mass of the mode that it is in is a thousandth of the other's at most,
beyond doubt: that it lies far below says nothing, as a wide mode does.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.diagnostics.modes.moves import LOST, Move
from gibbsite.sampling.engine.dead_chains import far_below, level_of
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.warm.scout import masses, weightless


def found_again(engine: Engine, state: Any, steps: int) -> tuple[Any, tuple[Move, ...]]:
    """The state after `steps` steps with every lost chain at the place of one that is not, and which went
    where.

    Looked at are chains below which another lies far above, in the density of all and in that of the data
    alone: for the former alone may be as high as it will, where a scale shrinks to nothing. Of these, masses
    tell which are lost. What is random of a chain stays its own.
    """
    density = engine.plan.density
    if density is None:
        return state, ()
    values = engine.constrained(state)
    level = level_of(*engine.init(jax.random.key(0), values))
    # sites that no data see are not in the chains, and are not asked about
    absent = {n: jnp.zeros((len(level), *density.sites[n].shape)) for n in density.latent_vars}
    fit = np.asarray(jax.vmap(density.log_likelihood)({**absent, **values}), np.float64)
    low, above = _below(level, fit, engine.elements)
    if not low.any():
        return state, ()
    found = weightless(masses(engine, state), len(level))
    moves = []
    for c in np.flatnonzero(low):
        none = not np.isfinite(level[c])
        if none or found.chains[c]:
            onto = int(above[c]) if none else int(found.beside[c])
            none = none or not np.isfinite(found.log_weight[c])
            moves.append(Move(LOST, int(c), onto, steps, None if none else float(found.log_weight[c])))
    if not moves:
        return state, ()
    source = np.arange(len(level))
    for m in moves:
        source[m.chain] = m.onto

    def moved(a: Any) -> Any:
        return a if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a[source]

    return engine.placed(jax.tree.map(moved, state), by_chain=True), tuple(moves)


def _below(level: np.ndarray, fit: np.ndarray, elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Which chains lie far below others, and for each of them one that does not and lies far above it."""
    rows = [
        far_below(level, a, elements) & far_below(fit, b, elements) & np.isfinite(a + b)
        for a, b in zip(level, fit, strict=True)
    ]
    below = np.stack(rows)  # [by which, which]
    lost = np.any(below, axis=0)
    others = [np.flatnonzero(row) for row in (below & ~lost[:, None]).T]
    return lost, np.array([found[i % len(found)] if len(found) else 0 for i, found in enumerate(others)])
