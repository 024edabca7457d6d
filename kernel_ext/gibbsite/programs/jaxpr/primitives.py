"""What JAX's primitives are, by name: one place that says which of them merely move elements, which combine
them element by element, and what they mean on NumPy's arrays.

An analysis that treats a kind of primitives alike asks for that kind here. A primitive that is new in JAX is
entered once, in the row of its kind; what is in no row is unknown to every analysis, which is always safe.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax import lax
from scipy import special

from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


COPIES, STOPS = _names("copy copy_p"), _names("stop_gradient")
PASSES = COPIES | STOPS | _names("reduce_precision optimization_barrier pvary")
"""The operand as it is, up to rounding; derivatives are another matter."""
ROUNDS = _names("reduce_precision")
CONVERTS = _names("convert_element_type")
"""The operand's elements as another type's: rounded, or cut off, where that is narrower."""
IN_ORDER = _names("reshape squeeze expand_dims")
"""Every element of the operand once, in the same order."""
REARRANGES = IN_ORDER | _names("transpose rev")
"""Every element of the operand once, elsewhere."""
SPREADS = _names("broadcast_in_dim")
"""Every element of the operand, once or more often."""
SLICES, WINDOWS = _names("slice"), _names("dynamic_slice")
PICKS = SLICES | WINDOWS | _names("gather")
"""Some elements of the first operand, at places that the parameters or further operands say."""
JOINS, STACKS = _names("concatenate"), _names("stack")
"""The elements of all operands, side by side."""
ARRANGES = REARRANGES | SPREADS | PICKS
"""Every element of the output is an element of the first operand (or a fill value of a gather), unchanged."""
PLACES = (ARRANGES - WINDOWS) | COPIES
"""Elements of the first operand, at places that are known or that an array of indices says."""
MOVES = ARRANGES | PASSES
"""As `ARRANGES`, or the operand as it is."""
BOTH, NEGATIONS, CONJUNCTIONS = _names("and"), _names("not"), _names("reduce_and")
BELOW, AT_LEAST = _names("lt"), _names("ge")
COMPARES = _names("lt le gt ge eq ne")
EQUALS, LARGER_OR_SMALLER = _names("eq ne"), _names("max min")
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
LOGICAL = _names("and or xor not")
STEPS = COMPARES | LOGICAL | _names("sign floor ceil round is_finite")
"""Element by element, with a derivative of zero wherever there is one."""
FLAT = STEPS | STOPS | _names("argmax argmin reduce_or reduce_and reduce_xor")
"""What no gradient passes."""
ADDS, SUBTRACTS, NEGATES = _names("add add_any"), _names("sub"), _names("neg")
MULTIPLIES, DIVIDES = _names("mul"), _names("div")
SELECTS = _names("select_n")
"""Element by element, one of the cases after the first operand, which says which."""
ELEMENTWISE = (
    PASSES
    | CONVERTS
    | STEPS
    | _names(
        "abs acos acosh add asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt clamp cos cosh digamma "
        "div erf erf_inv erfc exp exp2 expm1 igamma igamma_grad_a igammac imag integer_pow lgamma log log1p "
        "logistic max min mul neg nextafter polygamma population_count pow random_gamma_grad real "
        "regularized_incomplete_beta rem rsqrt select_n shift_left shift_right_arithmetic "
        "shift_right_logical sin sinh sqrt square sub tan tanh zeta mul_add bitcast_convert_type clz "
        "log2 one_minus_square polynomial"  # from JAX 0.11 on
    )
)
"""Every element of the output is a function of the elements of the operands at the same place, or of an
operand without axes."""
REDUCTIONS = _names(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin"
)
TOTALS, PRODUCTS = _names("reduce_sum"), _names("reduce_prod")
MAXIMA, ALL_OR_ANY = _names("reduce_max"), _names("reduce_and reduce_or")
RUNNING_TOTALS = _names("cumsum")
CUMULATIVE = RUNNING_TOTALS | _names("cumprod cummax cummin cumlogsumexp")
MATRIX = _names(
    "cholesky triangular_solve lu qr eigh svd householder_product lu_pivots_to_permutation cholesky_update "
    "tridiagonal_solve schur hessenberg geqrf"
)
"""On batches of matrices: an element of the output may depend on all of its own matrix."""
FACTORS, SOLVES, CONTRACTS = _names("cholesky"), _names("triangular_solve"), _names("dot_general")
GATHERS, SCATTERS = _names("gather"), _names("scatter")
SEEDS = _names("random_seed")
COMBINES = {f"scatter-{by}": by for by in ("add", "sub", "mul", "min", "max")}
"""What a scatter makes of an element that is there and one that comes; `SCATTERS` put the new one there."""
LOGARITHMS = _names("log")
SQUEEZES, TRANSPOSES, REVERSES = _names("squeeze"), _names("transpose"), _names("rev")
BRANCHES, SCANS, LOOPS = _names("cond"), _names("scan"), _names("while")
PADS, RESHAPES, COUNTS = _names("pad"), _names("reshape"), _names("iota")
BARRIERS = _names("optimization_barrier")
EXTREMES = MAXIMA | _names("reduce_min")
DECOMPOSES = FACTORS | _names("lu qr eigh svd")
LAPACK = (DECOMPOSES | SOLVES) | _names(
    "eig geqp3 geqrf hessenberg householder_product ormqr schur tridiagonal tridiagonal_solve"
)
"""By LAPACK's kernels on CPUs."""


