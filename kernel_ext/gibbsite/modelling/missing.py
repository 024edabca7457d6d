"""Missing observations: drawn with everything else, left out of the density, or dropped with their rows.

An imputed element is a latent site of the distribution that it would have been observed under (Little and
Rubin 2002, ch. 10), so that what the model computes from it sees its value, and it sees what is computed.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers, primitives
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
    MultivariateNormal,
)
from numpyro.primitives import Messenger

from gibbsite.density import Density
from gibbsite.density.build import build_density, parameters_of_function
from gibbsite.density.handlers.scopes import under
from gibbsite.density.liveness import flat_elements
from gibbsite.density.model.arguments import Arguments, split_arguments
from gibbsite.density.model.collect import event_dim_of, run_model, weights_of
from gibbsite.errors import DataError, OptionError
from gibbsite.explain.shapes import family_called
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import later
from gibbsite.inputs.table import ANEW, SET
from gibbsite.inputs.tables import Known

# few data have gaps within vectors
in_part, dropped = later("gibbsite.modelling.in_part"), later("gibbsite.modelling.dropped")

WAYS = ("impute", "mask", "drop")


def checked_way(way: str | None) -> str | None:
    """What becomes of missing observations; raises `OptionError`."""
    if way is not None and (not isinstance(way, str) or way not in WAYS):
        raise OptionError(
            f"missing={shown(way)}: missing values are imputed, masked or dropped: {', '.join(WAYS)}"
        )
    return way


def without_missing(
    fn: Callable, args: tuple, kwargs: dict, way: str, known: Known
) -> tuple[Callable, tuple, dict, dict[str, np.ndarray]]:
    """The model with its missing observations dealt with, its arguments, and which elements of which sites
    are missing. What is `known` of rows loses those that are dropped.

    Raises `DataError` where the way does not fit: part of an event that is drawn as a whole, a distribution
    that cannot be cut into elements, rows that no argument has.
    """
    if way == "drop":
        return fn, *_complete(fn, split_arguments(args, kwargs, parameters_of_function(fn)), known), {}
    found = _missing_elements(fn, args, kwargs)
    if not found:
        return fn, args, kwargs, {}
    return under(fn, lambda: _Missing(None, found, way == "impute")), args, kwargs, found


def _missing_elements(fn: Callable, args: tuple, kwargs: dict) -> dict[str, np.ndarray]:
    """Which elements of observed sites are NaN, and in no mask of the model's own, by site."""
    trace, _ = run_model(under(fn, _Whole), args, kwargs, {})  # inside of what records the data as they are
    found = {}
    for name, msg in trace.items():
        if msg["type"] != "sample" or not msg["is_observed"]:
            continue
        value = np.asarray(msg["value"])
        gone = np.isnan(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
        for weight in weights_of(msg):
            gone &= np.asarray(weight) != 0 if np.shape(weight) == value.shape else True
        if gone.any():
            found[name] = gone
    return found


class _Whole(Messenger):
    """Lets a model go on with data of discrete sites as whole numbers, whatever type NaN has given them: to
    find what is missing, the model has to run."""

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["is_observed"] and msg["fn"].support.is_discrete:
            value = jnp.asarray(msg["value"])
            if jnp.issubdtype(value.dtype, jnp.floating):
                msg["value"] = jnp.nan_to_num(value).astype(int)


class _Missing(Messenger):
    """Takes the elements `missing` of observed sites out of the density, and samples them apart where they
    are imputed; the statement then returns data and draws together."""

    def __init__(self, fn: Any, missing: Mapping[str, np.ndarray], impute: bool):
        super().__init__(fn)
        self._missing, self._impute = missing, impute
        self._drawn: dict[str, Any] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Split the statement in two."""
        if msg["type"] != "sample" or msg["name"] not in self._missing or not msg["is_observed"]:
            return
        if ANEW.get():
            return  # other rows, whose gaps are elsewhere
        name, gone = msg["name"], self._missing[msg["name"]]
        split, wrapped = _elementwise(msg["fn"], gone.shape)
        lost = gone.any(axis=tuple(range(gone.ndim - split.event_dim, gone.ndim)))
        whole = np.broadcast_to(lost.reshape(lost.shape + (1,) * split.event_dim), gone.shape)
        weighed = self._impute and msg["scale"] is not None
        if not np.array_equal(whole, gone) and in_part.of_gaussian_vectors(split) and not weighed:
            self._in_part(msg, split, wrapped)
            return
        if self._impute and not np.array_equal(whole, gone):
            raise DataError(
                f"{name!r} has events of which only some elements are missing; {family_called(split)} draws "
                f'an event as a whole: missing="mask" leaves such events out, "drop" their rows'
            ).at(None, "missing-values")
        filled = _filled(split, msg["value"], whole)
        if self._impute:
            row = np.atleast_1d(lost)  # a datum alone is a row of one
            at = np.nonzero(row)
            of_them = taken(split if lost.ndim else split.expand((1,)), at, name)
            weight = _weight(msg, row, at)
            # what stands inside has seen the statement, and would plate, mask, weigh and scope it again
            with self._outside(), nullcontext() if weight is None else handlers.scale(scale=weight):
                drawn = numpyro.sample(f"{name}_missing", of_them)
            place = np.zeros(row.shape, np.int32)
            place[at] = np.arange(len(at[0]))
            place = place.reshape(lost.shape)
            self._drawn[name] = lambda value: jnp.where(whole, jnp.asarray(drawn)[place], value)
        msg["fn"], msg["value"] = wrapped(split.mask(jnp.asarray(~lost))), filled

    def _in_part(self, msg: dict[str, Any], split: Distribution, wrapped: Callable) -> None:
        """The known elements of vectors keep their density, and the others are drawn given them."""
        name, gone = msg["name"], self._missing[msg["name"]]
        filled = _filled(split, msg["value"], gone)
        if self._impute:
            with self._outside():
                drawn = numpyro.sample(f"{name}_missing", in_part.missing_part(split, filled, gone))
            place = np.zeros(gone.shape, np.int32)
            place[gone] = np.arange(int(gone.sum()))
            self._drawn[name] = lambda value: jnp.where(gone, jnp.asarray(drawn)[place], value)
        found = in_part.known_part(split, gone)
        if gone.all(-1).any():
            found = found.mask(jnp.asarray(~gone.all(-1)))
        msg["fn"], msg["value"] = wrapped(found), filled

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """As if a statement stood outside of this handler and all that are within it."""
        stack, within = primitives._PYRO_STACK, []
        while stack[-1] is not self:
            within.append(stack.pop())
        try:
            yield
        finally:
            for handler in reversed(within):
                stack.append(handler)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """What the model goes on with; what was recorded as observed stays."""
        if msg["type"] == "sample" and msg["name"] in self._drawn:
            filled = self._drawn.pop(msg["name"])
            if SET not in msg["infer"]:
                msg["value"] = filled(msg["value"])


def _weight(msg: Mapping[str, Any], lost: Any, at: tuple[np.ndarray, ...]) -> Any:
    """The weights of the elements `at` of a statement; None where it has none."""
    if msg["scale"] is None:
        return None
    weight = jnp.asarray(msg["scale"])
    inner = lost.ndim - len(msg["fn"].batch_shape)  # axes of `to_event`, which weights do not have
    return jnp.broadcast_to(weight.reshape(weight.shape + (1,) * inner), lost.shape)[at]


def _elementwise(fn: Distribution, shape: tuple[int, ...]) -> tuple[Distribution, Callable]:
    """A distribution over the whole batch of its data, out of `to_event`, and what puts it back."""
    if isinstance(fn, Independent):
        n, base = fn.reinterpreted_batch_ndims, fn.base_dist
        split, wrapped = _elementwise(base, shape)
        return split, lambda d: Independent(wrapped(d), n)
    return fn.expand(shape[: len(shape) - fn.event_dim]), lambda d: d


def _filled(fn: Any, value: Any, whole: np.ndarray) -> Any:
    """The data, with values of the support where they are missing, in the type that is drawn."""
    value = jnp.asarray(value)
    dtype = int if fn.support.is_discrete else value.dtype
    plain = fn.support.feasible_like(jnp.zeros(value.shape, value.dtype))
    return jnp.where(whole, plain, value).astype(dtype)


def taken(fn: Distribution, at: tuple[np.ndarray, ...], name: str) -> Distribution:
    """The distribution of the elements `at` of a batch, side by side."""
    count = len(at[0])
    if isinstance(fn, ExpandedDistribution):
        return taken(fn.base_dist, at, name).expand((count,))
    if isinstance(fn, MaskedDistribution):
        mask = jnp.broadcast_to(fn._mask, fn.batch_shape)
        return taken(fn.base_dist, at, name).mask(_picked(mask, at, 0))
    if not fn.batch_shape:
        return fn.expand((count,))
    parameters = {}
    for parameter in inspect.signature(type(fn)).parameters:
        value = fn.__dict__.get(parameter)
        if parameter == "validate_args" or value is None:
            continue
        if isinstance(fn, MultivariateNormal) and parameter not in ("loc", "scale_tril"):
            continue
        if isinstance(value, Distribution) and parameter == "base_dist":
            parameters[parameter] = taken(value, at, name)
        elif isinstance(value, bool | int | str) and parameter not in fn.arg_constraints:
            parameters[parameter] = value
        elif parameter in (fn.arg_constraints or {}):
            parameters[parameter] = _picked(value, at, event_dim_of(fn.arg_constraints[parameter], fn))
        else:
            parameters = {}
            break
    if not parameters:
        raise DataError(
            f"the missing elements of {name!r} cannot be imputed: {type(fn).__name__} is not made of "
            f'parameters element by element; missing="mask" or "drop" leaves them out'
        ).at(None, "missing-values")
    found = type(fn)(**parameters)
    return found if found.batch_shape == (count,) else found.expand((count,))


def _picked(value: Any, at: tuple[np.ndarray, ...], events: int) -> Any:
    """The elements of a parameter, whose batch may lack axes in front or have them of size 1."""
    array = jnp.asarray(value)
    batch = array.shape[: array.ndim - events]
    if not batch:
        return array
    return array[
        tuple(i if n > 1 else np.zeros_like(i) for n, i in zip(batch, at[-len(batch) :], strict=True))
    ]


def _complete(fn: Callable, arguments: Arguments, known: Known) -> tuple[tuple, dict]:
    """The arguments without the rows in which an observation is missing, or a covariate of the same length
    that the model reads."""
    # a category that is missing is no index, and to find what the model reads it has to run
    texts = [n in known.labels and np.asarray(a).dtype.kind == "f" for n, a in _named(arguments)]
    coded = [_whole_but_for_gaps(a) for _, a in _named(arguments)]  # what NaN has made decimal, counts too
    given_args, given_kwargs = arguments.rebuild(_as_whole(arguments, texts))
    arrays: list[Any] = [np.asarray(a) for a in arguments.arrays]
    rows: dict[int, np.ndarray] = {}
    for name, gone in _missing_elements(fn, given_args, given_kwargs).items():
        if not gone.ndim or not any(a.ndim and len(a) == len(gone) for a in arrays):
            raise DataError(f"no argument has the {len(gone) if gone.ndim else 1} rows of {name!r} to drop")
        rows[len(gone)] = np.logical_or(rows.get(len(gone), False), gone.any(axis=tuple(range(1, gone.ndim))))
    density = build_density(fn, *arguments.rebuild(_as_whole(arguments, coded)))
    lengths = {s.shape[0] for s in density.sites.values() if s.role == "observed" and s.shape}
    for variable, array in zip(density.data_vars, arrays, strict=True):
        if array.ndim and len(array) in lengths and array.dtype.kind == "f" and variable in density.read:
            lost = np.isnan(array).any(axis=tuple(range(1, array.ndim)))
            rows[len(array)] = np.logical_or(rows.get(len(array), False), lost)
    if all_gone := [n for n, lost in rows.items() if n and lost.all()]:
        raise DataError(
            f"each of the {all_gone[0]} rows has something missing, and missing='drop' leaves none: `impute` "
            f"or `mask` keeps what is there, and an argument that is missing altogether is best left out"
        ).at(None, "missing-values")
    for lost in rows.values():

        def in_order(order: np.ndarray) -> Density:
            whole = _as_whole(arguments, coded)
            moved = [a[order] if a.ndim and len(a) == len(order) else a for a in map(jnp.asarray, whole)]
            return build_density(fn, *arguments.rebuild(moved))

        if lost.any():
            dropped.check_dropped(density, lost, in_order)
    for i, array in enumerate(arrays):
        if array.ndim and len(array) in rows:
            array = array[~rows[len(array)]]
            arrays[i] = array.astype(np.int32) if coded[i] and not np.isnan(array).any() else array
    for name, count in known.numbered.items():
        if count in rows and rows[count].any():
            known.labels[f"index of {name}"] = tuple(map(str, range(count)))
    for name, texts in known.labels.items():
        if name.startswith("index of ") and len(texts) in rows:
            lost = rows[len(texts)]
            known.labels[name] = tuple(t for t, gone in zip(texts, lost, strict=True) if not gone)
    return arguments.rebuild(arrays)


def _as_whole(arguments: Arguments, which: Sequence[bool]) -> list[Any]:
    """The arrays, some of them as whole numbers with 0 for what is missing."""
    pairs = zip(which, arguments.arrays, strict=True)
    return [jnp.nan_to_num(a).astype(int) if chosen else a for chosen, a in pairs]


def _whole_but_for_gaps(array: Any) -> bool:
    array = np.asarray(array)
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return False
    there = array[np.isfinite(array)]
    return bool(there.size) and bool((there == np.round(there)).all()) and np.abs(there).max() < 2**31


def _named(arguments: Arguments) -> zip:
    return zip(arguments.names, arguments.arrays, strict=True)


# Masked elements that nothing else reads: drawn from their prior, which takes nothing from the others.
#
# `handlers.mask` takes the prior of padding out of the density together with its data, which leaves a flat
# direction without end: no draw of it is right, and gradients walk along it for ever. With its prior kept,
# the padding integrates out, and the posterior of everything else stays as it is.


def kept_padding(fn: Callable, density: Density) -> Callable | None:
    """`fn` with the priors of masked elements that nothing else reads; None where there are none."""
    free = {n: f for n, f in flat_elements(density).items() if density.sites[n].fn_name != "ImproperUniform"}
    if not free:
        return None
    # other rows have their padding elsewhere
    return under(fn, lambda: nullcontext() if ANEW.get() else _Unmasked(None, free))


class _Unmasked(Messenger):
    """Takes masks off the elements `free`, by site."""

    def __init__(self, fn: Any, free: Mapping[str, np.ndarray]):
        super().__init__(fn)
        self._free = free

    def process_message(self, msg: dict[str, Any]) -> None:
        """Take it off."""
        if msg["type"] == "sample" and msg["name"] in self._free:
            msg["fn"] = _unmasked(msg["fn"], self._free[msg["name"]])


def _unmasked(fn: Distribution, free: Any) -> Distribution:
    """`fn` without masks over the elements `free`, an array of its batch and event shape."""
    if isinstance(fn, MaskedDistribution):
        base, mask = _unmasked(fn.base_dist, free), fn._mask
        lifted = free.all(axis=tuple(range(len(fn.batch_shape), free.ndim)))
        if isinstance(mask, bool):
            mask = jnp.full(lifted.shape, mask)
        return base.mask(mask | jnp.asarray(lifted))
    if isinstance(fn, Independent):
        return Independent(_unmasked(fn.base_dist, free), fn.reinterpreted_batch_ndims)
    if isinstance(fn, ExpandedDistribution):
        inner = fn.base_dist.batch_shape
        free = free.all(axis=tuple(range(len(fn.batch_shape) - len(inner))))
        repeated = tuple(a for a, n in enumerate(inner) if n != free.shape[a])
        base = _unmasked(fn.base_dist, free.all(axis=repeated, keepdims=True))
        return ExpandedDistribution(base, fn.batch_shape)
    return fn
