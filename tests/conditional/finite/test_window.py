"""Integers without end: one update leaves their conditional as it is, however wide that is."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.finite.window import window_draw
from gibbsite.errors import ScheduleError
from scipy import stats

N = 20_000
K = np.arange(4_000)


def counted(y):
    n = numpyro.sample("k", dist.Poisson(30.0))
    numpyro.sample("y", dist.Binomial(n, 0.4), obs=y)


def wide(y):
    k = numpyro.sample("k", dist.Geometric(0.005))
    numpyro.sample("y", dist.Poisson(0.01 * k), obs=y)


def overdispersed(y):
    k = numpyro.sample("k", dist.NegativeBinomial2(900.0, 2.0))
    numpyro.sample("y", dist.Normal(k, 30.0), obs=100.0 * y)


TRUTH = {
    counted: stats.poisson.logpmf(K, 30) + stats.binom.logpmf(9, K, 0.4),
    wide: stats.geom.logpmf(K + 1, 0.005) + stats.poisson.logpmf(9, 0.01 * K),
    overdispersed: stats.nbinom.logpmf(K, 2, 2 / 902) + stats.norm.logpdf(900, K, 30),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("fn", TRUTH, ids=lambda f: f.__name__)
def test_the_conditional_stays_as_it_is(fn):
    """From exact draws, one update: the counts in 20 bins of equal probability; and it moves."""
    p = np.exp(TRUTH[fn] - TRUTH[fn].max())
    p /= p.sum()
    start = np.random.default_rng(1).choice(K, N, p=p)
    model = gb.model(fn, 9)  # a number of Python's
    assert model.schedule().text == "Window k" and model.conditional("k").kind == "none"
    draw = window_draw(model.density, "k")
    keys = jax.random.split(jax.random.key(0), N)
    data = model.execution.inputs["data"]
    after = np.asarray(
        jax.jit(jax.vmap(lambda k, z: draw.update(k, {"k": z}, data)))(
            keys, jnp.asarray(start, model.sites["k"].dtype)
        )
    )
    edges = np.unique(np.searchsorted(np.cumsum(p), np.arange(1, 20) / 20))
    found = np.bincount(np.searchsorted(edges, after), minlength=len(edges) + 1)
    expected = np.diff(np.concatenate([[0], np.cumsum(p)[edges], [1]]))
    assert stats.chisquare(found, N * expected / expected.sum()).pvalue > 1e-4
    assert abs(np.corrcoef(start, after)[0, 1]) < 0.6


def coupled(y):
    k = numpyro.sample("k", dist.Poisson(2.0).expand([3]))
    numpyro.factor("near", -0.5 * ((k[1:] - k[:-1]) ** 2).sum())
    numpyro.sample("y", dist.Poisson(1.0 + k), obs=jnp.array([0, 3, 4]))


def totalled(y):
    """Counts of which parts are known, and a count out of their weighted total."""
    with numpyro.plate("i", 3):
        k = numpyro.sample("k", dist.Poisson(2.0))
        numpyro.sample("part", dist.Binomial(k, 0.5), obs=jnp.array([0, 1, 2]))
    numpyro.sample("y", dist.Binomial(k.sum(), 0.4), obs=4)
    numpyro.sample("w", dist.Normal(jnp.dot(jnp.array([1.0, -2.0, 0.5]), k), 2.0), obs=0.0)


MET = {
    coupled: lambda k: (
        stats.poisson.logpmf([0, 3, 4], 1.0 + k).sum(1) - 0.5 * (np.diff(k, axis=1) ** 2).sum(1)
    ),
    totalled: lambda k: (
        stats.binom.logpmf([0, 1, 2], k, 0.5).sum(1)
        + stats.binom.logpmf(4, k.sum(1), 0.4)
        + stats.norm.logpdf(k @ [1.0, -2.0, 0.5], 0, 2)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fn", [pytest.param(f, marks=pytest.mark.slow) if f is totalled else f for f in MET])
def test_elements_that_meet_go_by_colours_or_one_by_one(fn):
    k = np.stack(np.meshgrid(*[np.arange(14)] * 3, indexing="ij"), -1).reshape(-1, 3)
    logp = stats.poisson.logpmf(k, 2).sum(1) + MET[fn](k)
    p = np.exp(logp - logp.max())
    p /= p.sum()
    count = N // 20  # a step looks at all values of every element
    start = k[np.random.default_rng(2).choice(len(k), count, p=p)]
    model = gb.model(fn, 0)
    assert model.schedule().text == "Window k"
    draw = window_draw(model.density, "k")
    keys = jax.random.split(jax.random.key(1), count)
    update = jax.jit(jax.vmap(lambda key, z: draw.update(key, {"k": z}, ())))
    after = np.asarray(update(keys, jnp.asarray(start, jnp.int32)))
    for statistic in (lambda v: v, np.square, lambda v: v * np.roll(v, 1, axis=1)):
        mean = p @ statistic(k)
        sd = np.sqrt(p @ (statistic(k) - mean) ** 2)
        assert (np.abs(statistic(after).mean(0) - mean) < 4.5 * sd / np.sqrt(count)).all()


def thinned():
    n = numpyro.sample("n", dist.Poisson(4.0))
    k = numpyro.sample("k", dist.Binomial(n, 0.3))
    numpyro.sample("x", dist.Normal(k, 1.0), obs=2.0)


@pytest.mark.slow
def test_a_count_out_of_one_without_end():
    n, k = (v.ravel() for v in np.meshgrid(np.arange(25), np.arange(25), indexing="ij"))
    p = stats.poisson.pmf(n, 4) * stats.binom.pmf(k, n, 0.3) * stats.norm.pdf(2, k, 1)
    p /= p.sum()
    start = np.random.default_rng(3).choice(len(p), N, p=p)
    model = gb.model(thinned)
    draws = {s: window_draw(model.density, s) for s in ("n", "k")}

    def sweep(key, n, k):
        one, two = jax.random.split(key)
        n = draws["n"].update(one, {"n": n, "k": k}, ())
        return n, draws["k"].update(two, {"n": n, "k": k}, ())

    keys = jax.random.split(jax.random.key(2), N)
    values = (jnp.asarray(v[start], jnp.int32) for v in (n, k))
    after = [np.asarray(v) for v in jax.jit(jax.vmap(sweep))(keys, *values)]
    assert (after[1] <= after[0]).all()
    for f in (lambda n, k: n, lambda n, k: k, lambda n, k: n * k, lambda n, k: n**2, lambda n, k: n == k):
        mean = p @ f(n, k)
        assert abs(f(*after).mean() - mean) < 4.5 * np.sqrt(p @ (f(n, k) - mean) ** 2 / N)
    assert abs(np.corrcoef(n[start], after[0])[0, 1]) < 0.6


@pytest.mark.slow
def test_what_has_no_window_says_why():
    def model():
        numpyro.sample("z", dist.Bernoulli(0.3))
        k = numpyro.sample("k", dist.Poisson(2.0).expand([3]))
        numpyro.sample("x", dist.Normal(jnp.sort(k)[1], 1.0), obs=2.0)

    m = gb.model(model)
    with pytest.raises(ScheduleError, match="coupled without a pattern"):
        m.schedule("Window k (*) Gibbs z")
    with pytest.raises(ScheduleError, match="table of all its values"):
        m.schedule("Window z (*) RandomWalk k")
    assert "RandomWalk k" in m.schedule().text
