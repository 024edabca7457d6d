"""Where supports move with other latents, a fixed change of variables, and so HMC, would be wrong."""

from typing import Any

from gibbsite.conditional.reads.moving_support import bounded_by, support_movers


def moving_support(facts: Any, site: str) -> str | None:
    """Why a gradient kernel would be wrong for a latent: its own support moves, or it moves another's. Where
    runs know the supports (`facts.follows`), coordinates can follow them; what could be drawn exactly, as all
    that hangs together by them, is better drawn so."""
    if site in getattr(facts, "follows", ()):
        return None
    movers = support_movers(facts.density, site)
    if movers:
        return f"its support is bounded by {', '.join(sorted(movers))}"
    bounded = bounded_by(facts.density, site)
    if bounded:
        return f"it bounds the support of {', '.join(bounded)}, which gradients do not see"
    return None
