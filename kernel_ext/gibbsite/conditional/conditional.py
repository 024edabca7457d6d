"""The interface of conditionals: what a site is drawn from, given the rest; also as a line of text."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.errors import ModelError
from gibbsite.printing.elements.indices import Sym
from gibbsite.printing.elements.text import GIVEN, PROPORTIONAL, TIMES, product, subscript
from gibbsite.printing.statements.formula import conditional_html, conditional_latex
from gibbsite.printing.statements.statement import Statement, element_index, factor_text


def _reads(statement: Statement, name: str) -> set[Any]:
    """The indices at which a statement reads the elements of a site, its own value apart."""
    statement.factor()
    return statement.printer.reads.get(name, set())


def _coupled(density: Density, name: str, origins: Sequence[str]) -> bool:
    """Whether some factor reads several elements of the site at once, so that one stands for no other."""
    if not any(n != 1 for n in density.sites[name].shape[: density.sites[name].element_rank]):
        return False
    for origin in origins:
        if origin in density.sites:
            found = _reads(Statement(density, origin, through=name), name)
            several = len(found) > 1 or (origin == name and found)
            if several or any(index is None or not _single(index, density, name) for index in found):
                return True
        else:
            accesses = density.maps[density.outputs["log_prob"][origin]].get(name, ())
            if len(accesses) > 1 or not all(a.single for a in accesses):
                return True
    return False


def _single(index: tuple[Any, ...], density: Density, name: str) -> bool:
    rank = density.sites[name].element_rank
    return all(isinstance(i, int) or (isinstance(i, Sym) and not i.tags) for i in index[:rank])


def _shared(density: Density, origin: str, name: str, index: tuple[str, ...]) -> tuple[str, ...]:
    """Index letters of a factor beside those of the site `name`: the same along axes that run together."""
    own = element_index(density, origin, [i for i in index if not i.isdigit()])
    if origin == name:
        return index
    statement = Statement(density, origin, index=own, through=name)
    shared: dict[str, str] = {}
    for found in _reads(statement, name):
        for place, mine in zip(found or (), index, strict=False):
            for a, i in enumerate(statement.index):
                if isinstance(i, Sym) and place == i and not mine.isdigit():
                    shared.setdefault(own[a], mine)
    return tuple(shared.get(i, i) for i in own)


def conditional_text(density: Density, name: str, origins: Sequence[str], given: Sequence[str]) -> str:
    """`p(site | blanket) ∝ product of the factors that touch it`.

    The left side is one element, `p(z[n] | …)`, where every factor reads one element at a time; else it is
    the whole site, and the right side all of its factors.
    """
    coupled = _coupled(density, name, origins)
    index = () if coupled else element_index(density, name)
    left = subscript(name, index)
    parts = []
    for origin in origins:
        if origin not in density.sites:
            parts.append(factor_text(density, origin))
            continue
        letters = element_index(density, origin) if coupled else _shared(density, origin, name, index)
        extra = [i for i in dict.fromkeys(letters) if i not in index and not i.isdigit()]
        text = Statement(density, origin, letters, through=name).factor()
        parts.append(product(extra) + text)
    names = ", ".join(given)
    head = f"p({left}{GIVEN}{names})" if given else f"p({left})"
    return head + PROPORTIONAL + TIMES.join(parts)


class Conditional(Update):
    """The full conditional of one latent site.

    `kind` is "finite" (elements independent, or coupled and swept), "chain" (drawn jointly by forward
    filtering and backward sampling), "conjugate" or "none"; `reason` says why in words; `cost` what one
    application evaluates; `obstacle` is the `Refused` certificate of a continuous site without one.
    """

    kind: str = "none"

    def __init__(self, density: Density, site: str, reason: str, cost: str = "", obstacle: Any = None):
        self.density = density
        self.site, self.sites = site, (site,)
        self.reason = reason
        self.cost = cost
        self.obstacle = obstacle

    @property
    def signature(self) -> str:
        return repr((self.kind, self.site))

    @property
    def blanket(self) -> tuple[str, ...]:
        """The other latent sites, and the data-bearing sites, that the conditional depends on."""
        origins = [t.origin for t, _ in self.density.terms_of(self.site)]
        near = set().union(*(self.density.maps.latents(t.atom) for t, _ in self.density.terms_of(self.site)))
        near |= {o for o in origins if o in self.density.sites}
        return tuple(n for n in self.density.sites if n in near and n != self.site)

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """One application of the kernel, pure in complete latent values and data arrays."""
        raise self._not_drawn()

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """As `update`, by site."""
        return Drawn({self.site: self.update(key, latents, data)})

    def _not_drawn(self) -> ModelError:
        return ModelError(f"{self.site!r} has no conditional that can be drawn from directly: {self.reason}")

    def sample(self, key: Any, state: Mapping[str, Any]) -> Any:
        """Draw the site given the rest of `state`, shape `site.shape`: one application of the kernel."""
        if self.kind == "none":
            raise self._not_drawn()
        return super().sample(key, state)[self.site]

    def exact_at(self, state: Mapping[str, Any]) -> bool:
        """Whether `sample` draws at a state, rather than to move from the site's own value."""
        return True

    def logits(self, state: Mapping[str, Any]) -> Any:
        """Normalised log probabilities over the support, element by element."""
        raise ModelError(f"{self.site!r} has no finite conditional: {self.reason}")

    @property
    def origins(self) -> tuple[str, ...]:
        """The sites and factors whose densities touch the site, its own first."""
        found = dict.fromkeys(t.origin for t, _ in self.density.terms_of(self.site))
        return (self.site, *(o for o in found if o != self.site))

    @cached_property
    def text(self) -> str:
        """The conditional as one line of text."""
        return conditional_text(self.density, self.site, self.origins, self.blanket)

    @cached_property
    def latex(self) -> str:
        """The conditional in LaTeX, without dollar signs."""
        return conditional_latex(self.text, [*self.density.sites, *self.density.arguments.names])

    @cached_property
    def html(self) -> str:
        """The conditional typeset in HTML, as its LaTeX looks."""
        return conditional_html(self.text, [*self.density.sites, *self.density.arguments.names])

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Conditional {self.kind}: {self.text}>"
