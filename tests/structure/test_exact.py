"""Chains between structures against exact answers."""

import gibbsite
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import deterministic, plate, sample
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

# of a Monte Carlo error that is known to some percent: 1 of 30,000 such numbers lies beyond
MOST_Z = 4.0


def agrees(estimate: float, error: float, exact: float) -> None:
    assert abs(estimate - exact) < MOST_Z * error, (estimate, error, exact, (estimate - exact) / error)


def share(run, name: str) -> tuple[float, float]:
    one = run.structures[name]
    return one.probability, one.error


def mean(run, label: str) -> tuple[float, float]:
    row = run.summary().loc[label]
    return float(row["mean"]), float(row["mcse_mean"])


@pytest.fixture(scope="module")
def spike():
    """Spike and slab by `if` for two coefficients: all is Gaussian; one structure has nothing to draw."""
    x = np.array([[1.0, 0.3], [0.2, -1.0], [-0.7, 0.5], [1.5, 0.1]])
    y = np.array([1.1, 0.4, -0.9, 1.2])

    def model(x, y):
        total = 0.0
        for i in range(2):
            if sample(f"on[{i}]", dist.Bernoulli(0.3)):
                b = sample(f"b[{i}]", dist.Normal(0.0, 2.0))
            else:
                b = deterministic(f"b[{i}]", 0.0)
            total = total + b * x[:, i]
        with plate("n", len(y)):
            sample("y", dist.Normal(total, 0.5), obs=y)

    return gibbsite.model(model, x, y), x, y


@pytest.mark.slow
def test_spike_and_slab(spike):
    model, x, y = spike
    assert len(model.structured.all) == 4
    logs, means = {}, {}
    for on in np.ndindex(2, 2):
        keep = np.flatnonzero(on)
        cov = 0.25 * np.eye(4) + 4.0 * x[:, keep] @ x[:, keep].T
        prior = sum(np.log(0.3 if o else 0.7) for o in on)
        logs[on] = stats.multivariate_normal(np.zeros(4), cov).logpdf(y) + prior
        means[on] = np.zeros(2)
        means[on][keep] = 4.0 * x[:, keep].T @ np.linalg.solve(cov, y)
    total = logsumexp(list(logs.values()))
    run = model.sample(draws=3000, warmup=100, chains=2, seed=0)
    weights = {on: np.exp(v - total) for on, v in logs.items()}
    for on, weight in weights.items():
        agrees(*share(run, f"on[0] = {on[0]}, on[1] = {on[1]}"), weight)
    # the priors' odds are no part of the evidence's; one of these has nothing to draw
    factor = run.structures.bayes_factor("on[0] = 1, on[1] = 0", "on[0] = 0, on[1] = 0")
    agrees(factor.log, factor.error, logs[1, 0] - logs[0, 0] - np.log(0.3 / 0.7))
    assert factor.error < 0.2
    # `b` is there in every structure, drawn or 0
    assert np.isfinite(run.draws["b[0]"]).all()
    for i in range(2):
        exact = sum(w * means[on][i] for on, w in weights.items())
        agrees(*mean(run, f"b[{i}]"), exact)
    assert run.verdict.ok, run.verdict


@pytest.mark.slow
def test_model_choice_by_if():
    """Poisson or geometric counts: a Bayes factor in closed form; both parameters are integrated out."""
    y = np.array([0, 1, 3, 0, 2, 5, 1, 0, 4, 2])

    def model(y):
        if sample("poisson", dist.Bernoulli(0.5)):
            rate = sample("rate", dist.Gamma(2.0, 1.0))
            with plate("n", len(y)):
                sample("y", dist.Poisson(rate), obs=y)
        else:
            p = sample("p", dist.Beta(2.0, 2.0))
            with plate("n", len(y)):
                sample("y", dist.GeometricProbs(p), obs=y)

    n, s = len(y), y.sum()
    log_poisson = gammaln(2 + s) - (2 + s) * np.log(1 + n) - gammaln(2) - gammaln(y + 1).sum()
    log_geometric = betaln(2 + n, 2 + s) - betaln(2, 2)
    exact = 1 / (1 + np.exp(log_geometric - log_poisson))
    run = gibbsite.model(model, y).sample(draws=3000, warmup=50, chains=2, seed=1)
    agrees(*share(run, "poisson = 1"), exact)
    agrees(*mean(run, "rate"), (2 + s) / (1 + n))
    agrees(*mean(run, "p"), (2 + n) / (4 + n + s))
    assert np.isnan(run.draws["p"][run.draws["poisson"] == 1]).all()


