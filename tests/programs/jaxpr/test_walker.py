"""The walker with toy lattices: which inputs reach, how deep, and plain evaluation."""

import jax
import jax.numpy as jnp
import pytest
from gibbsite.programs.jaxpr.compat import bind_equation, closed_call_body
from gibbsite.programs.jaxpr.walker import walk


def fn(x, y):
    return jnp.sin(x) * 2.0, x + y, jnp.float32(3)


def closed():
    return jax.make_jaxpr(fn)(1.0, 2.0)


def test_which_inputs_reach():
    program = closed()

    def union(eqn, operands):
        return [frozenset().union(*operands)] * len(eqn.outvars)

    out = walk(
        program.jaxpr,
        [frozenset()] * len(program.consts),
        [frozenset("x"), frozenset("y")],
        {},
        union,
        lambda _: frozenset(),
    )
    assert out == [frozenset("x"), frozenset("xy"), frozenset()]


def test_rules_come_before_the_default():
    program = closed()
    rules = {"sin": lambda eqn, operands: [0]}
    out = walk(program.jaxpr, [], [5, 7], rules, lambda e, xs: [max(xs)] * len(e.outvars), lambda _: -1)
    assert out == [0, 7, -1]


def test_depth_inside_calls():
    program = jax.make_jaxpr(lambda x: jax.jit(jnp.cos)(jnp.sin(x)))(1.0)

    def deeper(eqn, operands):
        body = closed_call_body(eqn)
        if body is not None:
            return walk(body.jaxpr, [0] * len(body.consts), operands, {}, deeper, lambda _: 0)
        return [1 + max(operands, default=0)] * len(eqn.outvars)

    assert walk(program.jaxpr, [], [0], {}, deeper, lambda _: 0) == [2]


def test_evaluation_and_visits():
    program, seen = closed(), []
    out = walk(
        program.jaxpr,
        program.consts,
        [1.0, 2.0],
        {},
        bind_equation,
        lambda v: v,
        lambda e, xs, ys: seen.append(e.primitive.name),
    )
    assert [float(v) for v in out] == pytest.approx([float(v) for v in fn(1.0, 2.0)])
    assert seen == [e.primitive.name for e in program.jaxpr.eqns]


def test_a_wrong_number_of_results_is_an_error():
    program = closed()
    with pytest.raises(ValueError, match="zip"):
        walk(program.jaxpr, [], [1, 2], {}, lambda e, xs: [], lambda _: 0)
