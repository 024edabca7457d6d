"""When warm-up learns: fixed numbers of steps, so that nothing depends on how a run is cut into chunks."""

from itertools import accumulate
from typing import Any

import jax.numpy as jnp

FINAL = 50
"""Steps at the end in which only the step size moves."""

LEAST = 60
"""Fewer steps of warm-up than these learn nothing but a step size."""

EARLY, EARLY_DEPTH = 100, 8
"""How many steps of a warm-up go in trees of how many doublings at most: in coordinates that fit nothing yet
a longer way costs more than it tells. PyMC's `early_max_treedepth` is as deep, for twice as many steps."""

_FIRST = (10, 10, 10, 15, 20, 25, 30, 40, 60, 80)
_GROWTH = 4 / 3


def window_ends(num_warmup: int) -> tuple[int, ...]:
    """The numbers of steps after which metric and centring are learnt anew.

    Short windows at first, each longer than the one before; the last ends `FINAL` steps before the warm-up
    does. None where there are fewer than `LEAST` steps.
    """
    last = num_warmup - FINAL
    if num_warmup < LEAST:
        return ()
    lengths: list[int] = [*_FIRST]
    while sum(lengths) < last:
        lengths.append(int(lengths[-1] * _GROWTH))
    ends = [e for e in accumulate(lengths) if e <= last]
    # a remainder is too short a window to learn from: it joins the one before
    return (*ends[:-1], last) if len(ends) > 1 else (last,)


def early_depth(step: Any, num_warmup: Any, most: int) -> Any:
    """Of how many doublings the tree of a step may be that comes after `step` others."""
    return jnp.where((step < EARLY) & (step < num_warmup), min(EARLY_DEPTH, most), most)


def ring_length(num_warmup: int, row: int) -> int:
    """How many of the last draws of a chain are kept to learn from, each of `row` numbers.

    Half of warm-up, as every window's estimates come from the later half of the draws so far; fewer where
    that were more than four megabytes.
    """
    ends = window_ends(num_warmup)
    wanted = (ends[-1] + 1) // 2 if ends else 1
    return min(wanted, max(32, 2**20 // max(row, 1)))
