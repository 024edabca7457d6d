"""Loops over alike sites whose parameters differ are as conjugate as their members."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.truths.oracle import joint

FAMILIES = {
    "Beta": (lambda i: dist.Beta(2.0, 2.0 + i), lambda m: dist.Bernoulli(m), 1),
    "Beta of halves": (lambda i: dist.Beta(1.0 + 0.5 * i, 1.0), lambda m: dist.Binomial(4, m), 3),
    "Gamma": (lambda i: dist.Gamma(1.0 + i, 2.0), lambda m: dist.Poisson(m), 2),
    "Normal": (lambda i: dist.Normal(i, 1.0 + i), lambda m: dist.Normal(m, 2.0), 0.5),
}


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "Beta" else ()) for n in FAMILIES]
)
def test_the_group_is_conjugate_and_right(name):
    prior, likelihood, y = FAMILIES[name]

    def model():
        for i in range(9):
            m = numpyro.sample(f"m_{i}", prior(i))
            numpyro.sample(f"y_{i}", likelihood(m), obs=y)

    m = gb.model(model)
    conditional = m.conditional("m")
    assert conditional.kind == "conjugate" and m.schedule().text == "Conjugate m"
    points = np.random.default_rng(0).uniform(0.1, 0.9, (4, 9)).astype(np.float32)
    truth = np.array([joint(model, (), {f"m_{i}": p[i] for i in range(9)}) for p in points])
    ours = np.array([conditional.distribution({}).log_prob(jnp.asarray(p)).sum() for p in points])
    assert np.ptp(truth) > 0.1
    np.testing.assert_allclose(ours - ours[0], truth - truth[0], rtol=1e-4, atol=1e-3)