@pytest.mark.slow
def test_change_points_of_a_small_number():
    """0, 1 or 2 steps in a series; where they are is enumerated, heights are Gaussian."""
    y = np.array([0.1, -0.2, 0.3, 1.9, 2.2, 1.8, 0.4])
    n = len(y)

    def model(y):
        count = sample("count", dist.Categorical(probs=np.array([0.5, 0.3, 0.2])))
        level = np.zeros(n)
        if count:
            with plate("steps", count):
                at = sample("at", dist.Categorical(probs=np.full(n, 1 / n)))
                height = sample("height", dist.Normal(0.0, 2.0))
            after = np.arange(n)[:, None] >= at[None, :]
            level = (after * height).sum(axis=1)
        with plate("n", n):
            sample("y", dist.Normal(level, 0.5), obs=y)

    logs = []
    for count, prior in enumerate([0.5, 0.3, 0.2]):
        each = []
        for at in np.ndindex(*(n,) * count):
            after = (np.arange(n)[:, None] >= np.array(at, int)[None, :]).astype(float)
            cov = 0.25 * np.eye(n) + 4.0 * after @ after.T
            each.append(stats.multivariate_normal(np.zeros(n), cov).logpdf(y) - count * np.log(n))
        logs.append(np.log(prior) + logsumexp(each))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    run = gibbsite.model(model, y).sample(draws=4000, warmup=200, chains=2, seed=2)
    for s in run.structures:
        agrees(s.probability, s.error, weights[s.given["count"]])
    assert run.draws["height"].shape == (2, 4000, 2)
    assert np.isnan(run.draws["height"][run.draws["count"] == 1][:, 1]).all()


@pytest.mark.slow
def test_continuous_draws_that_decide():
    """`if a + 1 > b`, another statement on either side: against quadrature; then one decision within another,
    which a third site makes."""

    def model(y):
        a, b = sample("a", dist.Normal(0.0, 1.0)), sample("b", dist.Normal(0.5, 1.0))
        if a + 1.0 > b:
            m = sample("m", dist.Normal(a, 0.5))
        else:
            m = np.float64(2.0) * b
            c = sample("c", dist.Exponential(1.0))
            if c < 0.5:
                m = m - c
        sample("y", dist.Normal(m, 0.7), obs=y)

    y = 1.3
    a, b, c = np.linspace(-6, 6, 401)[:, None, None], np.linspace(-6, 7, 403)[:, None], np.linspace(0, 9, 601)
    prior = stats.norm.pdf(a) * stats.norm.pdf(b, 0.5)

    here = np.broadcast_to(a + 1 > b, (401, 403, 1))[..., 0]
    above = prior[..., 0] * stats.norm.pdf(y, a, np.hypot(0.5, 0.7))[..., 0] * here
    like = stats.norm.pdf(y, 2 * b - c * (c < 0.5), 0.7)
    small = np.trapezoid(stats.expon.pdf(c) * like * (c < 0.5), c, axis=-1)
    rest = np.trapezoid(stats.expon.pdf(c) * like * (c >= 0.5), c, axis=-1)
    near, far = (prior[..., 0] * part * ~here for part in (small, rest))
    total = above.sum() + near.sum() + far.sum()
    found = gibbsite.model(model, y)
    assert found.structured.decisions == ("a+b?", "c?")
    run = found.sample(draws=4000, warmup=200, chains=2, seed=4)
    agrees(*share(run, "a+b? = 1"), above.sum() / total)
    agrees(*share(run, "a+b? = 0, c? = 1"), near.sum() / total)
    agrees(*mean(run, "a"), (a[..., 0] * (above + near + far)).sum() / total)
    agrees(*mean(run, "b"), (b[..., 0] * (above + near + far)).sum() / total)
    draws = run.draws
    assert ((draws["a"] + 1 > draws["b"]) == (draws["a+b?"] == 1)).all()
    assert (draws["c"][draws["c?"] == 1] < 0.5).all()


