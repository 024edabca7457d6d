"""What continuous sites leave behind when they are integrated out: messages, and that of a closed family."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jax.scipy.special import gammaln

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.conjugate.families import coefficient
from gibbsite.conditional.conjugate.wishart import WishartConditional
from gibbsite.conditional.draws.gamma import GammaPower
from gibbsite.conditional.forms.forms import LOG, LOG1M, Key
from gibbsite.conditional.forms.walk import Refused
from gibbsite.density.model.tails import held_in_tails
from gibbsite.density.terms import summed
from gibbsite.ground.rising import log_beta_ratio, log_rising_over

# For any value θ of the sites, `log p(rest) = log p(rest, θ) − log p(θ | rest)` (the candidate's formula:
# Besag 1989, "A candidate's formula"; Chib 1995). So a message is a place θ, best near the conditional's
# mean, where single precision loses least, and the log probability of the conditional there: a Gaussian's
# determinant, a Beta's normalising constant and a product of both go through one formula.


Latents = Mapping[str, Any]


class Moments(NamedTuple):
    """Mean and variance of each element of a site given the rest, arrays of the site's shape."""

    mean: Any
    variance: Any


class Message(ABC):
    """Sites whose joint conditional given the rest is known exactly, in the order in which they go; `reason`
    is its family and where it was read, and `cost` the work of one evaluation, in words; `signature` is equal
    for messages that compile to the same program for any data.

    All methods are pure in the values of the other latents and the data arrays.
    """

    sites: tuple[str, ...]
    reason: str
    cost: str
    signature: str

    closed: tuple[str, ...] = ()
    """Sites whose own terms are not to be added to what `settled` leaves: they are part of it."""

    def whole(self) -> "Message":
        """The same for whom adds up all terms."""
        return self

    def counted(self, place: Latents, data: Any) -> Any:
        """What `settled` counts of the own terms of `closed` sites, and the density has not, as it is the
        same everywhere."""
        return jnp.zeros(())

    @abstractmethod
    def settled(self, latents: Latents, data: Any, held: bool) -> tuple[dict[str, Any], Any]:
        """A place of the sites, and the log probability of the conditional there, less the own terms of
        `closed` ones.

        Where `held`, the gradient of the candidate's formula is right with the place held fixed, and costs
        least; without, its derivatives of any order are.
        """

    def proper(self, latents: Latents, data: Any) -> Any:
        """Whether the conditional's family has such parameters; None where moments have to tell."""
        return None

    @abstractmethod
    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """One exact joint draw, by site."""

    @abstractmethod
    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        """Means and variances, by site."""


def _power_moment(d: GammaPower, k: float) -> Any:
    """The mean of `x^k`, infinite where it is."""
    gamma: Any = d.base_dist
    shape = gamma.concentration + k / d.power
    known = jnp.where(shape > 0, shape, 1.0)
    found = jnp.exp(gammaln(known) - gammaln(gamma.concentration) - k / d.power * jnp.log(gamma.rate))
    return jnp.where(shape > 0, found, jnp.inf)


def _inside(x: Any) -> Any:
    """Off the edges of the unit interval, where a log density is infinite."""
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.clip(x, tiny, 1 - jnp.finfo(x.dtype).eps / 2)


# by kind of distribution: a place where its density is neither zero nor infinite, near its mean
_PLACES: dict[type, Callable[[Any], Any]] = {
    dist.Normal: lambda d: d.loc,
    dist.LogNormal: lambda d: jnp.exp(d.loc),
    dist.Gamma: lambda d: d.concentration / d.rate,
    dist.InverseGamma: lambda d: d.rate / (d.concentration + 1),
    dist.Beta: lambda d: _inside(d.mean),
    dist.Dirichlet: lambda d: _inside(d.mean),
    dist.Uniform: lambda d: (d.low + d.high) / 2,
    dist.Pareto: lambda d: d.scale * 2 ** (1 / d.alpha),
    GammaPower: lambda d: (d.base_dist.concentration / d.base_dist.rate) ** (1 / d.power),
    dist.InverseWishart: lambda d: (
        d.scale_matrix / (d.concentration + d.event_shape[-1] + 1)[..., None, None]
    ),
    dist.Wishart: lambda d: d.mean,
}


