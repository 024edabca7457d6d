"""Columns that are numbered each by itself, and meet: codes of other categories that pick from one vector or
are compared, and days since other first ones that are compared or subtracted."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.known_elements import known_numbers
from gibbsite.errors import DataError
from gibbsite.inputs.compared import other_numbers
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import (
    ADDS,
    COMPARES,
    CONVERTS,
    EQUALS,
    GATHERS,
    LARGER_OR_SMALLER,
    MOVES,
    PICKS,
    SELECTS,
    SUBTRACTS,
    moved_from,
    of_kind,
)
from gibbsite.programs.jaxpr.source_line import at_place, equation_line

_CARRIES = MOVES | CONVERTS | SELECTS | ADDS


def check_meeting(density: Density, labels: Mapping[str, Sequence[str]], units: Mapping[str, str]) -> None:
    """Refuse them; raises `DataError` with both names and the line."""
    names = density.data_names
    holds = _holding(density, {v: n for v, n in names.items() if n in labels or "since" in units.get(n, "")})
    picked: dict[Any, str] = {}
    numbers = known_numbers(density, {})
    shifted = _holding(density, {v: n for v, n in names.items() if n in labels}, _CARRIES | SUBTRACTS)
    for eqn, source, name in _picks(density, shifted, labels):
        plainly = bool(_held(holds, eqn.invars[1]))
        for column in _rows_of(density, source, names):
            if rows := _picked(density, eqn, name, labels[name], numbers, plainly):
                _check_rows(density, eqn, column, name, labels, rows)
        if not plainly:
            continue
        key = source, eqn.invars[0].aval.shape, eqn.params["dimension_numbers"].start_index_map
        first = picked.setdefault(key, name)
        _check_codes(eqn, first, name, labels, source not in density.closed.jaxpr.constvars)
        picked[key] = max(first, name, key=lambda n: len(labels[n]))
    _check_numbers(density, holds, labels)
    for eqn in density.closed.jaxpr.eqns if holds else ():
        read = [n for v in eqn.invars if (n := _held(holds, v))]
        if of_kind(eqn, COMPARES | SUBTRACTS) and len({*read}) == 2:
            one, other = read
            if one in labels and other in labels and of_kind(eqn, COMPARES):
                _check_codes(eqn, one, other, labels)
            elif units.get(one, "") != units.get(other, "") and one not in labels and other not in labels:
                raise _apart_days(eqn, one, other, units)


def step_notes(
    density: Density, labels: Mapping[str, Sequence[str]], alphabetical: Collection[str]
) -> Iterator[str]:
    """A sentence for each latent of steps in an order that categories pick from, in that of the alphabet."""
    sorts = {n: t for n, t in labels.items() if n in alphabetical and len(t) > 2}
    holds = _holding(density, {v: n for v, n in density.data_names.items() if n in sorts})
    latents = {v: n for n, v in density.latent_vars.items()}
    for _, source, name in _picks(density, holds, sorts):
        site = density.sites.get(latents.get(source, ""))
        if site is not None and (site.in_scan or "Walk" in site.fn_name or "AutoRegressive" in site.fn_name):
            yield (
                f"{name} picks steps of {site.name}, one after another, in the order of the alphabet, "
                f"{', '.join(map(repr, sorts[name][:3]))}, …: where another is meant, "
                f"`pd.Categorical({name}, [{sorts[name][1]!r}, …], ordered=True)` gives it"
            )


def _holding(
    density: Density, columns: Mapping[Any, str], carries: frozenset[str] = _CARRIES
) -> dict[Any, str]:
    """What holds the numbers of one of the `columns`, moved or shifted."""
    holds = dict(columns)
    for eqn in density.closed.jaxpr.eqns if holds else ():
        read = eqn.invars[:1] if of_kind(eqn, PICKS) else eqn.invars
        carried = {n for v in read if (n := _held(holds, v))}
        if of_kind(eqn, carries) and len(carried) == 1:
            holds |= dict.fromkeys(eqn.outvars, carried.pop())
    return holds


def _picks(
    density: Density, holds: Mapping[Any, str], labels: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Any, Any, str]]:
    """Every gather by the codes of one column: the equation, what is picked from, and the column."""
    for eqn in density.closed.jaxpr.eqns if holds else ():
        if of_kind(eqn, GATHERS) and (name := _held(holds, eqn.invars[1])) in labels:
            source = moved_from(density.producer, eqn.invars[0], *_MOVED)
            if not isinstance(source, Literal):
                yield eqn, source, name


_MOVED = MOVES, CONVERTS


def _held(holds: Mapping[Any, str], atom: Any) -> str:
    return "" if isinstance(atom, Literal) else holds.get(atom, "")


def _check_numbers(density: Density, holds: Mapping[Any, str], labels: Mapping[str, Sequence[str]]) -> None:
    """Refuse categories that are numbers beside numbers that are no codes, as in `jnp.isin(h, [20, 30])`."""
    for eqn, name, beside in _beside(density, holds, labels, EQUALS | LARGER_OR_SMALLER):
        codes = np.isin(beside, np.arange(len(labels[name])))
        if not codes.all():
            place, some = equation_line(eqn), ", ".join(labels[name][:3])
            raise DataError(
                f"{name} holds categories ({some}{', …' * (len(labels[name]) > 3)}), of which the model gets "
                f"the codes 0, 1, …, and meets {float(beside[~codes].flat[0]):g}{at_place(place)}: numbers "
                f"have to be numbers in the table, as with `astype(int)`"
            ).at(place, "index-of-another-type")


def _beside(
    density: Density, holds: Mapping[Any, str], labels: Mapping[str, Sequence[str]], kinds: frozenset[str]
) -> Iterator[tuple[Any, str, np.ndarray]]:
    """Where codes of categories that are numbers meet known numbers: the equation, the column, and these."""
    numbers = known_numbers(density, {})
    for eqn in density.closed.jaxpr.eqns if holds else ():
        for one, other in (eqn.invars, eqn.invars[::-1]) if of_kind(eqn, kinds) else ():
            name = _held(holds, one)
            if name in labels and other_numbers(labels[name]) and not _held(holds, other):
                beside = numbers.value(other)
                if beside is not None and beside.size:
                    yield eqn, name, np.asarray(beside)


def _rows_of(density: Density, source: Any, names: Mapping[Any, str]) -> Iterator[str]:
    """The columns, as long as a vector is, that it is made of, or that the latents in it are drawn by."""
    size = source.aval.shape[:1]
    latents = density.maps.latents(source)
    drawn = [density.outputs["log_prob"][n] for n in latents if density.sites[n].shape[:1] == size]
    for behind in sorted(density.behind(source, *drawn) & names.keys(), key=lambda v: names[v]):
        if behind.aval.shape == size:
            yield names[behind]


def _picked(
    density: Density, eqn: Any, name: str, texts: Sequence[str], numbers: Any, plainly: bool
) -> dict[str, int]:
    """Which row each category that a column holds picks; of all of them its own code, where a gather by codes
    as they are (`plainly`) has other indices beside them."""
    codes = np.ravel(dict(zip(density.arguments.names, density.arguments.given, strict=True))[name])
    index = numbers.value(eqn.invars[1])
    if index is not None and index.size == codes.size:
        pairs = zip(codes.tolist(), np.ravel(index).tolist(), strict=True)
        return {texts[int(c)]: int(i) for c, i in {*pairs} if 0 <= c < len(texts)}
    return {t: i for i, t in enumerate(texts)} if plainly else {}


def _check_rows(
    density: Density,
    eqn: Any,
    column: str,
    name: str,
    labels: Mapping[str, Sequence[str]],
    picked: Mapping[str, int],
) -> None:
    """Refuse codes that pick rows of a table which its own column calls otherwise."""
    table, _, mine = column.partition("[")
    if not mine or name.partition("[")[0] == table:
        return
    found = {}
    for key, rows in _names_of_rows(density, table, labels):
        if {*picked} <= {*rows}:
            found[key] = next(
                ((k, t, rows[k]) for t, k in sorted(picked.items(), key=lambda p: p[1]) if rows[k] != t), None
            )
    if not found or None in found.values():  # the names that are meant, whatever another column says
        return
    called = name.partition("[")[2]
    key = next((k for k in found if k.partition("[")[2] == called), next(iter(found)))
    code, text, row = found[key]
    place = equation_line(eqn)
    raise DataError(
        f"{column} is picked by {name}{at_place(place)}, of which {text!r} is {code}, and row {code} of "
        f"{table} is {row!r}: number the categories as the rows are, by `pd.Categorical({name}, {key})`"
    ).at(place, "index-of-another-type")


def _names_of_rows(
    density: Density, table: str, labels: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[str]]]:
    """What may name the rows of a table: its index, and columns of which each has another text, or another
    whole number that the model does not read."""
    if f"index of {table}" in labels:
        yield f"{table}.index", [*labels[f"index of {table}"]]
    for key, values in zip(density.arguments.names, density.arguments.given, strict=True):
        codes = np.asarray(values)
        if key.partition("[")[0] != table or codes.dtype.kind not in "iu" or codes.ndim != 1:
            continue
        if (key in labels or key not in density.read_names) and len(np.unique(codes)) == len(codes):
            rows = [str(labels[key][k] if key in labels else k) for k in codes.tolist()]
            yield key, rows


def number_notes(density: Density, labels: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each column of categories that are numbers whose codes are compared with one of these
    numbers, which is another category's code."""
    holds = _holding(density, {v: n for v, n in density.data_names.items() if n in labels})
    told: set[str] = set()
    for _, name, beside in _beside(density, holds, labels, EQUALS):
        if name in told or (beside == 0).any():
            continue  # all codes, as of a one-hot matrix
        texts = labels[name]
        codes = [int(k) for k in np.unique(beside) if k in range(len(texts))]
        if meant := next((k for k in codes if str(k) in texts and texts[k] != str(k)), None):
            told.add(name)
            yield (
                f"{name} holds categories that are numbers ({', '.join(texts[:3])}, …), and its codes 0, 1, "
                f"… are compared with {meant}, which is the code of {texts[meant]!r}: numbers have to be "
                f"numbers in the table, as with `astype(int)`"
            )


