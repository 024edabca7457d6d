"""Index arithmetic that is known beforehand leaves the program: its gathers are slices of the same values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.passes.flatten import flatten
from helpers.startup.arrays import array

J, K, V = 4, 3, 5
X = array(np.random.default_rng(0).normal(size=(J, K, V)), np.float32)
# whether nothing is left to be looked up with `z` filled with 2
READS = {
    "a row for each": (lambda x, z: x[jnp.arange(J), z], True),
    "beside another axis": (lambda x, z: x[:, z[0], jnp.arange(V)], True),
    "axes in another order": (lambda x, z: x[jnp.arange(J)[:, None], z[0], jnp.arange(V)], True),
    "counted from the end": (lambda x, z: x[jnp.arange(J), z - K], True),
    "clipped": (lambda x, z: x.at[jnp.arange(J), z + 7].get(mode="clip"), True),
    "one place": (lambda x, z: x[z[0], z[1]], True),
    "shifted": (lambda x, z: x[jnp.arange(J) - 1, z], False),
    "a part": (lambda x, z: x[jnp.arange(J - 1), z[: J - 1]], False),
    "the diagonal": (lambda x, z: x[jnp.arange(K), jnp.arange(K)] * z[0], False),
    "where equal": (lambda x, z: jnp.where(z == jnp.arange(J), 1.0, x[:, 0, 0]), True),
}


def _evaluated(name, filled):
    closed = flatten(jax.make_jaxpr(READS[name][0])(X, jnp.zeros(J, jnp.int32)))
    (x, z), (out,) = closed.jaxpr.invars, closed.jaxpr.outvars
    ours = lambda x_: Evaluator(closed, made_by(closed.jaxpr), {x: x_, z: filled}).full(out)  # noqa: E731
    return ours, lambda x_: READS[name][0](x_, jnp.full(J, 2, jnp.int32))


@pytest.mark.parametrize("name", READS)
def test_gathers_by_known_indices_are_slices_of_the_same_values(name):
    ours, theirs = _evaluated(name, np.full(1, 2))
    np.testing.assert_array_equal(ours(X), theirs(X))
    np.testing.assert_allclose(
        jax.grad(lambda x: jnp.sum(jnp.sin(ours(x))))(X),
        jax.grad(lambda x: jnp.sum(jnp.sin(theirs(x))))(X),
        rtol=1e-6,
    )
    assert ("gather" not in str(jax.make_jaxpr(ours)(X))) == READS[name][1]
