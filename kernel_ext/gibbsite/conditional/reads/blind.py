"""Terms of the density that gradients cannot feel a site in: it enters through comparisons alone."""

from collections.abc import Iterable

from gibbsite.density import Density
from gibbsite.trace.jaxpr.compat import JaxprEqn, Literal
from gibbsite.trace.jaxpr.primitives import STEPS

_STEPS = STEPS | {"argmax", "argmin", "reduce_or", "reduce_and", "reduce_xor", "stop_gradient"}


def blind_terms(density: Density, site: str) -> tuple[str, ...]:
    """The sites and factors whose terms depend on a continuous latent through steps alone (comparisons,
    rounding, indices), so that its gradient there is zero wherever it exists; in program order.

    A `where` between two smooth expressions of the site is none of them: there the gradient is there, too.
    """
    key = ("blind", site)
    if key not in density.cache:
        felt = _felt(density, site)
        found = [t.origin for t, _ in density.terms_of(site) if t.atom not in felt]
        density.cache[key] = tuple(dict.fromkeys(o for o in found if o != site))
    return density.cache[key]


def endless_terms(density: Density, site: str) -> tuple[str, ...]:
    """The sites and factors whose terms read a continuous latent through a loop of unknown length, which
    cannot be differentiated backwards; in program order."""
    if not any(eqn.primitive.name == "while" for eqn in density.closed.jaxpr.eqns):
        return ()
    key = ("endless", site)
    if key not in density.cache:
        felt, through = _felt(density, site), set()
        for eqn in density.closed.jaxpr.eqns:
            mine = [a for a in eqn.invars if not isinstance(a, Literal) and a in felt]
            looped = eqn.primitive.name == "while" and any(a.aval.dtype.kind == "f" for a in mine)
            if looped or any(a in through for a in mine):
                through.update(o for o in eqn.outvars if o in felt)
        found = [t.origin for t, _ in density.terms_of(site) if t.atom in through]
        density.cache[key] = tuple(dict.fromkeys(found))
    return density.cache[key]


def _felt(density: Density, site: str) -> set[object]:
    """The variables that a gradient with respect to `site` may reach."""
    felt: set[object] = {density.latent_vars[site]}
    for eqn in density.closed.jaxpr.eqns:
        if any(not isinstance(a, Literal) and a in felt for a in _smooth(eqn)):
            felt.update(eqn.outvars)
    return felt


def _smooth(eqn: JaxprEqn) -> Iterable[object]:
    """The operands through which a gradient may pass."""
    kind = eqn.primitive.name
    if kind in _STEPS:
        return ()
    if kind == "convert_element_type" and eqn.outvars[0].aval.dtype.kind in "iub":
        return ()
    return eqn.invars[1:] if kind == "select_n" else eqn.invars
