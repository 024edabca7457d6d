"""Collapsed draws against evidences by dense algebra over every value, written independently."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.collapsed import collapsed_block
from scipy import stats

RNG = np.random.default_rng(0)
X = np.linspace(-1.4, 1.2, 9).astype(np.float32)
Y = (0.6 - 0.4 * X - 0.8 * np.maximum(X, 0) + 0.15 * RNG.normal(size=9)).astype(np.float32)
DESIGN = RNG.normal(size=(12, 3)).astype(np.float32)
RESPONSE = (DESIGN @ np.array([1.0, 0.0, -0.4]) + 0.7 * RNG.normal(size=12)).astype(np.float32)


def change(y=Y):
    k = numpyro.sample("k", dist.Categorical(jnp.ones(9) / 9))
    a = numpyro.sample("a", dist.Normal(0, 10.0))
    b = numpyro.sample("b", dist.Normal(0, 10.0).expand([2]))
    side = (jnp.arange(9) > k).astype(int)
    with numpyro.plate("n", 9):
        numpyro.sample("y", dist.Normal(a + b[side] * (X - jnp.asarray(X)[k]), 0.3), obs=y)


def selection(y=RESPONSE):
    g = numpyro.sample("g", dist.Bernoulli(0.3).expand([3]).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0, 3.0))
    b = numpyro.sample("b", dist.Normal(0, 1.5).expand([3]).to_event(1))
    numpyro.sample("y", dist.Normal(mean + DESIGN @ (g * b), 0.7), obs=y)


def evidence(design, prior_sd, noise, y):
    """log N(y; 0, D diag(s^2) D^T + noise^2 I) in double precision."""
    cov = (design * np.square(prior_sd)) @ design.T + noise**2 * np.eye(len(y))
    return -0.5 * (np.linalg.slogdet(cov)[1] + y @ np.linalg.solve(cov, y))


def normalised(log):
    p = np.exp(np.asarray(log) - np.max(log))
    return p / p.sum()


@pytest.mark.slow
def test_a_change_point_is_drawn_with_its_lines_integrated_out():
    log = []
    for k in range(9):
        side, t = np.arange(9) > k, X.astype(float) - X[k]
        log.append(
            evidence(np.stack([np.ones(9), ~side * t, side * t], 1), [10, 10, 10], 0.3, Y.astype(float))
        )
    expected = normalised(log)
    model = gb.model(change)
    block = collapsed_block(model.density, ("k", "a", "b"))
    state = {"k": 8, "a": 0.0, "b": np.zeros(2)}
    n = 4000
    draws = jax.jit(jax.vmap(lambda key: block.sample(key, state)))(jax.random.split(jax.random.key(0), n))
    found = np.bincount(draws["k"], minlength=9) / n  # independent draws, wherever the chain is
    assert np.max(np.abs(found - expected) / np.sqrt(expected * (1 - expected) / n + 1e-9)) < 4.5
    # the lines belong to the change point that was drawn with them
    at = int(np.argmax(expected))
    side, t = np.arange(9) > at, X.astype(float) - X[at]
    design = np.stack([np.ones(9), ~side * t, side * t], 1) / 0.3
    mean = np.linalg.solve(design.T @ design + np.eye(3) / 100, design.T @ (Y.astype(float) / 0.3))
    sd = np.sqrt(np.diag(np.linalg.inv(design.T @ design + np.eye(3) / 100)))
    mine = np.asarray(draws["k"]) == at
    lines = np.column_stack([draws["a"], draws["b"]])[mine]
    assert np.max(np.abs(lines.mean(0) - mean) / sd) * np.sqrt(mine.sum()) < 4.5


@pytest.mark.slow
def test_indicators_are_swept_with_their_coefficients_integrated_out():
    configurations = list(itertools.product([0, 1], repeat=3))
    log = []
    for g in configurations:
        design = np.column_stack([np.ones(12), DESIGN * np.array(g)]).astype(float)
        prior = sum(np.log(0.3 if v else 0.7) for v in g)
        log.append(prior + evidence(design, [3, 1.5, 1.5, 1.5], 0.7, RESPONSE.astype(float)))
    expected = normalised(log)
    model = gb.model(selection)
    assert model.schedule().text == "Collapsed [g mean b]"
    run = model.sample(draws=2000, warmup=50, chains=4, seed=0)
    code = np.asarray(run.draws["g"]) @ np.array([4, 2, 1])
    for i, p in enumerate(expected):
        hits = (code == i).mean(1)
        spread = max(hits.std(ddof=1) / 2, np.sqrt(p * (1 - p) / 4000))
        assert abs(hits.mean() - p) < 5 * spread


def test_what_cannot_be_collapsed_is_told():
    model = gb.model(change)
    assert model.schedule().text == "Collapsed [k a b]"
    with pytest.raises(Refused, match="a discrete one or a scale"):
        collapsed_block(model.density, ("a", "b"))
    with pytest.raises(gb.GibbsiteError, match="a discrete one or a scale"):
        model.schedule("Collapsed [a b] (*) Gibbs k")
    with pytest.raises(gb.GibbsiteError, match="tau meets none of a"):
        gb.model(few).schedule("Collapsed [tau a] (*) Conjugate [mean u]")


EFFECTS = np.array([0.4, -1.1, 2.3, 0.2, -0.5])


def few(y=EFFECTS):
    """Few effects with a vague scale; `a` is far from both."""
    mean = numpyro.sample("mean", dist.Normal(0, 3.0))
    tau = numpyro.sample("tau", dist.Gamma(0.1, 0.1))
    with numpyro.plate("J", 5):
        u = numpyro.sample("u", dist.Normal(mean, tau**-0.5))
        numpyro.sample("y", dist.Normal(u, 1.0), obs=y)
    a = numpyro.sample("a", dist.Normal(0, 1.0))
    numpyro.sample("w", dist.Normal(a, 1.0), obs=0.3)


def marginal_of_the_scale(log_tau):
    """log p(tau, y), in double precision, by the coordinate log tau."""
    tau = np.exp(log_tau)
    prior = 0.1 * log_tau - 0.1 * tau
    return prior + evidence(np.column_stack([np.eye(5), np.ones(5)]), [*[tau**-0.5] * 5, 3], 1.0, EFFECTS)


@pytest.mark.slow
def test_a_scale_is_drawn_with_its_effects_integrated_out():
    model = gb.model(few)
    assert model.schedule().text == "Collapsed [tau mean u] (*) Conjugate a"
    block = collapsed_block(model.density, ("tau", "mean", "u"))
    state = {"mean": jnp.array(9.0), "u": jnp.zeros(5), "a": jnp.array(0.0)}  # which do not count
    places = np.linspace(-6, 4, 7)
    data = tuple(model.density.arguments.arrays)
    at = jax.jit(jax.vmap(lambda x: block.logdensity({**state, "tau": jnp.exp(x)}, data)))
    found = np.asarray(at(jnp.asarray(places)), float)
    expected = np.array([marginal_of_the_scale(x) for x in places]) - places  # by tau itself
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=2e-3)
    grid = np.linspace(-45, 8, 3000)  # Gamma(0.1, 0.1) is wide
    p = normalised([marginal_of_the_scale(x) for x in grid])
    run = model.sample(draws=2000, warmup=100, chains=4, seed=0)
    logs = np.log(np.asarray(run.draws["tau"]))
    for f in (lambda x: x, np.tanh, lambda x: (x > 0).astype(float)):
        mean = p @ f(grid)
        error = np.sqrt(p @ (f(grid) - mean) ** 2 / float(run.summary().loc["tau", "ess_bulk"]))
        assert abs(f(logs).mean() - mean) < 4.5 * error
    # and the effects belong to the scale that was drawn with them: standardised, they are a prior's
    small = logs > np.quantile(logs, 0.9)
    spread = np.asarray(run.draws["u"] - run.draws["mean"][..., None])[small].std()
    assert spread < 1.5 * np.exp(-0.5 * logs[small]).mean()


def known_noise():
    mean, tau = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("J", 5):
        u = numpyro.sample("u", dist.Normal(mean, tau))
        numpyro.sample("y", dist.Normal(u, jnp.array(ERRORS)), obs=jnp.array(EFFECTS_SEEN))


EFFECTS_SEEN, ERRORS = np.array([2.0, 0.5, -1.0, 4.0, 1.0]), np.array([1.0, 2.0, 1.5, 1.0, 0.7])


@pytest.mark.slow
def test_a_scale_that_is_not_conjugate_is_that_of_a_grid_and_so_are_its_effects():
    model = gb.model(known_noise)
    assert model.schedule().text == "Collapsed [tau mean u]"
    grid = np.linspace(-12, 8, 4000)  # of log tau
    data = [np.diag(ERRORS**2 + np.exp(2 * x)) + 25.0 for x in grid]
    prior = stats.halfcauchy.logpdf(np.exp(grid), scale=5) + grid
    p = normalised(prior + [stats.multivariate_normal.logpdf(EFFECTS_SEEN, cov=c) for c in data])
    run = model.sample(draws=2000, warmup=100, chains=4, seed=0)
    logs, ess = np.log(run.draws["tau"]), run.summary().ess_bulk
    for f in (lambda x: x, np.tanh, lambda x: (x < -1).astype(float)):
        mean = p @ f(grid)
        error = np.sqrt(p @ (f(grid) - mean) ** 2 / ess["tau"])
        assert abs(f(logs).mean() - mean) < 4.5 * error
    effects = np.array(
        [
            (np.exp(2 * x) * np.eye(5) + 25.0) @ np.linalg.solve(c, EFFECTS_SEEN)
            for x, c in zip(grid, data, strict=True)
        ]
    )
    error = run.draws["u"].std((0, 1)) / np.sqrt(ess[[f"u[{i}]" for i in range(5)]])
    assert (np.abs(run.draws["u"].mean((0, 1)) - p @ effects) < 4.5 * error).all()


def test_assignments_of_a_mixture_are_left_to_one_pass():
    def mixture(y=Y):
        mu = numpyro.sample("mu", dist.Normal(0, 3.0).expand([2]))
        with numpyro.plate("n", 9):
            z = numpyro.sample("z", dist.Categorical(jnp.ones(2) / 2))
            numpyro.sample("y", dist.Normal(mu[z], 0.5), obs=y)

    texts = {c.text for c in gb.model(mixture).schedule().weighed}
    assert "Gibbs z (*) Conjugate mu" in texts and not any("Collapsed" in t for t in texts)
