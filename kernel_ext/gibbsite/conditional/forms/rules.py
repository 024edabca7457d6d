"""Rules that carry `Form`s through the primitives of a log density.

One table, used twice: on abstract arrays to certify that a log density is a linear combination of
statistics, and on real ones to read its coefficients off. An operand is a `Form`, a `bool` where a
comparison is decided by the support of `x`, or an array that is free of `x`. A primitive without a rule,
and a rule that meets what it cannot represent, raise `Unfit`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.forms import (
    ONE,
    Form,
    Power,
    Unfit,
    as_power,
    combine,
    exponential,
    from_power,
    is_number,
    logarithm,
    mapped,
    product,
    raised,
    scaled,
)
from gibbsite.programs.evaluation.evaluate import evaluate_lazily
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import ARRANGES, CONVERTS, PASSES, STACKS, name_of, of_kind, of_table

# below this a bound on a probability is a guard against log(0), not part of the model
CLAMP = 1e-6


@dataclass(frozen=True)
class Domain:
    """What the support says of `x`: whether `x > 0`, and whether `x < 1`."""

    positive: bool
    unit: bool

    def power_positive(self, power: Power) -> bool:
        """Whether `x^p (1-x)^q` is positive for every `x` in the support."""
        return bool((self.positive or not np.any(power.p)) and (self.unit or not np.any(power.q)))


@dataclass(frozen=True)
class Operands:
    """An equation and its operands: forms, decided booleans, free arrays; and how to read known numbers."""

    eqn: Any
    values: list[Any]
    domain: Domain
    known: Callable[[Any], np.ndarray | None]

    def number(self, i: int) -> float | None:
        """The value of operand `i`, if it is one number known when the program is analysed."""
        if isinstance(self.values[i], Form | bool):
            return None
        value = self.known(self.eqn.invars[i])
        if value is None or value.size == 0 or np.any(value != value.flat[0]):
            return None
        return float(value.flat[0])

    def coefficient(self, i: int) -> Any:
        """Operand `i`, free of `x`, as a coefficient."""
        number = self.number(i)
        return self.values[i] if number is None else number

    def form(self, i: int) -> Form:
        """Operand `i` as a form."""
        v = self.values[i]
        if isinstance(v, bool):
            raise Unfit("uses a comparison as a number")
        return v if isinstance(v, Form) else Form({ONE: self.coefficient(i)})

    def positive(self, form: Form) -> bool:
        """Whether the bare power of a form is positive on the support."""
        power = as_power(form, complement=True)
        return power is not None and self.domain.power_positive(power)


def _add(o: Operands) -> Any:
    return combine(o.form(0).parts, o.form(1).parts)


def _sub(o: Operands) -> Any:
    return combine(o.form(0).parts, o.form(1).parts, -1.0)


def _mul(o: Operands) -> Any:
    a, b = o.values
    if not isinstance(a, Form):
        return scaled(o.form(1), o.coefficient(0))
    if not isinstance(b, Form):
        return scaled(a, o.coefficient(1))
    return product(a, b)


def _div(o: Operands) -> Any:
    if not isinstance(o.values[1], Form):
        c = o.coefficient(1)
        if is_number(c) and c == 0.0:
            raise Unfit("divides by zero")
        return scaled(o.form(0), 1.0 / c)
    if as_power(o.values[1], complement=True) is None:
        raise Unfit("divides by a sum")
    return product(o.form(0), raised(o.values[1], -1.0, positive=o.positive(o.values[1])))


def _power_of(exponent: float) -> Callable[[Operands], Any]:
    return lambda o: raised(o.form(0), exponent, positive=o.positive(o.form(0)))


def _pow(o: Operands) -> Any:
    exponent = o.number(1)
    if exponent is None or not isinstance(o.values[0], Form):
        raise Unfit("takes a power that is not a known number")
    return _power_of(exponent)(o)


def _log(o: Operands) -> Any:
    return logarithm(o.form(0), positive=o.positive(o.form(0)))


def _log1p(o: Operands) -> Any:
    form = combine({ONE: 1.0}, o.form(0).parts)
    return logarithm(form, positive=o.positive(form))


def _abs(o: Operands) -> Any:
    power = as_power(o.form(0))
    if power is None or not o.domain.power_positive(power):
        raise Unfit("takes the absolute value of something of unknown sign")
    return from_power(Power(abs(power.c) if is_number(power.c) else jnp.abs(power.c), power.p, power.q))


def _unit_interval_power(o: Operands, form: Form) -> bool:
    """Whether a form is exactly `x` or `1 - x` of a positive `x`."""
    power = as_power(form, complement=True)
    exact = power is not None and is_number(power.c) and power.c == 1.0
    return bool(
        exact and power and power.uniform in ((1.0, 0.0), (0.0, 1.0)) and o.domain.power_positive(power)
    )


_GUARDS = {"max": "takes a maximum", "min": "takes a minimum", "clamp": "clips it"}


def _guard(o: Operands) -> Any:
    """`max(x, tiny)`, `min(x, 1 - tiny)` or both at once: a guard against log(0) leaves the form as it is."""
    name = name_of(o.eqn)
    at = 1 if name == "clamp" else int(isinstance(o.values[1], Form))
    low, high = (o.number(0), o.number(2)) if name == "clamp" else (o.number(1 - at),) * 2
    below = name == "min" or (low is not None and low <= CLAMP)
    no_end = name == "clamp" and high == np.inf
    above = name == "max" or no_end or (high is not None and o.domain.unit and high >= 1 - CLAMP)
    form = o.values[at]
    if below and above and isinstance(form, Form) and _unit_interval_power(o, form):
        return form
    raise Unfit(_GUARDS[name])


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _compare(o: Operands) -> Any:
    """Decided by the support where it can be; equality with what is free of `x` has probability zero."""
    name = name_of(o.eqn)
    a, b = o.eqn.invars
    if a is b and not isinstance(a, Literal):
        return name in ("eq", "le", "ge")
    if not isinstance(o.values[0], Form):
        number, form, other, name = o.number(0), o.values[1], o.values[0], _SWAPPED[name]
    else:
        number, form, other = o.number(1), o.values[0], o.values[1]
    power = as_power(form, complement=True) if isinstance(form, Form) else None
    if power is None or not is_number(power.c) or power.c == 0:
        raise Unfit("compares it")
    constant = power.uniform == (0.0, 0.0)
    same = name in ("eq", "ne")
    if same and power.uniform is not None and not constant and not isinstance(other, Form | bool):
        return name == "ne"
    if number is None:
        raise Unfit("compares it")
    decided = not constant and o.domain.power_positive(power)
    if name in ("lt", "le", "gt", "ge") and decided and (number == 0 or (number < 0) == (power.c > 0)):
        return (name in ("gt", "ge")) == (power.c > 0)
    if name not in ("eq", "ne") and _unit_interval_power(o, form) and o.domain.unit and number >= 1:
        return name in ("lt", "le")
    raise Unfit("compares it")


def decided(o: Any) -> Any:
    """What is left of a logical operation where an operand is decided."""
    name = name_of(o.eqn)
    if name == "not":
        return not o.values[0]
    a, b = o.values
    if isinstance(b, bool):
        a, b = b, a
    assert isinstance(a, bool)
    if isinstance(b, bool):
        return {"and": a and b, "or": a or b, "xor": a != b}[name]
    neutral = {"and": True, "or": False}.get(name)
    if neutral is None:
        raise Unfit("compares it")
    return b if a == neutral else a


def _same(o: Operands) -> Any:
    if not jnp.issubdtype(o.eqn.outvars[0].aval.dtype, jnp.floating):
        if isinstance(o.values[0], bool):
            return o.values[0]
        raise Unfit("rounds it")
    return o.form(0)


def _rearrange(o: Operands) -> Any:
    if any(isinstance(v, Form | bool) for v in o.values[1:]):
        raise Unfit("is indexed by it")
    if isinstance(o.values[0], bool):
        return o.values[0]
    return mapped(o.form(0), lambda c: evaluate_lazily(o.eqn, [ranked(c, o, 0), *o.values[1:]])[0])


def ranked(c: Any, o: Operands, i: int) -> Any:
    """A coefficient of operand `i` at that operand's rank."""
    rank = len(o.eqn.invars[i].aval.shape)
    c = jnp.asarray(c)
    return jnp.reshape(c, (1,) * rank) if c.ndim == 0 and rank else c


