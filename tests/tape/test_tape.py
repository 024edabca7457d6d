"""Records, queries, contexts, printing and bad input."""

import itertools
import sys

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.errors import GibbsiteError, TapeError
from gibbsite.printing.statements.model_tape import tape_of_model
from gibbsite.tape.recording.context import Context, DepthLimit, Memory, Timing, Values
from gibbsite.tape.show import untaken
from helpers.models.tape_programs import LISTINGS, geom


def branching(x):
    y = jnp.sin(x)
    if y > 0:
        return jax.lax.cond(y > 0.5, jnp.exp, jnp.cos, y)
    return -y


def test_a_branch_keeps_what_was_not_taken():
    tape = gibbsite.track(branching, 0.2)
    (branch,) = (r for r in tape.walk() if r.kind == "branch")
    assert branch.taken == 0
    assert [e.primitive.name for e in branch.not_taken[0].jaxpr.eqns] == ["exp"]
    assert [r.op for r in branch.children] == ["cos"]


def test_data_and_control_are_told_apart():
    tape = gibbsite.track(branching, 0.2)
    (decision,) = (r for r in tape.walk() if r.kind == "decision")
    (cosine,) = tape.find(primitive="cos")
    controls = tape.controls(cosine)
    assert decision in controls
    assert any(r.kind == "branch" for r in controls)
    assert decision not in tape.backward(cosine)
    assert decision in tape.backward(cosine, control=True)
    assert tape.parent(cosine).kind == "branch"
    assert cosine in tape.children(tape.parent(cosine))


def test_lines_are_the_users():
    tape = gibbsite.track(branching, 0.2)
    (sine,) = tape.find(primitive="sin")
    assert sine.line.text == "y = jnp.sin(x)"
    assert sine.line.where.startswith("test_tape.py:")


def test_two_runs_are_compared():
    left, right = (gibbsite.track(geom, 1, 0.3, jax.random.key(k)) for k in (1, 2))
    assert not left.diff(right).same_structure
    assert "structure changes" in str(left.diff(right))
    assert not left.diff(gibbsite.track(geom, 1, 0.3, jax.random.key(1)))
    near = gibbsite.track(branching, 0.2).diff(gibbsite.track(branching, 0.3))
    assert near
    assert near.same_structure


def test_slice_drops_what_the_output_does_not_need():
    def fn(x):
        _unused = jnp.cosh(x)
        return jnp.sin(x)

    tape = gibbsite.track(fn, 1.0)
    assert [r.op for r in tape.slice()] == ["argument", "sin", "return"]


def test_questions_about_long_tapes():
    def fn(x):
        for _ in range(3000):
            x = jax.lax.sin(x)
        return x

    tape = gibbsite.track(fn, 1.0)
    assert len(tape.backward(tape[3001])) == 3000
    assert len(tape.forward(tape[1])) == 3001
    assert next(tape.find(primitive="sin")) is tape["@2"]


def deciding(x):
    y = jax.lax.integer_pow(x[1:3], 3).sum()
    if not y > 2:
        y = y + 1
        y = 2 * y
    elif y > 100 or y < -100:
        y = y - 1
    while y < -20:
        y = y + 9.0
    return y if y > 10 else jnp.exp(y)


def test_static_parameters_are_kept_and_printed():
    tape = gibbsite.track(deciding, jnp.arange(4.0))
    text = tape.to_text(None)
    assert "= slice(⟨1⟩, 1:3) →" in text
    assert "integer_pow(⟨2⟩, y=3)" in text
    assert "sum(⟨3⟩, axes=(0,))" in text
    (power,) = tape.find(primitive="integer_pow")
    assert power.params["y"] == 3
    strided = gibbsite.track(lambda x: jax.lax.slice(x, (1, 0), (4, 2), (2, 1)), jnp.ones((4, 2)))
    assert "slice(⟨1⟩, 1:4:2, 0:2)" in strided.to_text(None)


