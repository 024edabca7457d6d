"""Angles: numbers of which those that are a turn apart are the same direction. Computed by NumPy, or by
another module of its functions."""

import math
from types import ModuleType
from typing import Any

import numpy as np


def once_around(angle: Any, low: Any = -math.pi, turn: Any = 2 * math.pi, by: ModuleType = np) -> Any:
    """The same direction, in the turn that begins at `low`."""
    return low + by.remainder(angle - low, turn)


def around_mean(angle: Any, turn: Any, weight: Any = 1.0, axis: Any = 0, by: ModuleType = np) -> Any:
    """Draws of angles, cut opposite to the mean direction (Mardia 1972) over `axis` of those with a
    `weight`."""
    part = 2 * np.pi / turn
    sine = by.sum(weight * by.sin(angle * part), axis=axis, keepdims=True)
    cosine = by.sum(weight * by.cos(angle * part), axis=axis, keepdims=True)
    return once_around(angle, (by.arctan2(sine, cosine) - np.pi) / part, turn, by)
