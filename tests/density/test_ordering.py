"""The elements of a site in order: the same density, counted once, and when that is the same model."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.current import Ordered, exchangeable
from gibbsite.errors import ModelError, UnknownNameError
from scipy import stats

X = np.array([-1.0, 0.5, 2.0], np.float32)


def mixture(x, weight=1.0, apart=0.0, k=3):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(k).at[0].set(weight)))
    mu = numpyro.sample("mu", dist.Normal(apart * jnp.arange(k), 2.0).to_event(1))
    with numpyro.plate("k", k):
        s = numpyro.sample("s", dist.HalfNormal(2.0))
    rows = numpyro.sample("rows", dist.Normal(0, 1).expand([k, 2]).to_event(2))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z] + rows[z, 0], s[z] * tau), obs=x)


def test_order_statistics_are_drawn_sorted_and_have_a_density():
    law = Ordered(dist.Normal(1.0, 0.7).expand([2]))
    drawn = law.sample(jax.random.key(0), (4000,))
    assert (drawn[:, 0] < drawn[:, 1]).all()
    # the expected spacing of two normal draws is 2 sd / sqrt(pi)
    gap = np.diff(drawn, axis=1)
    assert abs(gap.mean() - 2 * 0.7 / np.sqrt(np.pi)) < 4 * gap.std() / np.sqrt(4000)
    grid = jnp.linspace(-4, 6, 301)
    pairs = jnp.stack(jnp.meshgrid(grid, grid, indexing="ij"), -1)
    density = jnp.where(pairs[..., 0] < pairs[..., 1], jnp.exp(law.log_prob(pairs)), 0.0)
    assert float(density.sum()) * float(grid[1] - grid[0]) ** 2 == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("site", ["mu", "s"])
def test_the_density_is_that_of_the_model_times_the_number_of_orders(site: str):
    model = gb.model(mixture, X)
    changed = model.ordered(site)
    state = {"w": jnp.array([0.2, 0.3, 0.5]), "mu": jnp.array([-1.0, 0.3, 2.0]), "tau": jnp.array(0.8)}
    state |= {"s": jnp.array([0.5, 0.9, 2.0]), "rows": jnp.full((3, 2), 0.1), "z": jnp.array([0, 2, 1])}
    extra = changed.density.log_joint(state) - model.density.log_joint(state)
    assert float(extra) == pytest.approx(np.log(6.0), abs=1e-4)
    assert changed.sites[site].shape == (3,) and changed.sites[site].plates == ()
    assert bool(changed.sites[site].support(state[site]))
    assert not bool(changed.sites[site].support(state[site][::-1]))


@pytest.mark.parametrize(
    ("change", "same"),
    [({}, True), ({"weight": 2.0}, False), ({"apart": 1.0}, False), ({"k": 2}, True), ({"k": 4}, True)],
)
def test_components_that_can_be_renamed(change: dict, same: bool):
    # with two components the columns of `rows` are as many: one of the two axes is that of components
    assert exchangeable(gb.model(mixture, X, **change).density, "mu") is same


def test_another_model_is_called_one():
    with pytest.warns(UserWarning, match=r"mixture.ordered\('mu'\) is another model"):
        gb.model(mixture, X, weight=3.0).ordered("mu")


@pytest.mark.parametrize(
    ("site", "says"),
    [("z", "discrete"), ("x", "observed"), ("w", "not drawn element by element"), ("tau", "shape"),
     ("rows", "shape")],
)  # fmt: skip
def test_what_cannot_be_put_in_order(site: str, says: str):
    with pytest.raises(ModelError, match=says):
        gb.model(mixture, X).ordered(site)


def test_a_site_that_does_not_exist():
    with pytest.raises(UnknownNameError, match="did you mean 'mu'"):
        gb.model(mixture, X).ordered("mus")


HEADS = np.array([1, 2, 0, 7, 8, 9, 1, 6])


def coins(heads):
    """Coins of two kinds, ten throws each."""
    p = numpyro.sample("p", dist.Beta(2.0, 2.0).expand([2]).to_event(1))
    with numpyro.plate("n", len(heads)):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("heads", dist.Binomial(10, p[z]), obs=heads)


@pytest.mark.slow
def test_shares_in_order_have_the_moments_of_quadrature():
    grid = (np.arange(400) + 0.5) / 400
    low, high = np.meshgrid(grid, grid, indexing="ij")
    each = np.stack([stats.binom.logpmf(HEADS[:, None, None], 10, p) for p in (low, high)])
    heights = np.logaddexp(*each).sum(0) + stats.beta.logpdf(low, 2, 2) + stats.beta.logpdf(high, 2, 2)
    weight = np.where(low < high, np.exp(heights - heights.max()), 0)
    weight /= weight.sum()
    model = gb.model(coins, HEADS).ordered("p")
    run = model.sample(draws=1000, warmup=500, chains=4, seed=0)
    assert run.verdict.state == "converged", run.verdict
    for i, at in enumerate((low, high)):
        mean = (weight * at).sum()
        sd = np.sqrt((weight * (at - mean) ** 2).sum())
        ess = next(s for s in run.diagnostics() if s.label == f"p[{i}]").ess_bulk
        found = np.asarray(run.draws["p"])[..., i]
        assert abs(found.mean() - mean) < 4 * sd / np.sqrt(ess)
        assert abs(found.std() / sd - 1) < 0.1
