"""Supports that move with other latents: where a fixed change of variables, and so HMC, would be wrong."""

from typing import Any

import numpyro.distributions as dist

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
}


def support_movers(facts: Any, site: str) -> frozenset[str]:
    """The latents that the support of a site may depend on.

    Distributions that are not in `SUPPORT_PARAMETERS` and are not known to have a fixed support count with
    all of their parameters.
    """
    density, name = facts.density, facts.sites[site].fn_name
    parameters = density.outputs["parameters"].get(site, {})
    cls = getattr(dist, name, None)
    if name in SUPPORT_PARAMETERS:
        parameters = {k: v for k, v in parameters.items() if k in SUPPORT_PARAMETERS[name]}
    elif cls is not None and not _truncated(name):
        return frozenset()
    found: set[str] = set()
    for atom in parameters.values():
        found |= density.maps.latents(atom)
    return frozenset(found)


def _truncated(name: str) -> bool:
    return "Truncated" in name


def moving_support(facts: Any, site: str) -> str | None:
    """Why a gradient kernel would be wrong for a latent: its own support moves, or it moves another's."""
    movers = support_movers(facts, site)
    if movers:
        return f"its support is bounded by {', '.join(sorted(movers))}"
    bounded = [
        n for n, s in facts.sites.items() if s.role != "deterministic" and site in support_movers(facts, n)
    ]
    if bounded:
        return f"it bounds the support of {', '.join(bounded)}, which gradients do not see"
    return None
