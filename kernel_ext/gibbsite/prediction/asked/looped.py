"""Latents of rows that Python goes through one by one, each a site of its own: those of other rows are
others, whatever they are called."""

import re
from collections import Counter
from collections.abc import Collection

from gibbsite.density import Density
from gibbsite.errors import ModelError
from gibbsite.prediction.asked.places import Rows

_NUMBERED = re.compile(r"(.*?)\D?(\d+)\D*")


def of_other_rows(density: Density, data: Collection[str], rows: Collection[Rows]) -> set[str]:
    """The latents of a model that belong to rows which new ones are not: each is read, by itself or through
    others, by the data of one row alone, and every row has as many."""
    found: set[str] = set()
    for r in rows:
        own = _rows_of(density, data, r.before) if r.same < min(r.before, r.now) else {}
        found |= {n for n, row in own.items() if row >= r.same}
    return found


def check_decided(decided: Collection[str], rows: Collection[Rows]) -> None:
    """Refuse new rows where Python decides by a site of each row: those of other rows are no part of the
    structures that draws are of. Raises `ModelError`."""
    new = {r.before for r in rows if r.same < min(r.before, r.now)}
    if found := next((f for f in _families(decided) if len(f) in new), None):
        raise ModelError(
            f"new rows: Python decides by {found[0]} to {found[-1]}, a site of each row, and those of other "
            "rows are not known to the structures that were drawn; with `jnp.where(z == 1, …, …)` in place "
            "of `if` the model has one structure, and new rows"
        )


def _families(names: Collection[str]) -> list[list[str]]:
    """Names that are the same but for a number, in its order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if (match := _NUMBERED.fullmatch(name)) is not None:
            found.setdefault(match[1], []).append((int(match[2]), name))
    return [[n for _, n in sorted(f)] for f in found.values()]


def _rows_of(density: Density, data: Collection[str], count: int) -> dict[str, int]:
    """The row that each latent belongs to, where data are `count` sites with numbers in their names."""
    row = {n: k for f in _families(data) if len(f) == count for k, n in enumerate(f)}
    if not row:
        return {}
    readers: dict[str, set[str]] = {n: set() for n in density.latents}
    for term in density.terms:
        for n in density.maps.latents(term.atom):
            readers[n] |= {term.origin} - {n}
    own: dict[str, int] = {}
    for name in reversed(density.latents):  # what reads a latent comes after it
        by = {row.get(n, own.get(n, -1)) for n in readers[name]}
        if len(by) == 1 and -1 not in by:
            own[name] = by.pop()
    each = Counter(own.values())
    return own if len(each) == count and len({*each.values()}) == 1 else {}
