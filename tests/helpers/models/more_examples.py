"""More models in the manner of NumPyro's examples: other annotators, seasons, marked animals, sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.contrib.hsgp.approximation import hsgp_squared_exponential
from numpyro.distributions import constraints
from numpyro.distributions.transforms import OrderedTransform
from numpyro.infer.reparam import LocScaleReparam

from helpers.models.examples import BINARY, COUNTS, COVARIATES, GROUP, LABELS, REAL

RNG = np.random.default_rng(5)
POSITIONS = np.tile(np.arange(4), (6, 1))
HISTORY = (RNG.uniform(size=(5, 4)) < 0.6).astype(int)
SEQUENCES, LENGTHS = RNG.integers(0, 2, (2, 5, 3)), np.array([5, 3])
PER_PLAYER = np.full(6, 45), np.arange(10, 16)


def item_difficulty(annotations):
    k = annotations.max() + 1
    with numpyro.plate("class", k):
        eta = numpyro.sample("eta", dist.Normal(0, 1).expand([k - 1]).to_event(1))
        chi = numpyro.sample("chi", dist.HalfNormal(0.5).expand([k - 1]).to_event(1))
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(k)))
    with numpyro.plate("item", annotations.shape[0], dim=-2):
        c = numpyro.sample("c", dist.Categorical(pi), infer={"enumerate": "parallel"})
        with handlers.reparam(config={"theta": LocScaleReparam(0)}):
            theta = numpyro.sample("theta", dist.Normal(eta[c], chi[c]).to_event(1))
            theta = jnp.pad(theta, [(0, 0)] * (theta.ndim - 1) + [(0, 1)])
        with numpyro.plate("position", annotations.shape[-1]):
            numpyro.sample("y", dist.Categorical(logits=theta), obs=annotations)


def hierarchical_dawid_skene(positions, annotations):
    annotators, k = int(np.max(positions)) + 1, int(np.max(annotations)) + 1
    with numpyro.plate("class", k):
        zeta = numpyro.sample("zeta", dist.Normal(0, 1).expand([k - 1]).to_event(1))
        omega = numpyro.sample("Omega", dist.HalfNormal(1).expand([k - 1]).to_event(1))
    classes = numpyro.plate("class", k), handlers.reparam(config={"beta": LocScaleReparam(0)})
    with numpyro.plate("annotator", annotators, dim=-2), classes[0], classes[1]:
        beta = numpyro.sample("beta", dist.Normal(zeta, omega).to_event(1))
        beta = jnp.pad(beta, [(0, 0)] * (jnp.ndim(beta) - 1) + [(0, 1)])
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(k)))
    with numpyro.plate("item", annotations.shape[0], dim=-2):
        c = numpyro.sample("c", dist.Categorical(pi), infer={"enumerate": "parallel"})
        with numpyro.plate("position", annotations.shape[-1]):
            numpyro.sample("y", dist.Categorical(logits=beta[positions, c, :]), obs=annotations)


def mace(positions, annotations):
    annotators, k = int(np.max(positions)) + 1, int(np.max(annotations)) + 1
    with numpyro.plate("annotator", annotators):
        epsilon = numpyro.sample("epsilon", dist.Dirichlet(jnp.full(k, 10)))
        theta = numpyro.sample("theta", dist.Beta(0.5, 0.5))
    with numpyro.plate("item", annotations.shape[0], dim=-2):
        c = numpyro.sample("c", dist.DiscreteUniform(0, k - 1), infer={"enumerate": "parallel"})
        with numpyro.plate("position", annotations.shape[-1]):
            s = numpyro.sample("s", dist.Bernoulli(1 - theta[positions]), infer={"enumerate": "parallel"})
            probs = jnp.where(s[..., None] == 0, jax.nn.one_hot(c, k), epsilon[positions])
            numpyro.sample("y", dist.Categorical(probs), obs=annotations)


def logistic_random_effects(positions, annotations):
    annotators, k = int(np.max(positions)) + 1, int(np.max(annotations)) + 1
    with numpyro.plate("class", k):
        zeta = numpyro.sample("zeta", dist.Normal(0, 1).expand([k - 1]).to_event(1))
        omega = numpyro.sample("Omega", dist.HalfNormal(1).expand([k - 1]).to_event(1))
        chi = numpyro.sample("chi", dist.HalfNormal(1).expand([k - 1]).to_event(1))
    classes = numpyro.plate("class", k), handlers.reparam(config={"beta": LocScaleReparam(0)})
    with numpyro.plate("annotator", annotators, dim=-2), classes[0], classes[1]:
        beta = numpyro.sample("beta", dist.Normal(zeta, omega).to_event(1))
        beta = jnp.pad(beta, [(0, 0)] * (jnp.ndim(beta) - 1) + [(0, 1)])
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(k)))
    with numpyro.plate("item", annotations.shape[0], dim=-2):
        c = numpyro.sample("c", dist.Categorical(pi), infer={"enumerate": "parallel"})
        with handlers.reparam(config={"theta": LocScaleReparam(0)}):
            theta = numpyro.sample("theta", dist.Normal(0, chi[c]).to_event(1))
            theta = jnp.pad(theta, [(0, 0)] * (jnp.ndim(theta) - 1) + [(0, 1)])
        with numpyro.plate("position", annotations.shape[-1]):
            numpyro.sample("y", dist.Categorical(logits=beta[positions, c, :] - theta), obs=annotations)


def fully_pooled(at_bats, hits):
    phi = numpyro.sample("phi", dist.Uniform(0, 1))
    with numpyro.plate("num_players", len(at_bats)):
        numpyro.sample("obs", dist.Binomial(at_bats, probs=phi), obs=hits)


def not_pooled(at_bats, hits):
    with numpyro.plate("num_players", len(at_bats)):
        phi = numpyro.sample("phi", dist.Uniform(0, 1))
        numpyro.sample("obs", dist.Binomial(at_bats, probs=phi), obs=hits)


def partially_pooled_with_logit(at_bats, hits):
    loc = numpyro.sample("loc", dist.Normal(-1, 1))
    scale = numpyro.sample("scale", dist.HalfCauchy(1))
    with numpyro.plate("num_players", len(at_bats)):
        alpha = numpyro.sample("alpha", dist.Normal(loc, scale))
        numpyro.sample("obs", dist.Binomial(at_bats, logits=alpha), obs=hits)


def _marked(history, survival, recapture):
    """A capture history given what survives a step and is recaught, functions called inside it."""
    n = len(history)

    def step(carry, y):
        first, z = carry
        phi, rho = survival(), recapture()
        with numpyro.plate("animals", n, dim=-1), handlers.mask(mask=first):
            alive = dist.util.clamp_probs(first * phi * z + (1 - first))
            z = numpyro.sample("z", dist.Bernoulli(alive), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Bernoulli(dist.util.clamp_probs(rho * z)), obs=y)
        return (first | y.astype(bool), z), None

    start = history[:, 0].astype(bool), jnp.ones(n, jnp.int32)
    scan(step, start, jnp.swapaxes(history[:, 1:], 0, 1))


def cjs_constant(history):
    phi = numpyro.sample("phi", dist.Uniform(0.0, 1.0))
    rho = numpyro.sample("rho", dist.Uniform(0.0, 1.0))
    _marked(history, lambda: phi, lambda: rho)


def cjs_times(history):
    rho = numpyro.sample("rho", dist.Uniform(0.0, 1.0))
    _marked(history, lambda: numpyro.sample("phi", dist.Uniform(0.0, 1.0)), lambda: rho)


def cjs_random_times(history):
    mean = jax.scipy.special.logit(numpyro.sample("phi_mean", dist.Uniform(0.0, 1.0)))
    sigma = numpyro.sample("phi_sigma", dist.Uniform(0.0, 10.0))
    rho = numpyro.sample("rho", dist.Uniform(0.0, 1.0))

    def survival():
        with handlers.reparam(config={"phi_logit": LocScaleReparam(0)}):
            return jax.nn.sigmoid(numpyro.sample("phi_logit", dist.Normal(mean, sigma)))

    _marked(history, survival, lambda: rho)


def cjs_individuals(history):
    mean = jax.scipy.special.logit(numpyro.sample("phi_mean", dist.Uniform(0.0, 1.0)))
    sigma = numpyro.sample("phi_sigma", dist.Uniform(0.0, 10.0))
    rho = numpyro.sample("rho", dist.Uniform(0.0, 1.0))
    with numpyro.plate("animals", len(history), dim=-1):
        logits = numpyro.sample("phi_logit", dist.Normal(mean, sigma))
    _marked(history, lambda: jax.nn.sigmoid(logits), lambda: rho)


def hmm_autoregressive(sequences, lengths):
    n, _, width = sequences.shape
    probs_x = numpyro.sample("probs_x", dist.Dirichlet(0.9 * jnp.eye(3) + 0.1).to_event(1))
    probs_y = numpyro.sample("probs_y", dist.Beta(0.1, 0.9).expand([3, 2, width]).to_event(3))

    def transition(carry, y):
        x, y_prev, t = carry
        with numpyro.plate("sequences", n, dim=-2), handlers.mask(mask=(t < lengths)[..., None]):
            x = numpyro.sample("x", dist.Categorical(probs_x[x]), infer={"enumerate": "parallel"})
            with numpyro.plate("tones", width, dim=-1) as tones:
                y = numpyro.sample("y", dist.Bernoulli(probs_y[x, y_prev, tones]), obs=y)
        return (x, y, t + 1), None

    start = jnp.zeros((n, 1), jnp.int32), jnp.zeros((n, width), jnp.int32), 0
    scan(transition, start, jnp.swapaxes(sequences, 0, 1))


def hmm_two_chains(sequences, lengths):
    n, _, width = sequences.shape
    probs_w = numpyro.sample("probs_w", dist.Dirichlet(0.9 * jnp.eye(2) + 0.1).to_event(1))
    probs_x = numpyro.sample("probs_x", dist.Dirichlet(0.9 * jnp.eye(2) + 0.1).to_event(1))
    probs_y = numpyro.sample("probs_y", dist.Beta(0.1, 0.9).expand([2, 2, width]).to_event(3))

    def transition(carry, y):
        w, x, t = carry
        with numpyro.plate("sequences", n, dim=-2), handlers.mask(mask=(t < lengths)[..., None]):
            w = numpyro.sample("w", dist.Categorical(probs_w[w]), infer={"enumerate": "parallel"})
            x = numpyro.sample("x", dist.Categorical(probs_x[x]), infer={"enumerate": "parallel"})
            with numpyro.plate("tones", width, dim=-1) as tones:
                numpyro.sample("y", dist.Bernoulli(probs_y[w, x, tones]), obs=y)
        return (w, x, t + 1), None

    zeros = jnp.zeros((n, 1), jnp.int32)
    scan(transition, (zeros, zeros, 0), jnp.swapaxes(sequences, 0, 1))


def hmm_driven(sequences, lengths):
    n, _, width = sequences.shape
    probs_w = numpyro.sample("probs_w", dist.Dirichlet(0.9 * jnp.eye(2) + 0.1).to_event(1))
    probs_x = numpyro.sample("probs_x", dist.Dirichlet(jnp.full((2, 2, 2), 0.7)).to_event(2))
    probs_y = numpyro.sample("probs_y", dist.Beta(0.1, 0.9).expand([2, 2, width]).to_event(3))

    def transition(carry, y):
        w, x, t = carry
        with numpyro.plate("sequences", n, dim=-2), handlers.mask(mask=(t < lengths)[..., None]):
            w = numpyro.sample("w", dist.Categorical(probs_w[w]), infer={"enumerate": "parallel"})
            x = numpyro.sample("x", dist.Categorical(probs_x[w, x]), infer={"enumerate": "parallel"})
            with numpyro.plate("tones", width, dim=-1) as tones:
                numpyro.sample("y", dist.Bernoulli(probs_y[w, x, tones]), obs=y)
        return (w, x, t + 1), None

    zeros = jnp.zeros((n, 1), jnp.int32)
    scan(transition, (zeros, zeros, 0), jnp.swapaxes(sequences, 0, 1))


def hmm_second_order(sequences, lengths):
    n, _, width = sequences.shape
    probs_x = numpyro.sample("probs_x", dist.Dirichlet(jnp.full((2, 2, 2), 0.5)).to_event(2))
    probs_y = numpyro.sample("probs_y", dist.Beta(0.1, 0.9).expand([2, width]).to_event(2))

    def transition(carry, y):
        before, last, t = carry
        with numpyro.plate("sequences", n, dim=-2), handlers.mask(mask=(t < lengths)[..., None]):
            probs = probs_x[before, last]
            x = numpyro.sample("x", dist.Categorical(probs), infer={"enumerate": "parallel"})
            with numpyro.plate("tones", width, dim=-1):
                numpyro.sample("y", dist.Bernoulli(probs_y[x.squeeze(-1)]), obs=y)
        return (last, x, t + 1), None

    zeros = jnp.zeros((n, 1), jnp.int32)
    scan(transition, (zeros, zeros, 0), jnp.swapaxes(sequences, 0, 1))


def gaussian_shells():
    def shell(x, centre):
        return dist.Normal(2.0, 0.1).log_prob(jnp.sqrt(jnp.sum((x - centre) ** 2)))

    x = numpyro.sample("x", dist.Uniform(-6.0, 6.0).expand([2]).to_event(1))
    centres = jnp.array([[-3.5, 0.0], [3.5, 0.0]])
    numpyro.factor("shells", logsumexp(jnp.stack([shell(x, c) for c in centres])))


class TwoMoons(dist.Distribution):
    """The density of NumPyro's example of neural transport."""

    support = constraints.real_vector

    def __init__(self):
        super().__init__(event_shape=(2,))

    def sample(self, key, sample_shape=()):
        return jax.random.normal(key, (*sample_shape, 2))

    def log_prob(self, x):
        term1 = 0.5 * ((jnp.linalg.norm(x, axis=-1) - 2) / 0.4) ** 2
        term2 = -0.5 * ((x[..., :1] + jnp.array([-2.0, 2.0])) / 0.6) ** 2
        return logsumexp(term2, axis=-1) - term1


