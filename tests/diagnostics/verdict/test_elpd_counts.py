"""Leave-one-out with counts without end summed out, against exact values: rates on a grid, counts by sums."""

from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import plate, sample
from scipy import stats
from scipy.special import logsumexp

RNG = np.random.default_rng(3)
Y = RNG.binomial(RNG.poisson(6, 10)[:, None], 0.5, (10, 2)).astype(np.int32)
RATES, SHARES = np.meshgrid(np.linspace(0.5, 25, 80), np.linspace(0.03, 0.97, 60), indexing="ij")
PRIOR = stats.gamma.logpdf(RATES, 4, scale=2) + stats.beta.logpdf(SHARES, 4, 4)
COUNTS = np.arange(120)[:, None, None]


def visits(y):
    rate, share = sample("rate", dist.Gamma(4.0, 0.5)), sample("share", dist.Beta(4.0, 4.0))
    with plate("site", len(y), dim=-2):
        n = sample("n", dist.Poisson(rate))
        with plate("visit", y.shape[1], dim=-1):
            sample("y", dist.Binomial(n, share), obs=y)


def survivors(y):
    rate, share = sample("rate", dist.Gamma(4.0, 0.5)), sample("share", dist.Beta(4.0, 4.0))
    with plate("site", len(y)):
        n = sample("n", dist.NegativeBinomial2(rate, 1.5))
        alive = sample("alive", dist.Binomial(n, 0.8))
        sample("y", dist.Binomial(alive, share), obs=y[:, 0])


def of_visits(seen: Any) -> Any:
    logs: Any = stats.poisson.logpmf(COUNTS, RATES)
    return logsumexp(logs + sum(stats.binom.logpmf(y, COUNTS, SHARES) for y in seen), axis=0)


def of_survivors(seen: Any) -> Any:
    prior: Any = stats.nbinom.logpmf(COUNTS, 1.5, 1.5 / (1.5 + RATES))
    return logsumexp(prior + sum(stats.binom.logpmf(y, COUNTS, 0.8 * SHARES) for y in seen), axis=0)


def left_out(likelihood: Any, data: np.ndarray) -> float:
    """The sum of the log densities of data given all others."""
    whole = PRIOR + sum(likelihood(row) for row in data)
    each = 0.0
    for row in data:
        for k in range(len(row)):
            rest = whole - likelihood(row) + likelihood(np.delete(row, k))
            each += logsumexp(whole) - logsumexp(rest)
    return float(each)


@pytest.mark.slow
@pytest.mark.parametrize("model", [visits, survivors])
def test_counts_without_end_are_summed_out(model):
    data = Y if model is visits else Y[:, :1]
    run = gb.model(model, Y).sample(draws=1000, chains=4, seed=0, schedule=None)
    found = run.elpd()
    assert not found.given and "n" in found.summed
    exact = left_out(of_visits if model is visits else of_survivors, data)
    assert abs(found.elpd - exact) < 4 * found.mcse + 0.01 * len(data) ** 0.5


@pytest.mark.slow
def test_values_that_other_data_rule_out_have_no_weight():
    """The third of three removals is out of what two have left: of fewer it is impossible, not no number."""
    left = np.array([[5, 3, 2], [8, 2, 3], [4, 4, 1]], np.int32)

    def removals(c):
        share = sample("share", dist.Beta(4.0, 4.0))
        with plate("site", len(c)):
            n = sample("n", dist.Poisson(12.0))
            for k in range(3):
                sample(f"c{k}", dist.Binomial(n - c[:, :k].sum(1), share), obs=c[:, k])

    run = gb.model(removals, left).sample(draws=1000, chains=4, seed=0)
    found = run.elpd()
    assert found.summed == ("n",) and not found.given
    # each catch given the statements of all others, which have the other catches as what they are out of
    shares = np.linspace(0.01, 0.99, 150)
    n = np.arange(80)[:, None]
    gone = np.concatenate([np.zeros((3, 1), int), np.cumsum(left, axis=1)[:, :-1]], axis=1)

    def of(row: int, without: int | None = None) -> Any:
        logs: Any = stats.poisson.logpmf(n, 12.0) + np.zeros_like(shares)
        for k in range(3):
            if k != without:
                logs = logs + np.nan_to_num(
                    stats.binom.logpmf(left[row, k], n - gone[row, k], shares), nan=-np.inf
                )
        return logsumexp(logs, axis=0)

    prior = stats.beta.logpdf(shares, 4, 4)
    whole = prior + sum(of(row) for row in range(3))
    exact = sum(
        logsumexp(whole) - logsumexp(whole - of(row) + of(row, k)) for row in range(3) for k in range(3)
    )
    assert abs(found.elpd - exact) < 4 * found.mcse + 0.02


def filled_in(x, y):
    """A covariate with a distribution, whose gaps the model fills in by itself."""
    lacking = np.flatnonzero(np.isnan(x))
    mu = sample("mu", dist.Normal(0, 2))
    gaps = sample("gaps", dist.Normal(mu, 1.0).expand([len(lacking)]).to_event(1).mask(False))
    x = jnp.asarray(x).at[lacking].set(gaps)
    sample("x", dist.Normal(mu, 1.0), obs=x)
    sample("y", dist.Normal(x, 0.5), obs=y)


@pytest.mark.slow
def test_what_is_observed_at_values_computed_from_latents_is_told():
    x, y = np.array([0.3, np.nan, 1.2, -0.4]), np.array([0.1, 0.9, 1.4, -0.2])
    found = gb.model(filled_in, x, y).sample(draws=100, warmup=100, chains=2, seed=0).elpd()
    assert found.n_data_points == 4 and found.computed == ("x",)
    assert "x not counted: what is observed there is computed from latents" in str(found)
