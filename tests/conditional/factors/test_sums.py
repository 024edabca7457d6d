"""Sums of a million numbers, in single against double precision, and the draws that are made of them."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.factors.sums import long_product, sum_by

ROWS = 2**20
X = (1000 + np.random.default_rng(0).normal(size=ROWS)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 50, 3000])
def test_a_million_numbers_are_summed_by_their_groups(count):
    """Off by less than a tenth of a standard error of a group's mean, and as before where there are few."""
    group = np.random.default_rng(count).integers(count + 1, size=ROWS).astype(np.int32)  # the last: left out
    expected = np.bincount(group, X.astype(np.float64), count + 1)[:count]
    each = np.bincount(group, minlength=count + 1)[:count]
    got = np.asarray(jax.jit(sum_by, static_argnums=2)(group, X, count), np.float64)
    assert np.max(np.abs(got - expected) / np.sqrt(each)) < 0.1
    few = sum_by(group[:1000], X[:1000], count)
    np.testing.assert_array_equal(few, jax.ops.segment_sum(X[:1000], group[:1000], count))


def test_a_million_products_with_a_vector():
    a = np.stack([np.ones_like(X), X])
    expected = a.astype(np.float64) @ X.astype(np.float64)
    got = np.asarray(jax.jit(long_product)(a, X), np.float64)
    assert np.max(np.abs(got / expected - 1)) < 3e-6
    column = np.asarray(jax.jit(long_product)(a, X[:, None]), np.float64)[:, 0]
    assert np.max(np.abs(column / expected - 1)) < 3e-6


def two_groups(y, group):
    mu = numpyro.sample("mu", dist.Normal(0, 1e6).expand([2]))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(mu[group], 1.0), obs=y)


def test_means_of_half_a_million_data_far_from_zero():
    group = np.arange(ROWS, dtype=np.int32) % 2
    model = gb.model(two_groups, X, group, check_values=False)
    draws = jax.vmap(lambda k: model.conditional("mu").sample(k, {}))(
        jax.random.split(jax.random.key(0), 400)
    )
    expected = [X[group == g].astype(np.float64).mean() for g in range(2)]
    error = np.asarray(draws, np.float64).mean(0) - expected
    assert np.max(np.abs(error)) * np.sqrt(ROWS / 2) < 4.5 / np.sqrt(400) + 0.1
    assert jnp.result_type(draws) == jnp.float32
