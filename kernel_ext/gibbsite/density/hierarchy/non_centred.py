"""Sites that were non-centred by hand: `z ~ Normal(0, 1)` that the model reads as `mu + tau * z` alone.

Where data are many, what a person would sample is `mu + tau * z` itself. The rule is strict: the site is
standard, everything outside its own density reads it through one value, and that value is `a + b * z` with
`a` and `b` free of `z`, and `b` above 0 and reading latents. Data may pick elements on the way
(`mu + tau * z[g]`): then `a` and `b` are those parts of the sum and of the product that are the same for all
that read one element.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.affine import Affine, Read
from gibbsite.density.hierarchy.broadcast_parameters import Lift, place_of, shape_of
from gibbsite.density.hierarchy.location_scale import in_program_order
from gibbsite.density.known_elements import equations_behind
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal

_FAMILIES = frozenset(["Normal", "StudentT", "Cauchy", "Laplace", "Logistic", "Gumbel"])


@dataclass(frozen=True)
class ByHand:
    """`a + b * site` in the one value through which a model reads a standard site.

    `location` and `scale` name the latents that `a` and `b` read, in program order; `value` is the value's
    variable; `read` computes `a` and `b`, arrays of the site's shape, from the values of the jaxpr's
    variables.
    `obstacle` says why it cannot be centred although it was written like that; None where it can.
    """

    site: str
    location: tuple[str, ...]
    scale: tuple[str, ...]
    value: Any
    read: Callable[[Read], tuple[Any, Any]]
    obstacle: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Every latent that `a` or `b` read."""
        return tuple(dict.fromkeys((*self.location, *self.scale)))

    def __str__(self) -> str:
        parts = (("location", self.location), ("scale", self.scale))
        told = [f"its {word} reads {', '.join(names)}" for word, names in parts if names]
        return f"{self.site}: non-centred by hand, {', '.join(told)}"


@once
def non_centred_by_hand(density: Density) -> Mapping[str, ByHand]:
    """The sites of a model that are non-centred by hand, by name, in program order."""
    found: dict[str, ByHand] = {}
    taken: set[Any] = set()
    for name in density.latents:
        form = _affine(density, name, taken) if _standard(density, name) else None
        if form is not None:
            found[name] = form
    return found


def _standard(density: Density, name: str) -> bool:
    site, parameters = density.sites[name], density.outputs["parameters"].get(name, {})
    if (
        site.fn_name not in _FAMILIES
        or density.transforms.get(name)
        or not {"loc", "scale"} <= set(parameters)
    ):
        return False
    return all(_constant(density, parameters[p], x) for p, x in (("loc", 0.0), ("scale", 1.0)))


def _constant(density: Density, atom: Any, number: float) -> bool:
    if not isinstance(atom, Literal) and density.maps.latents(atom):
        return False
    with jax.ensure_compile_time_eval():
        return bool(np.all(np.asarray(density.evaluator({}).full(atom)) == number))


def _readers(density: Density, name: str) -> dict[Any, list[JaxprEqn]]:
    """Who reads a variable on the way to any log density but that of the site itself."""
    wanted = [
        atom
        for kind in ("log_prob", "inside", "bounds")
        for origin, atoms in density.outputs[kind].items()
        if origin != name
        for atom in jax.tree.leaves(atoms, is_leaf=lambda a: isinstance(a, Literal))
    ]
    readers: dict[Any, list[JaxprEqn]] = {}
    for eqn in equations_behind(density, wanted):
        for operand in eqn.invars:
            if not isinstance(operand, Literal):
                readers.setdefault(operand, []).append(eqn)
    return readers


def _parameters(density: Density) -> frozenset[Any]:
    """The variables that are parameters of some site: what follows them is a log density."""
    atoms = [a for found in density.outputs["parameters"].values() for a in found.values()]
    return frozenset(a for a in atoms if not isinstance(a, Literal))


def _affine(density: Density, name: str, taken: set[Any]) -> ByHand | None:
    """`taken` are the summands that are the location of another site; those of this one are added."""
    readers, ends = _readers(density, name), _parameters(density)
    shape, here = density.sites[name].shape, density.latent_vars[name]
    form = Affine(density, name, taken)
    while here not in ends and len(readers.get(here, ())) == 1:
        (eqn,) = readers[here]
        out = eqn.outvars[0]
        place = place_of(density, out, name)
        if place is None or not form.takes(eqn, here, Lift(density, shape, place, shape_of(out))):
            break
        here = out
    if not form.scale:  # a sum alone is no hierarchy
        return None
    taken.update(form.summands)
    return ByHand(
        name,
        in_program_order(density, form.location),
        in_program_order(density, form.scale),
        here,
        form.reader(shape),
        None if form.certain else "the scale is not certain to be above 0",
    )
