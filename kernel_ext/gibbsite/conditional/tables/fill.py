"""Pieces → tables: the term evaluated with the sites filled with every combination of values.

A site that a piece reads once is filled with one value everywhere, so that what does not change from row to
row is computed once (`programs.evaluation.evaluate`). Of a site that is read several times the copies are
filled (`copied`), or else its elements are coloured such that no row reads two of a colour, and filled colour
by colour. Two reads that meet in one element take the diagonal of the table there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.finite.colour import coloured
from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.conditional.reads.term_access import maps_after, resolved
from gibbsite.conditional.tables.factor import Factor, Latents, Piece, Source, TooLarge, inside
from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.primitives import GATHERS, JOINS, PLACES, of_kind
from gibbsite.programs.maps.access import Access, Shape, element_number, through

# Where the program of a term stops copying a site and starts computing with it.
#
# `P[z[:-1], z[1:]]` reads two shifted copies of `z`. Filling the copies, each with one value everywhere, and
# not `z` itself keeps a table of all pairs of values at the size of `P` where nothing else changes from row
# to row.


@once
def copies_of(density: Density, site: str) -> Mapping[Any, Access]:
    """The variables that copy elements of the site, inside the window of their only access."""
    var = density.latent_vars[site]
    raw: dict[Any, Any] = {var: density.maps[var][site]}
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, PLACES, JOINS):
            continue
        live = [a for a in eqn.invars if site in density.maps[a]]
        if len(live) != 1 or live[0] not in raw:
            continue
        if of_kind(eqn, GATHERS) and live[0] is not eqn.invars[0]:
            continue
        accesses = density.maps[eqn.outvars[0]].get(site, ())
        if len(accesses) == 1 and accesses[0].single and not accesses[0].latents():
            raw[eqn.outvars[0]] = accesses
    simple = resolved(density, [(None, a) for a in raw.values()])
    return {v: a[0] for v, a in zip(raw, simple, strict=True)}


def last_copies(density: Density, site: str, copies: Mapping[Any, Access], atom: Any) -> list[Any]:
    """The copies that are the last ones before computation, on the ways from the site to `atom`."""
    ways = density.behind(atom, ends=lambda a: a in copies or site not in density.maps[a])
    return [a for a in ways if a in copies]


def copies_to_fill(
    density: Density, piece: Piece, site: str, reads: Sequence[np.ndarray], elements: Shape
) -> list[list[Any]] | None:
    """The variables to fill for each read of the site in a piece, by the index maps of the program cut at
    its copies; None where that is not certain."""
    copies = copies_of(density, site)
    last = last_copies(density, site, copies, piece.term.atom)
    if not last or density.latent_vars[site] in last:
        return None
    names = {v: f"copy {i}" for i, v in enumerate(last)}
    maps = maps_after(density, piece.term.atom, names)
    read, shape = density.evaluator({}).full, piece.term.shape
    out: list[list[Any]] = [[] for _ in reads]
    for v, name in names.items():
        for access in maps.get(name, ()):
            meets = zip(access.window, piece.cell, strict=True)
            if any(max(a, c) >= min(b, d) for (a, b), (c, d) in meets):
                continue
            if not access.single or access.latents():
                return None
            composed = through((copies[v],), access.index, shape, access.window)
            if len(composed) != 1 or composed[0].latents():
                return None
            box = zip(composed[0].window, piece.cell, strict=True)
            if any(low > a or high < b for (low, high), (a, b) in box):
                return None
            number = element_number(composed[0].index[: len(elements)], shape, elements, read)
            here = inside(np.asarray(number), piece.cell)
            hit = [i for i, r in enumerate(reads) if _agree(here, r)]
            if len(hit) != 1 or any(v in several for i, several in enumerate(out) if i != hit[0]):
                return None
            if v not in out[hit[0]]:
                out[hit[0]].append(v)
    return out if all(out) else None


def _agree(a: np.ndarray, b: np.ndarray) -> bool:
    shape = np.broadcast_shapes(a.shape, b.shape)
    return np.array_equal(np.broadcast_to(a, shape), np.broadcast_to(b, shape))


_UNROLL = 24


@dataclass(frozen=True, eq=False)
class Fill:
    """One value axis of an evaluation: all of a site, some copies of it, or the elements of one colour."""

    site: str
    copies: tuple[Any, ...] = ()
    colours: np.ndarray | None = None
    colour: int = 0


def contribution(density: Density, piece: Piece, ev: Evaluator, rows: Sequence[int]) -> Any:
    """The piece's part of the log density, summed onto the axes `rows` of the term and flat; `[1]` where all
    rows agree."""
    x, size = piece.term.at(ev), piece.size
    shape = piece.term.shape
    x = jnp.reshape(x, (1,) * (len(size) - jnp.ndim(x)) + jnp.shape(x))
    lazy = [x.shape[a] == 1 and shape[a] != 1 for a in range(len(size))]
    x = x[tuple(slice(None) if w else slice(*c) for w, c in zip(lazy, piece.cell, strict=True))]
    gone = tuple(a for a in range(len(size)) if a not in rows)
    times = int(np.prod([size[a] for a in gone if lazy[a]], dtype=np.int64))
    if gone:
        x = jnp.sum(x, axis=gone)
    if times != 1:
        x = x * times
    return x.reshape(1) if x.size == 1 else jnp.broadcast_to(x, tuple(size[a] for a in rows)).reshape(-1)


class Tabulated:
    """The factors of one piece and how they are filled; `source` is what the rest of the floor sees. `rows`
    are the axes of the term that stay, those along which reads change unless they are given."""

    def __init__(
        self,
        density: Density,
        piece: Piece,
        supports: Mapping[str, FiniteSupport],
        limit: float,
        rows: Sequence[int] | None = None,
    ):
        self.density, self.piece, self.supports = density, piece, supports
        size = piece.size
        changing = [d for d in range(len(size)) if any(r.shape[d] > 1 for r in piece.reads)]
        self.rows = changing if rows is None else list(rows)
        shape = tuple(size[d] for d in self.rows)
        self.count = int(np.prod(shape, dtype=np.int64))
        flat = [np.broadcast_to(r.reshape([r.shape[d] for d in self.rows]), shape) for r in piece.reads]
        self.index = [f.reshape(-1) for f in flat]
        self.sizes = [supports[s].size for s in piece.sites]
        self.fills: list[Fill] = []
        self.axes = self._axes()
        combos = float(np.prod([supports[f.site].size for f in self.fills], dtype=float))
        if combos * self.count > limit:
            raise TooLarge(self._too_large(combos, limit))
        self.patterns = self._patterns()
        evaluations = combos * float(np.prod(piece.term.shape, dtype=float))
        self.source = Source(tuple(p[0] for p in self.patterns), self.tables, evaluations)

    def _too_large(self, combos: float, limit: float) -> str:
        sites = ", ".join(
            f"{self.piece.sites.count(s):,} element{'s' * (self.piece.sites.count(s) > 1)} of {s!r}"
            for s in dict.fromkeys(self.piece.sites)
        )
        return (
            f"{self.piece.term.origin!r} reads {sites} together: {combos:,.0f} combinations of values × "
            f"{self.count:,} rows (the limit is {limit:,.0f} entries); "
            f"Gibbs {' '.join(dict.fromkeys(self.piece.sites))} still works"
        )

    def _axes(self) -> np.ndarray:
        """`[reads, rows]`: the value axis (a place in `fills`) that each read of each row stands for."""
        sites = self.piece.sites
        axes = np.zeros((len(sites), self.count), np.int64)
        for site in dict.fromkeys(sites):
            mine = [i for i, s in enumerate(sites) if s == site]
            if len(mine) == 1:
                axes[mine[0]] = self._add(Fill(site))
                continue
            reads, elements = [self.piece.reads[i] for i in mine], self.supports[site].elements
            found = None
            if self.supports[site].values.ndim == 1:
                found = copies_to_fill(self.density, self.piece, site, reads, elements)
            if found is not None:
                for i, variables in zip(mine, found, strict=True):
                    axes[i] = self._add(Fill(site, tuple(variables)))
                continue
            colours = self._coloured(site, mine)
            first = len(self.fills)
            for c in range(int(colours.max()) + 1):
                self._add(Fill(site, (), colours, c))
            for i in mine:
                axes[i] = first + colours[self.index[i]]
        return axes

    def _add(self, fill: Fill) -> int:
        self.fills.append(fill)
        return len(self.fills) - 1

    def _coloured(self, site: str, mine: Sequence[int]) -> np.ndarray:
        """A colour per element of the site, such that no row reads two elements of one colour."""
        number = int(np.prod(self.supports[site].elements, dtype=np.int64))
        pairs = [np.stack([self.index[i], self.index[j]]) for a, i in enumerate(mine) for j in mine[:a]]
        return coloured(number, (np.unique(p[:, p[0] != p[1]], axis=1) for p in pairs))

    def _patterns(self) -> list[tuple[Factor, np.ndarray, list[int], np.ndarray]]:
        """Rows by which of their reads are one element: factor, rows, axis of each slot, slot of each
        axis."""
        sites = self.piece.sites
        same = np.tile(np.arange(len(sites))[:, None], (1, self.count))
        for i in range(len(sites)):
            for j in reversed(range(i)):
                if sites[i] == sites[j]:
                    same[i] = np.where(self.index[i] == self.index[j], j, same[i])
        out = []
        keys, inverse = np.unique(np.concatenate([same, self.axes]), axis=1, return_inverse=True)
        for n, key in enumerate(keys.T):
            rows = np.flatnonzero(inverse.reshape(-1) == n)
            slots = [i for i in range(len(sites)) if key[i] == i]
            factor = Factor(
                tuple(sites[i] for i in slots),
                tuple(self.index[i][rows] for i in slots),
                len(rows),
                tuple(self.sizes[i] for i in slots),
                self.piece.term.origin,
            )
            axes = key[len(sites) :]
            slot_of = np.full(len(self.fills), -1)
            for i in range(len(sites)):
                slot_of[axes[i]] = slots.index(key[i])
            out.append((factor, rows, [int(axes[i]) for i in slots], slot_of))
        return out

    def tables(self, latents: Latents, data: Any) -> list[Any]:
        """One table per factor."""
        full = self._evaluated(latents, data)
        return [self._masked(f, self._table(full, r, s, of)) for f, r, s, of in self.patterns]

    def _table(self, full: Any, rows: np.ndarray, slots: list[int], slot_of: np.ndarray) -> Any:
        lead = len(self.fills)
        if len(rows) != self.count and full.shape[-1] != 1:
            full = full[..., jnp.asarray(rows)]
        if len(slots) == lead:
            return jnp.transpose(full, (*slots, lead))
        # reads that meet take the diagonal; the rows do not depend on colours that they do not read
        at = []
        for axis in range(lead):
            slot, k = int(slot_of[axis]), full.shape[axis]
            shape = [k if s == slot else 1 for s in range(len(slots))]
            at.append(np.arange(k).reshape(shape) if slot >= 0 else np.zeros((1,) * len(slots), np.int64))
        return full[tuple(at)]

    def _masked(self, factor: Factor, table: Any) -> Any:
        """−inf where an element cannot take a value."""
        for i, (s, index) in enumerate(zip(factor.sites, factor.index, strict=True)):
            valid = self.supports[s].valid
            if valid is not None:
                own = valid.reshape(valid.shape[0], -1)[:, index]
                shape = [1] * (len(factor.sites) + 1)
                shape[i], shape[-1] = own.shape
                table = jnp.where(own.reshape(shape), table, -jnp.inf)
        return table

    def _evaluated(self, latents: Latents, data: Any) -> Any:
        """The term over all combinations of values: one axis per fill, the rows last."""
        supports = [self.supports[f.site].values for f in self.fills]
        if len(self.fills) == 1 and supports[0].shape[0] <= _UNROLL:
            # XLA fuses separate rows into what follows
            return jnp.stack([self._at(latents, data, v) for v in supports[0]])
        fn: Any = lambda *values: self._at(latents, data, *values)  # noqa: E731
        for i in reversed(range(len(self.fills))):
            fn = jax.vmap(fn, in_axes=tuple(0 if j == i else None for j in range(len(self.fills))))
        return fn(*map(jnp.asarray, supports))

    def _at(self, latents: Latents, data: Any, *values: Any) -> Any:
        given = dict(latents)
        for s, support in self.supports.items():  # outside the piece any value will do
            given[s] = support.values[0].reshape((1,) * len(support.elements) + support.values.shape[1:])
        copies: dict[Any, Any] = {}
        by_colour: dict[str, list[Any]] = {}
        for fill, value in zip(self.fills, values, strict=True):
            if fill.colours is not None:
                by_colour.setdefault(fill.site, []).append(value)
            elif fill.copies:
                one = {v: value.reshape((1,) * v.aval.ndim) for v in fill.copies}
                copies.update({v: x.astype(v.aval.dtype) for v, x in one.items()})
            else:
                rank = len(self.supports[fill.site].elements)
                given[fill.site] = value.reshape((1,) * rank + jnp.shape(value))
        for site, several in by_colour.items():
            colours = next(f.colours for f in self.fills if f.site == site)
            full = jnp.stack(several)[jnp.asarray(colours)]
            given[site] = full.reshape(self.supports[site].elements + full.shape[1:])
        ev = self.density.evaluator(given, data)
        ev.give(copies)
        return contribution(self.density, self.piece, ev, self.rows)
