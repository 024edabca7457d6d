"""Between which numbers every array of a jaxpr lies, wherever the latents are in their supports.

Interval arithmetic (Moore 1966): bounds are safe and need not be sharp. Data count by their least and largest
values, and NaN in them makes NaN of whatever is computed from them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.trace.jaxpr.compat import Literal, is_traced, scan_inputs
from gibbsite.trace.jaxpr.primitives import COMPARES, CONVERTS, LOGICAL, MOVES
from gibbsite.trace.jaxpr.walker import walk

Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
UNDEFINED: Range = (math.nan, math.nan)
_SHARES = (type(constraints.simplex), type(constraints.boolean))
_CORRELATIONS = (type(constraints.corr_matrix), type(constraints.corr_cholesky))
_NONNEGATIVE: Range = (0.0, math.inf)


def ranges(density: Density) -> Mapping[Any, Range]:
    """The range of each variable of a density's jaxpr."""
    if "ranges" not in density.cache:
        jaxpr, found = density.closed.jaxpr, {}
        names = {v: n for n, v in density.latent_vars.items()}
        data = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
        for v in jaxpr.invars:
            found[v] = range_of_support(density.sites[names[v]].support) if v in names else of_array(data[v])
        for v, value in zip(jaxpr.constvars, density.closed.consts, strict=True):
            found[v] = of_array(value)

        def keep(eqn: Any, operands: list[Range], results: Any) -> None:
            found.update(zip(eqn.outvars, results, strict=True))

        constants, inputs = ([found[v] for v in vs] for vs in (jaxpr.constvars, jaxpr.invars))
        walk(jaxpr, constants, inputs, _RULES, _unknown, of_array, keep)
        density.cache["ranges"] = found
    return density.cache["ranges"]


def range_of(density: Density, atom: Any) -> Range:
    """The range of an atom of the density's jaxpr."""
    return of_array(atom.val) if isinstance(atom, Literal) else ranges(density)[atom]


def of_array(value: Any) -> Range:
    """The least and the largest element."""
    dtype = getattr(
        value, "dtype", np.asarray(value).dtype if isinstance(value, int | float | bool) else None
    )
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
        return ANY
    array = np.asarray(value)
    return (float(array.min()), float(array.max())) if array.size else _hull(ANY)


def range_of_support(support: Any) -> Range:
    """The least and the largest value of an element of a site."""
    support = base_constraint(support)
    if isinstance(support, _SHARES):
        return (0.0, 1.0)
    if isinstance(support, _CORRELATIONS):
        return (-1.0, 1.0)
    ends = []
    for name, reduce, otherwise in (
        ("lower_bound", np.min, -math.inf),
        ("upper_bound", np.max, math.inf),
    ):
        bound = getattr(support, name, None)
        moves = bound is None or is_traced(bound)  # with a latent, it is no number yet
        ends.append(otherwise if moves else float(reduce(np.asarray(bound))))
    return ends[0], ends[1]


def _hull(*parts: Range) -> Range:
    if any(math.isnan(low) for low, _ in parts):
        return UNDEFINED
    return min(p[0] for p in parts), max(p[1] for p in parts)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _product(a: Range, b: Range) -> Range:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _sum(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _quotient(a: Range, b: Range) -> Range:
    if b[0] < 0 < b[1] or (b[0] == 0 and a[0] < 0) or b[1] == 0:
        return ANY
    if b[0] < 0:
        return _quotient((-a[1], -a[0]), (-b[1], -b[0]))
    inverse = (0.0 if math.isinf(b[1]) else 1 / b[1], math.inf if b[0] == 0 else 1 / b[0])
    return _product(a, inverse)


def _power(a: Range, b: Range) -> Range:
    if a[0] < 0:
        return ANY
    corners = [_pow(x, y) for x in a for y in b]
    if a[0] <= 1 <= a[1] or b[0] <= 0 <= b[1]:
        corners.append(1.0)
    return min(corners), max(corners)


def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):  # 0 to a negative power
        return math.inf


