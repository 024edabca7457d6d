"""NIMBLE's table of conjugate relationships, row by row, and forms beyond it.

NIMBLE's manual lists a prior, a likelihood and the parameter that links them; `NIMBLE` maps each row to the
pair, here or in `conjugate_pairs`, that checks it in NumPyro's parameterisation. Two have no NumPyro
distribution of their own and are written as anybody would: flat priors as `ImproperUniform`, the intrinsic
CAR as the proper `CAR`. NIMBLE's `Weibull(shape, lambda)` is NumPyro's `Weibull(lambda ** (-1 / shape),
shape)`, its `tau` a Normal's `scale ** -2`, its double exponential `Laplace`; `Negative Binomial`'s `prob` is
one minus NumPyro's.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import plate, sample
from numpyro.contrib.control_flow import scan
from numpyro.distributions import constraints

from helpers.truths.conjugate_pairs import BITS, COUNT, GROUP, N, U, Y, Z, near_miss, observe, pair

NIMBLE = {
    ("Beta", "Bernoulli", "prob"): "beta_bernoulli",
    ("Beta", "Binomial", "prob"): "beta_binomial",
    ("Beta", "Negative Binomial", "prob"): "beta_negative_binomial",
    ("Dirichlet", "Multinomial", "prob"): "dirichlet_multinomial",
    ("Dirichlet", "Categorical", "prob"): "mixture_weights",
    ("Flat", "Normal", "mean"): "flat_mean",
    ("Flat", "Lognormal", "meanlog"): "flat_mean_of_a_log_normal",
    ("Gamma", "Poisson", "lambda"): "gamma_poisson",
    ("Gamma", "Normal", "tau"): "precision_as_power",
    ("Gamma", "Lognormal", "taulog"): "precision_of_a_log_normal",
    ("Gamma", "Gamma", "rate"): "gamma_rate_of_gamma",
    ("Gamma", "Inverse Gamma", "scale"): "gamma_rate_of_inverse_gamma",
    ("Gamma", "Exponential", "rate"): "gamma_exponential",
    ("Gamma", "Double Exponential", "rate"): "gamma_rate_of_a_laplace",
    ("Gamma", "Weibull", "lambda"): "gamma_on_a_weibull_scale",
    ("Gamma", "Intrinsic CAR", "tau"): "precision_of_a_car",
    ("Halfflat", "Normal", "sd"): "flat_standard_deviation",
    ("Halfflat", "Lognormal", "sdlog"): "flat_standard_deviation_of_a_log_normal",
    ("Inverse Gamma", "Normal", "var"): "variance_under_a_root",
    ("Inverse Gamma", "Lognormal", "varlog"): "variance_of_a_log_normal",
    ("Inverse Gamma", "Gamma", "scale"): "inverse_gamma_scale_of_gamma",
    ("Inverse Gamma", "Inverse Gamma", "rate"): "inverse_gamma_rate_of_inverse_gamma",
    ("Inverse Gamma", "Exponential", "scale"): "inverse_gamma_scale_of_exponential",
    ("Inverse Gamma", "Double Exponential", "scale"): "inverse_gamma_scale_of_a_laplace",
    ("Normal", "Normal", "mean"): "normal_mean",
    ("Normal", "Lognormal", "meanlog"): "normal_location_of_a_log_normal",
    ("Multivariate Normal", "Multivariate Normal", "mean"): "multivariate_mean",
    ("Wishart", "Multivariate Normal", "prec"): "wishart_precision",
    ("Inverse Wishart", "Multivariate Normal", "cov"): "inverse_wishart_covariance",
}


def flat(constraint):
    # a new one every time: an array remembers the precision in which it was made
    return dist.ImproperUniform(constraint, (), ())


@pair("p", lambda s: {"log(p)": 1 + COUNT.sum(), "log(1-p)": 2 + 4.0 * N})
def beta_negative_binomial():
    observe(dist.NegativeBinomialProbs(4.0, sample("p", dist.Beta(2.0, 3.0))), COUNT)


@pair("p", lambda s: {"log(p)": 1 + 4.0 * N, "log(1-p)": 2 + COUNT.sum()})
def beta_negative_binomial_of_failures():
    observe(dist.NegativeBinomialProbs(4.0, 1 - sample("p", dist.Beta(2.0, 3.0))), COUNT)


@pair("p", lambda s: {"log(p)": 1 + BITS.sum(), "log(1-p)": 2 + (1 - BITS).sum()})
def stacked_probabilities():
    p = sample("p", dist.Beta(2.0, 3.0))
    observe(dist.Categorical(jnp.stack([1 - p, p])), BITS)


@pair("m", lambda s: {"m": Y.sum(), "m^2": -0.5 * N})
def flat_mean():
    observe(dist.Normal(sample("m", flat(constraints.real)), 1.0))


@pair("m", lambda s: {"m": np.log(Y).sum(), "m^2": -0.5 * N})
def flat_mean_of_a_log_normal():
    observe(dist.LogNormal(sample("m", flat(constraints.real)), 1.0))


@pair("t", lambda s: {"log(t)": 1 + N / 2, "t": -3 - 0.5 * ((np.log(Y) - 0.3) ** 2).sum()})
def precision_of_a_log_normal():
    observe(dist.LogNormal(0.3, sample("t", dist.Gamma(2.0, 3.0)) ** -0.5))


@pair("t", lambda s: {"log(t)": 1.0 + N, "t": -3 - np.abs(Y - 0.3).sum()})
def gamma_rate_of_a_laplace():
    observe(dist.Laplace(0.3, 1 / sample("t", dist.Gamma(2.0, 3.0))))


LINE = np.diag(np.ones(N - 1), 1) + np.diag(np.ones(N - 1), -1)


@pair("t", lambda s: {"log(t)": 1 + N / 2, "t": -3 - 0.5 * Y @ (np.diag(LINE.sum(0)) - 0.5 * LINE) @ Y})
def precision_of_a_car():
    t = sample("t", dist.Gamma(2.0, 3.0))
    sample("y", dist.CAR(jnp.zeros(N), 0.5, t, jnp.asarray(LINE)), obs=jnp.asarray(Y.copy()))


@pair("s", lambda s: {"log(s)": -float(N), "s^-2": -0.5 * ((Y - 0.3) ** 2).sum()})
def flat_standard_deviation():
    observe(dist.Normal(0.3, sample("s", flat(constraints.positive))))


@pair("s", lambda s: {"log(s)": -float(N), "s^-2": -0.5 * ((np.log(Y) - 0.3) ** 2).sum()})
def flat_standard_deviation_of_a_log_normal():
    observe(dist.LogNormal(0.3, sample("s", flat(constraints.positive))))


@pair("v", lambda s: {"log(v)": -3 - N / 2, "v^-1": -3 - 0.5 * ((np.log(Y) - 0.3) ** 2).sum()})
def variance_of_a_log_normal():
    observe(dist.LogNormal(0.3, jnp.sqrt(sample("v", dist.InverseGamma(2.0, 3.0)))))


@pair("v", lambda s: {"log(v)": -3 - 2.5 * N, "v^-1": -3 - Y.sum()})
def inverse_gamma_scale_of_gamma():
    observe(dist.Gamma(2.5, 1 / sample("v", dist.InverseGamma(2.0, 3.0))))


@pair("v", lambda s: {"log(v)": -3 - 2.5 * N, "v^-1": -3 - (1 / Y).sum()})
def inverse_gamma_rate_of_inverse_gamma():
    observe(dist.InverseGamma(2.5, 1 / sample("v", dist.InverseGamma(2.0, 3.0))))


@pair("v", lambda s: {"log(v)": -3.0 - N, "v^-1": -3 - np.abs(Y - 0.3).sum()})
def inverse_gamma_scale_of_a_laplace():
    observe(dist.Laplace(0.3, sample("v", dist.InverseGamma(2.0, 3.0))))


# truncated: bounds of the prior, bounds that other sites' values set


@pair("t", lambda s: {"log(t)": float(COUNT.sum()), "t": -float(N)})
def uniform_prior_of_a_rate():
    observe(dist.Poisson(sample("t", dist.Uniform(0.0, 10.0))), COUNT)


@pair("t", lambda s: {"log(t)": 1.0 + COUNT.sum(), "t": -1.0 - N})
def truncated_gamma_prior_of_a_rate():
    observe(dist.Poisson(sample("t", dist.TruncatedGamma(2.0, 1.0, low=0.5, high=3.0))), COUNT)


@pair("s", lambda s: {"log(s)": -float(N), "s^-2": -0.5 * (Y**2).sum()})
def uniform_prior_of_a_standard_deviation():
    observe(dist.Normal(0.0, sample("s", dist.Uniform(0.0, 10.0))))


@pair(
    "s",
    lambda s: {
        "log(s)": -np.array([(s["z"] == k).sum() for k in range(3)]),
        "s^-2": -0.5 * np.array([(Y**2)[s["z"] == k].sum() for k in range(3)]),
    },
    z=Z,
)
def standard_deviations_of_components():
    s = sample("s", dist.Uniform(0.0, 10.0).expand([3]).to_event(1))
    with plate("n", N):
        z = sample("z", dist.Categorical(jnp.ones(3) / 3))
        sample("y", dist.Normal(0.0, s[z]), obs=jnp.asarray(Y.copy()))


@pair("p", lambda s: {"log(p)": BITS.sum(), "log(1-p)": (1 - BITS).sum()})
def probability_within_bounds():
    observe(dist.Bernoulli(sample("p", dist.Uniform(0.2, 0.7))), BITS)


@pair("t", lambda s: {"log(t)": -3.0 - N})
def pareto_end_of_a_uniform():
    observe(dist.Uniform(0.0, sample("t", dist.Pareto(1.0, 2.0))))


@pair(
    "t",
    lambda s: {"log(t)": -3.0 - np.array([(s["z"] == k).sum() for k in range(3)])},
    z=Z,
)
def pareto_ends_of_components():
    t = sample("t", dist.Pareto(1.0, 2.0).expand([3]).to_event(1))
    with plate("n", N):
        z = sample("z", dist.Categorical(jnp.ones(3) / 3))
        sample("y", dist.Uniform(-t[z], 2 * t[z]), obs=jnp.asarray(Y.copy()))


@pair("t", lambda s: {"log(t)": 1.0 - N, "t": -1.0})
def gamma_end_of_a_uniform():
    observe(dist.Uniform(0.0, sample("t", dist.Gamma(2.0, 1.0))))


@pair("t", lambda s: {"log(t)": 1 + 2.0 * N, "t": -1.0})
def gamma_scale_of_a_pareto():
    observe(dist.Pareto(sample("t", dist.Gamma(2.0, 1.0)), 2.0), Y + 9)


@pair("t", lambda s: {"t^2": -0.125})
def sliding_uniform():
    t = sample("t", dist.Normal(0.0, 2.0))
    observe(dist.Uniform(t - 5, t + 5))


@pair("x", lambda s: {"log(x)": float(COUNT.sum()), "x": -float(N)}, t=7.0)
@pair("t", lambda s: {"log(t)": -1.0}, x=3.0)
def two_uniforms():
    t = sample("t", dist.Uniform(0.0, 50.0))
    observe(dist.Poisson(sample("x", dist.Uniform(0.0, t))), COUNT)


# branches


@pair("l1", lambda s: {"log(l1)": 1.0 + COUNT[: s["tau"]].sum(), "l1": -1.0 - s["tau"]}, tau=2, l2=3.0)
@pair("l2", lambda s: {"log(l2)": COUNT[s["tau"] :].sum(), "l2": -0.5 * (N - s["tau"])}, tau=2, l1=3.0)
def changepoint():
    l1 = sample("l1", dist.Gamma(2.0, 1.0))
    l2 = sample("l2", flat(constraints.positive))
    tau = sample("tau", dist.DiscreteUniform(0, N - 1))
    observe(dist.Poisson(jnp.where(jnp.arange(N) < tau, l1, 0.5 * l2)), COUNT)


@pair(
    "a",
    lambda s: {"log(a)": 1.0 + COUNT[s["z"] == 0].sum(), "a": -1.0 - (s["z"] == 0).sum()},
    z=Z,
    b=2.0,
)
def stacked_rates():
    a, b = sample("a", dist.Gamma(2.0, 1.0)), sample("b", dist.Gamma(2.0, 1.0))
    with plate("n", N):
        z = sample("z", dist.Categorical(jnp.ones(3) / 3))
        sample("y", dist.Poisson(jnp.stack([a, b, jnp.asarray(1.0)])[z]), obs=jnp.asarray(COUNT.copy()))


@pair("a", lambda s: {"log(a)": 1.0 + COUNT.sum(), "a": -1 - 3.0 * N}, c=0)
def rate_behind_a_cond():
    c = sample("c", dist.Bernoulli(0.4))
    a = sample("a", dist.Gamma(2.0, 1.0))
    observe(dist.Poisson(jax.lax.cond(c == 1, lambda x: x, lambda x: 3 * x, a)), COUNT)


# seen through


@pair(
    "mu",
    lambda s: {
        "mu": np.array([4 * (Y + 1)[s["z"] == k].sum() for k in range(3)]) / 2.25,
        "mu^2": -0.5 * (1 / 4 + 16 * np.array([(s["z"] == k).sum() for k in range(3)]) / 2.25),
    },
    z=Z,
)
def shifted_and_scaled_components():
    mu = sample("mu", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
    with plate("n", N):
        z = sample("z", dist.Categorical(jnp.ones(3) / 3))
        sample("y", dist.Normal(4 * mu[z] - 1, 1.5), obs=jnp.asarray(Y.copy()))


@pair("t", lambda s: {"log(t)": 1 + 3 / 2, "t": -2 - 0.5 * ((s["b"] - 0.3) ** 2).sum()}, b=U[:3], m=0.3)
@pair("m", lambda s: {"m": s["t"] * s["b"].sum(), "m^2": -0.5 * (1 + 3 * s["t"])}, b=U[:3], t=2.5)
def latents_with_a_precision():
    m, t = sample("m", dist.Normal(0.0, 1.0)), sample("t", dist.Gamma(2.0, 2.0))
    b = sample("b", dist.Normal(m, t**-0.5).expand([3]).to_event(1))
    observe(dist.Normal(b[GROUP], 1.0))


@pair(
    "m",
    lambda s: {"m": Y.sum() + 2 * (U - 1).sum() / 0.25, "m^2": -0.5 * (1 + N + 4 * N / 0.25)},
)
def two_likelihoods():
    m = sample("m", dist.Normal(0.0, 1.0))
    observe(dist.Normal(m, 1.0))
    sample("u", dist.Normal(2 * m + 1, 0.5).expand([N]).to_event(1), obs=jnp.asarray(U.copy()))


@pair(
    "phi",
    lambda s: {
        "phi": (s["x"][1:] * s["x"][:-1]).sum() / 0.16,
        "phi^2": -0.5 * (1 + (s["x"][:-1] ** 2).sum() / 0.16),
    },
    x=U,
)
def coefficient_of_a_scan():
    phi = sample("phi", dist.Normal(0.0, 1.0))

    def step(x, y):
        x = sample("x", dist.Normal(phi * x, 0.4))
        sample("y", dist.Normal(x, 0.5), obs=y)
        return x, None

    scan(step, jnp.zeros(()), jnp.asarray(Y.copy()))


# near misses of what is above


@near_miss("p", "sum")
def probability_of_a_sum_of_odds():
    p = sample("p", dist.Beta(2.0, 3.0))
    observe(dist.NegativeBinomialProbs(4.0, 0.5 * p), COUNT)


@near_miss("t", "bounds the support of y by more than a linear function")
def uniform_up_to_a_square():
    observe(dist.Uniform(0.0, sample("t", dist.Pareto(1.0, 2.0)) ** 2))


@near_miss("t", "masked")
def uniform_with_a_mask():
    t = sample("t", dist.Pareto(1.0, 2.0))
    observe(dist.Uniform(0.0, t).mask(jnp.asarray(BITS == 1)))


@near_miss("t", "logarithm of a sum")
def uniform_around_zero():
    observe(dist.Uniform(-1.0, sample("t", dist.Pareto(1.0, 2.0))))


@near_miss("t", "bounds the support of x")
def exponential_that_starts_at_a_latent():
    t = sample("t", dist.Normal(0.0, 1.0))
    shift = dist.transforms.AffineTransform(t, 1.0, domain=constraints.positive)
    x = sample("x", dist.TransformedDistribution(dist.Exponential(1.0), shift))
    observe(dist.Normal(x, 1.0))


@near_miss("s", "s^-2")
def truncated_gamma_prior_of_a_scale():
    observe(dist.Normal(0.0, sample("s", dist.TruncatedGamma(2.0, 1.0, low=0.5, high=3.0))))


@near_miss("t", "log(1-t)")
def probability_and_mean_at_once():
    t = sample("t", dist.Uniform(0.2, 0.7))
    observe(dist.Bernoulli(t), BITS)
    sample("u", dist.Normal(t, 1.0), obs=0.3)


@near_miss("a", "a^-1")
def rate_and_its_inverse():
    z = sample("z", dist.Bernoulli(0.5).expand([N]).to_event(1))
    a = sample("a", dist.Gamma(2.0, 1.0))
    observe(dist.Poisson(jnp.where(z == 1, a, 1 / a)), COUNT)


@near_miss("a", "logarithm of a sum in a branch")
def sum_behind_a_cond():
    c = sample("c", dist.Normal(0.0, 1.0))
    a = sample("a", dist.Gamma(2.0, 1.0))
    observe(dist.Poisson(jax.lax.cond(c > 1, lambda x: x, lambda x: jnp.exp(jnp.log(x + 1)), a)), COUNT)
