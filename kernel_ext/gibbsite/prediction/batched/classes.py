"""Data sets of one model → classes that one compiled program can fit, shorter ones with rows that do not
count."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.build import parameters_of_function
from gibbsite.density.current import current
from gibbsite.density.model.arguments import Arguments, split_arguments
from gibbsite.errors import GibbsiteError
from gibbsite.inputs.column import as_column
from gibbsite.prediction.asked.arguments import arguments_of, call_of, outcomes_of
from gibbsite.prediction.batched.masked import COUNTED, counting, longer, same_but_longer

_MOST_LOOKED_AT = 12  # choices of what counts whose plans are derived: one program has them all as inputs


class Set:
    """One data set: a call of the model with it, its arrays, and the model that it makes."""

    def __init__(self, name: Any, args: tuple, kwargs: Mapping[str, Any], arrays: Arguments, made: "Made"):
        self.name, self.args, self.kwargs, self.arrays, self._made = name, args, dict(kwargs), arrays, made

    @cached_property
    def model(self) -> Any:
        """Made when it is asked for. Raises what says that there is none of such data."""
        return self._made(self.args, self.kwargs)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of its arrays."""
        return tuple(np.shape(a) for a in self.arrays.given)


@dataclass
class Class:
    """Data sets that one program fits: `data` are the arrays of each as the program of `plan` takes them;
    `outcomes` name those that are an observed site's values. Where they have rows that do not count, `like`
    has a data set of every length."""

    sets: list[Set]
    plan: Any
    data: list[tuple]
    outcomes: Mapping[str, str]
    like: Mapping[Any, Set] = field(default_factory=dict)

    @property
    def differs(self) -> list[bool]:
        """Which of the arrays are not the same in all of them."""
        first = self.data[0]
        return [
            any(
                d[i] is not a and not np.array_equal(d[i], a, equal_nan=a.dtype.kind == "f")
                for d in self.data
            )
            for i, a in enumerate(first)
        ]


Made = Callable[..., Any]


def set_of(origin: Any, name: Any, values: Mapping[str, Any], made: Made) -> Set:
    """The data set of a model's arguments by parameter; `made(args, kwargs)` is the model with others."""
    return Set(name, *call_of(origin, values), arguments_of(origin, values), made)


def classes_of(origin: Any, sets: Sequence[Set], made: Made) -> tuple[list[Class], dict[Any, GibbsiteError]]:
    """The data sets in classes, and what says of others that they have no model. `made(args, kwargs, fn)` is
    a model with other arguments, and function."""
    alike: dict[Any, list[Set]] = {}
    for one in sets:
        alike.setdefault(_kind(one.arrays), []).append(one)
    found: list[Class] = []
    failures: dict[Any, GibbsiteError] = {}
    for some in alike.values():
        group: list[Set] = []
        for one in some:
            try:
                if not group or not _harmless(group[0].model, one):
                    one.model  # noqa: B018
                group.append(one)
            except GibbsiteError as error:
                failures[one.name] = error
        shapes = dict.fromkeys(s.shapes for s in group)
        longest = _padded(origin, group, made) if len(shapes) > 1 else None
        if longest is not None:
            found.append(longest)
            continue
        for shape in shapes:
            found += _by_program([s for s in group if s.shapes == shape])
    return found, failures


_PLAIN = (constraints.real, constraints.positive, constraints.nonnegative, constraints.unit_interval)
_PLAIN += (constraints.boolean, constraints.nonnegative_integer, constraints.positive_integer)


def _harmless(model: Any, one: Set) -> bool:
    """Whether nothing has to be looked at of other data of a model that was: numbers that are finite, and
    outcomes within a support that does not depend on data. What else may be wrong, such as a negative scale,
    has no density, and is told by a run of its own."""
    outcomes = outcomes_of(model)
    for name, array in zip(one.arrays.names, map(np.asarray, one.arrays.given), strict=True):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return False
        if name in outcomes:
            support = model.density.sites[outcomes[name]].support
            if not any(support is plain for plain in _PLAIN) or not np.all(support(array)):
                return False
        elif array.dtype.kind in "iub":
            return False
    return True


def _kind(arrays: Arguments) -> Any:
    """What two calls have in common that differ in the length of their arrays alone."""
    static = tuple(
        repr(v) if isinstance(v, int | float | str | bool | None) else id(v) for v in arrays.static
    )
    kinds = tuple((str(a.dtype), a.shape[1:], a.ndim) for a in arrays.arrays)
    return arrays.names, arrays.places, str(arrays.tree), static, kinds


