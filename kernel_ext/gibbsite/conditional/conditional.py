"""The interface of conditionals: what a site is drawn from, given everything else."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from gibbsite.conditional.text import conditional_text
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.errors import ModelError
from gibbsite.printing.statements.html import conditional_html
from gibbsite.printing.statements.latex import conditional_latex


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
