"""Twenty more small models, each of another structure than the zoo's, for elimination against brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

from helpers.models.zoo import Case

RNG = np.random.default_rng(11)
X = RNG.normal(size=5)


def bern(name, p):
    return numpyro.sample(name, dist.Bernoulli(p))


def noisy_or(y):
    """Diseases that share findings: loops of elements, a table over the parents of each finding."""
    q = numpyro.sample("q", dist.Beta(2, 2).expand([4]))
    with numpyro.plate("diseases", 4):
        d = bern("d", 0.3)
    parents = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
    off = (1 - 0.8 * d[parents[:, 0]] * q[parents[:, 0]]) * (1 - 0.7 * d[parents[:, 1]])
    numpyro.sample("y", dist.Bernoulli(1 - 0.95 * off), obs=y)


def repeated_parent(y):
    """Two reads that are one element in some rows."""
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("k", 3):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
    pairs = np.array([[0, 1], [1, 1], [2, 0], [2, 2]])
    numpyro.sample("y", dist.Normal(a * z[pairs[:, 0]] + z[pairs[:, 1]], 1.0), obs=y)


def dense_noisy_or(y):
    w = numpyro.sample("w", dist.Gamma(2, 2).expand([3, 4]).to_event(2))
    with numpyro.plate("causes", 4):
        d = bern("d", 0.4)
    numpyro.sample("y", dist.Poisson(0.1 + w @ d), obs=y)


def dawid_skene(labels):
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(3)))
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones((2, 3, 3))).to_event(2))
    with numpyro.plate("items", len(labels), dim=-2):
        z = numpyro.sample("z", dist.Categorical(pi))
        with numpyro.plate("raters", 2, dim=-1):
            numpyro.sample("y", dist.Categorical(theta[jnp.arange(2), z]), obs=labels)


def capture_recapture(seen):
    """Alive or dead, captured or not: a chain per animal whose death is final (structural zeros)."""
    phi, p = numpyro.sample("phi", dist.Beta(2, 1)), numpyro.sample("p", dist.Beta(1, 1))

    def step(alive, y):
        with numpyro.plate("animals", seen.shape[1]):
            alive = bern("alive", phi * alive)
            numpyro.sample("y", dist.Bernoulli(p * alive), obs=y)
        return alive, None

    scan(step, jnp.ones(seen.shape[1], int), seen)


def zero_inflated(y):
    pi, rate = numpyro.sample("pi", dist.Beta(1, 1)), numpyro.sample("rate", dist.Gamma(2, 1))
    with numpyro.plate("n", len(y)):
        on = bern("on", pi)
        numpyro.sample("y", dist.Poisson(rate * on), obs=y)


def classes_of_chains(y):
    """Several chains, each of a class of its own, and one class prior."""
    mu = numpyro.sample("mu", dist.Normal(0, 2).expand([2]))
    with numpyro.plate("chains", y.shape[1]):
        c = bern("c", 0.4)
    stay = jnp.array([0.9, 0.6])[c]
    z0 = jnp.zeros(y.shape[1], int)

    def step(before, now):
        with numpyro.plate("chains", y.shape[1]):
            z = bern("z", jnp.where(before == 1, stay, 1 - stay))
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=now)
        return z, None

    scan(step, z0, y)


def coupled_chains(y):
    """Two chains, the steps of each depending on both."""
    b = numpyro.sample("b", dist.Normal(0, 1))

    def step(state, now):
        u, v = state
        u1 = bern("u", jnp.where(u == v, 0.8, 0.3))
        v1 = bern("v", jnp.where(u + v > 0, 0.6, 0.2))
        numpyro.sample("y", dist.Normal(b * u1 - v1, 1.0), obs=now)
        return (u1, v1), None

    scan(step, (0, 0), y)


def crossed_chains(y):
    """Two chains without steps of their own: each reads the other's last value."""

    def step(state, now):
        u, v = state
        u1 = bern("u", 0.2 + 0.5 * v)
        v1 = bern("v", 0.7 - 0.4 * u)
        numpyro.sample("y", dist.Normal(u1 + 2.0 * v1, 1.0), obs=now)
        return (u1, v1), None

    scan(step, (0, 1), y)


def second_order_max(y):
    """The steps depend on the larger of the last two values."""
    p = numpyro.sample("p", dist.Beta(1, 1).expand([3]))
    with numpyro.plate("t", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=y)
    last = jnp.maximum(z[:-2], z[1:-1])
    numpyro.factor("steps", jnp.where(z[2:] == last, jnp.log(p[last]), jnp.log1p(-p[last])))


def lag_two(y):
    """Only every other element is coupled: two chains in one."""
    j = numpyro.sample("j", dist.Normal(0, 1))
    with numpyro.plate("t", len(y)):
        z = bern("z", 0.4)
        numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=y)
    numpyro.factor("pairs", j * (z[2:] == z[:-2]))


