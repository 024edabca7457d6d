"""Forms that differ from branch to branch: `where(z == 1, x, y)` and `lax.cond`, before they are merged.

A rule that is not linear (the logarithm of a Poisson's rate) cannot be applied to a sum of masked cases, but
it can be applied to every case by itself. `Branches` keeps the cases apart for as long as operations are
elementwise; what joins or sums elements merges them first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.forms import ONE, Form, Power, Unfit, as_power, from_power, mapped, selected
from gibbsite.conditional.forms.rules import Domain, Operands, ranked, rule_of
from gibbsite.conditional.reads.term_access import same_values
from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.evaluation.evaluate import evaluate_lazily
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, Literal
from gibbsite.programs.jaxpr.primitives import ARRANGES, JOINS, SELECTS, STACKS, TOTALS, name_of, of_kind
from gibbsite.programs.jaxpr.values import FEW, Values
from gibbsite.programs.jaxpr.walker import made_by, walk
from gibbsite.programs.passes.flatten import flatten

_MOST_CASES = 16


@dataclass(frozen=True)
class Branches:
    """Per element the case that the array `which` picks: forms, decided comparisons, or arrays free of the
    site."""

    which: Any
    cases: tuple[Any, ...]

    @property
    def count(self) -> int:
        """How many cases there are, those inside cases counted one by one."""
        return sum(c.count if isinstance(c, Branches) else 1 for c in self.cases)

    @property
    def has_statistics(self) -> bool:
        """Whether any case depends on the site by its value."""
        return any(
            c.has_statistics if isinstance(c, Branches) else isinstance(c, Form) and bool(c.keys)
            for c in self.cases
        )


def depends(value: Any) -> bool:
    """Whether an operand is more than an array that is free of the site."""
    return isinstance(value, Form | bool | Branches)


def branched(which: Any, cases: list[Any]) -> Any:
    """The cases as one value, merged where nothing is lost by it."""
    if all(isinstance(c, bool) for c in cases) and len(set(cases)) == 1:
        return cases[0]
    if not any(depends(c) for c in cases):
        return _chosen(which, cases)
    if all(isinstance(c, Form) for c in cases):
        kinds = {p.uniform if (p := as_power(c)) is not None else None for c in cases}
        if len(kinds) == 1 and None not in kinds:
            return selected(which, cases)
    return Branches(which, tuple(cases))


def _chosen(which: Any, cases: list[Any]) -> Any:
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        out = jnp.where(which == i, case, out)
    return out


def merged(value: Any) -> Any:
    """`Branches` as a single form; anything else as it is."""
    if not isinstance(value, Branches):
        return value
    cases = [merged(c) for c in value.cases]
    if any(isinstance(c, bool) for c in cases):
        raise Unfit("selects between comparisons")
    return selected(value.which, [c if isinstance(c, Form) else Form({ONE: c}) for c in cases])


def apply_rule(o: Operands) -> Any:
    """The rule of an equation that has one, branch by branch where its operands have branches.

    Raises `Unfit`.
    """
    if of_kind(o.eqn, JOINS) and _differ(o.values):
        kept_apart = _beside(o)
        if kept_apart is not None:
            return kept_apart
    if of_kind(o.eqn, ARRANGES) and isinstance(o.values[0], Form):
        o = replace(o, values=[_by_power(o.values[0]), *o.values[1:]])
    at = next((i for i, v in enumerate(o.values) if isinstance(v, Branches)), None)
    if at is None:
        return _plain(o)
    several = sum(v.count for v in o.values if isinstance(v, Branches)) > _MOST_CASES
    if several or of_kind(o.eqn, JOINS, STACKS, TOTALS):
        return _plain(replace(o, values=[merged(v) for v in o.values]))
    branches = o.values[at]
    which = branches.which
    if of_kind(o.eqn, ARRANGES):
        if at != 0 or any(depends(v) for v in o.values[1:]):
            raise Unfit("is indexed by it")
        known = _known_places(o, which)
        if known is not None and np.all(known == known.flat[0]):
            return apply_rule(_in_case(o, which, int(known.flat[0])))
        if jnp.ndim(which):
            which = evaluate_lazily(o.eqn, [ranked(which, o, 0), *o.values[1:]])[0]
    return branched(which, [apply_rule(_in_case(o, branches.which, i)) for i in range(len(branches.cases))])


def _by_power(form: Form) -> Form | Branches:
    """A product whose exponents differ from element to element, apart by them: its elements may then move."""
    power = form.power
    if power is None or power.uniform is not None:
        return form
    p, q = np.broadcast_arrays(power.p, power.q)
    pairs, which = np.unique(np.stack([p.ravel(), q.ravel()], -1), axis=0, return_inverse=True)
    if len(pairs) > _MOST_CASES:
        return form
    cases = tuple(from_power(Power(power.c, np.asarray(a), np.asarray(b))) for a, b in pairs)
    return Branches(which.reshape(p.shape).astype(np.int32), cases)


def _beside(o: Operands) -> Branches | None:
    """Values joined with others that are free of the site (`stack([rate, other])[z]`, `pad(w, (0, 1))`): by
    their places."""
    if sum(v.count if isinstance(v, Branches) else 1 for v in o.values) > _MOST_CASES:
        return None
    if any(isinstance(v, Form) and v.power is not None and v.power.uniform is None for v in o.values):
        return None
    axis = o.eqn.params["dimension"]
    sizes = [a.aval.shape[axis] for a in o.eqn.invars]
    rank = len(o.eqn.outvars[0].aval.shape)
    place = np.repeat(np.arange(len(sizes)), sizes).reshape([-1 if a == axis else 1 for a in range(rank)])
    starts = np.cumsum([0, *sizes])

    def placed(i: int, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, Form):
            return mapped(value, lambda c: placed(i, c))
        if isinstance(value, Branches):
            return Branches(placed(i, value.which), tuple(placed(i, c) for c in value.cases))
        if np.ndim(value) == 0 or value.shape[axis] == 1:
            return value
        # beside its place any value will do
        if value.shape[axis] == 0:  # as `jnp.roll(w, 0)` joins
            return np.ones([*value.shape[:axis], starts[-1], *value.shape[axis + 1 :]], value.dtype)
        ends = [(starts[i], starts[-1] - starts[i + 1]) if a == axis else (0, 0) for a in range(rank)]
        pad: Any = np.pad if isinstance(value, np.ndarray) else jnp.pad
        return pad(value, ends, "edge")

    return Branches(place.astype(np.int32), tuple(placed(i, v) for i, v in enumerate(o.values)))


def _differ(values: list[Any]) -> bool:
    """Whether stacked values are better kept apart: free ones beside others, or unlike powers of a site."""
    if not all(isinstance(v, Form) for v in values):
        return True
    powers = [as_power(v) for v in values]
    bare = all(p is not None and p.uniform is not None and p.uniform[1] == 0 for p in powers)
    return bare and len({p.uniform for p in powers if p is not None}) > 1


def _known_places(o: Operands, which: Any) -> np.ndarray | None:
    """Which case every element of a rearrangement takes, where that is known when the program is analysed."""
    places = [o.known(a) for a in o.eqn.invars[1:]]
    if not isinstance(which, np.ndarray) or any(p is None for p in places):
        return None
    with jax.ensure_compile_time_eval():
        operands = [ranked(which, o, 0), *map(jnp.asarray, places)]
        found = np.asarray(evaluate_lazily(o.eqn, operands)[0])
    return found if found.size else None


def _in_case(o: Operands, which: Any, i: int) -> Operands:
    """The operands in one case of every operand that is branched by the same array."""
    same = [v.cases[i] if isinstance(v, Branches) and v.which is which else v for v in o.values]
    return replace(o, values=same)


def _plain(o: Operands) -> Any:
    if not any(depends(v) for v in o.values):
        return evaluate_lazily(o.eqn, o.values)[0]
    rule = _select if of_kind(o.eqn, SELECTS) else rule_of(o.eqn)
    assert rule is not None
    return rule(o)


def _select(o: Operands) -> Any:
    which = o.values[0]
    if isinstance(which, Form):
        raise Unfit("branches on it")
    if isinstance(which, bool):
        return o.values[1 + int(which)]
    return branched(jnp.asarray(which).astype(jnp.int32), list(o.values[1:]))


def branch_values(branch: ClosedJaxpr, operands: Sequence[Any], domain: Domain) -> list[Any]:
    """The outputs of one branch at operands that are forms, decided comparisons, `Branches` or arrays.

    Raises `Unfit` at the first operation that leaves the linear combinations of statistics.
    """
    flat = flatten(branch)
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    known = Values(made_by(flat.jaxpr), consts, by_jax=True, most=FEW).value

    def rule(eqn: Any, values: list[Any]) -> list[Any]:
        if not any(map(depends, values)):
            return evaluate_lazily(eqn, values)
        if rule_of(eqn) is None:
            raise Unfit(f"computes {name_of(eqn)} of it in a branch")
        try:
            return [apply_rule(Operands(eqn, values, domain, known))]
        except Unfit as why:
            raise Unfit(f"{why} in a branch") from None

    return walk(flat.jaxpr, list(map(jnp.asarray, flat.consts)), operands, {}, rule, jnp.asarray)


# Products with zeros and ones are choices, which conjugate forms go through case by case.
#
# `Bernoulli(p * z)` is `Bernoulli(where(z, p, 0))`, and `Bernoulli(z * hit + (1 - z) * miss)`, as false
# answers are written, is `Bernoulli(where(z, hit, miss))`.


class Gates:
    """The choices of one evaluation: `read` gives the values of atoms that are free of the site."""

    def __init__(self, density: Density, read: Callable[[Any], Any]):
        self._density, self._read = density, read
        self._known: list[tuple[Any, Any]] = []

    def product(self, eqn: Any, values: list[Any]) -> Branches | None:
        """A form times zeros and ones; None where it is none."""
        for i, j in ((0, 1), (1, 0)):
            if depends(values[j]) and not depends(values[i]) and is_binary(self._density, eqn.invars[i]):
                return self._cases(eqn.invars[i], values[j], _zero(eqn))
        return None

    def total(self, eqn: Any, values: list[Any]) -> Branches | None:
        """Such a product and another that is nothing wherever it is not, by the same zeros and ones; None
        where it is none."""
        for i, j in ((0, 1), (1, 0)):
            made = None if isinstance(eqn.invars[i], Literal) else self._density.producer.get(eqn.invars[i])
            if depends(values[i]) or not isinstance(values[j], Branches):
                continue
            if made is None or not op.of_kind(made, op.MULTIPLIES):
                continue
            for gate, other in (made.invars, made.invars[::-1]):
                found = (
                    self._cases(gate, self._read(other), _zero(eqn))
                    if is_binary(self._density, gate)
                    else None
                )
                cases = None if found is None else _put_together(found, values[j])
                if cases is not None:
                    return Branches(values[j].which, cases)
        return None

    def _cases(self, gate: Any, value: Any, zero: Any) -> Branches:
        """`value` where `gate` is one."""
        base, flipped = _complement(self._density, gate)
        which = next((w for b, w in self._known if b is base or same_values(self._density, b, base)), None)
        if which is None:
            which = jnp.asarray(self._read(base) != 0, jnp.int32)
            self._known.append((base, which))
        return Branches(which, (value, zero) if flipped else (zero, value))


def _zero(eqn: Any) -> np.ndarray:
    aval = eqn.outvars[0].aval
    return np.zeros((1,) * len(aval.shape), aval.dtype)


def _put_together(one: Branches, two: Branches) -> tuple[Any, ...] | None:
    """The sums of cases of which one is nothing."""
    if one.which is not two.which or len(one.cases) != len(two.cases):
        return None
    pairs = list(zip(one.cases, two.cases, strict=True))
    if not all(_nothing(a) or _nothing(b) for a, b in pairs):
        return None
    return tuple(b if _nothing(a) else a for a, b in pairs)


def _nothing(case: Any) -> bool:
    return isinstance(case, np.ndarray) and not case.any()


def _complement(density: Density, atom: Any) -> tuple[Any, bool]:
    """`z` and whether `atom` is `1 - z`."""
    flipped = False
    while (eqn := density.producer.get(atom)) is not None:
        if op.of_kind(eqn, op.CONVERTS):
            atom = eqn.invars[0]
        elif op.of_kind(eqn, op.SUBTRACTS) and not isinstance(eqn.invars[1], Literal):
            atom, flipped = eqn.invars[1], not flipped
        elif op.of_kind(eqn, op.NEGATIONS):
            atom, flipped = eqn.invars[0], not flipped
        else:
            break
    return atom, flipped


def is_binary(density: Density, atom: Any) -> bool:
    """Whether every element is 0 or 1 whatever the latents and the data, and not all of them are known:
    comparisons, sites of these values, copies and complements of them."""
    return not isinstance(atom, Literal) and _binary(density, atom)


@once
def _binary(density: Density, atom: Any) -> bool:
    if not isinstance(atom.aval.dtype, np.dtype):
        return False  # a random key
    if atom.aval.dtype.kind == "b":
        return True
    for name, var in density.latent_vars.items():
        if var is atom:
            values = density.enumerated.get(name)
            return values is not None and _zeros_and_ones(values)
    eqn = density.producer.get(atom)
    if eqn is None:
        return False
    if op.of_kind(eqn, op.SUBTRACTS):
        one, other = eqn.invars
        return isinstance(one, Literal) and bool(np.all(one.val == 1)) and is_binary(density, other)
    if op.of_kind(eqn, op.GATHERS) and "FILL" in str(eqn.params.get("mode")):
        return False
    if op.of_kind(eqn, op.JOINS):  # as a chain's first value stands before the others
        return all(is_binary(density, a) or _known(density, a) for a in eqn.invars)
    return op.of_kind(eqn, op.MOVES, op.CONVERTS) and is_binary(density, eqn.invars[0])


def _known(density: Density, atom: Any) -> bool:
    atom = op.moved_from(density.producer, atom, op.SPREADS, op.REARRANGES, op.CONVERTS)
    if isinstance(atom, Literal):
        return _zeros_and_ones(atom.val)
    consts = density.closed.jaxpr.constvars
    return any(v is atom and _zeros_and_ones(c) for v, c in zip(consts, density.closed.consts, strict=True))


def _zeros_and_ones(values: Any) -> bool:
    return bool(np.isin(np.asarray(values), (0, 1)).all())