GROWS = (ADDS | SUBTRACTS | MULTIPLIES | TOTALS | PRODUCTS | CONTRACTS) | _names(
    "square integer_pow pow cumsum cumprod"
)
"""Of whole numbers larger ones, which may wrap around."""
TAKEN_APART = (
    REARRANGES | SPREADS | PASSES | CONVERTS | JOINS | ADDS | SUBTRACTS | NEGATES | SELECTS | TOTALS
) | (MULTIPLIES | DIVIDES | CONTRACTS)
TAKEN_APART -= STOPS
"""Linear, its derivative too, and every element of an operand has its part in the output, so that a sum of
all goes through."""


# What one asks of an equation.


def name_of(eqn: JaxprEqn) -> str:
    """What JAX calls the primitive, for people."""
    return eqn.primitive.name


def of_kind(eqn: JaxprEqn | None, *kinds: frozenset[str]) -> bool:
    """Whether an equation's primitive is of one of the kinds above; False of no equation."""
    return eqn is not None and any(eqn.primitive.name in kind for kind in kinds)


def copied(eqn: JaxprEqn, out: int = 0) -> tuple[int, ...]:
    """The positions of the operands of which every element of a result is an element, unchanged, or else the
    fill value of a gather; () where elements are computed. All other operands say from where."""
    name, count = eqn.primitive.name, len(eqn.invars)
    if name == "optimization_barrier":
        return (out,)
    if name in ("concatenate", "stack"):
        return tuple(range(count))
    if name in SELECTS:
        return tuple(range(1, count))
    if name in ("pad", "dynamic_update_slice"):
        return (0, 1)
    if name in SCATTERS:
        return (0, 2)
    return (0,) if name in MOVES or name in ("tile", "split") else ()


def compares(eqn: JaxprEqn, swapped: bool = False) -> str:
    """ "lt", "le", "gt" or "ge" for what orders two numbers, with its operands `swapped`; "" for all else."""
    name = eqn.primitive.name
    return "" if name not in _MIRRORED else _MIRRORED[name] if swapped else name


def signs(eqn: JaxprEqn) -> tuple[int, ...]:
    """1 or -1 for each operand of a sum or difference; () of anything else."""
    name = eqn.primitive.name
    return (1, 1) if name in ADDS else (1, -1) if name in SUBTRACTS else (-1,) if name in NEGATES else ()


def whole_power(eqn: JaxprEqn) -> int | None:
    """The known whole exponent of a power; None of anything else."""
    if eqn.primitive.name == "square":
        return 2
    return eqn.params["y"] if eqn.primitive.name == "integer_pow" else None


