"""A slice that is of several pieces, against what each weighs."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import softmax

TABLE = np.array([0.0, 2.0, 0.5, -1.0, 0.7])
Y = np.array([1.0, 0.2, 1.4, -0.5])


def looked_up(y):
    x = numpyro.sample("x", dist.Uniform(0, 5))
    loc = jnp.asarray(TABLE)[jnp.floor(x).astype(int)]
    numpyro.sample("y", dist.Normal(loc, 0.5).expand([4]).to_event(1), obs=y)


def side_by_side(y):
    """Two of them, that are sliced at once."""
    with numpyro.plate("j", 2):
        x = numpyro.sample("x", dist.Uniform(0, 5))
    loc = jnp.asarray(TABLE)[jnp.floor(x).astype(int)]
    numpyro.sample("y", dist.Normal(loc[:, None], 0.5).to_event(2), obs=np.stack([y, y]))


@pytest.mark.slow
@pytest.mark.parametrize("fn", [looked_up, pytest.param(side_by_side, marks=pytest.mark.slow)])
def test_chains_go_over_the_gaps_between_pieces(fn):
    """Of five cells two weigh .53 and .42, and what lies between them nothing."""
    truth = softmax([-0.5 * ((Y - t) ** 2).sum() / 0.25 for t in TABLE])
    run = gb.model(fn, Y).sample(schedule="Slice x", draws=1500, chains=4, seed=0)
    cells = np.floor(np.asarray(run.draws["x"])).astype(int).reshape(4, 1500, -1)
    for of_one in np.moveaxis(cells, -1, 0):
        by_chain = np.stack([np.bincount(c, minlength=5) / 1500 for c in of_one])
        assert (by_chain[:, [2, 4]] > 0.2).all()
        error = by_chain.std(axis=0, ddof=1) / 2
        assert (np.abs(by_chain.mean(axis=0) - truth) < 5 * error + 0.01).all()
    assert run.summary()["r_hat"].max() < 1.02
