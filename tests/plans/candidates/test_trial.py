"""What is counted and tried, against what is known."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws import concave_convex as bent
from gibbsite.conditional.draws.passes import looped
from gibbsite.conditional.factors import root
from gibbsite.conditional.linear import joint
from gibbsite.plans.candidates.promise import counted
from gibbsite.plans.candidates.trial import Sweep, integrated_time, times_of


def work_of(fn, *arguments):
    return counted(fn, *arguments).work


def autoregressive(rho, chains=64, length=400, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty((chains, length))
    x[:, 0] = rng.normal(size=chains)
    for i in range(1, length):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1 - rho**2) * rng.normal(size=chains)
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_times_of_an_autoregression_are_the_known_ones(rho):
    times = [integrated_time(autoregressive(rho, seed=s)) for s in range(8)]
    error = np.std(times) / np.sqrt(8) + 0.06  # the sequence stops above 0: a bias of some hundredths
    assert abs(np.mean(times) - (1 + rho) / (1 - rho)) < 4.5 * error


def test_chains_that_have_not_met_and_what_never_moves_are_slow():
    apart = autoregressive(0.0, 16, 100) + 10 * np.arange(16)[:, None]
    assert integrated_time(apart) > 40
    assert integrated_time(np.ones((16, 100))) == 1600
    assert integrated_time(np.full((16, 100), np.nan)) == 1600


def two(rho):
    """A bivariate Normal drawn in turn forgets by rho² a sweep."""
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("b", dist.Normal(rho * a, np.sqrt(1 - rho**2)))
    numpyro.factor("seen", 0.0 * a)


def test_a_trial_finds_the_time_of_a_bivariate_normal_drawn_in_turn():
    model = gb.model(two, 0.9)
    updates = model.schedule("Conjugate a (*) Conjugate b").updates
    times = times_of(Sweep(model.execution, updates), model.execution.inputs, ("a", "b"))
    truth = (1 + 0.81) / (1 - 0.81)  # of a and of b alike
    # 1600 draws are some 168 effective: times are known within a sixth or so
    assert all(truth / 1.6 < t < 1.6 * truth for t in times.values())
    again = times_of(Sweep(model.execution, updates), model.execution.inputs, ("a", "b"))
    assert again == times  # the same seed, the same schedule


def test_a_trial_takes_discrete_sites_too():
    def mixture(x):
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
        with numpyro.plate("n", len(x)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)

    model = gb.model(mixture, np.r_[np.zeros(20), 9 * np.ones(20)].astype(np.float32))
    sweep = Sweep(model.execution, model.schedule("Gibbs z (*) Conjugate mu").updates)
    starts = sweep.starts(0, 5)
    assert starts["z"].shape == (5, 40) and set(np.unique(starts["z"])) == {0, 1}
    assert np.isfinite(list(times_of(sweep, model.execution.inputs, ("mu",)).values())).all()
    with pytest.raises(ValueError, match="not an exact draw"):
        Sweep(model.execution, model.schedule("Gibbs z (*) NUTS mu").updates)


def test_work_grows_with_elements_arithmetic_and_passes():
    vector, matrix = jnp.ones(100), jnp.ones((50, 50))
    once = work_of(lambda x: x + 1, vector)
    assert once == 100 and work_of(lambda x: (x + 1) * 2, vector) == 200
    assert work_of(jnp.exp, vector) > once
    product = work_of(lambda a: a @ a, matrix)
    assert work_of(lambda a: a @ a @ a, matrix) == pytest.approx(2 * product)
    loop = work_of(lambda x: jax.lax.scan(lambda c, _: (c @ matrix, None), x, None, 10)[0], jnp.ones(50))
    longer = work_of(lambda x: jax.lax.scan(lambda c, _: (c @ matrix, None), x, None, 20)[0], jnp.ones(50))
    assert longer / loop == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("mapped", [False, True])
def test_work_of_a_loop_that_ends_by_chance_is_that_of_the_passes_told(mapped):
    def work(passes, loop=looped):
        def fn(x):
            return loop(passes, lambda c: jnp.sum(c) < 1e6, lambda c: c * 2 + 1, x)

        return work_of(jax.vmap(fn) if mapped else fn, jnp.ones((3, 100)))

    none, one, four = work(0), work(1), work(4)
    assert four - none == pytest.approx(4 * (one - none)) and one - none >= 600
    untold = work(0, lambda _, *loop: jax.lax.while_loop(*loop))
    assert untold == work(2)


def test_draws_by_rejection_take_work_by_the_rounds_of_their_elements():
    """A truncated scale's program holds a sampler of 32 pieces that a Normal's data never ask for: counted
    as if it ran, the fifty scales took three million operations, and 26 microseconds."""

    def scales(y):
        s = numpyro.sample("s", dist.Uniform(0, 5).expand([y.shape[1]]))
        numpyro.sample("y", dist.Normal(0, s), obs=y)

    model = gb.model(scales, np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32))
    sweep = Sweep(model.execution, model.schedule("Conjugate s").updates)
    state = {"s": jax.ShapeDtypeStruct((50,), np.float32)}
    assert 1e4 < work_of(sweep, jax.random.key(0), state, model.execution.inputs) < 2e5


def steps(y):
    """A walk whose drift and scale are drawn, seen under noise: joint draws, and scales on an interval."""
    drift = numpyro.sample("drift", dist.Normal(0, 1.0))
    wild, blurred = numpyro.sample("wild", dist.Uniform(0, 3)), numpyro.sample("blurred", dist.Uniform(0, 3))
    step = numpyro.sample("step", dist.Normal(drift, wild).expand([len(y)]))
    numpyro.sample("y", dist.Normal(jnp.cumsum(step), blurred), obs=y)


@pytest.mark.slow
def test_loops_that_are_seldom_wanted_are_not_taken(monkeypatch):
    seen = []

    def counting(told, going, body, start):
        taken, end = jax.lax.while_loop(
            lambda c: going(c[1]), lambda c: (c[0] + 1, body(c[1])), (jnp.zeros((), jnp.int32), start)
        )
        if told == 0:
            jax.debug.callback(lambda n: seen.append(int(n)), taken)
        return end

    for module in (bent, root, joint):
        monkeypatch.setattr(module, "looped", counting)
    rng = np.random.default_rng(0)
    model = gb.model(steps, np.cumsum(rng.normal(size=9)) + rng.normal(size=9))
    text = "Conjugate [drift step] (*) Conjugate wild (*) Conjugate blurred"
    sweep = Sweep(model.execution, model.schedule(text).updates)
    state = {n: jnp.asarray(v[0]) for n, v in sweep.starts(0, 1).items()}
    step = jax.jit(sweep)
    for key in jax.random.split(jax.random.key(0), 100):
        state = step(key, state, model.execution.inputs)
    jax.effects_barrier()
    assert len(seen) >= 300 and np.mean(seen) < 0.1
