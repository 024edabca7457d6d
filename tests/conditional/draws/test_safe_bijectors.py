"""Draws of small concentrations: their law where numbers can hold it, and never on an edge of the support."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws.gamma import GammaPower, drawn_here
from gibbsite.conditional.draws.safe_bijectors import transform_to
from gibbsite.conditional.draws.truncated import TruncatedBeta, TruncatedPowerGamma
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer.util import log_density
from scipy import stats

PLACES = (1e-30, 1e-10, 1e-3, 0.1, 0.5, 0.9, 10.0, 1e10)


@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("family", "parameters", "truth"),
    [
        (dist.Gamma, (0.01, 1.0), stats.gamma(0.01)),
        (dist.Gamma, (0.01, 1e-30), stats.gamma(0.01, scale=1e30)),
        (dist.InverseGamma, (0.01, 2.0), stats.invgamma(0.01, scale=2.0)),
        (dist.Chi2, (0.02,), stats.chi2(0.02)),
        (dist.Beta, (0.01, 0.01), stats.beta(0.01, 0.01)),
        (GammaPower, (0.01, 1.0, 0.25), stats.gengamma(0.01, 0.25)),
        (TruncatedPowerGamma, (0.01, 1.0, 1.0, 0.0, np.inf), stats.gamma(0.01)),
        (TruncatedBeta, (0.01, 0.01), stats.beta(0.01, 0.01)),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_the_law_of_what_numbers_can_hold(family, parameters, truth):
    here = drawn_here(family(*parameters))
    x = here.sample(jax.random.key(0), (20_000,))
    assert (x > 0).all() and np.isfinite(x).all() and np.isfinite(here.log_prob(x[:50])).all()
    if here.support is constraints.unit_interval:
        assert (x < 1).all()
    below = np.array([(np.asarray(x, float) <= q).mean() for q in PLACES])
    expected = truth.cdf(PLACES)
    assert (np.abs(below - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / len(x)) + 1e-12).all()


@pytest.mark.slow
def test_shares_of_a_whole_of_many_parts():
    concentration = jnp.full(4000, 0.02)
    x = np.asarray(drawn_here(dist.Dirichlet(concentration)).sample(jax.random.key(1), (30,)))
    assert (x > 0).all() and np.isfinite(dist.Dirichlet(concentration).log_prob(x)).all()
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, atol=1e-5)
    truth = stats.beta(0.02, 3999 * 0.02)
    for q in (1e-30, 1e-6, 1e-2):  # elements of one draw are nearly independent
        p = truth.cdf(q)
        assert abs((x <= q).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / x.size)


@pytest.mark.slow
def test_rounding_does_not_take_many_parts_out_of_their_support():
    theirs = dist.Dirichlet(jnp.full(4000, 0.1), validate_args=True)
    u = jax.random.uniform(jax.random.key(0), (5, 3999), minval=-2.0, maxval=2.0)
    for x in (biject_to(constraints.simplex)(u), transform_to(constraints.simplex)(u)):
        assert np.isfinite(drawn_here(theirs).log_prob(x)).all()
        assert (drawn_here(theirs).log_prob(1.01 * x) == -np.inf).all()


@pytest.mark.parametrize("bad", [(0.5, 0.0), (-0.5, 1.0), (0.5, -1.0)])
def test_what_cannot_be_drawn_is_no_rounding(bad):
    bad = dist.Gamma(*bad, validate_args=False)
    assert np.isnan(drawn_here(bad).sample(jax.random.key(0), (5,))).all()


@pytest.mark.parametrize("support", [constraints.simplex, constraints.positive])
def test_transforms_are_numpyro_s_and_stay_within(support):
    ours, theirs = transform_to(support), biject_to(support)
    x = jax.random.normal(jax.random.key(0), (20, 7)) * 3
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-4)
    slopes = [t.log_abs_det_jacobian(x, t(x)) for t in (ours, theirs)]
    np.testing.assert_allclose(*slopes, rtol=1e-5, atol=1e-5)
    # far out, no mass lies: the density of any concentration falls with every step
    steps = -jnp.arange(100.0, 1000.0, 100.0)[:, None] * jnp.array([1.0, 0, 0, 0, 0, 0, 0])
    values = ours(steps)
    assert (values > 0).all()
    slope = ours.log_abs_det_jacobian(steps, values)
    slope = slope.sum(axis=-1) if slope.ndim > 1 else slope
    density = slope - 0.99 * jnp.log(values[:, 0])
    assert (np.diff(density) < -50).all()


def sparse_topics(doc, word, topics, words):
    phi = numpyro.sample("phi", dist.Dirichlet(jnp.full(words, 0.02)).expand([topics]).to_event(1))
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.full(topics, 0.02)).expand([50]).to_event(1))
    with numpyro.plate("token", len(doc)):
        z = numpyro.sample("z", dist.Categorical(theta[doc]))
        numpyro.sample("w", dist.Categorical(phi[z]), obs=word)


@pytest.mark.slow
def test_sparse_topics_over_many_words():
    """Among thousands of shares of words, many are smaller than any number."""
    rng = np.random.default_rng(0)
    doc, word = np.sort(rng.integers(0, 50, 300)), rng.integers(0, 1000, 300)
    model = gb.model(sparse_topics, doc, word, topics=5, words=1000)
    run = model.sample(draws=4, warmup=4, chains=2, seed=0)
    assert run.status == "finished"
    last = {n: jnp.asarray(run.draws[n][0, -1]) for n in ("phi", "theta", "z")}
    assert (last["phi"] > 0).all() and (last["phi"] < 1e-37).any()
    assert np.isfinite(log_density(sparse_topics, (doc, word, 5, 1000), {}, last)[0])


@pytest.mark.slow
def test_nuts_on_a_simplex_of_small_concentration():
    def model():
        numpyro.sample("p", dist.Dirichlet(jnp.full(6, 0.1)))

    run = gb.model(model).sample(draws=300, warmup=200, chains=8, seed=0, schedule="NUTS p")
    x = np.asarray(run.draws["p"], float)
    truth = stats.beta(0.1, 0.5)
    for q in (1e-20, 1e-4, 0.1):
        share = (x <= q).mean(axis=(1, 2))
        # the spread between chains tells the error
        assert abs(share.mean() - truth.cdf(q)) < 5 * share.std(ddof=1) / np.sqrt(len(share))
