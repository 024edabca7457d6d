"""Sites that were non-centred by hand: `z ~ Normal(0, 1)` that the model reads as `mu + tau * z` alone.

Where data are many, what a person would sample is `mu + tau * z` itself. The rule is strict: the site is
standard, everything outside its own density reads it through one value, and that value is `a + b * z` with
`a` and `b` free of `z`, `b` above 0 and one of them reading latents.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.location_scale import in_program_order
from gibbsite.density.hierarchy.sign import positive
from gibbsite.trace.jaxpr.compat import JaxprEqn, Literal

_FAMILIES = frozenset(["Normal", "StudentT", "Cauchy", "Laplace", "Logistic", "Gumbel"])
_SHAPES = frozenset(["broadcast_in_dim", "reshape", "squeeze", "expand_dims", "convert_element_type", "copy"])
_LINEAR = frozenset(["mul", "div", "add", "add_any", "sub", "neg"])


@dataclass(frozen=True)
class ByHand:
    """`a + b * site`, the one value through which a model reads a standard site.

    `location` and `scale` name the latents that `a` and `b` read, in program order; `value` is the value's
    variable; `read` computes `a` and `b`, arrays of the site's shape, from the values of the jaxpr's
    variables.
    `obstacle` says why it cannot be centred although it was written like that; None where it can.
    """

    site: str
    location: tuple[str, ...]
    scale: tuple[str, ...]
    value: Any
    read: Callable[[Callable[[Any], Any]], tuple[Any, Any]]
    obstacle: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Every latent that `a` or `b` read."""
        return tuple(dict.fromkeys((*self.location, *self.scale)))

    def __str__(self) -> str:
        parts = (("location", self.location), ("scale", self.scale))
        told = [f"its {word} reads {', '.join(names)}" for word, names in parts if names]
        return f"{self.site}: non-centred by hand, {', '.join(told)}"


def non_centred_by_hand(density: Density) -> Mapping[str, ByHand]:
    """The sites of a model that are non-centred by hand, by name, in program order."""
    if "by_hand" not in density.cache:
        names = [n for n in density.latents if _standard(density, n)]
        found = {n: _affine(density, n) for n in names}
        density.cache["by_hand"] = {n: f for n, f in found.items() if f is not None}
    return density.cache["by_hand"]


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
    seen: set[int] = set()
    readers: dict[Any, list[JaxprEqn]] = {}
    while wanted:
        atom = wanted.pop()
        eqn = None if isinstance(atom, Literal) else density.producer.get(atom)
        if eqn is None or id(eqn) in seen:
            continue
        seen.add(id(eqn))
        for operand in eqn.invars:
            if not isinstance(operand, Literal):
                readers.setdefault(operand, []).append(eqn)
                wanted.append(operand)
    return readers


def _affine(density: Density, name: str) -> ByHand | None:
    readers, here = _readers(density, name), density.latent_vars[name]
    shape, maps = density.sites[name].shape, density.maps
    steps: list[tuple[str, Any, bool]] = []
    location: frozenset[str] = frozenset()
    scale: frozenset[str] = frozenset()
    certain = True
    while len(readers.get(here, ())) == 1:
        (eqn,) = readers[here]
        kind, out = eqn.primitive.name, eqn.outvars[0]
        if int(np.prod(out.aval.shape)) != int(np.prod(shape)) or kind not in _SHAPES | _LINEAR:
            break
        first = eqn.invars[0] is here
        if kind in _LINEAR and kind != "neg":
            if eqn.invars[0] is eqn.invars[1]:
                break
            other = eqn.invars[1 if first else 0]
            reads = frozenset() if isinstance(other, Literal) else maps.latents(other)
            if name in reads or (kind == "div" and not first):
                break
            if kind in ("mul", "div"):
                scale, location = scale | reads, location | (reads if location else frozenset())
                certain = certain and positive(density, other)
            else:
                location = location | reads
            steps.append((kind, other, first))
        elif kind == "neg" or (kind == "convert_element_type" and out.aval.dtype != here.aval.dtype):
            break
        here = out
        if kind in ("add", "add_any", "sub") and (location or scale):
            break
    if not location | scale:
        return None
    flipped = any(kind == "sub" and not first for kind, _, first in steps)
    obstacle = None if certain and not flipped else "the scale is not certain to be above 0"
    return ByHand(
        name,
        in_program_order(density, location),
        in_program_order(density, scale),
        here,
        _reader(steps, shape),
        obstacle,
    )


def _reader(steps: list[tuple[str, Any, bool]], shape: tuple[int, ...]) -> Any:
    def read(of: Callable[[Any], Any]) -> tuple[Any, Any]:
        a, b = jnp.zeros(shape), jnp.ones(shape)
        for kind, other, first in steps:
            x = of(other)
            x = jnp.reshape(x, shape) if jnp.size(x) == a.size else x
            if kind == "mul":
                a, b = a * x, b * x
            elif kind == "div":
                a, b = a / x, b / x
            elif kind == "sub":
                a, b = (a - x, b) if first else (x - a, -b)
            else:
                a = a + x
        return a, b

    return read
