"""The user's own NumPyro code beside a run, and around it: neither sees the other's handlers."""

import gc
import sys
import threading
import time
import traceback
import types

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.model.alone import handlers_alone
from gibbsite.errors import CheckpointError, GibbsiteError, ModelError
from gibbsite.sampling import start
from numpyro import handlers, primitives
from numpyro.infer import MCMC, NUTS, Predictive
from numpyro.infer.util import log_density

OPTIONS = {"draws": 50, "warmup": 20, "chains": 2}
WAIT = 60


class Paused:
    """A model that waits in the midst of its pass, inside a handler of its own, where it is told to."""

    def __init__(self):
        self.inside, self.go_on, self.where = threading.Event(), threading.Event(), None

    def __call__(self, y=1.0):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        with handlers.scale(scale=3.0):
            if threading.current_thread() is not threading.main_thread() and self.where is not None:
                self.where = None
                self.inside.set()
                assert self.go_on.wait(WAIT)
            numpyro.sample("y", dist.Normal(a, 1.0), obs=y)


def mine(y=None):
    """What a user has in another cell; its sites are called as the run's are."""
    a = numpyro.sample("a", dist.Normal(0.0, 2.0))
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Normal(a, 1.0), obs=y)


def what_users_do():
    """Passes over a model in all the ways that NumPyro has for users."""
    with handlers.seed(rng_seed=1), handlers.trace() as seen, numpyro.plate("outer", 2):
        numpyro.sample("free", dist.Normal(0.0, 1.0))
        numpyro.factor("f", jnp.zeros(2))
    prior = Predictive(mine, num_samples=3)(jax.random.key(2))
    joint = log_density(mine, (np.ones(4),), {}, {"a": 0.5})[0]
    mcmc = MCMC(NUTS(mine), num_warmup=5, num_samples=5, progress_bar=False)
    mcmc.run(jax.random.key(3), np.ones(4))
    return {
        "sites": tuple(seen),
        "scales": tuple(str(m.get("scale")) for m in seen.values()),
        "free": seen["free"]["value"],
        "prior": prior["y"],
        "joint": joint,
        "draws": mcmc.get_samples()["a"],
    }


def assert_equal(found, alone):
    assert found.keys() == alone.keys()
    for name, v in alone.items():
        np.testing.assert_array_equal(found[name], v, err_msg=name)


@pytest.mark.slow
def test_a_users_model_beside_a_run_that_traces_its_own():
    alone, stack = what_users_do(), primitives._PYRO_STACK
    paused = Paused()
    model = gb.model(paused)
    paused.where = "in the run's thread"
    run = model.start(**OPTIONS)
    assert paused.inside.wait(WAIT)
    try:
        assert_equal(what_users_do(), alone)
        numpyro.handlers.scale(scale=2.0).__enter__()  # an unfinished `with` of the user's
        theirs = [type(h).__name__ for h in primitives._PYRO_STACK]
    finally:
        paused.go_on.set()
        run.wait(WAIT)
        del stack[:]
    assert theirs == ["scale"]
    assert primitives._PYRO_STACK is stack and handlers._PYRO_STACK is stack
    # and the run did not see the user's
    assert run.status == "finished" and sorted(run.draws) == ["a"]
    again = gb.model(Paused()).sample(**OPTIONS)
    np.testing.assert_array_equal(run.draws["a"], again.draws["a"])


@pytest.mark.slow
def test_every_handler_of_a_runs_thread_is_on_a_stack_of_its_own(monkeypatch):
    """Whatever a run traces: starts, sweeps, predictions, blocks by themselves."""
    astray = []
    real = primitives.Messenger.__enter__

    def entered(self):
        if not handlers_alone._owned():
            astray.append((type(self).__name__, threading.current_thread().name))
        return real(self)

    def coins(x):
        w = numpyro.sample("w", dist.Beta(1.0, 1.0))
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
        with numpyro.plate("n", len(x)):
            z = numpyro.sample("z", dist.Bernoulli(w))
            numpyro.sample("x", dist.Normal(mu * z, 1.0), obs=x)
        numpyro.sample("new", dist.Normal(mu, 1.0))

    plan = gb.model(coins, np.array([-2.0, 2.0], np.float32)).plan("Gibbs z (*) Conjugate w (*) Slice mu")
    monkeypatch.setattr(primitives.Messenger, "__enter__", entered)
    run = start(plan, draws=20, warmup=20, chains=2, seed=5).wait()
    run.time_blocks()
    assert "new" in run.draws and not astray


