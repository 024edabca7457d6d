"""Targets of `modes.py` whose modes the likelihood makes, of widths that differ by 7 or more, and what lies
where: by quadrature, or where that is as exact by symmetry."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import optimize, stats

RNG = np.random.default_rng(7)
TEN = np.random.default_rng(0).normal(0, 1, 10).astype(np.float32)


def square():
    """A number whose square is seen, and whose sign says how exactly ten others are: sd .02 or 1."""
    s = numpyro.sample("s", dist.Normal(0.0, 2.0))
    numpyro.sample("q", dist.Normal(s**2, 0.5), obs=4.0)
    with numpyro.plate("n", 10):
        x = numpyro.sample("x", dist.Normal(0, 100.0))
        numpyro.sample("y", dist.Normal(x, jnp.exp(2 * jnp.tanh(2 * s) - 2)), obs=TEN)


CLUSTER = np.r_[RNG.normal(0, 1, 40), 1.7 + 0.01 * RNG.normal(size=5)].astype(np.float32)


def cluster():
    """A fifth of the data is of a normal of unknown place and width, and five of 45 lie within .03."""
    m = numpyro.sample("m", dist.Normal(0.0, 2.0))
    s = numpyro.sample("s", dist.Normal(0.0, 2.0))
    with numpyro.plate("n", len(CLUSTER)):
        which = dist.Categorical(jnp.array([0.8, 0.2]))
        parts = dist.Normal(jnp.stack([0.0, m]), jnp.stack([1.0, jnp.exp(s)]))
        numpyro.sample("y", dist.MixtureSameFamily(which, parts), obs=CLUSTER)


def cluster_share():
    """P(s < -2.5)."""
    m, s = np.unique(np.r_[np.linspace(-8, 8, 3201), np.linspace(1.6, 1.8, 801)]), np.linspace(-9, 8, 681)
    logp = stats.norm.logpdf(m, 0, 2)[:, None] + stats.norm.logpdf(s, 0, 2)
    for y in CLUSTER.astype(float):
        logp = logp + np.log(0.8 * stats.norm.pdf(y) + 0.2 * stats.norm.pdf(y, m[:, None], np.exp(s)))
    p = np.exp(logp - logp.max()) * np.gradient(m)[:, None]
    return float(p[:, s < -2.5].sum() / p.sum())


def dose():
    """What rises steeply and falls slowly: .3 of the most is seen, on either side."""
    a = numpyro.sample("a", dist.Normal(-0.5, 1.2))
    numpyro.sample("y", dist.Normal(jnp.exp(jnp.where(a < 0, 8 * a, -0.5 * a)), 0.01), obs=0.3)


def dose_share():
    """P(a < 0)."""
    a = np.linspace(-8, 8, 400_001)
    rise = np.exp(np.where(a < 0, 8 * a, -0.5 * a))
    p = stats.norm.pdf(0.3, rise, 0.01) * stats.norm.pdf(a, -0.5, 1.2)
    return float(p[a < 0].sum() / p.sum())


EXACT = np.float32([-4.003, -4.001, -3.998])
ROUGH = np.float32([2.2, 3.1, 4.5, 3.6, 2.8, 3.9])


def devices():
    """Three exact readings of a place and six rough ones, of which either kind may be wrong altogether."""
    m = numpyro.sample("m", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.StudentT(1.0, m, 0.01).expand([3]).to_event(1), obs=EXACT)
    numpyro.sample("z", dist.StudentT(2.0, m, 0.5).expand([6]).to_event(1), obs=ROUGH)


def devices_share():
    """P(m < -2)."""
    m = np.unique(np.r_[np.linspace(-60, 60, 60_001), np.linspace(-4.2, -3.8, 20_001)])
    p = stats.norm.pdf(m, 0, 10) * np.gradient(m)
    p = p * stats.t.pdf(EXACT.astype(float)[:, None], 1, m, 0.01).prod(0)
    p = p * stats.t.pdf(ROUGH.astype(float)[:, None], 2, m, 0.5).prod(0)
    return float(p[m < -2].sum() / p.sum())


TIME = np.linspace(0.25, 6, 12).astype(np.float32)
LEVEL = np.log(10 * 3 / 2.7 * (np.exp(-0.3 * TIME) - np.exp(-3 * TIME))) + 0.05 * RNG.normal(size=12)


def flip_flop():
    """Absorption and elimination of one compartment, which may exchange their parts."""
    v = numpyro.sample("v", dist.Normal(1.0, 2.0))
    a = numpyro.sample("a", dist.Normal(0.0, 1.5))
    e = numpyro.sample("e", dist.Normal(0.0, 1.5))
    apart = jnp.exp(a) - jnp.exp(e)
    apart = jnp.where(jnp.abs(apart) < 1e-4, 1e-4, apart)
    seen = jnp.exp(v + a) / apart * (jnp.exp(-jnp.exp(e) * TIME) - jnp.exp(-jnp.exp(a) * TIME))
    obs = LEVEL.astype(np.float32)
    numpyro.sample("y", dist.Normal(jnp.log(jnp.maximum(seen, 1e-20)), 0.05), obs=obs)


def _flip_logp(q):
    v, a, e = q.T[..., None]
    seen = np.exp(v + a) / (np.exp(a) - np.exp(e)) * (np.exp(-np.exp(e) * TIME) - np.exp(-np.exp(a) * TIME))
    found = stats.norm.logpdf(LEVEL, np.log(np.maximum(seen, 1e-20)), 0.05).sum(-1)
    return found + stats.norm.logpdf(q, [1, 0, 0], [2, 1.5, 1.5]).sum(-1)


def flip_share():
    """P(a < 0), by importance sampling around both modes."""
    masses = []
    for start in ([10, 3, 0.3], [100, 0.3, 3]):
        best = optimize.minimize(lambda q: -_flip_logp(q[None])[0], np.log(start), method="BFGS")
        proposal = stats.multivariate_t(best.x, 1.3 * best.hess_inv, df=6, seed=1)
        x = proposal.rvs(40_000)
        masses.append(np.exp(_flip_logp(x) - proposal.logpdf(x)).mean())
    return float(masses[1] / sum(masses))


def left(name, at=0.0):
    """The share of draws `[chain, draw]` below `at`."""
    return lambda draws: np.asarray(draws[name]) < at


OF_DATA = {
    "a square": (square, left("s"), 0.5, None),
    "a cluster": (cluster, left("s", -2.5), cluster_share, None),
    "a dose": (dose, left("a"), dose_share, None),
    "two devices": (devices, left("m", -2.0), devices_share, None),
    "flip-flop": (flip_flop, left("a"), flip_share, None),
}
"""Model, share on one side, the exact one, and `init=`."""