def two_moons():
    numpyro.sample("x", TwoMoons())


def proportions(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 1.0))
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("obs", dist.Bernoulli(logits=intercept + x @ beta).to_event(1), obs=y)


def sparse_regression(x, y):
    n, p = x.shape
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    phi = sigma * (2.0 / np.sqrt(n)) / (p - 2.0 + 1e-3)
    eta1 = numpyro.sample("eta1", dist.HalfCauchy(phi))
    msq = numpyro.sample("msq", dist.InverseGamma(2.0, 1.0))
    xisq = numpyro.sample("xisq", dist.InverseGamma(2.0, 1.0))
    lam = numpyro.sample("lambda", dist.HalfCauchy(jnp.ones(p)))
    kappa = jnp.sqrt(msq) * lam / jnp.sqrt(msq + (eta1 * lam) ** 2)
    kx = kappa * x
    eta2 = jnp.square(eta1) * jnp.sqrt(xisq) / msq
    gram = kx @ kx.T
    k = 0.5 * eta2**2 * (1.0 + gram) ** 2 - 0.5 * eta2**2 * (kx**2) @ (kx**2).T
    k += (eta1**2 - eta2**2) * gram + jnp.eye(n) * sigma**2 + 1.0
    numpyro.sample("Y", dist.MultivariateNormal(jnp.zeros(n), covariance_matrix=k), obs=y)


