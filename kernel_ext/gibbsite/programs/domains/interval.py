"""Between which numbers all elements of an array lie: interval arithmetic (Moore 1966).

Bounds are safe and need not be sharp. An end may be open: then it is no element, but what elements come near
to, so that above 0 is told from 0 and above. Roundings are not counted, nor sums of integers without bounds
as ones that wrap around. NaN among the operands makes NaN of what is computed from them, and is told; what
else is undefined (the logarithm of a negative number) is told nothing of.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gibbsite.programs.jaxpr.compat import JaxprEqn
from gibbsite.programs.jaxpr.primitives import COMPARES, LOGICAL, of_table, whole_power

End = tuple[float, bool]
"""A bound, and whether it is open."""


@dataclass(frozen=True)
class Interval:
    """`low` and `high` bound all elements but NaN; `open_low` and `open_high` say that none is as low, or as
    high, `nan` that some may be NaN. Of no elements, `low` is above `high`."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = True
    open_high: bool = True
    nan: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends; NaN for both where an element may be NaN."""
        return (math.nan, math.nan) if self.nan else (self.low, self.high)

    @property
    def positive(self) -> bool:
        """Whether every element but NaN is above 0."""
        return self.low > 0 or (self.low == 0 and self.open_low)

    @property
    def bounded(self) -> bool:
        """Whether both ends are numbers."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def empty(self) -> bool:
        """Whether there is nothing but NaN."""
        return self.low > self.high

    @property
    def _bottom(self) -> End:
        return self.low, self.open_low

    @property
    def _top(self) -> End:
        return self.high, self.open_high


def _between(low: End, high: End) -> Interval:
    """∞ - ∞ says nothing."""
    if math.isnan(low[0]) or math.isnan(high[0]):
        return ANY
    return Interval(low[0], high[0], low[1], high[1])


ANY = Interval()
NOTHING = Interval(math.inf, -math.inf, True, True, True)
_ONE, _ZERO = Interval(1.0, 1.0, False, False), Interval(0.0, 0.0, False, False)
_BITS = Interval(0.0, 1.0, False, False)


def of_array(value: Any) -> Interval:
    """The least and the largest element."""
    dtype = getattr(
        value, "dtype", np.asarray(value).dtype if isinstance(value, int | float | bool) else None
    )
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
        return ANY
    array = np.asarray(value)
    if not array.size:
        return ANY
    low, high = float(array.min()), float(array.max())
    if not math.isnan(low):
        return Interval(low, high, False, False)
    array = array[~np.isnan(array)]
    return Interval(float(array.min()), float(array.max()), False, False, True) if array.size else NOTHING


def _greatest(ends: Iterable[End]) -> End:
    return max(ends, key=lambda e: (e[0], not e[1]))


def join(parts: Sequence[Interval]) -> Interval:
    """All elements of all parts."""
    nan, there = any(p.nan for p in parts), [p for p in parts if not p.empty]
    if not there:
        return NOTHING
    return replace(_between(min(p._bottom for p in there), _greatest(p._top for p in there)), nan=nan)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _corner(a: End, b: End) -> End:
    reached = (a == (0.0, False)) or (b == (0.0, False))
    return _times(a[0], b[0]), not reached and (a[1] or b[1])


def _corners(fn: Callable[[End, End], End], a: Interval, b: Interval) -> Interval:
    found = [fn(x, y) for x in (a._bottom, a._top) for y in (b._bottom, b._top)]
    return ANY if any(math.isnan(x) for x, _ in found) else _between(min(found), _greatest(found))


def _product(a: Interval, b: Interval) -> Interval:
    return _corners(_corner, a, b)


def _sum(a: Interval, b: Interval) -> Interval:
    return _between((a.low + b.low, a.open_low or b.open_low), (a.high + b.high, a.open_high or b.open_high))


def _negative(a: Interval) -> Interval:
    return _between((-a.high, a.open_high), (-a.low, a.open_low))


