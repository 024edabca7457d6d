"""What is known of a program's variables: by NumPy, by JAX where it may, and nothing of what is not given."""

import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.programs.jaxpr.values import Values


def values(fn, *operands, **options):
    """The values of a function's outputs; None stands for an operand that is not known."""
    like = [jnp.zeros(3) if x is None else x for x in operands]
    closed = jax.make_jaxpr(fn)(*like)
    producer = {v: e for e in closed.jaxpr.eqns for v in e.outvars}
    given = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    given |= {v: x for v, x in zip(closed.jaxpr.invars, operands, strict=True) if x is not None}
    found = Values(producer, given, **options)
    return [found.value(v) for v in closed.jaxpr.outvars]


def parts(x, y):
    return x + 1, jax.lax.bessel_i0e(x), x * y, 2.0


def test_what_is_not_given_is_not_known_and_numpy_needs_no_compiler():
    x = np.float32([1.0, 2.0, 4.5])
    plus, gamma, product, two = values(parts, x, None)
    np.testing.assert_array_equal(plus, x + 1)
    assert gamma is None and product is None and two == 2.0


def test_jax_computes_what_numpy_has_no_word_for_up_to_a_size():
    x = np.float32([1.0, 2.0, 4.5])
    _, gamma, product, _ = values(parts, x, None, by_jax=True)
    np.testing.assert_allclose(gamma, jax.lax.bessel_i0e(x), rtol=1e-6)
    assert product is None
    assert values(parts, x, None, by_jax=True, most=2)[:2] == [None, None]


def test_random_keys_are_passed_on_and_have_no_numbers():
    key, number = values(lambda k: (k, jax.random.uniform(k)), jax.random.key(3), by_jax=True)
    assert key is None
    assert number == jax.random.uniform(jax.random.key(3))


def test_what_is_traced_outside_is_not_known():
    seen = []

    @jax.jit
    def outer(c):
        seen.extend(values(lambda x: x + c, np.float32([1.0, 2.0, 3.0])))
        return c

    outer(1.0)
    assert seen == [None]