def test_a_model_made_inside_handlers_is_refused_and_nothing_is_held():
    with handlers.seed(rng_seed=0), handlers.trace():  # these say nothing of a model
        gb.model(mine, np.ones(4))
    with handlers.condition(data={"a": 1.0}), pytest.raises(ModelError, match=r"inside NumPyro's condition"):
        gb.model(mine, np.ones(4))
    with handlers.seed(rng_seed=0):
        run = gb.model(mine, np.ones(4)).sample(**OPTIONS)
        assert run.status == "finished"
    conditioned = gb.model(handlers.condition(mine, {"y": np.ones(4, np.float32)}))
    assert conditioned.sites["y"].role == "observed"


def test_models_are_made_while_another_thread_runs_its_own():
    """The other thread is in the midst of a pass: its handlers are waited for, or nobody's."""
    inside, ended = threading.Event(), []

    def other():
        try:
            with handlers.seed(rng_seed=0), handlers.scale(scale=5.0):
                inside.set()
                time.sleep(0.1)
                numpyro.sample("b", dist.Normal(0.0, 1.0))
            ended.append("well")
        except Exception:
            ended.append(traceback.format_exc())

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(WAIT)
    model = gb.model(mine, np.ones(4))
    thread.join()
    assert ended == ["well"], "".join(ended)
    assert float(model.density.log_joint({"a": 0.0})) == pytest.approx(
        float(log_density(mine, (np.ones(4),), {}, {"a": 0.0})[0]), rel=1e-5
    )


def test_a_stopped_or_finished_run_is_started_by_one_thread_only():
    model = gb.model(mine, np.ones(4))
    run = model.sample(**OPTIONS)
    ready, outcomes = threading.Barrier(6), []

    def go():
        ready.wait(WAIT)
        try:
            run.continue_(200)
            outcomes.append("went on")
        except GibbsiteError:
            outcomes.append("refused")

    threads = [threading.Thread(target=go) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    run.wait()
    whole = model.sample(**{**OPTIONS, "draws": run.kept.sampled.steps})
    np.testing.assert_array_equal(run.draws["a"], whole.draws["a"])
    assert outcomes.count("went on") >= 1


def test_contexts_of_the_thread_that_asks_hold_in_the_run(tmp_path):
    model = gb.model(mine, np.ones(4))
    plain = model.sample(**OPTIONS)
    with jax.threefry_partitionable(not jax.config.jax_threefry_partitionable):
        other = model.sample(**OPTIONS)
        by_hand = jax.random.normal(jax.random.key(0), (7, 3))
    assert not np.array_equal(by_hand, jax.random.normal(jax.random.key(0), (7, 3)))
    assert not np.array_equal(other.draws["a"], plain.draws["a"])
    other.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="jax_threefry_partitionable=False"):
        gb.load(tmp_path / "run", model=model)
    gb.load(tmp_path / "run")
    with jax.default_device(jax.devices()[0]), jax.numpy_rank_promotion("raise"), jax.transfer_guard("log"):
        same = model.sample(**OPTIONS)
    np.testing.assert_array_equal(same.draws["a"], plain.draws["a"])


def test_modules_that_are_imported_meanwhile_are_in_nobodys_way(monkeypatch):
    """As by a dashboard's first show while a run is traced: Python's collector runs JAX's code in the midst
    of things, where other threads have their turn."""
    count = 0

    def imports(phase, info):
        nonlocal count
        if count < 200:
            count += 1
            monkeypatch.setitem(sys.modules, f"late_{count}", types.ModuleType("late"))

    before = gc.get_threshold()
    gc.callbacks.append(imports)
    gc.set_threshold(50)
    try:
        with handlers_alone:
            assert len(primitives._PYRO_STACK) == 0
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(imports)
