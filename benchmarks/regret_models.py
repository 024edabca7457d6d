"""The models of `regret.py`: a grid in size, noise, balance and prior, and examples that are hard to plan.

Data are simulated here, from fixed seeds. Every model is conditionally conjugate at least in part, so that
there is something to choose from.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

Built = tuple[Callable[..., None], tuple[Any, ...]]


def effects(y: Any, noise: float) -> None:
    """One noisy mean for each effect, the noise known, a conjugate variance."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    v = numpyro.sample("v", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("J", len(y)):
        t = numpyro.sample("t", dist.Normal(mu, jnp.sqrt(v)))
        numpyro.sample("y", dist.Normal(t, noise), obs=y)


def grouped(g: Any, y: Any, n: int) -> None:
    """Groups of observations, both variances conjugate."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    v = numpyro.sample("v", dist.InverseGamma(1.0, 1.0))
    s2 = numpyro.sample("s2", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("J", n):
        t = numpyro.sample("t", dist.Normal(mu, jnp.sqrt(v)))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(t[g], jnp.sqrt(s2)), obs=y)


def crossed(a: Any, b: Any, y: Any, n: int, m: int) -> None:
    """Two kinds of effects."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    va = numpyro.sample("va", dist.InverseGamma(1.0, 1.0))
    vb = numpyro.sample("vb", dist.InverseGamma(1.0, 1.0))
    s2 = numpyro.sample("s2", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("A", n):
        x = numpyro.sample("x", dist.Normal(0, jnp.sqrt(va)))
    with numpyro.plate("B", m):
        z = numpyro.sample("z", dist.Normal(0, jnp.sqrt(vb)))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(mu + x[a] + z[b], jnp.sqrt(s2)), obs=y)


def walk(y: Any) -> None:
    """A Gaussian random walk, both variances conjugate."""
    s = numpyro.sample("s", dist.InverseGamma(1.0, 0.1))
    o = numpyro.sample("o", dist.InverseGamma(1.0, 0.1))
    x = numpyro.sample("x", dist.GaussianRandomWalk(jnp.sqrt(s), num_steps=len(y)))
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Normal(x, jnp.sqrt(o)), obs=y)


def lasso(X: Any, y: Any) -> None:
    """Park and Casella's Bayesian lasso."""
    l2 = numpyro.sample("l2", dist.Gamma(1.0, 1.0))
    s2 = numpyro.sample("s2", dist.InverseGamma(2.0, 1.0))
    with numpyro.plate("p", X.shape[1]):
        t = numpyro.sample("t", dist.Exponential(l2 / 2))
        b = numpyro.sample("b", dist.Normal(0, jnp.sqrt(t * s2)))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(X @ b, jnp.sqrt(s2)), obs=y)


def regression(X: Any, y: Any) -> None:
    """A regression under a ridge whose variance is conjugate."""
    v = numpyro.sample("v", dist.InverseGamma(1.0, 1.0))
    s2 = numpyro.sample("s2", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("p", X.shape[1]):
        b = numpyro.sample("b", dist.Normal(0, jnp.sqrt(v)))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(X @ b, jnp.sqrt(s2)), obs=y)


def pumps(t: Any, y: Any) -> None:
    """Gamma–Poisson rates, the shape of their law unknown."""
    a = numpyro.sample("a", dist.Exponential(1.0))
    b = numpyro.sample("b", dist.Gamma(0.1, 1.0))
    with numpyro.plate("J", len(t)):
        r = numpyro.sample("r", dist.Gamma(a, b))
        numpyro.sample("y", dist.Poisson(r * t), obs=y)


def mixture(x: Any) -> None:
    """Three Normals of known width."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


PUMPS = (
    np.array([94.3, 15.7, 62.9, 126, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5], np.float32),
    np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22]),
)


def _effects(J: int, noise: float) -> Built:
    r = np.random.default_rng(3)
    y = (r.normal(0, 1, J) + r.normal(0, noise, J)).astype(np.float32)
    return effects, (y, noise)


def _grouped(J: int, each: int, sd: float = 1.0, noise: float = 1.0, uneven: bool = False) -> Built:
    r = np.random.default_rng(4)
    share = r.dirichlet(np.full(J, 0.5)) if uneven else np.full(J, 1 / J)
    g = np.sort(np.r_[np.arange(J), r.choice(J, J * (each - 1), p=share)])
    y = (r.normal(0, sd, J)[g] + r.normal(0, noise, len(g))).astype(np.float32)
    return grouped, (g, y, J)


def _crossed(n: int, m: int) -> Built:
    r = np.random.default_rng(5)
    a, b = (k.ravel() for k in np.meshgrid(np.arange(n), np.arange(m)))
    y = r.normal(0, 1, n)[a] + r.normal(0, 0.5, m)[b] + r.normal(0, 1, n * m)
    return crossed, (a, b, y.astype(np.float32), n, m)


def _walk(n: int, step: float) -> Built:
    r = np.random.default_rng(11)
    return walk, ((np.cumsum(r.normal(0, step, n)) + r.normal(0, 1, n)).astype(np.float32),)


def _columns(fn: Callable[..., None], n: int, p: int) -> Built:
    r = np.random.default_rng(6)
    X = r.normal(0, 1, (n, p)).astype(np.float32)
    b = np.where(np.arange(p) % 3 == 0, r.normal(0, 1, p), 0)
    return fn, (X, (X @ b + r.normal(0, 1, n)).astype(np.float32))


def _mixture(n: int, apart: float) -> Built:
    r = np.random.default_rng(7)
    return mixture, ((r.choice([-apart, 0, apart], n) + r.normal(0, 1, n)).astype(np.float32),)


CASES: dict[str, Callable[[], Built]] = {
    **{
        f"effects {J}, noise {s}": lambda J=J, s=s: _effects(J, float(s))
        for J in (5, 25, 26, 100, 400)
        for s in (1, 8)
    },
    "28 groups of 5": lambda: _grouped(28, 5),
    "60 groups of 5": lambda: _grouped(60, 5),
    "60 groups of 5, uneven": lambda: _grouped(60, 5, uneven=True),
    "250 groups of 2": lambda: _grouped(250, 2),
    "250 groups of 2, alike": lambda: _grouped(250, 2, sd=0.2),
    "8 groups of 40": lambda: _grouped(8, 40),
    "8 groups of 40, alike": lambda: _grouped(8, 40, sd=0.05),
    "40 groups of 40": lambda: _grouped(40, 40),
    "crossed 20 by 10": lambda: _crossed(20, 10),
    "walk 80": lambda: _walk(80, 0.3),
    "walk 80, rough": lambda: _walk(80, 2.0),
    "lasso 10": lambda: _columns(lasso, 100, 10),
    "lasso 40": lambda: _columns(lasso, 100, 40),
    "ridge 10": lambda: _columns(regression, 100, 10),
    "ridge 60": lambda: _columns(regression, 100, 60),
    "pumps": lambda: (pumps, PUMPS),
    "mixture, apart": lambda: _mixture(300, 4.0),
    "mixture, near": lambda: _mixture(300, 1.5),
}


def cases(names: list[str]) -> Iterator[tuple[str, Built]]:
    """The models by name; all of them where none is named."""
    for name in names or CASES:
        yield name, CASES[name]()