def _check_codes(
    eqn: Any, one: str, other: str, labels: Mapping[str, Sequence[str]], every_code: bool = True
) -> None:
    """Refuse codes that mean different categories in two columns; of all codes that both have, or else of
    categories that both have."""
    mine, theirs = labels[one], labels[other]
    wrong = [t for t in mine if t in theirs and mine.index(t) != theirs.index(t)]
    apart = [k for k, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b]
    if wrong:
        told = f"{wrong[0]!r} is {mine.index(wrong[0])} in {one} and {theirs.index(wrong[0])} in {other}"
    elif apart and every_code:
        told = f"{apart[0]} is {mine[apart[0]]!r} in {one} and {theirs[apart[0]]!r} in {other}"
    else:
        return
    place = equation_line(eqn)
    every = f"every = sorted({{*{one}, *{other}}})"
    raise DataError(
        f"{one} and {other}{at_place(place)} are numbered each by its own categories: {told}, and they mean "
        f"one vector's elements, or are compared, here. Give both the same categories: `{every}`, and "
        f"`pd.Categorical({one}, every)` for either"
    ).at(place, "index-of-another-type")


def _apart_days(eqn: Any, one: str, other: str, units: Mapping[str, str]) -> DataError:
    place = equation_line(eqn)
    return DataError(
        f"{one} and {other}{at_place(place)} are counted from days of their own ({units[one]}, "
        f"{units[other]}), and meet here. Compute with them before, where they are dates: "
        f"`({one} - {other}).dt.days`"
    ).at(place, "index-of-another-type")
