"""The models of `regret.py`: a grid in size, noise, balance and prior, and examples that are hard to plan.

Data are simulated here, from fixed seeds. In every model there is something to choose from: what could be
drawn exactly, summed out or integrated out, or moved by gradients.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from default_models import cases as defaults
from numpyro.contrib.control_flow import scan

Built = tuple[Callable[..., None], tuple[Any, ...]]


def effects(y: Any, noise: float) -> None:
    """One noisy mean for each effect, the noise known, a conjugate variance."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    v = numpyro.sample("v", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("J", len(y)):
        t = numpyro.sample("t", dist.Normal(mu, jnp.sqrt(v)))
        numpyro.sample("y", dist.Normal(t, noise), obs=y)


def studies(y: Any, X: Any, noise: float, scale: Any) -> None:
    """Effects that covariates tell of, the noise known, a scale that is not conjugate."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", scale)
    b = numpyro.sample("b", dist.Normal(0, 2).expand([X.shape[1]])) if X.shape[1] else jnp.zeros(0)
    with numpyro.plate("J", len(y)):
        t = numpyro.sample("t", dist.Normal(mu + X @ b, tau))
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


def seasons(y: Any, noise: float) -> None:
    """Twelve levels, and a state that keeps a share of itself, under noise of a known size."""
    persist = numpyro.sample("persist", dist.Uniform(0, 1))
    shock = numpyro.sample("shock", dist.HalfNormal(1))
    with numpyro.plate("month", 12):
        usual = numpyro.sample("usual", dist.Normal(23, 3))

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        state = numpyro.sample("state", dist.Normal(persist * state, shock))
        return state, state

    _, states = scan(step, 0.0, None, length=len(y))
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Normal(usual[np.arange(len(y)) % 12] + states, noise), obs=y)


def process(x: Any, y: Any) -> None:
    """A Gaussian process written out, under noise."""
    a = numpyro.sample("a", dist.HalfNormal(2))
    length = numpyro.sample("length", dist.InverseGamma(5, 5))
    s = numpyro.sample("s", dist.HalfNormal(1))
    k = a**2 * jnp.exp(-0.5 * (x[:, None] - x) ** 2 / length**2) + 1e-4 * jnp.eye(len(x))
    f = numpyro.sample("f", dist.MultivariateNormal(0, k))
    numpyro.sample("y", dist.Normal(f, s), obs=y)


def structural(y: Any) -> None:
    """A level that walks, and a season of four that changes."""
    sl = numpyro.sample("sl", dist.HalfNormal(0.5))
    ss = numpyro.sample("ss", dist.HalfNormal(0.3))
    sy = numpyro.sample("sy", dist.HalfNormal(1))
    first = numpyro.sample("l0", dist.Normal(0, 3))
    before = numpyro.sample("s0", dist.Normal(0, 1).expand([3]).to_event(1))

    def step(carry: Any, now: Any) -> tuple[Any, None]:
        level, season = carry
        level = numpyro.sample("l", dist.Normal(level, sl))
        new = numpyro.sample("s", dist.Normal(-season.sum(), ss))
        numpyro.sample("y", dist.Normal(level + new, sy), obs=now)
        return (level, jnp.concatenate([new[None], season[:-1]])), None

    scan(step, (first, before), y)


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


def mixture(x: Any, k: int) -> None:
    """Normals of known width."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(k)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([k]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def mixture_of_scales(x: Any) -> None:
    """Three Normals of unknown widths, conjugate throughout."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]).to_event(1))
    v = numpyro.sample("v", dist.InverseGamma(2.0, 2.0).expand([3]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], jnp.sqrt(v[z])), obs=x)


def mixture_of_counts(x: Any) -> None:
    """Two Poisson laws."""
    w = numpyro.sample("w", dist.Beta(1.0, 1.0))
    r = numpyro.sample("r", dist.Gamma(1.0, 0.1).expand([2]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("x", dist.Poisson(r[z]), obs=x)


def logistic_groups(g: Any, y: Any, n: int) -> None:
    """Binary data in groups, the effects' standard deviation unknown."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("J", n):
        t = numpyro.sample("t", dist.Normal(mu, tau))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=t[g]), obs=y)


def logistic_crossed(a: Any, b: Any, y: Any, n: int, m: int) -> None:
    """Binary data of two kinds of effects (Rasch)."""
    sa = numpyro.sample("sa", dist.HalfNormal(1.0))
    with numpyro.plate("A", n):
        x = numpyro.sample("x", dist.Normal(0, sa))
    with numpyro.plate("B", m):
        z = numpyro.sample("z", dist.Normal(0, 1.5))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=x[a] - z[b]), obs=y)


