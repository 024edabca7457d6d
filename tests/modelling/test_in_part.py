"""Gaussian vectors of which some elements are missing, against scipy's marginals and conditionals."""

from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError
from scipy.stats import multivariate_normal

RNG = np.random.default_rng(4)
N, K = 12, 3
LOWER = np.linalg.cholesky([[1.0, 0.6, 0.3], [0.6, 2.0, 0.4], [0.3, 0.4, 0.5]]).astype(np.float32)
COVARIANCE: Any = LOWER @ LOWER.T
WHOLE = (RNG.normal(size=(N, K)) @ LOWER.T + 1).astype(np.float32)
GONE = RNG.random((N, K)) < 0.3
GONE[0], GONE[1] = True, False
GAPS = np.where(GONE, np.nan, WHOLE)
MEAN = np.array([0.5, 1.0, 1.5], np.float32)


def shared(y):
    m = numpyro.sample("m", dist.Normal(jnp.zeros(3), 2).to_event(1))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.MultivariateNormal(m, scale_tril=LOWER), obs=y)


def each(y):
    m = numpyro.sample("m", dist.Normal(jnp.zeros(3), 2).to_event(1))
    with numpyro.plate("row", len(y)):
        trils = jnp.broadcast_to(LOWER, (len(y), K, K))
        numpyro.sample(
            "y", dist.MultivariateNormal(jnp.broadcast_to(m, (len(y), K)), scale_tril=trils), obs=y
        )


def low_rank(y):
    m = numpyro.sample("m", dist.Normal(jnp.zeros(3), 2).to_event(1))
    fn = dist.LowRankMultivariateNormal(m, jnp.asarray([[0.6], [1.0], [0.4]]), jnp.asarray([0.64, 1.0, 0.34]))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", fn, obs=y)


def masked_by_hand(y):
    m = numpyro.sample("m", dist.Normal(jnp.zeros(3), 2).to_event(1))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.MultivariateNormal(m, scale_tril=LOWER).mask(np.arange(len(y)) != 3), obs=y)


def by_hand(fn, mean, rows=tuple(range(N))):
    """The log density of what is known."""
    covariance: Any = COVARIANCE
    if fn is low_rank:
        w = np.array([0.6, 1.0, 0.4])
        covariance = np.outer(w, w) + np.diag([0.64, 1.0, 0.34])
    known = [(k, ~GONE[k]) for k in rows if (~GONE[k]).any()]
    told = (multivariate_normal.logpdf(GAPS[k, o], mean[o], covariance[np.ix_(o, o)]) for k, o in known)
    return sum(told) + float(dist.Normal(0, 2).log_prob(mean).sum())


@pytest.mark.parametrize("fn", [shared, each, low_rank, masked_by_hand])
def test_what_is_known_of_a_vector_counts(fn):
    model = gb.model(fn, GAPS, missing="mask")
    assert not model.notes or fn is masked_by_hand  # a row that the model itself masks
    rows = tuple(k for k in range(N) if k != 3 or fn is not masked_by_hand)
    for mean in (MEAN, MEAN - 1):
        found = float(model.density.log_joint({"m": jnp.asarray(mean)}))
        assert found == pytest.approx(by_hand(fn, mean, rows), abs=2e-4)


@pytest.mark.parametrize("fn", [shared, each])
def test_imputed_elements_count_once(fn):
    """The joint density of data and imputed elements is that of whole vectors."""
    model = gb.model(fn, GAPS, missing="impute")
    state = {"m": jnp.asarray(MEAN), "y_missing": jnp.asarray(WHOLE[GONE])}
    whole = multivariate_normal.logpdf(WHOLE, MEAN, COVARIANCE).sum()
    prior = float(dist.Normal(0, 2).log_prob(MEAN).sum())
    assert float(model.density.log_joint(state)) == pytest.approx(whole + prior, abs=2e-4)


@pytest.mark.slow
def test_elements_drawn_given_the_others_of_their_vector():
    def known_mean(y):
        c = numpyro.sample("c", dist.Normal(0, 0.001))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.MultivariateNormal(c + MEAN, scale_tril=LOWER), obs=y)

    run = gb.model(known_mean, GAPS, missing="impute").sample(draws=2000, warmup=50, chains=2, seed=3)
    drawn = run.draws["y_missing"].reshape(-1, GONE.sum())
    for (row, k), values in zip(np.argwhere(GONE), drawn.T, strict=True):
        o = ~GONE[row]
        weights = COVARIANCE[k, o] @ np.linalg.inv(COVARIANCE[np.ix_(o, o)])
        mean = MEAN[k] + weights @ (GAPS[row, o] - MEAN[o])
        sd = np.sqrt(COVARIANCE[k, k] - weights @ COVARIANCE[o, k])
        assert abs(values.mean() - mean) < 4.5 * sd / np.sqrt(len(values))
        assert values.std() == pytest.approx(sd, rel=0.08)
    again = run.predict().draws["y"].reshape(-1, N, K)
    assert (again[:, ~GONE] == again[0, ~GONE]).mean() < 1, "replicates of data are drawn"


