"""Time several functions side by side: interleaved calls, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np


def interleaved(fns: Mapping[str, Callable[[], Any]], rounds: int = 30) -> dict[str, np.ndarray]:
    """Seconds per call, `rounds` of them for each function, after one call to compile and one to warm up."""
    for fn in fns.values():
        jax.block_until_ready(fn())
        jax.block_until_ready(fn())
    seconds: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(rounds):
        for name, fn in fns.items():
            start = time.perf_counter()
            jax.block_until_ready(fn())
            seconds[name].append(time.perf_counter() - start)
    return {name: np.array(s) for name, s in seconds.items()}


def report(title: str, seconds: Mapping[str, np.ndarray], ours: str, theirs: str) -> str:
    """One row of a table: minimum and median in ms of both, and their ratios."""
    a, b = seconds[ours] * 1e3, seconds[theirs] * 1e3
    return (
        f"| {title} | {a.min():.2f} / {np.median(a):.2f} | {b.min():.2f} / {np.median(b):.2f} "
        f"| {a.min() / b.min():.2f} | {np.median(a) / np.median(b):.2f} |"
    )
