"""Functions of one real number, kept as exact linear combinations of statistics.

While the log density is walked, every array that depends on the site `x` is held as a `Form`: for each
element, a sum of coefficients (free of `x`) times statistics `x^p (1-x)^q log(x)^l log(1-x)^m`.
Coefficients are Python floats where they are known when the program is analysed, else arrays in which
constant axes have size 1. A `Form` that is one product `c x^p (1-x)^q` also keeps that shape (`power`), in
which exponents may differ from element to element (NumPyro's Beta is a Dirichlet of the stacked `[x, 1-x]`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import jax.numpy as jnp
import numpy as np

Key = tuple[float, float, float, float]
Coefficient = Any
ONE: Key = (0.0, 0.0, 0.0, 0.0)
X: Key = (1.0, 0.0, 0.0, 0.0)
X2: Key = (2.0, 0.0, 0.0, 0.0)
LOG: Key = (0.0, 0.0, 1.0, 0.0)
LOG2: Key = (0.0, 0.0, 2.0, 0.0)
LOG1M: Key = (0.0, 0.0, 0.0, 1.0)
_MOST = 24


def key_text(key: Key, x: str) -> str:
    """A statistic as a person would write it: `log mu`, `mu^2`."""
    p, q, log, log1m = key
    parts = [_power(x, p), _power(f"(1-{x})", q), _power(f"log({x})", log), _power(f"log(1-{x})", log1m)]
    return " ".join(t for t in parts if t) or "1"


def _power(base: str, p: float) -> str:
    if p == 0:
        return ""
    return base if p == 1 else f"{base}^{p:g}"


@dataclass(frozen=True)
class Power:
    """Exactly `c x^p (1-x)^q`; `p` and `q` are static arrays that broadcast against the form's shape."""

    c: Coefficient
    p: np.ndarray
    q: np.ndarray

    @property
    def uniform(self) -> tuple[float, float] | None:
        """The exponents, if they are the same for every element."""
        p, q = np.unique(self.p), np.unique(self.q)
        return (float(p[0]), float(q[0])) if p.size == q.size == 1 else None


@dataclass(frozen=True)
class Form:
    """A linear combination of statistics; see the module's text."""

    parts: Mapping[Key, Coefficient]
    power: Power | None = None

    @property
    def keys(self) -> frozenset[Key]:
        """The statistics that occur, without the constant."""
        return frozenset(k for k in self.parts if k != ONE)


class Unfit(Exception):
    """An operation left the linear combinations; the text says how."""


def site_form() -> Form:
    """`x` itself."""
    return from_power(Power(1.0, np.asarray(1.0), np.asarray(0.0)))


def from_power(power: Power) -> Form:
    """The linear combination that a product is: one statistic per pair of exponents."""
    same = power.uniform
    if same is not None:
        # exponents such as 1.7 * (1 / 1.7) in single precision are meant to be 1
        p, q = (float(np.round(e, 5)) + 0.0 for e in same)
        return Form({(p, q, 0.0, 0.0): power.c}, power)
    p, q = np.broadcast_arrays(power.p, power.q)
    parts: dict[Key, Coefficient] = {}
    for pair in sorted(set(zip(p.ravel().tolist(), q.ravel().tolist(), strict=True))):
        mask = ((p == pair[0]) & (q == pair[1])).astype(np.float32)
        parts[(*pair, 0.0, 0.0)] = power.c * mask
    return Form(parts, power)


def is_number(c: Coefficient) -> bool:
    """Whether a coefficient is known when the program is analysed."""
    return isinstance(c, float)


def as_power(form: Form, complement: bool = False) -> Power | None:
    """The form as one product, where it is one: a single power; with `complement`, also a known multiple of
    `1 - x`, of the odds `1/x - 1`, and the like."""
    if form.power is not None:
        return form.power
    live = {k: c for k, c in form.parts.items() if not (is_number(c) and c == 0.0)}
    if any(key[2:] != (0.0, 0.0) for key in live):
        return None
    if len(live) == 1:
        (key, c), *_ = live.items()
        return Power(c, np.asarray(key[0]), np.asarray(key[1]))
    if complement and len(live) == 2 and all(map(is_number, live.values())):
        return _multiplied_out(live)
    return None


def _multiplied_out(parts: Mapping[Key, Coefficient]) -> Power | None:
    """What is `c x^p (1-x)^q` times `1 - x`, `1 - (1-x)` or `x + (1-x)`, as one product."""
    for ((p, q, *_), c), ((r, s, *_), d) in permutations(parts.items()):
        if c == -d and (r, s) == (p + 1, q):
            return Power(c, np.asarray(p), np.asarray(q + 1))
        if c == -d and (r, s) == (p, q + 1):
            return Power(c, np.asarray(p + 1), np.asarray(q))
        if c == d and (r, s) == (p - 1, q + 1):
            return Power(c, np.asarray(p - 1), np.asarray(q))
    return None


