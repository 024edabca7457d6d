"""Supports that move with other latents."""

import numpyro.distributions as dist

from gibbsite.density import Density

# distributions whose support is set by parameters, and which parameters
SUPPORT_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Uniform": ("low", "high"),
    "Pareto": ("scale",),
    "BinomialProbs": ("total_count",),
    "BinomialLogits": ("total_count",),
    "BetaBinomial": ("total_count",),
    "DiscreteUniform": ("low", "high"),
    "MultinomialProbs": ("total_count",),
    "MultinomialLogits": ("total_count",),
    "DirichletMultinomial": ("total_count",),
    "TwoSidedTruncatedDistribution": ("low", "high"),
    "LeftTruncatedDistribution": ("low",),
    "RightTruncatedDistribution": ("high",),
}


def support_movers(density: Density, site: str) -> frozenset[str]:
    """The latents that the support of a site may depend on.

    A distribution that NumPyro does not know, or a truncated one that is not in `SUPPORT_PARAMETERS`,
    counts with all of its parameters.
    """
    name = density.sites[site].fn_name
    parameters = density.outputs["parameters"].get(site, {})
    if name in SUPPORT_PARAMETERS:
        parameters = {k: v for k, v in parameters.items() if k in SUPPORT_PARAMETERS[name]}
    elif hasattr(dist, name) and "Truncated" not in name:
        return frozenset()
    return frozenset().union(*(density.maps.latents(atom) for atom in parameters.values()))


def bounded_by(density: Density, site: str) -> tuple[str, ...]:
    """The sites, latent or observed, whose support the latent `site` may move."""
    named = [n for n, s in density.sites.items() if s.role != "deterministic"]
    return tuple(n for n in named if n != site and site in support_movers(density, n))
