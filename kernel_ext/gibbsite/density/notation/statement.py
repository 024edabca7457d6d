"""One statement of a model as a person would write it: `Normal(x[n] | mu[z[n]], 1)`."""

import itertools
from collections.abc import Sequence

from gibbsite.density.density import Density
from gibbsite.density.model.sites import Site
from gibbsite.density.notation.expression import Expression
from gibbsite.density.notation.notation import TEXT, Notation
from gibbsite.trace.jaxpr.compat import Literal

LETTERS = "ijkabcdefghlmnopqrsuvwxyz"


def element_index(density: Density, name: str) -> tuple[str, ...]:
    """Index letters of a site's elements: the plate's name where it is short, `t` for time, else letters."""
    site = density.sites[name]
    letters: list[str] = []
    taken = set(density.sites)
    free = (c for c in LETTERS if c not in taken)
    named = dict(zip(site.plate_axes, site.plates, strict=True))
    for axis, size in enumerate(site.shape):
        plate = named.get(axis)
        if size == 1:
            letters.append("0")
        elif plate is not None and plate.isidentifier() and len(plate) <= 2 and plate not in letters:
            letters.append(plate)
        elif plate is not None and plate[0] not in letters and plate[0] not in taken:
            letters.append(plate[0].lower())
        elif axis == 0 and site.in_scan:
            letters.append("t" if "t" not in taken and "t" not in letters else next(free))
        else:
            letters.append(next(c for c in free if c not in letters))
    return tuple(letters[: site.element_rank])


def factor_text(
    density: Density, origin: str, notation: Notation = TEXT, index: Sequence[str] | None = None
) -> str:
    """One factor of the joint, for one of its elements, at the given index letters."""
    if origin not in density.sites:
        return notation.call("exp", notation.name(origin))
    site = density.sites[origin]
    index = element_index(density, origin) if index is None else tuple(index)
    args = _parameters(density, site, index, Expression(density, notation))
    value = notation.subscript(notation.name(origin), index)
    family, given = _family(site.fn_name), notation.given + ", ".join(args) if args else ""
    if name := density.transforms.get(origin):
        family = _composed(_family(name[0]), name[1:])
    return notation.call(family, value + given)


def _composed(inner: str, transforms: Sequence[str]) -> str:
    for transform in transforms:
        inner = f"{transform}({inner})"
    return inner


def _family(fn_name: str) -> str:
    if fn_name.endswith("TruncatedDistribution"):
        return "Truncated"
    for suffix in ("Probs", "Logits"):
        if fn_name.endswith(suffix):
            return fn_name.removesuffix(suffix)
    return fn_name


def _parameters(density: Density, site: Site, index: tuple[str, ...], printer: Expression) -> list[str]:
    """The arguments of a site's distribution as text; a mixture's parts are calls themselves."""
    out: list[str] = []
    atoms = density.outputs["parameters"].get(site.name, {})
    names = [n for n in density.parameter_event_dims.get(site.name, {}) if n in atoms]
    for part, inside in itertools.groupby(names, key=lambda n: n.rpartition("/")[0]):
        texts = [_parameter(density, site, name, index, printer) for name in inside]
        family = _family(part.rpartition("/")[2].partition(" ")[2])
        out += texts if not part else [printer.notation.call(family, ", ".join(texts))]
    return out


def _parameter(density: Density, site: Site, name: str, index: tuple[str, ...], printer: Expression) -> str:
    atom = density.outputs["parameters"][site.name][name]
    shape = () if isinstance(atom, Literal) else tuple(atom.aval.shape)
    event = density.parameter_event_dims[site.name][name]
    event = min(max(event, len(shape) - len(index)), len(shape))
    lead = len(shape) - event
    own = index[max(0, len(index) - lead) :]
    at = tuple("0" if n == 1 else i for n, i in zip(shape[:lead], own, strict=True))
    text = printer.of(atom, at + (":",) * event)
    short = name.rpartition("/")[2]
    bound = short in ("low", "high") and _family(site.fn_name) == "Truncated"
    return f"{short}={text}" if bound or short == "logits" else text


def distribution_text(density: Density, name: str, notation: Notation = TEXT) -> str:
    """The right-hand side of a statement: `Normal(mu[z[n]], 1)`, or a deterministic site's expression."""
    site = density.sites[name]
    index = element_index(density, name)
    printer = Expression(density, notation)
    if site.role == "deterministic":
        return printer.definition(density.outputs["deterministic"][name], index)
    parameters = ", ".join(_parameters(density, site, index, printer))
    if composed := density.transforms.get(name):
        inner = notation.call(_family(composed[0]), parameters)
        for transform in composed[1:]:
            inner = notation.call(transform, inner)
        return inner
    return notation.call(_family(site.fn_name), parameters)