def combine(a: Mapping[Key, Coefficient], b: Mapping[Key, Coefficient], sign: float = 1.0) -> Form:
    """`a + sign * b`."""
    parts = dict(a)
    for key, c in b.items():
        c = c if sign == 1.0 else sign * c
        parts[key] = parts[key] + c if key in parts else c
    return Form(parts)


def scaled(form: Form, factor: Coefficient) -> Form:
    """`factor * form`, where the factor is free of `x`."""
    parts = {k: c * factor for k, c in form.parts.items()}
    power = form.power and Power(form.power.c * factor, form.power.p, form.power.q)
    return Form(parts, power)


def product(a: Form, b: Form) -> Form:
    """`a * b`."""
    u, v = as_power(a), as_power(b)
    if u is not None and v is not None:
        return from_power(Power(u.c * v.c, u.p + v.p, u.q + v.q))
    parts: dict[Key, Coefficient] = {}
    for i, c in a.parts.items():
        for j, d in b.parts.items():
            key: Key = tuple(s + t for s, t in zip(i, j, strict=True))  # type: ignore[assignment]
            parts[key] = parts[key] + c * d if key in parts else c * d
    if len(parts) > _MOST:
        raise Unfit("is a product of too many statistics")
    return Form(parts)


def raised(form: Form, exponent: float, *, positive: bool) -> Form:
    """`form ** exponent` for a known exponent; `positive` says that `x > 0` (and `1 - x > 0`)."""
    whole = float(exponent).is_integer()
    power = as_power(form, complement=not (whole and exponent >= 0))
    if power is not None and (positive or whole):
        with np.errstate(all="ignore"):
            c = power.c**exponent if is_number(power.c) and power.c > 0 else jnp.power(power.c, exponent)
        if is_number(power.c) and whole and power.c != 0:
            c = float(power.c ** int(exponent))
        return from_power(Power(c, power.p * exponent, power.q * exponent))
    if whole and 0 <= exponent <= 4:
        out = Form({ONE: 1.0})
        for _ in range(int(exponent)):
            out = product(out, form)
        return out
    if power is not None:
        raise Unfit("takes a fractional power of something that may be negative")
    raise Unfit(f"takes a sum to the power {exponent:g}")


def logarithm(form: Form, *, positive: bool) -> Form:
    """`log(form)`: of one product only."""
    power = as_power(form, complement=True)
    if power is None:
        raise Unfit("takes the logarithm of a sum")
    if not positive:
        raise Unfit("takes the logarithm of something that may be negative")
    c = float(np.log(power.c)) if is_number(power.c) and power.c > 0 else jnp.log(power.c)
    parts: dict[Key, Coefficient] = {ONE: c}
    for key, e in ((LOG, power.p), (LOG1M, power.q)):
        values = np.unique(e)
        if values.size > 1:
            parts[key] = jnp.asarray(e, jnp.result_type(float))
        elif values[0] != 0:
            parts[key] = float(values[0])
    return Form(parts)


def exponential(form: Form) -> Form:
    """`exp(form)`: only of logarithms with known coefficients."""
    if not form.keys <= {LOG, LOG1M} or not all(is_number(form.parts[k]) for k in form.keys):
        raise Unfit("takes the exponential of it")
    c = form.parts.get(ONE, 0.0)
    p, q = (np.asarray(form.parts.get(k, 0.0)) for k in (LOG, LOG1M))
    return from_power(Power(float(np.exp(c)) if is_number(c) else jnp.exp(c), p, q))


def mapped(form: Form, fn: Callable[[Any], Any]) -> Form:
    """A rearrangement of elements, applied to the coefficients that are arrays."""

    def move(c: Coefficient) -> Coefficient:
        return c if is_number(c) else fn(c)

    power = form.power
    if power is not None and power.uniform is not None:
        return from_power(Power(move(power.c), *map(np.asarray, power.uniform)))
    return Form({k: move(c) for k, c in form.parts.items()})


def selected(which: Any, cases: list[Form]) -> Form:
    """Per element, the case that the array `which` picks."""
    parts: dict[Key, Coefficient] = {}
    powers = [as_power(f) for f in cases]
    same = {p.uniform if p is not None else None for p in powers}
    for key in dict.fromkeys(k for f in cases for k in f.parts):
        total: Any = 0.0
        if all(is_number(c := f.parts.get(key, 0.0)) and c == 0.0 for f in cases):
            continue
        for i, f in enumerate(cases):
            total = jnp.where(which == i, f.parts.get(key, 0.0), total)
        parts[key] = total
    only = same.pop() if len(same) == 1 else None
    if only is not None and set(parts) == {(*only, 0.0, 0.0)}:
        return from_power(Power(parts[(*only, 0.0, 0.0)], *map(np.asarray, only)))
    return Form(parts)
