"""Where the program of a term stops copying a site and starts computing with it.

`P[z[:-1], z[1:]]` reads two shifted copies of `z`. Filling the copies, each with one value everywhere, and
not `z` itself keeps a table of all pairs of values at the size of `P` where nothing else changes from row to
row.
"""

from collections.abc import Mapping
from typing import Any

from gibbsite.conditional.reads.term_access import resolved
from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import GATHERS, JOINS, PLACES, of_kind
from gibbsite.programs.maps.access import Access


@once
def copies_of(density: Density, site: str) -> Mapping[Any, Access]:
    """The variables that copy elements of the site, inside the window of their only access."""
    var = density.latent_vars[site]
    raw: dict[Any, Any] = {var: density.maps[var][site]}
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, PLACES, JOINS):
            continue
        live = [a for a in eqn.invars if not isinstance(a, Literal) and site in density.maps[a]]
        if len(live) != 1 or live[0] not in raw:
            continue
        if of_kind(eqn, GATHERS) and live[0] is not eqn.invars[0]:
            continue
        accesses = density.maps[eqn.outvars[0]].get(site, ())
        if len(accesses) == 1 and accesses[0].single and not accesses[0].latents():
            raw[eqn.outvars[0]] = accesses
    simple = resolved(density, [(None, a) for a in raw.values()])
    return {v: a[0] for v, a in zip(raw, simple, strict=True)}


def last_copies(density: Density, site: str, copies: Mapping[Any, Access], atom: Any) -> list[Any]:
    """The copies that are the last ones before computation, on the ways from the site to `atom`."""
    ways = density.behind(atom, ends=lambda a: a in copies or site not in density.maps[a])
    return [a for a in ways if a in copies]
