"""Moves that carry values along: sizes that change, and priors that new elements are drawn from."""

import itertools

import gibbsite
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import plate, sample
from scipy import integrate, stats
from scipy.special import logsumexp

Y = np.array([-1.48, -1.16, -1.02, 0.51, 0.78])


def mixture(y):
    """One to three components of equal weight; labels are summed out, locations stay or are new."""
    count = sample("K", dist.Categorical(probs=np.array([0.2, 0.5, 0.3]))) + 1
    with plate("k", count):
        mu = sample("mu", dist.Normal(0.0, 1.0))
    with plate("n", len(y)):
        z = sample("z", dist.Categorical(probs=np.full(count, 1 / count)))
        sample("y", dist.Normal(mu[z], 0.5), obs=y)


def evidence(y: np.ndarray, k: int) -> float:
    """The log of the sum over all labellings of Gaussian evidences."""
    found = []
    for labels in itertools.product(range(k), repeat=len(y)):
        total = -len(y) * np.log(k)
        for j in set(labels):
            own = y[np.array(labels) == j]
            cov = 0.25 * np.eye(len(own)) + 1.0
            total += stats.multivariate_normal(np.zeros(len(own)), cov).logpdf(own)
        found.append(total)
    return float(logsumexp(found))


@pytest.mark.slow
def test_a_mixture_of_a_random_number_of_components():
    logs = np.log([0.2, 0.5, 0.3]) + np.array([evidence(Y, k) for k in (1, 2, 3)])
    exact = np.exp(logs - logsumexp(logs))
    run = gibbsite.model(mixture, Y).sample(draws=6000, warmup=500, chains=2, seed=5)
    for s in run.structures:
        assert abs(s.probability - exact[s.given["K"]]) < 4 * s.error, (s, exact)
    assert run.draws["mu"].shape == (2, 6000, 3)
    # components can be renamed: all locations of one structure have one distribution
    mu, k = run.draws["mu"], run.draws["K"]
    assert np.isnan(mu[k == 1][:, 2]).all() and np.isfinite(mu[k == 1][:, :2]).all()


@pytest.mark.slow
def test_a_branch_with_a_site_that_nothing_can_integrate_out():
    """The prior proposes it: `nu` of a Gamma under a Gaussian."""

    def model(x):
        if sample("c", dist.Bernoulli(0.4)):
            m = sample("mu", dist.Normal(0.0, 1.0))
        else:
            m = sample("nu", dist.Gamma(2.0, 1.0))
        sample("x", dist.Normal(m, 1.0), obs=x)

    def density(v: float, power: int = 0) -> float:
        return v**power * stats.gamma(2).pdf(v) * stats.norm(v, 1).pdf(0.7)

    zero = integrate.quad(density, 0, 30)[0]
    one = stats.norm(0, np.sqrt(2)).pdf(0.7)
    run = gibbsite.model(model, 0.7).sample(draws=10_000, chains=2, seed=6)
    found = run.structures["c = 1"]
    assert abs(found.probability - 0.4 * one / (0.4 * one + 0.6 * zero)) < 4 * found.error
    table = run.summary()
    assert abs(table.loc["mu", "mean"] - 0.35) < 4 * table.loc["mu", "mcse_mean"]
    mean = integrate.quad(density, 0, 30, args=(1,))[0] / zero
    assert abs(table.loc["nu", "mean"] - mean) < 4 * table.loc["nu", "mcse_mean"]


def test_data_that_a_structure_cannot_have_give_it_no_weight():
    def model(x):
        if sample("c", dist.Bernoulli(0.5)):
            sample("x", dist.HalfNormal(1.0), obs=x)
        else:
            mu = sample("mu", dist.Normal(0.0, 1.0))
            sample("x", dist.Normal(mu, 1.0), obs=x)

    run = gibbsite.model(model, -0.5).sample(draws=50, warmup=0, chains=2, seed=0)
    assert [s.name for s in run.structures] == ["c = 0"]
    assert run.structures.impossible == ("c = 1",)
    assert "data are impossible there: c = 1" in repr(run.structures)
