"""Gamma variates, and the distributions that are drawn through them.

JAX's own sampler runs one loop inside another for every element. For batches of some sizes XLA compiles
that on CPUs into a program that for some keys never ends: with three elements and the key of this module's
test it holds up a run for ever. Here is one loop, in which all elements propose until the last is accepted;
it is faster, too. `drawn_here` gives it to any distribution of NumPyro's, `own_gammas` to a whole model.

Of a small concentration, most variates are smaller than any floating-point number: of Gamma(0.01), two in
five in single precision. They come as the smallest normal number rather than as 0, and shares of a whole
that round to 1 as the number below it (`positive`, `share`): so a draw is never on the edge of its support,
where a density of these families is zero or infinite, and the law of everything within is as it was.
"""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.primitives import Messenger

from gibbsite.conditional.draws.multinomial import DirichletMultinomial, MultinomialLogits, MultinomialProbs
from gibbsite.conditional.draws.passes import looped, rounds
from gibbsite.density.model.atoms import part_by_part, whole_total
from gibbsite.programs.jaxpr.compat import is_traced

# proposals that are accepted, at the least: where the concentration is 1 (their table 1)
_ACCEPTED = 0.95


def log_gamma(key: Any, concentration: Any) -> Any:
    """Logarithms of gamma variates with unit rate, of the shape of the array `concentration` and, where it
    holds floats, of its dtype.

    Marsaglia and Tsang (2000), "A simple method for generating gamma variables"; below 1 by their boost,
    in logarithms so that nothing underflows. NaN where the concentration is not above 0.
    """
    a = jnp.asarray(concentration)
    a = a.astype(jnp.result_type(a.dtype, float))
    key, boost_key = jax.random.split(key)
    d = jnp.where(a < 1, a + 1, a) - 1 / 3
    c = 1 / (3 * jnp.sqrt(d))
    tiny = jnp.finfo(a.dtype).tiny

    def propose(carry: Any) -> Any:
        key, out, done = carry
        key, normal_key, uniform_key = jax.random.split(key, 3)
        x = jax.random.normal(normal_key, a.shape, a.dtype)
        u = jax.random.uniform(uniform_key, a.shape, a.dtype)
        root = 1 + c * x
        log_v = 3 * jnp.log(jnp.maximum(root, tiny))
        accepted = (root > 0) & (jnp.log(u) < x * x / 2 + d * (1 - root**3 + log_v))
        return key, jnp.where(done, out, log_v), done | accepted

    start = (key, jnp.full_like(a, jnp.nan), ~((a > 0) & (a < jnp.inf)))
    _, log_v, _ = looped(rounds(_ACCEPTED, a.size), lambda carry: ~jnp.all(carry[2]), propose, start)
    boost = -jax.random.exponential(boost_key, a.shape, a.dtype) / a
    return jnp.log(d) + log_v + jnp.where(a < 1, boost, 0)


def positive(log_value: Any) -> Any:
    """Numbers above 0 from their logarithms: what is too small for its dtype, or the inverse of what is, at
    the number nearest to it that is not. NaN for a logarithm that is infinite: that is no rounding."""
    tiny = jnp.finfo(log_value.dtype).tiny
    near = jnp.clip(jnp.exp(log_value), tiny, 1 / tiny)
    return jnp.where(jnp.isfinite(log_value), near, jnp.nan)


def share(value: Any) -> Any:
    """Numbers in the open interval from 0 to 1: what rounding put on an end is moved to the number beside it.
    NaN stays."""
    info = jnp.finfo(value.dtype)
    return jnp.clip(value, info.tiny, 1 - info.epsneg)


def _log_gammas(d: Any, key: Any, sample_shape: tuple[int, ...]) -> Any:
    return log_gamma(key, jnp.broadcast_to(d.concentration, d.shape(sample_shape)))


class Gamma(dist.Gamma):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return positive(_log_gammas(self, key, sample_shape) - jnp.log(jnp.asarray(self.rate)))


class InverseGamma(dist.InverseGamma):
    """NumPyro's, drawn by `log_gamma`; its density does not overflow where the value's square does."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return positive(jnp.log(jnp.asarray(self.rate)) - _log_gammas(self, key, sample_shape))

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        a, rate = jnp.asarray(self.concentration), jnp.asarray(self.rate)
        normalised = a * jnp.log(rate) - jax.scipy.special.gammaln(a)
        return normalised - (a + 1) * jnp.log(value) - rate / value


class Chi2(dist.Chi2):
    """NumPyro's, drawn by `log_gamma`."""

    sample = Gamma.sample


