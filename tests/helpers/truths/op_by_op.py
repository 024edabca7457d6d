"""What the tape is measured against: every primitive on its own, calls and branches entered."""

import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.programs.jaxpr.compat import bind_equation, closed_call_body
from gibbsite.programs.jaxpr.walker import walk


def op_by_op(fn, *args):
    """`fn(*args)`, primitive by primitive; loops are one primitive, and Python may not decide on values."""
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*args)
    return jax.tree.unflatten(jax.tree.structure(shape), _evaluate(closed, jax.tree.leaves(args)))


def _evaluate(closed, operands):
    def rule(eqn, xs):
        body = closed_call_body(eqn)
        if eqn.primitive.name == "cond":
            branches = eqn.params["branches"]
            return _evaluate(branches[int(np.clip(xs[0], 0, len(branches) - 1))], xs[1:])
        return bind_equation(eqn, xs) if body is None else _evaluate(body, xs)

    return walk(closed.jaxpr, closed.consts, operands, {}, rule, lambda v: v)


def assert_same_bits(left, right):
    """Equal structure, dtypes and bits; random keys by their data."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        a, b = jnp.asarray(a), jnp.asarray(b)
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
