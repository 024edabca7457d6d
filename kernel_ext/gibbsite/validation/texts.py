"""Texts that stand for numbers, name nearly every row, or are an outcome's 0 and 1 by the alphabet alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.known_elements import sources

_ROWS, _NEARLY = 20, 0.8
"""Of so many rows and more, the share of different texts from which on a column hardly has groups."""


def text_notes(density: Density, labels: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each column of texts that are numbers but for a few, and for each of which nearly every
    row has a text of its own. Where every row has, it names the rows."""
    arrays = dict(zip(density.arguments.names, density.arguments.arrays, strict=True))
    for name, texts in labels.items():
        codes = arrays.get(name)
        if codes is None or np.ndim(codes) != 1:
            continue
        rows = len(codes)
        there = [str(texts[int(k)]) for k in np.unique(codes) if 0 <= k < len(texts)]
        others = [t for t in there if not _a_number(t)]
        if others and len(others) <= 2 < len(there) - len(others):
            first = next(t for t in there if t not in others)
            yield (
                f"{name} holds texts, as {others[0]!r} is one, and so its numbers ({first!r}, …) are "
                f"categories, in the order of the alphabet: `pd.to_numeric({name}, errors='coerce')` makes "
                f"numbers of them, and {others[0]!r} missing"
            )
        elif rows >= _ROWS and _NEARLY * rows <= len(there) < rows:
            yield (
                f"{name} has {len(there)} different texts in {rows} rows, so that nearly every row is a "
                f"group of its own: are some of them spelt in different ways, or is it no column of groups?"
            )


_PLAIN = (("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on"), ("absent", "present"))
"""Pairs of which anybody takes the second one for 1."""


def two_way_notes(
    density: Density, labels: Mapping[str, Sequence[str]], alphabetical: Collection[str]
) -> Iterator[str]:
    """A sentence for each outcome of two texts that is a Bernoulli's, saying which of them is 1, where the
    alphabet alone says so."""
    columns = {v: n for v, n in density.data_names.items() if n in alphabetical and len(labels[n]) == 2}
    for site, atom in density.outputs["observed"].items() if columns else ():
        behind = [columns[v] for v in sources(density, [atom]) if v in columns]
        if len(behind) != 1 or not density.sites[site].fn_name.startswith("Bernoulli"):
            continue
        zero, one = labels[behind[0]]
        if (zero.lower(), one.lower()) not in _PLAIN:
            yield (
                f"of {site}, 1 is {one!r} and 0 is {zero!r}, in the order of the alphabet: probabilities are "
                f"those of {one!r}. `pd.Categorical({behind[0]}, [{one!r}, {zero!r}])` turns them round"
            )


def _a_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
