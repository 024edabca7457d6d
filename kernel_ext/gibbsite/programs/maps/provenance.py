"""Structured provenance: what is known of every array of a flat jaxpr about the sites it depends on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal
from gibbsite.programs.maps.access import Accesses, Shape, everything, union


@dataclass(frozen=True)
class Arg:
    """What the analysis knows of one operand: its variable, its index maps, and its value if it is static."""

    shape: Shape
    accesses: Mapping[str, Accesses]
    var: Any = None
    known: np.ndarray | None = None

    @property
    def latents(self) -> frozenset[str]:
        """The sites that the operand may depend on."""
        return frozenset(self.accesses)


@dataclass
class Provenance:
    """The index maps of every variable of a flat jaxpr.

    `blockers` lists the equations that lost precision, with the sites that they blurred; `notes` what failed
    unforeseen.
    """

    args: dict[Any, Arg]
    site_shapes: Mapping[str, Shape]
    blockers: list[tuple[JaxprEqn, frozenset[str]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, atom: Any) -> Mapping[str, Accesses]:
        """Site name → accesses of the variable or literal `atom`."""
        return {} if isinstance(atom, Literal) else self.args[atom].accesses

    def latents(self, atom: Any) -> frozenset[str]:
        """The sites that `atom` may depend on."""
        return frozenset() if isinstance(atom, Literal) else self.args[atom].latents


def blurred(operands: list[Arg], shape: Shape, site_shapes: Mapping[str, Shape]) -> dict[str, Accesses]:
    """Everything that any operand depends on, at no precision."""
    sites = frozenset().union(*(a.latents for a in operands))
    return {s: everything(len(site_shapes[s]), shape) for s in sorted(sites)}


def merged(several: Sequence[Mapping[str, Accesses]]) -> dict[str, Accesses]:
    """The union of several dependence maps."""
    out: dict[str, Accesses] = {}
    for maps in several:
        for site, accesses in maps.items():
            if accesses:
                out[site] = union(out[site], accesses) if site in out else accesses
    return out
