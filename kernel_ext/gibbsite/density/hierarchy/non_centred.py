"""Sites that were non-centred by hand: `z ~ Normal(0, 1)` that the model reads as `mu + tau * z` alone.

Where data are many, what a person would sample is `mu + tau * z` itself. The rule is strict: the site is
standard, everything outside its own density reads it through one value, and that value is `a + b * z` with
`a` and `b` free of `z`, and `b` above 0 and reading latents. Data may pick elements on the way
(`mu + tau * z[g]`): then `a` and `b` are those parts of the sum and of the product that are the same for all
that read one element.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.broadcast_parameters import MOVES, Lift, Read, filled, place_of, shape_of
from gibbsite.density.hierarchy.location_scale import in_program_order
from gibbsite.density.intervals import positive
from gibbsite.density.known_elements import equations_behind
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal
from gibbsite.programs.maps.access import Shape


class Affine:
    """`a` and `b` of a value, equation by equation: each element of it is `± f (a + b * site) + r` at one
    element of the site, with `f` and `r` free of that element.

    Factors and summands that are not one number per element of the site are part of `f` and `r`, and so are
    `taken` summands, which are the location of another site. `location` and `scale` are the latents that `a`
    and `b` read, `summands` the variables that `a` is the sum of; `certain` says that `b` is above 0.
    """

    def __init__(self, density: Density, site: str, taken: Collection[Any] = ()):
        self.density, self.site, self._taken = density, site, taken
        self.location: frozenset[str] = frozenset()
        self.scale: frozenset[str] = frozenset()
        self.summands: list[Any] = []
        self.certain = True
        self._steps: list[tuple[str, Any]] = []
        self._sign, self._stretched, self._shifted = 1, False, False

    def takes(self, eqn: JaxprEqn, here: Any, lift: Lift) -> bool:
        """Whether the value keeps the form after `eqn`, which reads it as `here`: then it is part of it."""
        if op.of_kind(eqn, MOVES):
            return eqn.invars[0] is here
        if op.of_kind(eqn, op.CONVERTS):
            return eqn.outvars[0].aval.dtype == here.aval.dtype
        if op.of_kind(eqn, op.SELECTS):
            return filled(self.density, eqn) is here
        if op.of_kind(eqn, op.NEGATES):
            self._sign = -self._sign
            return True
        if (
            not op.of_kind(eqn, op.ADDS, op.SUBTRACTS, op.MULTIPLIES, op.DIVIDES)
            or eqn.invars[0] is eqn.invars[1]
        ):
            return False
        first = eqn.invars[0] is here
        other = eqn.invars[1 if first else 0]
        if self.site in self.density.maps.latents(other):
            return False
        if op.of_kind(eqn, op.MULTIPLIES, op.DIVIDES):
            divides = op.of_kind(eqn, op.DIVIDES)
            return (first or not divides) and self._times("div" if divides else "mul", other, lift)
        if self._stretched or self._ends_at(other):
            return False
        own, others = op.signs(eqn) if first else op.signs(eqn)[::-1]
        self._sign *= own
        self._plus(other, others, lift)
        self._shifted = bool(self.location | self.scale)
        return True

    def _ends_at(self, other: Any) -> bool:
        """Whether a summand is data, such as those that a mean is taken from."""
        data = not self.density.maps.latents(other) and shape_of(other) != ()
        return data and bool(self.location | self.scale)

    def _times(self, kind: str, other: Any, lift: Lift) -> bool:
        if self._shifted:
            return False
        reads, part = self.density.maps.latents(other), lift(other)
        if part is None:
            self._stretched = True
            return not reads
        if self._stretched and not reads:
            return True
        self.scale = self.scale | reads
        self.certain = self.certain and positive(self.density, other)
        self._steps.append((kind, part))
        return True

    def _plus(self, other: Any, sign: int, lift: Lift) -> None:
        """Take in those summands of `other` that are one number per element of the site."""
        reads, part = self.density.maps.latents(other), lift(other)
        if not isinstance(other, Literal) and other in self._taken:
            return
        if part is not None:
            self.location = self.location | reads
            self.summands += [other] if reads else []
            self._steps.append(("add" if sign * self._sign > 0 else "sub", part))
            return
        eqn = None if isinstance(other, Literal) else self.density.producer.get(other)
        if eqn is not None and op.of_kind(eqn, op.ADDS, op.SUBTRACTS):
            for atom, own in zip(eqn.invars, op.signs(eqn), strict=True):
                self._plus(atom, sign * own, lift)

    def reader(self, shape: Shape) -> Callable[[Read], tuple[Any, Any]]:
        """Computes `a` and `b`, arrays of the site's shape, from the values of the jaxpr's variables."""
        steps = tuple(self._steps)

        def read(of: Read) -> tuple[Any, Any]:
            a, b = jnp.zeros(shape), jnp.ones(shape)
            for kind, part in steps:
                x = part(of)
                if kind == "mul":
                    a, b = a * x, b * x
                elif kind == "div":
                    a, b = a / x, b / x
                else:
                    a = a + x if kind == "add" else a - x
            return a, b

        return read


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
    if density.maps.latents(atom):
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