def logistic_columns(X: Any, y: Any) -> None:
    """A logistic regression under a known prior."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=X @ b), obs=y)


def plain_columns(X: Any, y: Any) -> None:
    """A regression under a known prior, the noise half-normal."""
    s = numpyro.sample("s", dist.HalfNormal(2.0))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(X @ b, s), obs=y)


def horseshoe(X: Any, y: Any) -> None:
    """Few large coefficients among many small (Carvalho, Polson and Scott)."""
    tau = numpyro.sample("tau", dist.HalfCauchy(0.3))
    s2 = numpyro.sample("s2", dist.InverseGamma(2.0, 1.0))
    with numpyro.plate("p", X.shape[1]):
        lam = numpyro.sample("lam", dist.HalfCauchy(1.0))
        b = numpyro.sample("b", dist.Normal(0, lam * tau))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(X @ b, jnp.sqrt(s2)), obs=y)


def change_point(y: Any) -> None:
    """Counts whose rate changes once."""
    r = numpyro.sample("r", dist.Gamma(1.0, 0.5).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.Categorical(logits=jnp.zeros(len(y))))
    late = (jnp.arange(len(y)) >= tau).astype(int)
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Poisson(r[late]), obs=y)


def level_shift(y: Any) -> None:
    """A Normal level that changes once, the variance unknown."""
    m = numpyro.sample("m", dist.Normal(0, 5).expand([2]).to_event(1))
    v = numpyro.sample("v", dist.InverseGamma(1.0, 1.0))
    tau = numpyro.sample("tau", dist.Categorical(logits=jnp.zeros(len(y))))
    late = (jnp.arange(len(y)) >= tau).astype(int)
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Normal(m[late], jnp.sqrt(v)), obs=y)


def hidden_markov(y: Any) -> None:
    """Three states, transitions under Dirichlet priors, Normal levels."""
    stay = numpyro.sample("stay", dist.Dirichlet(jnp.ones(3)).expand([3]).to_event(1))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-2.0, 0.0, 2.0]), 0.7).to_event(1))
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))

    def step(s: Any, now: Any) -> tuple[Any, None]:
        s = numpyro.sample("s", dist.Categorical(stay[s]))
        numpyro.sample("y", dist.Normal(mu[s], jnp.sqrt(v)), obs=now)
        return s, None

    scan(step, 0, jnp.asarray(y))


def occupancy(seen: Any) -> None:
    """Sites that are occupied or not, visited several times; both shares unknown."""
    psi = numpyro.sample("psi", dist.Beta(1.0, 1.0))
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    with numpyro.plate("sites", len(seen)):
        z = numpyro.sample("z", dist.Bernoulli(psi))
        numpyro.sample("seen", dist.Bernoulli((p * z)[:, None]).expand(seen.shape).to_event(1), obs=seen)


def marked(history: Any) -> None:
    """Animals that survive or not, and are caught or not (Cormack, Jolly and Seber)."""
    phi = numpyro.sample("phi", dist.Uniform(0.0, 1.0))
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0))

    def step(carry: Any, y: Any) -> tuple[Any, None]:
        first, z = carry
        with numpyro.plate("animals", history.shape[0]), numpyro.handlers.mask(mask=first):
            z = numpyro.sample("z", dist.Bernoulli(phi * z))
            numpyro.sample("y", dist.Bernoulli(p * z), obs=y)
        return (first | y.astype(bool), z), None

    start = history[:, 0].astype(bool), jnp.ones(history.shape[0], jnp.int32)
    scan(step, start, jnp.swapaxes(history[:, 1:], 0, 1))


def marked_by_time(history: Any) -> None:
    """The same, with a chance of survival and of capture for every occasion."""
    n = history.shape[1] - 1
    phi = numpyro.sample("phi", dist.Uniform(0.0, 1.0).expand([n]).to_event(1))
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0).expand([n]).to_event(1))

    def step(carry: Any, x: Any) -> tuple[Any, None]:
        (first, z), (y, t) = carry, x
        with numpyro.plate("animals", history.shape[0]), numpyro.handlers.mask(mask=first):
            z = numpyro.sample("z", dist.Bernoulli(phi[t] * z))
            numpyro.sample("y", dist.Bernoulli(p[t] * z), obs=y)
        return (first | y.astype(bool), z), None

    start = history[:, 0].astype(bool), jnp.ones(history.shape[0], jnp.int32)
    scan(step, start, (jnp.swapaxes(history[:, 1:], 0, 1), jnp.arange(n)))


def closed_population(y: Any, occasions: int) -> None:
    """How many there are of whom some were caught: those never seen are added as zeros (Royle, Dorazio and
    Link)."""
    omega = numpyro.sample("omega", dist.Uniform(0.0, 1.0))
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0))
    with numpyro.plate("M", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(omega))
        numpyro.sample("y", dist.Binomial(occasions, p * z), obs=y)


def unknown_sign(y: Any) -> None:
    """Effects times a scale that may be negative."""
    tau = numpyro.sample("tau", dist.Normal(0, 1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(tau * z, 1.0), obs=y)


PUMPS = (
    np.array([94.3, 15.7, 62.9, 126, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5], np.float32),
    np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22]),
)


def _effects(J: int, noise: float) -> Built:
    r = np.random.default_rng(3)
    y = (r.normal(0, 1, J) + r.normal(0, noise, J)).astype(np.float32)
    return effects, (y, noise)


def _studies(J: int, columns: int, scale: Any) -> Built:
    r = np.random.default_rng(6)
    X = r.normal(size=(J, columns)).astype(np.float32)
    y = X.sum(1) + r.normal(0, 1, J) + r.normal(0, 1, J)
    return studies, (y.astype(np.float32), X, 1.0, scale)


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


def walk_by_steps(y: Any) -> None:
    """A walk as it is often written, by its steps."""
    q = numpyro.sample("q", dist.HalfNormal(1.0))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("steps", len(y)):
        e = numpyro.sample("e", dist.Normal(0.0, 1.0))
    x = jnp.cumsum(e) * q
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Normal(x, s), obs=y)


def _walk_by_steps(n: int, step: float) -> Built:
    return walk_by_steps, _walk(n, step)[1]


def _walk(n: int, step: float) -> Built:
    r = np.random.default_rng(11)
    return walk, ((np.cumsum(r.normal(0, step, n)) + r.normal(0, 1, n)).astype(np.float32),)


def _seasons(n: int, noise: float) -> Built:
    r = np.random.default_rng(0)
    usual, state, y = r.normal(23, 3, 12), 0.0, []
    for t in range(n):
        state = 0.9 * state + r.normal(0, 0.4)
        y.append(usual[t % 12] + state + r.normal(0, noise))
    return seasons, (np.array(y, np.float32), noise)


def _process(n: int) -> Built:
    x = np.linspace(0, 10, n, dtype=np.float32)
    return process, (x, (np.sin(x) + 0.3 * np.random.default_rng(0).normal(size=n)).astype(np.float32))


def _structural(n: int) -> Built:
    r = np.random.default_rng(3)
    walk, season = np.cumsum(0.2 * r.normal(size=n)), np.resize([1.0, -0.5, 0.3, -0.8], n)
    return structural, ((walk + season + 0.4 * r.normal(size=n)).astype(np.float32),)


def _columns(fn: Callable[..., None], n: int, p: int) -> Built:
    r = np.random.default_rng(6)
    X = r.normal(0, 1, (n, p)).astype(np.float32)
    b = np.where(np.arange(p) % 3 == 0, r.normal(0, 1, p), 0)
    return fn, (X, (X @ b + r.normal(0, 1, n)).astype(np.float32))


def _mixture(n: int, apart: float, k: int = 3) -> Built:
    r = np.random.default_rng(7)
    x = apart * (r.choice(k, n) - (k - 1) // 2) + r.normal(0, 1, n)
    return mixture, (x.astype(np.float32), k)


def _counts(n: int, low: float, high: float) -> Built:
    r = np.random.default_rng(8)
    return mixture_of_counts, (r.poisson(np.where(r.random(n) < 0.4, low, high)),)


def _logistic_groups(J: int, each: int, sd: float) -> Built:
    r = np.random.default_rng(9)
    g = np.repeat(np.arange(J), each)
    p = 1 / (1 + np.exp(0.5 - r.normal(0, sd, J)[g]))
    return logistic_groups, (g, (r.random(len(g)) < p).astype(int), J)


def _logistic_crossed(n: int, m: int) -> Built:
    r = np.random.default_rng(10)
    a, b = (k.ravel() for k in np.meshgrid(np.arange(n), np.arange(m)))
    p = 1 / (1 + np.exp(r.normal(0, 1, m)[b] - r.normal(0, 1, n)[a]))
    return logistic_crossed, (a, b, (r.random(len(a)) < p).astype(int), n, m)


def _binary(n: int, p: int) -> Built:
    r = np.random.default_rng(12)
    X = r.normal(0, 1, (n, p)).astype(np.float32)
    b = np.where(np.arange(p) % 3 == 0, r.normal(0, 1, p), 0)
    return logistic_columns, (X, (r.random(n) < 1 / (1 + np.exp(-X @ b))).astype(int))


def rounded(y: Any) -> None:
    """A level and a class, one of four, that a number in the unit interval makes by rounding."""
    u = numpyro.sample("u", dist.Uniform(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(b + jnp.floor(4 * u) - 1.5, 0.7), obs=y)


def change_in_time(t: Any, y: Any) -> None:
    """Two levels and when the one becomes the other, a moment between data."""
    when = numpyro.sample("when", dist.Uniform(0, 10))
    m = numpyro.sample("m", dist.Normal(0, 5).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(jnp.where(t < when, m[0], m[1]), s), obs=y)


def _rounded(n: int) -> Built:
    return rounded, (np.random.default_rng(0).normal(0.8, 0.7, n),)


def _change_in_time(n: int, size: float) -> Built:
    t = np.linspace(0, 10, n)
    return change_in_time, (t, np.random.default_rng(1).normal(np.where(t < 6.3, 0, size), 0.5))


def _shift(fn: Callable[..., None], n: int) -> Built:
    r = np.random.default_rng(13)
    late = np.arange(n) >= 0.4 * n
    return fn, (r.poisson(np.where(late, 1.0, 3.0)) if fn is change_point else late + r.normal(0, 1, n),)


def _states(n: int) -> Built:
    r, s = np.random.default_rng(14), [0]
    for _ in range(n - 1):
        s.append(s[-1] if r.random() < 0.85 else int(r.integers(3)))
    return hidden_markov, ((2.0 * np.array(s) - 2 + r.normal(0, 0.7, n)).astype(np.float32),)


def _occupancy(n: int, visits: int, p: float) -> Built:
    r = np.random.default_rng(15)
    there = r.random(n) < 0.6
    return occupancy, (((r.random((n, visits)) < p) & there[:, None]).astype(int),)


def _marked(fn: Callable[..., None], n: int, occasions: int) -> Built:
    r = np.random.default_rng(16)
    alive = np.cumprod(np.c_[np.ones(n), r.random((n, occasions - 1)) < 0.75], axis=1)
    seen = alive * (r.random((n, occasions)) < 0.5)
    seen[np.arange(n), r.integers(0, occasions - 2, n)] = 1  # everybody is caught at least once
    return fn, ((seen * np.maximum.accumulate(seen[:, ::-1], axis=1)[:, ::-1]).astype(int),)


def _closed(caught: int, added: int, occasions: int, p: float) -> Built:
    r = np.random.default_rng(17)
    y = r.binomial(occasions, p, 10 * caught)
    return closed_population, (np.r_[y[y > 0][:caught], np.zeros(added, int)], occasions)


def _default(name: str) -> Built:
    case = defaults()[name]
    return case.fn, case.args


CASES: dict[str, Callable[[], Built]] = {
    **{
        f"effects {J}, noise {s}": lambda J=J, s=s: _effects(J, float(s))
        for J in (5, 25, 26, 100, 400)
        for s in (1, 8)
    },
    "12 studies, HalfCauchy": lambda: _studies(12, 0, dist.HalfCauchy(5.0)),
    "12 studies, two covariates": lambda: _studies(12, 2, dist.HalfNormal(2.0)),
    "100 studies, HalfCauchy": lambda: _studies(100, 0, dist.HalfCauchy(5.0)),
    "1000 studies, HalfNormal": lambda: _studies(1000, 0, dist.HalfNormal(2.0)),
    "28 groups of 5": lambda: _grouped(28, 5),
    "60 groups of 5": lambda: _grouped(60, 5),
    "60 groups of 5, uneven": lambda: _grouped(60, 5, uneven=True),
    "250 groups of 2": lambda: _grouped(250, 2),
    "250 groups of 2, alike": lambda: _grouped(250, 2, sd=0.2),
    "8 groups of 40": lambda: _grouped(8, 40),
    "8 groups of 40, alike": lambda: _grouped(8, 40, sd=0.05),
    "40 groups of 40": lambda: _grouped(40, 40),
    "crossed 20 by 10": lambda: _crossed(20, 10),
    **{f"crossed {n} by 5": lambda n=n: _crossed(n, 5) for n in (26, 100, 400)},
    "logistic, 20 groups of 10": lambda: _logistic_groups(20, 10, 1.0),
    "logistic, 60 groups of 5": lambda: _logistic_groups(60, 5, 1.0),
    **{f"logistic, {J} groups of 6": lambda J=J: _logistic_groups(J, 6, 1.0) for J in (5, 25, 26, 100, 400)},
    "logistic, 20 groups of 10, alike": lambda: _logistic_groups(20, 10, 0.1),
    "logistic, 20 by 10": lambda: _logistic_crossed(20, 10),
    "walk 80": lambda: _walk(80, 0.3),
    "walk 80, rough": lambda: _walk(80, 2.0),
    "walk 1000": lambda: _walk(1000, 0.3),
    **{f"walk {n}, by its steps": lambda n=n: _walk_by_steps(n, 0.5) for n in (60, 1000)},
    **{
        f"{n} months, noise {s:g}": lambda n=n, s=s: _seasons(n, s)
        for n, s in ((120, 0.1), (360, 0.1), (360, 1.0), (360, 3.0))
    },
    **{f"process at {n} points": lambda n=n: _process(n) for n in (15, 40, 100)},
    "level and season, 80": lambda: _structural(80),
    "lasso 10": lambda: _columns(lasso, 100, 10),
    "lasso 40": lambda: _columns(lasso, 100, 40),
    "ridge 10": lambda: _columns(regression, 100, 10),
    "ridge 60": lambda: _columns(regression, 100, 60),
    "horseshoe 10": lambda: _columns(horseshoe, 100, 10),
    "horseshoe 200": lambda: _columns(horseshoe, 100, 200),
    "2 columns": lambda: _columns(plain_columns, 100, 2),
    "30 columns": lambda: _columns(plain_columns, 100, 30),
    "300 columns": lambda: _columns(plain_columns, 400, 300),
    "5 binary columns": lambda: _binary(200, 5),
    "50 binary columns": lambda: _binary(200, 50),
    "pumps": lambda: (pumps, PUMPS),
    "mixture, apart": lambda: _mixture(300, 4.0),
    "mixture, near": lambda: _mixture(300, 1.5),
    "mixture of 4": lambda: _mixture(400, 3.0, 4),
    "mixture of scales": lambda: (mixture_of_scales, _mixture(300, 4.0)[1][:1]),
    "mixture, known places": lambda: _default("mixture"),
    "mixture of counts": lambda: _counts(150, 2.0, 12.0),
    "mixture of counts, near": lambda: _counts(150, 2.0, 5.0),
    "change of a rate": lambda: _shift(change_point, 110),
    "change of a level": lambda: _shift(level_shift, 100),
    "class by rounding": lambda: _rounded(9),
    "change in time": lambda: _change_in_time(60, 1.0),
    "small change in time": lambda: _change_in_time(60, 0.3),
    "HMM of 3, 150 steps": lambda: _states(150),
    "HMM of 3, 600 steps": lambda: _states(600),
    "HMM of 3, 1000 steps": lambda: _states(1000),
    "occupancy, often seen": lambda: _occupancy(80, 5, 0.6),
    "occupancy, seldom seen": lambda: _occupancy(80, 3, 0.15),
    "marked animals": lambda: _marked(marked, 60, 7),
    "marked animals, by time": lambda: _marked(marked_by_time, 60, 7),
    "closed population, often caught": lambda: _closed(60, 60, 5, 0.4),
    "closed population, seldom caught": lambda: _closed(40, 200, 5, 0.1),
    "occupancy of a covariate": lambda: _default("occupancy"),
    "HMM of two, HalfNormal": lambda: _default("HMM"),
    "eight schools": lambda: _default("eight schools"),
    "large groups by hand": lambda: _default("large groups by hand"),
    "group counts": lambda: _default("group counts"),
    "unknown sign": lambda: (unknown_sign, (np.array([0.3, -1.2, 2.1, 0.7], np.float32),)),
    "unknown sign, 30": lambda: (unknown_sign, (np.random.default_rng(18).normal(0, 2, 30),)),
}
LABELS = {
    "mixture of 4": "mu",
    "mixture, apart": "mu",
    "mixture, near": "mu",
    "mixture of scales": "mu",
    "mixture of counts": "r",
    "mixture of counts, near": "r",
}
"""Of models whose components can be renamed, the site that they are ordered by before draws are judged."""
