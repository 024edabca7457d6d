"""Rows that would be dropped from before others, of a model to which the places of rows mean something."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.hierarchy.exchangeability import random_state
from gibbsite.density.known_elements import known_numbers
from gibbsite.errors import DataError

_GOES_ON = ("GaussianRandomWalk", "GaussianStateSpace", "EulerMaruyama")
"""Distributions of which an element follows the one before it."""


def check_dropped(density: Density, lost: np.ndarray, in_order: Callable[[np.ndarray], Density]) -> None:
    """Refuse to drop rows, `lost` among all, from before others where the model goes by their places: what
    stood on either side would be neighbours. `in_order` is the density of the rows in another order.

    Raises `DataError`.
    """
    kept = np.flatnonzero(~lost)
    if not lost[: kept[-1]].any():
        return
    what = _steps(density, len(lost)) or _by_place(density, lost, in_order)
    if what:
        between = np.flatnonzero(lost[: kept[-1]])
        raise DataError(
            f"missing='drop' would take rows out from before others ({len(between)}, the first is "
            f"{between[0]}), and {what}: the gap would be closed, and what stands on either side neighbours. "
            "missing='mask' and missing='impute' keep every row in its place; so does a column of times that "
            "the model reads in place of the row's number"
        ).at(None, "missing-values")


def _steps(density: Density, rows: int) -> str:
    for site in density.sites.values():
        if site.in_scan and site.role == "observed" and site.shape[:1] == (rows,):
            return f"{site.name!r} is observed step by step (`scan`)"
        if site.fn_name in _GOES_ON and rows in site.shape:
            return f"{site.name!r} ~ {site.fn_name} goes on from each row to the next"
    return ""


def _by_place(density: Density, lost: np.ndarray, in_order: Callable[[np.ndarray], Density]) -> str:
    """Whether rows have other parameters where those that are lost stand behind them all. A mean of all rows
    is the same then."""
    order, state = np.argsort(lost, kind="stable"), random_state(density)
    if state is None:
        return ""
    moved, count = in_order(order), int((~lost).sum())
    sites = [
        s.name
        for s in density.sites.values()
        if s.role == "observed" and not s.in_scan and s.shape[:1] == lost.shape
    ]
    here = _parameters(density, sites, state)
    there = _parameters(moved, sites, {n: _in_order(v, order) for n, v in state.items()})
    for key, before in here.items():
        now = there.get(key)
        if now is None or now.shape != before.shape or before.shape[:1] != lost.shape:
            continue
        together = not density.sites[key[0]].element_rank  # one draw of all rows, with what binds each two
        if key[1] == "scale_tril" and together:
            before, now = before @ before.T, now @ now.T  # a factor's rows go by those before, in any model
        before, now = before[order][:count].astype(float), now[:count].astype(float)
        if before.shape[1:] == lost.shape and together:
            before, now = before[:, order][:, :count], now[:, :count]
        known = np.isfinite(before) & np.isfinite(now)
        near = 1e-4 * np.abs(before[known]).max(initial=0.0) if before.ndim > 1 else 1e-6
        if not np.allclose(before[known], now[known], rtol=1e-4, atol=near):
            return (
                f"what the model makes of a row of {key[0]!r} goes by its place or by the rows before it "
                "(`jnp.arange`, a lag, a running total)"
            )
    return ""


def _parameters(
    density: Density, sites: list[str], state: Mapping[str, Any]
) -> dict[tuple[str, str], np.ndarray]:
    numbers = known_numbers(density, {n: np.asarray(state[n]) for n in density.latents}, by_jax=True)
    found = {
        (site, name): numbers.value(atom)
        for site in sites
        for name, atom in density.outputs["parameters"].get(site, {}).items()
    }
    return {k: np.asarray(v) for k, v in found.items() if v is not None}


def _in_order(value: Any, order: np.ndarray) -> np.ndarray:
    """A latent with an element for each row, in another order."""
    value = np.asarray(value)
    axis = next((a for a, n in enumerate(value.shape) if n == len(order)), None)
    return value if axis is None else np.take(value, order, axis)
