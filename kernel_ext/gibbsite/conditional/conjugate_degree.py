"""Certify that a log density is a polynomial of degree at most two in all elements of a site together."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.conditional.conjugate_walk import Blame
from gibbsite.density import Density
from gibbsite.trace.compat import Literal

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
    **dict.fromkeys(
        "broadcast_in_dim reshape squeeze expand_dims transpose rev slice gather dynamic_slice".split(),
        _first_only,
    ),
    "pad": lambda eqn, d: max(d),
    **dict.fromkeys(["convert_element_type", "copy", "copy_p", "optimization_barrier"], _same_floating),
}


def certify_quadratic(density: Density, site: str) -> Mapping[Any, int]:
    """Degree of every array that the terms of `site` read; raises `Refused` at the first that is no
    polynomial.

    Also refuses a total degree above two.
    """
    blame = Blame(density)
    degrees: dict[Any, int] = {density.latent_vars[site]: 1}

    def free(atom: Any) -> bool:
        return isinstance(atom, Literal) or site not in density.maps.latents(atom)

    for term, _ in density.terms_of(site):
        stack = [term.atom]
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
                raise blame.refuse(eqn, term.origin, f"is no polynomial in {site}")
            if degree > 2:
                raise blame.refuse(eqn, term.origin, f"has degree {degree} in {site}")
            degrees[var] = degree
            stack.pop()
    return degrees
