"""Certify that a log density is a polynomial of degree at most two in all elements of a site together."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.conditional.forms.walk import Blame, Refused
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.trace.jaxpr.compat import Literal
from gibbsite.trace.jaxpr.primitives import ARRANGES, CONVERTS, PASSES
from gibbsite.trace.passes.flatten import flatten

Degrees = list[int]
# takes the degrees of an equation's operands; None where its output is no polynomial
Rule = Callable[[Any, Degrees], int | None]


def _largest(eqn: Any, d: Degrees) -> int | None:
    return max(d)


def _sum(eqn: Any, d: Degrees) -> int | None:
    return sum(d)


def _first_only(eqn: Any, d: Degrees) -> int | None:
    return d[0] if not any(d[1:]) else None


def _div(eqn: Any, d: Degrees) -> int | None:
    return d[0] if d[1] == 0 else None


def _integer_pow(eqn: Any, d: Degrees) -> int | None:
    return d[0] * eqn.params["y"] if eqn.params["y"] >= 0 else None


def _select(eqn: Any, d: Degrees) -> int | None:
    return max(d[1:]) if d[0] == 0 else None


def _triangular_solve(eqn: Any, d: Degrees) -> int | None:
    return d[1] if d[0] == 0 else None


def _same_floating(eqn: Any, d: Degrees) -> int | None:
    return d[0] if np.issubdtype(eqn.outvars[0].aval.dtype, np.floating) else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(["add", "add_any", "sub", "concatenate", "stack"], _largest),
    **dict.fromkeys(["mul", "dot_general"], _sum),
    "div": _div,
    "neg": _largest,
    "integer_pow": _integer_pow,
    "square": lambda eqn, d: 2 * d[0],
    "select_n": _select,
    "triangular_solve": _triangular_solve,
    **dict.fromkeys(["reduce_sum", "cumsum"], _largest),
    **dict.fromkeys(ARRANGES, _first_only),
    "pad": lambda eqn, d: max(d),
    **dict.fromkeys((CONVERTS | PASSES) - {"stop_gradient", "reduce_precision"}, _same_floating),
}


def _cond(eqn: Any, d: Degrees) -> int | None:
    """The largest degree that an output has in any branch."""
    if d[0]:
        return None
    found = [_of_branch(branch, d[1:]) for branch in eqn.params["branches"]]
    return None if any(f is None for f in found) else max(f for f in found if f is not None)


def _of_branch(branch: Any, inputs: Degrees) -> int | None:
    flat = flatten(branch)
    degrees: dict[Any, int] = dict.fromkeys(flat.jaxpr.constvars, 0)
    degrees.update(zip(flat.jaxpr.invars, inputs, strict=True))
    for eqn in flat.jaxpr.eqns:
        operands = [0 if isinstance(a, Literal) else degrees[a] for a in eqn.invars]
        rule = RULES.get(eqn.primitive.name)
        degree = 0 if not any(operands) else None if rule is None else rule(eqn, operands)
        if degree is None or degree > 2:
            return None
        degrees.update(dict.fromkeys(eqn.outvars, degree))
    return max(0 if isinstance(a, Literal) else degrees[a] for a in flat.jaxpr.outvars)


RULES["cond"] = _cond


def certify_quadratic(density: Density, *sites: str) -> Mapping[Any, int]:
    """Degree, in all elements of `sites` together, of every array that their terms read.

    Raises `Refused` at the first that is no polynomial in them, or one of a degree above two.
    """
    degrees: dict[Any, int] = {}
    for term in density.terms:
        if not density.maps.latents(term.atom).isdisjoint(sites):
            _degree(density, sites, term.atom, term.origin, degrees)
    return degrees


def certify_rest(
    density: Density, sites: tuple[str, ...]
) -> tuple[dict[Any, int], dict[int, tuple[Term, str]]]:
    """As `certify_quadratic`, but with the terms that are not certified apart, by their number among the
    density's terms, each with what stands in the way."""
    degrees: dict[Any, int] = {}
    others: dict[int, tuple[Term, str]] = {}
    for i, term in enumerate(density.terms):
        if density.maps.latents(term.atom).isdisjoint(sites):
            continue
        try:
            _degree(density, sites, term.atom, term.origin, degrees)
        except Refused as why:
            others[i] = term, str(why)
    return degrees, others


def degree_of(density: Density, site: str, atom: Any) -> int | None:
    """Degree of an array as a polynomial in all elements of a site; None where it is none of degree two."""
    try:
        return _degree(density, (site,), atom, site, {})
    except Refused:
        return None


def degree_of_all(density: Density, sites: tuple[str, ...], atom: Any, degrees: dict[Any, int]) -> int | None:
    """As `degree_of`, in all elements of several sites; keeps what it learns in `degrees`."""
    try:
        return _degree(density, sites, atom, sites[0], degrees)
    except Refused:
        return None


def _degree(density: Density, sites: tuple[str, ...], atom: Any, origin: str, degrees: dict[Any, int]) -> int:
    blame = Blame(density)
    named = " and ".join(sites)
    degrees.update({density.latent_vars[site]: 1 for site in sites})

    def free(atom: Any) -> bool:
        return isinstance(atom, Literal) or density.maps.latents(atom).isdisjoint(sites)

    stack = [atom]
    while stack:
        var = stack[-1]
        if var in degrees or free(var):
            stack.pop()
            continue
        eqn = density.producer[var]
        missing = [a for a in eqn.invars if not free(a) and a not in degrees]
        if missing:
            stack += missing
            continue
        rule = RULES.get(eqn.primitive.name)
        degree = None if rule is None else rule(eqn, [0 if free(a) else degrees[a] for a in eqn.invars])
        if degree is None:
            raise blame.refuse(eqn, origin, f"is no polynomial in {named}")
        if degree > 2:
            raise blame.refuse(eqn, origin, f"has degree {degree} in {named}")
        degrees[var] = degree
        stack.pop()
    return 0 if free(atom) else degrees[atom]
