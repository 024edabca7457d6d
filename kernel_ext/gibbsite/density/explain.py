"""Which elements of a latent the terms read, in words, and which operation made them read all of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gibbsite.density.passes.reroll import rerolled
from gibbsite.density.terms import Term
from gibbsite.programs.jaxpr.primitives import name_of
from gibbsite.programs.jaxpr.source_line import Line, equation_line, line_at
from gibbsite.programs.maps.access import Access, Accesses, Affine, Table

if TYPE_CHECKING:
    from gibbsite.density.density import Density


@dataclass(frozen=True)
class Widening:
    """An equation whose inputs read single elements of a site, but whose output reads all along an axis."""

    operation: str
    line: Line | None

    def __str__(self) -> str:
        return f"`{self.operation}`" + (f" at {self.line}" if self.line else "")


@dataclass(frozen=True)
class Reading:
    """How one term reads a site: `what` in words; `because` names what widened it, outermost first."""

    term: Term
    what: str
    because: tuple[Widening, ...]

    def __str__(self) -> str:
        where = f"of {self.term.origin}, shape {list(self.term.shape)}"
        because = f", because of {' and '.join(map(str, self.because))}" if self.because else ""
        return f"in the term {where}: {self.what}{because}"


@dataclass(frozen=True)
class Explanation:
    """Per latent site, how each term reads it."""

    sites: dict[str, tuple[Reading, ...]]

    def __getitem__(self, site: str) -> tuple[Reading, ...]:
        return self.sites[site]

    def __str__(self) -> str:
        lines = []
        for site, readings in self.sites.items():
            lines.append(f"{site}: " + ("is read by no term" if not readings else "each element reads"))
            lines += [f"  {r}" for r in readings]
        return "\n".join(lines)

    __repr__ = __str__


def explain(density: "Density", site: str | None = None) -> Explanation:
    """How the terms read one latent, or all of them; raises `UnknownNameError` for a name that is none.

    Sites of a Python loop are explained by group.
    """
    grouped = rerolled(density)
    if site is not None and site not in grouped.latent_vars:
        owner = [g for g, members in grouped.members.items() if site in members]
        site = owner[0] if owner else density.site(site).name
    names = grouped.latents if site is None else (site,)
    return Explanation({n: _readings(grouped, n) for n in names})


def _readings(density: "Density", site: str) -> tuple[Reading, ...]:
    found = [_reading(density, site, term, accesses) for term, accesses in density.terms_of(site)]
    return tuple({str(r): r for r in found}.values())


def _reading(density: "Density", site: str, term: Term, accesses: Accesses) -> Reading:
    single = all(a.single for a in accesses)
    words = list(dict.fromkeys(_words(site, a) for a in accesses))
    return Reading(term, " and ".join(words), () if single else widenings(density, site, term.atom))


def _words(site: str, access: Access) -> str:
    parts = [_component(c) for c in access.index]
    if not parts:
        return f"{site}"
    if all(p == "its own" for p in parts):
        return "its own element"
    return f"{site}[{', '.join(parts)}]"


def _component(c: Any) -> str:
    if isinstance(c, Affine):
        if not c.axes:
            return str(c.offset)
        if len(c.axes) == 1 and c.coefs[c.axes[0]] == 1:
            return "its own" if c.offset == 0 else f"its own {c.offset:+d}"
        return "an affine index"
    if isinstance(c, Table):
        return f"an index by {', '.join(sorted(c.latents))}" if c.latents else "an index by data"
    return "all"


def widenings(density: "Density", site: str, atom: Any) -> tuple[Widening, ...]:
    """The equations behind `atom` at which single elements of `site` became whole axes."""
    found = {(w.operation, str(w.line)): w for w in _walk(density, site, atom)}
    return tuple(found.values())


def _wide(density: "Density", site: str, atom: Any) -> bool:
    return any(not a.single for a in density.maps[atom].get(site, ()))


def _walk(density: "Density", site: str, atom: Any) -> Iterator[Widening]:
    for var in density.behind(atom, ends=lambda a: not _wide(density, site, a)):
        eqn = density.producer.get(var)
        if eqn is None or not _wide(density, site, var) or any(_wide(density, site, a) for a in eqn.invars):
            continue
        place = equation_line(eqn)
        yield Widening(name_of(eqn), line_at(*place) if place else None)
