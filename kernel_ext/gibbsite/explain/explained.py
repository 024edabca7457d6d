"""Exceptions of a model that is being traced, explained: a table of rules, the first that fits speaks."""

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from gibbsite.errors import ArgumentError, DataError, GibbsiteError, ModelError
from gibbsite.explain.calls import unknown_word, wrong_call
from gibbsite.explain.shapes import masked_words, told_shapes
from gibbsite.explain.spot import Rule, Spot, Told, made, spot_of
from gibbsite.explain.values import (
    list_in_a_call,
    no_array,
    no_attribute,
    no_such_key,
    no_weight,
    of_pandas,
    table_outside,
    wrong_index,
    wrong_plate,
)


def explained(error: BaseException, seen: Mapping[str, Any]) -> GibbsiteError | None:
    """The error to raise in place of `error`, with its place; None where it is best as it is. `seen` holds
    the sizes of the plates at that time, by name."""
    spot = spot_of(error)
    if spot is None:
        return None
    told = next((told for rule in _RULES if (told := rule(error, spot, seen)) is not None), None)
    return None if told is None else made(spot, *told)


def placed(error: GibbsiteError) -> GibbsiteError:
    """An error of ours that knows no place, with that of the line of the model that it arose in."""
    spot = spot_of(error) if error.place is None else None
    if spot is not None:
        error.place, error.part = (spot.file, spot.line), spot.code
    return error


def _shapes(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if not isinstance(error, TypeError | ValueError) or not _SHAPES.search(str(error)):
        return None
    return DataError, "shapes", told_shapes(str(error), spot, seen)


_SHAPES = re.compile(
    r"incompatible shapes|requires contracting dimensions|core dimension|could not be broadcast|"
    r"[Ii]ncompatible shapes|cannot reshape array|must be broadcastable|same shape|ndim at least 1"
)


def _no_sample(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A distribution where a value is wanted: `=` for `~`."""
    if not isinstance(error, TypeError | AttributeError | ValueError):
        return None
    for name in re.findall(r"\b[A-Za-z_]\w*", spot.text):
        value = spot.values.get(name)
        if isinstance(value, dist.Distribution):
            kind = type(value).__name__.removesuffix("Probs").removesuffix("Logits")
            return (
                ModelError,
                "missing-tilde",
                f"{name!r} is a distribution and not a value, since `{name} = {kind}(…)` does not sample; "
                f"write `{name} ~ {kind}(…)`",
            )
    computed = re.search(r"unsupported operand.*: '(\w+)' and '(\w+)'", str(error))
    for kind in computed.groups() if computed else ():
        if isinstance(family := getattr(dist, kind, None), type) and issubclass(family, dist.Distribution):
            kind = kind.removesuffix("Probs").removesuffix("Logits")
            told = (
                f"{kind} is a distribution and no number to compute with; sample first, `x ~ {kind}(…)`, and "
            )
            return ModelError, "missing-tilde", f"{told}compute with `x`"
    return None


def _not_a_distribution(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
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
    return ArgumentError, "not-a-distribution", why


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _called(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if not re.search(r"object is not callable", str(error)):
        return None
    called = re.match(r"\s*([A-Za-z_]\w*)\s*\(", spot.code)
    name = called.group(1) if called else None
    if name is None or not isinstance(spot.values.get(name), jax.Array | np.ndarray | int | float):
        return None
    return (
        ModelError,
        "shadowed",
        f"{name!r} is a value here, which hides the function of that name; give the site another name",
    )


def _immutable(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if "do not support in-place item assignment" not in str(error):
        return None
    target = spot.text.strip().partition("[")[0]
    return (
        ModelError,
        "assignment-to-an-element",
        f"an element of {target!r} cannot be assigned to; write `{target} = {target}.at[…].set(…)`, or "
        f"`{target}[…] ~ …` to sample it",
    )


def _branches(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if not re.search(r"cond branch outputs must have|branches? .*must have the same", str(error)):
        return None
    return (
        ModelError,
        "branches-that-differ",
        "the branches of `cond` have statements of other names or values of other shapes, and both are run "
        "as one: give both the same; where what there is differs, Python's `if` of a draw makes two "
        "structures",
    )


def _nested_loops(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if "when you use nested scan" not in str(error):
        return None
    return (
        ModelError,
        "scan-within-scan",
        "this is a nested scan, and NumPyro's `scan` knows of no other `scan` within its steps; write the "
        "inner one as a plate, where its steps need not know of each other, as a loop in Python, or both as "
        "one `scan` over all steps, with what starts anew chosen by `jnp.where`",
    )


def _beyond_whole_numbers(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    found = re.search(r"Got <class 'int'> with value (-?\d+)", str(error))
    if not isinstance(error, OverflowError) or found is None:
        return None
    return (
        DataError,
        "whole-numbers",
        f"the whole number {found[1]} is larger than JAX's whole numbers hold; make a decimal number of it, "
        "as in `1.0 * n`",
    )


def _masked(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if "masked arrays are not supported" not in str(error):
        return None
    names = [n for n, v in spot.values.items() if isinstance(v, np.ma.MaskedArray) and n in spot.text]
    return DataError, "missing-values", masked_words(names[0] if names else None)


def _supports(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if "component distributions must have the same support" not in str(error):
        return None
    return (
        ModelError,
        "arguments-of-a-distribution",
        "the components of a mixture have one support, and these have not; more zeros than counts have come "
        "from `ZeroInflatedPoisson(gate, rate)`, or `ZeroInflatedDistribution(counts, gate=…)` of any counts",
    )


def _recursion(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    if not isinstance(error, RecursionError):
        return None
    told = "goes on without end: what calls itself has to be ended by what is drawn or given"
    return ModelError, "loop-without-end", f"`{spot.text.strip()}` {told}"


_RULES: tuple[Rule, ...] = (
    _recursion,
    _branches,
    _beyond_whole_numbers,
    _masked,
    _supports,
    _nested_loops,
    _not_a_distribution,
    _no_sample,
    table_outside,
    no_array,
    list_in_a_call,
    wrong_plate,
    unknown_word,
    wrong_call,
    _shapes,
    wrong_index,
    no_weight,
    _called,
    _immutable,
    no_attribute,
    of_pandas,
    no_such_key,
)
