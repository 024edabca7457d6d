"""Proposals from the prior that are accepted row by row: where rows are apart, and what comes of it."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.blocks.metropolis import rows_apart
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from scipy import stats

S = numpyro.sample
Y = np.array([0.3, 3.2], np.float32)


def classes(y, scale=1.0):
    """Three rows of a class and a value, the last without data; the second's datum weighs twice."""
    w = S("w", dist.Beta(2.0, 2.0))
    with numpyro.plate("units", 3):
        z = S("z", dist.Bernoulli(w))
        with handlers.mask(mask=jnp.array([True, True, True])):
            m = S("m", dist.Normal(3.0 * z, 0.7))
    with handlers.scale(scale=np.array([1.0, 2.0])):
        S("y", dist.Normal(m[:2], scale), obs=y)


def chain(y):
    def step(c, y):
        z = S("z", dist.Bernoulli(0.2 + 0.6 * c))
        S("y", dist.Normal(2.0 * z, 1.0), obs=y)
        return z, None

    scan(step, 0, y)


def summed(y):
    with numpyro.plate("n", 3):
        x = S("x", dist.Normal(0.0, 1.0))
    S("y", dist.Normal(x.sum(), 1.0), obs=y[0])


def mixed(y):
    """The class of one row is read at the row that another site names."""
    with numpyro.plate("n", 2):
        x = S("x", dist.Normal(0.0, 1.0))
        i = S("i", dist.Bernoulli(0.5))
        S("y", dist.Normal(x[i], 1.0), obs=y)


def test_which_rows_are_apart():
    assert rows_apart(gb.model(classes, Y).density, ("z", "m")) is not None
    assert rows_apart(gb.model(classes, Y).density, ("w", "m")) is None  # of other shapes
    assert rows_apart(gb.model(chain, Y).density, ("z",)) is None
    assert rows_apart(gb.model(summed, Y).density, ("x",)) is None
    assert rows_apart(gb.model(mixed, Y).density, ("x", "i")) is None


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, pytest.param(0.6, marks=pytest.mark.slow)])
def test_rows_have_their_posterior(scale):
    run = gb.model(classes, Y, scale).sample(
        draws=20_000, warmup=200, chains=2, seed=0, schedule="Independence [z m] (*) Conjugate w"
    )
    grid = np.linspace(-8, 12, 4001)
    rows = np.ones((3, 2, len(grid)))
    for i, power in ((0, 1), (1, 2)):
        rows[i] *= stats.norm.pdf(Y[i], grid, scale) ** power
    rows *= stats.norm.pdf(grid, 3.0 * np.arange(2)[:, None], 0.7) * (grid[1] - grid[0])
    w = (np.arange(400) + 0.5) / 400
    one, none = rows.sum(axis=2)[:, 1], rows.sum(axis=2)[:, 0]
    mixed = w[:, None] * one + (1 - w[:, None]) * none
    weight = stats.beta.pdf(w, 2, 2) * mixed.prod(axis=1)
    weight /= weight.sum()
    share = weight @ (w[:, None] * one / mixed)
    means = (rows * grid).sum(axis=2) / rows.sum(axis=2)
    table = run.summary()
    for i in range(3):
        assert abs(table.loc[f"z[{i}]", "mean"] - share[i]) < 4 * table.loc[f"z[{i}]", "mcse_mean"] + 1e-3
        mean = share[i] * means[i, 1] + (1 - share[i]) * means[i, 0]
        assert abs(table.loc[f"m[{i}]", "mean"] - mean) < 4 * table.loc[f"m[{i}]", "mcse_mean"]
    assert run.draws["z"][..., 2].std() > 0.4 and table.loc["z[2]", "ess_bulk"] > 10_000
