"""Flows between all states of a finite target: invariant for every kernel, even both ways for Metropolis'."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.base import step_info
from gibbsite.kernels.blocks.finite import FiniteGibbs
from gibbsite.kernels.blocks.metropolis import IndependenceMetropolis, Metropolis, RandomWalk
from gibbsite.kernels.composite import Repeat
from numpyro.infer.util import log_density

CHAINS = 200_000
STATES = np.array(list(itertools.product(range(3), repeat=2)))


def pair():
    with numpyro.plate("n", 2):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
        numpyro.sample("y", dist.Normal(z, 1.2), obs=jnp.array([0.2, 1.8]))
    numpyro.factor("pull", 0.9 * (z[0] == z[1]))


def lopsided(state):
    """More likely upwards than downwards."""
    z = state["z"][..., None]
    return dist.Categorical(logits=0.7 * (jnp.arange(3) > z) - 0.4 * (jnp.arange(3) < z)).to_event(1)


class Careless(Metropolis):
    """Forgets the Hastings ratio: the test must notice."""

    def step(self, key, z, tuning, target, adapting):
        key_draw, key_accept = jax.random.split(key)
        there = {n: d.sample(key_draw) for n, d in self._propose(z, target).items()}
        accepted = -jax.random.exponential(key_accept) < target.logdensity(there) - target.logdensity(z)
        return {n: jnp.where(accepted, there[n], z[n]) for n in z}, tuning, step_info()


KERNELS = {
    "Gibbs": (FiniteGibbs, False),
    "RandomWalk": (RandomWalk, True),
    "Independence": (IndependenceMetropolis, True),
    "Metropolis": (lambda m: Metropolis(m, lopsided), True),
    "repeated": (lambda m: Repeat(RandomWalk(m), 2), True),
}


def flows(kernel):
    """How many chains went from each state to each, from exact draws of the target; and its probabilities."""
    joint = [float(log_density(pair, (), {}, {"z": jnp.asarray(z)})[0]) for z in STATES]
    p = np.exp(np.array(joint) - max(joint))
    p /= p.sum()
    first = np.random.default_rng(1).choice(len(STATES), CHAINS, p=p)

    @jax.jit
    @jax.vmap
    def once(key, z):
        return kernel.sample(kernel.init(key, 0, {"z": z}, (), {}), (), {}).z["z"]

    moved = np.asarray(once(jax.random.split(jax.random.key(0), CHAINS), jnp.asarray(STATES[first])))
    count = np.zeros((len(STATES), len(STATES)))
    np.add.at(count, (first, moved[:, 0] * 3 + moved[:, 1]), 1)
    return count, p


def unevenness(count):
    """z-scores of the flow from i to j against that from j to i, of all pairs with traffic."""
    total = count + count.T
    i, j = np.nonzero(np.triu(total >= 50, 1))
    return (count - count.T)[i, j] / np.sqrt(total[i, j])


@pytest.mark.share(3)
@pytest.mark.parametrize("name", KERNELS)
def test_flows_are_those_of_the_target(name):
    build, reversible = KERNELS[name]
    count, p = flows(build(pair))
    after = (count.sum(0) - CHAINS * p) / np.sqrt(CHAINS * p * (1 - p))
    assert np.abs(after).max() < 4.5, after
    assert count.sum() - np.trace(count) > CHAINS / 20
    if reversible:
        z = unevenness(count)
        assert len(z) >= 12 and np.abs(z).max() < 4.5, z


def test_a_forgotten_ratio_is_noticed():
    count, p = flows(Careless(pair, lopsided))
    assert np.abs(count.sum(0) - CHAINS * p).max() > 10 * np.sqrt(CHAINS * p.max())
