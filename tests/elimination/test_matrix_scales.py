"""Means and coefficients with the covariance that all of their rows share, integrated out together."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError
from jax.scipy.special import multigammaln
from numpyro import plate, sample

RNG = np.random.default_rng(5)
Y, X = RNG.normal([1.0, -2.0], size=(9, 2)), RNG.normal(size=(9, 3))
PRIOR, FREEDOM, MEAN = np.array([[2.0, 0.3], [0.3, 1.0]]), 5.0, np.array([0.3, -1.0])
SINGLE = Y.astype(np.float32)
KAPPA = dist.Gamma(2.0, 1.0)


def now(x):
    return jnp.asarray(x, jnp.result_type(float))


def covariance(y):
    kappa = sample("kappa", KAPPA)
    S = sample("S", dist.InverseWishart(FREEDOM, now(PRIOR)))
    mu = sample("mu", dist.MultivariateNormal(now(MEAN), S / kappa))
    with plate("n", len(y)):
        sample("y", dist.MultivariateNormal(mu, S), obs=y)


def factor(y):
    kappa = sample("kappa", KAPPA)
    S = sample("S", dist.InverseWishart(FREEDOM, now(PRIOR)))
    L = jnp.linalg.cholesky(S)
    mu = sample("mu", dist.MultivariateNormal(now(MEAN), scale_tril=L / jnp.sqrt(kappa)))
    with plate("n", len(y)):
        sample("y", dist.MultivariateNormal(mu, scale_tril=L), obs=y)


def precision(y):
    kappa = sample("kappa", KAPPA)
    K = sample("S", dist.Wishart(FREEDOM, rate_matrix=now(PRIOR)))
    mu = sample("mu", dist.MultivariateNormal(now(MEAN), precision_matrix=kappa * K))
    with plate("n", len(y)):
        sample("y", dist.MultivariateNormal(mu, precision_matrix=K), obs=y)


def regression(y):
    kappa = sample("kappa", KAPPA)
    S = sample("S", dist.InverseWishart(FREEDOM, now(PRIOR)))
    with plate("p", X.shape[1]):
        B = sample("mu", dist.MultivariateNormal(jnp.zeros(2), S / kappa))
    with plate("n", len(y)):
        sample("y", dist.MultivariateNormal(now(X) @ B, S), obs=y)


def evidence(kappa, x, prior_mean):
    """The log of a matrix t density: rows are `N(x B, S)`, those of `B` are `N(prior_mean, S / kappa)`, and
    `S` is inverse Wishart."""
    n, p, d = len(Y), x.shape[1], Y.shape[1]
    gram = x.T @ x + kappa * jnp.eye(p)
    centre = jnp.linalg.solve(gram, x.T @ Y + kappa * prior_mean)
    after = PRIOR + Y.T @ Y + kappa * prior_mean.T @ prior_mean - centre.T @ gram @ centre
    constants = (
        multigammaln((FREEDOM + n) / 2, d) - multigammaln(FREEDOM / 2, d) - n * d / 2 * jnp.log(jnp.pi)
    )
    levels = FREEDOM / 2 * jnp.linalg.slogdet(PRIOR)[1] - (FREEDOM + n) / 2 * jnp.linalg.slogdet(after)[1]
    rows = d / 2 * (p * jnp.log(kappa) - jnp.linalg.slogdet(gram)[1])
    return constants + levels + rows, (centre, jnp.linalg.inv(gram), after)


ONES = np.ones((len(Y), 1))
CASES = {
    "covariance": (covariance, ONES, MEAN[None]),
    "factor": (factor, ONES, MEAN[None]),
    "precision": (precision, ONES, MEAN[None]),
    "regression": (regression, X, np.zeros((3, 2))),
}
SLOW, SLOWER = pytest.mark.slow, ("factor", "precision", "regression")


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["covariance", *(pytest.param(n, marks=SLOW) for n in SLOWER)])
def test_a_shared_covariance_goes_with_its_rows(name):
    fn, x, prior_mean = CASES[name]
    with jax.enable_x64(True):
        marginal = gb.model(fn, Y).marginal("mu", "S")
        assert "which scales all of mu" in str(marginal)

        def truth(kappa):
            return evidence(kappa, x, prior_mean)[0] + KAPPA.log_prob(kappa)

        def found(kappa):
            return marginal.logdensity({"kappa": kappa}, constants=True)

        ours, theirs = jax.jit(jax.value_and_grad(found)), jax.jit(jax.value_and_grad(truth))
        for kappa in (0.4, 3.0):
            np.testing.assert_allclose(ours(kappa), theirs(kappa), rtol=1e-9)
        centre, inverse, after = evidence(0.4, x, prior_mean)[1]
        freedom = FREEDOM + len(Y) - Y.shape[1] - 1
        moments = marginal.moments({"kappa": 0.4})
        np.testing.assert_allclose(moments["mu"].mean.reshape(centre.shape), centre, rtol=1e-9)
        variance = np.outer(np.diag(inverse), np.diag(after) / freedom)
        np.testing.assert_allclose(moments["mu"].variance.reshape(centre.shape), variance, rtol=1e-9)
        if name != "precision":
            np.testing.assert_allclose(moments["S"].mean, after / freedom, rtol=1e-9)
        count = 4000
        keys = jax.random.split(jax.random.key(1), count)
        drawn = jax.jit(lambda keys: jax.lax.map(lambda key: marginal.sample(key, {"kappa": 0.4}), keys))(
            keys
        )
        for n, x in drawn.items():
            error = np.sqrt(np.asarray(moments[n].variance) / count)
            assert np.all(np.abs(np.asarray(x).mean(0) - moments[n].mean) < 4.5 * error), n
        # the mean squared is correlated with the covariance: drawn together, not one by one
        spread = np.asarray(drawn["mu"]).reshape(count, -1, 2) - np.asarray(centre)
        own = np.asarray(drawn["S"])
        own = np.linalg.inv(own) if name == "precision" else own
        ratio = (spread[:, 0, 0] / np.sqrt(inverse[0, 0] * own[:, 0, 0])) ** 2
        assert abs(ratio.mean() - 1) < 4.5 * np.sqrt(2 / count)


def uneven(y, S, mu):
    return mu * jnp.array([1.0, 2.0]), S


def exchanged(y, S, mu):
    return mu[::-1], S


def turned(y, S, mu):
    return jnp.array([[1.0, 0.5], [0.0, 1.0]]) @ mu, S


def one_of_them(y, S, mu):
    return jnp.stack([mu[0], mu[0]]), S


def more_noise(y, S, mu):
    return mu, S + jnp.eye(2)


@pytest.mark.parametrize("of", [uneven, exchanged, turned, one_of_them, more_noise])
def test_rows_that_are_mixed_are_refused(of):
    """Here the mean depends on the covariance, or the precision is no product."""

    def model(y):
        S = sample("S", dist.InverseWishart(FREEDOM, now(PRIOR)))
        mu = sample("mu", dist.MultivariateNormal(jnp.zeros(2), S / 4))
        with plate("n", len(y)):
            sample("y", dist.MultivariateNormal(*of(y, S, mu)), obs=y)

    with pytest.raises(ModelError, match=r"closed form|not conjugate"):
        gb.model(model, SINGLE).marginal("mu", "S")


def one_row_alone(y):
    """The other row is known: the precision of what is not is one number, no product with the matrix."""
    S = sample("S", dist.InverseWishart(FREEDOM, now(PRIOR)))
    mu = sample("mu", dist.ImproperUniform(dist.constraints.real, (), (1,)))
    with plate("n", len(y)):
        sample("y", dist.MultivariateNormal(jnp.concatenate([mu, jnp.zeros(1)]), S), obs=y)


def test_a_row_by_itself_is_refused():
    with pytest.raises(ModelError, match="the density of y reads mu, and not in rows"):
        gb.model(one_row_alone, SINGLE).marginal("mu", "S")


def own_prior(y):
    S = sample("S", dist.InverseWishart(FREEDOM, now(PRIOR)))
    mu = sample("mu", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
    with plate("n", len(y)):
        sample("y", dist.MultivariateNormal(mu, S), obs=y)


def test_a_prior_of_its_own_is_refused():
    with pytest.raises(ModelError, match="the density of mu reads mu, and not in rows that S scales alike"):
        gb.model(own_prior, SINGLE).marginal("mu", "S")


@pytest.mark.slow
def test_what_fits_together_is_drawn_together():
    model = gb.model(covariance, SINGLE)
    assert {"mu", "S"} <= {*gb.elimination.eliminable(model.density)[0]}
    run = model.sample(draws=500, warmup=200, chains=2, schedule="Eliminate [S mu] > NUTS kappa", seed=0)
    plain = model.sample(draws=500, warmup=200, chains=2, schedule="NUTS [kappa S mu]", seed=0)
    for name in ("kappa", "mu", "S"):
        a, b = (np.asarray(r.draws[name]).reshape(1000, -1) for r in (run, plain))
        error = np.sqrt(a.var(0) / 300 + b.var(0) / 300)
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < 4.5 * error), name