def place_of(d: Any) -> Any:
    """A place near the mean of a distribution, where its density is finite, held fixed under derivatives;
    None for families without."""
    for kind, place in _PLACES.items():
        if isinstance(d, kind):
            return lax.stop_gradient(place(d))
    return None


def moments_of(d: Any) -> tuple[Any, Any]:
    """Mean and variance."""
    if not isinstance(d, GammaPower):
        return d.mean, d.variance
    mean = _power_moment(d, 1.0)
    return mean, _power_moment(d, 2.0) - mean**2


# The conditional's constant over the prior's. Each of the two is as large as what one has of the other's
# data, which the prior may say more than: a beta with a million trials behind it, and eighteen that hit or
# miss. By family of the prior, of the coefficients of its statistics and of what others add to these.


def _of_beta(own: Mapping[Key, Any], told: Mapping[Key, Any]) -> Any:
    sides = [(coefficient(own, k) + 1.0, coefficient(told, k)) for k in (LOG, LOG1M)]
    return log_beta_ratio(*(jnp.stack(jnp.broadcast_arrays(*s), -1) for s in zip(*sides, strict=True)))


def _of_dirichlet(own: Mapping[Key, Any], told: Mapping[Key, Any]) -> Any:
    return log_beta_ratio(coefficient(own, LOG) + 1.0, coefficient(told, LOG))


def _of_gamma(power: float) -> Callable[[Mapping[Key, Any], Mapping[Key, Any]], Any]:
    key: Key = (power, 0.0, 0.0, 0.0)

    def ratio(own: Mapping[Key, Any], told: Mapping[Key, Any]) -> Any:
        shape, rate = (coefficient(own, LOG) + 1.0) / power, -coefficient(own, key)
        k, more = coefficient(told, LOG) / power, -coefficient(told, key)
        return (
            log_rising_over(shape, k)
            + k * jnp.log((shape + k) / (rate + more))
            - shape * jnp.log1p(more / rate)
        )

    return ratio


# by the prior's class: the family that its conditional has to be of, and the ratio
_RATIOS = {
    "Beta": ("Beta", _of_beta),
    "Dirichlet": ("Dirichlet", _of_dirichlet),
    "Gamma": ("Gamma", _of_gamma(1.0)),
    "Exponential": ("Gamma", _of_gamma(1.0)),
    "InverseGamma": ("InverseGamma", _of_gamma(-1.0)),
}


def _statistic(key: Key, x: Any) -> Any:
    return jnp.log(x) if key == LOG else jnp.log1p(-x) if key == LOG1M else x ** key[0]


def exponents(stats: Mapping[Key, Any], x: Any) -> list[Any]:
    """What each statistic, times its coefficient, is at x."""
    return [c * _statistic(k, x) for k, c in stats.items()]