def _join(o: Operands) -> Any:
    """Concatenation and stacking: forms side by side; products stay products."""
    if any(isinstance(v, bool) for v in o.values):
        raise Unfit("joins comparisons")
    forms = [o.form(i) for i in range(len(o.values))]

    def joined(pieces: list[Any]) -> Any:
        return evaluate_lazily(o.eqn, [ranked(c, o, i) for i, c in enumerate(pieces)])[0]

    powers = [as_power(f, complement=True) for f in forms]
    if all(p is not None and p.uniform is not None for p in powers):
        exponents = []
        for pick in (0, 1):
            shapes = [tuple(a.aval.shape) for a in o.eqn.invars]
            pieces = [
                np.full(s, p.uniform[pick], np.float32)  # type: ignore[index, union-attr]
                for s, p in zip(shapes, powers, strict=True)
            ]
            axis = o.eqn.params.get("dimension", o.eqn.params.get("axis", 0))
            glue = np.stack if of_kind(o.eqn, STACKS) else np.concatenate
            exponents.append(glue(pieces, axis))
        cs = [p.c for p in powers]  # type: ignore[union-attr]
        numbers = all(map(is_number, cs)) and len(set(cs)) == 1
        return from_power(Power(cs[0] if numbers else joined(cs), *exponents))
    keys = dict.fromkeys(k for f in forms for k in f.parts)
    return Form({k: joined([f.parts.get(k, 0.0) for f in forms]) for k in keys})


