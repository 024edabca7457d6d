"""Small models of many kinds with one number `mu`, of which everything else is summed or integrated by hand:
further rows of `uses.py`.

A kind is a model's body, data drawn from it, and the log density of the data that are kept on a grid of
`mu`, in double precision: paths and labels are enumerated, normal effects are covariances, other effects
Gauss–Hermite sums, Gamma and Dirichlet ones closed forms.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from scipy import special, stats

STEPS, JUMPS = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0.0, 2.0])
TIMES = np.array([1.0, 3.0, 6.0])
CUTS = np.array([-1.0, 1.0])
SLABS = ((0.6, -2.0, 0.4), (0.4, 2.0, 0.8))
"""Weight, mean and sd."""


@dataclass(frozen=True)
class Kind:
    """`body(mu, y, seen)` says the model beside the prior of `mu`, with data under the context `seen`;
    `drawn(rng, mu, n)` are data; `like(mu, y, keep)` is `log p(y[keep] | mu)`, `[grid]`.

    `positive`: mu is; `whole`: data are integers; `each`: every datum may be missing; `scored`: `elpd` is of
    `like`; `discrete`: so are all other latents; `masked`: data may be under a mask; `factored`: a part has
    no distribution to draw from; `mean(mu)`: of a new datum `[grid]`, where it does not need other data.
    """

    body: Callable[..., Any]
    drawn: Callable[..., Any]
    like: Callable[..., Any]
    positive: bool = False
    whole: bool = False
    each: bool = False
    scored: bool = True
    discrete: bool = False
    masked: bool = True
    factored: bool = False
    mean: Callable[..., Any] | None = None


def apart(found: Callable[..., Any]) -> Callable[..., Any]:
    """The likelihood of data that are independent given `mu`: `found(mu, y)` of one of them."""
    return lambda mu, y, keep: sum((found(mu, v) for v in y[keep]), start=np.zeros(len(mu)))


def alone(of: Callable[..., Any]) -> Callable[..., Any]:
    """A body of data that are independent given `mu`: `of(mu, n)` is their distribution."""

    def body(mu, y, seen):
        with numpyro.plate("n", len(y)), seen():
            numpyro.sample("y", of(mu, len(y)), obs=y)

    return body


def jointly(mu: np.ndarray, y: np.ndarray, keep: np.ndarray, cov: np.ndarray, mean: Any = None) -> np.ndarray:
    """Normal data of this covariance around `mu + mean`."""
    mean = np.zeros(len(y)) if mean is None else mean
    if not keep.any():
        return np.zeros(len(mu))
    r = (y - mean)[keep][:, None] - mu
    cov = cov[np.ix_(keep, keep)]
    quadratic = (r * np.linalg.solve(cov, r)).sum(0)
    return -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * cov)[1])


def same(n: int, groups: int) -> np.ndarray:
    """Whether two of `n` rows are of one group `[n, n]`."""
    of = np.arange(n) % groups
    return (of[:, None] == of).astype(float)


def paths(mu: np.ndarray, logs: list[tuple[float, np.ndarray]]) -> np.ndarray:
    """The sum over paths, each with its log probability and the log density of data `[grid]`."""
    return special.logsumexp([p + like for p, like in logs], axis=0)


def normal(mu: np.ndarray, y: np.ndarray, keep: np.ndarray, more: np.ndarray, sd: float = 1.0) -> np.ndarray:
    """Independent normal data around `mu + more`."""
    return stats.norm.logpdf(y[keep][:, None], mu + more[keep][:, None], sd).sum(0)


# bodies that are more than one distribution


def _groups(mu, y, seen):
    with numpyro.plate("groups", 2):
        theta = numpyro.sample("theta", dist.Normal(mu, 0.8))
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Normal(theta[np.arange(len(y)) % 2], 1.0), obs=y)


def _counts_of_groups(mu, y, seen):
    with numpyro.plate("groups", 2):
        e = numpyro.sample("e", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Poisson(jnp.exp(0.4 * (mu + e[np.arange(len(y)) % 2]))), obs=y)


def _counts_like(mu, y, keep):
    x, w = np.polynomial.hermite_e.hermegauss(40)
    rate = np.exp(0.4 * (mu[:, None] + x))
    total = np.zeros(len(mu))
    for g in range(2):
        of = y[(np.arange(len(y)) % 2 == g) & keep]
        each = sum((stats.poisson.logpmf(v, rate) for v in of), start=np.zeros_like(rate))
        total = total + special.logsumexp(each + np.log(w / w.sum()), axis=1)
    return total


def _crossed(mu, y, seen):
    with numpyro.plate("rows", 2):
        a = numpyro.sample("a", dist.Normal(0.0, 0.7))
    with numpyro.plate("columns", 3):
        b = numpyro.sample("b", dist.Normal(0.0, 0.5))
    of = np.arange(len(y))
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Normal(mu + a[of % 2] + b[of % 3], 1.0), obs=y)


def _walk(mu, y, seen):
    def step(x, v):
        x = numpyro.sample("x", dist.Normal(x, 0.6))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=v)
        return x, None

    scan(step, mu, y)


def _hmm(mu, y, seen):
    def step(z, v):
        z = numpyro.sample("z", dist.Categorical(jnp.asarray(STEPS, jnp.float32)[z]))
        numpyro.sample("y", dist.Normal(mu + jnp.asarray(JUMPS, jnp.float32)[z], 1.0), obs=v)
        return z, None

    scan(step, 0, y)


def _hmm_like(mu, y, keep):
    logs = []
    for path in itertools.product((0, 1), repeat=len(y)):
        logp = sum(np.log(STEPS[a, b]) for a, b in zip((0, *path), path, strict=False))
        logs.append((logp, normal(mu, y, keep, JUMPS[list(path)])))
    return paths(mu, logs)


def _change(mu, y, seen):
    tau = numpyro.sample("tau", dist.Categorical(jnp.ones(len(y)) / len(y)))
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Normal(mu + 2.0 * (jnp.arange(len(y)) >= tau), 1.0), obs=y)


def _change_like(mu, y, keep):
    n = len(y)
    return paths(mu, [(-np.log(n), normal(mu, y, keep, 2.0 * (np.arange(n) >= t))) for t in range(n)])


def _bits(mu, y, seen):
    z = numpyro.sample("z", dist.Bernoulli(0.5).expand([2]).to_event(1))
    numpyro.factor("tied", 1.5 * z[0] * z[1])
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Normal(mu + z[0] - 2.0 * z[1], 1.0), obs=y)


def _bits_like(mu, y, keep):
    pairs = itertools.product((0, 1), repeat=2)
    return paths(mu, [(1.5 * a * b, normal(mu, y, keep, np.full(len(y), a - 2.0 * b))) for a, b in pairs])


def _occupancy(mu, y, seen):
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(logits=mu))
        with seen():
            numpyro.sample("y", dist.Binomial(3, 0.4 * z), obs=y)


def _occupancy_one(mu, v):
    there = special.expit(mu)
    return np.log(there * stats.binom.pmf(v, 3, 0.4) + (1 - there) * (v == 0))


def _poissons(mu, y, seen):
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        with seen():
            numpyro.sample("y", dist.Poisson(jnp.exp(0.4 * mu) * jnp.asarray(TIMES)[z]), obs=y)


def _poissons_one(mu, v):
    rates = np.exp(0.4 * mu)[:, None] * TIMES
    return special.logsumexp(stats.poisson.logpmf(v, rates) + np.log([0.5, 0.3, 0.2]), axis=1)


def _thinned(mu, y, seen):
    with numpyro.plate("n", len(y)):
        k = numpyro.sample("k", dist.Poisson(jnp.exp(0.4 * mu)))
        with seen():
            numpyro.sample("y", dist.Binomial(k, 0.5), obs=y)


def _shares(mu, y, seen):
    with numpyro.plate("n", len(y)):
        p = numpyro.sample("p", dist.Dirichlet(mu * jnp.ones(3)))
        with seen():
            numpyro.sample("y", dist.Multinomial(5, p), obs=y)


def _shares_one(mu, v):
    each = sum(special.gammaln(mu + k) - special.gammaln(mu) - special.gammaln(k + 1.0) for k in v)
    return special.gammaln(3 * mu) - special.gammaln(3 * mu + 5) + special.gammaln(6.0) + each


def _chances(mu, y, seen):
    with numpyro.plate("n", len(y)):
        p = numpyro.sample("p", dist.Beta(mu, 1.5))
        with seen():
            numpyro.sample("y", dist.Binomial(6, p), obs=y)


def _rates(mu, y, seen):
    with numpyro.plate("n", len(y)):
        rate = numpyro.sample("rate", dist.Gamma(mu, 0.5))
        with seen():
            numpyro.sample("y", dist.Poisson(rate), obs=y)


def _blurred(mu, y, seen):
    with numpyro.plate("n", len(y)):
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        with seen():
            numpyro.sample("y", dist.Normal(mu + x, 1.0), obs=y)


def _slab(mu, y, seen):
    w, m, s = jnp.array(SLABS).T
    b = numpyro.sample("b", dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(m, s)))
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Normal(mu + b, 1.0), obs=y)


def _slab_like(mu, y, keep):
    n = len(y)
    each = [(np.log(w), jointly(mu, y, keep, np.eye(n) + s**2, np.full(n, m))) for w, m, s in SLABS]
    return paths(mu, each)


def _censored(mu, y, seen):
    late = y > 1.0
    with numpyro.plate("n", len(y)):
        with seen(), handlers.mask(mask=~late):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        with seen():
            numpyro.factor("late", jnp.where(late, dist.Normal(0.0, 1.0).log_cdf(mu - 1.0), 0.0))


def _smoothed(mu, y, seen):
    def step(level, v):
        numpyro.sample("y", dist.Normal(level, 1.0), obs=v)
        return 0.5 * level + 0.5 * v, None

    scan(step, mu, y)


def _smoothed_like(mu, y, keep):
    total, level = np.zeros(len(mu)), mu
    for v, k in zip(y, keep, strict=True):
        total = total + k * stats.norm.logpdf(v, level, 1.0)
        level = 0.5 * level + 0.5 * v
    return total


def _batches(mu, y, seen):
    with numpyro.plate("n", len(y), subsample_size=len(y)) as rows, seen():
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[rows])


def _spread(mu, y, seen):
    s = numpyro.sample("s", dist.InverseGamma(3.0, 2.0))
    with numpyro.plate("n", len(y)), seen():
        numpyro.sample("y", dist.Normal(mu, jnp.sqrt(s)), obs=y)


def _spread_like(mu, y, keep):
    n = keep.sum()
    b = 2.0 + 0.5 * ((y[keep][:, None] - mu) ** 2).sum(0)
    a = 3.0 + n / 2
    return (
        special.gammaln(a)
        - special.gammaln(3.0)
        + 3 * np.log(2.0)
        - a * np.log(b)
        - n / 2 * np.log(2 * np.pi)
    )


def _ordered_one(mu, v):
    below = np.stack([np.zeros(len(mu)), *special.expit(CUTS[:, None] - mu), np.ones(len(mu))])
    return np.log(np.diff(below, axis=0)[int(v)])


def _noise(rng, mu, n):
    return mu + rng.normal(size=n)


def _counts(rng, mu, n):
    return rng.poisson(np.exp(np.clip(0.4 * mu, -2, 2.5)), n)


def _x(n):
    return np.linspace(-1.0, 2.0, n)


KINDS: dict[str, Kind] = {
    "groups": Kind(
        _groups, _noise, lambda m, y, k: jointly(m, y, k, np.eye(len(y)) + 0.64 * same(len(y), 2)), each=True
    ),
    "counts of groups": Kind(_counts_of_groups, _counts, _counts_like, whole=True),
    "crossed": Kind(
        _crossed,
        _noise,
        lambda m, y, k: jointly(
            m, y, k, np.eye(len(y)) + 0.49 * same(len(y), 2) + 0.25 * same(len(y), 3)
        ),
        each=True,
    ),
    "walk": Kind(
        _walk,
        _noise,
        lambda m, y, k: jointly(
            m, y, k, np.eye(len(y)) + 0.36 * (1 + np.minimum.outer(np.arange(len(y)), np.arange(len(y))))
        ),
        masked=False,
    ),
    "hmm": Kind(_hmm, _noise, _hmm_like, discrete=True, masked=False),
    "change": Kind(_change, _noise, _change_like, discrete=True),
    "bits": Kind(_bits, _noise, _bits_like, discrete=True, factored=True),
    "occupancy": Kind(
        _occupancy,
        lambda rng, mu, n: rng.binomial(3, 0.4, n) * (rng.random(n) < special.expit(mu)),
        apart(_occupancy_one),
        whole=True,
        discrete=True,
    ),
    "mixed counts": Kind(
        _poissons,
        lambda rng, mu, n: rng.poisson(np.exp(np.clip(0.4 * mu, -2, 2)) * rng.choice(TIMES, n)),
        apart(_poissons_one),
        whole=True,
        discrete=True,
    ),
    "thinned counts": Kind(
        _thinned,
        lambda rng, mu, n: rng.binomial(_counts(rng, mu, n), 0.5),
        apart(lambda m, v: stats.poisson.logpmf(v, 0.5 * np.exp(0.4 * m))),
        whole=True,
        discrete=True,
    ),
    "shares": Kind(
        _shares,
        lambda rng, mu, n: rng.multinomial(5, rng.dirichlet(np.full(3, mu + 0.1), n)),
        apart(_shares_one),
        positive=True,
        whole=True,
    ),
    "chances": Kind(
        _chances,
        lambda rng, mu, n: rng.binomial(6, rng.beta(mu + 0.1, 1.5, n)),
        apart(lambda m, v: stats.betabinom.logpmf(v, 6, m, 1.5)),
        positive=True,
        whole=True,
    ),
    "rates": Kind(
        _rates,
        lambda rng, mu, n: rng.poisson(rng.gamma(mu + 0.1, 2.0, n)),
        apart(lambda m, v: stats.nbinom.logpmf(v, m, 1 / 3)),
        positive=True,
        whole=True,
    ),
    "blurred": Kind(
        _blurred, _noise, apart(lambda m, v: stats.norm.logpdf(v, m, np.sqrt(2.0))), each=True
    ),
    "slab": Kind(_slab, _noise, _slab_like, each=True),
    "censored": Kind(
        _censored,
        lambda rng, mu, n: np.minimum(_noise(rng, mu, n), 1.5),
        apart(lambda m, v: stats.norm.logsf(1.0, m, 1.0) if v > 1 else stats.norm.logpdf(v, m, 1.0)),
        scored=False,
        factored=True,
    ),
    "smoothed": Kind(_smoothed, _noise, _smoothed_like, scored=False, masked=False),
    "batches": Kind(_batches, _noise, apart(lambda m, v: stats.norm.logpdf(v, m, 1.0)), mean=lambda m: m),
    "spread": Kind(_spread, _noise, _spread_like, each=True, mean=lambda m: m),
    "truncated": Kind(
        alone(lambda mu, n: dist.TruncatedNormal(mu, 1.0, low=0.0)),
        lambda rng, mu, n: np.abs(_noise(rng, mu, n)) + 0.05,
        apart(lambda m, v: stats.norm.logpdf(v, m, 1.0) - stats.norm.logsf(0.0, m, 1.0)),
    ),
    "ordered": Kind(
        alone(lambda mu, n: dist.OrderedLogistic(mu, jnp.asarray(CUTS, jnp.float32))),
        lambda rng, mu, n: np.searchsorted(CUTS, mu + rng.logistic(size=n)),
        apart(_ordered_one),
        whole=True,
    ),
    "inflated": Kind(
        alone(lambda mu, n: dist.ZeroInflatedPoisson(0.3, rate=jnp.exp(0.4 * mu))),
        lambda rng, mu, n: _counts(rng, mu, n) * (rng.random(n) < 0.7),
        apart(lambda m, v: np.log(0.3 * (v == 0) + 0.7 * stats.poisson.pmf(v, np.exp(0.4 * m)))),
        whole=True,
        mean=lambda m: 0.7 * np.exp(0.4 * m),
    ),
    "mixture": Kind(
        alone(
            lambda mu, n: dist.MixtureSameFamily(
                dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(mu + jnp.array([0.0, 3.0]), 1.0)
            )
        ),
        lambda rng, mu, n: _noise(rng, mu, n) + 3.0 * (rng.random(n) < 0.7),
        apart(
            lambda m, v: np.logaddexp(
                np.log(0.3) + stats.norm.logpdf(v, m, 1.0), np.log(0.7) + stats.norm.logpdf(v, m + 3, 1.0)
            )
        ),
        mean=lambda m: m + 2.1,
    ),
    "student": Kind(
        alone(lambda mu, n: dist.StudentT(4.0, mu, 1.0)),
        _noise,
        apart(lambda m, v: stats.t.logpdf(v, 4.0, m, 1.0)),
        each=True,
    ),
    "directions": Kind(
        alone(lambda mu, n: dist.VonMises(mu, 2.0)),
        lambda rng, mu, n: rng.vonmises(np.angle(np.exp(1j * mu)), 2.0, n),
        apart(lambda m, v: 2.0 * np.cos(v - m) - np.log(2 * np.pi * special.i0(2.0))),
    ),
    "overdispersed": Kind(
        alone(lambda mu, n: dist.NegativeBinomial2(jnp.exp(0.4 * mu), 2.0)),
        _counts,
        apart(lambda m, v: stats.nbinom.logpmf(v, 2.0, 2.0 / (2.0 + np.exp(0.4 * m)))),
        whole=True,
        mean=lambda m: np.exp(0.4 * m),
    ),
    "waiting": Kind(
        alone(lambda mu, n: dist.Exponential(mu)),
        lambda rng, mu, n: rng.exponential(1 / (mu + 0.1), n),
        apart(lambda m, v: np.log(m) - m * v),
        positive=True,
        each=True,
    ),
    "scale": Kind(
        alone(lambda mu, n: dist.Normal(0.0, mu)),
        lambda rng, mu, n: (mu + 0.1) * rng.normal(size=n),
        apart(lambda m, v: stats.norm.logpdf(v, 0.0, m)),
        positive=True,
        each=True,
    ),
    "slope": Kind(
        alone(lambda mu, n: dist.Normal(mu * jnp.asarray(_x(n), jnp.float32), 1.0)),
        lambda rng, mu, n: mu * _x(n) + rng.normal(size=n),
        lambda m, y, k: stats.norm.logpdf(y[k][:, None], np.outer(_x(len(y))[k], m), 1.0).sum(0),
        each=True,
    ),
    "pairs": Kind(
        alone(
            lambda mu, n: dist.MultivariateNormal(
                jnp.stack([mu, -mu]), jnp.array([[1.0, 0.5], [0.5, 2.0]])
            )
        ),
        lambda rng, mu, n: rng.multivariate_normal([mu, -mu], [[1.0, 0.5], [0.5, 2.0]], n),
        apart(
            lambda m, v: stats.multivariate_normal([0, 0], [[1.0, 0.5], [0.5, 2.0]]).logpdf(
                v - np.stack([m, -m], -1)
            )
        ),
    ),
}  # fmt: skip
