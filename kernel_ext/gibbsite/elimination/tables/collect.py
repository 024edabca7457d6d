"""A density and the sites to sum out → every factor that they meet in, and the rest of the log density."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.finite.finite import FiniteStructure, FiniteTables
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.conditional.reads.term_access import SINGLE, Touch
from gibbsite.conditional.tables.factor import MAX_ENTRIES, Factor, Latents, Source
from gibbsite.conditional.tables.fill import Tabulated, contribution
from gibbsite.conditional.tables.pieces import Piece, pieces_of, term_accesses
from gibbsite.density import Density
from gibbsite.density.hierarchy.residuals import at_distances
from gibbsite.density.terms import Term
from gibbsite.elimination.tables.gates import Reads, at_value, gate_of, in_context
from gibbsite.elimination.tables.safe import guarded
from gibbsite.errors import ModelError
from gibbsite.programs.maps.access import Access, Shape, disjoint


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
        single: dict[str, list[Touch]] = {s: [] for s in of.names}
        for term in (*density.terms, *density.bounds):
            self._collect(term, single, limit)
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
        if piece.reads:
            self.sources.append(Tabulated(self.density, piece, self.of.supports, limit).source)
        else:
            self._rest.append(piece)

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
