"""How much of a log density's constants single precision loses: those of large counts are differences of
logarithms of factorials, a million's of 13 millions."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from gibbsite.density.density import Density

MOST_NATS = 0.002
"""In nats, of one number of each: sums lose some times as much, of a ratio of evidences a percent or so."""
_COUNTED = ("total_count", "concentration", "concentration1", "concentration0", "n")
"""Parameters whose gamma functions are in the constants."""


def lost_to_factorials(density: Density) -> float:
    """About how many nats of the log density the known counts and parameters of all sites cost; 0 in double
    precision."""
    eps = float(jnp.finfo(jnp.result_type(float)).eps)
    if eps < 1e-10:
        return 0.0
    total = 0.0
    ev = density.evaluator({})
    for name, site in density.sites.items():
        atoms = [a for n, a in density.outputs["parameters"].get(name, {}).items() if n in _COUNTED]
        if site.role == "observed" and site.discrete:
            atoms.append(density.outputs["observed"].get(name))
        for atom in atoms:
            if atom is not None and not density.maps.latents(atom):
                large = np.abs(np.asarray(ev.full(atom), float)) + 1.0
                times = max(1.0, np.prod(site.shape, dtype=float) / large.size)
                total += times * float(np.sum(np.minimum(np.nan_to_num(gammaln(large)), 1e30) ** 2))
    return eps / 2 * total**0.5


def as_double(values: Any) -> np.ndarray:
    """Values as NumPy's array, real numbers in double precision."""
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
