"""Which parameters are certain to be possible, by the ranges and making of what they come from."""

from typing import Any

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.passes.reroll import rerolled
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import CONVERTS, DIVIDES, MOVES, TOTALS, moved_from, of_kind
from gibbsite.validation.limits import kind_of, met

Named = tuple[str, str]
_MOVES = MOVES, CONVERTS


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

    def keeps(eqn: Any) -> bool:
        return tuple(eqn.invars[0].aval.shape)[-base.event_dim :] == last

    atom = moved_from(density.producer, atom, *_MOVES, while_=keeps)
    eqn = None if isinstance(atom, Literal) else density.producer.get(atom)
    if of_kind(eqn, DIVIDES):
        return kind == "simplex" and _is_its_sum(density, *eqn.invars)  # type: ignore[union-attr]
    name = next((n for n, v in density.latent_vars.items() if v is atom), None)
    return name is not None and type(base_constraint(density.sites[name].support)) is type(base)


def _is_its_sum(density: Density, whole: Any, total: Any) -> bool:
    """Whether `total` is the sum of `whole`, which is not negative, as in a softmax."""
    total = moved_from(density.producer, total, *_MOVES)
    eqn = None if isinstance(total, Literal) else density.producer.get(total)
    summed = eqn.invars[0] if eqn is not None and of_kind(eqn, TOTALS) else None
    return summed is whole and range_of(density, whole)[0] >= 0
