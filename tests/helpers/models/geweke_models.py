"""The models of AugurV2 and AutoGibbs, small and with moments that exist, for joint-distribution tests."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan


def normal_gamma(y=None):
    """AutoGibbs's hierarchical Gaussian."""
    tau = numpyro.sample("tau", dist.Gamma(4.0, 2.0))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", 3):
        numpyro.sample("y", dist.Normal(m, tau**-0.5), obs=y)


def mixture(y=None):
    """AutoGibbs's GMM, with its shifted mean."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 3.0])))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-1.0, 1.0]), 1.0).to_event(1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Normal(4 * mu[z] - 1, 0.8), obs=y)


def bernoulli_mixture(y=None):
    """AutoGibbs's Bernoulli mixture: the probability is one of two."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([0.5, 0.5])))
    with numpyro.plate("n", 3):
        p = numpyro.sample("p", dist.Categorical(w))
        numpyro.sample("y", dist.Bernoulli(jnp.array([0.3, 0.7])[p]), obs=y)


def hmm(y=None):
    """AutoGibbs's hidden Markov model."""
    rows = numpyro.sample("P", dist.Dirichlet(jnp.array([2.0, 1.0])).expand([2]).to_event(1))
    m = numpyro.sample("m", dist.Normal(jnp.array([0.0, 1.0]), 0.5).to_event(1))

    def step(before, now):
        s = numpyro.sample("s", dist.Categorical(rows[before]))
        numpyro.sample("y", dist.Normal(m[s], 0.5), obs=now)
        return s, None

    scan(step, 0, y, length=4)


def sticks(y=None):
    """AutoGibbs's infinite mixture, by sticks broken three times."""
    v = numpyro.sample("v", dist.Beta(1.0, 2.0).expand([3]).to_event(1))
    left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - v)])
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(jnp.concatenate([v, jnp.ones(1)]) * left))
        numpyro.sample("y", dist.Normal(mu[z], 0.5), obs=y)


def restaurant(y=None):
    """AutoGibbs's Chinese-restaurant mixture of three points."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    counts, seated = jnp.zeros(3), []
    for i in range(3):
        free = jax.nn.one_hot(jnp.argmax(counts == 0), 3)
        z = numpyro.sample(f"z_{i}", dist.Categorical((counts + free) / (i + 1.0)))
        counts = counts + jax.nn.one_hot(z, 3)
        seated.append(z)
    numpyro.sample("y", dist.Normal(mu[jnp.stack(seated)], 0.5).to_event(1), obs=y)


def changepoint(y=None):
    """AutoGibbs's change point."""
    rate = numpyro.sample("rate", dist.Gamma(jnp.array([3.0, 6.0]), 2.0).to_event(1))
    tau = numpyro.sample("tau", dist.DiscreteUniform(1, 4))
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Poisson(jnp.where(jnp.arange(4) < tau, rate[0], rate[1])), obs=y)


def hlr(y=None):
    """AugurV2's hierarchical logistic regression."""
    v = numpyro.sample("v", dist.Exponential(1.0))
    b = numpyro.sample("b", dist.Normal(0.0, jnp.sqrt(v)))
    theta = numpyro.sample("theta", dist.Normal(0.0, jnp.sqrt(v)).expand([2]).to_event(1))
    x = jnp.array([[1.0, 0.3], [-0.5, 1.0], [0.2, 0.2], [-1.0, 0.4]])
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Bernoulli(logits=x @ theta + b), obs=y)


def regression(y=None):
    """The same with a Gaussian likelihood."""
    v = numpyro.sample("v", dist.InverseGamma(6.0, 5.0))
    b = numpyro.sample("b", dist.Normal(0.0, jnp.sqrt(v)).expand([2]).to_event(1))
    x = jnp.array([[1.0, 0.3], [-0.5, 1.0], [0.2, 0.2]])
    numpyro.sample("y", dist.Normal(x @ b, 1.0).to_event(1), obs=y)


