"""Between which numbers every array of a density lies, wherever the latents are in their supports.

Data count by their least and largest values, and NaN in them makes NaN of whatever is computed from them.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.domains.domain import results
from gibbsite.programs.domains.interval import INTERVALS, Interval, of_array
from gibbsite.programs.jaxpr.compat import Literal, is_traced
from gibbsite.programs.jaxpr.walker import OnDemand

Range = tuple[float, float]
_SHARES = (type(constraints.simplex), type(constraints.boolean))
_CORRELATIONS = (type(constraints.corr_matrix), type(constraints.corr_cholesky))


def range_of(density: Density, atom: Any) -> Range:
    """The range of an atom of the density's jaxpr; NaN for both ends where it may be NaN."""
    return _ranges(density)(atom).ends


def of_site(density: Density, site: str) -> Interval:
    """Between which numbers an element of a latent lies, whatever others bound it by."""
    return _ranges(density)(density.latent_vars[site])


def positive(density: Density, atom: Any) -> bool:
    """Whether an array is certain to be above 0, or NaN, which stands for what is out of bounds; False is
    "not known". What no latent enters counts by its values."""

    def value(atom: Any) -> Interval | None:
        if density.maps.latents(atom):
            return None
        with jax.ensure_compile_time_eval():
            return of_array(np.asarray(density.evaluator({}).full(atom)))

    return _intervals(density, "signs", value)(atom).positive


def _ranges(density: Density) -> OnDemand[Interval]:
    return _intervals(density, "ranges", lambda atom: None)


def _intervals(density: Density, name: str, known: Callable[[Any], Interval | None]) -> OnDemand[Interval]:
    """The intervals of a density's variables, by those of its inputs and of what is `known` beside."""
    if name not in density.cache:
        jaxpr = density.closed.jaxpr
        given = dict(zip(jaxpr.constvars, density.closed.consts, strict=True))
        given |= dict(zip(density.data_vars, density.arguments.arrays, strict=True))
        sites, asked = {v: n for n, v in density.latent_vars.items()}, set[str]()

        def support(site: str) -> Interval:
            ends = density.outputs["bounds"].get(site)
            if ends is None or site in asked:  # rows of one site may bound each other
                return of_support(density.sites[site].support)
            asked.add(site)
            low, high = map(found, ends)
            asked.remove(site)
            return Interval(low.low, high.high, False, False)

        def leaf(atom: Any) -> Interval | None:
            if isinstance(atom, Literal):
                return of_array(atom.val)
            if atom in sites:
                return support(sites[atom])
            return of_array(given[atom]) if atom in given else known(atom)

        found: OnDemand[Interval] = OnDemand(density.producer, leaf, partial(results, INTERVALS))
        density.cache[name] = found
    return density.cache[name]


def range_of_support(support: Any) -> Range:
    """The least and the largest value of an element of a site."""
    return of_support(support).ends


def of_support(support: Any) -> Interval:
    """Between which numbers an element of a site lies, but for a set of no probability: the ends of what is
    continuous are open."""
    base = base_constraint(support)
    if isinstance(base, _SHARES):
        return Interval(0.0, 1.0, not support.is_discrete, not support.is_discrete)
    if isinstance(base, _CORRELATIONS):
        return Interval(-1.0, 1.0, False, False)
    ends: list[float] = []
    for name, reduce, otherwise in (
        ("lower_bound", np.min, -math.inf),
        ("upper_bound", np.max, math.inf),
    ):
        bound = getattr(base, name, None)
        moves = bound is None or is_traced(bound)  # with a latent, it is no number yet
        ends.append(otherwise if moves else float(reduce(np.asarray(bound))))
    closed = [support.is_discrete and math.isfinite(e) for e in ends]
    return Interval(ends[0], ends[1], not closed[0], not closed[1])
