"""Logistic likelihoods: what is certified as one, and Pólya-gamma draws against quadrature."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.polya_gamma import polya_gamma_block
from numpyro.handlers import mask, scale

X = np.array([-1.2, -0.4, 0.1, 0.7, 1.3], np.float32)
SEEN = np.array([True, True, False, True, True])
COUNTS = np.array([0, 2, 1, 3, 6])
TOTAL = np.array([3, 5, 1, 4, 6])


def predictor():
    a = numpyro.sample("a", dist.Normal(0.3, 1.5))
    b = numpyro.sample("b", dist.Normal(0, 2.0))
    return a + b * X


def logistic(law, data):
    def model():
        psi = predictor()
        numpyro.sample("y", law(psi), obs=jnp.asarray(data))

    return model


def weighed():
    psi = predictor()
    with mask(mask=SEEN), scale(scale=2.5):
        numpyro.sample("y", dist.Bernoulli(logits=psi), obs=jnp.array([0, 1, 1, 0, 1]))


def dispersed():
    size = numpyro.sample("size", dist.Gamma(3.0, 1.0))
    numpyro.sample("y", dist.NegativeBinomialLogits(size, predictor()), obs=jnp.asarray(COUNTS))


ONES = np.array([0, 1, 1, 0, 1])
SIGMOID = jax.nn.sigmoid
CERTIFIED = {  # b, a of exp(a psi) / (1 + exp(psi))^b
    "Bernoulli": (logistic(lambda p: dist.Bernoulli(logits=p), ONES), np.ones(5), ONES),
    "Bernoulli of a sigmoid": (logistic(lambda p: dist.Bernoulli(SIGMOID(p)), ONES), np.ones(5), ONES),
    "binomial": (logistic(lambda p: dist.Binomial(TOTAL, logits=p), COUNTS), TOTAL, COUNTS),
    "binomial of a sigmoid": (
        logistic(lambda p: dist.Binomial(TOTAL, SIGMOID(p)), COUNTS),
        TOTAL,
        COUNTS,
    ),
    "geometric": (logistic(lambda p: dist.Geometric(logits=p), COUNTS), COUNTS + 1, np.ones(5)),
    "negative binomial": (
        logistic(lambda p: dist.NegativeBinomialLogits(2.5, p), COUNTS),
        COUNTS + 2.5,
        COUNTS,
    ),
    "weighed": (weighed, 2.5 * SEEN, 2.5 * SEEN * ONES),
    "dispersed": (dispersed, COUNTS + 1.7, COUNTS),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CERTIFIED)
def test_the_exponents_of_a_logistic_likelihood_are_read_off(name):
    fn, b, a = CERTIFIED[name]
    model = gb.model(fn)
    (found,) = polya_gamma_block(model.density, ("a", "b")).likelihoods
    latents = {"size": jnp.asarray(1.7)} if "size" in model.sites else {}
    got, kappa = found.exponents(latents, tuple(model.density.arguments.arrays))
    linear = [t for t, _ in model.density.terms_of("a") if t.origin == "y" and t not in found.terms]
    np.testing.assert_allclose(got, b, atol=2e-5)
    # `y psi` may be terms of their own, which stay as they are
    np.testing.assert_allclose(kappa, (0 if linear else a) - np.asarray(b) / 2, atol=2e-5)


def posterior(model, points=161, reach=7.0):
    """Means and standard deviations of a and b by a grid."""
    grid = jnp.linspace(-reach, reach, points)
    a, b = (x.ravel() for x in jnp.meshgrid(grid, grid, indexing="ij"))
    log = jax.jit(jax.vmap(lambda a, b: model.density.log_joint({"a": a, "b": b})))(a, b)
    w = np.exp(np.asarray(log - log.max(), np.float64))
    w /= w.sum()
    out = {}
    for n, x in (("a", a), ("b", b)):
        mean = float(w @ np.asarray(x))
        out[n] = mean, float(np.sqrt(w @ (np.asarray(x) - mean) ** 2))
    return out


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "name", ["binomial", "negative binomial", pytest.param("weighed", marks=pytest.mark.slow)]
)
def test_the_posterior_is_that_of_quadrature(name):
    model = gb.model(CERTIFIED[name][0])
    run = model.sample(schedule="PolyaGamma [a b]", draws=2000, warmup=100, chains=4, seed=0)
    ess = run.summary()["ess_bulk"]
    for n, (mean, sd) in posterior(model).items():
        error = sd / np.sqrt(float(ess[n]))
        assert abs(run.draws[n].mean() - mean) < 4.5 * error
        assert abs(run.draws[n].std() / sd - 1) < 4.5 / np.sqrt(float(ess[n]))


@pytest.mark.slow
def test_a_scale_beside_it_is_drawn_with_the_coefficients_integrated_out():
    model = gb.model(uncertain)
    run = model.sample(schedule="PolyaGamma [a b tau]", draws=2000, warmup=100, chains=4, seed=0)
    line, scales = jnp.linspace(-6.0, 6.0, 61), jnp.linspace(0.02, 6.0, 80)
    a, b, tau = (x.ravel() for x in jnp.meshgrid(line, line, scales, indexing="ij"))
    at = jax.jit(jax.vmap(lambda a, b, tau: model.density.log_joint({"a": a, "b": b, "tau": tau})))
    log = np.asarray(at(a, b, tau), np.float64)
    w = np.exp(log - log.max())
    w /= w.sum()
    for n, x in (("tau", tau), ("b", b)):
        mean = w @ np.asarray(x)
        sd = np.sqrt(w @ (np.asarray(x) - mean) ** 2)
        assert abs(run.draws[n].mean() - mean) < 4.5 * sd / np.sqrt(float(run.summary()["ess_bulk"][n]))


def counts():
    numpyro.sample("y", dist.Poisson(jnp.exp(predictor())), obs=jnp.asarray(COUNTS))


def curved():
    numpyro.sample("y", dist.Bernoulli(logits=predictor() ** 2), obs=jnp.asarray(ONES))


def probit():
    p = jax.scipy.stats.norm.cdf(predictor())
    numpyro.sample("y", dist.Bernoulli(p), obs=jnp.asarray(ONES))


def uncertain():
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0))
    numpyro.sample("y", dist.Bernoulli(logits=predictor() * tau), obs=jnp.asarray(ONES))


@pytest.mark.parametrize("fn", [counts, curved, probit])
def test_other_likelihoods_are_refused(fn):
    with pytest.raises(Refused):
        polya_gamma_block(gb.model(fn).density, ("a", "b"))


def test_what_does_not_belong_into_a_block_is_told():
    model = gb.model(uncertain)
    assert "PolyaGamma" in model.schedule("PolyaGamma [a b] (*) NUTS tau").text
    with pytest.raises(gb.GibbsiteError, match="PolyaGamma cannot update 'size'"):
        gb.model(dispersed).schedule("PolyaGamma [a b size]")
    with pytest.raises(gb.GibbsiteError, match="no logistic likelihood"):
        gb.model(counts).schedule("PolyaGamma a (*) NUTS b")


def hierarchy(y, prior=None):
    def model():
        mean = numpyro.sample("mean", dist.Normal(0, 10.0))
        tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3) if prior is None else prior)
        u = numpyro.sample("u", dist.Normal(mean, tau**-0.5).expand([5]))
        numpyro.sample("y", dist.Binomial(1000, logits=u), obs=jnp.asarray(y))

    return gb.model(model)


def test_the_default_takes_it_for_effects_at_rates_that_are_not_extreme():
    assert hierarchy(100 * COUNTS).schedule().text == "PolyaGamma [tau mean u]"
    # one in a thousand: the variates know fifty times more than the data do
    assert hierarchy(np.array([0, 1, 2, 0, 1])).schedule().text == "NUTS [mean tau u]"
    # a scale that is not conjugate stays together with its effects
    assert hierarchy(100 * COUNTS, dist.HalfNormal(1.0)).schedule().text == "NUTS [mean tau u]"
    # coefficients alone: gradients do as well
    assert "NUTS" in gb.model(CERTIFIED["binomial"][0]).schedule().text
