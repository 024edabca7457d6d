"""Whether predictions have the moments that another calculation gives them, draw by draw."""

import os

import numpy as np

COMPARED: list[tuple[str, float, float]] = []
"""Of every comparison so far the test's name, and how many standard errors the worst mean and the worst
variance are apart: `benchmarks/predicted.py` makes a table of them."""


def flat(draws: np.ndarray) -> np.ndarray:
    """`[chain, draw, …]` as `[draws, …]`, in double precision."""
    return np.asarray(draws, float).reshape(-1, *np.shape(draws)[2:])


def agrees(values: np.ndarray, mean: np.ndarray, var: np.ndarray | None = None, errors: float = 4.0) -> None:
    """Values `[draw, …]`, one at each draw, whose expectation (and variance) there is known: on average they
    differ from it by no more than so many standard errors, and spread as `var` says."""
    values, mean = np.broadcast_arrays(np.asarray(values, float), np.asarray(mean, float))
    apart = values - mean
    spread = apart.var(axis=0) if var is None else np.mean(np.broadcast_to(var, values.shape), axis=0)
    z = apart.mean(axis=0) / np.sqrt(np.maximum(spread, 1e-12) / len(values))
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].partition(" ")[0]
    COMPARED.append((test.removeprefix("test_").replace("_", " "), float(np.abs(z).max()), np.nan))
    assert np.all(np.abs(z) < errors), f"means are {np.abs(z).max():.1f} standard errors apart"
    if var is None:
        return
    square = apart**2 / np.maximum(np.broadcast_to(var, values.shape), 1e-12)
    error = square.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = (square.mean(axis=0) - 1) / error
    COMPARED[-1] = (*COMPARED[-1][:2], float(np.abs(z).max()))
    assert np.all(np.abs(z) < errors), f"variances are {np.abs(z).max():.1f} standard errors apart"
