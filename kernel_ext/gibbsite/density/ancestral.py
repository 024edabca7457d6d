"""Which latents no observation can see: they are drawn forward from the others, once per draw."""

from gibbsite.density.current import weighted_latents
from gibbsite.density.density import Density
from gibbsite.ground.once import once


@once
def generated_latents(density: Density) -> tuple[str, ...]:
    """The latents that neither an observed site nor a factor depends on, directly or through others, in
    program order (the generated quantities of Gorinova 2022, thesis §3.4, read off the terms). A prior that
    is improper in name, such as a flat one on an interval, cannot be drawn from, nor one that is weighted
    or masked, and what a distribution of the user's draws may not be what its log density says: none of these
    is one of them, nor is what it depends on."""
    sources = [(t.origin, density.maps.latents(t.atom)) for t in (*density.terms, *density.bounds)]
    latent = set(density.latents)
    seen: set[str] = set()
    more = {n for origin, near in sources if origin not in latent for n in near}
    more |= {n for n in latent if density.sites[n].fn_name == "ImproperUniform"}
    more |= set(weighted_latents(density))
    more |= set(density.doubted)
    while more:
        seen |= more
        more = {n for origin, near in sources if origin in seen for n in near} - seen
    return tuple(n for n in density.latents if n not in seen)
