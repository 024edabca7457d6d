"""Terms of the density that gradients cannot feel a site in: it enters through comparisons alone."""

from typing import Any

from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal
from gibbsite.programs.jaxpr.primitives import LOOPS, of_kind, smooth_operands
from gibbsite.programs.jaxpr.walker import reached


@once
def blind_terms(density: Density, site: str) -> tuple[str, ...]:
    """The sites and factors whose terms depend on a continuous latent through steps alone (comparisons,
    rounding, indices), so that its gradient there is zero wherever it exists; in program order.

    A `where` between two smooth expressions of the site is none of them: there the gradient is there, too.
    """
    felt = _felt(density, site)
    found = [t.origin for t, _ in density.terms_of(site) if t.atom not in felt]
    return tuple(dict.fromkeys(o for o in found if o != site))


@once
def endless_terms(density: Density, site: str) -> tuple[str, ...]:
    """The sites and factors whose terms read a continuous latent through a loop of unknown length, which
    cannot be differentiated backwards; in program order."""
    loops = [eqn for eqn in density.closed.jaxpr.eqns if of_kind(eqn, LOOPS)]
    felt = _felt(density, site)

    def mine(eqn: JaxprEqn) -> list[Any]:
        return [a for a in eqn.invars if not isinstance(a, Literal) and a in felt]

    ends = [o for e in loops if any(a.aval.dtype.kind == "f" for a in mine(e)) for o in e.outvars]
    through = reached(density.closed.jaxpr, ends, mine) & felt
    found = [t.origin for t, _ in density.terms_of(site) if t.atom in through]
    return tuple(dict.fromkeys(found))


def _felt(density: Density, site: str) -> set[object]:
    """The variables that a gradient with respect to `site` may reach."""
    return reached(density.closed.jaxpr, [density.latent_vars[site]], smooth_operands)
