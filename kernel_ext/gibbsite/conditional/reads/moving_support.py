"""Supports that move with other latents."""

import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.maps.access import of_site


def support_movers(density: Density, site: str) -> frozenset[str]:
    """The latents that the support of a site may depend on; a group whose members bound each other is among
    its own.

    They are those in the bounds that the distribution itself gives, or one that it is made of. A distribution
    that NumPyro does not know counts with all of its parameters, unless its support is a constraint of
    NumPyro's, which holds its ends alone.
    """
    name = density.sites[site].fn_name
    computed = (
        _computed_movers(density, site) | _moved_by_affine(density, site) | _read_by_ends(density, site)
    )
    if all(hasattr(dist, n) for n in name.split(" or ")) or _known(density, site):
        return computed
    parameters = density.outputs["parameters"].get(site, {})
    return computed.union(*(density.maps.latents(atom) for atom in parameters.values()))


def _read_by_ends(density: Density, site: str) -> frozenset[str]:
    """The latents in the ends of the support, and in those of distributions that the site's is made of
    (`LogUniform`)."""
    ends = [a for kind in ("supports", "ends") for a in density.outputs.get(kind, {}).get(site, ())]
    return frozenset().union(*(density.maps.latents(a) for a in ends if not isinstance(a, Literal)))


def _known(density: Density, site: str) -> bool:
    """Whether the support of a continuous site is of a class of NumPyro."""
    found = density.sites[site]
    kind = found.interval or type(base_constraint(found.support))
    return not found.discrete and kind.__module__.partition(".")[0] == "numpyro"


def _computed_movers(density: Density, site: str) -> frozenset[str]:
    """The latents in the bounds that the model computes."""
    found: set[str] = set()
    for term in density.bounds:
        if term.origin == site:
            maps = density.maps[term.atom]
            own = of_site(density.sites[site].shape)
            found |= {n for n, accesses in maps.items() if n != site or accesses != own}
    return frozenset(found)


def _moved_by_affine(density: Density, site: str) -> frozenset[str]:
    """The latents in the density of a site whose bounded values go through an affine transform, which calls
    them real unless it is told its domain."""
    name, *transforms = density.transforms.get(site, ("Normal",))
    base = getattr(getattr(dist, name, None), "support", None)
    if "Affine" not in transforms or base is constraints.real or base is constraints.real_vector:
        return frozenset()
    found = [density.maps.latents(t.atom) for t in density.terms if t.origin == site]
    return frozenset().union(*found) - {site}


def bounded_by(density: Density, site: str) -> tuple[str, ...]:
    """The sites, latent or observed, whose support the latent `site` may move."""
    named = [n for n, s in density.sites.items() if s.role != "deterministic"]
    return tuple(n for n in named if n != site and site in support_movers(density, n))
