"""Detailed balance of finite kernels, element by element, over every state of small models."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density


def lattice():
    s = numpyro.sample("s", dist.Categorical(jnp.array([0.3, 0.7])).expand([2, 3]).to_event(2))
    x = 2.0 * s - 1
    numpyro.factor("across", 0.8 * jnp.sum(x[:, 1:] * x[:, :-1]) - 0.5 * jnp.sum(x[1:] * x[:-1]))


def hidden_chain():
    p = jnp.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
    s = numpyro.sample("s", dist.Categorical(jnp.ones(3) / 3).expand([4]).to_event(1))
    numpyro.factor("steps", jnp.sum(jnp.log(p[s[:-1], s[1:]])))
    numpyro.sample("y", dist.Normal(1.0 * s, 0.8).to_event(1), obs=jnp.array([0.2, 1.1, 1.9, 0.4]))


def all_alike():
    s = numpyro.sample("s", dist.Bernoulli(0.4).expand([5]).to_event(1))
    numpyro.sample("y", dist.Normal(jnp.sum(s) ** 2 * 0.3, 1.0), obs=1.5)


MODELS = [(lattice, 2), (hidden_chain, 3), (all_alike, 2)]


@pytest.mark.parametrize(("model", "k"), MODELS, ids=[m.__name__ for m, _ in MODELS])
def test_flow_between_any_two_states_is_even(model, k):
    """pi(a) P(a, b) = pi(b) P(b, a) for states that differ in one element; pi from NumPyro alone."""
    m = gb.model(model)
    shape = m.sites["s"].shape
    states = np.array(list(itertools.product(range(k), repeat=int(np.prod(shape))))).reshape(-1, *shape)
    joint = jax.jit(jax.vmap(lambda s: log_density(model, (), {}, {"s": s})[0]))(jnp.asarray(states))
    pi = np.exp(np.asarray(joint, np.float64))
    pi /= pi.sum()
    c = m.conditional("s")
    chance = np.exp(np.asarray(jax.vmap(lambda s: c.logits({"s": s}))(jnp.asarray(states)), np.float64))
    chance = chance.reshape(len(states), -1, k)
    flat = states.reshape(len(states), -1)
    number = {tuple(s): i for i, s in enumerate(flat)}
    pairs = 0
    for i, s in enumerate(flat):
        for e, value in itertools.product(range(flat.shape[1]), range(k)):
            j = number[(*s[:e], value, *s[e + 1 :])]
            forth, back = pi[i] * chance[i, e, value], pi[j] * chance[j, e, s[e]]
            np.testing.assert_allclose(forth, back, rtol=2e-4)
            pairs += i != j
    assert pairs == len(states) * flat.shape[1] * (k - 1)


@pytest.mark.parametrize(("model", "k"), MODELS, ids=[m.__name__ for m, _ in MODELS])
def test_one_application_leaves_the_law_as_it_is(model, k):
    """States drawn from pi and updated once have law pi again: a chi-square test over all states."""
    m, n = gb.model(model), 40_000
    shape = m.sites["s"].shape
    states = np.array(list(itertools.product(range(k), repeat=int(np.prod(shape))))).reshape(-1, *shape)
    joint = jax.jit(jax.vmap(lambda s: log_density(model, (), {}, {"s": s})[0]))(jnp.asarray(states))
    pi = np.exp(np.asarray(joint, np.float64))
    pi /= pi.sum()
    start = states[np.random.default_rng(0).choice(len(states), n, p=pi)]
    c = m.conditional("s")
    update = jax.jit(jax.vmap(lambda key, s: c.sample(key, {"s": s})))
    after = np.asarray(update(jax.random.split(jax.random.key(1), n), jnp.asarray(start))).reshape(n, -1)
    index = after @ k ** np.arange(after.shape[1])[::-1]
    counts = np.bincount(index.astype(int), minlength=len(states))
    likely = pi * n > 5
    expected = np.append(pi[likely] * n, pi[~likely].sum() * n)
    seen = np.append(counts[likely], counts[~likely].sum())
    chi, free = np.sum((seen - expected) ** 2 / np.maximum(expected, 1e-9)), len(expected) - 1
    assert chi < free + 5 * np.sqrt(2 * free), (chi, free)
    assert free >= 10