def nested_switch(y):
    g = numpyro.sample("g", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
    m = numpyro.sample("m", dist.Normal(0, 1).expand([3]))
    with numpyro.plate("rows", y.shape[0], dim=-2):
        row = bern("row", 0.2 + 0.3 * g)
        with numpyro.plate("columns", y.shape[1], dim=-1):
            cell = bern("cell", jnp.where(row == 1, 0.8, 0.3))
            numpyro.sample("y", dist.Normal(m[g] + cell, 1.0), obs=y)


def group_over_elements(y):
    """Elements of data-indexed groups: which rows share a group is told by an array."""
    s = numpyro.sample("s", dist.Gamma(2, 1).expand([2]))
    g = np.array([0, 2, 2, 1, 0])
    with numpyro.plate("groups", 3):
        c = bern("c", 0.3)
    with numpyro.plate("n", len(y)):
        z = bern("z", jnp.array([0.2, 0.7])[c[g]])
        numpyro.sample("y", dist.Normal(2.0 * z, s[c[g]]), obs=y)


def tree(y):
    p = numpyro.sample("p", dist.Beta(1, 1))
    parent = np.array([0, 0, 1, 1, 2, 2, 0])
    with numpyro.plate("nodes", 7):
        z = bern("z", 0.5)
    same = z[1:] == z[parent[1:]]
    numpyro.factor("edges", jnp.where(same, jnp.log(p), jnp.log1p(-p)))
    numpyro.sample("y", dist.Normal(1.0 * z[3:7], 1.0), obs=y)


def gated_chain(y):
    """A switch says whether the elements hang together at all."""
    j = numpyro.sample("j", dist.Normal(0, 1))
    m = bern("m", 0.5)
    with numpyro.plate("t", len(y)):
        z = bern("z", 0.4)
        numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=y)
    numpyro.factor("pairs", m * j * (z[1:] == z[:-1]))


def parity(y):
    a = numpyro.sample("a", dist.Beta(1, 1))
    z = [bern(f"bit{i}", a) for i in range(4)]
    numpyro.factor("even", jnp.where(sum(z) % 2 == 0, 0.0, -jnp.inf))
    numpyro.sample("y", dist.Normal(1.0 * z[0], 1.0), obs=y)


def one_hot(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("k", 4):
        z = bern("z", w)
    numpyro.factor("one", jnp.where(z.sum() == 1, 0.0, -jnp.inf))
    numpyro.sample("y", dist.Normal(jnp.sum(z * jnp.arange(4.0)), 1.0), obs=y)


def threshold(y):
    cut = numpyro.sample("cut", dist.DiscreteUniform(0, len(y)))
    rate = numpyro.sample("rate", dist.Normal(0, 1).expand([2]))
    with numpyro.plate("n", len(y)):
        flip = bern("flip", 0.2)
        late = jnp.where(jnp.arange(len(y)) >= cut, 1, 0)
        numpyro.sample("y", dist.Normal(rate[late] + flip, 1.0), obs=y)


def branches(y):
    k = numpyro.sample("k", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
    m = numpyro.sample("m", dist.Normal(0, 1))
    with numpyro.plate("n", len(y)):
        z = bern("z", 0.3)
        mean = jax.lax.switch(k, [lambda z: m + z, lambda z: m - z, lambda z: 0.0 * z], z)
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def looped_chain(y):
    """A chain written as a loop over sites."""
    p = numpyro.sample("p", dist.Beta(1, 1).expand([2]))
    z = 0
    for t in range(len(y)):
        z = numpyro.sample(f"z[{t}]", dist.Bernoulli(p[z]))
        numpyro.sample(f"y[{t}]", dist.Normal(1.5 * z, 1.0), obs=y[t])


def small_grid(rows=3, columns=3):
    j = numpyro.sample("j", dist.Normal(0, 1))
    with numpyro.plate("i", rows, dim=-2), numpyro.plate("k", columns, dim=-1):
        z = bern("z", 0.5)
    numpyro.factor("down", j * (z[1:] == z[:-1]))
    numpyro.factor("right", 0.5 * j * (z[:, 1:] == z[:, :-1]))


def masked_pairs(y, keep):
    """A chain of which some steps count for nothing, with unequal supports."""
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("t", len(y)):
        z = numpyro.sample("z", dist.DiscreteUniform(0, np.array([1, 2, 1, 2, 2])))
        numpyro.sample("y", dist.Normal(a * z, 1.0), obs=y)
    numpyro.factor("steps", jnp.where(keep, -jnp.abs(z[1:] - z[:-1]) * jnp.exp(a), 0.0))


MODELS = {
    "noisy_or": Case(noisy_or, (np.array([1, 0, 1, 1, 0]),)),
    "repeated_parent": Case(repeated_parent, (X[:4],)),
    "dense_noisy_or": Case(dense_noisy_or, (np.array([0, 2, 1]),)),
    "dawid_skene": Case(dawid_skene, (np.array([[0, 1], [2, 2], [1, 1], [0, 0]]),)),
    "capture_recapture": Case(capture_recapture, (np.array([[1, 0], [0, 1], [1, 0], [0, 0]]),)),
    "zero_inflated": Case(zero_inflated, (np.array([0, 3, 0, 1]),)),
    "classes_of_chains": Case(classes_of_chains, (RNG.normal(size=(4, 2)),)),
    "coupled_chains": Case(coupled_chains, (X,)),
    "crossed_chains": Case(crossed_chains, (X,)),
    "second_order_max": Case(second_order_max, (X,)),
    "lag_two": Case(lag_two, (X,)),
    "nested_switch": Case(nested_switch, (RNG.normal(size=(2, 3)),)),
    "group_over_elements": Case(group_over_elements, (X,)),
    "tree": Case(tree, (X[:4],)),
    "gated_chain": Case(gated_chain, (X,)),
    "parity": Case(parity, (0.7,)),
    "one_hot": Case(one_hot, (1.4,)),
    "threshold": Case(threshold, (X,)),
    "branches": Case(branches, (X[:4],)),
    "looped_chain": Case(looped_chain, (X,)),
    "small_grid": Case(small_grid),
    "masked_pairs": Case(masked_pairs, (X, np.array([True, False, True, True]))),
}
