"""Forty-one models as people write them, to none of which the choice of schedules was fitted: `regret.py
--plain` runs them."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

sample, plate = numpyro.sample, numpyro.plate
Built = tuple[Callable[..., None], tuple[Any, ...]]
R = np.random.default_rng


def _f(x: Any) -> np.ndarray:
    return np.asarray(x, np.float32)


# Regressions.
def poisson_regression(X: Any, y: Any, width: float) -> None:
    a = sample("a", dist.Normal(0, width))
    b = sample("b", dist.Normal(0, width).expand([X.shape[1]]).to_event(1))
    sample("y", dist.Poisson(jnp.exp(a + X @ b)), obs=y)


def logistic_regression(X: Any, y: Any, width: float) -> None:
    a = sample("a", dist.Normal(0, width))
    b = sample("b", dist.Normal(0, width).expand([X.shape[1]]).to_event(1))
    sample("y", dist.Bernoulli(logits=a + X @ b), obs=y)


def negative_binomial(X: Any, y: Any) -> None:
    a = sample("a", dist.Normal(0, 5))
    b = sample("b", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    phi = sample("phi", dist.Gamma(2, 0.5))
    sample("y", dist.NegativeBinomial2(jnp.exp(a + X @ b), phi), obs=y)


def robust(X: Any, y: Any) -> None:
    a, s = sample("a", dist.Normal(0, 10)), sample("s", dist.HalfCauchy(5))
    b = sample("b", dist.Normal(0, 10).expand([X.shape[1]]).to_event(1))
    nu = sample("nu", dist.Gamma(2, 0.1))
    sample("y", dist.StudentT(nu, a + X @ b, s), obs=y)


def robust_by_scales(X: Any, y: Any) -> None:
    """Student's t as a mixture of normals, four degrees of freedom."""
    s2 = sample("s2", dist.InverseGamma(0.01, 0.01))
    b = sample("b", dist.Normal(0, 10).expand([X.shape[1]]).to_event(1))
    with plate("n", len(y)):
        w = sample("w", dist.Gamma(2, 2))
        sample("y", dist.Normal(X @ b, jnp.sqrt(s2 / w)), obs=y)


def outliers(x: Any, y: Any) -> None:
    a, b = sample("a", dist.Normal(0, 10)), sample("b", dist.Normal(0, 10))
    s, p = sample("s", dist.HalfNormal(2)), sample("p", dist.Beta(1, 9))
    with plate("n", len(y)):
        z = sample("z", dist.Bernoulli(p))
        sample("y", dist.Normal(a + b * x, jnp.where(z == 1, 10.0, s)), obs=y)


def two_noises(x: Any, y: Any) -> None:
    a, b = sample("a", dist.Normal(0, 10)), sample("b", dist.Normal(0, 10))
    c, d = sample("c", dist.Normal(0, 2)), sample("d", dist.Normal(0, 2))
    sample("y", dist.Normal(a + b * x, jnp.exp(c + d * x)), obs=y)


def spike_slab(X: Any, y: Any) -> None:
    p, s2 = sample("p", dist.Beta(1, 1)), sample("s2", dist.InverseGamma(2, 1))
    with plate("k", X.shape[1]):
        g = sample("g", dist.Bernoulli(p))
        b = sample("b", dist.Normal(0, 1))
    sample("y", dist.Normal(X @ (g * b), jnp.sqrt(s2)), obs=y)


def ordered_logit(X: Any, y: Any, k: int) -> None:
    b = sample("b", dist.Normal(0, 2).expand([X.shape[1]]).to_event(1))
    c = sample("c", dist.TransformedDistribution(
        dist.Normal(0, 3).expand([k - 1]).to_event(1), dist.transforms.OrderedTransform()))  # fmt: skip
    sample("y", dist.OrderedLogistic(X @ b, c), obs=y)


def probit_by_hand(X: Any, y: Any) -> None:
    """A probit with its latent normals written out."""
    b = sample("b", dist.Normal(0, 3).expand([X.shape[1]]).to_event(1))
    with plate("n", len(y)):
        u = sample("u", dist.Normal(X @ b, 1))
        sample("y", dist.Bernoulli(logits=20 * u), obs=y)


