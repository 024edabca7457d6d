"""Which messages continuous sites make, together; and which sites can be integrated out."""

from collections.abc import Sequence

import numpy as np

from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.choose import coupled
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.density import Density
from gibbsite.elimination.integrals.conjugate import Message, conjugate_message, is_closed
from gibbsite.elimination.integrals.gaussian import gaussian_message, scaled_message
from gibbsite.ground.once import once


def messages_of(density: Density, sites: Sequence[str]) -> tuple[Message, ...]:
    """The messages of continuous sites, one for each part that shares no term with the others.

    Raises `Refused`, with the site and what stands in its way.
    """
    return tuple(_message(density, part) for part in coupled(density, sites))


def _message(density: Density, part: tuple[str, ...]) -> Message:
    gaussian = tuple(s for s in part if is_gaussian(conditional_of(density, s), chains=True))
    others = tuple(s for s in part if s not in gaussian)
    for site in others:
        try:
            conjugate_message(conditional_of(density, site))
        except Refused as why:
            raise Refused(f"{site!r} cannot be integrated out: {why}") from why
    try:
        if not others:
            alone = conditional_of(density, part[0])
            if len(part) == 1 and isinstance(alone, ConjugateConditional):
                return conjugate_message(alone)
            return gaussian_message(density, part)
        if len(part) == 1:
            return conjugate_message(conditional_of(density, part[0]))
        if gaussian and len(others) == 1:
            return scaled_message(density, gaussian_message(density, gaussian), others[0])
    except Refused as why:
        raise Refused(f"{' and '.join(part)} cannot be integrated out together: {why}") from why
    named = " and ".join(part)
    raise Refused(
        f"{named} cannot be integrated out together: they share terms, and with one of them integrated out "
        f"no closed form is known here for the others; integrate out {' or '.join(map(repr, part))} alone"
    )


def integrable(density: Density, sites: Sequence[str]) -> bool:
    """Whether the continuous `sites` can be integrated out in one block."""
    try:
        messages_of(density, sites)
    except Refused:
        return False
    return True


@once
def eliminable(density: Density) -> tuple[tuple[str, ...], ...]:
    """Blocks of continuous latents that can be integrated out exactly, each as one block: the largest first.

    The first takes in as many as it can, Gaussian sites before others, sites of many elements first; then
    come its parts that share no term, and every other site alone. Sites that decide the supports of others,
    and those without a conditional in closed form, are in none. Empty where there are none. Nothing is said
    of what pays.
    """
    found = []
    for name in density.latents:
        if density.sites[name].discrete:
            continue
        conditional = conditional_of(density, name)
        if (is_gaussian(conditional, chains=True) or is_closed(conditional)) and integrable(density, (name,)):
            found.append(name)

    def first(name: str) -> tuple[bool, int]:
        return not is_gaussian(conditional_of(density, name), chains=True), -int(
            np.prod(density.sites[name].shape, dtype=np.int64)
        )

    whole: tuple[str, ...] = ()
    for name in sorted(found, key=first):
        wider = tuple(n for n in density.latents if n in (*whole, name))
        if integrable(density, wider):
            whole = wider
    blocks = [whole, *coupled(density, list(whole)), *((n,) for n in found)]
    return tuple(dict.fromkeys(b for b in blocks if b))
