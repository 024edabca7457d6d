"""A density and the sites to sum out → every factor that they meet in, and the rest of the log density."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.finite.finite import FiniteStructure, FiniteTables
from gibbsite.conditional.finite.threshold import Thresholds, compared, threshold_table
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.conditional.reads.term_access import SINGLE, Touch
from gibbsite.conditional.tables.factor import (
    MAX_ENTRIES,
    Factor,
    Latents,
    Piece,
    Source,
    pieces_of,
    term_accesses,
)
from gibbsite.conditional.tables.fill import Tabulated, contribution
from gibbsite.density import Density
from gibbsite.density.hierarchy.residuals import at_distances
from gibbsite.density.liveness import needed_by
from gibbsite.density.terms import Term
from gibbsite.elimination.tables.safe import guarded
from gibbsite.errors import ModelError
from gibbsite.programs.maps.access import Access, Shape, disjoint

# Terms in which the value of one site decides which others are read: one table per value.
#
# `where(g == 0, a[u], b[v])` has one table over `g`, `u` and `v`. Where `g` is 0 it does not read `v`, and
# where it is 1 not `u`: a table over `g` and `u`, which is 0 where `g` is not, and one over `g` and `v` keep
# `u` and `v` apart (Boutilier, Friedman, Goldszmidt and Koller 1996, "Context-specific independence in
# Bayesian networks").


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


@dataclass(frozen=True)
class Summed:
    """The sites to be summed out, with their supports."""

    supports: Mapping[str, FiniteSupport]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.supports)

    @cached_property
    def elements(self) -> dict[str, Shape]:
        """Shapes of the sites' elements."""
        return {n: s.elements for n, s in self.supports.items()}

    @cached_property
    def count(self) -> dict[str, int]:
        """Numbers of elements."""
        return {n: int(np.prod(e, dtype=np.int64)) for n, e in self.elements.items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Numbers of values."""
        return {n: s.size for n, s in self.supports.items()}


def summed(density: Density, names: Sequence[str]) -> Summed:
    """The named sites of `density`; `ModelError` for one that cannot be summed out."""
    supports = {}
    for name in names:
        site = density.site(name)
        if not site.latent:
            raise ModelError(f"{name!r} is {site.role}, not latent: there is nothing to sum out")
        if not site.discrete:
            raise ModelError(f"{name!r} is continuous: only sites whose values can be listed are summed out")
        support = finite_support(density, name)
        if support is None:
            raise ModelError(
                f"{name!r} has infinite support ({site.support}), which is summed out alone, and in no table "
                f"with other sites; truncate it (for example a Categorical over 0…K), or draw it by Window"
            )
        supports[name] = support
    return Summed(supports)


class Tables:
    """All factors that the sites of `of` meet in; everything is pure in `latents` (the others) and `data`."""

    def __init__(self, density: Density, of: Summed, limit: float = MAX_ENTRIES):
        self.density, self.of = guarded(density), of
        self.sources: list[Source] = []
        self._rest: list[Piece] = []
        self._compared: dict[Any, tuple[Thresholds, ...]] = {}
        single: dict[str, list[Touch]] = {s: [] for s in of.names}
        for term in (*density.terms, *density.bounds):
            self._collect(term, single, limit)
        self.sources += [self._of_compared(key[0], found) for key, found in self._compared.items()]
        for site, touches in single.items():
            if touches or of.supports[site].valid is not None:
                self.sources.append(self._of_single(site, touches))

    def _collect(self, term: Term, single: dict[str, list[Touch]], limit: float) -> None:
        accesses = term_accesses(self.density, term, self.of.elements)
        if len(accesses) == 1:
            ((site, found),) = accesses.items()
            moving = frozenset().union(*(a.latents() for a in found)) & set(self.of.names)
            if not moving and all(a.single for a in found) and disjoint(found):
                single[site].append(Touch(term, found, SINGLE))
                self._rest += self._unread(term, found)
                return
        gate = gate_of(self.density, term, accesses, self.of.supports)
        if gate is not None:
            for number, reads in enumerate(gate.reads):
                self._in_context(term, gate.site, number, reads, limit)
            return
        for piece in pieces_of(self.density, term, accesses, self.of.elements, self.of.sizes):
            self._without(piece, limit)

    def _in_context(self, term: Term, site: str, number: int, reads: Reads, limit: float) -> None:
        """The tables of a term where one site has one value; what does not read that site stands once."""
        supports = at_value(self.of.supports, site, number)
        for piece in pieces_of(self.density, term, reads, self.of.elements, self.of.sizes):
            if site in piece.sites:
                source = Tabulated(self.density, piece, supports, limit).source
                self.sources.append(in_context(source, site, number, self.of.sizes[site]))
            elif number == 0:
                self._without(piece, limit)

    def _without(self, piece: Piece, limit: float) -> None:
        if not piece.reads:
            self._rest.append(piece)
            return
        found = self._compared_in(piece)
        if found and math.prod(self.of.sizes[s] for s in piece.sites) <= limit:
            key = (piece.sites, *(f.key for f in found))
            before = self._compared.get(key, found)
            more = (f.after(b) for f, b in zip(found, before, strict=True))
            self._compared[key] = found if before is found else tuple(more)
        else:
            self.sources.append(Tabulated(self.density, piece, self.of.supports, limit).source)

    def _compared_in(self, piece: Piece) -> tuple[Thresholds, ...]:
        """How a term reads several sites of one element each through comparisons alone, if it does."""
        sites, supports = piece.sites, self.of.supports
        alone = len({*sites}) == len(sites) > 1 and piece.size == piece.term.shape
        if not alone or any(self.of.count[s] != 1 or supports[s].valid is not None for s in sites):
            return ()
        accesses = term_accesses(self.density, piece.term, self.of.elements)
        mine = {s: accesses[s] for s in sites}
        return compared(self.density, piece.term, mine, {s: supports[s].values for s in sites})

    def _of_compared(self, sites: Sequence[str], found: tuple[Thresholds, ...]) -> Source:
        """The table of terms that read sites through comparisons alone, as several change points are read: in
        work proportional to their elements and to its entries, not to the product."""
        sizes, terms = tuple(self.of.sizes[s] for s in sites), [t.term for t in found[0].touches]

        def tables(latents: Latents, data: Any) -> list[Any]:
            firsts = {
                s: f.values[0].reshape((1,) * len(f.elements) + f.values.shape[1:])
                for s, f in self.of.supports.items()
            }
            return [threshold_table(self.density, found, {**latents, **firsts}, data)[..., None]]

        origin = " ".join(dict.fromkeys(t.origin for t in terms))
        factor = Factor(tuple(sites), (np.zeros(1, np.int64),) * len(sites), 1, sizes, origin)
        elements = sum(math.prod(t.shape) for t in terms) + math.prod(n + 1 for n in sizes)
        return Source((factor,), tables, 2.0 ** len(sites) * elements)

    def _unread(self, term: Term, found: Sequence[Access]) -> list[Piece]:
        """The parts of a term that no access covers."""
        covered = sum(int(np.prod([high - low for low, high in a.window])) for a in found)
        if covered == int(np.prod(term.shape)):
            return []
        windows = tuple(Access((), a.window) for a in found)
        cells = pieces_of(self.density, term, {"": windows}, {"": ()}, {"": 1})
        return [p for p in cells if not p.reads]

    def _of_single(self, site: str, touches: list[Touch]) -> Source:
        """The terms that read one element of one site each, in one pass (thresholds included)."""
        support, n, k = self.of.supports[site], self.of.count[site], self.of.sizes[site]
        structure = FiniteStructure(site, support, tuple(touches), (), None, 0, frozenset(), False)
        tables = FiniteTables(self.density, structure)
        origin = " ".join(dict.fromkeys(t.term.origin for t in touches)) or site

        def tabulate(latents: Latents, data: Any) -> list[Any]:
            # terms broadcast over the others' values, which `single` never reads
            found = tables.single(latents, data)
            if found.size == found.shape[0]:
                return [jnp.broadcast_to(found.reshape(-1, 1), (k, 1))]
            return [jnp.broadcast_to(found, (k, *support.elements)).reshape(k, n)]

        filled = sum(float(np.prod(t.term.shape, dtype=float)) for t in tables.filled)
        once = sum(float(np.prod(t.term.shape)) for c in tables.thresholds for t in c.touches)
        factor = Factor((site,), (np.arange(n),), n, (k,), origin)
        return Source((factor,), tabulate, k * filled + once)

    @property
    def factors(self) -> list[Factor]:
        """All factors, in the order of their tables."""
        return [f for s in self.sources for f in s.factors]

    @property
    def evaluations(self) -> float:
        """Elements of terms that are evaluated for the tables."""
        return sum(s.evaluations for s in self.sources)

    def __call__(self, latents: Latents, data: Any) -> list[Any]:
        """The tables of `factors`."""
        return [t for s in self.sources for t in s.tables(latents, data)]

    def rest(self, latents: Latents, data: Any, apart: Latents | None = None) -> Any:
        """The part of the log density that none of the summed sites touches: a scalar.

        `apart` are distances of sites from their locations that are known better than from the values.
        """
        given = dict(latents)  # the rest does not depend on the values of the summed sites
        for s, support in self.of.supports.items():
            shape = (1,) * len(support.elements) + support.values.shape[1:]
            given[s] = support.values[0].reshape(shape)
        ev = self.density.evaluator(given, data)
        ev.give(at_distances(self.density, apart or {}))
        out: Any = jnp.zeros(())
        for piece in self._rest:
            part = contribution(self.density, piece, ev, ())
            out = out + jnp.sum(part)
        return out
