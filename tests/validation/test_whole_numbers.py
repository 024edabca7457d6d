"""Whole numbers of the data in what a model computes of them: as large as they are, or refused."""

import warnings

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError
from scipy import stats

USES = {
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "jnp.square": jnp.square,
    "product": lambda x: x * x,
    "sum": lambda x: x / (1000 * x).sum(),
    "running sum": lambda x: jnp.cumsum(1000 * x),
    "running sum from the end": lambda x: jnp.cumsum((1000 * x)[::-1])[::-1],
    "all times all": lambda x: x @ x,
    "a difference": lambda x: x - x.max(),
    "product of all": lambda x: jnp.prod(x),
    "a power": lambda x: jnp.power(x, 2),
    "mean": lambda x: x.mean(),
    "decimal": lambda x: (1.0 * x) ** 2,
}


INNER = {
    "sum": lambda x: np.r_[1000 * x, (1000 * x).sum()],
    "running sum from the end": lambda x: 1000 * x.cumsum(),
}


def model(use):
    def m(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(0, 1) if use is None else dist.Normal(b + 1e-9 * use(x), 1), obs=y)

    return m


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("use", USES)
def test_they_are_as_large_as_they_are_or_refused(use, dtype):
    """The statement's mean beside that of the same decimal numbers."""
    most = min(90_000, int(np.iinfo(dtype).max))
    x = np.linspace(1, most, 40).astype(dtype)
    y = np.zeros(40)
    exact = np.asarray(USES[use](x.astype(float)), float)
    try:
        found = gb.model(model(USES[use]), x=pd.Series(x), y=y).density
    except DataError as told:
        assert "and round again" in str(told)
        limits = np.iinfo(jnp.asarray(x).dtype)
        with np.errstate(all="ignore"):
            inner = np.asarray(INNER.get(use, USES[use])(x.astype(float)), float)
        assert inner.min() < limits.min or inner.max() > limits.max
        return
    ev, loc = found.evaluator({"b": jnp.zeros(())}), found.outputs["parameters"]["y"]["loc"]
    mean = np.asarray(ev.full(loc), float)
    assert np.allclose(mean, 1e-9 * exact, rtol=1e-5)


def test_the_refusal_names_column_and_way_out():
    d = pd.DataFrame({"x": np.arange(100) * 1000, "y": 0.0})
    with pytest.raises(DataError, match=r"whole numbers of \"d\['x'\]\" come to 9.801e.*1\.0 \* d\['x'\]"):
        gb.model(lambda d: model(lambda x: x**2)(d["x"], d["y"]), d=d)


def test_new_data_are_looked_at_too():
    d = pd.DataFrame({"x": np.arange(20), "y": 0.0})
    run = gb.model(lambda d: model(lambda x: x**2)(d["x"], d["y"]), d=d).sample(draws=20, chains=1)
    with pytest.raises(DataError, match="round again"):
        run.predict(pd.DataFrame({"x": [100_000]}))


def yearly(d):
    with numpyro.plate("year", 3):
        u = numpyro.sample("u", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(u[d["year"] - 2019], 1), obs=d["y"])


def test_an_index_that_is_computed_below_zero_is_told():
    d = pd.DataFrame({"year": [2019, 2020, 2021, 2020], "y": 0.0})
    model_ = gb.model(yearly, d=d)
    assert not any("from the end" in told for told in model_.notes)
    run = model_.sample(draws=20, chains=1)
    with pytest.raises(DataError, match="computed from \"d\\['year'\\]\" is -1 at"):
        run.predict(pd.DataFrame({"year": [2020, 2018]}))
    early = gb.model(yearly, d=d.assign(year=[2018, 2019, 2020, 2020]))
    assert any("is -1 at [0]" in told for told in early.notes)


def pairs_of():
    k = numpyro.sample("k", dist.Binomial(100_000, 0.5))
    numpyro.sample("y", dist.Normal(k * (k - 1) / 2 / 1e9, 0.01), obs=1.25)


