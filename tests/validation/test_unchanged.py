"""What a model reads and nobody can capture: a model that became another by it answers no questions."""

import collections
import dataclasses
import functools
import sys
import types

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError
from gibbsite.inputs.live import live

K = 2.0
Y = np.random.default_rng(0).normal(1, 1, 20)


@dataclasses.dataclass
class Setting:
    k: float = 2.0


class Scaled:
    k = 2.0

    @staticmethod
    def by(a):
        return a * K

    def __call__(self, a):
        return a * self.k

    def model(self):
        like(numpyro.sample("a", dist.Normal(0, 5)) * self.k)


def like(mean):
    with numpyro.plate("n", len(Y)):
        numpyro.sample("y", dist.Normal(mean, 1), obs=Y)


def prior():
    return numpyro.sample("a", dist.Normal(0, 5))


@jax.vmap
def rows(x):
    return x * K


@jax.jit
def fast(x):
    return x * K


@functools.lru_cache
def kept():
    return K


@pytest.fixture
def others(monkeypatch):
    """What is read, by name, and how each becomes another."""
    module = types.ModuleType("of_the_user")
    module.K, module.__file__ = 2.0, __file__
    monkeypatch.setitem(sys.modules, "of_the_user", module)
    held = {
        "setting": Setting(),
        "namespace": types.SimpleNamespace(k=2.0),
        "ordered": collections.OrderedDict(k=2.0),
        "listed": {"k": 2.0},
        "module": module,
        "scaled": Scaled(),
    }

    def change():
        monkeypatch.setitem(globals(), "K", 20.0)
        held["setting"].k = held["namespace"].k = module.K = 20.0
        held["ordered"]["k"] = held["listed"]["k"] = 20.0
        monkeypatch.setattr(Scaled, "k", 20.0)
        kept.cache_clear()

    kept.cache_clear()
    return types.SimpleNamespace(**held), change


def models(held):
    setting, namespace, ordered, listed = held.setting, held.namespace, held.ordered, held.listed
    module, scaled = held.module, held.scaled

    def by_append():
        found = []
        found.append(prior())
        like(found[0] * listed["k"])

    caught = {
        "vmap": lambda: like(rows(jnp.ones(len(Y)) * prior())),
        "jit": lambda: like(fast(prior())),
        "plain": lambda: like(prior() * K),
        "ordered": lambda: like(prior() * ordered["k"]),
    }
    told = {
        "cache": lambda: like(prior() * kept()),
        "dataclass": lambda: like(prior() * setting.k),
        "namespace": lambda: like(prior() * namespace.k),
        "a container beside one that changes": by_append,
        "module": lambda: like(prior() * module.K),
        "static method": lambda: like(Scaled.by(prior())),
        "object": lambda: like(scaled(prior())),
        "method": scaled.model,
    }
    return caught, told


@pytest.mark.slow
def test_draws_are_put_into_no_other_program(others):
    held, change = others
    caught, told = models(held)
    made = {n: gb.model(f) for n, f in (caught | told).items()}
    for name, model in made.items():
        assert bool(live(model.fn)) == (name in told), name
    runs = {n: m.sample(draws=30, warmup=30, chains=1, seed=0) for n, m in made.items()}
    before = {n: r.predict(seed=1).draws["y"] for n, r in runs.items()}
    change()
    for name in caught:
        assert np.array_equal(runs[name].predict(seed=1).draws["y"], before[name]), name
    for name in told:
        for ask in (runs[name].predict, runs[name].elpd, made[name].predict):
            with pytest.raises(ModelError, match="is another than when it was made"):
                ask()


def test_what_has_not_changed_goes_on(others):
    held, _ = others
    for name, fn in models(held)[1].items():
        run = gb.model(fn).sample(draws=30, warmup=30, chains=1, seed=0)
        assert run.predict().draws["y"].shape == (1, 30, 20), name
        assert np.isfinite(run.elpd().elpd), name


def test_a_model_that_is_another_each_time_is_told_where_it_is_made_and_goes_on():
    counts = types.SimpleNamespace(made=0)

    def counting():
        counts.made += 1
        like(prior() + 1e-3 * counts.made)

    run = gb.model(counting).sample(draws=30, warmup=30, chains=1, seed=0)
    assert run.predict().draws["y"].shape == (1, 30, 20)


@pytest.mark.slow
def test_arguments_are_those_that_were_given():
    """Arrays in containers were read again after they had been changed."""
    x = np.full(20, 2.0)
    Pair = collections.namedtuple("Pair", "x")
    structured = np.array([(2.0,)] * 20, dtype=[("x", float)])
    cases = [
        ([x.copy()], lambda g: g[0], lambda g: g[0].__imul__(10)),
        ((x.copy(),), lambda g: g[0], lambda g: g[0].__imul__(10)),
        (Pair(x.copy()), lambda g: g.x, lambda g: g.x.__imul__(10)),
        ({"a": {"x": x.copy()}}, lambda g: g["a"]["x"], lambda g: g["a"]["x"].__imul__(10)),
        (collections.OrderedDict(x=x.copy()), lambda g: g["x"], lambda g: g.update(x=10 * x)),
        (structured, lambda g: g["x"], lambda g: g["x"].__imul__(10)),
        (np.ma.array(x.copy()), lambda g: g, lambda g: g.__imul__(10)),
    ]
    for given, get, change in cases:
        run = gb.model(lambda g, get=get: like(prior() * get(g)), given).sample(draws=20, chains=1, seed=0)
        before = run.predict(seed=1).draws["y"]
        change(given)
        assert np.array_equal(run.predict(seed=1).draws["y"], before)
    held = types.SimpleNamespace(y=Y.copy())

    def of_object(held):
        a = prior()
        numpyro.sample("y", dist.Normal(a, 1), obs=held.y)

    run = gb.model(of_object, held).sample(draws=40, chains=1, seed=0)
    held.y += 10
    with pytest.raises(ModelError, match=r"what it reads has changed \(held\)"):
        run.elpd()


@pytest.mark.slow
def test_refits_and_structures_are_looked_at_too():
    setting = Setting()

    def fitted():
        like(prior() * setting.k)

    def either():
        a = prior()
        like(a * setting.k if numpyro.sample("on", dist.Bernoulli(0.5)) == 1 else a)

    one, several = (gb.model(f).sample(draws=40, warmup=40, chains=2, seed=0) for f in (fitted, either))
    assert np.isfinite(one.elpd().elpd) and several.predict().draws["y"].shape[-1] == 20
    setting.k = 20.0  # what was answered is kept, and a refit is of the model as it was
    for ask in (lambda: one.elpd(kfold=2), lambda: one.elpd(refit=True), several.predict):
        with pytest.raises(ModelError, match="is another than when it was made"):
            ask()
