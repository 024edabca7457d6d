"""Grammars, restaurants, sticks and hidden chains: all trees, seatings and paths are listed."""

import itertools

import gibbsite
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import plate, sample
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

MOST_Z = 4.0  # of a Monte Carlo error: 1 of 30,000 such numbers lies beyond


def agrees(draws: np.ndarray, exact: float) -> None:
    """The mean of draws `[chain, draw]`, with a standard error of twenty batches per chain."""
    batches = draws[:, : draws.shape[1] // 20 * 20].reshape(len(draws) * 20, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(len(batches))
    assert abs(draws.mean() - exact) < MOST_Z * error, (draws.mean(), error, exact)


def gaussian(values: np.ndarray, noise: float, sd: float = 1.0) -> float:
    """The log evidence of values with one mean, which is Normal(0, sd)."""
    cov = noise**2 * np.eye(len(values)) + sd**2
    return stats.multivariate_normal(np.zeros(len(values)), cov).logpdf(values)


def grouped(y: np.ndarray, labels: np.ndarray, noise: float) -> float:
    return sum(gaussian(y[labels == k], noise) for k in set(labels.tolist()))


@pytest.mark.slow
def test_a_grammar():
    """S → S S | word, words of Normal(1, 1), of which the sum is seen: trees with n words are as many as
    Catalan's numbers, all equally probable."""
    p, noise, y = 0.2, 0.5, 2.3

    def grammar(y):
        def phrase(at):
            if sample(f"split{at}", dist.Bernoulli(p)):
                return phrase(f"{at}l") + phrase(f"{at}r")
            return sample(f"word{at}", dist.Normal(1.0, 1.0))

        sample("y", dist.Normal(phrase(""), noise), obs=y)

    n = np.arange(1, 60)
    log = (n - 1) * np.log(p) + n * np.log(1 - p) + stats.norm(n, np.sqrt(n + noise**2)).logpdf(y)
    catalan = gammaln(2 * n - 1) - 2 * gammaln(n) - np.log(n)
    weights = np.exp(log + catalan - logsumexp(log + catalan))
    run = gibbsite.model(grammar, y).sample(draws=700, warmup=50, chains=2, seed=0)
    words = np.zeros(run.structures.index.shape)
    trees = [s for s in run.structures if len(s.given) == 5]
    for i, s in enumerate(run.structures):
        words[run.structures.index == i] = (len(s.given) + 1) / 2
    for k in (1, 2, 3):
        agrees((words == k).astype(float), weights[k - 1])
    assert len(trees) == 2  # both trees of three words, which are as probable
    assert abs(trees[0].probability - trees[1].probability) < MOST_Z * np.hypot(
        trees[0].error, trees[1].error
    )


@pytest.mark.slow
def test_a_restaurant_customer_by_customer():
    """Customers who ask where the others sit: every seating is a structure."""
    y, alpha, noise = np.array([-1.1, -0.8, 0.9, 1.0]), 0.8, 0.5

    def restaurant(y):
        counts: list[int] = []
        tables = []
        for i, value in enumerate(y):
            z = int(sample(f"z[{i}]", dist.Categorical(np.array([*counts, alpha]) / (i + alpha)))) if i else 0
            if z == len(counts):
                tables.append(sample(f"mu[{z}]", dist.Normal(0.0, 1.0)))
                counts.append(0)
            counts[z] += 1
            sample(f"y[{i}]", dist.Normal(tables[z], noise), obs=value)

    logs = {}
    for rest in itertools.product(range(4), repeat=3):
        labels = np.array([0, *rest])
        if all(labels[i] <= labels[:i].max() + 1 for i in range(1, 4)):
            sizes = np.bincount(labels)
            logs[rest] = len(sizes) * np.log(alpha) + gammaln(sizes).sum() + grouped(y, labels, noise)
    assert len(logs) == 15
    total = logsumexp(list(logs.values()))
    run = gibbsite.model(restaurant, y).sample(draws=2500, warmup=50, chains=2, seed=0)
    for s in run.structures:
        exact = np.exp(logs[tuple(s.given.values())] - total)
        assert abs(s.probability - exact) < MOST_Z * s.error, (s, exact)
    assert len(run.structures) == 15


@pytest.mark.slow
def test_a_stick_that_is_broken_as_its_author_wrote_it():
    """AutoGibbs's infinite mixture: a truncated stick, and one statement for each label and datum."""
    y, alpha, noise, sticks = np.array([-1.2, -0.9, 0.2, 0.9, 1.1]), 2.0, 0.4, 3

    def imm_stick(y, alpha, K):
        v = sample("v", dist.Beta(1.0, alpha).expand([K - 1]).to_event(1))
        w = jnp.concatenate([v, jnp.ones(1)]) * jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - v)])
        z = [sample(f"z[{n}]", dist.Categorical(w)) for n in range(len(y))]
        mu = sample("mu", dist.Normal(0.0, 1.0).expand([K]).to_event(1))
        for n in range(len(y)):
            sample(f"y[{n}]", dist.Normal(mu[z[n]], noise), obs=y[n])

    logs, labels = [], []
    for z in map(np.array, itertools.product(range(sticks), repeat=len(y))):
        counts = np.bincount(z, minlength=sticks)
        beyond = counts[::-1].cumsum()[::-1]
        prior = sum(
            betaln(1 + counts[k], alpha + beyond[k + 1]) - betaln(1.0, alpha) for k in range(sticks - 1)
        )
        logs.append(prior + grouped(y, z, noise))
        labels.append(z)
    weights, labels = np.exp(np.array(logs) - logsumexp(logs)), np.array(labels)
    run = gibbsite.model(imm_stick, y, alpha, sticks).sample(draws=6000, warmup=500, chains=2, seed=2)
    z = run.draws["z"]
    for k in range(sticks):
        agrees((z == k).mean(axis=-1), weights @ (labels == k).mean(axis=1))
    for i, j in ((0, 1), (1, 2), (2, 3), (0, 4)):
        agrees((z[..., i] == z[..., j]).astype(float), weights @ (labels[:, i] == labels[:, j]))
    used = np.array([len(set(row.tolist())) for row in labels])
    agrees((np.diff(np.sort(z, axis=-1), axis=-1) != 0).sum(axis=-1) + 1.0, weights @ used)


