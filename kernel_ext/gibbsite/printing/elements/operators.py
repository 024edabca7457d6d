"""How primitives that work element by element, or along an axis, are written."""

ATOM, POWER, PRODUCT, SUM, BITS, COMPARE, CHOICE = range(6, -1, -1)
"""How tightly they bind, as in Python: `&` and `|` less than sums, and each other not by habit."""

INFIX = {
    "add": ("+", SUM),
    "add_any": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "floor_div": ("//", PRODUCT),
    "lt": ("<", COMPARE),
    "le": ("<=", COMPARE),
    "gt": (">", COMPARE),
    "ge": (">=", COMPARE),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "and": ("&", BITS),
    "or": ("|", BITS),
    "xor": ("^", BITS),
}


CALLS = {
    "logistic": "sigmoid",
    "is_finite": "isfinite",
    "sign": "sign",
    "rem": "rem",
    "erf_inv": "erfinv",
    **{
        n: n
        for n in (
            "exp exp2 log log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sqrt "
            "cbrt abs max min floor ceil round digamma erf erfc nextafter bessel_i0e bessel_i1e igamma "
            "igammac lgamma regularized_incomplete_beta polygamma zeta shift_left shift_right_arithmetic "
            "population_count pow"
        ).split()
        if n != "pow"
    },
}
"""Functions of elements, by the name under which they are printed."""

REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_and": "all",
    "reduce_or": "any",
    "argmax": "argmax",
    "argmin": "argmin",
}

ALONG = {"cumsum": "cumsum", "cumprod": "cumprod", "cummax": "cummax", "cummin": "cummin", "sort": "sort"}
"""Functions of a whole axis whose elements are read one by one."""
