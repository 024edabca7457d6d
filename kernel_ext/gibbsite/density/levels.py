"""Which latents no observation can see: they are drawn forward from the others, once per draw."""

from gibbsite.density.density import Density


def generated_latents(density: Density) -> tuple[str, ...]:
    """The latents that neither an observed site nor a factor depends on, directly or through others, in
    program order (the generated quantities of Gorinova 2022, thesis §3.4, read off the terms). A prior that
    is improper in name, such as a flat one on an interval, cannot be drawn from, and what a distribution of
    the user's draws may not be what its log density says: neither is one of them."""
    if "generated" not in density.cache:
        sources = [(t.origin, density.maps.latents(t.atom)) for t in (*density.terms, *density.bounds)]
        latent = set(density.latents)
        seen: set[str] = set()
        more = {n for origin, near in sources if origin not in latent for n in near}
        more |= {n for n in latent if density.sites[n].fn_name == "ImproperUniform"}
        more |= set(density.doubted)
        while more:
            seen |= more
            more = {n for origin, near in sources if origin in seen for n in near} - seen
        density.cache["generated"] = tuple(n for n in density.latents if n not in seen)
    return density.cache["generated"]