def effects(y=None):
    """Effects around a mean, a slope, and groups of different sizes."""
    tau = numpyro.sample("tau", dist.Gamma(4.0, 3.0))
    mean = numpyro.sample("mean", dist.Normal(0.5, 1.0))
    slope = numpyro.sample("slope", dist.Normal(-0.5, 0.7))
    with numpyro.plate("g", 3):
        u = numpyro.sample("u", dist.Normal(mean, tau**-0.5))
    x = jnp.array([0.3, -1.0, 0.5, 1.2, 0.1])
    with numpyro.plate("n", 5):
        numpyro.sample("y", dist.Normal(u[jnp.array([0, 0, 1, 2, 2])] + slope * x, 0.8), obs=y)


def logits(y=None):
    """Binomial counts with effects on their logits."""
    tau = numpyro.sample("tau", dist.Gamma(4.0, 3.0))
    mean = numpyro.sample("mean", dist.Normal(0.5, 1.0))
    with numpyro.plate("g", 3):
        u = numpyro.sample("u", dist.Normal(mean, tau**-0.5))
    total = np.array([1, 5, 3, 2])
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Binomial(total, logits=u[jnp.array([0, 1, 1, 2])] - 0.3), obs=y)


def switched(y=None):
    """A change point that centres the covariate, and the lines on both sides."""
    x = jnp.array([-1.0, -0.2, 0.4, 1.1])
    tau = numpyro.sample("tau", dist.Gamma(4.0, 3.0))
    k = numpyro.sample("k", dist.Categorical(jnp.array([0.1, 0.4, 0.3, 0.2])))
    a = numpyro.sample("a", dist.Normal(0.5, 1.0))
    b = numpyro.sample("b", dist.Normal(-0.5, 1.0).expand([2]))
    side = (jnp.arange(4) > k).astype(int)
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Normal(a + b[side] * (x - x[k]), tau**-0.5), obs=y)


def topics(y=None):
    """AugurV2's LDA."""
    doc = np.array([0, 0, 1, 1])
    with numpyro.plate("d", 2):
        theta = numpyro.sample("theta", dist.Dirichlet(jnp.array([1.0, 2.0])))
    with numpyro.plate("k", 2):
        phi = numpyro.sample("phi", dist.Dirichlet(jnp.array([1.0, 1.0, 2.0])))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(theta[doc]))
        numpyro.sample("y", dist.Categorical(phi[z]), obs=y)


def gaussians(y=None):
    """AugurV2's HGMM: two components in the plane."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 2.0])))
    with numpyro.plate("k", 2):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
        cov = numpyro.sample("cov", dist.InverseWishart(9.0, 6 * jnp.eye(2)))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.MultivariateNormal(mu[z], cov[z]), obs=y)


def bounded(y=None):
    """A support that moves with a latent."""
    top = numpyro.sample("top", dist.Gamma(5.0, 2.0))
    with numpyro.plate("n", 2):
        numpyro.sample("y", dist.Uniform(0.0, top), obs=y)


def thinned(y=None):
    """Counts without end, of which a part is seen."""
    rate = numpyro.sample("rate", dist.Gamma(4.0, 1.0))
    with numpyro.plate("n", 3):
        k = numpyro.sample("k", dist.Poisson(rate))
        numpyro.sample("y", dist.Poisson(0.4 * k + 0.1), obs=y)


DATA = {
    normal_gamma: np.array([0.1, 1.2, -0.4], np.float32),
    mixture: np.array([0.1, 1.2, -4.0, 3.0], np.float32),
    bernoulli_mixture: np.array([0, 1, 1]),
    hmm: np.array([0.1, 0.9, 1.2, -0.2], np.float32),
    sticks: np.array([0.1, 1.2, -1.0, 0.3], np.float32),
    restaurant: np.array([0.1, 1.2, -1.0], np.float32),
    changepoint: np.array([1, 2, 4, 3]),
    hlr: np.array([1, 0, 1, 1]),
    regression: np.array([0.1, 1.2, -0.4], np.float32),
    effects: np.array([0.1, 1.2, -0.4, 2.0, 0.3], np.float32),
    logits: np.array([1, 2, 0, 2]),
    switched: np.array([0.1, 1.2, -0.4, 0.3], np.float32),
    topics: np.array([0, 2, 1, 1]),
    gaussians: np.array([[0.2, 1.0], [-1.0, 0.5], [0.3, 0.1], [2.0, -1.0]], np.float32),
    bounded: np.array([0.2, 0.5], np.float32),
    thinned: np.array([1, 0, 3], np.int32),
}
