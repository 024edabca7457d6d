"""Which parameters are certain to be possible, by the ranges and making of what they come from."""

from typing import Any

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.passes.reroll import rerolled
from gibbsite.density.possible.limits import kind_of, met
from gibbsite.density.possible.ranges import range_of
from gibbsite.trace.jaxpr.compat import Literal
from gibbsite.trace.jaxpr.primitives import CONVERTS, MOVES

Named = tuple[str, str]
_MOVES = MOVES | CONVERTS


def undecided(density: Density) -> tuple[list[Named], list[Named]]:
    """Sites and parameters that have to be evaluated: of what no latent enters, and of what some do."""
    if "undecided" not in density.cache:
        grouped = rerolled(density)
        constant, open_ = [], []
        for site, parameters in grouped.outputs["parameters"].items():
            first = density.groups.get(site, (site,))[0]
            for name, atom in parameters.items():
                constraint = density.parameter_constraints.get(first, {}).get(name)
                kind = "" if constraint is None else kind_of(constraint)
                computed = not isinstance(atom, Literal) and bool(grouped.maps.latents(atom))
                if kind and not _certain(grouped, atom, constraint, kind, computed):
                    members = density.groups.get(site, (site,))
                    (open_ if computed else constant).extend((n, name) for n in members)
        density.cache["undecided"] = constant, open_
    return density.cache["undecided"]


def _certain(density: Density, atom: Any, constraint: Any, kind: str, computed: bool) -> bool:
    if kind == "interval":
        return met(constraint, range_of(density, atom), computed)
    return computed and _by_construction(density, atom, base_constraint(constraint), kind)


def _by_construction(density: Density, atom: Any, base: Any, kind: str) -> bool:
    """Whether a simplex, ordered vector or triangle is a latent of that kind, moved about, or normalised."""
    last = tuple(atom.aval.shape)[-base.event_dim :]
    while not isinstance(atom, Literal):
        eqn = density.producer.get(atom)
        if eqn is None:
            name = next((n for n, v in density.latent_vars.items() if v is atom), None)
            return name is not None and type(base_constraint(density.sites[name].support)) is type(base)
        if kind == "simplex" and eqn.primitive.name == "div" and _is_its_sum(density, *eqn.invars):
            return True
        if eqn.primitive.name == "cholesky":
            return False
        if eqn.primitive.name not in _MOVES or isinstance(eqn.invars[0], Literal):
            return False
        atom = eqn.invars[0]
        if tuple(atom.aval.shape)[-base.event_dim :] != last:
            return False
    return False


def _is_its_sum(density: Density, whole: Any, total: Any) -> bool:
    """Whether `total` is the sum of `whole`, which is not negative, as in a softmax."""
    while not isinstance(total, Literal) and (eqn := density.producer.get(total)) is not None:
        if eqn.primitive.name == "reduce_sum":
            return eqn.invars[0] is whole and range_of(density, whole)[0] >= 0
        if eqn.primitive.name not in _MOVES:
            return False
        total = eqn.invars[0]
    return False
