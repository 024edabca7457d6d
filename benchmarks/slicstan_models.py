"""The models that SlicStan was evaluated on, as NumPyro's users write them, and data drawn from them.

Gorinova, Gordon, Sutton and Vákár 2022, "Conditional independence by typing", §5.2, figures 8 to 12: K = 3
values, N discrete unknowns, the transition matrix and the proportions known. Each has its form in arrays,
which is also the one with which NumPyro's enumeration does best (`NumPyro-Opt` there), and the hidden Markov
models also the form with a site per step, which NumPyro takes up to some thirty of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

P = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], np.float32)
SHARES = np.array([0.5, 0.3, 0.2], np.float32)
MEANS = np.array([-1.5, 0.0, 1.5])
SPREADS = np.array([0.5, 4.0], np.float32)


def _means(size: int) -> Any:
    return numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([size]).to_event(1))


def hmm1(y: Any) -> None:
    mu = _means(3)

    def step(z: Any, y: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(jnp.asarray(P)[z]))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)
        return z, None

    scan(step, 0, y)


def hmm1_by_site(y: Any) -> None:
    mu, z = _means(3), 0
    for n in range(len(y)):
        z = numpyro.sample(f"z_{n}", dist.Categorical(jnp.asarray(P)[z]))
        numpyro.sample(f"y_{n}", dist.Normal(mu[z], 1.0), obs=y[n])


def hmm2(y: Any, history: int = 1) -> None:
    mu = _means(3)

    def step(before: Any, y: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(jnp.asarray(P)[jnp.maximum(*before)]))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)
        return (before[1], z), None

    scan(step, (0, 0), y, history=history)


def hmm2_with_history(y: Any) -> None:
    """As `hmm2`, in the form that NumPyro's `scan` takes for two lags: see its `history`."""
    hmm2(y, history=2)


def hmm2_by_site(y: Any) -> None:
    mu, before, last = _means(3), 0, 0
    for n in range(len(y)):
        z = numpyro.sample(f"z_{n}", dist.Categorical(jnp.asarray(P)[jnp.maximum(before, last)]))
        numpyro.sample(f"y_{n}", dist.Normal(mu[z], 1.0), obs=y[n])
        before, last = last, z


def factorial(y: Any) -> None:
    mu = _means(9)

    def step(before: Any, y: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(jnp.asarray(P)[before[0]]))
        h = numpyro.sample("h", dist.Categorical(jnp.asarray(P)[before[1]]))
        numpyro.sample("y", dist.Normal(mu[z * h], 1.0), obs=y)
        return (z, h), None

    scan(step, (0, 0), y)


def factorial_by_site(y: Any) -> None:
    mu, z, h = _means(9), 0, 0
    for n in range(len(y)):
        z = numpyro.sample(f"z_{n}", dist.Categorical(jnp.asarray(P)[z]))
        h = numpyro.sample(f"h_{n}", dist.Categorical(jnp.asarray(P)[h]))
        numpyro.sample(f"y_{n}", dist.Normal(mu[z * h], 1.0), obs=y[n])


def soft_kmeans(y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([3, y.shape[1]]).to_event(2))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.asarray(SHARES)))
        numpyro.sample("y", dist.Normal(mu[z], 1.0).to_event(1), obs=y)


def outliers(y: Any) -> None:
    x = jnp.linspace(-1.0, 1.0, len(y))
    alpha, beta = (numpyro.sample(n, dist.Normal(0.0, 10.0)) for n in ("alpha", "beta"))
    raw = numpyro.sample("raw", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(logits=raw[0] - raw[1]))
        numpyro.sample("y", dist.Normal(alpha * x + beta, jnp.asarray(SPREADS)[z]), obs=y)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: the model, how NumPyro wants it where that is another form, the form of a site
    per step, data of N discrete unknowns (or steps), and the largest N there."""

    number: int
    model: Callable[[Any], None]
    numpyro: Callable[[Any], None]
    by_site: Callable[[Any], None] | None
    data: Callable[[int], np.ndarray]
    most: int


def _chain(n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    z = [0]
    for _ in range(n):
        z.append(int(rng.choice(3, p=P[z[-1]] / P[z[-1]].sum())))
    return (MEANS[z[1:]] + rng.normal(size=n)).astype(np.float32)


def _points(n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    return (2 * rng.normal(size=(3, 10))[rng.choice(3, n)] + rng.normal(size=(n, 10))).astype(np.float32)


def _line(n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    spread = SPREADS[(rng.uniform(size=n) < 0.3).astype(int)]
    return (np.linspace(-1.0, 1.0, n) * 2 + 1 + spread * rng.normal(size=n)).astype(np.float32)


FIGURES = (
    Figure(8, hmm1, hmm1, hmm1_by_site, _chain, 25),
    Figure(9, hmm2, hmm2_with_history, hmm2_by_site, _chain, 25),
    Figure(10, factorial, factorial, factorial_by_site, _chain, 12),
    Figure(11, soft_kmeans, soft_kmeans, None, _points, 25),
    Figure(12, outliers, outliers, None, _line, 25),
)