def _integer_power(a: Range, n: int) -> Range:
    if n < 0:
        return _quotient((1.0, 1.0), _integer_power(a, -n))
    ends = [math.prod([x] * n) if not math.isinf(x) else (x if n % 2 else math.inf) for x in a]
    return (0.0 if n and a[0] < 0 < a[1] else min(ends), max(ends)) if n % 2 == 0 else (ends[0], ends[1])


def _rising(fn: Callable[[float], float]) -> Callable[..., Range]:
    """A rising function, −∞ or ∞ beyond where it is defined."""

    def rule(eqn: Any, a: Range) -> Range:
        return _at(fn, a[0], -math.inf), _at(fn, a[1], math.inf)

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


def _shared(eqn: Any, *xs: Range) -> Range:
    return xs[0]


def _of_all(eqn: Any, *xs: Range) -> Range:
    return _hull(*xs)


def _size(eqn: Any) -> int:
    return math.prod(eqn.invars[0].aval.shape) // max(math.prod(eqn.outvars[0].aval.shape), 1)


def _dot(eqn: Any, a: Range, b: Range) -> Range:
    ((summed, _), _) = eqn.params["dimension_numbers"]
    size = math.prod(eqn.invars[0].aval.shape[d] for d in summed)
    low, high = _product(a, b)
    return _times(size, low), _times(size, high)


def _cumulative(eqn: Any, a: Range) -> Range:
    size = eqn.invars[0].aval.shape[eqn.params["axis"]] if eqn.invars[0].aval.shape else 1
    return min(a[0], _times(size, a[0])), max(a[1], _times(size, a[1]))


def _absolute(eqn: Any, a: Range) -> Range:
    ends = abs(a[0]), abs(a[1])
    return (0.0 if a[0] < 0 < a[1] else min(ends)), max(ends)


def _fixed(low: float, high: float) -> Callable[..., Range]:
    return lambda eqn, *xs: (low, high)


def _truth(eqn: Any, *xs: Range) -> Range:
    """False or true; of integers, any number of their bits."""
    return (0.0, 1.0) if eqn.outvars[0].aval.dtype == bool else ANY


def _product_of_many(eqn: Any, a: Range) -> Range:
    return (0.0, 1.0 if a[1] <= 1 else math.inf) if a[0] >= 0 else ANY


