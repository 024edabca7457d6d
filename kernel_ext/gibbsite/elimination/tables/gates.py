"""Terms in which the value of one site decides which others are read: one table per value.

`where(g == 0, a[u], b[v])` has one table over `g`, `u` and `v`. Where `g` is 0 it does not read `v`, and
where it is 1 not `u`: a table over `g` and `u`, which is 0 where `g` is not, and one over `g` and `v` keep
`u` and `v` apart (Boutilier, Friedman, Goldszmidt and Koller 1996, "Context-specific independence in
Bayesian networks").
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.conditional.tables.factor import Factor, Latents, Source
from gibbsite.density import Density
from gibbsite.density.liveness import needed_by
from gibbsite.density.terms import Term
from gibbsite.programs.maps.access import Access

_MOST_VALUES = 8
_MOST_SITES = 8

Reads = Mapping[str, Sequence[Access]]


@dataclass(frozen=True)
class Gate:
    """A site, and for each of its values what a term reads then, the site itself included."""

    site: str
    reads: tuple[Reads, ...]


def gate_of(
    density: Density, term: Term, accesses: Reads, supports: Mapping[str, FiniteSupport]
) -> Gate | None:
    """The site whose values take the largest table of the term apart best; None where no site does."""
    if not 3 <= len(accesses) <= _MOST_SITES:
        return None

    def width(reads: Reads) -> float:
        return math.prod(float(supports[s].size) ** len(a) for s, a in reads.items())

    best, least = None, width(accesses)
    for site, own in accesses.items():
        support = supports[site]
        # values that are arrays are sets of elements, which other sites' elements could not follow
        if support.size > _MOST_VALUES or len(own) != 1 or not own[0].single or support.values.ndim > 1:
            continue
        reads = tuple(_read_at(density, term, accesses, site, v) for v in support.values)
        # a table over the site with one value, or with all of them: as they will meet
        widest = support.size * max(width({s: a for s, a in r.items() if s != site}) for r in reads)
        if widest < least:
            best, least = Gate(site, reads), widest
    return best


def _read_at(density: Density, term: Term, accesses: Reads, site: str, value: Any) -> Reads:
    """What the term reads where every element of a site has one value."""
    known = np.full(density.sites[site].shape, value, density.sites[site].dtype)
    need = needed_by(density, [term.atom], {site: known})
    return {s: a for s, a in accesses.items() if s == site or np.any(need.get(density.latent_vars[s], False))}


def at_value(supports: Mapping[str, FiniteSupport], site: str, number: int) -> dict[str, FiniteSupport]:
    """The supports, that of one site cut to one of its values."""
    own, one = supports[site], slice(number, number + 1)
    valid = None if own.valid is None else own.valid[one]
    return {**supports, site: replace(own, values=own.values[one], valid=valid)}


def in_context(source: Source, site: str, number: int, size: int) -> Source:
    """Tables over one value of a site as tables over all `size` of them, 0 at the others."""
    places = [f.sites.index(site) for f in source.factors]

    def widened(f: Factor, axis: int) -> Factor:
        return replace(f, sizes=tuple(size if a == axis else n for a, n in enumerate(f.sizes)))

    def tables(latents: Latents, data: Any) -> list[Any]:
        out = []
        for table, axis in zip(source.tables(latents, data), places, strict=True):
            beside = [(number, size - 1 - number) if a == axis else (0, 0) for a in range(table.ndim)]
            out.append(jnp.pad(table, beside))
        return out

    factors = tuple(widened(f, axis) for f, axis in zip(source.factors, places, strict=True))
    return Source(factors, tables, source.evaluations)
