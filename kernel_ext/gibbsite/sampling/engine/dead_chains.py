"""A fresh state → how high its chains lie, and which of them are lost."""

from typing import Any

import numpy as np

from gibbsite.sampling.engine.initial import bad_chains

FAR, FAR_PER_ELEMENT = 10.0, 2.0
"""How far below the others the logdensity of a chain lies that may be lost: more than any two draws of one
mode differ by, scales that vary included. Whether it is, masses tell: a wide mode is low."""


def far_below(level: np.ndarray, best: float | np.ndarray, elements: int) -> np.ndarray:
    """Which chains have no density, or lie far below the best that was seen."""
    return ~np.isfinite(level) | (level < best - FAR - FAR_PER_ELEMENT * elements)


def level_of(state: Any, logdensity: Any) -> np.ndarray:
    """The logdensity of the chains of a fresh state, up to a constant; −∞ where there is none."""
    energies = (getattr(block, "potential_energy", None) for block in state.block_states)
    found = -np.asarray(next(e for e in energies if e is not None)) if logdensity is None else logdensity
    return np.where(bad_chains(state, logdensity), -np.inf, np.asarray(found, np.float64))


def slopeless(state: Any) -> np.ndarray:
    """In which chains a gradient is not finite: no trajectory leaves such a point."""
    slopes = [np.asarray(b.w_grad) for b in state.block_states if getattr(b, "w_grad", None) is not None]
    return np.any([~np.isfinite(g).reshape(len(g), -1).all(1) for g in slopes] or [[False]], axis=0)
