"""Exceptions of a model that is being traced, explained: a table of rules, the first that fits speaks."""

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from gibbsite.density.told.shapes import told_shapes
from gibbsite.density.told.spot import Spot, spot_of
from gibbsite.errors import ArgumentError, DataError, GibbsiteError, ModelError, WordError

Rule = Callable[[BaseException, Spot, Mapping[str, Any]], GibbsiteError | None]


def explained(error: BaseException, seen: Mapping[str, Any]) -> GibbsiteError | None:
    """The error to raise in place of `error`, with its place; None where it is best as it is. `seen` holds
    the sizes of the plates at that time, by name."""
    spot = spot_of(error)
    if spot is None:
        return None
    for rule in _RULES:
        found = rule(error, spot, seen)
        if found is not None:
            return found if found.place else found.at((spot.file, spot.line), found.entry, spot.code)
    return None


def _made(kind: type[GibbsiteError], spot: Spot, entry: str, sentence: str) -> GibbsiteError:
    return kind(f"{sentence} ({spot.told})").at((spot.file, spot.line), entry, spot.code)


def _shapes(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    if not isinstance(error, TypeError | ValueError) or not _SHAPES.search(str(error)):
        return None
    return _made(DataError, spot, "shapes", told_shapes(str(error), spot, seen))


_SHAPES = re.compile(
    r"incompatible shapes|requires contracting dimensions|core dimension|could not be broadcast|"
    r"[Ii]ncompatible shapes|cannot reshape array|must be broadcastable|same shape"
)


def _no_sample(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    """A distribution where a value is wanted: `=` for `~`."""
    if not isinstance(error, TypeError | AttributeError | ValueError):
        return None
    for name in re.findall(r"\b[A-Za-z_]\w*", spot.text):
        value = spot.values.get(name)
        if isinstance(value, dist.Distribution):
            kind = type(value).__name__.removesuffix("Probs").removesuffix("Logits")
            return _made(
                ModelError,
                spot,
                "missing-tilde",
                f"{name!r} is a distribution and not a value, since `{name} = {kind}(…)` does not sample; "
                f"write `{name} ~ {kind}(…)`",
            )
    return None


def _not_a_distribution(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    found = re.search(r"Invalid type for 'fn'.*but received (\w+)", str(error), re.DOTALL)
    if found is None:
        return None
    what = found.group(1)
    if what == "DistributionMeta":
        why = "a distribution stands without its parentheses; write it with its arguments, as `Normal(0, 1)`"
    elif what == "str":
        why = 'the name comes first, and then the distribution: `numpyro.sample("y", dist.Normal(0, 1))`'
    else:
        why = f"what is sampled from is {_a(what)} and no distribution; a fixed value is given with `=`"
    return _made(ArgumentError, spot, "not-a-distribution", why)


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _words(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    if isinstance(error, UnboundLocalError):
        name = _quoted(error)
        later = f"`{name} ~ …`" if name not in seen["plates"] else f"plate {name!r}"
        return _made(
            WordError,
            spot,
            "unknown-name",
            f"{name!r} is used before the line that gives it a value; move {later} up",
        )
    missing = re.search(r"module 'numpyro(?:\.distributions)?' has no attribute '(\w+)'", str(error))
    if not isinstance(error, NameError) and missing is None:
        return None
    name = missing.group(1) if missing else _quoted(error)
    if name is None or name not in spot.text:
        return None
    known = [n for n, v in spot.values.items() if not n.startswith("_")] + _families()
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = (
        f"did you mean {near[0]!r}?" if near else "define it in the notebook, or give it in the parentheses"
    )
    kind = "distribution" if missing or (near and near[0] in _families()) else "variable or distribution"
    return _made(WordError, spot, "unknown-name", f"there is no {kind} {name!r}; {hint}")


def _quoted(error: BaseException) -> str | None:
    found = re.search(r"'(\w+)'", str(error))
    return found.group(1) if found else None


def _families() -> list[str]:
    return [n for n in dist.__all__ if n[0].isupper()]


def _signature(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    """Arguments that a distribution, or another function of the line, has not."""
    found = re.match(
        r"(\w+)(?:\.__init__)?\(\) (got an unexpected keyword|takes|missing|got multiple)", str(error)
    )
    if not isinstance(error, TypeError) or found is None:
        return None
    made = getattr(dist, found.group(1), None)
    if made is None or found.group(1) not in spot.text:
        return None
    name = found.group(1)
    parameters = [p for p in inspect.signature(made).parameters.values() if p.name != "validate_args"]
    says = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters)
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if found.group(2).startswith("got an unexpected"):
        wrong = _quoted(error) or "?"
        near = _MEANT.get(wrong) if _MEANT.get(wrong) in names else None
        near = near or next(iter(difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)), None)
        what = f"{name} has no argument {wrong!r}" + (f"; did you mean {near!r}?" if near else "")
    elif found.group(2) == "missing":
        needed = ", ".join(re.findall(r"'(\w+)'", str(error)))
        what = f"{name} needs {needed}"
    else:
        what = f"{name} is given too many arguments, or one twice"
        if re.search(rf"{name}\(\s*['\"]", spot.text):
            what = f"the name of a site does not go into {name}: it stands before the `~`"
    return _made(ArgumentError, spot, "arguments-of-a-distribution", f"{what}: the call is {name}({says})")


_MEANT = {
    "mean": "loc",
    "mu": "loc",
    "sd": "scale",
    "sigma": "scale",
    "std": "scale",
    "stddev": "scale",
    "p": "probs",
    "prob": "probs",
    "logit": "logits",
    "n": "total_count",
    "alpha": "concentration1",
    "beta": "concentration0",
    "a": "concentration",
    "b": "rate",
    "shape": "concentration",
    "lam": "rate",
    "lambda_": "rate",
    "nu": "df",
    "lower": "low",
    "upper": "high",
    "cov": "covariance_matrix",
}


def _index(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    found = re.search(r"Indexer must have integer or boolean type, got indexer with type (\w+)", str(error))
    if found is None:
        return None
    inside = re.search(r"\[\s*([A-Za-z_][\w.]*)", spot.code or spot.text)
    name = inside.group(1) if inside else "the index"
    return _made(
        DataError,
        spot,
        "index-of-another-type",
        f"{name!r} picks elements and holds {found.group(1)}: an index is a whole number; write "
        f"`{name}.astype(int)`, or pass the column as integers or as categories",
    )


def _called(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    if not re.search(r"object is not callable", str(error)):
        return None
    called = re.match(r"\s*([A-Za-z_]\w*)\s*\(", spot.code)
    name = called.group(1) if called else None
    if name is None or not isinstance(spot.values.get(name), jax.Array | np.ndarray | int | float):
        return None
    return _made(
        ModelError,
        spot,
        "shadowed",
        f"{name!r} is a value here, which hides the function of that name; give the site another name",
    )


def _immutable(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    if "do not support in-place item assignment" not in str(error):
        return None
    target = spot.text.strip().partition("[")[0]
    return _made(
        ModelError,
        spot,
        "assignment-to-an-element",
        f"an element of {target!r} cannot be assigned to; write `{target} = {target}.at[…].set(…)`, or "
        f"`{target}[…] ~ …` to sample it",
    )


def _attribute(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> GibbsiteError | None:
    if not isinstance(error, AttributeError):
        return None
    column = re.match(r"the table has no column '(\w+)'; it has (.*)", str(error), re.DOTALL)
    if column:
        known = re.findall(r"'([^']*)'", column.group(2))
        near = difflib.get_close_matches(column.group(1), known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return _made(DataError, spot, "unknown-column", f"{error}{hint}")
    array = re.match(r"\w*Tracer has no attribute (\w+)", str(error))
    if array is None:
        return None
    return _made(
        ModelError,
        spot,
        "arrays-in-a-model",
        f"arrays of a model have no attribute {array.group(1)!r}: columns and sites are JAX arrays there; "
        f"what pandas can do with them is done before the cell",
    )


_RULES: tuple[Rule, ...] = (
    _not_a_distribution,
    _no_sample,
    _words,
    _signature,
    _shapes,
    _index,
    _called,
    _immutable,
    _attribute,
)
