"""Predictions, checks and elpd over structures, beside averages that are known exactly."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import ModelError
from scipy import stats
from scipy.special import logsumexp

Y = np.array([0.9, -0.2, 1.4, 0.6, 0.3, 1.1])


def one_or_none(y):
    """A mean of 0, or one that is drawn: under the first nothing is left to draw."""
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    if k == 1:
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)
    else:
        numpyro.sample("y", dist.Normal(0, 1), obs=y)


def evidence(y):
    """Log evidences of both structures, and the posterior of the mean in the second: closed form."""
    n = len(y)
    free = stats.multivariate_normal(np.zeros(n), np.eye(n) + np.ones((n, n))).logpdf(y)
    return stats.norm(0, 1).logpdf(y).sum(), free, y.sum() / (n + 1), (1 / (n + 1)) ** 0.5


@pytest.fixture(scope="module")
def run():
    return gb.model(one_or_none, Y).sample(draws=3000, chains=2, seed=1)


def test_draws_are_of_each_structure_as_often_as_it_is(run):
    none, free, mean, sd = evidence(Y)
    share = 1 / (1 + np.exp(none - free))
    p = run.predict()
    assert p.outcomes == ("y",) and "2 structures" in p.note
    y = p.draws["y"].reshape(-1, len(Y))
    error = np.sqrt(share * (1 + sd**2 + mean**2) / len(y)) + 5 * mean * 0.5 / np.sqrt(len(y) / 4)
    assert np.abs(y.mean(0) - share * mean).max() < 5 * error
    variance = 1 + share * (sd**2 + mean**2) - (share * mean) ** 2
    assert np.abs(y.var(0) / variance - 1).max() < 0.15
    # each draw in its own structure, in the run's own order
    mu = np.asarray(run.draws["mu"])
    np.testing.assert_allclose(p.expected["y"][..., 0], np.nan_to_num(mu), rtol=1e-5)
    few = run.predict(draws=10)
    assert few.draws["y"].shape == (2, 10, len(Y))


def test_elpd_is_that_of_the_average(run):
    """Leave-one-out in closed form: the average of both structures' predictions by their posteriors."""
    exact = 0.0
    for i in range(len(Y)):
        rest = np.delete(Y, i)
        none, free, mean, sd = evidence(rest)
        log = logsumexp(
            [none + stats.norm(0, 1).logpdf(Y[i]), free + stats.norm(mean, np.hypot(1, sd)).logpdf(Y[i])]
        )
        exact += log - logsumexp([none, free])
    found = run.elpd()
    assert found.n_data_points == len(Y)
    assert found.elpd == pytest.approx(exact, abs=5 * found.mcse + 0.02)
    with pytest.raises(ModelError, match="one structure at a time"):
        run.elpd(kfold=2)


@pytest.mark.slow
def test_checks_compare_and_keep(run, tmp_path):
    checks = run.checks()
    assert checks.replicates.shape[1] == len(Y)
    assert "PIT by leave-one-out" in checks.note
    plain = gb.model(one_or_none, Y).structure(k=1).sample(draws=200, chains=2, seed=1)
    assert plain.elpd().n_data_points == len(Y)  # what makes the structure is no datum
    assert gb.compare(run, plain).observations == len(Y)
    run.keep("again", run.predict(draws=20))
    run.save(tmp_path / "run")
    back = gb.load(tmp_path / "run", model=gb.model(one_or_none, Y))
    np.testing.assert_array_equal(back.results["again"].draws["y"], run.results["again"].draws["y"])
    np.testing.assert_array_equal(back.predict(draws=20).draws["y"], back.results["again"].draws["y"])


def chosen(t):
    """Which covariates enter, by `if`."""
    a = numpyro.sample("a", dist.Normal(0, 2))
    mean = a
    for name in ("x", "z"):
        if numpyro.sample(f"in {name}", dist.Bernoulli(0.5)) == 1:
            mean = mean + numpyro.sample(f"b {name}", dist.Normal(0, 1)) * t[name]
    with numpyro.plate("rows", len(t)):
        numpyro.sample("y", dist.Normal(mean * jnp.ones(len(t)), 0.5), obs=t["y"])


