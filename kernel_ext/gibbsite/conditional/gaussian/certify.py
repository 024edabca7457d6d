"""Which sites are jointly Gaussian given the rest, and how they are best drawn: as a chain or as vectors."""

from gibbsite.conditional.forms.degree import certify_quadratic
from gibbsite.conditional.forms.support import support_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.chain import GaussianChain, chain_axis
from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.conditional.reads.batch import batch_axes
from gibbsite.conditional.reads.moving_support import bounded_by
from gibbsite.density import Density

# a dense factorisation beyond this is slower than gradients
MAX_COUPLED = 1500
# a dense factorisation below this is as fast as the steps of a chain
MIN_CHAIN = 16


def on_the_real_line(density: Density, site: str) -> bool:
    """Whether the support of a continuous latent is the whole real line."""
    try:
        return support_of(density, site).kind == "real"
    except Refused:
        return False


def gaussian_of(density: Density, site: str) -> GaussianConditional:
    """The joint Gaussian conditional of a site on the real line; `Refused` where it is not certified."""
    moved = bounded_by(density, site)
    if moved:
        raise Refused(f"it bounds the support of {', '.join(moved)}")
    degrees = certify_quadratic(density, site)
    if all(degrees[term.atom] < 2 for term, _ in density.terms_of(site)):
        raise Refused(f"no term is quadratic in {site}: nothing gives it a finite variance")
    batch = batch_axes(density, site)
    found = GaussianConditional(density, site, batch, degrees)
    if found.length >= MIN_CHAIN:
        chain = chain_axis(density, site, found.coupled)
        if chain is not None:
            return GaussianChain(density, site, batch, degrees, chain)
    if found.length > MAX_COUPLED:
        raise Refused(f"{found.length} elements of {site} are coupled, more than {MAX_COUPLED}")
    return found
