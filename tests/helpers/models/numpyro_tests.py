"""The models of NumPyro's own tests of inference, small and in our words: functions with their arguments.

Of `test/infer/{test_mcmc,test_hmc_gibbs,test_gibbs}.py` and `test/contrib/{test_funsor,test_control_flow,
test_infer_discrete}.py`. Where several tests share a model it stands once.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax
from jax.scipy.special import logit
from numpyro import handlers
from numpyro.contrib.control_flow import cond, scan
from numpyro.distributions import constraints
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer.reparam import TransformReparam

from helpers.startup.arrays import array

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=10).astype(np.float32)
X = RNG.normal(size=(10, 3)).astype(np.float32)
COUNTS = RNG.poisson(12.0, 20)
COVARIANCE = array([[10.0, 0.8], [0.8, 0.1]])
STAY = array([[0.8, 0.2], [0.1, 0.9]])
MEANS = array([-1.0, 1.0])
PAIRS = array([[-1.0, 1.0], [2.0, 3.0]])


def logistic(labels):
    coefs = numpyro.sample("coefs", dist.Normal(jnp.zeros(3), jnp.ones(3)))
    logits = numpyro.deterministic("logits", jnp.sum(coefs * X, axis=-1))
    return numpyro.sample("obs", dist.Bernoulli(logits=logits), obs=labels)


def scaled_uniform(y, proper=True):
    alpha = numpyro.sample("alpha", dist.Uniform(0, 1))
    base = dist.Uniform(0, 1) if proper else dist.Uniform(0, 1).mask(False)
    with handlers.reparam(config={"loc": TransformReparam()}):
        loc = numpyro.sample("loc", dist.TransformedDistribution(base, AffineTransform(0, alpha)))
    numpyro.sample("obs", dist.Normal(loc, 0.1), obs=y)


def improper_scaled_uniform(y):
    scaled_uniform(y, proper=False)


def beta_bernoulli(y):
    p = numpyro.sample("p_latent", dist.Beta(jnp.array([1.1, 1.1]), jnp.array([1.1, 1.1])))
    numpyro.sample("obs", dist.Bernoulli(p), obs=y)
    return p


def dirichlet_categorical(y):
    p = numpyro.sample("p_latent", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("obs", dist.Categorical(p), obs=y)


def normals_together():
    numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=COVARIANCE))


def change_point_in_the_unit_interval(y):
    alpha = 1 / jnp.mean(y.astype(np.float32))
    first = numpyro.sample("lambda1", dist.Exponential(alpha))
    second = numpyro.sample("lambda2", dist.Exponential(alpha))
    tau = numpyro.sample("tau", dist.Uniform(0, 1))
    rate = jnp.where(jnp.arange(len(y)) < tau * len(y), first, second)
    numpyro.sample("obs", dist.Poisson(rate), obs=y)


def large_binomial(data):
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    numpyro.sample("obs", dist.Binomial(data["n"], probs=p), obs=data["x"])


def large_binomial_of_logits(data):
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    numpyro.sample("obs", dist.Binomial(data["n"], logits=logit(p)), obs=data["x"])


def improper_prior(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1).mask(False))
    std = numpyro.sample("std", dist.ImproperUniform(constraints.positive, (), ()))
    return numpyro.sample("obs", dist.Normal(mean, std), obs=y)


def masked_priors(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1).mask(False))
    std = numpyro.sample("std", dist.LogNormal(0, 1).mask(False))
    return numpyro.sample("obs", dist.Normal(mean, std), obs=y)


def location(y):
    loc = numpyro.sample("loc", dist.Normal(0.0, 1.0))
    numpyro.sample("obs", dist.Normal(loc, 1), obs=y)


def schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    theta = numpyro.sample("theta", dist.Normal(mu, tau), sample_shape=(len(y),))
    numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def sample_shape():
    numpyro.sample("x", dist.Normal(0, 1), sample_shape=(5,))


def location_and_scale(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(3.0))
    numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def optional_terms(a=None, b=None, z=None):
    mu = numpyro.sample("a", dist.Normal(0.0, 0.2))
    if a is not None:
        mu = mu + a * numpyro.sample("x", dist.HalfNormal(0.5))
    if b is not None:
        mu = mu + b * numpyro.sample("y", dist.HalfNormal(0.5))
    sigma = numpyro.sample("sigma", dist.Exponential(1.0))
    numpyro.sample("obs", dist.Normal(mu, sigma), obs=z)


def first_term(a, z):
    optional_terms(a, None, z)


def second_term(b, z):
    optional_terms(None, b, z)


def both_terms(a, b, z):
    optional_terms(a, b, z)


def simplex_of_one():
    x = numpyro.sample("x", dist.Dirichlet(jnp.ones(1)))
    return numpyro.sample("y", dist.Normal(x, 1), obs=2)


def counted_up():
    x = numpyro.sample("x", dist.Normal(0, 1))
    y = lax.while_loop(lambda x: x < 10, lambda x: x + 1, x)
    numpyro.sample("obs", dist.Normal(y, 1), obs=1.0)


def regression_of_log_scale(X, y):
    log_sigma = numpyro.sample("log_sigma", dist.Normal(1.0))
    beta = numpyro.sample("beta", dist.Normal(jnp.zeros(X.shape[1]), jnp.ones(X.shape[1])))
    mean = numpyro.deterministic("mean", jnp.sum(beta * X, axis=-1))
    numpyro.sample("obs", dist.Normal(mean, jnp.exp(log_sigma)), obs=y)


def regression(X, y):
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    beta = numpyro.sample("beta", dist.Normal(jnp.zeros(X.shape[1]), jnp.ones(X.shape[1])))
    numpyro.sample("obs", dist.Normal(jnp.sum(beta * X, axis=-1), sigma), obs=y)


def normals_in_two_parts():
    x0 = numpyro.sample("x0", dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=COVARIANCE))
    mean = COVARIANCE @ x0 / 10
    numpyro.sample("x1", dist.MultivariateNormal(mean, covariance_matrix=COVARIANCE))


def discrete_sites():
    numpyro.sample("x", dist.Bernoulli(0.7).expand([3]))
    numpyro.sample("y", dist.Binomial(10, 0.3))


def discrete_site_marked():
    numpyro.sample("x", dist.Bernoulli(0.7), infer={"enumerate": "parallel"})
    y = numpyro.sample("y", dist.Binomial(10, 0.3))
    numpyro.deterministic("y2", y**2)


def one_bit():
    numpyro.sample("c", dist.Bernoulli(0.8))


def bit_beside_a_flat_site():
    numpyro.sample("c", dist.Bernoulli(0.8))
    numpyro.sample("u", dist.ImproperUniform(constraints.unit_interval, (), ()))


def mixture_of_one(probs, locs):
    c = numpyro.sample("c", dist.Categorical(probs))
    numpyro.sample("x", dist.Normal(locs[c], 0.5))


def sum_of_two():
    x = numpyro.sample("x", dist.Normal(0.0, 2.0))
    y = numpyro.sample("y", dist.Normal(0.0, 2.0))
    numpyro.sample("obs", dist.Normal(x + y, 1.0), obs=jnp.array([1.0]))


def bit_and_location():
    c = numpyro.sample("c", dist.Bernoulli(0.8))
    numpyro.sample("x", dist.Normal(c, 1.0))


def bit_and_sum():
    c = numpyro.sample("c", dist.Bernoulli(0.8))
    x = numpyro.sample("x", dist.Normal(c, 1.0))
    y = numpyro.sample("y", dist.Normal(0.0, 2.0))
    numpyro.sample("obs", dist.Normal(x + y, 1.0), obs=jnp.array([1.0]))


def sum_of_three():
    x, y, z = (numpyro.sample(n, dist.Normal(0.0, 2.0)) for n in "xyz")
    numpyro.deterministic("s", x + y + z)
    numpyro.sample("obs", dist.Normal(x + y + z, 1.0), obs=jnp.array([1.0]))


def three_blocks():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    y = numpyro.sample("y", dist.HalfNormal(1.0))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    numpyro.sample("obs", dist.Normal(x + z, y), obs=jnp.array([0.5, -0.5, 1.0]))


def moving_support():
    low = numpyro.sample("lb", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Uniform(low, low + 1.0))


def gaussian_mixture(y):
    weights = numpyro.sample("phi", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("clusters", 3, dim=-1):
        means = numpyro.sample("cluster_means", dist.Normal(jnp.arange(3), 1.0))
    with numpyro.plate("data", len(y), dim=-1):
        z = numpyro.sample("assignments", dist.Categorical(weights))
        numpyro.sample("obs", dist.Normal(means[z], 1.0), obs=y)


def two_layers_of_bits(data):
    p = numpyro.sample("y_prob", dist.Beta(1.0, 1.0))
    with numpyro.plate("data", data.shape[0]):
        y = numpyro.sample("y", dist.Bernoulli(p))
        z = numpyro.sample("z", dist.Bernoulli(0.65 * y + 0.1))
        numpyro.sample("obs", dist.Normal(2.0 * z, 1.0), obs=data)


def change_point(y):
    alpha = 1 / jnp.mean(y.astype(np.float32))
    first = numpyro.sample("lambda_1", dist.Exponential(alpha))
    second = numpyro.sample("lambda_2", dist.Exponential(alpha))
    tau = numpyro.sample("tau", dist.Categorical(logits=jnp.zeros(len(y))))
    rate = jnp.where(tau > jnp.arange(len(y)), first, second)
    with numpyro.plate("data", len(y)):
        numpyro.sample("obs", dist.Poisson(rate), obs=y)


def gaussian_hmm(data):
    with numpyro.plate("states", 3):
        transition = numpyro.sample("transition", dist.Dirichlet(jnp.ones(3)))
        loc = numpyro.sample("emission_loc", dist.Normal(0, 1))
        scale = numpyro.sample("emission_scale", dist.LogNormal(0, 1))
    probs = numpyro.sample("initialize", dist.Dirichlet(jnp.ones(3)))
    for t, y in enumerate(data):
        x = numpyro.sample(f"x_{t}", dist.Categorical(probs))
        numpyro.sample(f"y_{t}", dist.Normal(loc[x], scale[x]), obs=y)
        probs = transition[x]


def looped_chain(data):
    x = None
    for i, y in enumerate(data):
        x = numpyro.sample(f"x_{i}", dist.Categorical(jnp.array([0.6, 0.4]) if x is None else STAY[x]))
        numpyro.sample(f"y_{i}", dist.Normal(MEANS[x], 1), obs=y)


def chain_in_a_plate(data):
    def step(x, y):
        with numpyro.plate("D", 3, dim=-1):
            x = numpyro.sample("x", dist.Categorical(STAY[x]))
            numpyro.sample("y", dist.Normal(MEANS[x], 1), obs=y)
        return x, None

    scan(step, jnp.zeros(3, int), data)


def chain_with_two_plates(first, second):
    def step(x, y):
        x = numpyro.sample("x", dist.Categorical(STAY[x]))
        with numpyro.plate("D1", 3, dim=-1):
            numpyro.sample("y1", dist.Normal(MEANS[x], 1), obs=y[0])
        with numpyro.plate("D2", 4, dim=-1):
            numpyro.sample("y2", dist.Normal(MEANS[x], 1), obs=y[1])
        return x, None

    scan(step, 0, (first, second))


def chain_with_bits(data):
    def step(x, y):
        x = numpyro.sample("x", dist.Categorical(STAY[x]))
        with numpyro.plate("D", 3, dim=-1):
            w = numpyro.sample("w", dist.Bernoulli(0.6))
            numpyro.sample("y", dist.Normal(PAIRS[x, w], 1), obs=y)
        return x, None

    scan(step, 0, data)


def chain_under_a_bit(data):
    w = numpyro.sample("w", dist.Bernoulli(0.6))
    probs = jnp.array([[[0.8, 0.2], [0.1, 0.9]], [[0.7, 0.3], [0.6, 0.4]]])

    def step(x, y):
        x = numpyro.sample("x", dist.Categorical(probs[w.astype(int), x]))
        numpyro.sample("y", dist.Normal(MEANS[x], 1), obs=y)
        return x, None

    scan(step, 0, data)


def two_chains(data):
    def step(carry, y):
        x, w = carry
        x = numpyro.sample("x", dist.Categorical(STAY[x]))
        w = numpyro.sample("w", dist.Categorical(STAY[w]))
        numpyro.sample("y", dist.Normal(PAIRS[w, x], 1), obs=y)
        return (x, w), x

    scan(step, (0, 0), data)


def chain_over_a_chain(first, second):
    def early(x, y):
        x = numpyro.sample("x", dist.Categorical(STAY[x]))
        numpyro.sample("yx", dist.Normal(MEANS[x], 1), obs=y)
        return x, x

    _, xs = scan(early, 0, first)

    def late(w, given):
        y, x = given
        w = numpyro.sample("w", dist.Categorical(STAY[w]))
        numpyro.sample("yw", dist.Normal(PAIRS[w, x], 1), obs=y)
        return w, None

    scan(late, 0, (second, xs[1:]))


def states_from_the_prior(T=6):
    def step(carry, i):
        x, mu = carry
        x = numpyro.sample("x", dist.Normal(0.5 * x, 1))
        mu = 0.5 * mu + x
        y = numpyro.sample("y", dist.Normal(mu, 1))
        numpyro.deterministic("y2", y * 2)
        return (x, mu), None

    x0 = numpyro.sample("x_0", dist.Normal(0, 1))
    numpyro.sample("y_0", dist.Normal(x0, 1))
    scan(step, (x0, x0), jnp.arange(T))


def positive_states(T=6):
    def step(carry, i):
        x, mu = carry
        x = numpyro.sample("x", dist.LogNormal(-0.2 * x, 1.0))
        mu = 0.3 * mu + x
        numpyro.sample("y", dist.Normal(mu, 1.0))
        return (x, mu), None

    scan(step, (0.0, 0.0), jnp.arange(T))


def positive_states_in_a_loop(T=6):
    x = mu = 0.0
    for i in range(T):
        x = numpyro.sample(f"x_{i}", dist.LogNormal(-0.2 * x, 1.0))
        mu = 0.3 * mu + x
        numpyro.sample(f"y_{i}", dist.Normal(mu, 1.0))


def either_location():
    def high(_):
        x = numpyro.sample("x", dist.Normal(4.0))
        numpyro.deterministic("z", x - 4.0)

    def low(_):
        x = numpyro.sample("x", dist.Normal(0.0))
        numpyro.deterministic("z", x)

    cluster = numpyro.sample("cluster", dist.Normal())
    cond(cluster > 0, high, low, None)


def masked_states(y, T=5):
    def step(carry, y_now):
        _, t = carry
        with numpyro.plate("N", 4, dim=-1), handlers.mask(mask=(t < T)):
            x = numpyro.sample("x", dist.Normal(jnp.zeros((4, 3)), jnp.ones((4, 3))).to_event(1))
            numpyro.sample("y", dist.Normal(x, jnp.ones((4, 3))).to_event(1), obs=y_now)
        return (x, t + 1), None

    x0 = numpyro.sample("x_0", dist.Normal(jnp.zeros((4, 3)), jnp.ones((4, 3))).to_event(1))
    scan(step, (x0, 0), y, length=T)


def ten_states(data):
    transition, means, states = 0.3 / 10 + 0.7 * jnp.eye(10), jnp.arange(10.0), [0]
    for t in range(len(data)):
        states.append(numpyro.sample(f"states_{t}", dist.Categorical(transition[states[-1]])))
        numpyro.sample(f"obs_{t}", dist.Normal(means[states[-1]], 1.0), obs=data[t])


def one_bit_over_a_plate(y):
    z = numpyro.sample("z", dist.Categorical(jnp.array([0.75, 0.25])))
    with numpyro.plate("data", 3), handlers.mask(mask=np.array([True, False, False])):
        numpyro.sample("x", dist.Normal(jnp.array([0.0, 1.0])[z], 1.0), obs=y)


def two_bits_in_a_row(y):
    p = jnp.array([[0.25, 0.75], [0.1, 0.9]])
    z1 = numpyro.sample("z1", dist.Categorical(p[0]))
    z2 = numpyro.sample("z2", dist.Categorical(p[z1]))
    with numpyro.plate("data", 3):
        numpyro.sample("x1", dist.Normal(MEANS[z1], 1.0), obs=y[0])
        numpyro.sample("x2", dist.Normal(MEANS[z2], 1.0), obs=y[1])


def bits_of_two_plates(y1, y2, scale_of_bit=False):
    p = jnp.array([0.25, 0.75])
    loc = numpyro.sample("loc", dist.Normal(0, 1).expand([2]).to_event(1))
    if scale_of_bit:
        z1 = numpyro.sample("z1", dist.Categorical(p))
        scale = numpyro.sample("scale", dist.LogNormal(jnp.array([0.0, 1.0])[z1], 1))
    else:
        scale = jnp.exp(numpyro.sample("scale", dist.Normal(0, 1)))
        z1 = numpyro.sample("z1", dist.Categorical(p))
    with numpyro.plate("data[0]", 3):
        numpyro.sample("x1", dist.Normal(loc[z1], scale), obs=y1)
    with numpyro.plate("data[1]", 2):
        z2 = numpyro.sample("z2", dist.Categorical(p))
        numpyro.sample("x2", dist.Normal(loc[z2], scale), obs=y2)


def scale_of_a_bit(y1, y2):
    bits_of_two_plates(y1, y2, scale_of_bit=True)


def parameters_of_optimisation(y):
    loc = numpyro.param("loc", jnp.array([-1.0, 1.0]))
    z = numpyro.sample("z", dist.Categorical(numpyro.param("p", jnp.array([0.25, 0.75]))))
    numpyro.sample("x", dist.Normal(loc[z], 1.0), obs=y)


def chains_in_chains():
    def outer(y, _):
        def inner(z, _):
            z = numpyro.sample("z", dist.Normal(z, 1))
            return z, z

        y = numpyro.sample("y", dist.Normal(y, 1))
        return y, scan(inner, y, None, 4)[1]

    scan(outer, numpyro.sample("x", dist.Normal(0, 1)), None, 3)


def subsampled(data):
    mean = numpyro.sample("mean", dist.Normal().expand((3,)).to_event(1))
    with numpyro.plate("batch", data.shape[0], dim=-1, subsample_size=4):
        numpyro.sample("obs", dist.Normal(mean, 1).to_event(), obs=numpyro.subsample(data, 1))


def nothing():
    pass


TEN, COUNTED = REAL[:6], {"n": 5_000_000, "x": 3849}
SHARES = array([0.15, 0.3, 0.3, 0.25])
RUN = {
    logistic: ((REAL > 0).astype(int),),
    scaled_uniform: (REAL,),
    improper_scaled_uniform: (REAL,),
    beta_bernoulli: (RNG.integers(0, 2, (12, 2)),),
    dirichlet_categorical: (RNG.integers(0, 3, 12),),
    normals_together: (),
    change_point_in_the_unit_interval: (COUNTS,),
    large_binomial: (COUNTED,),
    large_binomial_of_logits: (COUNTED,),
    improper_prior: (REAL,),
    masked_priors: (REAL,),
    location: (REAL,),
    schools: (REAL[:8], np.full(8, 1.5)),
    sample_shape: (),
    location_and_scale: (REAL,),
    first_term: (np.abs(REAL), REAL),
    second_term: (np.abs(REAL), REAL),
    both_terms: (np.abs(REAL), REAL**2, REAL),
    simplex_of_one: (),
    counted_up: (),
    regression_of_log_scale: (X, REAL),
    regression: (X, REAL),
    normals_in_two_parts: (),
    discrete_sites: (),
    discrete_site_marked: (),
    one_bit: (),
    bit_beside_a_flat_site: (),
    mixture_of_one: (SHARES, array([-2.0, 0.0, 2.0, 4.0])),
    sum_of_two: (),
    bit_and_location: (),
    bit_and_sum: (),
    sum_of_three: (),
    three_blocks: (),
    moving_support: (),
    gaussian_mixture: (REAL,),
    two_layers_of_bits: (REAL,),
    change_point: (COUNTS,),
    gaussian_hmm: (TEN,),
    looped_chain: (TEN,),
    chain_in_a_plate: (X,),
    chain_with_two_plates: (X, X[:, [0, 1, 2, 0]]),
    chain_with_bits: (X,),
    chain_under_a_bit: (TEN,),
    two_chains: (TEN,),
    chain_over_a_chain: (TEN, TEN[:-1] + 1),
    states_from_the_prior: (),
    positive_states: (),
    positive_states_in_a_loop: (),
    either_location: (),
    masked_states: (RNG.normal(size=(5, 4, 3)).astype(np.float32),),
    ten_states: (TEN,),
    one_bit_over_a_plate: (REAL[:3],),
    two_bits_in_a_row: (X.T[:2, :3],),
    bits_of_two_plates: (REAL[:3], REAL[3:5]),
    scale_of_a_bit: (REAL[:3], REAL[3:5]),
}

REFUSED = {
    parameters_of_optimisation: ((REAL,), "param"),
    chains_in_chains: ((), "nested scan"),
    nothing: ((), "nothing to infer"),
    subsampled: ((X,), "subsample"),
}
"""With what the refusal says; of nested scans it is NumPyro's own."""