def pairs_in_decimals():
    k = 1.0 * numpyro.sample("k", dist.Binomial(100_000, 0.5))
    numpyro.sample("y", dist.Normal(k * (k - 1) / 2 / 1e9, 0.01), obs=1.25)


def few_of():
    k = numpyro.sample("k", dist.Poisson(40.0))
    numpyro.sample("y", dist.Normal(k * (k - 1) / 2, 30.0), obs=700.0)


@pytest.mark.slow
def test_whole_numbers_of_latents_that_begin_again_are_told():
    """`k` stopped where its square is 2^31, "converged"."""
    run = gb.model(pairs_of).sample(draws=200, chains=2, seed=0)
    assert not run.verdict.ok and "whole numbers of k come to 2.14" in str(run.verdict)
    exact = stats.binom.logpmf(np.arange(100_001), 100_000, 0.5)
    k = np.arange(100_001.0)
    exact = exact + stats.norm.logpdf(1.25, k * (k - 1) / 2e9, 0.01)
    weights = np.exp(exact - exact.max()) / np.exp(exact - exact.max()).sum()
    run = gb.model(pairs_in_decimals).sample(draws=1000, chains=4, seed=0)
    assert run.verdict.ok
    assert abs(run.draws["k"].mean() - weights @ k) < 5 * 124 / np.sqrt(1000)
    assert gb.model(few_of).sample(draws=500, chains=4, seed=0).verdict.ok


@pytest.mark.slow
def test_counts_that_are_cut_where_they_are_drawn_are_told():
    def counts(e, y):
        rate = numpyro.sample("rate", dist.Gamma(1, 1e-6))
        with numpyro.plate("rows", len(e)):
            numpyro.sample("y", dist.Poisson(rate * e), obs=y)

    y = np.random.default_rng(0).poisson(1e6, 20)
    run = gb.model(counts, np.ones(20), y).sample(draws=100, chains=1, seed=0)
    with pytest.warns(UserWarning, match="y comes to 2147483647, where NumPyro's whole numbers end"):
        found = run.predict(e=np.array([1.0, 1e4]), y=None)
    np.testing.assert_allclose(found.expected["y"].mean((0, 1)), [1e6, 1e10], rtol=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.predict(e=np.array([1.0, 100.0]), y=None)


POWERS = {
    "of two": lambda t, k: 2 ** jnp.arange(3),
    "dilutions": lambda t, k: 1 / 2 ** t["d"],
    "of ten": lambda t, k: 10 ** t["d"],
    "bits": lambda t, k: (t["d"] > 3) * 2 ** jnp.arange(8),
    "a latent's": lambda t, k: 2**k,
    "a latent by itself": lambda t, k: k**k,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("use", POWERS)
def test_squares_that_a_power_does_not_need_are_no_overflow(use):
    """JAX squares as often as an exponent has bits, and drops what it does not need: `2**jnp.arange(3)` was
    refused."""

    def powers(t):
        k = numpyro.sample("k", dist.DiscreteUniform(0, 5))
        mean = 1e-9 * jnp.sum(1.0 * POWERS[use](t, k)) + k
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=3.0)

    run = gb.model(powers, pd.DataFrame({"d": np.arange(8)})).sample(draws=500, chains=4, seed=0)
    assert run.verdict.ok, run.verdict


def test_powers_that_are_too_large_are_refused():
    def powers(t):
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a * 10 ** (t["d"] + 3), 1.0), obs=t["y"])

    with pytest.raises(DataError, match="whole numbers of"):
        gb.model(powers, pd.DataFrame({"d": np.arange(8), "y": 0.0}))


def test_casts_to_narrow_types_are_told():
    def cast():
        k = numpyro.sample("k", dist.Poisson(300.0))
        numpyro.sample("y", dist.Normal(k.astype(jnp.int8), 100.0), obs=0.0)

    assert "whole numbers of k come to" in str(gb.model(cast).sample(draws=50, chains=2, seed=0).verdict)