def test_a_python_if_tells_the_branch_that_was_not_taken():
    """`or` came to a second question, which leaves nothing open; a `while` that ends leaves out its body."""
    told = [
        (r.value.item(), untaken(r))
        for r in gibbsite.track(deciding, jnp.arange(4.0)).walk()
        if r.kind == "decision"
    ]
    assert told == [
        (True, "y = y + 1; y = 2 * y"),
        (False, None),
        (False, None),
        (False, "y = y + 9.0"),
        (False, "y"),
    ]
    text = gibbsite.track(deciding, jnp.arange(4.0)).to_text(1)
    assert "→ True, not taken: y = y + 1; y = 2 * y\n" in text


class Double(Context):
    def replaces(self, step, values):
        return [v * 2 for v in values] if step.op == "sin" else values


class Increment(Context):
    def replaces(self, step, values):
        return [v + 1 for v in values] if step.op == "sin" else values


def test_contexts_compose_from_left_to_right():
    def run(context):
        return float(gibbsite.track(jax.lax.sin, 0.0, context=context).result)

    assert run(Double() | Increment()) == 1
    assert run(Increment() | Double()) == 2
    assert run(Values(False) | Increment() | Double()) == 2
    tape = gibbsite.track(jax.lax.sin, 0.0, context=Increment())
    assert float(tape.replay()) == 1


def test_the_order_of_contexts_matters_only_where_values_are_replaced():
    def fn(x):
        return jax.jit(lambda v: jnp.exp(v) + 1)(x)

    limit, memory, names = DepthLimit(1), Memory(), Named()
    texts, notes = set(), set()
    for a, b, c in itertools.permutations((limit, memory, names)):
        for context in ((a | b) | c, a | (b | c)):
            tape = gibbsite.track(fn, jnp.ones(4), context=context)
            texts.add(tape.to_text(None))
            notes.add(tuple(sorted(tape[2].metadata.items())))
    assert len(texts) == 1
    assert notes == {(("bytes", 16), ("primitive", "jit"))}


class Named(Context):
    def notes(self, step, values, before):
        return {"primitive": step.primitive}


class Loud(Context):
    def notes(self, step, values, before):
        return {"primitive": step.primitive.upper()}


def test_the_last_word_on_a_note_stands_right():
    left = gibbsite.track(jax.lax.sin, 0.0, context=Named() | Loud())
    right = gibbsite.track(jax.lax.sin, 0.0, context=Loud() | Named())
    assert (left[2].metadata["primitive"], right[2].metadata["primitive"]) == ("SIN", "sin")


def test_all_contexts_must_agree_to_keep():
    class Few(Context):
        def keeps(self, step):
            return step.op != "cos"

    def fn(x):
        jax.lax.cos(x)
        return jax.lax.sin(x)

    for context in (Few() | Values(), Values() | Few()):
        assert [r.op for r in gibbsite.track(fn, 1.0, context=context)] == ["argument", "sin", "return"]


def test_depth_timing_and_memory_together():
    def fn(x):
        return jax.jit(lambda v: jnp.exp(v) + 1)(x)

    assert gibbsite.track(fn, jnp.ones(4)).depth == 2
    tape = gibbsite.track(fn, jnp.ones(4), context=DepthLimit(1) | Timing() | Memory())
    assert tape.depth == 1
    assert tape[2].metadata["bytes"] == 16
    assert tape[2].metadata["seconds"] > 0
    without = gibbsite.track(fn, jnp.ones(4), context=Values(False))
    assert all(r.values is None for r in without.walk())


def test_printing_fits_and_folds():
    tape = gibbsite.track(lambda x: jax.nn.softmax(x).sum(), jnp.arange(1000.0))
    assert max(map(len, tape.to_text(None).splitlines())) <= 80
    assert len(str(tape).splitlines()) < len(tape.to_text(None).splitlines())
    page = tape.view(3)._repr_html_()
    assert "<details" in page
    assert "var(--jp-content-font-color1" in page
    assert repr(tape.view(1)) == tape.to_text(1)


