"""Every distribution of NumPyro with a density, made of positive parameters `a` of shape `(3,)`.

`MAKERS[name](a)` has batch shape `(3,)`. What has no density of its own to test, or none that MCMC could use,
stands in `LEFT_OUT` with the reason.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import transforms

from helpers.startup.arrays import array

EYE = array(np.eye(2))
PAIR = array([0.3, -0.2])
SIMPLEX = array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]])
CORRELATION = array([[1.0, 0.4], [0.4, 1.0]])
YES = array([True, False, True])


def matrices(a: Any) -> Any:
    return a[:, None, None] * EYE + 0.1


def columns(a: Any) -> Any:
    return jnp.stack([a, 0.5 * a, 1 + a], -1)


def mixing(a: Any) -> Any:
    return dist.Categorical(SIMPLEX * 0.5 + 0.5 * columns(a) / columns(a).sum(-1, keepdims=True))


MAKERS: dict[str, Callable[[Any], Any]] = {
    "AsymmetricLaplace": lambda a: dist.AsymmetricLaplace(a, 1.0, a),
    "AsymmetricLaplaceQuantile": lambda a: dist.AsymmetricLaplaceQuantile(a, a, 0.3),
    "BernoulliLogits": lambda a: dist.BernoulliLogits(a),
    "BernoulliProbs": lambda a: dist.BernoulliProbs(a / 3),
    "Beta": lambda a: dist.Beta(a, 2 * a),
    "BetaBinomial": lambda a: dist.BetaBinomial(a, 2.0, 5),
    "BetaNegativeBinomial": lambda a: dist.BetaNegativeBinomial(1 + a, 2.0, 3.0),
    "BetaProportion": lambda a: dist.BetaProportion(a / 3, 4.0),
    "BinomialLogits": lambda a: dist.BinomialLogits(a, jnp.array([3, 4, 5])),
    "BinomialProbs": lambda a: dist.BinomialProbs(a / 3, jnp.array([3, 4, 5])),
    "CAR": lambda a: dist.CAR(PAIR, a / 3, a, jnp.array([[0.0, 1.0], [1.0, 0.0]])),
    "CategoricalLogits": lambda a: dist.CategoricalLogits(columns(a)),
    "CategoricalProbs": lambda a: dist.CategoricalProbs(columns(a) / columns(a).sum(-1, keepdims=True)),
    "Cauchy": lambda a: dist.Cauchy(a, a),
    "Chi2": lambda a: dist.Chi2(a),
    "CirculantNormal": lambda a: dist.CirculantNormal(
        jnp.zeros((3, 3)), a[:, None] * jnp.array([1.0, 0.2, 0.2])
    ),
    "Dagum": lambda a: dist.Dagum(a, 2.0, a),
    "Delta": lambda a: dist.Delta(a, a),
    "Dirichlet": lambda a: dist.Dirichlet(columns(a)),
    "DirichletMultinomial": lambda a: dist.DirichletMultinomial(columns(a), 4),
    "DiscreteUniform": lambda a: dist.DiscreteUniform(jnp.zeros(3, int), jnp.array([3, 4, 5])),
    "DoublyTruncatedPowerLaw": lambda a: dist.DoublyTruncatedPowerLaw(a, 1.0, 4.0),
    "EulerMaruyama": lambda a: dist.EulerMaruyama(
        jnp.arange(4.0), lambda x, t: (-0.3 * x, jnp.ones_like(x)), dist.Normal(a, 1.0)
    ),
    "ExpandedDistribution": lambda a: dist.Normal(a[0], a[1]).expand([3]),
    "Exponential": lambda a: dist.Exponential(a),
    "FoldedDistribution": lambda a: dist.FoldedDistribution(dist.Normal(a, 1.0)),
    "Gamma": lambda a: dist.Gamma(a, 2 * a),
    "GammaPoisson": lambda a: dist.GammaPoisson(a, 0.5),
    "GaussianCopula": lambda a: dist.GaussianCopula(dist.Normal(columns(a)[:, :2], 1.0), CORRELATION),
    "GaussianRandomWalk": lambda a: dist.GaussianRandomWalk(a, 4),
    "GaussianStateSpace": lambda a: dist.GaussianStateSpace(3, EYE * 0.5, scale_tril=matrices(a)),
    "GeometricLogits": lambda a: dist.GeometricLogits(a),
    "GeometricProbs": lambda a: dist.GeometricProbs(a / 3),
    "Gompertz": lambda a: dist.Gompertz(a, 0.5),
    "Gumbel": lambda a: dist.Gumbel(a, a),
    "HalfCauchy": lambda a: dist.HalfCauchy(a),
    "HalfNormal": lambda a: dist.HalfNormal(a),
    "HurdleGamma": lambda a: dist.HurdleGamma(a / 3, a, 1.0),
    "HurdleLogits": lambda a: dist.HurdleLogits(dist.Poisson(a), a - 1),
    "HurdleLogNormal": lambda a: dist.HurdleLogNormal(a / 3, a, 1.0),
    "HurdlePoisson": lambda a: dist.HurdlePoisson(a / 3, a),
    "HurdleProbs": lambda a: dist.HurdleProbs(dist.Poisson(a), a / 3),
    "HurdleNegativeBinomial2": lambda a: dist.HurdleNegativeBinomial2(a / 3, a, 2.0),
    "Independent": lambda a: dist.Normal(a[:, None] * jnp.ones((3, 2)), 1.0).to_event(1),
    "InverseGamma": lambda a: dist.InverseGamma(a, 2 * a),
    "InverseWishart": lambda a: dist.InverseWishart(4 + a, matrices(a)),
    "InverseWishartCholesky": lambda a: dist.InverseWishartCholesky(4 + a, matrices(a)),
    "Kumaraswamy": lambda a: dist.Kumaraswamy(a, 2 * a),
    "Laplace": lambda a: dist.Laplace(a, a),
    "LeftTruncatedDistribution": lambda a: dist.TruncatedDistribution(dist.Cauchy(a, 1.0), low=-1.0),
    "LeftTruncatedGamma": lambda a: dist.TruncatedGamma(a, 1.0, low=0.5),
    "Levy": lambda a: dist.Levy(0.0, a),
    "LKJ": lambda a: dist.LKJ(3, a),
    "LKJCholesky": lambda a: dist.LKJCholesky(3, a),
    "Logistic": lambda a: dist.Logistic(a, a),
    "LogNormal": lambda a: dist.LogNormal(a, a),
    "LogUniform": lambda a: dist.LogUniform(0.1, jnp.array([3.0, 4.0, 5.0])),
    "LowerTruncatedPowerLaw": lambda a: dist.LowerTruncatedPowerLaw(-1 - a, 0.5),
    "LowRankMultivariateNormal": lambda a: dist.LowRankMultivariateNormal(
        PAIR, a[:, None, None] * jnp.ones((2, 1)), jnp.ones(2)
    ),
    "MaskedDistribution": lambda a: dist.Normal(a, 1.0).mask(YES),
    "MatrixNormal": lambda a: dist.MatrixNormal(jnp.zeros((2, 2)), matrices(a), EYE),
    "MixtureGeneral": lambda a: dist.Mixture(
        mixing(a), [dist.Normal(a, 1.0), dist.Cauchy(-a, 1.0), dist.Laplace(0.0, a)]
    ),
    "MixtureSameFamily": lambda a: dist.Mixture(mixing(a), dist.Normal(columns(a), 1.0)),
    "MultinomialLogits": lambda a: dist.MultinomialLogits(columns(a), 4),
    "MultinomialProbs": lambda a: dist.MultinomialProbs(columns(a) / columns(a).sum(-1, keepdims=True), 4),
    "MultivariateNormal": lambda a: dist.MultivariateNormal(PAIR, matrices(a)),
    "MultivariateStudentT": lambda a: dist.MultivariateStudentT(2 + a, PAIR, EYE),
    "NegativeBinomial2": lambda a: dist.NegativeBinomial2(a, 2.0),
    "NegativeBinomialLogits": lambda a: dist.NegativeBinomialLogits(3, a),
    "NegativeBinomialProbs": lambda a: dist.NegativeBinomialProbs(3, a / 3),
    "Normal": lambda a: dist.Normal(a, a),
    "OrderedLogistic": lambda a: dist.OrderedLogistic(a, jnp.array([-1.0, 0.5, 2.0])),
    "Pareto": lambda a: dist.Pareto(0.1, a),
    "Poisson": lambda a: dist.Poisson(a),
    "ProjectedNormal": lambda a: dist.ProjectedNormal(columns(a)),
    "RelaxedBernoulliLogits": lambda a: dist.RelaxedBernoulliLogits(0.7, a),
    "RightTruncatedDistribution": lambda a: dist.TruncatedDistribution(dist.Laplace(a, 1.0), high=3.0),
    "RightTruncatedGamma": lambda a: dist.TruncatedGamma(a, 1.0, high=3.0),
    "LeftCensoredDistribution": lambda a: dist.LeftCensoredDistribution(dist.Normal(a, 1.0), YES),
    "RightCensoredDistribution": lambda a: dist.RightCensoredDistribution(dist.Normal(a, 1.0), YES),
    "SineBivariateVonMises": lambda a: dist.SineBivariateVonMises(0.3, a, 2.0, 3.0, a / 3),
    "SineSkewed": lambda a: dist.SineSkewed(dist.VonMises(columns(a)[:, :2], 1.0).to_event(1), PAIR),
    "SoftLaplace": lambda a: dist.SoftLaplace(a, a),
    "StudentT": lambda a: dist.StudentT(2 + a, a, a),
    "TransformedDistribution": lambda a: dist.TransformedDistribution(
        dist.Normal(a, 1.0), [transforms.AffineTransform(1.0, 2.0), transforms.ExpTransform()]
    ),
    "TwoSidedTruncatedDistribution": lambda a: dist.TruncatedNormal(a, 1.0, low=-1.0, high=3.0),
    "TwoSidedTruncatedGamma": lambda a: dist.TruncatedGamma(a, 1.0, low=0.2, high=3.0),
    "Uniform": lambda a: dist.Uniform(jnp.zeros(3), jnp.array([3.0, 4.0, 5.0])),
    "VonMises": lambda a: dist.VonMises(a, a),
    "Weibull": lambda a: dist.Weibull(a, 2 * a),
    "Wishart": lambda a: dist.Wishart(3 + a, matrices(a)),
    "WishartCholesky": lambda a: dist.WishartCholesky(3 + a, matrices(a)),
    "ZeroInflatedLogits": lambda a: dist.ZeroInflatedDistribution(dist.Poisson(a), gate_logits=a - 1),
    "ZeroInflatedNegativeBinomial2": lambda a: dist.ZeroInflatedNegativeBinomial2(a, 2.0, gate=a / 3),
    "ZeroInflatedPoisson": lambda a: dist.ZeroInflatedPoisson(a / 3, a),
    "ZeroInflatedProbs": lambda a: dist.ZeroInflatedDistribution(dist.Poisson(a), gate=a / 3),
    "ZeroSumNormal": lambda a: dist.ZeroSumNormal(a[1], (4,)).expand([3]),
}

LEFT_OUT = {
    "Distribution": "the base class",
    "Unit": "what `numpyro.factor` is made of",
    "ImproperUniform": "it cannot be sampled; tested by name",
    "IntervalCensoredDistribution": "its value is a pair; tested by name",
    "GaussianCopulaBeta": "NumPyro needs TensorFlow Probability for it",
    "TruncatedPolyaGamma": "its density is an alternating series; tested by name",
}