@pytest.mark.slow
def test_what_reads_them_moves_them():
    """z of each row is y[0] + y[1] with noise: Gaussian, so that all is in closed form."""
    z = (WHOLE[:, 0] + WHOLE[:, 1] + 0.5 * RNG.normal(size=N)).astype(np.float32)

    def reads(gaps: Any, z: Any):
        c = numpyro.sample("c", dist.Normal(0, 0.001))
        with numpyro.plate("row", len(gaps)):
            y: Any = numpyro.sample("y", dist.MultivariateNormal(c + MEAN, scale_tril=LOWER), obs=gaps)
            numpyro.sample("z", dist.Normal(y[:, 0] + y[:, 1], 0.5), obs=z)

    run = gb.model(reads, GAPS, z, missing="impute").sample(draws=2000, chains=2, seed=5)
    assert run.verdict.ok
    adding = np.array([1.0, 1.0, 0.0])
    across = (COVARIANCE @ adding)[:, None]
    joint = np.block([[COVARIANCE, across], [across.T, adding @ across + 0.25]])
    means = np.append(MEAN, adding @ MEAN)
    drawn = run.draws["y_missing"].reshape(-1, GONE.sum())
    effective = np.asarray(run.summary(var_names=["y_missing"])["ess_bulk"], float)
    for place, (row, k) in enumerate(np.argwhere(GONE)):
        o = np.append(~GONE[row], True)
        weights = joint[k, o] @ np.linalg.inv(joint[np.ix_(o, o)])
        mean = means[k] + weights @ (np.append(GAPS[row], z[row])[o] - means[o])
        sd = np.sqrt(joint[k, k] - weights @ joint[o, k])
        assert abs(drawn[:, place].mean() - mean) < 4.5 * sd / np.sqrt(effective[place])


@pytest.mark.slow
def test_a_process_is_known_at_some_places():
    """A Gaussian process observed on a grid with gaps, one vector: what is missing is interpolated."""
    x = np.linspace(0, 3, 20)
    kernel = (np.exp(-0.5 * (x[:, None] - x) ** 2) + 0.01 * np.eye(20)).astype(np.float32)
    y = np.sin(x).astype(np.float32)
    y[[4, 9, 10]] = np.nan

    def process(y):
        level = numpyro.sample("level", dist.Normal(0, 1))
        numpyro.sample("y", dist.MultivariateNormal(level * jnp.ones(20), kernel), obs=y)

    run = gb.model(process, y, missing="impute").sample(draws=1000, chains=2, seed=1)
    o = ~np.isnan(y)
    total = kernel.astype(float) + 1.0  # the level integrated out
    across = total[np.ix_(~o, o)]
    weights = np.linalg.solve(total[np.ix_(o, o)], across.T).T
    mean, spread = weights @ y[o], total[np.ix_(~o, ~o)] - weights @ across.T
    drawn = run.draws["y_missing"].reshape(-1, 3)
    assert np.all(np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(np.diag(spread) / 2000))
    assert drawn.std(0) == pytest.approx(np.sqrt(np.diag(spread)), rel=0.1)


def test_weights_of_events_are_refused_where_parts_are_imputed():
    def weighed(y):
        m = numpyro.sample("m", dist.Normal(0, 1))
        with numpyro.plate("row", len(y)), numpyro.handlers.scale(scale=2.0):
            numpyro.sample("y", dist.MultivariateNormal(m + MEAN, scale_tril=LOWER), obs=y)

    with pytest.raises(DataError, match="only some elements are missing"):
        gb.model(weighed, GAPS, missing="impute")
    gb.model(weighed, GAPS, missing="mask")


def test_the_ways_out_are_named():
    with pytest.raises(
        DataError, match=r"3 numbers at once.*missing impute.*given the others.*what is known in it"
    ):
        gb.model(shared, GAPS)


@pytest.mark.share(2)
@pytest.mark.parametrize("part", [False, True])
def test_rows_with_labels_name_what_was_imputed(part):
    """Of rows that are missing as a whole each is one draw, with its row's label; else each number is."""
    table = pd.DataFrame(WHOLE, columns=list("uvw"), index=[f"p{k}" for k in range(N)])
    table.loc[["p2", "p4"]] = np.nan
    if part:
        table.loc["p4", "u"] = 0.3

    def rows(df):
        m = numpyro.sample("m", dist.Normal(jnp.zeros(3), 2).to_event(1))
        with numpyro.plate("row", len(df)):
            values = df[["u", "v", "w"]].to_numpy()
            numpyro.sample("y", dist.MultivariateNormal(m, scale_tril=LOWER), obs=values)

    run = gb.model(rows, table, missing="impute").sample(draws=40, warmup=40, chains=2, seed=0)
    named = [str(t) for t in run.to_datatree()["posterior"]["y_missing_dim_0"].values]
    assert named == (["p2, 0", "p2, 1", "p2, 2", "p4, 1", "p4, 2"] if part else ["p2", "p4"])
    again = run.predict(table).draws["y"]
    drawn = run.draws["y_missing"]
    assert again.shape[2:] == (N, K) and drawn.shape[2:] == ((5,) if part else (2, K))
