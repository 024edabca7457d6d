"""What is computed of copied rows is computed of the rows themselves, with the same results."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.passes.flatten import flatten
from helpers.truths.inner import inner_jaxprs
from jax.scipy.linalg import solve_triangular

K, N, D = 3, 17, 4
Z = np.arange(N) * 7 % K


def symmetric(x):
    return (x + jnp.swapaxes(x, -1, -2)) / 2


def log_determinant(x, z):
    factor = jnp.linalg.cholesky(symmetric(x)[z])
    return jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)


def distance(x, z):
    return solve_triangular(jnp.linalg.cholesky(x[z]), jnp.ones((N, D, 1)) * z[:, None, None], lower=True)


def same_right_hand_sides(x, z):
    eye = jnp.broadcast_to(jnp.eye(D), (N, D, D))
    return solve_triangular(jnp.linalg.cholesky(x)[z], eye, lower=True, trans=1)


def from_the_right(x, z):
    rows = jnp.arange(N * 2.0 * D).reshape(N, 2, D)
    factor = jnp.linalg.cholesky(x[z])
    return jax.lax.linalg.triangular_solve(factor, rows, left_side=False, lower=True)


def through_the_back(x, z):
    return jnp.flip(x[z].transpose(1, 0, 2), (0, 2)) * jnp.arange(D)[:, None, None]


def rows_of_two_indices(x, z):
    return jnp.log(x[z[:, None], np.array([0, 2, 1, 1, 3])] ** 2 + 1).sum(-1)


def two_choices(x, z):
    return x[z] @ x[z[::-1]] + x[z][:, ::2, ::2][:, :1, :1]


def reshaped(x, z):
    return (x[z].reshape(N, 1, D, D) * 2).reshape(N, D * D)


def spread_by_the_equation(x, z):
    """Equations spread axes of size 1 themselves: `eq i32[17,1] i32[1,4]`, as in `jax.nn.one_hot`."""
    marked = (jnp.argmax(x[:, 0], -1)[z][:, None] == jnp.arange(D)) * x[1, 2, 1]
    weighed = marked * x[:, 1, 1][z][:, None]
    return weighed.sum(-1) + (jnp.arange(D)[:, None] < x[:, 0, 0][z]).max(0)


PROGRAMS = [
    spread_by_the_equation,
    log_determinant,
    distance,
    same_right_hand_sides,
    from_the_right,
    through_the_back,
    rows_of_two_indices,
    two_choices,
    reshaped,
]


@pytest.mark.share(12)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("filled", [False, True])
def test_evaluation_agrees_with_the_program(program, filled):
    """Also where `z` holds the same value everywhere and is given as one number."""
    root = np.random.default_rng(0).normal(size=(K, D, D))
    x = jnp.asarray(root @ np.swapaxes(root, 1, 2) + np.eye(D), jnp.float32)
    z = jnp.full(N, 1) if filled else jnp.asarray(Z)
    closed = flatten(jax.make_jaxpr(program)(x, z))
    given = dict(zip(closed.jaxpr.invars, (x, z[:1] if filled else z), strict=True))
    found = Evaluator(closed, made_by(closed.jaxpr), given).full(closed.jaxpr.outvars[0])
    np.testing.assert_allclose(found, program(x, z), rtol=2e-5, atol=1e-5)


def clusters(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    with numpyro.plate("k", K):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.zeros(D), jnp.eye(D)))
        cov = numpyro.sample("cov", dist.InverseWishart(D + 3.0, jnp.eye(D)))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.MultivariateNormal(mu[z], cov[z]), obs=y)


def factorisations(jaxpr):
    """How many matrices each Cholesky factorisation of a program takes."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "cholesky":
            yield int(np.prod(eqn.invars[0].aval.shape[:-2], dtype=np.int64))
        for inner in inner_jaxprs(eqn):
            yield from factorisations(inner)


@pytest.mark.share(3)
@pytest.mark.parametrize("site", ["mu", "cov", "z"])
def test_one_factorisation_per_component(site):
    model = gb.model(clusters, np.random.default_rng(1).normal(size=(N, D)).astype(np.float32))
    data = tuple(model.density.arguments.arrays)
    state = {
        "w": jnp.full(K, 1 / K),
        "mu": jnp.zeros((K, D)),
        "cov": jnp.broadcast_to(jnp.eye(D), (K, D, D)),
        "z": jnp.asarray(Z),
    }
    update = jax.make_jaxpr(model.conditional(site).update)(jax.random.key(0), state, data)
    counts = list(factorisations(update.jaxpr))
    assert counts
    assert max(counts) <= K
