"""Products of several elements of a site: their logarithms, as linear functions of `log x` and `log(1-x)`.

Where a density takes logarithms of products of elements and of their complements, as of the weights of a
broken stick `v_k (1-v_1) … (1-v_{k-1})` (Sethuraman 1994, "A constructive definition of Dirichlet priors"),
it is a linear combination of `log x` and `log(1-x)` of every element, though elements meet. The program is
walked with these logarithms as inputs; of every array the part is kept that is linear in them, and of the
sum that part's derivatives are the coefficients.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.conditional.forms.forms import LOG, LOG1M, Key, Unfit
from gibbsite.conditional.forms.rules import decided
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.evaluation.evaluate import Evaluator, shape_of
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import bind_equation
from gibbsite.programs.jaxpr.walker import OnDemand


@dataclass(frozen=True)
class Logs:
    """An array by what is linear in the logarithms: `part` of its own logarithm where it is a `positive`
    product, else of itself. `other` is that of the logarithm of one less it (more, of what is negated: then
    there is no `part`), known of elements of the site and of their complements."""

    part: Any
    positive: bool
    other: Any = None


@dataclass(frozen=True)
class _Free:
    atom: Any


class _Operands:
    """An equation, and its operands: `Logs`, decided comparisons, or `_Free`."""

    def __init__(self, eqn: Any, values: list[Any], read: Callable[[Any], Any], known: Callable[[Any], Any]):
        self.eqn, self.values, self._read, self._known = eqn, values, read, known

    def array(self, i: int) -> Any:
        """Operand `i`, which is free of the site."""
        return self._read(self.values[i].atom)

    def number(self, i: int) -> Any:
        """Operand `i`, where it is free of latents and data, and one number; else None."""
        value = self._known(self.values[i].atom) if isinstance(self.values[i], _Free) else None
        if value is None or not value.size or np.any(value != value.flat[0]):
            return None
        return float(value.flat[0])

    def logs(self, i: int, positive: bool) -> Any:
        """The linear part of operand `i`, of the kind that is asked for: zeros of what is free of the site,
        which where a product is asked for is a known positive number."""
        v = self.values[i]
        if isinstance(v, _Free):
            if positive:
                value = self._known(v.atom)
                if value is None or not np.all(value > 0):
                    raise Unfit("has a factor that may be negative, or 0")
            return jnp.zeros(shape_of(v.atom), jnp.result_type(float))
        if not isinstance(v, Logs) or v.part is None or v.positive != positive:
            raise Unfit("is no product of its elements, and no sum of their logarithms")
        return v.part

    @property
    def positive(self) -> bool:
        """Whether the operands are products."""
        return any(isinstance(v, Logs) and v.positive for v in self.values)


def _places(o: _Operands) -> Logs:
    """Elements at other places, or beside others."""
    many = op.of_kind(o.eqn, op.JOINS | op.PADS)
    moved = range(len(o.values)) if many else (0,)
    if any(not isinstance(v, _Free) for i, v in enumerate(o.values) if i not in moved):
        raise Unfit("is indexed by it")

    def to(parts: Callable[[int], Any]) -> Any:
        operands = [parts(i) if i in moved else o.array(i) for i in range(len(o.values))]
        return bind_equation(o.eqn, operands)[0]

    first = o.values[0]
    if not many and isinstance(first, Logs) and first.other is not None:
        other = to(lambda i: first.other)
        return Logs(None if first.part is None else to(lambda i: first.part), first.positive, other)
    return Logs(to(lambda i: o.logs(i, o.positive)), o.positive)


def _added(sign: float) -> Callable[[_Operands], Logs]:
    def rule(o: _Operands) -> Logs:
        second = o.values[1]
        whole = isinstance(second, Logs) and second.positive and second.other is not None
        if sign < 0 and whole and o.number(0) == 1.0:
            return Logs(second.other, True, second.part)
        return Logs(o.logs(0, False) + sign * o.logs(1, False), False)

    return rule


def _negated(o: _Operands) -> Logs:
    v = o.values[0]
    return Logs(None, False, v.other) if v.positive else Logs(-o.logs(0, False), False)


def _scaled(sign: float) -> Callable[[_Operands], Logs]:
    """Products and quotients: of products, or of a sum and what is free of the site."""

    def rule(o: _Operands) -> Logs:
        if o.positive:
            return Logs(o.logs(0, True) + sign * o.logs(1, True), True)
        a, b = o.values
        if isinstance(b, _Free):
            factor = o.array(1)
            return Logs(o.logs(0, False) * (factor if sign > 0 else 1.0 / factor), False)
        if sign < 0 or not isinstance(a, _Free):
            raise Unfit("multiplies sums of its logarithms")
        return Logs(o.array(0) * o.logs(1, False), False)

    return rule


def _summed(o: _Operands) -> Logs:
    return Logs(bind_equation(o.eqn, [o.logs(0, False)])[0], False)


def _multiplied(o: _Operands) -> Logs:
    return Logs(jnp.sum(o.logs(0, True), o.eqn.params["axes"]), True)


def _running(o: _Operands) -> Logs:
    return Logs(lax.cumsum(o.logs(0, True), o.eqn.params["axis"], o.eqn.params["reverse"]), True)


def _log1p(o: _Operands) -> Logs:
    v = o.values[0]
    if v.part is not None or v.other is None:
        raise Unfit("takes the logarithm of a sum")
    return Logs(v.other, False)


def _same(o: _Operands) -> Any:
    whole = not jnp.issubdtype(o.eqn.outvars[0].aval.dtype, jnp.floating)
    if whole and not isinstance(o.values[0], bool):
        raise Unfit("rounds it")
    return o.values[0]


def _compared(o: _Operands) -> bool:
    """A product with 0, or anything with itself."""
    name = op.name_of(o.eqn)
    if o.eqn.invars[0] is o.eqn.invars[1]:
        return name in ("eq", "le", "ge")
    if isinstance(o.values[0], Logs) and o.values[0].positive and o.number(1) == 0.0:
        return name in ("gt", "ge", "ne")
    if isinstance(o.values[1], Logs) and o.values[1].positive and o.number(0) == 0.0:
        return name in ("lt", "le", "ne")
    raise Unfit("compares it")


def _clamped(o: _Operands) -> Logs:
    """A product no smaller than the smallest number there is, and no larger than 1."""
    at = 1 if op.name_of(o.eqn) == "clamp" else next(i for i, v in enumerate(o.values) if isinstance(v, Logs))
    v, name = o.values[at], op.name_of(o.eqn)
    low = o.number(0 if name == "clamp" else 1 - at) if name != "min" else 0.0
    high = o.number(2 if name == "clamp" else 1 - at) if name != "max" else 1.0
    least = float(jnp.finfo(o.eqn.outvars[0].aval.dtype).tiny)
    if isinstance(v, Logs) and v.positive and low is not None and low <= least and high in (1.0, np.inf):
        return v
    raise Unfit("takes a maximum or minimum")


def _selected(o: _Operands) -> Any:
    which, *cases = o.values
    if isinstance(which, bool):
        case = cases[int(which)]
        return Logs(o.logs(1 + int(which), False), False) if isinstance(case, _Free) else case
    if not isinstance(which, _Free):
        raise Unfit("branches on it")
    parts = [o.logs(1 + i, o.positive) for i in range(len(cases))]
    return Logs(lax.select_n(o.array(0), *parts), o.positive)


_RULES: dict[str, Callable[[_Operands], Any]] = {
    **dict.fromkeys(op.ARRANGES | op.JOINS | op.PADS, _places),
    **dict.fromkeys(op.PASSES | op.CONVERTS, _same),
    **dict.fromkeys(op.ADDS, _added(1.0)),
    **dict.fromkeys(op.SUBTRACTS, _added(-1.0)),
    **dict.fromkeys(op.NEGATES, _negated),
    **dict.fromkeys(op.MULTIPLIES, _scaled(1.0)),
    **dict.fromkeys(op.DIVIDES, _scaled(-1.0)),
    **dict.fromkeys(op.TOTALS | op.RUNNING_TOTALS, _summed),
    **dict.fromkeys(op.PRODUCTS, _multiplied),
    **dict.fromkeys(op.COMPARES, _compared),
    **dict.fromkeys(op.LOGICAL, decided),
    **dict.fromkeys(op.SELECTS, _selected),
    **dict.fromkeys(("max", "min", "clamp"), _clamped),
    "integer_pow": lambda o: Logs(o.eqn.params["y"] * o.logs(0, True), True),
    "cumprod": _running,
    "log": lambda o: Logs(o.logs(0, True), False),
    "log1p": _log1p,
    "exp": lambda o: Logs(o.logs(0, False), True),
}


def of_products(
    density: Density, site: str, term: Term, others: Evaluator, known: Callable[[Any], Any]
) -> dict[Key, Any]:
    """The coefficients of `log x` and `log(1-x)` in a term, `x` between 0 and 1, each of the site's shape.
    `others` evaluates what is free of the site, `known` tells what is free of latents and data. Raises
    `Unfit` where the term is no linear combination of these."""

    def total(log: Any, log1m: Any) -> Any:
        def leaf(atom: Any) -> Any:
            if site not in density.maps.latents(atom):
                return _Free(atom)
            return Logs(log, True, log1m) if atom is density.latent_vars[site] else None

        def rule(eqn: Any, operands: list[Any]) -> list[Any]:
            found = op.of_table(eqn, _RULES)
            if found is None:
                raise Unfit("is no product of its elements")
            o = _Operands(eqn, operands, others.full, known)
            out = found(o)
            if isinstance(out, Logs) and out.part is not None and out.other is None:
                out = replace(out, part=jnp.broadcast_to(out.part, eqn.outvars[0].aval.shape))
            return [out]

        value = OnDemand(density.producer, leaf, rule)(term.atom)
        if not isinstance(value, Logs) or value.positive or value.part is None:
            raise Unfit("is no sum of logarithms")
        return jnp.sum(term.contribution(value.part, others.full))

    zeros = jnp.zeros(density.sites[site].shape, density.sites[site].dtype)
    return dict(zip((LOG, LOG1M), jax.grad(total, argnums=(0, 1))(zeros, zeros), strict=True))
