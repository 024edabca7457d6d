"""Certify that a log density is a polynomial of degree at most two in all elements of a site together."""

from collections.abc import Mapping
from typing import Any

from gibbsite.conditional.forms.walk import Blame, Refused
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.domains.degree import DEGREES, NONE
from gibbsite.programs.domains.domain import results
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.walker import OnDemand


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

    def leaf(atom: Any) -> int | None:
        return 0 if free(atom) else None

    def rule(eqn: Any, operands: list[int]) -> list[int]:
        found = results(DEGREES, eqn, operands)
        if NONE in found:
            raise blame.refuse(eqn, origin, f"is no polynomial in {named}")
        if max(found) > 2:
            raise blame.refuse(eqn, origin, f"has degree {max(found)} in {named}")
        return found

    return OnDemand(density.producer, leaf, rule, degrees)(atom)
