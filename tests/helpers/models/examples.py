"""Models as NumPyro's own examples and users write them, small: functions with their arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax
from jax.scipy.special import logsumexp
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer.reparam import LocScaleReparam, TransformReparam

from helpers.startup.arrays import array, key

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=12).astype(np.float32)
COVARIATES = RNG.normal(size=(12, 3)).astype(np.float32)
BINARY = (REAL > 0).astype(int)
COUNTS = RNG.poisson(3.0, 12)
GROUP = np.repeat(np.arange(4), 3)
ITEMS = np.tile(np.arange(3), 4)
LABELS = RNG.integers(0, 3, (6, 4))


def eight_schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", len(sigma)):
        with handlers.reparam(config={"theta": TransformReparam()}):
            theta = numpyro.sample(
                "theta", dist.TransformedDistribution(dist.Normal(0.0, 1.0), AffineTransform(mu, tau))
            )
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def baseball(at_bats, hits=None):
    m = numpyro.sample("m", dist.Uniform(0, 1))
    kappa = numpyro.sample("kappa", dist.Pareto(1, 1.5))
    with numpyro.plate("num_players", at_bats.shape[0]):
        phi = numpyro.sample("phi", dist.Beta(m * kappa, (1 - m) * kappa))
        numpyro.sample("obs", dist.Binomial(at_bats, probs=phi), obs=hits)


def bnn(x, y=None, hidden=2):
    with numpyro.plate("l1", hidden, dim=-1), numpyro.plate("i", x.shape[1], dim=-2):
        w1 = numpyro.sample("w1", dist.Normal(0, 1))
    w2 = numpyro.sample("w2", dist.Normal(jnp.zeros((hidden, 1)), jnp.ones((hidden, 1))))
    z = jnp.tanh(jnp.matmul(x, w1)) @ w2
    precision = numpyro.sample("prec_obs", dist.Gamma(3.0, 1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("Y", dist.Normal(z, 1.0 / jnp.sqrt(precision)).to_event(1), obs=y)


def covtype(data, labels):
    coefs = numpyro.sample("coefs", dist.Normal(jnp.zeros(data.shape[-1]), jnp.ones(data.shape[-1])))
    with numpyro.plate("N", len(data)):
        return numpyro.sample("obs", dist.Bernoulli(logits=jnp.dot(data, coefs)), obs=labels)


def funnel(dim=4):
    y = numpyro.sample("y", dist.Normal(0, 3))
    numpyro.sample("x", dist.Normal(jnp.zeros(dim - 1), jnp.exp(y / 2)))


def gp(X, Y):
    var = numpyro.sample("kernel_var", dist.LogNormal(0.0, 10.0))
    noise = numpyro.sample("kernel_noise", dist.LogNormal(0.0, 10.0))
    length = numpyro.sample("kernel_length", dist.LogNormal(0.0, 10.0))
    k = var * jnp.exp(-0.5 * jnp.power((X[:, None] - X) / length, 2.0)) + (noise + 1e-6) * jnp.eye(len(X))
    numpyro.sample("Y", dist.MultivariateNormal(loc=jnp.zeros(X.shape[0]), covariance_matrix=k), obs=Y)


def hmm_supervised(categories, words):
    transition = numpyro.sample("transition_prob", dist.Dirichlet(jnp.ones((3, 3))))
    emission = numpyro.sample("emission_prob", dist.Dirichlet(jnp.ones((3, 4))))
    numpyro.sample("supervised_categories", dist.Categorical(transition[categories[:-1]]), obs=categories[1:])
    numpyro.sample("supervised_words", dist.Categorical(emission[categories]), obs=words)


def forward_log_prob(words, transition, emission):
    def step(prob, word):
        return logsumexp(prob[:, None] + jnp.log(transition) + jnp.log(emission[:, word]), axis=0), None

    return lax.scan(step, jnp.log(emission[:, words[0]]), words[1:])[0]


def hmm_semi_supervised(categories, words, unlabelled):
    transition = numpyro.sample("transition_prob", dist.Dirichlet(jnp.ones((3, 3))))
    emission = numpyro.sample("emission_prob", dist.Dirichlet(jnp.ones((3, 4))))
    numpyro.sample("supervised_categories", dist.Categorical(transition[categories[:-1]]), obs=categories[1:])
    numpyro.factor("forward", logsumexp(forward_log_prob(unlabelled, transition, emission)))


def hmm_enum(sequences, lengths, args=None):
    n, _, data_dim = sequences.shape
    probs_x = numpyro.sample("probs_x", dist.Dirichlet(0.9 * jnp.eye(3) + 0.1).to_event(1))
    probs_y = numpyro.sample("probs_y", dist.Beta(0.1, 0.9).expand([3, data_dim]).to_event(2))

    def transition_fn(carry, y):
        x_prev, t = carry
        with numpyro.plate("sequences", n, dim=-2), handlers.mask(mask=(t < lengths)[..., None]):
            x = numpyro.sample("x", dist.Categorical(probs_x[x_prev]), infer={"enumerate": "parallel"})
            with numpyro.plate("tones", data_dim, dim=-1):
                numpyro.sample("y", dist.Bernoulli(probs_y[x.squeeze(-1)]), obs=y)
        return (x, t + 1), None

    scan(transition_fn, (jnp.zeros((n, 1), dtype=jnp.int32), 0), jnp.swapaxes(sequences, 0, 1))


def lotka_volterra(n, y=None):
    z0 = numpyro.sample("z_init", dist.LogNormal(jnp.log(10), 1).expand([2]))
    theta = numpyro.sample(
        "theta", dist.TruncatedNormal(low=0.0, loc=jnp.array([1.0, 0.05, 1.0, 0.05]), scale=0.2)
    )

    def euler(z, _):
        dz = jnp.stack([theta[0] * z[0] - theta[1] * z[0] * z[1], theta[3] * z[0] * z[1] - theta[2] * z[1]])
        return z + 0.01 * dz, z

    z = lax.scan(euler, z0, None, length=n)[1]
    sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]))
    numpyro.sample("y", dist.LogNormal(jnp.log(z), sigma), obs=y)


def stochastic_volatility(returns):
    step_size = numpyro.sample("sigma", dist.Exponential(50.0))
    s = numpyro.sample("s", dist.GaussianRandomWalk(scale=step_size, num_steps=jnp.shape(returns)[0]))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    return numpyro.sample("r", dist.StudentT(df=nu, loc=0.0, scale=jnp.exp(s)), obs=returns)


def ucbadmit(dept, male, applications, admit=None):
    v_mu = numpyro.sample("v_mu", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
    sigma = numpyro.sample("sigma", dist.HalfNormal(scale=jnp.ones(2)))
    L_Rho = numpyro.sample("L_Rho", dist.LKJCholesky(2, concentration=2))
    L = jnp.einsum("...i,...ij->...ij", sigma, L_Rho)
    z = numpyro.sample("z", dist.Normal(jnp.zeros((4, 2)), 1).to_event(2))
    v = numpyro.deterministic("v", jnp.dot(L, z.T).T)
    logits = v_mu[0] + v[dept, 0] + (v_mu[1] + v[dept, 1]) * male
    numpyro.sample("admit", dist.Binomial(applications, logits=logits), obs=admit)


def capture_recapture(history, sex):
    n = history.shape[0]
    phi_male = numpyro.sample("phi_male", dist.Uniform(0.0, 1.0))
    rho = numpyro.sample("rho", dist.Uniform(0.0, 1.0))

    def transition_fn(carry, y):
        first, z = carry
        with numpyro.plate("animals", n, dim=-1), handlers.mask(mask=first):
            z = numpyro.sample("z", dist.Bernoulli(phi_male * sex * z + (1 - sex) * 0.6 * z))
            numpyro.sample("y", dist.Bernoulli(rho * z), obs=y)
        return (first | y.astype(bool), z), None

    scan(
        transition_fn,
        (history[:, 0].astype(bool), jnp.ones(n, dtype=jnp.int32)),
        jnp.swapaxes(history[:, 1:], 0, 1),
    )


def multinomial_annotators(annotations):
    num_classes = 3
    with numpyro.plate("class", num_classes):
        zeta = numpyro.sample("zeta", dist.Dirichlet(jnp.ones(num_classes)))
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(num_classes)))
    with numpyro.plate("item", annotations.shape[0], dim=-2):
        c = numpyro.sample("c", dist.Categorical(pi), infer={"enumerate": "parallel"})
        with numpyro.plate("position", annotations.shape[1]):
            numpyro.sample("y", dist.Categorical(zeta[c]), obs=annotations)


def dawid_skene(positions, annotations):
    num_annotators, num_classes = 4, 3
    with numpyro.plate("annotator", num_annotators, dim=-2), numpyro.plate("class", num_classes):
        beta = numpyro.sample("beta", dist.Dirichlet(jnp.ones(num_classes)))
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(num_classes)))
    with numpyro.plate("item", annotations.shape[0], dim=-2):
        c = numpyro.sample("c", dist.Categorical(pi), infer={"enumerate": "parallel"})
        with numpyro.plate("position", annotations.shape[1]):
            numpyro.sample("y", dist.Categorical(beta[positions, c, :]), obs=annotations)


def horseshoe(X, Y):
    lambdas = numpyro.sample("lambdas", dist.HalfCauchy(jnp.ones(X.shape[1])))
    tau = numpyro.sample("tau", dist.HalfCauchy(jnp.ones(1)))
    betas = numpyro.sample("unscaled_betas", dist.Normal(0.0, jnp.ones(X.shape[1])))
    scaled = numpyro.deterministic("betas", tau * lambdas * betas)
    prec = numpyro.sample("prec_obs", dist.Gamma(3.0, 1.0))
    numpyro.sample("Y", dist.Normal(jnp.dot(X, scaled), 1.0 / jnp.sqrt(prec)), obs=Y)


def mortality(group, item, population, deaths):
    alpha = numpyro.sample("alpha", dist.Normal(0.0, 10.0))
    sigma = numpyro.sample("sigma_alpha", dist.HalfNormal(1.0))
    with numpyro.plate("groups", 4), handlers.reparam(config={"effect": LocScaleReparam(0.0)}):
        effect = numpyro.sample("effect", dist.Normal(0.0, sigma))
    with numpyro.plate("N", len(group)):
        mu = numpyro.deterministic("mu", jax.nn.sigmoid(alpha + effect[group] + 0.1 * item))
        numpyro.sample("deaths", dist.Binomial(population, mu), obs=deaths)


def ar2(y):
    a1 = numpyro.sample("alpha_1", dist.Normal(0, 1))
    a2 = numpyro.sample("alpha_2", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))

    def transition(carry, _):
        y1, y2 = carry
        m = numpyro.sample("y", dist.Normal(a1 * y1 + a2 * y2, sigma))
        return (m, y1), m

    with handlers.condition(data={"y": y[2:]}):
        scan(transition, (y[1], y[0]), None, length=len(y) - 2)


def holt_winters(y, n_season=3):
    level = numpyro.sample("level_smoothing", dist.Beta(1, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    init = numpyro.sample("level_init", dist.Normal(0, 1))

    def transition(carry, y_t):
        now = level * y_t + (1 - level) * carry
        numpyro.sample("y", dist.Normal(carry, noise), obs=y_t)
        return now, now

    scan(transition, init, y)


def mixture_marginal(x):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("components", 2):
        locs = numpyro.sample("locs", dist.Normal(0.0, 10.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 2.0))
    with numpyro.plate("data", len(x)):
        assignment = numpyro.sample("assignment", dist.Categorical(weights), infer={"enumerate": "parallel"})
        numpyro.sample("obs", dist.Normal(locs[assignment], scale), obs=x)


def zero_inflated(X, Y):
    b1 = numpyro.sample("b1", dist.Normal(jnp.zeros(X.shape[1]), 1))
    b2 = numpyro.sample("b2", dist.Normal(jnp.zeros(X.shape[1]), 1))
    with numpyro.plate("obs", X.shape[0]):
        rate = jnp.clip(jnp.exp(X @ b1), max=1e4)
        numpyro.sample("Y", dist.ZeroInflatedDistribution(dist.Poisson(rate), gate_logits=X @ b2), obs=Y)


def ordinal(X, Y):
    b = numpyro.sample("b", dist.Normal(0, 1))
    c = numpyro.sample(
        "c_y",
        dist.TransformedDistribution(
            dist.Dirichlet(jnp.ones(3)), dist.transforms.SimplexToOrderedTransform(b)
        ),
    )
    with numpyro.plate("obs", X.shape[0]):
        numpyro.sample("Y", dist.OrderedLogistic(X[:, 0] * b, c), obs=Y)


def censored(observed, y):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("n", len(y)):
        with handlers.mask(mask=observed):
            numpyro.sample("y", dist.LogNormal(b, 1.0), obs=y)
        with handlers.mask(mask=~observed):
            numpyro.sample(
                "censored", dist.Bernoulli(1 - dist.LogNormal(b, 1.0).cdf(y)), obs=jnp.ones(len(y))
            )


def imputed(x, y):
    mu, sigma = numpyro.sample("mu", dist.Normal(0, 1)), numpyro.sample("sigma", dist.HalfNormal(1))
    missing = np.isnan(x)
    latent = numpyro.sample("x_missing", dist.Normal(mu, sigma).expand([int(missing.sum())]).mask(False))
    whole = jnp.asarray(x).at[np.nonzero(missing)[0]].set(latent)
    numpyro.sample("x", dist.Normal(mu, sigma), obs=whole)
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(b * whole, 1.0), obs=y)


def lda(doc, words):
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones((4, 2))).to_event(0))
    phi = numpyro.sample("phi", dist.Dirichlet(jnp.ones((2, 5))))
    with numpyro.plate("words", len(words)):
        topic = numpyro.sample("topic", dist.Categorical(theta[doc]))
        numpyro.sample("word", dist.Categorical(phi[topic]), obs=words)


def coal(counts):
    early, late = (numpyro.sample(n, dist.Exponential(1.0)) for n in ("early", "late"))
    switch = numpyro.sample("switch", dist.DiscreteUniform(0, len(counts) - 1))
    rate = jnp.where(jnp.arange(len(counts)) < switch, early, late)
    with numpyro.plate("years", len(counts)):
        numpyro.sample("counts", dist.Poisson(rate), obs=counts)


MISSING = np.where(np.arange(12) % 4 == 1, np.nan, REAL).astype(np.float32)
EXAMPLES = {
    eight_schools: (np.full(8, 10.0), np.arange(8.0)),
    baseball: (np.full(6, 45), np.arange(10, 16)),
    bnn: (COVARIATES, REAL[:, None]),
    covtype: (COVARIATES, BINARY),
    funnel: (),
    gp: (np.linspace(-1, 1, 12), REAL),
    hmm_supervised: (ITEMS, COUNTS % 4),
    hmm_semi_supervised: (ITEMS, COUNTS % 4, COUNTS % 3),
    hmm_enum: (RNG.integers(0, 2, (2, 5, 3)), np.array([5, 3])),
    lotka_volterra: (6, np.exp(RNG.normal(2, 0.1, (6, 2)))),
    stochastic_volatility: (0.1 * REAL,),
    ucbadmit: (GROUP, BINARY, np.full(12, 20), COUNTS),
    capture_recapture: (RNG.integers(0, 2, (5, 4)), np.array([1.0, 0, 1, 0, 1])),
    multinomial_annotators: (LABELS,),
    dawid_skene: (np.tile(np.arange(4), (6, 1)), LABELS),
    horseshoe: (COVARIATES, REAL),
    mortality: (GROUP, ITEMS, np.full(12, 30), COUNTS),
    ar2: (array(REAL),),
    holt_winters: (REAL,),
    mixture_marginal: (REAL,),
    zero_inflated: (COVARIATES, COUNTS),
    ordinal: (COVARIATES, ITEMS),
    censored: (BINARY.astype(bool), np.exp(REAL)),
    imputed: (MISSING, REAL),
    lda: (GROUP, COUNTS % 5),
    coal: (COUNTS,),
}
KEY = key(1)