def beta_regression(x: Any, y: Any) -> None:
    a, b = sample("a", dist.Normal(0, 2)), sample("b", dist.Normal(0, 2))
    k = sample("k", dist.Gamma(2, 0.1))
    m = 1 / (1 + jnp.exp(-a - b * x))
    sample("y", dist.Beta(m * k, (1 - m) * k), obs=y)


def error_in_x(x: Any, y: Any) -> None:
    a, b = sample("a", dist.Normal(0, 10)), sample("b", dist.Normal(0, 10))
    m, t = sample("m", dist.Normal(0, 10)), sample("t", dist.HalfNormal(5))
    s = sample("s", dist.HalfNormal(5))
    with plate("n", len(y)):
        true = sample("true", dist.Normal(m, t))
        sample("x", dist.Normal(true, 0.5), obs=x)
        sample("y", dist.Normal(a + b * true, s), obs=y)


# Groups.
def slopes(g: Any, x: Any, y: Any, J: int) -> None:
    m, s = (
        sample(n, d.expand([2]).to_event(1)) for n, d in (("m", dist.Normal(0, 5)), ("s", dist.HalfNormal(2)))
    )
    sigma = sample("sigma", dist.HalfNormal(2))
    with plate("J", J):
        a, b = sample("a", dist.Normal(m[0], s[0])), sample("b", dist.Normal(m[1], s[1]))
    sample("y", dist.Normal(a[g] + b[g] * x, sigma), obs=y)


def slopes_lkj(g: Any, x: Any, y: Any, J: int) -> None:
    m = sample("m", dist.Normal(0, 5).expand([2]).to_event(1))
    s, sigma = sample("s", dist.HalfNormal(2).expand([2]).to_event(1)), sample("sigma", dist.HalfNormal(2))
    L = sample("L", dist.LKJCholesky(2, 2.0))
    with plate("J", J):
        c = sample("c", dist.MultivariateNormal(m, scale_tril=s[:, None] * L))
    sample("y", dist.Normal(c[g, 0] + c[g, 1] * x, sigma), obs=y)


def nested(school: Any, room: Any, y: Any, S: int, C: int, of: Any) -> None:
    m, sigma = sample("m", dist.Normal(0, 10)), sample("sigma", dist.HalfNormal(5))
    ts, tc = sample("ts", dist.HalfNormal(5)), sample("tc", dist.HalfNormal(5))
    with plate("S", S):
        a = sample("a", dist.Normal(m, ts))
    with plate("C", C):
        b = sample("b", dist.Normal(a[of], tc))
    sample("y", dist.Normal(b[room], sigma), obs=y)


def poisson_groups(g: Any, y: Any, J: int) -> None:
    m, s = sample("m", dist.Normal(0, 3)), sample("s", dist.HalfNormal(1))
    with plate("J", J):
        a = sample("a", dist.Normal(m, s))
    sample("y", dist.Poisson(jnp.exp(a[g])), obs=y)


def poisson_overdispersed(x: Any, y: Any) -> None:
    a, b, s = sample("a", dist.Normal(0, 5)), sample("b", dist.Normal(0, 5)), sample("s", dist.HalfNormal(1))
    with plate("n", len(y)):
        e = sample("e", dist.Normal(0, s))
        sample("y", dist.Poisson(jnp.exp(a + b * x + e)), obs=y)


def batting(n: Any, y: Any) -> None:
    m, k = sample("m", dist.Beta(1, 1)), sample("k", dist.Pareto(1, 1.5))
    with plate("J", len(y)):
        p = sample("p", dist.Beta(m * k, (1 - m) * k))
        sample("y", dist.Binomial(n, p), obs=y)


def item_response(i: Any, j: Any, y: Any, I: int, J: int) -> None:  # noqa: E741
    s = sample("s", dist.HalfNormal(2))
    with plate("I", I):
        a = sample("a", dist.Normal(0, 1))
    with plate("J", J):
        b, d = sample("b", dist.Normal(0, s)), sample("d", dist.LogNormal(0, 0.5))
    sample("y", dist.Bernoulli(logits=d[j] * (a[i] - b[j])), obs=y)