@pytest.mark.slow
def test_new_rows_interventions_and_effects_are_averaged():
    """Coefficients are 0 where a covariate does not enter: Bayesian model averaging (Hoeting et al. 1999)."""
    rng = np.random.default_rng(0)
    t = pd.DataFrame({"x": rng.normal(size=30), "z": rng.normal(size=30)}, index=[f"r{i}" for i in range(30)])
    t["y"] = 1 + 0.25 * t["x"] + rng.normal(0, 0.5, 30)
    run = gb.model(chosen, t=t).sample(draws=400, chains=2, seed=1)
    d = {n: np.nan_to_num(np.asarray(v)) for n, v in run.draws.items()}
    assert 0.05 < d["in z"].mean() < 0.95
    new = pd.DataFrame({"x": [0.0, 2.0], "z": [0.0, -1.0]}, index=["p", "q"])
    p = run.predict(new)
    assert list(p.to_frame().index) == ["p", "q"]
    exact = d["a"][..., None] + d["b x"][..., None] * new["x"].values + d["b z"][..., None] * new["z"].values
    np.testing.assert_allclose(p.expected["y"], exact, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(run.effects("x", [0.0, 1.0]).slope, d["b x"], rtol=1e-3, atol=1e-4)
    c = gb.contrast(run.predict(do={"z": 1.0}), run.predict(do={"z": 0.0}))
    np.testing.assert_allclose(c.difference.mean(-1), d["b z"], rtol=1e-3, atol=1e-4)
    with pytest.raises(ModelError, match="'in x' makes the structure"):
        run.predict(do={"in x": 1})
    with pytest.raises(ModelError, match="given= is of one structure at a time"):
        run.predict(given={"y": 1.0})


@pytest.mark.slow
def test_outcomes_of_other_elements_are_refused():
    def grown(y):
        k = numpyro.sample("k", dist.Bernoulli(0.5))
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)
        numpyro.sample("more", dist.Normal(mu, 1).expand([int(k) + 1]), obs=jnp.zeros(int(k) + 1))

    run = gb.model(grown, Y).sample(draws=100, chains=2, seed=1)
    assert len(run.structures) == 2
    with pytest.raises(ModelError, match="more has other elements in some structures"):
        run.predict()
    with pytest.raises(ModelError, match="other data are observed in some structures"):
        run.elpd()


def decided_by_both(y):
    """A discrete draw whose probability is drawn, a continuous one that decides, and one of both."""
    p = numpyro.sample("p", dist.Beta(2, 5))
    k = numpyro.sample("k", dist.Bernoulli(p))
    x = numpyro.sample("x", dist.Normal(0, 1))
    mu = numpyro.sample("mu", dist.Normal(3 * p, 0.1)) if k == 1 else 0.0
    if x > 0.5:
        mu = mu + numpyro.sample("a", dist.Normal(5, 0.1))
    if x + p > 1:
        mu = mu + 20 * p
    numpyro.sample("y", dist.Normal(mu, 0.5), obs=y)


@pytest.mark.slow
def test_the_prior_over_structures_is_drawn_from():
    """Parents of what decides are as they are where it is so: sums beside NumPy's of the same program."""
    model = gb.model(decided_by_both, Y)
    found = model.predict(draws=150, seed=2)
    assert found.facts.group == "prior_predictive" and "the prior, before any data" in found.note
    rng, many = np.random.default_rng(0), 200_000
    p = rng.beta(2, 5, many)
    k, x = rng.random(many) < p, rng.normal(size=many)
    exact = k * 3 * p + (x > 0.5) * 5 + (x + p > 1) * 20 * p
    mean = found.expected["y"][0, :, 0]
    assert abs(mean.mean() - exact.mean()) < 4 * exact.std() / 150**0.5
    assert abs(np.mean(mean < 0.01) - np.mean(exact < 0.01)) < 4 * 0.5 / 150**0.5
    own = found.known["p"][0]
    both = np.cov(own, mean)[0, 1] / (own.std() * mean.std())
    assert abs(both - np.corrcoef(p, exact)[0, 1]) < 4 / 150**0.5
    assert found.draws["y"].shape == (1, 150, len(Y))


@pytest.mark.slow
def test_priors_are_checked_and_decisions_are_no_factors_beside(run):
    told = str(gb.model(decided_by_both, Y).checks(draws=20))
    assert "20 replicates" in told and "factor" not in told
    before = run.checks(prior=True, draws=20)
    assert before.before is not None and before.before.shape[1] == len(Y)
    assert 0 < run.to_datatree().attrs["sampling_time"] < run.elapsed


def weighed(y):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    x = numpyro.sample("x", dist.Normal(0, 1)) if k == 1 else 0.0
    numpyro.factor("beside", -jnp.square(x - 1))
    numpyro.sample("y", dist.Normal(x, 1), obs=y)


def test_a_prior_with_a_factor_is_refused():
    with pytest.raises(ModelError, match="factor 'beside' has no distribution"):
        gb.model(weighed, Y).predict(draws=5)