class ConjugateMessage(Message):
    """One site, its elements independent given the rest; or one covariance matrix, or several."""

    def __init__(self, conditional: ConjugateConditional | WishartConditional):
        self.conditional, self.density = conditional, conditional.density
        self.sites = (conditional.site,)
        self.reason, self.cost, self.signature = conditional.reason, conditional.cost, conditional.signature
        self._ratio = ratio_of(conditional)
        self.closed = self.sites if self._ratio is not None else ()

    def whole(self) -> Message:
        """The same for whom adds up all terms."""
        out = copy.copy(self)
        out._ratio, out.closed = None, ()
        return out

    def _distribution(self, latents: Latents, data: Any) -> Any:
        others = {n: v for n, v in latents.items() if n != self.sites[0]}
        return self.conditional.distribution_at(others, data)

    def _parts(self, latents: Latents, data: Any) -> tuple[dict[Key, Any], ...]:
        assert isinstance(self.conditional, ConjugateConditional)
        others = {n: v for n, v in latents.items() if n != self.sites[0]}
        return self.conditional.parts(self.sites[0], others, data)

    def settled(self, latents: Latents, data: Any, held: bool) -> tuple[dict[str, Any], Any]:
        """A place near the mean. The formula holds at any, so derivatives of every order are right with it
        held fixed."""
        d = self._distribution(latents, data)
        site = self.density.sites[self.sites[0]]
        place = jnp.broadcast_to(place_of(d), site.shape).astype(site.dtype)
        if self._ratio is None:
            return {self.sites[0]: place}, jnp.sum(d.log_prob(place))
        own, told = self._parts(latents, data)
        exponent = sum((jnp.sum(each) for each in exponents(told, place)), start=jnp.zeros(()))
        return {self.sites[0]: place}, exponent - jnp.sum(self._ratio(own, told))

    def proper(self, latents: Latents, data: Any) -> Any:
        """As parameters say, whether or not there are a mean and a variance."""
        d = self._distribution(latents, data)
        d = d.base_dist if isinstance(d, GammaPower) else d
        held = {n: c for n, c in d.arg_constraints.items() if not c.is_discrete and n in vars(d)}
        fits = [jnp.all(c(getattr(d, n)) & jnp.all(jnp.isfinite(getattr(d, n)))) for n, c in held.items()]
        return jnp.all(jnp.stack(fits)) if fits else None

    def counted(self, place: Latents, data: Any) -> Any:
        """The constants of the site's own density that no term has."""
        if self._ratio is None:
            return jnp.zeros(())
        conditional, (site,) = self.conditional, self.sites
        assert isinstance(conditional, ConjugateConditional)
        own, told = self._parts(place, data)
        own = {**{k: jnp.zeros_like(v) for k, v in told.items()}, **own}  # a uniform one has no coefficient
        d = held_in_tails(conditional.family.distribution(own, (None, None)))
        terms = [t for t in self.density.terms if t.origin == site]
        return jnp.sum(d.log_prob(place[site])) - summed(terms, self.density.evaluator(place, data))

    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        return {self.sites[0]: self.conditional.update(key, latents, data)}

    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        shape = self.density.sites[self.sites[0]].shape
        found = moments_of(self._distribution(latents, data))
        return {self.sites[0]: Moments(*(jnp.broadcast_to(x, shape) for x in found))}


def ratio_of(conditional: Conditional) -> Callable[[Mapping[Key, Any], Mapping[Key, Any]], Any] | None:
    """The ratio of constants for a site whose own density is one of the families above, as it is; None for
    others."""
    density, site = conditional.density, conditional.site
    if not isinstance(conditional, ConjugateConditional) or site not in density.outputs["log_prob"]:
        return None
    family, found = _RATIOS.get(density.sites[site].fn_name, ("", None))
    as_written = not density.outputs["weights"].get(site) and not conditional.assumed
    shares = family == "Dirichlet" and LOG1M in conditional.keys  # two, of which one is less the other
    return found if conditional.family.name == family and as_written and not shares else None


_CLOSED = "Normal LogNormal Gamma InverseGamma Beta Dirichlet Uniform Pareto Wishart InverseWishart".split()


def is_closed(conditional: Conditional) -> bool:
    """Whether a conditional's family has a normalising constant in closed form."""
    if not isinstance(conditional, ConjugateConditional | WishartConditional):
        return False
    name = conditional.family.name
    return name in _CLOSED or (name.startswith("power ") and "truncated" not in name)


def conjugate_message(conditional: Conditional) -> ConjugateMessage:
    """The message of a site; `Refused`, with the reason, where its conditional has no closed form."""
    site = conditional.site
    if not isinstance(conditional, ConjugateConditional | WishartConditional):
        raise Refused(f"{site} has no conditional in closed form: {conditional.reason}")
    if not is_closed(conditional):
        raise Refused(
            f"its conditional is {conditional.family.name}, whose normalising constant is none of those that "
            f"are known here"
        )
    if isinstance(conditional, ConjugateConditional) and conditional.limits:
        raise Refused(f"its conditional is {conditional.reason}")
    return ConjugateMessage(conditional)
