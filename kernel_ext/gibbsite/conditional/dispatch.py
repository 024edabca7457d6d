"""Which kind of conditional a site has: one table, tried from the top."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.certify import certified
from gibbsite.conditional.conjugate.dynamic import dynamic_of
from gibbsite.conditional.conjugate.wishart import is_covariance, wishart_of
from gibbsite.conditional.finite.discrete import FiniteConditional
from gibbsite.conditional.forms.walk import Coupled, Refused
from gibbsite.conditional.gaussian.joint import GaussianChain, gaussian_of, on_the_real_line
from gibbsite.conditional.linear.joint import alike_columns
from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density, rerolled
from gibbsite.errors import ModelError
from gibbsite.ground.once import once
from gibbsite.ground.opaque import attempted, notes_in


@dataclass(frozen=True)
class Kind:
    """A way to draw a site given the rest.

    `fits` says of which sites it is tried; `derive` gives the conditional, raises `Refused` with what
    stands in the way of a certificate, or returns None where it has nothing to add to what others refused.
    """

    name: str
    fits: Callable[[Density, str], bool]
    derive: Callable[[Density, str], Conditional | None]


def _finite(density: Density, site: str) -> bool:
    return density.sites[site].discrete and finite_support(density, site) is not None


def _continuous(density: Density, site: str) -> bool:
    return not density.sites[site].discrete


def _by_elements(density: Density, site: str) -> bool:
    return _continuous(density, site) and not is_covariance(density, site)


def _jointly(density: Density, site: str) -> bool:
    return _continuous(density, site) and on_the_real_line(density, site)


def _gaussian(density: Density, site: str) -> Conditional:
    found = gaussian_of(density, site)
    if not isinstance(found, GaussianChain):
        found.precise = partial(alike_columns, density, site)
    return found


KINDS = (
    Kind("finite", _finite, FiniteConditional),
    Kind("conjugate, element by element", _by_elements, certified),
    Kind("Wishart", is_covariance, wishart_of),
    Kind("jointly Gaussian", _jointly, _gaussian),
    Kind("decided by other sites", _continuous, dynamic_of),
)
"""The first that fits and has a certificate is the site's."""


@once
def conditional_of(density: Density, name: str) -> Conditional:
    """The conditional of a latent site; raises `UnknownNameError` or `ModelError` for other names.

    It is derived once per density. That may happen while something else is being traced (a kernel's `init`
    under `jit`), so whatever the analysis needs of the data is computed at once.
    """
    grouped = rerolled(density)
    if grouped is not density and name in grouped.sites:
        return conditional_of(grouped, name)  # groups of alike sites are array sites there
    site = density.site(name)
    if not site.latent:
        raise ModelError(f"{name!r} is {site.role}, not latent: it has no conditional to draw from")
    obstacle: Refused | None = None
    failed: list[str] = []
    for kind in KINDS:
        try:
            found = attempted(
                f"{kind.name}, as the conditional of {name},",
                lambda kind=kind: kind.derive(density, name) if kind.fits(density, name) else None,
                lambda: None,
                failed,
                (Refused,),
            )
        except Refused as why:
            # where elements only meet, what stops the update of all together is the real obstacle
            if obstacle is None or isinstance(obstacle, Coupled):
                obstacle = why
        else:
            if found is not None:
                notes_in(density.cache).extend(failed)
                return found
    notes_in(density.cache).extend(f for f in failed if f not in notes_in(density.cache))
    if failed:
        return Conditional(density, name, failed[0], obstacle=obstacle or Refused(failed[0]))
    if obstacle is not None:
        return Conditional(density, name, f"not conjugate: {obstacle}", obstacle=obstacle)
    return Conditional(
        density,
        name,
        f"discrete with infinite support ({site.support}): Window draws it, Eliminate sums it out; or "
        f"truncate it (for example a Categorical over 0…K)",
    )