def test_dot_draws_statements_as_circles():
    source = tape_of_model(*LISTINGS["bernoulli_mixture"]).to_dot()
    assert source.count("shape=circle") == 3
    assert '"@3" -> "@4"' in source


def test_html_escapes():
    page = gibbsite.track(lambda x, s: x, 1.0, "<i>leaning</i>")._repr_html_()
    assert "leaning" in page
    assert "<i>" not in page


# bad input


def test_leaked_values():
    kept = []
    gibbsite.track(lambda x: kept.append(x * 2), 1.0)
    with pytest.raises(TapeError, match="earlier run"):
        gibbsite.track(lambda x: x + kept[0], 1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] + 1


def test_values_leaked_out_of_a_transformation():
    kept = []

    def fn(x):
        jax.jit(lambda v: kept.append(v) or v)(x)
        return kept[0] + 1

    with pytest.raises(TapeError, match="Return it instead") as caught:
        gibbsite.track(fn, 1.0)
    assert caught.value.tape.records[0].name == "x"


def test_a_run_that_failed_leaves_nothing_behind():
    def fails(x):
        raise ValueError(f"{x:.1f}")

    hook = sys.getprofile()
    with pytest.raises(ValueError, match=r"1\.0"):
        gibbsite.track(fails, 1.0)
    assert sys.getprofile() is hook
    assert float(jnp.sin(0.0)) == 0


def test_side_effects_happen_once():
    seen = []
    tape = gibbsite.track(lambda x: (seen.append(1), x + 1)[1], 1.0)
    tape.replay()
    assert seen == [1]


def test_arguments_that_are_no_arrays():
    tape = gibbsite.track(
        lambda x, mode, table: x * table["k"] if mode == "double" else x, 3.0, "double", {"k": 2}
    )
    assert float(tape.result) == 6
    assert tape[2].value == "double"


def test_value_dependent_shapes_name_the_tape():
    with pytest.raises(Exception, match=r".") as caught:
        gibbsite.track(lambda x: jax.jit(lambda v: jnp.ones(v.astype(int)))(x), 3.0)
    assert caught.value.tape.records[0].name == "x"


def test_infinite_recursion():
    def forever(x):
        return forever(x + 1)

    with pytest.raises(TapeError, match="forever") as caught:
        gibbsite.track(forever, 1.0)
    assert len(list(caught.value.tape.walk())) > 100


def test_recursion_without_any_record():
    def forever(n):
        return forever(n + 1)

    with pytest.raises(TapeError, match="without end"):
        gibbsite.track(forever, 1)


def test_exceptions_pass_with_the_tape_so_far():
    def fails(x):
        y = jnp.sin(x)
        raise KeyError(f"no {y.shape}")

    with pytest.raises(KeyError) as caught:
        gibbsite.track(fails, 1.0)
    assert [r.op for r in caught.value.tape] == ["argument", "sin"]


@pytest.mark.parametrize("place", ["@99", "@x", ()])
def test_places_that_do_not_exist(place):
    with pytest.raises(GibbsiteError):
        gibbsite.track(jnp.sin, 1.0)[place]


def test_not_a_function():
    with pytest.raises(TapeError, match="takes a function"):
        gibbsite.track(3)


def test_iterations_of_something_else():
    tape = gibbsite.track(jnp.sin, np.ones(2))
    with pytest.raises(TapeError, match="not a loop"):
        list(tape.iterations("@2"))


def test_replay_needs_its_arguments():
    tape = gibbsite.track(jnp.sin, 1.0, context=Values(False))
    with pytest.raises(TapeError, match="without values"):
        tape.replay()
    assert float(tape.replay(0.0)) == 0
    with pytest.raises(TapeError, match="1 arrays"):
        tape.replay(1.0, 2.0)