def meta_analysis(y: Any, se: Any) -> None:
    m, tau = sample("m", dist.Normal(0, 10)), sample("tau", dist.HalfCauchy(1))
    with plate("J", len(y)):
        t = sample("t", dist.Normal(m, tau))
        sample("y", dist.Normal(t, se), obs=y)


def variances(g: Any, y: Any, J: int) -> None:
    """A variance for each group, of a common law."""
    m = sample("m", dist.Normal(0, 10))
    shape, rate = sample("shape", dist.Gamma(2, 0.5)), sample("rate", dist.Gamma(2, 0.5))
    with plate("J", J):
        p = sample("p", dist.Gamma(shape, rate))
    sample("y", dist.Normal(m, p[g] ** -0.5), obs=y)


# Discrete.
def zero_inflated(x: Any, y: Any) -> None:
    p, a, b = sample("p", dist.Beta(1, 1)), sample("a", dist.Normal(0, 3)), sample("b", dist.Normal(0, 3))
    with plate("n", len(y)):
        there = sample("there", dist.Bernoulli(p))
        sample("y", dist.Poisson(jnp.where(there == 1, jnp.exp(a + b * x), 1e-6)), obs=y)


def hurdle_gamma(y: Any) -> None:
    p, r, k = sample("p", dist.Beta(1, 1)), sample("r", dist.Gamma(1, 1)), sample("k", dist.Gamma(2, 1))
    sample("any", dist.Bernoulli(p).expand([len(y)]), obs=(y > 0).astype(int))
    sample("y", dist.Gamma(k, r).mask(y > 0), obs=jnp.where(y > 0, y, 1.0))


def latent_classes(y: Any, K: int) -> None:
    w = sample("w", dist.Dirichlet(jnp.ones(K)))
    p = sample("p", dist.Beta(1, 1).expand([K, y.shape[1]]).to_event(2))
    with plate("n", len(y), dim=-2):
        z = sample("z", dist.Categorical(w))
        with plate("items", y.shape[1], dim=-1):
            sample("y", dist.Bernoulli(p[z, jnp.arange(y.shape[1])]), obs=y)


def mixture_regressions(x: Any, y: Any) -> None:
    w = sample("w", dist.Beta(2, 2))
    a, b = (sample(n, dist.Normal(0, 5).expand([2]).to_event(1)) for n in ("a", "b"))
    s = sample("s", dist.HalfNormal(2))
    with plate("n", len(y)):
        z = sample("z", dist.Bernoulli(w))
        sample("y", dist.Normal(a[z] + b[z] * x, s), obs=y)


def change_of_slope(t: Any, y: Any) -> None:
    tau = sample("tau", dist.DiscreteUniform(5, len(y) - 5))
    a, b, c = (sample(n, dist.Normal(0, 5)) for n in "abc")
    s = sample("s", dist.HalfNormal(2))
    sample("y", dist.Normal(a + b * t + c * jnp.where(jnp.arange(len(y)) > tau, t - t[tau], 0), s), obs=y)


def change_of_slope_smooth(t: Any, y: Any) -> None:
    """The place of the change is continuous."""
    tau = sample("tau", dist.Uniform(0, 10))
    a, b, c = (sample(n, dist.Normal(0, 5)) for n in "abc")
    s = sample("s", dist.HalfNormal(2))
    sample("y", dist.Normal(a + b * t + c * jnp.maximum(t - tau, 0), s), obs=y)


def two_raters(y: Any) -> None:
    """Dawid and Skene."""
    pi = sample("pi", dist.Dirichlet(jnp.ones(3)))
    c = sample("c", dist.Dirichlet(jnp.ones((3, 3)) + 2 * jnp.eye(3)).expand([y.shape[1], 3]).to_event(2))
    with plate("n", len(y), dim=-2):
        z = sample("z", dist.Categorical(pi))
        with plate("raters", y.shape[1], dim=-1):
            sample("y", dist.Categorical(c[jnp.arange(y.shape[1]), z]), obs=y)


