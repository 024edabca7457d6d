"""Which continuous sites a schedule should not cut apart: hierarchies, and what shares their terms.

Given the scale, the effects of a hierarchy move little; given the effects, so does the scale: updates in turn
walk where a joint one leaps, and only within one block can the degree of centring be learnt.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import networkx as nx
import numpy as np
from numpyro.distributions import constraints

from gibbsite.density import Density
from gibbsite.density.hierarchy.by_hand import ByHand, non_centred_by_hand
from gibbsite.density.hierarchy.location_scale import (
    RECURSION,
    WALK,
    LocationScale,
    location_scales,
    on_the_real_line,
)
from gibbsite.trace.jaxpr.compat import Literal

# beyond so many numbers, an exact draw is worth more than a joint one
_MANY = 500
# missing values beside a covariance: of more, or of a smaller share of the data, turns do as well
_MANY_MISSING = 64
_FEW_MISSING = 0.1


def hierarchies(density: Density) -> list[tuple[str, ...]]:
    """The sites of a model whose locations and scales read continuous latents, with all that these read:
    connected ones together, each in program order. Chains over time stay out: they are drawn by the walk."""
    graph: nx.Graph = nx.Graph()
    for name, found in _scaled(density).items():
        graph.add_edges_from((name, n) for n in found.reads if not density.sites[n].discrete)
    order = {n: i for i, n in enumerate(density.latents)}
    return [tuple(sorted(c, key=order.__getitem__)) for c in nx.connected_components(graph)]


def _scaled(density: Density) -> dict[str, LocationScale | ByHand]:
    """What has a location or a scale that latents enter, as declared or as written by hand; not over time."""
    declared = {n: f for n, f in location_scales(density).items() if f.form not in (WALK, RECURSION)}
    return {**non_centred_by_hand(density), **declared}


def kept_together(density: Density, conjugate: Collection[str], excluded: Collection[str]) -> dict[str, str]:
    """The sites that belong into one block with their hierarchy although some could be drawn exactly, and in
    words what ties them.

    A hierarchy all of which is `conjugate` has none, unless its effects are non-centred by hand: drawn in
    turn, they and their scale mix badly wherever data are many. Sites in `excluded` are left where they are.
    """
    tied: dict[str, str] = {}
    scales = _scaled(density)
    for members in hierarchies(density):
        free = [n for n in members if n not in excluded]
        by_hand = any(isinstance(scales.get(n), ByHand) and scales[n].scale for n in members)
        if (all(n in conjugate for n in members) and not by_hand) or len(free) < 2:
            continue
        for n in free:
            readers = [m for m in free if m in scales and n in scales[m].reads]
            tied[n] = told(scales[n]) if n in scales else f"{', '.join(readers)} reads {n}"
    effects = [n for n in tied if n in scales]
    for n in conjugate:
        if n in tied or n in excluded or not on_the_real_line(density.sites[n].support):
            continue
        shared = _shared(density, n, effects)
        if shared:
            tied[n] = f"{n} meets {shared[1]} in the terms of {shared[0]}"
    return {**_curved(density, conjugate, excluded), **_imputed(density, conjugate, excluded), **tied}


def _imputed(density: Density, conjugate: Collection[str], excluded: Collection[str]) -> dict[str, str]:
    """The sites that could be drawn exactly, but are a covariance and the values that data lack beside it:
    values imputed under one correlation make it likely again (Tanner and Wong 1987, §5, whose twelve points
    have two modes). What else their density reads joins them."""
    tied: dict[str, str] = {}
    for name, value in density.outputs["observed"].items():
        lacking = [n for n in density.latents if n in density.maps.latents(value)]
        free = [n for n in lacking if n in conjugate and n not in excluded]
        count, whole = sum(_size(density, n) for n in lacking), math.prod(np.shape(value.aval))
        if not free or count > _MANY_MISSING or count < _FEW_MISSING * whole:
            continue
        near = density.maps.latents(density.outputs["log_prob"][name])
        near = [n for n in density.latents if n in near and n in conjugate and n not in excluded]
        matrices = [n for n in near if _is_covariance(density, n)]
        if matrices and sum(_size(density, n) for n in near) <= _MANY:
            pair = f"{matrices[0]} and {free[0]}"
            what = f"{pair} make each other likely in {name}, {count} values of which lack"
            tied.update(dict.fromkeys([*near, *free], what))
    return tied


def _is_covariance(density: Density, name: str) -> bool:
    return density.sites[name].support in (constraints.positive_definite, constraints.positive_semidefinite)


def _size(density: Density, name: str) -> int:
    return math.prod(density.sites[name].shape)


def _curved(density: Density, conjugate: Collection[str], excluded: Collection[str]) -> dict[str, str]:
    """The sites that could be drawn exactly, but enter the location or the rate of data together with one
    that cannot: coefficients beside a parameter that bends the curve follow it, of any sign, and a hazard
    that is multiplied by a risk makes up for every change of it."""
    tied: dict[str, str] = {}
    for name, site in density.sites.items():
        for what, entering in _entering(density, name).items() if site.role == "observed" else ():
            near = [n for n in entering if n not in excluded]
            bends = [n for n in near if n not in conjugate and not density.sites[n].discrete]
            for n in near if bends else ():
                if n in conjugate and np.prod(density.sites[n].shape) <= _MANY:
                    tied[n] = f"{n} and {bends[0]} meet in the {what} of {name}"
    return tied


def _shared(density: Density, name: str, effects: Sequence[str]) -> tuple[str, str] | None:
    """A term that `name` and one of the effects are both read by, and that effect."""
    for term, _ in density.terms_of(name):
        near = density.maps.latents(term.atom)
        met = [e for e in effects if e in near and e != name]
        if met and term.origin not in (name, *met):
            return term.origin, met[0]
    return None


def told(found: LocationScale | ByHand) -> str:
    """`theta's location reads mu, its scale reads tau`."""
    site, location, scale = found.site, found.location, found.scale
    parts = [f"location reads {', '.join(location)}"] if location else []
    parts += [f"scale reads {', '.join(scale)}"] if scale else []
    return f"{site}'s " + ", its ".join(parts)


def ties_within(density: Density, sites: Sequence[str]) -> list[str]:
    """What ties the sites of one block to each other, in words."""
    scales = _scaled(density)
    found = [told(f) for n in sites if (f := scales.get(n)) is not None and set(f.reads) & set(sites)]
    found += dict.fromkeys(_imputed(density, sites, ()).values())
    for name, site in density.sites.items():
        for what, entering in _entering(density, name).items() if site.role == "observed" else ():
            near = [n for n in entering if n in sites and n not in scales]
            if len(near) > 1:
                found.append(f"{', '.join(near)} meet in the {what} of {name}")
    return found


_LEVELS = {"loc": "location", "rate": "rate"}


def _entering(density: Density, name: str) -> dict[str, list[str]]:
    """The latents that the location or the rate of a site reads, in program order, by which of these."""
    found = {}
    for parameter, what in _LEVELS.items():
        atom = density.outputs["parameters"].get(name, {}).get(parameter)
        near = () if atom is None or isinstance(atom, Literal) else density.maps.latents(atom)
        found[what] = [n for n in density.latents if n in near]
    return found


def ties_across(density: Density, sites: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """By site of a block, the sites outside it that its location or scale reads, or whose own reads it."""
    scales = _scaled(density)
    out: dict[str, tuple[str, ...]] = {}
    for n in sites:
        reads = scales[n].reads if n in scales else ()
        readers = [m for m, f in scales.items() if n in f.reads]
        away = tuple(m for m in dict.fromkeys([*reads, *readers]) if m not in sites)
        if away:
            out[n] = away
    return out
