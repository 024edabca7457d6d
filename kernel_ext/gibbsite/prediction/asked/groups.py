"""Tables of groups: a row for each category by which other arguments pick. A new one says what it says of the
groups that it has; the model's other groups stay as they are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.density.model.names import printed
from gibbsite.errors import DataError
from gibbsite.ground.arguments import shown
from gibbsite.inputs.table import Table
from gibbsite.inputs.tables import Labels


@dataclass(frozen=True)
class Groups:
    """The argument `table` has a row for each of `own`, in their order; `named` is what names them: a column
    as labels call it (`sc['name']`), or `index of sc`."""

    table: str
    named: str
    own: tuple[str, ...]

    def texts(self, labels: Labels, columns: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The groups of a new table's rows, of which `labels` and `columns` are; None where it does not name
        them. Raises `DataError` for a group that has several rows."""
        codes, texts = columns.get(self.named), labels.get(self.named)
        if codes is not None and np.isfinite(codes).all():
            texts = tuple(str(c) if texts is None else texts[int(c)] for c in np.asarray(codes))
        elif texts is None or codes is not None:
            return None
        text, count = Counter(texts).most_common(1)[0]
        if count > 1:
            raise DataError(f"the new table {self.table!r} has {count} rows of {text!r}: a group has one row")
        return tuple(map(printed, texts))

    def rows(self, texts: Sequence[str], every: Sequence[str]) -> np.ndarray:
        """The row of each of `every` group in a new table with rows of `texts`, or -1. Raises `DataError`
        where another new table has other new ones."""
        places = {t: i for i, t in enumerate(texts)}
        new = {*every} - {*self.own}
        for text in sorted(new ^ ({*texts} - {*self.own})):
            one, other = ("lacks a", "has") if text in new else ("has a", "lacks")
            raise DataError(
                f"of the new tables of groups, {self.table!r} {one} row of {text!r}, and another {other} one"
            )
        return np.array([places.get(t, -1) for t in every])

    def check_known(self, leaf: str, more: Sequence[str]) -> None:
        """Refuse `more` categories of an argument, that neither the model nor the new table has a row of."""
        if more:
            raise DataError(
                f"{leaf!r} holds {', '.join(map(shown, more[:5]))}{', …' * (len(more) > 5)}, of which "
                f"neither the model's {self.table!r} nor the new one has a row"
            )


def groups_of(origin: Any, bound: Mapping[str, Any]) -> dict[str, Groups]:
    """The tables of groups among a model's arguments, by name."""
    found = {}
    for name in (n for n, v in bound.items() if isinstance(v, Table)):
        others = {t for leaf, t in origin.labels.items() if " of " not in leaf and argument_of(leaf) != name}
        naming = sorted(n for n in origin.analysis.known.naming if argument_of(n) == name)
        for named in [*naming, f"index of {name}"]:
            own = origin.labels.get(named, ())
            if own in others and len(own) == len(bound[name]):
                found.setdefault(name, Groups(name, named, own))
    return found


def with_rows(before: Any, now: Any, rows: np.ndarray) -> Any:
    """A column of the model's, with what the `rows` of a new table say of it."""
    before, now = np.asarray(before), np.asarray(now)
    places = np.where(rows >= 0, len(before) + rows, np.arange(len(rows)))
    return np.concatenate([before, now])[places]


def argument_of(leaf: str) -> str:
    """The argument that an array is of: `df` of `df['x']`."""
    return leaf.partition("[")[0]