def _quotient(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    if np.issubdtype(eqn.outvars[0].aval.dtype, np.integer):
        found = ANY if b.low <= 0 <= b.high else _divided(a, b)
        return _rising(_cut, closes=True)(eqn, found)  # towards zero
    return _divided(a, b)


def _divided(a: Interval, b: Interval) -> Interval:
    if b.low < 0 < b.high or (b.low == 0 and a.low < 0) or b.high == 0:
        return ANY
    if b.high < 0:
        return _divided(_negative(a), _negative(b))
    low = (0.0 if math.isinf(b.high) else 1 / b.high), b.open_high
    high = (math.inf if b.low == 0 else 1 / b.low), b.open_low
    return _product(a, _between(low, high))


def _power(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    if a.low < 0:
        return ANY
    found = _corners(_raised, a, b)
    return join([found, _ONE]) if a.low <= 1 <= a.high or b.low <= 0 <= b.high else found


def _raised(x: End, y: End) -> End:
    try:
        value = math.pow(x[0], y[0])
    except (OverflowError, ValueError):  # 0 to a negative power
        value = math.inf
    return value, (x[1] or y[1]) and x != (0.0, False)


def _whole_power(a: Interval, n: int) -> Interval:
    if n < 0:
        return _divided(_ONE, _whole_power(a, -n))
    low, high = ((_to(x, n), is_open) for x, is_open in (a._bottom, a._top))
    if n % 2:
        return _between(low, high)
    least = (0.0, False) if n and a.low < 0 < a.high else min([low, high])
    return _between(least, _greatest([low, high]))


def _to(x: float, n: int) -> float:
    return math.prod([x] * n) if not math.isinf(x) else x if n % 2 else math.inf


def _absolute(eqn: JaxprEqn, a: Interval) -> Interval:
    ends = [(abs(x), is_open) for x, is_open in (a._bottom, a._top)]
    return _between((0.0, False) if a.low < 0 < a.high else min(ends), _greatest(ends))


def _rising(fn: Callable[[float], float], closes: bool = False) -> Callable[..., Interval]:
    """A rising function, −∞ or ∞ beyond where it is defined; one that `closes` takes steps, and reaches what
    its ends are not."""

    def rule(eqn: JaxprEqn, a: Interval) -> Interval:
        low, high = _at(fn, a.low, -math.inf), _at(fn, a.high, math.inf)
        return _between((low, a.open_low and not closes), (high, a.open_high and not closes))

    return rule


def _at(fn: Callable[[float], float], x: float, otherwise: float) -> float:
    try:
        return fn(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return otherwise


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else 1 - 1 / (1 + math.exp(x)) if x > -700 else 0.0


def _whole(fn: Callable[[float], int]) -> Callable[..., Interval]:
    return _rising(lambda x: float(fn(x)) if math.isfinite(x) else x, closes=True)


def _cut(x: float) -> float:
    return float(math.trunc(x)) if math.isfinite(x) else x


def _inverse_root(eqn: JaxprEqn, a: Interval) -> Interval:
    low, high = math.sqrt(max(a.low, 0.0)), math.sqrt(max(a.high, 0.0))
    return _divided(_ONE, Interval(low, high, a.open_low and a.low >= 0, a.open_high))


def _fixed(low: float, high: float) -> Callable[..., Interval]:
    return lambda eqn, *xs: Interval(low, high, False, False)


def _truth(eqn: JaxprEqn, *xs: Interval) -> Interval:
    """False or true; of integers, any number of their bits."""
    return _BITS if eqn.outvars[0].aval.dtype == bool else ANY


def _less(a: Interval, b: Interval, strict: bool) -> Interval:
    """Whether every element of `a` is below every one of `b`, or none is."""
    if a.nan or b.nan or a.empty or b.empty:
        return _BITS
    apart = a.high == b.low and (a.open_high or b.open_low)
    if a.high < b.low or apart or (not strict and a.high == b.low):
        return _ONE
    apart = a.low == b.high and (a.open_low or b.open_high)
    return _ZERO if a.low > b.high or apart or (strict and a.low == b.high) else _BITS


def _case(eqn: JaxprEqn, which: Interval, *cases: Interval) -> Interval:
    if which.low == which.high and 0 <= which.low < len(cases):
        return cases[int(which.low)]
    return join(cases)


def _size(eqn: JaxprEqn) -> Interval:
    n = math.prod(eqn.invars[0].aval.shape) // max(math.prod(eqn.outvars[0].aval.shape), 1)
    return Interval(n, n, False, False)


def _dot(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    ((summed, _), _) = eqn.params["dimension_numbers"]
    n = math.prod(eqn.invars[0].aval.shape[d] for d in summed)
    return _product(Interval(n, n, False, False), _product(a, b))


def _convolved(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    """Of up to as many products as a kernel has elements per feature; what is padded is 0."""
    shape, numbers = eqn.invars[1].aval.shape, eqn.params["dimension_numbers"]
    n = math.prod(shape) // max(shape[numbers.rhs_spec[0]], 1)
    return _product(Interval(0.0, n, False, False), _product(a, b))


def _running_sum(eqn: JaxprEqn, a: Interval) -> Interval:
    n = eqn.invars[0].aval.shape[eqn.params["axis"]] if eqn.invars[0].aval.shape else 1
    return join([a, _product(a, Interval(n, n, False, False))])


def _product_of_many(eqn: JaxprEqn, a: Interval) -> Interval:
    if a.low < 0:
        return ANY
    return Interval(0.0, 1.0 if a.high <= 1 else math.inf, a.positive, a.high > 1)


def _squared_or_product(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    return _whole_power(a, 2) if eqn.invars[0] is eqn.invars[1] else _product(a, b)


def _clamped(eqn: JaxprEqn, low: Interval, x: Interval, high: Interval) -> Interval:
    return _smaller(eqn, _larger(eqn, x, low), high)


def _larger(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    return _between(max(a._bottom, b._bottom), _greatest([a._top, b._top]))


def _smaller(eqn: JaxprEqn, a: Interval, b: Interval) -> Interval:
    top = min((a._top, b._top), key=lambda e: (e[0], not e[1]))
    return _between(min([a._bottom, b._bottom]), top)


def _converted(eqn: JaxprEqn, a: Interval) -> Interval:
    new, old = eqn.outvars[0].aval.dtype, eqn.invars[0].aval.dtype
    if new.kind == "b":
        return _BITS if old.kind != "b" else a
    rounds = np.issubdtype(new, np.integer) and not np.issubdtype(old, np.integer)
    return _rising(_cut, closes=True)(eqn, a) if rounds else a


def _added(eqn: JaxprEqn, a: Interval, at: Interval, b: Interval) -> Interval:
    many = Interval(0.0, math.inf, False, True)
    return replace(join([a, _sum(a, _product(many, b))]), nan=False)


def _of_each(eqn: JaxprEqn, a: Interval, *others: Interval) -> Interval:
    return a


_RULES: dict[str, Callable[..., Interval]] = {
    "add": lambda e, a, b: _sum(a, b),
    "add_any": lambda e, a, b: _sum(a, b),
    "sub": lambda e, a, b: _sum(a, _negative(b)),
    "neg": lambda e, a: _negative(a),
    "mul": _squared_or_product,
    "div": _quotient,
    "pow": _power,
    **dict.fromkeys(["integer_pow", "square"], lambda e, a: _whole_power(a, whole_power(e) or 0)),
    "abs": _absolute,
    "max": _larger,
    "min": _smaller,
    "clamp": _clamped,
    "convert_element_type": _converted,
    "select_n": _case,
    **dict.fromkeys(COMPARES | LOGICAL | {"is_finite", "reduce_and", "reduce_or", "reduce_xor"}, _truth),
    "lt": lambda e, a, b: _less(a, b, True),
    "le": lambda e, a, b: _less(a, b, False),
    "gt": lambda e, a, b: _less(b, a, True),
    "ge": lambda e, a, b: _less(b, a, False),
    **dict.fromkeys(["sin", "cos", "sign"], _fixed(-1.0, 1.0)),
    "exp": _rising(math.exp),
    "exp2": _rising(lambda x: 2.0**x),
    "expm1": _rising(math.expm1),
    "log": _rising(math.log),
    "log1p": _rising(math.log1p),
    "sqrt": _rising(math.sqrt),
    "rsqrt": _inverse_root,
    "cbrt": _rising(lambda x: math.copysign(abs(x) ** (1 / 3), x)),
    "logistic": _rising(_logistic),
    "tanh": _rising(math.tanh),
    "atan": _rising(math.atan),
    "sinh": _rising(math.sinh),
    "asinh": _rising(math.asinh),
    "erf": _rising(math.erf),
    "erfc": lambda e, a: _between((math.erfc(a.high), a.open_high), (math.erfc(a.low), a.open_low)),
    "cosh": lambda e, a: Interval(1.0, math.inf, False, True),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _whole(round),
    "real": _of_each,
    **dict.fromkeys(["reduce_max", "reduce_min", "cummax", "cummin"], _of_each),
    "reduce_sum": lambda e, a: _product(_size(e), a),
    **dict.fromkeys(["reduce_prod", "cumprod"], _product_of_many),
    "cumsum": _running_sum,
    "dot_general": _dot,
    "conv_general_dilated": _convolved,
    "iota": lambda e: Interval(0.0, e.params["shape"][e.params["dimension"]] - 1.0, False, False),
    **dict.fromkeys(["argmax", "argmin"], _fixed(0.0, math.inf)),
    "scatter-add": _added,
    "scatter-sub": lambda e, a, at, b: _added(e, a, at, _negative(b)),
}
_KEEPS_NO_NAN = COMPARES | LOGICAL | {"is_finite", "argmax", "argmin"}


def _of_type(eqn: JaxprEqn, found: Interval, i: int = 0) -> Interval:
    """What the type of a result can hold: what it cannot wraps around to anywhere in it."""
    dtype = eqn.outvars[i].aval.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu" or found.empty:
        return found
    least, most = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    beyond = (math.isfinite(found.low) and found.low < least) or (
        math.isfinite(found.high) and found.high > most
    )
    return Interval(least, most, False, False) if beyond else found


def wraps(eqn: JaxprEqn, xs: Sequence[Interval]) -> bool:
    """Whether a sum, difference or product of integers may leave its type's range."""
    found = of_table(eqn, _RULES)(eqn, *xs)
    return _of_type(eqn, found) != found


def _rule(name: str, fn: Callable[..., Interval]) -> Callable[[JaxprEqn, Sequence[Interval]], list[Interval]]:
    def apply(eqn: JaxprEqn, xs: Sequence[Interval]) -> list[Interval]:
        chosen = name == "select_n"
        if any(x.empty for x in (xs[:1] if chosen else xs)):
            found = NOTHING if name not in _KEEPS_NO_NAN else fn(eqn, *(ANY for _ in xs))
        else:
            found = fn(eqn, *xs)
        if not chosen:
            found = replace(found, nan=name not in _KEEPS_NO_NAN and any(x.nan for x in xs))
        return [_of_type(eqn, found, i) for i in range(len(eqn.outvars))]

    return apply


class Intervals:
    """The domain: `Interval`s of whole arrays."""

    rules: Mapping[str, Any]

    def __init__(self) -> None:
        # each array is sorted for itself; the places of the largest are numbers from 0 on
        several = {
            "sort": lambda eqn, xs: xs,
            "top_k": lambda eqn, xs: [xs[0], Interval(0.0, math.inf, False)],
        }
        self.rules = {name: _rule(name, fn) for name, fn in _RULES.items()} | several

    of_constant = staticmethod(of_array)
    join = staticmethod(join)

    def moved(self, eqn: JaxprEqn, parts: Sequence[Interval], places: Sequence[Interval]) -> Interval:
        fill = eqn.params.get("mode")
        filled = fill is not None and "FILL" in str(fill) and eqn.outvars[0].aval.dtype.kind != "f"
        return ANY if filled else join(parts)

    def computed(self, eqn: JaxprEqn, operands: Sequence[Interval]) -> Interval:
        return replace(ANY, nan=any(x.nan for x in operands))


INTERVALS = Intervals()
