"""Independence that holds in a context: edges that the values of some sites leave without effect.

A switch that is known to be off cuts what it gates off from what reads it (Boutilier, Friedman, Goldszmidt
and Koller 1996, "Context-specific independence in Bayesian networks").
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.liveness import needed_by
from gibbsite.errors import DataError
from gibbsite.printing.statements.dependencies import named_values
from gibbsite.programs.jaxpr.compat import Literal

Edge = tuple[str, str]


def removed_edges(density: Density, edges: Iterable[Edge], given: Mapping[str, Any]) -> frozenset[Edge]:
    """The edges from latents and deterministic values to statements that do not depend on them while the
    sites of `given` have their values: latents those given here, observed ones their data.

    Raises `DataError` for a value that does not fit its site.
    """
    edges = list(edges)
    values = {n: _value(density, n, v) for n, v in given.items() if n in density.latent_vars}
    touched = {child for parent, child in edges if parent in given}
    atoms = {n: v for v, n in named_values(density).items()}
    out = set()
    for child in touched:
        kind = "deterministic" if child in density.outputs["deterministic"] else "log_prob"
        root = density.outputs[kind].get(child)
        if root is None or isinstance(root, Literal):
            continue
        need = needed_by(density, [root], values)
        for parent, to in edges:
            atom = atoms.get(parent)
            latent = atom is not None and density.maps.latents(atom) - values.keys()
            if to == child and parent not in given and latent and not np.any(need.get(atom, False)):
                out.add((parent, child))
    return frozenset(out)


def _value(density: Density, name: str, value: Any) -> np.ndarray:
    site = density.sites[name]
    try:
        return np.broadcast_to(np.asarray(value, site.dtype), site.shape)
    except (ValueError, TypeError) as error:
        raise DataError(f"given: {value!r} is no value of {name!r}, whose shape is {site.shape}") from error