def torus_mixture(angles):
    weights = numpyro.sample("mix_weights", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("mixture", 2):
        loc = numpyro.sample("loc", dist.VonMises(0.0, 0.5).expand([2]).to_event(1))
        conc = numpyro.sample("conc", dist.Gamma(5.0, 1.0).expand([2]).to_event(1))
    with numpyro.plate("n", len(angles)):
        z = numpyro.sample("z", dist.Categorical(weights), infer={"enumerate": "parallel"})
        numpyro.sample("phi", dist.VonMises(loc[z, 0], conc[z, 0]), obs=angles[:, 0])
        numpyro.sample("psi", dist.VonMises(loc[z, 1], conc[z, 1]), obs=angles[:, 1])


def reparameterised_funnel(dim=4):
    y = numpyro.sample("y", dist.Normal(0, 3))
    with handlers.reparam(config={"x": LocScaleReparam(0)}):
        numpyro.sample("x", dist.Normal(jnp.zeros(dim - 1), jnp.exp(y / 2)))


def seasonal_global_trend(y, season=2):
    level_sm = numpyro.sample("level_sm", dist.Beta(1, 2))
    s_sm = numpyro.sample("s_sm", dist.Uniform(0, 1))
    init_s = numpyro.sample("init_s", dist.Cauchy(0, y[:season] * 0.3))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(0.3))
    coef = numpyro.sample("coef_trend", dist.Cauchy(0, 0.3))
    power = numpyro.sample("pow_trend", dist.Beta(1, 1))

    def step(carry, value):
        level, s = carry
        mean = (level + coef * level**power) * s[0]
        observed = numpyro.sample("y", dist.StudentT(5.0, mean, sigma), obs=value)
        new_level = level_sm * observed / s[0] + (1 - level_sm) * level
        new_s = s_sm * observed / new_level + (1 - s_sm) * s[0]
        return (new_level, jnp.concatenate([s[1:], new_s[None]])), None

    scan(step, (y[0], jnp.exp(init_s)), y)


