"""Replaying equals running, and reverse mode on the recorded list equals `jax.grad`."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.errors import TapeError
from gibbsite.tape.recording.context import Values
from gibbsite.tape.reverse import ReverseMode, gradients
from helpers.models.tape_programs import random_program
from helpers.truths.inner import inner_jaxprs
from helpers.truths.op_by_op import assert_same_bits, op_by_op


def check_replay(seed: int) -> None:
    fn, x = random_program(seed)
    tape = gibbsite.track(fn, x)
    assert_same_bits(tape.replay(), tape.result)
    assert_same_bits(tape.replay(x), tape.result)
    assert_same_bits(tape.slice(inside=True).replay(), tape.result)
    np.testing.assert_allclose(tape.result, fn(x), rtol=2e-5, atol=2e-5)
    pure, y = random_program(seed, decide=False)
    again = gibbsite.track(pure, y).replay()
    assert_same_bits(again, op_by_op(pure, y))
    np.testing.assert_allclose(again, jax.jit(pure)(y), rtol=2e-5, atol=2e-5)


def check_gradient(seed: int) -> None:
    fn, x = random_program(seed)
    found = gradients(gibbsite.track(fn, x))[0]
    np.testing.assert_allclose(found, jax.grad(fn)(x), rtol=2e-4, atol=2e-5)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(12))
def test_replay_of_random_programs(seed: int):
    check_replay(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 1000, 50))
def test_replay_and_gradients_of_many_programs(start: int):
    for seed in range(start, start + 50):
        check_replay(seed)
        check_gradient(seed)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_random_programs(seed: int):
    check_gradient(seed)


def test_custom_derivatives_are_used():
    @jax.custom_vjp
    def odd(x):
        return x * 2

    odd.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 7,))
    tape = gibbsite.track(lambda x: odd(x).sum(), jnp.ones(2), context=ReverseMode())
    np.testing.assert_array_equal(np.asarray(gradients(tape)[0]), [7, 7])


def test_gradients_follow_decisions_and_recursion():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    tape = gibbsite.track(power, 1.5, 4)
    np.testing.assert_allclose(gradients(tape)[0], 4 * 1.5**3, rtol=1e-6)


def test_no_gradient_through_a_loop_on_a_traced_predicate():
    tape = gibbsite.track(lambda x: jax.lax.while_loop(lambda c: c < 10, lambda c: c * 2, x), 1.0)
    with pytest.raises(TapeError, match="traced predicate"):
        gradients(tape)
    assert [float(t.result[0]) for t in tape.iterations(next(tape.find(primitive="while")))] == [2, 4, 8, 16]


@pytest.mark.parametrize("seed", range(8))
def test_without_values_a_jitted_run_is_the_same(seed: int):
    fn, x = random_program(seed, decide=False)
    plain = jax.make_jaxpr(fn)(x)
    tracked = jax.make_jaxpr(lambda v: gibbsite.track(fn, v, context=Values(False)).result)(x)
    assert shape_of(plain.jaxpr) == shape_of(tracked.jaxpr)


def shape_of(jaxpr):
    """Primitives with their wiring, inside calls too; names of variables do not matter."""
    numbers: dict = {}

    def atom(a):
        return ("literal", str(a.val)) if hasattr(a, "val") else numbers.setdefault(a, len(numbers))

    rows = []
    for eqn in jaxpr.eqns:
        inner = [shape_of(j) for j in inner_jaxprs(eqn)]
        rows.append(
            (eqn.primitive.name, [atom(a) for a in eqn.invars], [atom(a) for a in eqn.outvars], inner)
        )
    return rows, [atom(a) for a in jaxpr.outvars]


def test_a_scan_is_one_record_however_long():
    def run(n):
        return gibbsite.track(lambda x: jax.lax.scan(lambda c, a: (c + a, None), 0.0, x)[0], jnp.ones(n))

    short, long = run(10), run(100_000)
    assert len(list(short.walk())) == len(list(long.walk()))
    steps = list(short.iterations(next(short.find(primitive="scan"))))
    assert [float(t.result[0]) for t in steps] == list(range(1, 11))
