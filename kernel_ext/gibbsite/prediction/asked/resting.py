"""Latents that stay as the run drew them, though what they are drawn from is set to something else: an
effect of what is set that goes through them would come out as none. So would one through an outcome that
others read as it was observed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.hierarchy.exchangeability import random_state
from gibbsite.density.known_elements import sources
from gibbsite.errors import DataError
from gibbsite.prediction.asked.arguments import (
    Asked,
    bound_arguments,
    laid_in,
    leaves_of,
    outcomes_of,
    places_of,
    with_leaf,
)
from gibbsite.prediction.asked.groups import argument_of
from gibbsite.prediction.asked.places import Rows, unchanged
from gibbsite.prediction.asked.together import all_parameters_at
from gibbsite.programs.maps.access import Whole


def resting(origin: Any, density: Density, asked: Asked, known: Collection[str]) -> dict[str, list[str]]:
    """By name of a `known` latent the arrays, of as many rows as before (or groups) and other values, that
    enter its distribution, or what data make of all of it (a process written by its factor)."""
    before, now = leaves_of(origin, bound_arguments(origin)), leaves_of(origin, asked.values)
    for name in before.keys() & now.keys():
        if rows := _rows_of(origin, asked, argument_of(name), len(now[name]) if np.ndim(now[name]) else 0):
            own, new = (np.array(r, int) for r in rows)
            as_was = np.array(now[name])  # where they are now
            as_was[new] = np.asarray(before[name])[own]
            before[name] = as_was
    other = [n for n, v in now.items() if n in before and _moved(before[n], v)]
    found: dict[str, list[str]] = {}
    for name in known if other else ():
        if enters := [n for n in other if n in _read_by(density, name)]:
            found[name] = enters
        elif read_whole(density, name):
            found |= {name: [n for n in other if _mixes(density, name, n, before[n], now[n])]}
    return {n: leaves for n, leaves in found.items() if leaves}


def bypassed(origin: Any, density: Density) -> Iterator[tuple[str, str, str]]:
    """The arguments that are an outcome and enter another one's distribution, or that of its other elements,
    as they were observed, with the two: `numpyro.sample("x", …, obs=x)`, and then `x` and not what that
    returned."""
    whole = outcomes_of(origin)
    for leaf, site in laid_in(origin).items():
        # steps of a loop go on with what is drawn there
        own = () if leaf in whole and origin.density.sites[site].in_scan else (site,)
        for other in dict.fromkeys([*whole.values(), *own]):
            if (other != site or own) and leaf in _read_by(density, other):
                yield leaf, site, other


def going_on(origin: Any, asked: Asked, rows: Sequence[Rows]) -> tuple[Asked, tuple[str, ...]]:
    """What is asked, with the run's own outcomes before the steps to come where each step of a loop reads
    the outcome before it, and nobody said anything of them; and a sentence where they were taken out."""
    before, told = leaves_of(origin, bound_arguments(origin)), ()
    follow = {r.before: r.now for r in rows if r.same == r.before < r.now}
    for leaf, site in outcomes_of(origin).items():
        own = np.asarray(before[leaf])
        longer = follow.get(len(own)) if own.ndim else None
        loop = origin.density.sites[site].in_scan
        if longer is None or not loop or leaf not in _read_by(origin.density, site):
            continue
        if leaf in asked.absent:
            told += (
                f"{site} is drawn anew from its first step, and the steps to come go on from that: give "
                f"{leaf}, missing (NaN) where it is to come, and they go on from what was observed",
            )
        elif leaf not in asked.new:
            to_come = np.full((longer - len(own), *own.shape[1:]), np.nan)
            array = np.concatenate([own, to_come])
            values = with_leaf(asked.values, places_of(origin, bound_arguments(origin)), leaf, array)
            asked = replace(asked, values=values, new=asked.new | {leaf})
    return asked, told


def check_outcomes_go_on(origin: Any, density: Density, asked: Asked, fixed: Collection[str]) -> None:
    """Refuse to set what moves one outcome where another is computed with the first one's argument, which
    stays as it was observed: no effect goes through it. Raises `DataError`."""
    before, now = leaves_of(origin, bound_arguments(origin)), leaves_of(origin, asked.values)
    moved = [n for n, v in now.items() if n in before and n not in asked.new and not unchanged(before[n], v)]
    if not moved and not fixed:
        return
    for leaf, site, other in bypassed(origin, density):
        if leaf in {*moved, *asked.new} or site in fixed or other in fixed:
            continue
        latents = density.maps.latents(density.outputs["log_prob"][site])
        enter = [n for n in moved if n in _read_by(density, site)] + [n for n in fixed if n in latents]
        if enter:
            where = "its other elements are" if other == site else f"{other} is"
            too = "" if other == site else f"; or set {leaf}, too"
            raise DataError(
                f"{', '.join(enter)} cannot be set: {where} computed with the argument {leaf}, which stays "
                f"as it was observed, so that no effect goes through it. Observe {leaf} in a statement of "
                f"its own and go on with what that returns ({leaf} = numpyro.sample(…, obs={leaf})), which "
                f"is the datum where there is one{too}"
            )


def _read_by(density: Density, site: str) -> set[str]:
    """The arguments that enter a site's distribution."""
    behind = sources(density, list(density.outputs["parameters"].get(site, {}).values()))
    return {density.data_names[v] for v in behind if v in density.data_names}