def toy_mixture(data):
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
    free = dist.Normal(0, 3).expand([3]).to_event(1)
    locs = numpyro.sample("locs", dist.TransformedDistribution(free, OrderedTransform()))
    with numpyro.plate("data", len(data)):
        x = numpyro.sample("x", dist.Categorical(p), infer={"enumerate": "parallel"})
        numpyro.sample("obs", dist.Normal(locs[x], 0.5), obs=data)


def hilbert_gaussian_process(x, y):
    alpha = numpyro.sample("alpha", dist.InverseGamma(concentration=12, rate=10))
    length = numpyro.sample("length", dist.InverseGamma(concentration=6, rate=6))
    noise = numpyro.sample("noise", dist.InverseGamma(concentration=12, rate=10))
    f = hsgp_squared_exponential(x=x, alpha=alpha, length=length, ell=1.3, m=4)
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(f, noise), obs=y)


def mixed_membership_counts(dept, male, applications, admit):
    v_mu = numpyro.sample("v_mu", dist.MultivariateNormal(0, jnp.eye(2)))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1).expand([2]).to_event(1))
    rho = numpyro.sample("L_Rho", dist.LKJCholesky(2, concentration=2))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([2, 4]).to_event(2))
    v = jnp.dot(sigma[..., None] * rho, z).T
    logits = v_mu[0] + v[dept, 0] + (v_mu[1] + v[dept, 1]) * male
    numpyro.sample("admit", dist.Binomial(applications, logits=logits), obs=admit)


