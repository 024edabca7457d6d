"""Slices, closures and long tapes; values that cross calls, `vmap` and derivatives."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.tape.recording.record import Const, Record, Ref
from gibbsite.tape.tape import Tape
from helpers.models.tape_programs import random_program
from helpers.truths.op_by_op import assert_same_bits


def two_results(x):
    def inner(v):
        _vain = jnp.cosh(v)
        return jnp.sin(v), jnp.tanh(v)

    a, _b = inner(x)
    return a


def test_a_slice_stops_at_calls_unless_told():
    tape = gibbsite.track(two_results, 1.0)
    whole, pruned = tape.slice(), tape.slice(inside=True)
    assert [r.op for r in whole.walk()] == [r.op for r in tape.walk()]
    assert [r.op for r in pruned.walk() if r.kind == "primitive"] == ["sin"]
    assert pruned["@2"].children[0].kind == "argument"
    assert_same_bits(pruned.replay(0.5), jnp.sin(0.5))


@pytest.mark.parametrize("seed", range(6))
def test_a_slice_computes_the_same(seed: int):
    fn, x = random_program(seed)
    tape = gibbsite.track(fn, x)
    for inside in (False, True):
        part = tape.slice(inside=inside)
        assert len(list(part.walk())) <= len(list(tape.walk()))
        assert_same_bits(part.replay(x), tape.result)


def test_a_slice_without_control_answers_still():
    tape = gibbsite.track(lambda x: jnp.sin(x) if x > 0 else x, 1.0)
    bare = tape.slice(control=False)
    (sine,) = bare.find(primitive="sin")
    assert not any(r.kind == "decision" for r in bare.walk())
    assert bare.controls(sine) == ()
    assert [r.kind for r in tape.controls(sine)] == ["decision"]


def test_a_call_depends_on_what_it_closes_over():
    def fn(x):
        y = jnp.sin(x)

        def inner(z):
            return z * y

        return inner(jnp.cos(x))

    tape = gibbsite.track(fn, 1.0)
    (call,) = tape.find("inner")
    sine = tape["@2"]
    assert sine in tape.references(call)
    assert sine in tape.backward(call)
    assert call in tape.forward(sine)
    assert call not in tape.references(call)
    assert not any(r in call.children for r in tape.references(call))


def test_functions_inside_transformations_are_calls():
    def square(v):
        return v**2

    tape = gibbsite.track(lambda x: jax.vmap(square)(x) + jax.grad(lambda v: square(v).sum())(x), jnp.ones(3))
    inside = list(tape.find("square"))
    assert len(inside) == 2
    assert all(isinstance(r.operands[0], Ref) for r in inside)
    assert "?" not in tape.to_text(None)
    assert_same_bits(tape.replay(jnp.arange(3.0)), jnp.arange(3.0) ** 2 + 2 * jnp.arange(3.0))


def test_numbers_asked_for_are_decisions():
    def fn(x):
        n = int(x[0]) + round(float(x[1])) + int(x[2].item()) + len(x.tolist())
        return x.sum() * n, f"{x[0]:.1f}"

    tape = gibbsite.track(fn, jnp.array([1.0, 2.0, 3.0]))
    assert float(tape.result[0]) == 6 * 9
    assert tape.result[1] == "1.0"
    assert sum(r.kind == "decision" for r in tape.walk()) == 4


def chain(n):
    """A tape of `n` records, each of which reads the one before and follows its decision."""
    records = [Record((1,), "argument", "argument", outputs=(1,), shapes=(((), "float32"),), name="x")]
    for i in range(2, n + 1):
        kind = "decision" if i % 2 else "primitive"
        outputs = () if i % 2 else (i,)
        read = Ref(i - 1 if i % 2 else max(i - 2, 1))
        last = (i - 1,) if i > 2 and not i % 2 else (i - 2,) if i > 3 else None
        records.append(Record((i,), kind, "sin", operands=(read, Const(1)), outputs=outputs, decision=last))
    return Tape("chain", tuple(records))


@pytest.mark.slow
def test_questions_about_a_hundred_thousand_records():
    """Anything quadratic in the length would take hours here."""
    tape = chain(100_000)
    last = tape[100_000]
    assert len(tape.backward(last)) == 50_000
    assert len(tape.backward(last, control=True)) == 99_999
    assert len(tape.controls(last)) == 49_999
    assert len(tape.forward(tape[1])) == 99_999
    assert len(tape.slice(last)) == 100_000
    assert len(tape.slice(last, control=False, inside=True)) == 50_001
    assert next(tape.find(primitive="sin")) is tape[2]  # lazily: the first is found at once
    assert len(tape.to_text().splitlines()) == 100_000
    assert "cut after 2000 records" in tape._repr_html_()
    assert not tape.diff(chain(100_000))


def test_a_structure_that_changes_is_told_where():
    def fn(x):
        y = jnp.sin(x)
        return jnp.exp(y) if y > 0 else jnp.cos(y) * 2

    difference = gibbsite.track(fn, 1.0).diff(gibbsite.track(fn, -1.0))
    assert not difference.same_structure
    told = str(difference)
    assert "- @5 exp" in told
    assert "+ @5 cos" in told
    assert "≠ @4 decide: True ≠ False" in told


@pytest.mark.slow
def test_values_that_a_library_asks_for_are_decisions():
    """Else what was chosen by them would look independent of them."""
    x = jnp.array([1.0, -2.0, 3.0])
    for fn in (
        lambda v: v[v > 0].sum(),
        lambda v: jnp.unique(v),
        lambda v: jnp.ones(v[0].astype(int)),
        lambda v: jnp.nonzero(v)[0],
    ):
        tape = gibbsite.track(fn, x)
        assert_same_bits(tape.replay(), fn(x))
        assert any(r.kind == "decision" for r in tape.walk())
        needed = tape.slice(inside=True)
        assert needed.records[0].name == "v"
        assert any(r.kind == "decision" for r in needed.walk())


def test_decisions_are_found_after_records_have_moved():
    def fn(x):
        numbers = jax.tree.map(lambda v: float(v * 2) + float(v * 3), [x, x])
        return jnp.sin(x) * numbers[0]

    tape = gibbsite.track(fn, 1.0)
    decisions = [r for r in tape.walk() if r.kind == "decision"]
    assert len(decisions) == 4
    for record in tape.walk():
        assert record.decision is None or tape[record.decision].kind == "decision"
        assert tape[record.index] is record
    (_, second, *_) = tape.find("multiply")
    assert decisions[0] in tape.controls(second)


def test_what_python_made_of_a_value_is_returned():
    tape = gibbsite.track(lambda x: np.asarray(x) + 1, jnp.ones(2))
    assert [r.kind for r in tape] == ["argument", "decision", "return"]
    np.testing.assert_array_equal(tape.replay(), [2, 2])