class Dirichlet(dist.Dirichlet):
    """NumPyro's, drawn by `log_gamma`, of any number of parts."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return share(jax.nn.softmax(_log_gammas(self, key, sample_shape), axis=-1))

    def _validate_sample(self, value: Any) -> Any:
        """NumPyro's allows the sum an error of 1e-6, which that of thousands of shares has by rounding."""
        allowed = max(1e-6, value.shape[-1] * float(jnp.finfo(value.dtype).eps))
        return jnp.all(value >= 0, axis=-1) & (jnp.abs(jnp.sum(value, axis=-1) - 1) < allowed)


class GammaPower(dist.TransformedDistribution):
    """`X^(1/power)` of gamma variates X, drawn by `log_gamma`."""

    def __init__(self, concentration: Any, rate: Any, power: float):
        self.power = power
        super().__init__(dist.Gamma(concentration, rate), dist.transforms.PowerTransform(1.0 / power))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        gamma: Any = self.base_dist
        return positive((_log_gammas(gamma, key, sample_shape) - jnp.log(gamma.rate)) / self.power)


class WishartCholesky(dist.WishartCholesky):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        degrees = self.concentration[..., None] - jnp.arange(self.event_shape[-1])
        return self.scale_tril @ _bartlett(key, degrees, self.shape(sample_shape))


class InverseWishartCholesky(dist.InverseWishartCholesky):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        p = self.event_shape[-1]
        degrees = self.concentration[..., None] + jnp.arange(1 - p, 1)
        factor = _bartlett(key, degrees, self.shape(sample_shape))
        scale = jnp.broadcast_to(jnp.asarray(self.scale_tril), factor.shape)
        # the right-hand factor of `scale @ factor^-1`
        solved = solve_triangular(factor, jnp.swapaxes(scale, -1, -2), trans="T", lower=True)
        return jnp.swapaxes(solved, -1, -2)


def _bartlett(key: Any, degrees: Any, shape: tuple[int, ...]) -> Any:
    """Lower triangular matrices with chi variates of `degrees`, shape `(…, p)`, on the diagonal and normal
    ones below (Bartlett 1933): the factor of a standard Wishart matrix where `degrees` fall by one from row
    to row; where they rise, the inverse of that of an inverse Wishart."""
    chi_key, normal_key = jax.random.split(key)
    half = jnp.broadcast_to(degrees / 2, shape[:-1])
    chi = positive((log_gamma(chi_key, half) + jnp.log(2.0)) / 2)
    normal = jax.random.normal(normal_key, shape, chi.dtype)
    below = jnp.tril(normal, -1)
    return below + chi[..., None] * jnp.eye(shape[-1], dtype=chi.dtype)


_COUNTS = {
    dist.MultinomialProbs: MultinomialProbs,
    dist.MultinomialLogits: MultinomialLogits,
    dist.DirichletMultinomial: DirichletMultinomial,
}
_HERE = {
    dist.Gamma: Gamma,
    dist.InverseGamma: InverseGamma,
    dist.Chi2: Chi2,
    dist.Dirichlet: Dirichlet,
    dist.WishartCholesky: WishartCholesky,
    dist.InverseWishartCholesky: InverseWishartCholesky,
}


def drawn_here(fn: Any) -> Any:
    """The same distribution, in which `log_gamma` draws what NumPyro draws as gamma variates; in the parts of
    a Beta, a Student's t, a mixture, …, too; and with totals that NumPyro can draw with. What holds neither
    is returned as it is."""
    return part_by_part(fn, _here)


def _here(fn: dist.Distribution) -> dist.Distribution:
    fn = whole_total(fn)
    kind = _HERE.get(type(fn))
    unknown = type(fn) in _COUNTS and is_traced(vars(fn)["total_count"])
    if unknown and vars(fn)["total_count_max"] is None:
        kind = _COUNTS[type(fn)]
    if kind is None:
        return fn
    out = copy.copy(fn)
    out.__class__ = kind
    return out


class own_gammas(Messenger):
    """A handler under which every site's distribution is `drawn_here`; inside of `seed`."""

    def process_message(self, msg: Any) -> None:
        """Replaces the distribution by one with the same density."""
        if msg["type"] == "sample":
            msg["fn"] = drawn_here(msg["fn"])