ANGLES = RNG.uniform(-3, 3, (8, 2)).astype(np.float32)
MORE = {
    item_difficulty: (LABELS,),
    hierarchical_dawid_skene: (POSITIONS, LABELS),
    mace: (POSITIONS, LABELS),
    logistic_random_effects: (POSITIONS, LABELS),
    fully_pooled: PER_PLAYER,
    not_pooled: PER_PLAYER,
    partially_pooled_with_logit: PER_PLAYER,
    cjs_constant: (HISTORY,),
    cjs_times: (HISTORY,),
    cjs_random_times: (HISTORY,),
    cjs_individuals: (HISTORY,),
    hmm_autoregressive: (SEQUENCES, LENGTHS),
    hmm_two_chains: (SEQUENCES, LENGTHS),
    hmm_driven: (SEQUENCES, LENGTHS),
    hmm_second_order: (SEQUENCES, LENGTHS),
    gaussian_shells: (),
    two_moons: (),
    proportions: (COVARIATES, BINARY),
    sparse_regression: (COVARIATES, REAL),
    torus_mixture: (ANGLES,),
    reparameterised_funnel: (),
    seasonal_global_trend: (np.exp(0.2 * REAL),),
    toy_mixture: (REAL,),
    hilbert_gaussian_process: (np.linspace(-1, 1, 12), REAL),
    mixed_membership_counts: (GROUP, BINARY, np.full(12, 20), COUNTS),
}
