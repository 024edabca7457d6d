"""Multivariate Normals and positive definite matrices: natural parameters in closed form, near-misses."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.truths.matrix_pairs import MATRIX_PAIRS, ROWS
from numpyro.infer.util import log_density


@pytest.mark.share(12)
@pytest.mark.parametrize(("model", "site", "state", "expected"), ROWS, ids=MATRIX_PAIRS)
def test_natural_parameters(model, site, state, expected):
    for double, rtol in ((False, 1e-4), (True, 1e-9)):
        with jax.enable_x64(double):
            c = gb.model(model).conditional(site)
            assert c.kind == "conjugate", c.reason
            found = c.natural(state)
            assert set(found) == set(expected)
            for name, value in expected.items():
                scale = np.max(np.abs(value))
                np.testing.assert_allclose(found[name], value, rtol=rtol, atol=rtol * scale, err_msg=name)


@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("model", "site", "state"), [r[:3] for r in ROWS if r[1] != "m"], ids=MATRIX_PAIRS[2:]
)
def test_the_joint_is_rebuilt(model, site, state):
    with jax.enable_x64(True):
        c = gb.model(model).conditional(site)
        draw = jax.jit(lambda key: c.sample(key, state))
        joint = jax.jit(lambda x: log_density(model, (), {}, {**state, site: x})[0])
        draws = [draw(jax.random.key(i)) for i in range(3)]
        d = c.distribution(state)
        own = [jnp.sum(d.log_prob(x)) for x in draws]
        full = [joint(x) for x in draws]
        for a, b in zip(own[1:], full[1:], strict=True):
            np.testing.assert_allclose(a - own[0], b - full[0], rtol=1e-6, atol=1e-8)
        assert np.ptp(np.asarray(full)) > 1e-2


def covariances(y, w):
    with numpyro.plate("k", 2):
        cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
        m = numpyro.sample("m", dist.MultivariateNormal(jnp.zeros(2), cov))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5])))
        with numpyro.handlers.mask(mask=w):
            numpyro.sample("y", dist.MultivariateNormal(m[z], cov[z]), obs=y)


def errors_of_several_responses(x, y):
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    with numpyro.plate("p", x.shape[1]):
        b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.MultivariateNormal(x @ b, cov), obs=y)


def test_errors_of_several_responses_have_an_inverse_wishart_covariance():
    x, y, b = (np.random.default_rng(3).normal(size=s).astype(np.float32) for s in ((7, 3), (7, 2), (3, 2)))
    c = gb.model(errors_of_several_responses, x, y).conditional("cov")
    assert c.kind == "conjugate", c.reason
    found, gap = c.natural({"b": b}), y - x @ b
    np.testing.assert_allclose(found["concentration"], 6 + 7, rtol=1e-4)
    np.testing.assert_allclose(found["scale_matrix"], 2 * np.eye(2) + gap.T @ gap, rtol=1e-4)


@pytest.mark.slow
def test_covariances_are_inverse_wishart():
    y = np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32)
    keep, z = np.array([True, True, False, True, True]), np.array([0, 1, 1, 1, 0])
    c = gb.model(covariances, y, keep).conditional("cov")
    assert c.kind == "conjugate", c.reason
    m = np.array([[0.3, -1.0], [1.0, 0.5]])
    found = c.natural({"m": m, "z": z})
    for k in range(2):
        gap = (y - m[k])[(z == k) & keep]
        np.testing.assert_allclose(found["concentration"][k], 6 + 1 + len(gap), rtol=1e-4)
        expected = 2 * np.eye(2) + np.outer(m[k], m[k]) + gap.T @ gap
        np.testing.assert_allclose(found["scale_matrix"][k], expected, rtol=1e-4, atol=1e-5)


def shared_factor():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    numpyro.factor("f", -jnp.sum(jnp.array([1.0, 2.0]) * jnp.log(jnp.diagonal(jnp.linalg.cholesky(cov)))))


def uneven_rows():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    solved = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(cov), jnp.ones((2, 1)), lower=True)
    numpyro.factor("f", -jnp.sum(jnp.array([[1.0], [2.0]]) * solved**2))


def scaled_covariance():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), cov + jnp.eye(2)), obs=jnp.ones(2))


def numbers_beside_other_matrices():
    """One of two for each matrix, and an axis put between these and the next."""
    with numpyro.plate("k", 2):
        cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    by = jnp.array([1.0, 4.0])[:, None, None]
    with numpyro.plate("m", 2, dim=-2), numpyro.plate("n", 3, dim=-1):
        normal = dist.MultivariateNormal(jnp.zeros(2), (by * cov)[:, None])
        numpyro.sample("y", normal, obs=jnp.arange(12.0).reshape(2, 3, 2))


def test_numbers_stay_beside_their_matrices():
    c = gb.model(numbers_beside_other_matrices).conditional("cov")
    assert c.kind == "conjugate", c.reason
    y = np.arange(12.0).reshape(2, 3, 2)
    expected = [2 * np.eye(2) + (y[k].T @ y[k]) / (1.0, 4.0)[k] for k in range(2)]
    np.testing.assert_allclose(c.natural({})["scale_matrix"], expected, rtol=1e-4)


def rows_of_other_units():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    tril = jnp.array([[1.0], [2.0]]) * jnp.linalg.cholesky(cov)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), scale_tril=tril), obs=jnp.ones(2))


def multiplied_by_itself():
    cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), cov * cov[0, 0]), obs=jnp.ones(2))


def two_covariances():
    with numpyro.plate("k", 2):
        cov = numpyro.sample("cov", dist.InverseWishart(6.0, 2 * jnp.eye(2)))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), cov[0] + cov[1]), obs=jnp.ones(2))


def inverse_of_a_precision():
    om = numpyro.sample("cov", dist.Wishart(6.0, 2 * jnp.eye(2)))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), jnp.linalg.inv(om)), obs=jnp.ones(2))


def one_variance_of_a_precision():
    om = numpyro.sample("cov", dist.Wishart(6.0, 2 * jnp.eye(2)))
    numpyro.sample("y", dist.Normal(0.0, om[0, 0] ** -0.5), obs=1.0)


def weighted_rows_of_a_precision():
    om = numpyro.sample("cov", dist.Wishart(6.0, 2 * jnp.eye(2)))
    normal = dist.MultivariateNormal(jnp.zeros(2), precision_matrix=om)
    numpyro.factor("f", -jnp.sum(jnp.array([1.0, 2.0]) * jnp.log(jnp.diagonal(normal.scale_tril))))


def precision_in_a_square():
    om = numpyro.sample("cov", dist.Wishart(6.0, 2 * jnp.eye(2)))
    numpyro.factor("f", -jnp.sum(om**2))


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "model",
    [
        shared_factor,
        uneven_rows,
        scaled_covariance,
        rows_of_other_units,
        multiplied_by_itself,
        two_covariances,
        inverse_of_a_precision,
        one_variance_of_a_precision,
        weighted_rows_of_a_precision,
        precision_in_a_square,
    ],
)
def test_covariance_near_misses_are_refused(model):
    c = gb.model(model).conditional("cov")
    assert c.kind == "none"
    assert c.reason.startswith("not conjugate: ")