def _reduce_sum(o: Operands) -> Any:
    form, shape = o.form(0), tuple(o.eqn.invars[0].aval.shape)
    size = int(np.prod([shape[a] for a in o.eqn.params["axes"]], dtype=np.int64))

    def total(c: Any) -> Any:
        return c * float(size) if is_number(c) else evaluate_lazily(o.eqn, [ranked(c, o, 0)])[0]

    return Form({k: total(c) for k, c in form.parts.items()})


def _refuse(why: str) -> Callable[[Operands], Any]:
    def rule(o: Operands) -> Any:
        raise Unfit(why)

    return rule


RULES: dict[str, Callable[[Operands], Any]] = {
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": lambda o: scaled(o.form(0), -1.0),
    "integer_pow": lambda o: _power_of(float(o.eqn.params["y"]))(o),
    "square": _power_of(2.0),
    "sqrt": _power_of(0.5),
    "rsqrt": _power_of(-0.5),
    "pow": _pow,
    "log": _log,
    "log1p": _log1p,
    "exp": lambda o: exponential(o.form(0)),
    "abs": _abs,
    **dict.fromkeys(_GUARDS, _guard),
    **dict.fromkeys(_SWAPPED, _compare),
    **dict.fromkeys(["and", "or", "xor", "not"], decided),
    "is_finite": lambda o: True,
    "select_n": _refuse("branches on it"),
    **dict.fromkeys(CONVERTS | PASSES, _same),
    **dict.fromkeys(ARRANGES, _rearrange),
    "concatenate": _join,
    "stack": _join,
    "reduce_sum": _reduce_sum,
}


def rule_of(eqn: Any) -> Callable[[Operands], Any] | None:
    """The rule of an equation's primitive, if it has one."""
    return of_table(eqn, RULES)