def _by_program(sets: list[Set]) -> list[Class]:
    """Data sets of equal shapes by the program that their plans take. What differs in numbers alone has one
    plan; where codes differ, each has its own, and those of one program go together."""
    first = sets[0].model
    own, outcomes = set(first.density.arguments.names), outcomes_of(first)
    found: dict[Any, Class] = {}
    plans: dict[bytes, Any] = {}
    for one in sets:
        pattern = _pattern(one, own, outcomes)
        if pattern not in plans:
            plans[pattern] = one.model.plan()
        plan = plans[pattern]
        of = found.setdefault(plan.cache_key, Class([], plan, [], outcomes))
        of.sets.append(one)
        of.data.append(arrays_of(plan.origin, one.args, one.kwargs))
    return list(found.values())


def arrays_of(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple:
    """The arrays that a program of `model` takes, of another call."""
    found = split_arguments(args, kwargs, parameters_of_function(model.fn))
    given = dict(zip(found.names, found.arrays, strict=True))
    return tuple(np.asarray(given[n]) for n in model.density.arguments.names)


def _padded(origin: Any, sets: list[Set], made: Made) -> Class | None:
    """One class of data sets of several lengths, as long as the longest; None where the model says something
    else of data with rows put after them."""
    names = sets[0].arrays.names
    lengths = {n: tuple(s.shapes[i][0] if s.shapes[i] else 0 for s in sets) for i, n in enumerate(names)}
    grow = {n: max(found) for n, found in lengths.items() if len(set(found)) > 1}
    outcomes = {site: leaf for leaf, site in outcomes_of(sets[0].model).items()}
    data = current(sets[0].model.density).data
    if not set(grow) or any(n not in outcomes or outcomes[n] not in grow for n in data):
        return None

    def as_long(one: Set) -> tuple[tuple, dict[str, Any]]:
        arrays = [longer(a, grow.get(n, np.shape(a)[0] if np.ndim(a) else 0)) if n in grow else a
                  for n, a in zip(names, one.arrays.given, strict=True)]  # fmt: skip
        args, kwargs = one.arrays.rebuild(list(map(as_column, arrays)))
        counts = {}
        for site in data:
            leaf = outcomes[site]
            found = sets[0].model.density.sites[site]
            rank = len(found.shape) - len(found.event_shape) or len(found.shape)
            there = np.arange(grow[leaf]) < one.shapes[names.index(leaf)][0]
            counts[site] = there.reshape(-1, *(1,) * (rank - 1))
        return args, {**kwargs, COUNTED: counts}

    first: dict[tuple, Set] = {}
    for one in sets:
        first.setdefault(one.shapes, one)
    for one in first.values():
        short = one.arrays.rebuild(list(map(as_column, one.arrays.given)))
        if same_but_longer(origin.fn, short, as_long(one)):
            return None
    fn = counting(origin.fn)
    longest = max(sets, key=lambda s: sum(int(np.prod(n)) for n in s.shapes))
    model = made(*as_long(longest), fn)
    inputs, leaves = set(model.density.arguments.names), set(outcomes.values())
    codes = {_pattern(s, inputs, leaves): s for s in sets}
    some = list(first.values())
    some = [some[i] for i in np.unique(np.linspace(0, len(some) - 1, _MOST_LOOKED_AT).astype(int))]
    if not same_program(
        model, [as_long(s) for s in {id(s): s for s in [*codes.values(), *some]}.values()], made
    ):
        return None
    data_sets = [arrays_of(model, *as_long(s)) for s in sets]
    return Class(sets, model.plan(), data_sets, {n: s for s, n in outcomes.items()}, first)


def _pattern(one: Set, inputs: Collection[str], outcomes: Collection[str]) -> bytes:
    """What of the data a plan may have been derived by: all of what is compiled in; whole numbers and truth
    values that the model computes with, and numbers that are but 0 and 1."""
    parts = []
    for name, array in zip(one.arrays.names, map(np.asarray, one.arrays.given), strict=True):
        coded = array.dtype.kind in "iub" or bool(np.isin(array, (0, 1)).all())
        if name not in inputs or (coded and name not in outcomes):
            parts.append(name.encode() + np.ascontiguousarray(array).tobytes())
    return b"|".join(parts)


def same_program(model: Any, calls: Sequence[tuple[tuple, dict[str, Any]]], made: Made) -> bool:
    """Whether other calls of its function take the program that `model` does."""
    key = model.plan().cache_key
    try:
        return all(made(*call, model.fn).plan().cache_key == key for call in calls)
    except GibbsiteError:
        return False
