"""A model as one program: latents and data in, log probabilities and all else out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax

from gibbsite.density.terms import Decomposition, Term, bound_terms, whole_term
from gibbsite.ground.opaque import attempted
from gibbsite.programs.jaxpr.compat import ClosedJaxpr
from gibbsite.programs.maps.access import Shape, of_site
from gibbsite.programs.maps.index_maps import index_maps
from gibbsite.programs.maps.provenance import Provenance

if TYPE_CHECKING:
    from gibbsite.density.density import Density


@dataclass(frozen=True, eq=False)
class Program:
    """What passes rewrite.

    The inputs of `closed` are the latents' constrained values, whose shapes `latents` gives by name in that
    order, and then data arrays. `tree` is the structure of its outputs: by kind ("log_prob", "inside", …) and
    site. `groups` are latents, by the name of an array, that may be read as the rows of that array.
    """

    closed: ClosedJaxpr
    latents: Mapping[str, Shape]
    tree: Any
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def rewritten(self, closed: ClosedJaxpr) -> "Program":
        """The same inputs and outputs of another program; itself where `closed` is its own."""
        return self if closed is self.closed else replace(self, closed=closed)

    @property
    def latent_vars(self) -> dict[str, Any]:
        """The variables of the latents, by name."""
        return dict(zip(self.latents, self.closed.jaxpr.invars, strict=False))

    @property
    def data_vars(self) -> tuple[Any, ...]:
        """The variables of the data arrays."""
        return tuple(self.closed.jaxpr.invars[len(self.latents) :])

    def arranged(self, outputs: Iterable[Any]) -> Mapping[str, Mapping[str, Any]]:
        """A list of outputs by kind and site."""
        return jax.tree.unflatten(self.tree, outputs)

    @cached_property
    def maps(self) -> Provenance:
        """Which elements of which latent every variable reads."""
        inputs = {v: (n, of_site(self.latents[n])) for n, v in self.latent_vars.items()}
        return index_maps(self.closed, inputs, self.latents)

    def analysed(self, order: Iterable[str], notes: list[str]) -> dict[str, Any]:
        """What a `Density` says of its program, its latents in this order (other names are passed over);
        `notes` takes what it could not."""
        outputs, variables, maps = self.arranged(self.closed.jaxpr.outvars), self.latent_vars, self.maps
        walk_back, inside = Decomposition(self.closed, maps), outputs["inside"]
        notes += [n for n in maps.notes if n not in notes]

        def terms_of(origin: str, atom: Any) -> tuple[Term, ...]:
            return attempted(
                f"the sum that the density of {origin} is",
                lambda: tuple(walk_back.terms(origin, atom)),
                lambda: whole_term(origin, atom, maps),
                notes,
            )

        def moving() -> tuple[Term, ...]:
            """All indicators that read another latent than their own."""
            found = (t for n, a in inside.items() for t in whole_term(n, a, maps))
            return tuple(t for t in found if maps.latents(t.atom) - {t.origin})

        bounds = attempted(
            "supports that move",
            lambda: bound_terms(walk_back, maps, inside, self.latents),
            moving,
            notes,
        )
        # of whole numbers: a density of real ones that is not a number within its support is to be seen
        counted = {t.origin for t in bounds} & {*outputs["discrete"]}
        terms = (t for n, a in outputs["log_prob"].items() for t in terms_of(n, a))
        return {
            "closed": self.closed,
            "latent_vars": {n: variables[n] for n in order if n in variables},
            "data_vars": self.data_vars,
            "outputs": outputs,
            "maps": self.maps,
            "terms": tuple(replace(t, bounded=True) if t.origin in counted else t for t in terms),
            "bounds": bounds,
        }


def program_of(density: "Density") -> Program:
    """The program of a density."""
    latents = {n: density.sites[n].shape for n in sorted(density.latent_vars)}
    return Program(density.closed, latents, jax.tree.structure(density.outputs))