@pytest.mark.slow
def test_a_small_hidden_chain_whose_rows_share_a_prior():
    """An HDP-HMM of two states: rows and means in closed form, the weights that rows share by quadrature."""
    y, gamma, alpha, noise = np.array([-0.9, -1.1, 0.8, 1.2, 0.9]), 1.5, 2.0, 0.5
    n = len(y)

    def hdp_hmm(y):
        b = sample("b", dist.Beta(gamma / 2, gamma / 2))
        shared = jnp.stack([b, 1 - b])
        with plate("states", 2):
            rows = sample("rows", dist.Dirichlet(alpha * shared))
            mu = sample("mu", dist.Normal(0.0, 1.0))
        before = sample("z[0]", dist.Categorical(shared))
        sample("y[0]", dist.Normal(mu[before], noise), obs=y[0])
        for t in range(1, n):
            before = sample(f"z[{t}]", dist.Categorical(rows[before]))
            sample(f"y[{t}]", dist.Normal(mu[before], noise), obs=y[t])

    # b = sin²: the density of Beta(3/4, 3/4) has no bound at its ends
    angle = (np.arange(4000) + 0.5) / 4000 * np.pi / 2
    b = np.sin(angle) ** 2
    prior = stats.beta(gamma / 2, gamma / 2).pdf(b) * np.sin(2 * angle)
    paths, weights, first = [], [], []
    for z in map(np.array, itertools.product(range(2), repeat=n)):
        moves = np.zeros((2, 2))
        np.add.at(moves, (z[:-1], z[1:]), 1)
        at = np.stack([alpha * b, alpha * (1 - b)])
        log = np.log(np.where(z[0] == 0, b, 1 - b))
        for row in moves:
            log = log + gammaln(alpha) - gammaln(alpha + row.sum())
            log = log + (gammaln(at + row[:, None]) - gammaln(at)).sum(axis=0)
        each = prior * np.exp(log + grouped(y, z, noise))
        paths.append(z)
        weights.append(each.sum())
        first.append((each * b**2).sum())
    weights, paths = np.array(weights), np.array(paths)
    run = gibbsite.model(hdp_hmm, y).sample(draws=6000, warmup=500, chains=2, seed=3)
    z, total = run.draws["z"], weights.sum()
    for i in range(n - 1):
        agrees((z[..., i] == z[..., i + 1]).astype(float), weights @ (paths[:, i] == paths[:, i + 1]) / total)
    agrees(run.draws["b"] ** 2, sum(first) / total)
