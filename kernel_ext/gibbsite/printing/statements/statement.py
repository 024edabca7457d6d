"""One statement of a model as a person would write it: `Normal(x[n] | mu[z[n]], 1)`."""

import inspect
import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpyro.distributions as dist

from gibbsite.density.density import Density
from gibbsite.density.model.sites import Site
from gibbsite.printing.elements.expression import Expression
from gibbsite.printing.elements.indices import Index, letter
from gibbsite.printing.elements.text import GIVEN, call, shape_of, subscript

LETTERS = "ijkabcdefghlmnopqrsuvwxyz"


def element_index(density: Density, name: str, taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Index letters of a site's elements: the plate's name where it is short, `t` for time, else letters.

    Letters in `taken` and names of sites are left out; an axis of size 1 has the index `0`.
    """
    site = density.sites[name]
    letters: list[str] = []
    not_free = {*density.sites, *density.groups, *density.arguments.names, *taken}
    free = (c for c in LETTERS if c not in not_free)
    named = dict(zip(site.plate_axes, site.plates, strict=True))

    def usable(text: str) -> bool:
        return text not in letters and text not in not_free

    for axis, size in enumerate(site.shape[: site.element_rank]):
        plate = named.get(axis)
        if size == 1:
            letters.append("0")
        elif plate is not None and plate.isidentifier() and len(plate) <= 2 and usable(plate):
            letters.append(plate)
        elif plate is not None and plate[0].isalpha() and usable(plate[0].lower()):
            letters.append(plate[0].lower())
        elif axis == 0 and site.in_scan and usable("t"):
            letters.append("t")
        else:
            letters.append(next(c for c in free if c not in letters))
    return tuple(letters)


class Statement:
    """Prints one site of a density, for the element that the letters `index` name.

    The sites of a loop that are called `z1`, `z2`, … are the elements 1, 2, … of `z`.
    """

    def __init__(
        self,
        density: Density,
        name: str,
        index: Sequence[str] | None = None,
        through: str | None = None,
    ):
        self.density = density
        self.site: Site = density.sites[name]
        self.letters = element_index(density, name) if index is None else tuple(index)
        self.printer = Expression(density, through=through)
        first = self.printer.first(name)
        self.index: tuple[Index, ...] = tuple(
            int(i) if i == "0" else letter(i, -first if a == 0 else 0) for a, i in enumerate(self.letters)
        )
        for a, (i, n) in enumerate(zip(self.letters, self.site.shape, strict=False)):
            shift = first if a == 0 else 0
            if i != "0":
                self.printer.ranges[i] = (shift, shift + n)

    @property
    def value(self) -> str:
        """The element itself: `x[n]`."""
        return subscript(self.site.name, self.letters)

    def right_hand_side(self) -> str:
        """`Normal(mu[z[n]], 1)`, or a deterministic site's expression."""
        if self.site.role == "deterministic":
            atom = self.density.outputs["deterministic"][self.site.name]
            return self.printer.definition(atom, self.index)
        inner = ", ".join(self._parameters())
        family, steps = self._family()
        text = call(family, inner)
        for step in steps:
            text = call(step, text + _lost(step))
        return text + self._power()

    def factor(self) -> str:
        """`Normal(x[n] | mu[z[n]], 1)`: the element's density."""
        args = self._parameters()
        family, steps = self._family()
        for step in steps:
            family = call(step, family + _lost(step))
        given = GIVEN + ", ".join(args) if args else ""
        return call(family, self.value + given) + self._power()

    def _family(self) -> tuple[str, tuple[str, ...]]:
        if steps := self.density.transforms.get(self.site.name):
            return family_name(steps[0]), steps[1:]
        return family_name(self.site.fn_name), ()

    def _power(self) -> str:
        """The exponent that `mask` and `scale` put on the density."""
        printer = self.printer
        weights = self.density.outputs["weights"].get(self.site.name)
        if weights is None:  # members of a group that are not weighted alike
            return "**…"
        texts = [printer.of(atom, self._at(atom, 0)) for atom in weights]
        texts = [t for t in texts if t not in ("1", "True")]
        if not texts:
            return ""
        whole = " * ".join(t if t.replace(".", "").isalnum() or t.endswith("]") else f"({t})" for t in texts)
        plain = len(texts) == 1 and (whole.replace(".", "").isalnum() or ("]" in whole and " " not in whole))
        return f"**{whole}" if plain else f"**({whole})"

    def _parameters(self) -> list[str]:
        """The distribution's arguments; a mixture's parts are calls themselves."""
        atoms = self.density.outputs["parameters"].get(self.site.name, {})
        known = self.density.parameter_event_dims.get(self.site.name, {})
        names = [n for n in known if n in atoms]
        if known and not names:
            return ["…"]  # the members of this group have distributions of their own
        out: list[str] = []
        parts = [(n.rpartition("/")[0], n) for n in names]
        own_family = self._family()[0]
        for part, inside in itertools.groupby(parts, key=lambda p: p[0]):
            family = family_name(part.rpartition("/")[2].partition(" ")[2]) if part else own_family
            texts = self._arguments(family, [n for _, n in inside])
            out += texts if not part else [call(family, ", ".join(texts))]
        # what a distribution cannot be told without, and what is no parameter of NumPyro's
        told = {n.rpartition("/")[2] for p, n in parts if not p}
        untold = [n for n in required_by(own_family) if n not in told]
        return [*out, "…"] if len(untold) > len({p for p, _ in parts if p}) else out

    def _arguments(self, family: str, names: Sequence[str]) -> list[str]:
        """In the order of the distribution's own arguments, by keyword where that order is left."""
        short = {n.rpartition("/")[2]: n for n in names}
        if {"covariance_matrix", "precision_matrix", "scale_matrix", "rate_matrix"} & set(short):
            short.pop("scale_tril", None)  # computed from the other
        order = arguments_of(family)
        known = [n for n in order if n in short]
        out = []
        for n in [*known, *(n for n in short if n not in known)]:
            atom = self.density.outputs["parameters"][self.site.name][short[n]]
            event = self.density.parameter_event_dims[self.site.name][short[n]]
            text = self.printer.of(atom, self._at(atom, event))
            positional = len(out) < len(order) and order[len(out)] == n and n not in ("low", "high", "logits")
            uniform = family != "Truncated" and n in ("low", "high")
            out.append(text if positional or uniform or not order else f"{n}={text}")
        return out

    def _at(self, atom: Any, event: int) -> list[Any]:
        """The index of the element that belongs to the site's, with the axes of one element whole."""
        shape = shape_of(atom)
        event = min(max(event, len(shape) - len(self.index)), len(shape))
        lead = len(shape) - event
        own = self.index[len(self.index) - lead :]
        return [*(0 if n == 1 else i for n, i in zip(shape[:lead], own, strict=True)), *[":"] * event]


def _lost(step: str) -> str:
    """What is not told of a transform that has parameters."""
    made = getattr(dist.transforms, f"{step}Transform", None)
    return ", …" if made is None or _required(made) else ""


def family_name(fn_name: str) -> str:
    """A distribution's class as its users call it."""
    fn_name = fn_name.removeprefix("_Hurdle")
    if fn_name.endswith(("TruncatedDistribution", "TruncatedGamma")):
        return "Truncated"
    for suffix in ("Probs", "Logits"):
        if fn_name.endswith(suffix):
            short = fn_name.removesuffix(suffix)
            return f"{short}Distribution" if short in ("Hurdle", "ZeroInflated") else short
    return fn_name


@cache
def arguments_of(family: str) -> tuple[str, ...]:
    """The arguments of one of NumPyro's distributions, in order; none for distributions of the user's own."""
    if family == "Truncated":
        return ("base_dist", "low", "high")
    made = getattr(dist, family, None)
    if made is None:
        return ()
    return tuple(n for n in inspect.signature(made).parameters if n != "validate_args")


@cache
def required_by(family: str) -> tuple[str, ...]:
    """Those of `arguments_of` that have no default."""
    if family == "Truncated":
        return ("base_dist",)
    made = getattr(dist, family, None)
    return () if made is None else _required(made)


def _required(made: Any) -> tuple[str, ...]:
    return tuple(n for n, p in inspect.signature(made).parameters.items() if p.default is p.empty)


def factor_text(density: Density, origin: str) -> str:
    """One factor of the joint, for one of its elements."""
    if origin not in density.sites:
        return call("exp", origin)
    return Statement(density, origin).factor()


def distribution_text(density: Density, name: str) -> str:
    """The right-hand side of a statement: `Normal(mu[z[n]], 1)`, or a deterministic site's expression."""
    return Statement(density, name).right_hand_side()