def linear_operands(eqn: JaxprEqn) -> tuple[int, ...]:
    """The operands in which, all together, an equation on real numbers is linear but for roundings, given its
    others; () where it is linear in none, or only in one at a time (`is_product`)."""
    if copied(eqn):
        return copied(eqn)
    if eqn.primitive.name in DIVIDES | TOTALS | CONVERTS | {"cumsum"}:
        return (0,)
    return (1,) if eqn.primitive.name in SOLVES else tuple(range(len(signs(eqn))))


def is_product(eqn: JaxprEqn) -> bool:
    """Whether an equation is linear in each of its two operands, given the other."""
    return eqn.primitive.name in MULTIPLIES | CONTRACTS


def smooth_operands(eqn: JaxprEqn) -> list[Any]:
    """The operands through which a gradient may pass: none of steps, comparisons, roundings to integers."""
    name = eqn.primitive.name
    if name in FLAT or (name in CONVERTS and eqn.outvars[0].aval.dtype.kind in "iub"):
        return []
    return eqn.invars[1:] if name in SELECTS else eqn.invars


def moved_from(
    producer: Mapping[Any, JaxprEqn],
    atom: Any,
    *kinds: frozenset[str],
    while_: Callable[..., bool] | None = None,
) -> Any:
    """The atom whose elements `atom` holds, moved by equations of these kinds alone; itself, where it is made
    by another. `while_(eqn)` may end the way earlier."""
    while not isinstance(atom, Literal) and of_kind(eqn := producer.get(atom), *kinds):
        if while_ is not None and not while_(eqn):
            break
        atom = eqn.invars[0]  # type: ignore[union-attr]
    return atom


def of_table(eqn: JaxprEqn, table: Mapping[str, Any], otherwise: Any = None) -> Any:
    """What a table by names of primitives has for an equation."""
    return table.get(eqn.primitive.name, otherwise)


# What they mean. Each takes the equation's parameters, the shape of its output and the operands.

Meaning = Callable[..., Any]


def _of_elements(fn: Callable[..., Any]) -> Meaning:
    return lambda p, s, *xs: np.broadcast_to(fn(*xs), s)


def _broadcast(p: Any, s: Any, x: np.ndarray) -> np.ndarray:
    target = [1] * len(s)
    for a, d in enumerate(p["broadcast_dimensions"]):
        target[d] = x.shape[a]
    return np.broadcast_to(x.reshape(target), s)


def _iota(p: Any, s: Any) -> np.ndarray:
    d = p["dimension"]
    return np.broadcast_to(np.arange(s[d]).reshape([-1 if a == d else 1 for a in range(len(s))]), s)


def _slice(p: Any, s: Any, x: np.ndarray) -> np.ndarray:
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(slice(*b) for b in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]


def _reduced(fn: Callable[..., Any]) -> Meaning:
    return lambda p, s, x: fn(x, axis=tuple(p["axes"]))


def _cumulative(fn: Callable[..., Any]) -> Meaning:
    def rule(p: Any, s: Any, x: np.ndarray) -> Any:
        turned = np.flip(x, p["axis"]) if p["reverse"] else x
        out = fn(turned, axis=p["axis"])
        return np.flip(out, p["axis"]) if p["reverse"] else out

    return rule


def _dot(p: Any, s: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (a_sum, b_sum), (a_batch, b_batch) = p["dimension_numbers"]
    names = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(names) for _ in a.shape], [next(names) for _ in b.shape]
    for i, j in zip((*a_sum, *a_batch), (*b_sum, *b_batch), strict=True):
        right[j] = left[i]
    free = [n for i, n in enumerate(left) if i not in a_sum and i not in a_batch]
    free += [n for j, n in enumerate(right) if j not in b_sum and j not in b_batch]
    out = [left[i] for i in a_batch] + free
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b, optimize=True)


