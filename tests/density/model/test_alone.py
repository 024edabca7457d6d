"""The context in which a model is run under handlers, one thread at a time."""

import sys
import threading
import time

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.checking.distributions import distributions
from gibbsite.checking.truth import places, states
from gibbsite.density.model.alone import HandlersAlone, as_columns
from numpyro import primitives


def test_a_thread_that_ended_inside_lets_go():
    alone, before = HandlersAlone(), primitives._PYRO_STACK
    dead = threading.Thread(target=alone.__enter__)
    dead.start()
    dead.join()
    began = time.monotonic()
    with alone, alone:
        assert primitives._PYRO_STACK is not before
    assert primitives._PYRO_STACK is before
    assert time.monotonic() - began < 30
    with alone:
        pass


def test_one_that_is_alive_is_waited_for():
    alone, go, order = HandlersAlone(), threading.Event(), []

    def holds():
        with alone:
            go.set()
            time.sleep(2.0)
            order.append("first")

    threads = [threading.Thread(target=holds)]
    threads[0].start()
    go.wait()

    def waits():
        with alone:
            order.append("then")

    threads += [threading.Thread(target=waits) for _ in range(2)]
    for t in threads[1:]:
        t.start()
    for t in threads:
        t.join()
    assert order == ["first", "then", "then"]


@pytest.mark.slow
def test_a_check_beside_it_does_not_turn_validation_under_a_model_that_is_traced(monkeypatch):
    begun, inside, done = (threading.Event() for _ in range(3))
    seen = []

    def slow(fn, key):
        inside.set()
        done.wait(1.0)
        return ""

    class Waiting(dist.TransformedDistribution):
        def log_prob(self, value, intermediates=None):
            begun.set()
            inside.wait(0.2)
            seen.append(dist.Distribution._validate_args)
            return super().log_prob(value, intermediates)

    def bounded(y):
        top = numpyro.sample("top", dist.Uniform(0, 10))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", Waiting(dist.Uniform(0, top), dist.transforms.ExpTransform()), obs=y)

    def coin(y):
        numpyro.sample("y", dist.Bernoulli(numpyro.sample("p", dist.Beta(1, 1))), obs=y)

    def check():
        begun.wait(60)
        distributions(other, at, 0, lambda: True)

    other = gb.model(coin, np.array([1, 0, 1]))
    at = places(other, states(other, 1))
    monkeypatch.setattr(sys.modules[distributions.__module__], "disagreement", slow)
    thread = threading.Thread(target=check)
    thread.start()
    try:
        model = gb.model(bounded, np.exp(np.array([1.0, 2.5, 3.0], np.float32)))
        run = model.sample(schedule="Slice top", draws=20, warmup=10, chains=1)
    finally:
        begun.set()
        done.set()
        thread.join()
    assert inside.is_set()
    assert len(seen) > 1  # again after the check has begun
    assert all(seen) and run.draws["top"].min() > 3


def test_columns_answer_on_the_thread_that_runs_a_model_alone():
    begun, go, seen = threading.Event(), threading.Event(), []

    def inside():
        with as_columns:
            seen.append(jnp.ones(2).values.shape)
            begun.set()
            go.wait()

    thread = threading.Thread(target=inside)
    thread.start()
    begun.wait()
    assert not hasattr(jnp.ones(2), "values")
    with as_columns, as_columns:
        assert jnp.ones(2).values.shape == (2,)
    go.set()
    thread.join()
    assert seen == [(2,)] and "values" not in dir(jnp.ones(2))


def test_lists_are_indices_as_in_numpy():
    x = np.arange(12.0).reshape(4, 3)

    def picks(x):
        return x[[0, 2]], x[:, [1, 0]], x[[True, False, False, True]], x[[1, 3], [2, 0]]

    def listed(x):
        at = numpyro.sample("at", dist.Normal(x[[0, 2]].sum(), 1.0))
        numpyro.sample("x", dist.Normal(at + x[:, [1, 0]].sum(), 1.0), obs=x[0, 0])

    with as_columns:
        for found in (picks(jnp.asarray(x)), jax.jit(picks)(x)):
            for a, b in zip(found, picks(x), strict=True):
                np.testing.assert_array_equal(a, b)
        with pytest.raises(TypeError, match="non-tuple sequence"):
            jnp.asarray(x)[[0.5]]
    with pytest.raises(TypeError, match="non-tuple sequence"):
        jnp.asarray(x)[[0, 2]]
    assert gb.model(listed, x).density is not None
