"""Write one element of a jaxpr's array as the expression that a person would have written.

`mu[z]` reaches the jaxpr as a comparison, an addition, a selection and a gather; printed for the element at
`n` it is `mu[z[n]]` again. What is printed is true of every element that the index letters name: where
elements differ, the text says how (`T[s[t-1]] if t > 0 else 1/3`). What has no short form becomes `f(…)` of
the sites that it depends on, and `Expression.opaque` counts those.
"""

from collections.abc import Callable, Sequence
from typing import Any

from gibbsite.density.density import Density
from gibbsite.printing.elements import copies, elements
from gibbsite.printing.elements.constants import Printer
from gibbsite.printing.elements.elements import elementwise
from gibbsite.printing.elements.indices import Index, Span, Sym, letter
from gibbsite.printing.elements.text import ALONG, REDUCTIONS, Opaque, Text, call, shape_of
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import (
    COMBINES,
    PASSES,
    REVERSES,
    SCATTERS,
    SLICES,
    SPREADS,
    SQUEEZES,
    TRANSPOSES,
    name_of,
)
from gibbsite.programs.jaxpr.walker import behind
from gibbsite.programs.passes.flatten import Builder

Rule = Callable[[Printer, Any, Any, tuple[Index, ...]], Text]

RULES: dict[str, Rule] = {
    **dict.fromkeys(PASSES, elements.pass_rule),
    **dict.fromkeys(REDUCTIONS, elements.reduction_rule),
    **dict.fromkeys(ALONG, elements.along_rule),
    "neg": elements.neg_rule,
    "not": elements.not_rule,
    "integer_pow": elements.integer_pow_rule,
    "square": elements.square_rule,
    "pow": elements.pow_rule,
    "rsqrt": elements.rsqrt_rule,
    "clamp": elements.clamp_rule,
    "convert_element_type": elements.convert_rule,
    "select_n": elements.select_rule,
    **dict.fromkeys(SPREADS | SLICES | SQUEEZES | TRANSPOSES | REVERSES, copies.copy_rule),
    "reshape": copies.reshape_rule,
    "concatenate": copies.concatenate_rule,
    "pad": copies.pad_rule,
    "split": copies.split_rule,
    "iota": copies.iota_rule,
    "gather": copies.gather_rule,
    "dynamic_slice": copies.dynamic_slice_rule,
    "dynamic_update_slice": copies.dynamic_update_slice_rule,
    **dict.fromkeys(SCATTERS | COMBINES.keys(), copies.scatter_rule),
    "dot_general": elements.dot_rule,
    "cond": elements.cond_rule,
    "div": elements.div_rule,
    "cholesky": elements.cholesky_rule,
}


LONG = 140
_DEEP = 80
_PLACES = frozenset(
    "select_n convert_element_type broadcast_in_dim reshape squeeze concatenate gather slice copy "
    "dynamic_slice transpose expand_dims".split()
)


def argument_names(density: Density) -> list[str]:
    """What the data arrays go by in texts: where a site of the same name observes another array, as `y[1:]`
    of the argument `y`, the argument is `y_data`; a value that `do` set goes by its site's name."""
    own, out = {**density.outputs["deterministic"], **density.outputs["observed"]}, []
    taken = {*density.sites, *density.groups, *density.arguments.names}
    for name, var in zip(density.arguments.names, density.data_vars, strict=True):
        while name in density.sites and own.get(name) is not var:
            name = f"{name}_data"
            while name in taken:
                name += "_"
        out.append(name)
    return out