@pytest.mark.slow
def test_regression_with_a_variable_number_of_knots():
    """A line with none, one or two bends: where they are is enumerated, slopes are Gaussian."""
    x, grid = np.linspace(-1.0, 1.0, 9), np.array([-0.6, -0.2, 0.2, 0.6])
    y = np.array([0.9, 0.7, 0.2, 0.1, -0.1, 0.3, 0.8, 0.9, 1.6])
    priors = [0.3, 0.4, 0.3]

    def model(x, y):
        count = sample("count", dist.Categorical(probs=np.array(priors)))
        slope = sample("slope", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        line = slope[0] + slope[1] * x
        if count:
            with plate("knots", count):
                at = sample("at", dist.Categorical(probs=np.full(4, 0.25)))
                bend = sample("bend", dist.Normal(0.0, 2.0))
            line = line + (jnp.maximum(x[:, None] - jnp.asarray(grid)[at], 0.0) * bend).sum(axis=1)
        with plate("n", len(x)):
            sample("y", dist.Normal(line, 0.4), obs=y)

    logs = []
    for count, prior in enumerate(priors):
        each = []
        for at in np.ndindex(*(4,) * count):
            bends = np.maximum(x[:, None] - grid[np.array(at, int)], 0.0)
            cov = 0.16 * np.eye(9) + 1.0 + np.outer(x, x) + 4.0 * bends @ bends.T
            each.append(stats.multivariate_normal(np.zeros(9), cov).logpdf(y) - count * np.log(4))
        logs.append(np.log(prior) + logsumexp(each))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    run = gibbsite.model(model, x, y).sample(draws=4000, warmup=200, chains=2, seed=5)
    assert len(run.structures) == 3
    for s in run.structures:
        agrees(s.probability, s.error, weights[s.given["count"]])


def cart(x, y):
    """A tree over two columns: a node splits with probability .6, at a column's 0, while there is depth."""

    def node(name, rows, depth):
        if depth and sample(f"split{name}", dist.Bernoulli(0.6)):
            column = sample(f"column{name}", dist.Bernoulli(0.5))
            left = x[:, int(column)] < 0
            node(f"{name}l", rows & left, depth - 1)
            node(f"{name}r", rows & ~left, depth - 1)
        elif rows.any():
            level = sample(f"level{name}", dist.Normal(0.0, 1.0))
            sample(f"y{name}", dist.Normal(level, 0.5).expand([int(rows.sum())]).to_event(1), obs=y[rows])

    node("", np.ones(len(y), bool), 1)


@pytest.mark.slow
def test_a_tree_that_decides_where_it_branches():
    """Trees of a small table: the three there are, with Gaussian evidences in closed form."""
    x = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1], [-1, 1], [1, 1]], float)
    y = np.array([-0.4, 0.3, -0.2, 0.9, 0.5, 0.6])

    def leaf(rows):
        n = int(rows.sum())
        return stats.multivariate_normal(np.zeros(n), 0.25 * np.eye(n) + 1.0).logpdf(y[rows])

    logs = {"split = 0": np.log(0.4) + leaf(np.ones(6, bool))}
    for column in range(2):
        left = x[:, column] < 0
        logs[f"split = 1, column = {column}"] = np.log(0.3) + leaf(left) + leaf(~left)
    total = logsumexp(list(logs.values()))
    run = gibbsite.model(cart, x, y).sample(draws=3000, warmup=100, chains=2, seed=6)
    for name, log in logs.items():
        agrees(*share(run, name), np.exp(log - total))
