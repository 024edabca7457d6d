"""Forms that differ from branch to branch: `where(z == 1, x, y)` and `lax.cond`, before they are merged.

A rule that is not linear (the logarithm of a Poisson's rate) cannot be applied to a sum of masked cases, but
it can be applied to every case by itself. `Branches` keeps the cases apart for as long as operations are
elementwise; what joins or sums elements merges them first.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.forms import ONE, Form, Power, Unfit, as_power, from_power, mapped, selected
from gibbsite.conditional.forms.rules import Operands, ranked, rule_of
from gibbsite.programs.evaluation.evaluate import evaluate_lazily
from gibbsite.programs.jaxpr.primitives import ARRANGES, JOINS, SELECTS, STACKS, TOTALS, of_kind

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
