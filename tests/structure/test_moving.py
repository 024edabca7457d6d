"""Moves that carry values along: sizes that change, and priors that new elements are drawn from."""

import itertools
import math

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.structure.automaton import Loop
from numpyro import plate, sample
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

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
def test_any_element_goes_and_comes_between_any_two():
    """Of three components one or two are kept, each choice equally often. They come in front, in order, and
    go back to where they were. The choice does not depend on what else is known."""
    structured = gibbsite.model(mixture, Y).structured
    one, two, three = (structured.straight((("K", k),)) for k in range(3))
    loop, keys = Loop(structured.ways, [one, two, three]), jax.random.split(jax.random.key(0), 600)
    mu = jnp.array([1.0, 2.0, 3.0])
    for size, smaller in ((1, one), (2, two)):
        rows = {n: jnp.asarray(v) for n, v in loop.shared(three, smaller).items()}

        def moved(key, rows=rows):
            masks, along = loop._kept(2, rows, loop._lots(key), False, False)
            front = loop._moved({"mu": mu}, along, False, True)["mu"]
            return masks["mu"], front, loop._moved({"mu": front}, along, True, True)["mu"]

        kept, front, back = map(np.asarray, jax.vmap(moved)(keys))
        assert (kept.sum(axis=1) == size).all()
        assert np.array_equal(back[kept], np.broadcast_to(mu, back.shape)[kept])
        assert np.array_equal(front[:, :size].ravel(), np.broadcast_to(mu, kept.shape)[kept])
        _, counts = np.unique(kept, axis=0, return_counts=True)
        assert len(counts) == 3 and stats.chisquare(counts).pvalue > 0.001
    fewer = Loop(structured.ways, [one, two])
    assert np.array_equal(fewer._lots(keys[0]), loop._lots(keys[0])[:2])


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


def changes(y):
    """Any number of steps in the rate of counts; where they are has tables that grow with its power."""
    k = sample("k", dist.Poisson(0.7))
    segment = np.zeros(len(y), int)
    if k:
        with plate("changes", k):
            at = sample("at", dist.DiscreteUniform(1, len(y) - 1))
        segment = (at <= jnp.arange(len(y))[:, None]).sum(axis=1)
    with plate("segments", k + 1):
        rate = sample("rate", dist.Gamma(1.0, 0.6))
    with plate("n", len(y)):
        sample("y", dist.Poisson(rate[segment]), obs=y)


@pytest.mark.slow
def test_change_points_without_a_bound():
    """The recursion over all segmentations; of `k` changes that hit `d` years there are as many as
    surjections."""
    y = np.array([4, 5, 3, 4, 1, 0, 1, 0, 1])
    n, before, most = len(y), np.concatenate([[0], np.cumsum(y)]), 9
    length = np.arange(n + 1) - np.arange(n + 1)[:, None]
    total = np.maximum(before - before[:, None], 0)
    one = gammaln(1 + total) - (1 + total) * np.log(0.6 + np.maximum(length, 0)) + np.log(0.6)
    one = np.where(length > 0, one, -np.inf)
    front, distinct = one[0], [one[0, n]]
    for _ in range(most):
        front = logsumexp(front[:, None] + one, axis=0)
        distinct.append(front[n])
    logs = []
    for k in range(most + 1):
        onto = [sum((-1) ** i * math.comb(d, i) * (d - i) ** k for i in range(d + 1)) for d in range(k + 1)]
        each = [distinct[d] + np.log(onto[d]) - k * np.log(n - 1) for d in range(k + 1) if onto[d]]
        logs.append(logsumexp(each) + k * np.log(0.7) - gammaln(k + 1))
    exact = np.exp(np.array(logs) - logsumexp(logs))
    model = gibbsite.model(changes, y)
    for k in (1, 2, 5):  # the same sites for all sizes, or nothing would be kept between them
        assert model.structured.straight((("k", k),)).gone == ("rate",)
    run = model.sample(draws=8000, warmup=200, chains=2, seed=7)
    for s in run.structures:
        if exact[k := s.given["k"]] > 0.005:
            assert abs(s.probability - exact[k]) < 4 * s.error, (s, exact[k])
    # whichever are one loop from the beginning
    known = [{"k": k} for k in range(4)]
    other = model.sample(draws=300, warmup=200, chains=2, seed=7, structures=known, chunk=41)
    for name, found in other.draws.items():
        axes = tuple(slice(min(a, b)) for a, b in zip(found.shape, run.draws[name].shape, strict=True))
        assert np.array_equal(found[axes], run.draws[name][axes], equal_nan=True), name


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
    factor = run.structures.bayes_factor("c = 1", "c = 0")
    assert abs(factor.log - np.log(one / zero)) < 4 * factor.error
    found = run.structures["c = 1"]
    assert abs(found.probability - 0.4 * one / (0.4 * one + 0.6 * zero)) < 4 * found.error
    table = run.summary()
    assert abs(table.loc["mu", "mean"] - 0.35) < 4 * table.loc["mu", "mcse_mean"]
    mean = integrate.quad(density, 0, 30, args=(1,))[0] / zero
    assert abs(table.loc["nu", "mean"] - mean) < 4 * table.loc["nu", "mcse_mean"]


@pytest.mark.slow
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