# Times until, and in time.
def weibull_censored(x: Any, t: Any, seen: Any) -> None:
    a, b, k = sample("a", dist.Normal(0, 5)), sample("b", dist.Normal(0, 5)), sample("k", dist.HalfNormal(2))
    scale = jnp.exp(a + b * x)
    sample("t", dist.Weibull(scale, k).mask(seen), obs=t)
    numpyro.factor("beyond", jnp.where(seen, 0.0, -((t / scale) ** k)))


def exponential_frailty(g: Any, x: Any, t: Any, J: int) -> None:
    b, k = sample("b", dist.Normal(0, 5)), sample("k", dist.Gamma(2, 1))
    with plate("J", J):
        u = sample("u", dist.Gamma(k, k))
    sample("t", dist.Exponential(u[g] * jnp.exp(b * x)), obs=t)


def truncated_waits(t: Any) -> None:
    """Waits that are normal, and positive."""
    m, s = sample("m", dist.Normal(0, 50)), sample("s", dist.HalfNormal(50))
    sample("t", dist.TruncatedNormal(m, s, low=0), obs=t)


def ar1(y: Any) -> None:
    c, phi, s = (
        sample("c", dist.Normal(0, 5)),
        sample("phi", dist.Uniform(-1, 1)),
        sample("s", dist.HalfNormal(2)),
    )
    sample("y", dist.Normal(c + phi * y[:-1], s), obs=y[1:])


def ar1_latent(y: Any) -> None:
    phi, s, o = (
        sample("phi", dist.Beta(8, 2)),
        sample("s", dist.HalfNormal(1)),
        sample("o", dist.HalfNormal(1)),
    )

    def step(h: Any, now: Any) -> tuple[Any, None]:
        h = sample("h", dist.Normal(phi * h, s))
        sample("y", dist.Normal(h, o), obs=now)
        return h, None

    scan(step, 0.0, y)


def local_level(y: Any) -> None:
    """With a latent first level."""
    s, o = sample("s", dist.HalfNormal(1)), sample("o", dist.HalfNormal(1))

    def step(level: Any, now: Any) -> tuple[Any, None]:
        level = sample("level", dist.Normal(level, s))
        sample("y", dist.Normal(level, o), obs=now)
        return level, None

    scan(step, sample("first", dist.Normal(0, 10)), y)


def local_trend(y: Any) -> None:
    """With a latent first level and slope."""
    s, q, o = (sample(n, dist.HalfNormal(1)) for n in ("s", "q", "o"))
    first, slope = sample("first", dist.Normal(0, 10)), sample("first_slope", dist.Normal(0, 1))

    def step(carry: Any, now: Any) -> tuple[Any, None]:
        level, slope = carry
        slope = sample("slope", dist.Normal(slope, q))
        level = sample("level", dist.Normal(level + slope, s))
        sample("y", dist.Normal(level, o), obs=now)
        return (level, slope), None

    scan(step, (first, slope), y)


def volatility(y: Any) -> None:
    m, phi, s = (
        sample("m", dist.Normal(-1, 1)),
        sample("phi", dist.Beta(20, 1.5)),
        sample("s", dist.HalfNormal(0.5)),
    )

    def step(h: Any, now: Any) -> tuple[Any, None]:
        h = sample("h", dist.Normal(m + phi * (h - m), s))
        sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=now)
        return h, None

    scan(step, m, y)


def counts_in_time(y: Any) -> None:
    s, m = sample("s", dist.HalfNormal(0.5)), sample("m", dist.Normal(1, 2))
    x = sample("x", dist.GaussianRandomWalk(s, num_steps=len(y)))
    sample("y", dist.Poisson(jnp.exp(m + x)), obs=y)


