"""A model is what its function read when it was made, whatever the notebook's names are given later."""

import functools
import linecache
from types import SimpleNamespace

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.inputs.captured import captured
from gibbsite.inputs.live import live
from gibbsite.inputs.reading import program_of
from numpyro import handlers

SCALE, TABLE, DEEP = 2.0, {"s": 0.5, "by": [1.0, 2.0]}, {}
X = np.arange(4.0)
FRAME = pd.DataFrame({"x": X})


def link(x):
    return x * SCALE


def reading(y):
    a = numpyro.sample("a", dist.Normal(0, 5))
    mean = a * link(X) + TABLE["by"][0] + jnp.asarray(FRAME.x.to_numpy())
    numpyro.sample("y", dist.Normal(mean, TABLE["s"]), obs=y)


@pytest.fixture
def restored():
    names, x, frame = dict(globals()), X.copy(), FRAME.copy()
    yield
    globals().update(names)
    TABLE.update(s=0.5, by=[1.0, 2.0])
    X[:] = x
    FRAME["x"] = frame["x"]


def _other():
    globals().update(SCALE=20.0, link=lambda x: x * 1000)
    TABLE["s"], TABLE["by"][0] = 9.0, 70.0
    X[:] = 100.0
    FRAME["x"] = 50.0


def test_questions_are_asked_of_the_model_as_it_was(restored):
    y = np.array([0.0, 3.0, 6.0, 9.0])
    model = gb.model(reading, y)
    run = model.sample(draws=200, chains=1, seed=0)
    before = run.predict(seed=1).draws["y"], run.elpd().elpd
    _other()
    y[:] = 1e6  # what was given, too
    assert np.array_equal(run.predict(seed=1).draws["y"], before[0]) and run.elpd().elpd == before[1]
    again = model.sample(draws=200, chains=1, seed=0)
    assert np.array_equal(again.draws["a"], run.draws["a"])


@pytest.mark.slow
def test_models_of_a_loop_are_its_own(restored):
    """Their elpd were all of the last one's power, and the comparison named another than the best."""
    x = np.linspace(-1, 2, 30)
    y = 2 * x**2 + 0.3 * np.random.default_rng(0).normal(size=30)
    runs = {}
    for power in (1, 2, 3):
        globals()["POWER"] = power

        def curve(x, y):
            a, s = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("s", dist.HalfNormal(2))
            numpyro.sample("y", dist.Normal(a * x**POWER, s), obs=y)  # noqa: F821

        runs[power] = gb.model(curve, x, y).sample(draws=300, chains=2, seed=0)
    elpds = {power: run.elpd().elpd for power, run in runs.items()}
    assert max(elpds, key=elpds.__getitem__) == 2 and elpds[2] - elpds[1] > 10 < elpds[2] - elpds[3]


def test_what_a_model_changes_is_its_users_own():
    calls, count, seen = [], 0, {}

    def model():
        nonlocal count
        count += 1
        calls.append(count)
        seen["last"] = count
        numpyro.sample("a", dist.Normal(0, 1))

    fn = captured(model)
    with handlers.seed(rng_seed=0):
        fn()
        fn()
    assert calls == [1, 2] and count == 2 and seen == {"last": 2}


def test_functions_that_share_a_variable_share_it_still():
    shift = 1.0

    def inner():
        return shift

    def outer():
        nonlocal shift
        shift += 1
        return inner()

    assert [captured(outer)(), captured(outer)()] == [2.0, 3.0]


def _counting():
    global SCALE
    SCALE += 1
    return SCALE


def test_an_assigned_global_stays_the_users(restored):
    assert captured(_counting)() == 3.0 and SCALE == 3.0


def _calls_itself(n):
    return SCALE if n == 0 else _calls_itself(n - 1) + later_defined()  # noqa: F821


def test_recursion_and_names_that_come_later(restored):
    fn = captured(_calls_itself)
    globals().update(SCALE=7.0, later_defined=lambda: 1.0)
    assert fn(3) == 2.0 + 3


def test_partials_methods_handlers_and_loops(restored):
    class Fitted:
        k = 3.0

        def model(self, x):
            return self.k * link(x)

    DEEP["self"] = DEEP

    def holds():
        return DEEP["self"]["self"] is DEEP["self"], SCALE

    fns = (
        functools.partial(link, 1.0),
        functools.partial(Fitted().model, 1 / 3),
        handlers.mask(functools.partial(link, 1.0), mask=True),
        lambda: holds()[0] and holds()[1],
    )
    fns = [captured(f) for f in fns]
    globals().update(SCALE=50.0)
    assert [f() for f in fns] == [2.0] * 4


def test_objects_and_libraries_are_what_they_are():
    thing, shape = SimpleNamespace(k=1), np.shape

    def fn():
        return thing, shape

    assert captured(fn)() == (thing, np.shape)
    assert captured(np.linalg.norm) is np.linalg.norm


def test_errors_name_what_the_model_does_not_read():
    with pytest.raises(gb.GibbsiteError, match="did you mean 'reading'"):
        gb.model(lambda: numpyro.sample("y", dist.Normal(readng, 1)))  # noqa: F821


def test_names_that_are_asked_for_by_text(restored):
    def by_text():
        return (
            eval("SCALE"),
            "SCALE" in globals(),
            globals().get("TABLE")["s"],
            FRAME.eval("x * @SCALE").sum(),
        )

    assert captured(by_text)() == (2.0, True, 0.5, 12.0)


def test_a_librarys_object_around_a_users_function_is_known_to_change():
    wrapped, plain = np.vectorize(link), np.vectorize(np.sqrt)
    assert live(captured(lambda: wrapped(1.0))) == ("wrapped",)
    assert live(captured(lambda: plain(1.0))) == ()


def test_models_share_the_copy_of_an_array_that_stays(restored):
    def x_of():
        return X

    first, second = captured(x_of)(), captured(x_of)()
    assert first is second is not X
    X[:] = np.nan
    third, fourth = captured(x_of)(), captured(x_of)()
    assert np.isnan(third).all() and third is fourth and np.array_equal(first, np.arange(4.0))


def _programs(body, head="", values=()):
    """A function by its text, with the values of its globals."""
    space = dict(values)
    text = f"{head}\ndef fn(x):\n{body}\n"
    name = f"<program {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)
    return program_of(space["fn"])


def test_a_program_is_its_statements_and_the_values_that_they_read():
    plain = _programs("    return a * x", values={"a": 2.0})
    assert plain == _programs("    # a comment\n\n    return (a\n        * x)", values={"a": 2.0, "b": 3})
    others = [
        _programs("    return a * x", values={"a": 3.0}),
        _programs("    return a * x + 1", values={"a": 2.0}),
        _programs("    return a * x", values={"a": np.full(2, 2.0)}),
        _programs("    return a * x", values={"a": np.full(3, 2.0)}),
        _programs("    return a * x", values={"a": [2.0, {"b": 1}]}),
        _programs("    return a * x", values={"a": jnp}),
    ]
    assert len({plain, *others}) == 7
    helped = [_programs("    return f(x)", f"def f(x):\n    return {y}") for y in ("x", "x + 1", "x")]
    assert helped[0] == helped[2] != helped[1]
