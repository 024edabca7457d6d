"""Components that were found under each other's labels start under those that their priors mean."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.finite.relabel import labels_of, relabelled

RNG = np.random.default_rng(5)
Y = (np.array([-3.0, 0.0, 3.0])[RNG.integers(0, 3, 60)] + 0.5 * RNG.normal(size=60)).astype(np.float32)
NAMES = {"a": -3.0, "b": 0.0, "c": 3.0}


def named(y, centres):
    """Components with places of their own, or alike; in one array."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(jnp.array(centres), 1.0).to_event(1))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Normal(mu[z], 0.5), obs=y)


def apart(y):
    """The same as sites of their own."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = jnp.stack([numpyro.sample(f"mu_{n}", dist.Normal(m, 1.0)) for n, m in NAMES.items()])
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Normal(mu[z], 0.5), obs=y)


def test_what_bears_a_label_is_found():
    (one,) = labels_of(gb.model(named, Y, (-3.0, 0.0, 3.0)).density)
    assert (one.site, one.axes, one.families) == ("z", (("w", 0), ("mu", 0)), ())
    (other,) = labels_of(gb.model(apart, Y).density)
    assert (other.axes, other.families) == ((("w", 0),), (("mu_a", "mu_b", "mu_c"),))


def test_chains_in_another_order_are_put_into_that_of_the_priors_and_others_left():
    density = gb.model(named, Y, (-3.0, 0.0, 3.0)).density
    orders = np.array([[0, 1, 2], [1, 2, 0], [2, 1, 0]])
    label = np.argmin(np.abs(Y[:, None] - np.array([-3.0, 0.0, 3.0])), axis=1)
    share = np.bincount(label) / len(Y)
    # what component k of the prior is, chain c has under label orders[c, k]
    values = {"w": np.empty((3, 3)), "mu": np.empty((3, 3)), "z": orders[:, label]}
    for c, order in enumerate(orders):
        values["w"][c, order], values["mu"][c, order] = share, [-3.0, 0.0, 3.0]

    def level(at, centres=(-3.0, 0.0, 3.0)):
        chains = np.arange(3)[:, None]
        fit = -0.5 * ((Y - at["mu"][chains, at["z"]]) ** 2 / 0.25).sum(1)
        prior = -0.5 * ((at["mu"] - np.array(centres)) ** 2).sum(1)
        return fit + prior + np.log(at["w"][chains, at["z"]]).sum(1)

    found, moved = relabelled(density, values, level)
    assert moved.tolist() == [False, True, True]
    for n in values:
        np.testing.assert_allclose(found[n], np.broadcast_to(found[n][0], found[n].shape))
    same, moved = relabelled(density, values, lambda at: level(at, (0.0, 0.0, 0.0)))
    assert not moved.any() and all(np.array_equal(same[n], values[n]) for n in values)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [None, pytest.param("Eliminate z > NUTS [w *]", marks=pytest.mark.slow)])
def test_a_mixture_with_named_components_is_sampled_in_one_mode(schedule):
    run = gb.model(apart, Y).sample(draws=150, warmup=300, chains=6, seed=1, schedule=schedule)
    assert "labels of chains" in run.starts
    for n, m in NAMES.items():
        assert np.abs(run.draws[f"mu_{n}"].mean(axis=1) - m).max() < 0.5
    assert max(s.rhat for s in run.diagnostics()) < 1.05


def two_tests(sick, y):
    """Two tests without a gold standard: what finds the sick, and what finds the healthy."""
    share = numpyro.sample("share", sick)
    hit = numpyro.sample("hit", dist.Beta(20.0, 2.0).expand([2]))
    calm = numpyro.sample("calm", dist.Beta(20.0, 2.0).expand([2]))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(share))
    numpyro.sample("y", dist.Bernoulli(jnp.where(z[:, None] == 1, hit, 1 - calm)).to_event(2), obs=y)


def chosen(x, y):
    """A choice by logits between two levels."""
    slope = numpyro.sample("slope", dist.Normal(0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-3.0, 3.0]), 0.5))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(logits=slope * x))
        numpyro.sample("y", dist.Normal(mu[z], 0.5), obs=y)


def test_two_labels_are_exchanged_with_all_that_tells_for_one_of_them():
    rng = np.random.default_rng(3)
    z, hits = (rng.uniform(size=100) < 0.3).astype(int), np.array([0.95, 0.6])
    y = (rng.uniform(size=(100, 2)) < np.where(z[:, None] == 1, hits, 1 - hits)).astype(int)
    right = {"share": 0.3, "hit": hits, "calm": hits, "z": z}
    wrong = {"share": 0.7, "hit": 1 - hits, "calm": 1 - hits, "z": 1 - z}
    check_exchange(gb.model(two_tests, dist.Beta(1.0, 1.0), y), right, wrong)
    x = np.linspace(-2, 2, 40)
    z = (x > 0).astype(int)
    right = {"slope": 2.0, "mu": [-3.0, 3.0], "z": z}
    wrong = {"slope": -2.0, "mu": [3.0, -3.0], "z": 1 - z}
    check_exchange(gb.model(chosen, x, np.where(z == 1, 3.0, -3.0)), right, wrong)


def check_exchange(model, right, wrong):
    values = {n: np.stack([np.asarray(v[n]) for v in (right, wrong)]) for n in right}

    def level(at):
        return np.array([float(model.density.log_joint({n: v[c] for n, v in at.items()})) for c in range(2)])

    found, moved = relabelled(model.density, values, level)
    assert moved.tolist() == [False, True]
    for v in found.values():
        np.testing.assert_allclose(v[1], v[0], rtol=1e-6)