def _glm(n: int, p: int, seed: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    r = R(seed)
    X = _f(r.normal(0, 1, (n, p)))
    eta = 0.3 + X @ (0.5 * r.normal(0, 1, p))
    if kind == "counts":
        return X, r.poisson(np.exp(eta))
    if kind == "binary":
        return X, (r.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    if kind == "ordered":
        return X, np.digitize(eta + r.logistic(size=n), [-1, 0.5, 2])
    return X, _f(eta + (r.standard_t(3, n) if kind == "robust" else r.normal(0, 0.5, n)))


def _groups(
    sizes: Any, seed: int, between: float, within: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = R(seed)
    g = np.repeat(np.arange(len(sizes)), sizes)
    x = _f(r.normal(0, 1, len(g)))
    a, b = r.normal(1, between, len(sizes)), r.normal(0.5, between / 2, len(sizes))
    return g, x, _f(a[g] + b[g] * x + r.normal(0, within, len(g)))


def _line(n: int, seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    r = R(seed)
    x = _f(np.linspace(-1, 1, n))
    return x, _f(1 + 2 * x + r.normal(0, noise, n))


def _nested() -> Built:
    r = R(21)
    of = np.repeat(np.arange(9), 4)
    room = np.repeat(np.arange(36), r.integers(1, 9, 36))
    b = r.normal(0, 1, 9)[of] + r.normal(0, 0.4, 36)
    return nested, (of[room], room, _f(b[room] + r.normal(0, 1, len(room))), 9, 36, of)


def _responses() -> Built:
    r = R(22)
    i, j = (k.ravel() for k in np.meshgrid(np.arange(60), np.arange(12)))
    p = 1 / (1 + np.exp(-(r.normal(0, 1, 60)[i] - r.normal(0, 1, 12)[j])))
    return item_response, (i, j, (r.random(len(i)) < p).astype(int), 60, 12)


def _classes(n: int, apart: float) -> Built:
    r = R(23)
    p = 0.5 + apart * (2 * np.arange(2) - 1)
    return latent_classes, ((r.random((n, 8)) < p[r.integers(0, 2, n)][:, None]).astype(int), 2)


def _walk(n: int, step: float, noise: float) -> tuple[np.ndarray]:
    r = R(24)
    return (_f(2 + np.cumsum(r.normal(0, step, n)) + r.normal(0, noise, n)),)


def _pieces() -> tuple[np.ndarray, np.ndarray]:
    t = _f(np.linspace(0, 10, 60))
    return t, _f(1 + 0.5 * t - 1.2 * np.maximum(t - 6, 0) + R(25).normal(0, 0.5, 60))


def _raters() -> Built:
    r = R(26)
    z = r.integers(0, 3, 80)
    return two_raters, (np.where(r.random((80, 4)) < 0.7, z[:, None], r.integers(0, 3, (80, 4))),)


def _overdispersed() -> Built:
    x, r = _f(np.linspace(-1, 1, 60)), R(27)
    return poisson_overdispersed, (x, r.poisson(np.exp(1 + x + r.normal(0, 0.7, 60))))


def _inflated() -> Built:
    x, r = _f(np.linspace(-1, 1, 120)), R(28)
    return zero_inflated, (x, r.poisson(np.exp(1 + x)) * (r.random(120) < 0.6))


def _two_lines() -> Built:
    x, r = _f(np.linspace(-1, 1, 120)), R(29)
    z = r.integers(0, 2, 120)
    return mixture_regressions, (x, _f(np.where(z, 2 + x, -1 - 2 * x) + r.normal(0, 0.5, 120)))


def _censored() -> Built:
    x, r = _f(R(30).normal(size=80)), R(31)
    t = np.exp(1 + 0.5 * x) * r.weibull(1.5, 80)
    return weibull_censored, (x, _f(np.minimum(t, 4)), t < 4)


def _frailty() -> Built:
    g, r = np.repeat(np.arange(20), 4), R(32)
    x = _f(r.normal(size=80))
    return exponential_frailty, (g, x, _f(r.exponential(1 / (r.gamma(2, 0.5, 20)[g] * np.exp(0.5 * x)))), 20)


def _sparse() -> Built:
    X, _ = _glm(80, 12, 33, "normal")
    return spike_slab, (X, _f(X[:, 0] - 0.7 * X[:, 1] + R(33).normal(0, 1, 80)))


CASES: dict[str, Callable[[], Built]] = {
    "counts, narrow prior": lambda: (poisson_regression, (*_glm(100, 4, 1, "counts"), 1.0)),
    "counts, vague prior": lambda: (poisson_regression, (*_glm(100, 4, 1, "counts"), 100.0)),
    "binary, narrow prior": lambda: (logistic_regression, (*_glm(150, 8, 2, "binary"), 1.0)),
    "binary, vague prior, few data": lambda: (logistic_regression, (*_glm(25, 5, 3, "binary"), 50.0)),
    "negative binomial": lambda: (negative_binomial, _glm(120, 3, 4, "counts")),
    "Student's t": lambda: (robust, _glm(100, 3, 5, "robust")),
    "Student's t by scales": lambda: (robust_by_scales, _glm(100, 3, 5, "robust")),
    "outliers": lambda: (outliers, _line(60, 6, 0.5)),
    "noise that grows": lambda: (two_noises, _line(80, 7, 1.0)),
    "spike and slab": _sparse,
    "ordered logits": lambda: (ordered_logit, (*_glm(150, 3, 8, "ordered"), 4)),
    "probit by hand": lambda: (probit_by_hand, _glm(100, 3, 9, "binary")),
    "shares": lambda: (beta_regression, (_line(60, 10, 1)[0], _f(np.clip(R(10).beta(2, 3, 60), 0.01, 0.99)))),
    "error in x": lambda: (error_in_x, (_f(R(11).normal(0, 1.1, 50)), _f(R(11).normal(0, 1, 50)))),
    "slopes, 6 large groups": lambda: (slopes, (*_groups([50] * 6, 12, 1.0, 0.5), 6)),
    "slopes, 40 odd groups": lambda: (slopes, (*_groups(1 + np.arange(40) % 7, 13, 0.3, 2.0), 40)),
    "slopes that correlate": lambda: (slopes_lkj, (*_groups([6] * 25, 14, 1.0, 1.0), 25)),
    "rooms in schools": _nested,
    "counts of groups": lambda: (poisson_groups, (_groups([4] * 30, 15, 1, 1)[0], R(15).poisson(3, 120), 30)),
    "counts, overdispersed": _overdispersed,
    "batting": lambda: (batting, (np.full(18, 45), R(16).binomial(45, 0.27, 18))),
    "items, two parameters": _responses,
    "seven studies": lambda: (
        meta_analysis,
        (_f(R(17).normal(0.4, 0.3, 7)), _f([0.1, 0.3, 0.2, 0.5, 0.2, 0.4, 0.3])),
    ),
    "variances of groups": lambda: (
        variances,
        (_groups([5] * 15, 18, 1, 1)[0], _f(R(18).normal(0, 1, 75)), 15),
    ),
    "zero-inflated": _inflated,
    "hurdle": lambda: (hurdle_gamma, (_f(R(19).gamma(2, 1, 80) * (R(20).random(80) < 0.7)),)),
    "latent classes, apart": lambda: _classes(150, 0.35),
    "latent classes, near": lambda: _classes(80, 0.15),
    "two lines": _two_lines,
    "change of slope": lambda: (change_of_slope, _pieces()),
    "change of slope, continuous": lambda: (change_of_slope_smooth, _pieces()),
    "raters": _raters,
    "Weibull, censored": _censored,
    "frailty": _frailty,
    "waits, truncated": lambda: (truncated_waits, (_f(R(34).exponential(3, 40)),)),
    "autoregression": lambda: (ar1, _walk(100, 0.5, 0.1)),
    "autoregression behind noise": lambda: (ar1_latent, (_walk(80, 0.4, 0.5)[0] - 2,)),
    "local level, first latent": lambda: (local_level, _walk(60, 0.3, 0.5)),
    "local trend, first latent": lambda: (local_trend, _walk(60, 0.5, 0.5)),
    "volatility": lambda: (volatility, (_f(R(35).normal(0, 0.7, 100)),)),
    "counts in time": lambda: (counts_in_time, (R(36).poisson(np.exp(1 + np.sin(np.arange(60) / 8))),)),
}
