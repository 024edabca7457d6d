"""Tables of an elimination as text: rows and columns go by the values that the sites have there."""

import itertools
from collections.abc import Sequence

import numpy as np

Axis = tuple[str, Sequence[str]]
"""A site and its values, in words."""

_MOST_ROWS, _MOST_COLUMNS = 24, 8
# densities keep away from zero by the least positive number; beside the others of a table that is zero
_LEAST = 1e-30


def written(table: np.ndarray, axes: Sequence[Axis]) -> str:
    """A table with an axis per site, and one more for its instances if it has several.

    The last axis makes the columns; long tables are cut, and say by how much.
    """
    heads = [[f"{site}={v}" for v in values] for site, values in axes]
    if table.ndim > len(axes):
        heads.append([f"[{i}]" for i in range(table.shape[-1])])
    *lead, columns = heads if len(heads) > 1 else [[], *heads]
    names = ["  ".join(row) for row in itertools.product(*(h for h in lead if h))]
    table = np.where(table < _LEAST * table.max(initial=0), 0.0, table).reshape(len(names), -1)
    cells = [[f"{x:.4g}" for x in row[:_MOST_COLUMNS]] for row in table]
    more = len(columns) - _MOST_COLUMNS
    lines = [["", *columns[:_MOST_COLUMNS]], *([n, *c] for n, c in zip(names, cells, strict=True))]
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = [
        "  ".join([line[0].ljust(wide[0]), *(x.rjust(w) for x, w in zip(line[1:], wide[1:], strict=True))])
        for line in lines[: _MOST_ROWS + 1]
    ]
    if more > 0:
        out[0] += f"  … {more:,} more"
    if len(names) > _MOST_ROWS:
        out.append(f"… {len(names) - _MOST_ROWS:,} rows more")
    return "\n".join(line.rstrip() for line in out)