_PASSED = MOVES | CONVERTS | frozenset("tile reduce_max reduce_min cummax cummin sort top_k real".split())
_ONE: dict[str, Callable[..., Range]] = {
    **dict.fromkeys(_PASSED, _shared),
    **dict.fromkeys("concatenate pad".split(), _of_all),
    **dict.fromkeys("sin cos sign".split(), _fixed(-1.0, 1.0)),
    **dict.fromkeys(COMPARES | LOGICAL | {"is_finite", "reduce_and", "reduce_or"}, _truth),
    "add": lambda e, a, b: _sum(a, b),
    "add_any": lambda e, a, b: _sum(a, b),
    "sub": lambda e, a, b: _sum(a, (-b[1], -b[0])),
    "neg": lambda e, a: (-a[1], -a[0]),
    "mul": lambda e, a, b: _integer_power(a, 2) if e.invars[0] is e.invars[1] else _product(a, b),
    "div": lambda e, a, b: _quotient(a, b),
    "pow": lambda e, a, b: _power(a, b),
    "integer_pow": lambda e, a: _integer_power(a, e.params["y"]),
    "square": lambda e, a: _integer_power(a, 2),
    "abs": _absolute,
    "max": lambda e, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda e, a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "clamp": lambda e, low, x, high: (min(max(x[0], low[0]), high[1]), max(min(x[1], high[1]), low[0])),
    "select_n": lambda e, which, *cases: _hull(*cases),
    "exp": _rising(math.exp),
    "exp2": _rising(lambda x: 2.0**x),
    "expm1": _rising(math.expm1),
    "log": _rising(math.log),
    "log1p": _rising(math.log1p),
    "sqrt": _rising(math.sqrt),
    "rsqrt": lambda e, a: _quotient((1.0, 1.0), (math.sqrt(max(a[0], 0.0)), math.sqrt(max(a[1], 0.0)))),
    "cbrt": _rising(lambda x: math.copysign(abs(x) ** (1 / 3), x)),
    "logistic": _rising(_logistic),
    "tanh": _rising(math.tanh),
    "atan": _rising(math.atan),
    "sinh": _rising(math.sinh),
    "erf": _rising(math.erf),
    "erfc": lambda e, a: (math.erfc(a[1]), math.erfc(a[0])),
    "cosh": lambda e, a: (1.0, math.inf),
    "floor": _rising(lambda x: float(math.floor(x)) if math.isfinite(x) else x),
    "ceil": _rising(lambda x: float(math.ceil(x)) if math.isfinite(x) else x),
    "round": _rising(lambda x: float(round(x)) if math.isfinite(x) else x),
    "reduce_sum": lambda e, a: (_times(_size(e), a[0]), _times(_size(e), a[1])),
    "reduce_prod": _product_of_many,
    "cumprod": _product_of_many,
    "cumsum": _cumulative,
    "dot_general": _dot,
    "iota": lambda e: (0.0, float(e.params["shape"][e.params["dimension"]] - 1)),
    "argmax": lambda e, a: _NONNEGATIVE,
    "argmin": lambda e, a: _NONNEGATIVE,
    "dynamic_update_slice": lambda e, a, b, *at: _hull(a, b),
    "scatter": lambda e, a, at, b: _hull(a, b),
    "scatter-add": lambda e, a, at, b: _NONNEGATIVE if a[0] >= 0 and b[0] >= 0 else ANY,
    "split": _shared,
}
_SELECTS = frozenset(["select_n", "is_finite", "eq", "ne", "not", "and", "or"])


def _rule(name: str, fn: Callable[..., Range]) -> Callable[[Any, list[Range]], list[Range]]:
    def apply(eqn: Any, operands: list[Range]) -> list[Range]:
        undefined = name not in _SELECTS and any(math.isnan(a[0]) for a in operands)
        low, high = UNDEFINED if undefined else fn(eqn, *operands)
        if not undefined and (math.isnan(low) or math.isnan(high)):  # ∞ − ∞ says nothing
            low, high = UNDEFINED if any(math.isnan(a[0]) for a in operands) else ANY
        return [(low, high)] * len(eqn.outvars)

    return apply


def _unknown(eqn: Any, operands: list[Range]) -> list[Range]:
    undefined = any(math.isnan(a[0]) for a in operands)
    return [UNDEFINED if undefined else ANY] * len(eqn.outvars)


def _scan(eqn: Any, operands: list[Range]) -> list[Range]:
    """One pass of the body says what holds of them all, where nothing is known of what is carried."""
    body, (n_consts, n_carry) = eqn.params["jaxpr"], scan_inputs(eqn.params)
    carried = [ANY] * n_carry
    inputs = [*operands[:n_consts], *carried, *operands[n_consts + n_carry :]]
    found = walk(body.jaxpr, [of_array(c) for c in body.consts], inputs, _RULES, _unknown, of_array)
    return [*carried, *found[n_carry:]]


def _cond(eqn: Any, operands: list[Range]) -> list[Range]:
    branches = [
        walk(b.jaxpr, [of_array(c) for c in b.consts], operands[1:], _RULES, _unknown, of_array)
        for b in eqn.params["branches"]
    ]
    return [_hull(*ways) for ways in zip(*branches, strict=True)]


_RULES: dict[str, Any] = {
    **{name: _rule(name, fn) for name, fn in _ONE.items()},
    "scan": _scan,
    "cond": _cond,
}
