"""Conjugate models of multivariate Normals and positive definite matrices, with natural parameters."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

RNG = np.random.default_rng(2)
Y = RNG.normal(size=(5, 2))
Z = np.array([0, 1, 1, 1, 0])
S = np.array([[2.0, 0.3], [0.3, 1.0]])
M = np.array([0.3, -1.0])


def data(y=Y):
    return jnp.asarray(np.array(y))


def multivariate_mean():
    m = numpyro.sample("m", dist.MultivariateNormal(data(M), data(S)))
    with numpyro.plate("n", len(Y)):
        numpyro.sample("y", dist.MultivariateNormal(m, precision_matrix=data(3 * S)), obs=data())


def low_rank_prior_of_a_mean():
    factor = jnp.asarray(np.array([[1.0], [0.5]]))
    m = numpyro.sample("m", dist.LowRankMultivariateNormal(data(M), factor, jnp.ones(2)))
    with numpyro.plate("n", len(Y)):
        numpyro.sample("y", dist.MultivariateNormal(m, scale_tril=data(np.diag([0.5, 2.0]))), obs=data())


def wishart_precision():
    om = numpyro.sample("om", dist.Wishart(5.0, data(S)))
    with numpyro.plate("n", len(Y)):
        numpyro.sample("y", dist.MultivariateNormal(data(M), precision_matrix=om), obs=data())


def wishart_precisions_of_components():
    with numpyro.plate("k", 2):
        om = numpyro.sample("om", dist.Wishart(5.0, rate_matrix=data(S)))
    with numpyro.plate("n", len(Y)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5])))
        numpyro.sample("y", dist.MultivariateNormal(data(M), precision_matrix=om[z]), obs=data())


def wishart_in_a_quadratic_form():
    om = numpyro.sample("om", dist.Wishart(5.0, scale_tril=jnp.linalg.cholesky(data(S))))
    d = data(Y - M)
    numpyro.factor("f", -0.5 * jnp.einsum("ni,ij,nj->n", d, om, d))


def inverse_wishart_covariance():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, data(S)))
    with numpyro.plate("n", len(Y)):
        numpyro.sample("y", dist.MultivariateNormal(data(M), cov), obs=data())


def inverse_wishart_by_its_rate():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, rate_matrix=data(S)))
    tril = jnp.linalg.cholesky(cov)
    with numpyro.plate("n", len(Y)):
        numpyro.sample("y", dist.MultivariateNormal(data(M), scale_tril=tril), obs=data())


def multiples_of_a_covariance():
    """Of one that numbers multiply before it is factored and after, and of one that is known for each row."""
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, data(S)))
    numpyro.sample("a", dist.MultivariateNormal(data(M), cov / 4), obs=data(Y[0]))
    with numpyro.plate("n", 2):
        numpyro.sample("b", dist.MultivariateNormal(data(M), s**2 * cov), obs=data(Y[1:3]))
    with numpyro.plate("m", 2):
        tril = data([0.5, 3.0])[:, None, None] * jnp.linalg.cholesky(cov)
        numpyro.sample("c", dist.MultivariateNormal(data(M), scale_tril=tril), obs=data(Y[3:]))


def multiples_of_a_precision():
    om = numpyro.sample("om", dist.Wishart(5.0, rate_matrix=data(S)))
    numpyro.sample("a", dist.MultivariateNormal(data(M), precision_matrix=om / 4), obs=data(Y[0]))
    with numpyro.plate("n", 4):
        numpyro.sample("b", dist.MultivariateNormal(data(M), precision_matrix=2 * om), obs=data(Y[1:]))


def scatter(y):
    return (y - M).T @ (y - M)


def normal(prior, prior_mean, precision):
    vector = prior @ prior_mean + precision @ Y.sum(0)
    return {"precision": (prior + len(Y) * precision)[None], "information": vector[None]}


def weighted(*weights):
    return (Y - M).T @ (np.array(weights)[:, None] * (Y - M))


LOW_RANK = np.eye(2) + np.outer([1.0, 0.5], [1.0, 0.5])
GROUPS = [Y[Z == 0], Y[Z == 1]]
# model, site, what the rest of the state is, natural parameters
ROWS = [
    (multivariate_mean, "m", {}, normal(np.linalg.inv(S), M, 3 * S)),
    (low_rank_prior_of_a_mean, "m", {}, normal(np.linalg.inv(LOW_RANK), M, np.diag([4.0, 0.25]))),
    (wishart_precision, "om", {}, {"concentration": 10.0, "rate_matrix": np.linalg.inv(S) + scatter(Y)}),
    (
        wishart_precisions_of_components,
        "om",
        {"z": Z},
        {"concentration": [7.0, 8.0], "rate_matrix": [S + scatter(y) for y in GROUPS]},
    ),
    (
        wishart_in_a_quadratic_form,
        "om",
        {},
        {"concentration": 5.0, "rate_matrix": np.linalg.inv(S) + scatter(Y)},
    ),
    (inverse_wishart_covariance, "cov", {}, {"concentration": 11.0, "scale_matrix": S + scatter(Y)}),
    (
        inverse_wishart_by_its_rate,
        "cov",
        {},
        {"concentration": 11.0, "scale_matrix": np.linalg.inv(S) + scatter(Y)},
    ),
    (
        multiples_of_a_covariance,
        "cov",
        {"s": 0.6},
        {
            "concentration": 11.0,
            "scale_matrix": S + weighted(4.0, 0.6**-2, 0.6**-2, 0.5**-2, 3.0**-2),
        },
    ),
    (
        multiples_of_a_precision,
        "om",
        {},
        {"concentration": 10.0, "rate_matrix": S + weighted(0.25, 2.0, 2.0, 2.0, 2.0)},
    ),
]
MATRIX_PAIRS = [model.__name__ for model, *_ in ROWS]