def _rows_of(origin: Any, asked: Asked, table: str, count: int) -> tuple[list[int], list[int]] | None:
    """Which rows of a table that has `count` now are which of the model's, by their names; None where they
    have none."""
    if table in asked.groups:  # the model's own stand first
        own = list(range(len(asked.groups[table][0])))
        return own, own
    for leaf in origin.analysis.known.plates.values():
        texts, new = origin.labels.get(leaf, ()), asked.labels.get(leaf, ())
        if argument_of(leaf) == table and leaf not in origin.density.read_names and len(new) == count:
            places = {t: i for i, t in enumerate(texts)}
            both = [(places[t], i) for i, t in enumerate(new) if t in places]
            return [i for i, _ in both], [i for _, i in both]
    return None


def _moved(a: Any, b: Any) -> bool:
    return np.ndim(a) > 0 and np.shape(a) == np.shape(b) and not unchanged(a, b)


def read_whole(density: Density, name: str, by: Collection[str] | None = None) -> bool:
    """Whether another site, or one of those named, reads all along the last axis of a latent."""
    return any(
        term.origin != name and access.index and isinstance(access.index[-1], Whole)
        for term, accesses in density.terms_of(name)
        if by is None or term.origin in by
        for access in accesses
    )


def _mixes(density: Density, name: str, leaf: str, before: Any, now: Any) -> bool:
    """Whether what one row of data makes of a latent vector is another with another row of an array: rows of
    a covariance are, and those of a matrix of covariates stand alone."""
    state = random_state(density)
    place = list(density.arguments.names).index(leaf) if leaf in density.arguments.names else None
    if state is None or place is None:
        return False
    here = np.asarray(state[name])
    moved = {**state, name: here + 1 + np.arange(here.size).reshape(here.shape)}
    own = np.asarray(density.arguments.arrays[place])
    if own.shape != np.shape(now):  # the model's own rows were put in front, and are as they were
        return False

    sites = [n for n, s in density.sites.items() if s.role != "deterministic" and not s.in_scan]

    def slopes(values: np.ndarray) -> list[np.ndarray]:
        arrays = [*density.arguments.arrays[:place], values, *density.arguments.arrays[place + 1 :]]
        a, b = (all_parameters_at(density, sites, s, arrays) for s in (state, moved))
        return [_slope(a[k], b[k]) for k in a if a[k].dtype.kind == "f"]

    base = slopes(np.asarray(before, own.dtype))
    for row in {0, len(own) - 1}:
        other = np.array(before, own.dtype)
        other[row] = np.asarray(now)[row] + (np.asarray(now)[row] == other[row])
        for a, b in zip(base, slopes(other), strict=True):
            rest = np.delete(np.abs(b - a), row, axis=0) if a.ndim and len(a) == len(own) else np.abs(b - a)
            if (rest > 1e-4 + 1e-3 * np.abs(a).max(initial=0)).any():
                return True
    return False


def _slope(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """From one to the other; none where they are equal but for the last digits, and where both are infinite,
    as logits of what cannot be."""
    alike = np.isclose(a, b, rtol=16 * np.finfo(a.dtype).eps, atol=0, equal_nan=True)
    return np.subtract(b, a, out=np.zeros_like(b), where=~alike)
