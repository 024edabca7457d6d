"""Tables, lists, plates, indices and attributes: what is none of the arrays that a model computes with."""

import difflib
import re
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from gibbsite.errors import ArgumentError, DataError, ModelError, nearest
from gibbsite.explain.latent import has_list, told_table
from gibbsite.explain.spot import Spot, Told
from gibbsite.programs.jaxpr.compat import is_traced


def table_outside(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A table of the notebook that was not given to the model."""
    if not isinstance(error, TypeError | ValueError | IndexError | AttributeError):
        return None
    told = told_table(spot)
    return None if told is None else (DataError, "tables-of-the-notebook", told)


def no_array(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A list, a tuple, a dict or times of the program where an array is wanted."""
    if not isinstance(error, TypeError):
        return None
    code = spot.code or spot.text
    for name in re.findall(r"\b[A-Za-z_]\w*", code):
        value = spot.values.get(name)
        whole = re.search(rf"\b{name}\b(?!\s*[\[.])", code)
        if isinstance(value, dict) and whole and re.search(_NO_LIST, str(error)):
            return (
                DataError,
                "no-numbers",
                f"{name!r} is a dict (sites with an index, `{name}[…] ~ …`, are kept in one) and no array; "
                f"where its {len(value)} values have one shape, write `jnp.stack(list({name}.values()))`",
            )
        if isinstance(value, list | tuple | range) and re.search(_NO_LIST, str(error)):
            return (
                DataError,
                "no-numbers",
                f"{name!r} is a {type(value).__name__} and no array; write `jnp.array({name})`, or give it "
                f"in the parentheses of the model, where lists of numbers become arrays",
            )
        if isinstance(value, np.ndarray) and value.dtype.kind in "mMOSU":
            return (
                DataError,
                "no-numbers",
                f"{name!r} holds {value.dtype}, which is no number; in the parentheses of the model times "
                f"become days and texts codes",
            )
    return None


def list_in_a_call(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A list that stands among the arguments of a distribution or a function of JAX."""
    told = re.search(r"'(list|tuple)'|dtype of [\[(]|TracerArrayConversion|value\.dim\(\)", str(error))
    if told is None or not has_list(spot.code):
        return None
    what = "a list or a tuple is no array: write `jnp.array([…])`, which takes latents, too"
    return DataError, "no-numbers", what


_NO_LIST = r"non-tuple sequence|unsupported operand|not a valid JAX|requires ndarray|list"


def wrong_plate(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A plate without its name or its size, or with something else for them."""
    if "plate" not in spot.code:
        return None
    called = "a plate has a name and a size: `with plate('n', len(y)):`"
    if isinstance(error, TypeError) and re.search(r"plate\.__init__\(\)", str(error)):
        return ArgumentError, "plates-and-data", called
    if isinstance(error, ValueError | TypeError) and re.search(
        "truth value|scalar|only .*arrays", str(error)
    ):
        return (
            ArgumentError,
            "plates-and-data",
            f"the size of a plate is a whole number, or a column of categories; {called}",
        )
    return None


def no_such_key(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A dict of data that has no such entry."""
    if type(error) is not KeyError or not error.args:
        return None
    (key,) = error.args[:1]
    for name in re.findall(r"\b[A-Za-z_]\w*", spot.code or spot.text):
        value = spot.values.get(name)
        if isinstance(value, dict) and key not in value:
            has = ", ".join(map(repr, value)) or "none"
            near = nearest(key, map(str, value))
            return DataError, "unknown-column", f"{name!r} has no entry {key!r}; it has {has}{near}"
    return None


def wrong_index(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A number beyond an axis; decimal numbers, some of them perhaps missing, as an index."""
    beyond = re.search(r"index (-?\d+) is out of bounds for axis (\d+) with size (\d+)", str(error))
    if beyond is not None and isinstance(error, IndexError):
        at, axis, size = beyond.groups()
        counted = f"counted from 0 to {int(size) - 1}" if int(size) else "there are none"
        return (
            DataError,
            "index-out-of-range",
            f"element {at} of an axis that is {size} long (axis {axis}; {counted}); look at what is given "
            "there: data of a model have as many columns as it was written for",
        )
    if "boolean index did not match" in str(error) and isinstance(error, IndexError):
        name = _index_in(spot) or "t"
        return (
            DataError,
            "index-of-another-type",
            f"{name} holds truth values, which pick out of an axis as long as they are, and this one is "
            f"shorter: as numbers 0 and 1 they pick elements, `{name}.astype(int)`",
        )
    found = re.search(r"Indexer must have integer or boolean type, got indexer with type (\w+)", str(error))
    if found is None:
        return None
    name = _index_in(spot) or "the index"
    gone = _missing(name, spot)
    if gone:
        return (
            DataError,
            "missing-values",
            f"{name!r} has {gone} missing values, which pick nothing; leave their rows out with `--missing "
            f"drop`, give them a category of their own, or give {name!r} a distribution, `{name} ~ "
            f"Categorical(w)`, and impute",
        )
    given = "" if "(" in name else ", or pass the column as integers or as categories"
    return (
        DataError,
        "index-of-another-type",
        f"{name!r} picks elements and holds {found.group(1)}: an index is a whole number; write "
        f"`{name}.astype(int)`{given}",
    )


def _index_in(spot: Spot) -> str | None:
    """The first name that the line picks by, and what it is called with."""
    text = spot.code or spot.text
    inside = re.search(r"\[\s*([A-Za-z_][\w.]*(?:\[[^\]]*\])?)", text)
    if inside is None or text[inside.end() : inside.end() + 1] != "(":
        return inside and inside.group(1)
    depth, end = 0, inside.end()
    while end < len(text) and (depth or end == inside.end()):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        end += 1
    return text[inside.start(1) : end]


def _missing(name: str, spot: Spot) -> int:
    """How many elements of what the line calls so are NaN, where that is known."""
    head, *rest = re.findall(r"\w+", name)
    value = spot.values.get(head)
    for part in rest:
        value = getattr(value, part, None)
    known = isinstance(value, np.ndarray) or (isinstance(value, jax.Array) and not is_traced(value))
    return int(np.isnan(np.asarray(value)).sum()) if known and np.asarray(value).dtype.kind == "f" else 0


def no_weight(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A weight of 0 or below, which NumPyro's `scale` refuses."""
    if not isinstance(error, ValueError) or "'scale' argument should be positive" not in str(error):
        return None
    return (
        DataError,
        "weights",
        "weights are above 0: what is not to count is left out by `numpyro.handlers.mask(mask=w > 0)`, "
        "around `scale(scale=jnp.where(w > 0, w, 1))`, or with its rows",
    )


def no_attribute(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A column that a table has not, or what only tables outside of a model have."""
    if not isinstance(error, AttributeError):
        return None
    column = re.match(r"the table has no column '(\w+)'; it has (.*)", str(error), re.DOTALL)
    if column:
        known = re.findall(r"'([^']*)'", column.group(2))
        if any(hasattr(kind, column.group(1)) for kind in _kinds_of_tables()):
            return _no_method(column.group(1))
        near = difflib.get_close_matches(column.group(1), known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return DataError, "unknown-column", f"{error}{hint}"
    array = re.match(
        r"\w*Tracer has no attribute (\w+)|'[\w.]*(?:ArrayImpl|ndarray)' object has no attribute '(\w+)'",
        str(error),
    )
    return None if array is None else _no_method(array.group(1) or array.group(2))


def of_pandas(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """What pandas is asked to make of a column, which is an array."""
    refused = isinstance(error, TypeError | ValueError) and re.search(
        r"data type 'category' not understood|requires .* got (\w*Tracer|ArrayImpl|RecordedValue)", str(error)
    )
    if not refused:
        return None
    told = "in a model columns are arrays, of texts their codes, which pandas makes no categories of"
    return ModelError, "arrays-in-a-model", f"{told}; do this before the cell"


def _kinds_of_tables() -> list[type]:
    loaded = (sys.modules.get(name) for name in ("pandas", "polars"))
    return [module.DataFrame for module in loaded if module is not None]


def _no_method(name: str) -> Told:
    what = f"in a model there is no {name!r}: columns and sites are JAX arrays there"
    cure = "what pandas or polars can do with them is done before the cell"
    return ModelError, "arrays-in-a-model", f"{what}; {cure}"
