"""Programs that the tape's tests run: the documents' models, and random ones."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import sample

from helpers.startup.arrays import array


def geom(n, p, key):
    key, draw = jax.random.split(key)
    return n if jax.random.uniform(draw) < p else geom(n + 1, p, key)


def bernoulli_mixture(x):
    w = sample("w", dist.Dirichlet(jnp.array([0.5, 0.5])))
    p = sample("p", dist.Categorical(w))
    sample("x", dist.Bernoulli(jnp.array([0.3, 0.7])[p]), obs=x)


def hierarchical_gaussian(x):
    lam = sample("λ", dist.Gamma(2.0, 3.0))
    m = sample("m", dist.Normal(0.0, jnp.sqrt(1 / lam)))
    sample("x", dist.Normal(m, jnp.sqrt(1 / lam)), obs=x)


def gmm(x, K):
    w = sample("w", dist.Dirichlet(jnp.full(K, 1 / K)))
    mu = sample("μ", dist.Normal(0.0, 1.0).expand([K]))
    with numpyro.plate("n", len(x)):
        z = sample("z", dist.Categorical(w))
        sample("x", dist.Normal(mu[z], 0.1), obs=x)


def hmm(x, K):
    T = [sample(f"T[{k}]", dist.Dirichlet(jnp.full(K, 1 / K))) for k in range(K)]
    m = jnp.stack([sample(f"m[{k}]", dist.Normal(float(k), 0.1)) for k in range(K)])
    T = jnp.stack(T)
    s = sample("s[0]", dist.Categorical(jnp.full(K, 1 / K)))
    sample("x[0]", dist.Normal(m[s], 0.5), obs=x[0])
    for t in range(1, len(x)):
        s = sample(f"s[{t}]", dist.Categorical(T[s]))
        sample(f"x[{t}]", dist.Normal(m[s], 0.5), obs=x[t])


LISTINGS = {
    "bernoulli_mixture": (bernoulli_mixture, (array(0),)),
    "hierarchical_gaussian": (hierarchical_gaussian, (1.4,)),
    "gmm": (gmm, (array([0.1, 0.9, 1.1, -0.2]), 2)),
    "hmm": (hmm, (array([0.1, 0.9, 1.1]), 2)),
}

_UNARY = (jnp.sin, jnp.tanh, jax.nn.softplus, jax.nn.relu, lambda x: x**2, jnp.cumsum, lambda x: x[::-1])
_BINARY = (jnp.add, jnp.multiply, jnp.subtract, lambda a, b: jnp.where(a > b, a, jnp.sin(b)))


def _looped(x):
    return jax.lax.scan(lambda c, a: (c * 0.5 + a, jnp.cos(c)), jnp.float32(0.1), x)[1]


def _bounded(x):
    return jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + i, x)


def _branched(x):
    return jax.lax.cond(x.sum() > 0, jnp.tanh, lambda v: v * 0.5, x)


@jax.jit
def _nested(x):
    return jnp.exp(-(x**2)) + jax.nn.softmax(x)


def _decided(x):
    return x * 2 if x[0] > 0.3 else jnp.cos(x)


_WHOLE = (_looped, _bounded, _branched, _nested, jax.checkpoint(jnp.sin), _decided)
WITHOUT_DECISIONS = _WHOLE[:-1]


def random_program(seed: int, decide: bool = True):
    """A scalar function of one vector of length 4, and that vector."""
    rng = np.random.default_rng(seed)
    whole = _WHOLE if decide else WITHOUT_DECISIONS
    steps = []
    for _ in range(int(rng.integers(2, 7))):
        table = (_UNARY, _BINARY, whole)[int(rng.integers(3))]
        steps.append((table is _BINARY, table[int(rng.integers(len(table)))], rng.integers(0, 100, 2)))

    def program(x):
        values = [x, x * 0.5 + 0.1]
        for two, step, at in steps:
            a, b = values[at[0] % len(values)], values[at[1] % len(values)]
            values.append(step(a, b) if two else step(a))
        return sum(v.sum() for v in values[1:])

    return program, jnp.asarray(rng.normal(size=4), jnp.float32)
