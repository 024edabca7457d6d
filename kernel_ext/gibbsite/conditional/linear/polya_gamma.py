"""Linear predictors of logistic likelihoods, drawn jointly given Pólya-gamma variates of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.draws.polya_gamma import polya_gamma
from gibbsite.conditional.forms.support import certify_rest, degree_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.collapsed import CollapsedDraw
from gibbsite.conditional.linear.joint import JointGaussian, check_real, is_gaussian, is_plain
from gibbsite.conditional.linear.rows import Row
from gibbsite.conditional.reads.term_access import same_values
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.density.terms import Term, summed
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compiling import once as compiled_once
from gibbsite.programs.jaxpr.primitives import ELEMENTWISE, of_kind

# Logistic likelihoods of linear predictors: the terms that Pólya-gamma variates turn into Gaussian ones.
#
# A Bernoulli, binomial, geometric or negative binomial density is, as a function of its logit `psi`, `exp(a
# psi) / (1 + exp(psi))^b`. Given `omega ~ PG(b, psi)` it is Gaussian in `psi`: `exp((a - b/2) psi - omega
# psi^2 / 2)` (Polson, Scott and Windle 2013). Which terms of the log density these are, and of what `psi`,
# is read off the program: the terms must be functions of one array that is affine in the sites, element by
# element, and the distribution one of those above; `a` and `b` are the slopes of the terms. That the slopes
# are those of such a function is checked over a grid besides.


LAWS = frozenset(
    "BernoulliLogits BernoulliProbs BinomialLogits BinomialProbs GeometricLogits GeometricProbs "
    "NegativeBinomialLogits NegativeBinomialProbs".split()
)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The terms of one site that are a logistic function of `psi`, all of its shape; `atoms` are the
    variables that hold `psi`. `free`: no other latent decides the exponents `b`, whose sum at the bound data
    is `total`; `unit`: each is 0 or 1; `whole`: none lies between 0 and 1."""

    density: Density
    origin: str
    terms: tuple[Term, ...]
    atoms: tuple[Any, ...]
    free: bool = False
    unit: bool = False
    whole: bool = False
    total: float = 0.0

    @property
    def psi(self) -> Any:
        """The linear predictor's variable."""
        return self.atoms[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The linear predictor's shape."""
        return tuple(self.psi.aval.shape)

    def slope(self, psi: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """The derivative of the terms along each element of `psi`."""

        def total(psi: Any) -> Any:
            ev = self.density.evaluator(latents, data)
            ev.give(dict.fromkeys(self.atoms, psi))
            return summed(self.terms, ev)

        return jax.grad(total)(psi)

    def exponents(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """`b` and `a - b/2`, each of the shape of `psi`: from the slopes at 1 and at -1."""
        one = jnp.ones(self.shape, self.psi.aval.dtype)
        high, low = self.slope(one, latents, data), self.slope(-one, latents, data)
        # a - b s(1) and a - b s(-1), with s the logistic function
        b = (low - high) / (2 * jax.nn.sigmoid(1.0) - 1)
        return jnp.round(b) if self.unit else b, (high + low) / 2

    def __str__(self) -> str:
        return self.origin


def logistic_terms(
    density: Density, sites: tuple[str, ...]
) -> tuple[dict[Any, int], dict[int, Term], tuple[Likelihood, ...]]:
    """What the log density of `sites` is made of: certified degrees, the terms that are logistic by number,
    and the likelihoods that these are.

    Raises `Refused` where a term is neither quadratic nor logistic, or none is logistic.
    """
    degrees, others = certify_rest(density, sites)
    by_origin: dict[str, dict[int, Term]] = {}
    for i, (term, why) in others.items():
        law = density.sites[term.origin].fn_name if term.origin in density.sites else "factor"
        if law not in LAWS:
            raise Refused(f"{why}, and no logistic likelihood")
        by_origin.setdefault(term.origin, {})[i] = term
    if not by_origin:
        raise Refused(f"no logistic likelihood reads {' and '.join(sites)}")
    found = [_likelihood(density, sites, o, tuple(t.values()), degrees) for o, t in by_origin.items()]
    return degrees, {i: t for i, (t, _) in others.items()}, tuple(found)


def _likelihood(
    density: Density, sites: tuple[str, ...], origin: str, terms: tuple[Term, ...], degrees: dict[Any, int]
) -> Likelihood:
    atoms: dict[Any, None] = {}
    for term in terms:
        for atom in _frontier(density, sites, term, degrees):
            atoms[atom] = None
    common = _common(density, sites, list(atoms), degrees)
    if common is None:
        raise Refused(f"the density of {origin} reads more than one linear predictor")
    # many sites and groups of sites are linear in one predictor: it is looked at once
    key = ("logistic", origin, frozenset(t.atom for t in terms), frozenset(common))
    if key not in density.cache:
        plain = Likelihood(density, origin, terms, common)
        b = _checked(plain)
        density.cache[key] = plain if b is None else replace(plain, free=True, **_told(b))
    return density.cache[key]


def _told(b: np.ndarray) -> dict[str, Any]:
    """What `Likelihood` tells of the exponents."""
    return {
        "unit": bool(np.all(np.minimum(abs(b), abs(b - 1)) < 1e-3)),
        "whole": bool(np.all((abs(b) < 1e-3) | (b > 1 - 1e-3))),
        "total": float(np.sum(b, dtype=np.float64)),
    }


def _common(
    density: Density, sites: tuple[str, ...], atoms: Sequence[Any], degrees: dict[Any, int]
) -> tuple[Any, ...] | None:
    """The variables of the one array that all `atoms` are computed from element by element: `psi` for `psi`
    and `-psi`. Several where it is computed anew for each."""

    def sources(atom: Any) -> list[Any]:
        out = [atom]
        while True:
            eqn = density.producer.get(out[-1])
            if eqn is None or not of_kind(eqn, ELEMENTWISE):
                return out
            live = [a for a in eqn.invars if not density.maps.latents(a).isdisjoint(sites)]
            if len(live) != 1 or live[0].aval.shape != atom.aval.shape:
                return out
            if degree_of(density, sites, live[0], degrees) != 1:
                return out
            out += live

    chains = [sources(a) for a in atoms]
    for candidate in chains[0]:
        found = [next((a for a in c if same_values(density, a, candidate)), None) for c in chains]
        if all(a is not None for a in found):
            return tuple(dict.fromkeys(found))
    return None


def _frontier(density: Density, sites: Sequence[str], term: Term, degrees: dict[Any, int]) -> list[Any]:
    """The arrays, affine in the sites, that a term is a function of element by element."""
    found: dict[Any, None] = {}
    free = lambda a: density.maps.latents(a).isdisjoint(sites)  # noqa: E731
    for atom in density.behind(term.atom, ends=lambda a: a in found or free(a)):
        if free(atom):
            continue
        where = f"the density of {term.origin}"
        if tuple(atom.aval.shape) != term.shape:
            raise Refused(f"{where} is no function of one linear predictor element by element")
        if degree_of(density, tuple(sites), atom, degrees) == 1:
            found[atom] = None
            continue
        if not of_kind(density.producer.get(atom), ELEMENTWISE):
            raise Refused(f"{where} is no function of a linear predictor of {' and '.join(sites)}")
    return list(found)


def _checked(found: Likelihood) -> Any:
    """The exponents `b` at the bound data; None where other latents decide them. Raises `Refused` where the
    slopes over a grid are not those of a logistic function."""
    density = found.density
    free = all(_reads_only(density, t, found.atoms) for t in found.terms)
    sites = {n: s for n, s in density.sites.items() if s.latent}
    data = tuple(density.arguments.arrays)
    dtype = found.psi.aval.dtype

    def feasible(site: Any) -> Any:
        found = site.support.feasible_like(jnp.zeros(site.shape, site.dtype))
        return jnp.broadcast_to(jnp.asarray(found, site.dtype), site.shape)

    def at(data: Any) -> Any:
        latents = {n: feasible(s) for n, s in sites.items()}
        b, kappa = found.exponents(latents, data)
        grid = jnp.linspace(-5.0, 5.0, 20, dtype=dtype)  # not 0, where max(psi, 0) has a kink
        slopes = jax.vmap(lambda x: found.slope(jnp.full(found.shape, x, dtype), latents, data))(grid)
        expected = kappa - jax.vmap(lambda x: b * (jax.nn.sigmoid(x) - 0.5))(grid)
        return b, jnp.max(abs(slopes - expected) / jnp.maximum(abs(b), 1.0))

    b, off = jax.device_get(compiled_once(at, data))
    if not (np.all(np.isfinite(b)) and np.all(np.asarray(b) > -1e-3) and off < 1e-3):
        raise Refused(f"the density of {found.origin} is not logistic in its linear predictor")
    return np.asarray(b) if free else None


def _reads_only(density: Density, term: Term, atoms: Sequence[Any]) -> bool:
    """Whether a term depends on latents through `atoms` alone."""
    read = set(density.behind(term.atom, ends=lambda a: a in atoms)) - set(atoms)
    return read.isdisjoint(density.latent_vars.values())


class PolyaGammaBlock(Update):
    """An update of `sites` that leaves their joint conditional invariant (Polson, Scott and Windle 2013).

    One variate is drawn for each element of each likelihood given the sites, and forgotten after the sites
    have been drawn given them: those of the linear predictors jointly, by `gaussian`, and others among the
    sites, such as the scales of effects, right before with these integrated out.
    """

    measured = True

    def __init__(self, density: Density, sites: Sequence[str]):
        linear = tuple(s for s in sites if _linear(density, s))
        outer = [s for s in sites if s not in linear]
        if not linear:
            raise Refused(f"no logistic likelihood reads {' and '.join(sites)} in a linear predictor")
        check_real(density, linear)
        degrees, terms, self.likelihoods = logistic_terms(density, linear)
        if outer and not all(x.free for x in self.likelihoods):
            raise Refused(f"{' and '.join(outer)} cannot be drawn beside exponents that latents decide")
        rows = [_row(x) for x in self.likelihoods]
        for x, row in zip(self.likelihoods, rows, strict=True):
            if not is_plain(density, linear, degrees, row):
                raise Refused(f"the linear predictor of {x.origin} is computed in a way that has no slope")
        self.density, self.sites = density, tuple(sites)
        self.gaussian = JointGaussian(density, linear, degrees, rows, frozenset(terms))
        self._draw = CollapsedDraw(density, outer, self.gaussian) if outer else self.gaussian
        self.eliminated = self._draw.eliminated
        of = " and ".join(x.origin for x in self.likelihoods)
        self.reason = f"given Pólya-gamma variates of {of}, {self._draw.reason}"
        self.cost = f"a Pólya-gamma variate for each element of {of}, then {self._draw.cost}"

    @property
    def fresh(self) -> tuple[str, ...]:
        """None: variates are drawn given the sites."""
        return ()

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """The variates, then the sites given them."""
        auxiliary = {}
        others = {n: v for n, v in latents.items() if n not in self.gaussian.sites}
        ev = self.density.evaluator(latents, data)
        key, *keys = jax.random.split(key, 1 + len(self.likelihoods))
        for x, k in zip(self.likelihoods, keys, strict=True):
            b, kappa = x.exponents(others, data)
            omega = polya_gamma(k, b, ev.full(x.psi), unit=x.unit, whole=x.whole)
            auxiliary[f"omega {x.origin}"], auxiliary[f"kappa {x.origin}"] = omega, kappa
        return self._draw.drawn(key, latents, data, auxiliary)

    @property
    def signature(self) -> str:
        kinds = [(x.origin, x.unit, x.whole) for x in self.likelihoods]
        return repr((kinds, self._draw.signature))


def _linear(density: Density, site: str) -> bool:
    """Whether a site is Gaussian given the rest and Pólya-gamma variates."""
    if density.sites[site].discrete:
        raise Refused(f"{site} is discrete")
    if is_gaussian(conditional_of(density, site)):
        return True
    try:
        check_real(density, (site,))
        logistic_terms(density, (site,))
    except Refused:
        return False
    return True


def _row(x: Likelihood) -> Row:
    return Row(
        x.shape,
        x.psi,
        x.psi,
        lambda ev, auxiliary: -auxiliary[f"omega {x.origin}"] / 2,
        lambda ev, auxiliary: auxiliary[f"kappa {x.origin}"],
    )


@once
def polya_gamma_block(density: Density, sites: Sequence[str]) -> PolyaGammaBlock:
    """The Pólya-gamma update of several sites of `density`; `Refused` where there is none.

    It is derived once per density.
    """
    return PolyaGammaBlock(density, sites)