def _gather(p: Any, s: Any, x: np.ndarray, at: np.ndarray) -> np.ndarray | None:
    """Whole rows by their numbers, as `x[i]` and `x[i, j]` pick them, or `take_along_axis`; None for any
    other."""
    dims, sizes = p["dimension_numbers"], p["slice_sizes"]
    axes, along = list(dims.start_index_map), list(dims.operand_batching_dims)
    if sorted(dims.collapsed_slice_dims) != sorted(axes) or not x.size:
        return None
    rest = [d for d in range(x.ndim) if d not in (*axes, *along)]
    if any(sizes[d] != x.shape[d] for d in rest):
        return None
    places = np.indices(at.shape[:-1], sparse=True)
    picked = [places[d] for d in dims.start_indices_batching_dims]
    picked += [np.clip(at[..., k], 0, x.shape[d] - 1) for k, d in enumerate(axes)]
    out = np.transpose(x, (*along, *axes, *rest))[tuple(np.broadcast_arrays(*picked))]
    batch = [a for a in range(len(s)) if a not in dims.offset_dims]
    return np.moveaxis(out, range(out.ndim), [*batch, *dims.offset_dims])


def _cholesky(p: Any, s: Any, x: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.full(x.shape, np.nan)


def _power(p: Any, s: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    return np.broadcast_to(np.power(a, b), s) if np.result_type(a, b).kind == "f" else None


def _integer_power(p: Any, s: Any, a: np.ndarray) -> np.ndarray | None:
    if a.dtype.kind == "f":
        return a ** float(p["y"])
    return np.power(a, p["y"]) if p["y"] >= 0 else None  # integers wrap around, here and there


def _rounded(p: Any, s: Any, a: np.ndarray) -> np.ndarray:
    to_even = p["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN
    return np.round(a) if to_even else np.sign(a) * np.floor(np.abs(a) + 0.5)


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.result_type(a, b).kind == "f":
        return a / b
    return np.where(b == 0, -1, (a - np.fmod(a, b)) // b)  # towards zero; by zero, as XLA does


def _left_over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    left = np.fmod(a, b)
    return left if a.dtype.kind == "f" else np.where(b == 0, a, left)


def _selected(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if len(cases) == 2:
        return np.where(which.astype(bool), cases[1], cases[0])
    return np.choose(which.astype(np.intp), cases)


OF_ELEMENTS: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divided,
    "rem": _left_over,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "clamp": lambda low, x, high: np.clip(x, low, high),
    "select_n": _selected,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "abs": np.abs,
    "sign": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "square": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "is_finite": np.isfinite,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": special.erfinv,
    "logistic": lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
    **dict.fromkeys(("stop_gradient", "copy", *CONVERTS), lambda x: x),
}
"""Of those that combine elements and have no parameters: NumPy's function of the operands."""

MEANINGS: Mapping[str, Meaning] = {
    **{name: _of_elements(fn) for name, fn in OF_ELEMENTS.items()},
    "pow": _power,
    "integer_pow": _integer_power,
    "round": _rounded,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), lambda p, s, a: a.reshape(s)),
    "transpose": lambda p, s, a: np.transpose(a, p["permutation"]),
    "rev": lambda p, s, a: np.flip(a, p["dimensions"]),
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
    "concatenate": lambda p, s, *xs: np.concatenate(xs, axis=p["dimension"]),
    "reduce_sum": _reduced(np.sum),
    "reduce_max": _reduced(np.max),
    "reduce_min": _reduced(np.min),
    "reduce_prod": _reduced(np.prod),
    "reduce_and": _reduced(np.all),
    "reduce_or": _reduced(np.any),
    "cumsum": _cumulative(np.cumsum),
    "cumprod": _cumulative(np.cumprod),
    "cummax": _cumulative(np.maximum.accumulate),
    "dot_general": _dot,
    "gather": _gather,
    "cholesky": _cholesky,
}
"""Of all that NumPy can compute: `(params, shape, *operands)` → the output, which its type is to be given;
None where an equation is of a form that is not done here."""


def meaning(eqn: JaxprEqn) -> Meaning | None:
    """How NumPy computes an equation of one output; None where it does not."""
    return of_table(eqn, MEANINGS) if len(eqn.outvars) == 1 else None