class Expression(Printer):
    """Prints elements of a density's arrays ; texts longer than `long` become `f(…)`.

    Deterministic values that depend on the latent site `through` are printed as what they are computed from.
    """

    def __init__(
        self,
        density: Density,
        ranges: dict[str, tuple[int, int]] | None = None,
        long: int = LONG,
        through: str | None = None,
    ):
        super().__init__(density, ranges, long)
        self.opaque = 0
        self._depth = 0
        self._branches: dict[int, tuple[Any, list[list[Any]]]] = {}
        self._names: dict[Any, str] = {v: n for n, v in density.latent_vars.items()}
        self._names.update(zip(density.data_vars, argument_names(density), strict=True))
        for name, atom in density.outputs["deterministic"].items():
            hidden = through is not None and through in density.maps.latents(atom)
            if not isinstance(atom, Literal) and not hidden:
                self._names.setdefault(atom, name)

    def of(self, atom: Any, index: Sequence[str | Index]) -> str:
        """The element of `atom` at `index`: per axis a letter, a place, or ":" for the whole axis."""
        return self._whole(lambda at: self.write(atom, at), atom, index).text

    def definition(self, atom: Any, index: Sequence[str | Index]) -> str:
        """As `of`, for an array that has a name itself: what it is computed from."""
        if isinstance(atom, Literal) or atom not in self.producer:
            return self.of(atom, index)
        return self._whole(lambda at: self._computed(atom, at), atom, index).text

    def _whole(self, write: Callable[[tuple[Index, ...]], Text], atom: Any, index: Sequence[Any]) -> Text:
        before = {n: set(r) for n, r in self.reads.items()}, self.opaque
        places: list[Index] = []
        for i, n in zip(index, shape_of(atom), strict=True):
            if isinstance(i, str):
                i = self.span(n) if i == ":" else int(i) if i.lstrip("-").isdigit() else letter(i)
                if isinstance(i, Sym):
                    self.ranges.setdefault(i.parts[0][0], (0, n))
            places.append(i)
        out = write(tuple(places))
        free = [i.tag for i in places if isinstance(i, Span)]
        if (out.tags and list(out.tags) != [t for t in free if t in out.tags]) or len(out.text) > self.long:
            self.reads, self.opaque = before
            return self.short(atom)
        return out

    def write(self, atom: Any, index: tuple[Index, ...]) -> Text:
        if not isinstance(atom, Literal) and atom in self._names:
            name = self._names[atom]
            self.reads.setdefault(name, set()).add(index)
            return self.part(name, shape_of(atom), index, self.first(name))
        value = self.values.constant(atom)
        return self.constants.write(value, index) if value is not None else self._computed(atom, index)

    def length(self, name: str) -> int | None:
        """How many elements a site, or a group of sites, has along its first axis."""
        if name in self.density.groups:
            return len(self.density.groups[name])
        shape = self.density.sites[name].shape if name in self.density.sites else ()
        return shape[0] if shape else None

    def first(self, name: str) -> int:
        """The number that the first element of a site goes by: members that are called `z1`, `z2`, … keep
        theirs."""
        members = self.density.members.get(name, ())
        digits = members[0][len(name) :].strip("_[]") if members else ""
        return int(digits) if digits.isdigit() else 0

    def _computed(self, atom: Any, index: tuple[Index, ...]) -> Text:
        if atom not in self.producer or self._depth > _DEEP:
            return self.short(atom)
        eqn = self.producer[atom]
        name = name_of(eqn)
        before = {n: set(r) for n, r in self.reads.items()}, self.opaque, self.as_place
        self._depth += 1
        self.as_place = self.as_place and name in _PLACES
        try:
            rule = RULES.get(name)
            out = rule(self, eqn, atom, index) if rule is not None else elementwise(self, eqn, index)
            if len(out.text) > 4 * self.long:
                raise Opaque
            return out
        except Opaque:
            self.reads, self.opaque = before[:2]
            return self.short(atom)
        finally:
            self._depth -= 1
            self.as_place = before[2]

    def short(self, atom: Any) -> Text:
        """`f(…)` of the sites that an array depends on."""
        self.opaque += 1
        found = self._behind(atom)
        order = [n for n in (*self.density.arguments.names, *self.density.sites) if n in found]
        for name in order:
            self.reads.setdefault(name, set()).add(None)
        shown = [n for n in order if n in self.density.sites] or ["data"]
        return Text(call("f", ", ".join(shown)))

    def _behind(self, atom: Any) -> set[str]:
        """The named arrays that `atom` is computed from."""
        named = lambda a: a in self._names and a is not atom  # noqa: E731
        return {self._names[a] for a in behind(self.producer, [atom], named) if named(a)}

    def place(self, atom: Any, index: tuple[Index, ...]) -> Index:
        value = self.values.constant(atom)
        if value is not None:
            known_at = [i for i in index if isinstance(i, int)]
            if len(known_at) == len(index):
                return int(value[tuple(known_at)])
            if (known := self.constants.affine(value, index)) is not None:
                return known
        before, self.as_place = self.as_place, True
        try:
            found = self.write(atom, index)
        finally:
            self.as_place = before
        if not found.tags and found.text.lstrip("-").isdigit():
            return int(found.text)
        return Sym(((found.text, 1),), 0, found.tags)

    def branches(self, eqn: Any) -> list[list[Any]]:
        if id(eqn) not in self._branches:
            outs = []
            for branch in eqn.params["branches"]:
                builder = Builder()
                outs.append(builder.splice(branch, list(eqn.invars[1:])))
                for var, value in builder.constants.items():
                    self.values.give(var, value)
                self.producer.update({v: e for e in builder.eqns for v in e.outvars})
            self._branches[id(eqn)] = eqn, outs
        return self._branches[id(eqn)][1]
