"""What is looked at of an ordinary model is looked at of every structure, also of one without draws."""

import random

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ArgumentError, DataError, ModelError
from numpyro import deterministic, handlers, plate, sample
from scipy import integrate, stats

THREE = np.array([0.0, 1.0, 2.0])
GAPS = np.array([1.0, np.nan, 2.0])


def coin():
    return sample("c", dist.Bernoulli(0.5))


def observed(loc, scale, y):
    with plate("n", 3):
        sample("y", dist.Normal(loc, scale), obs=y)


def beyond_a_site(x, y):
    mu = 0.0
    if coin():
        with plate("k", 2):
            mu = sample("a", dist.Normal(0, 1))[x]
    observed(mu, 1.0, y)


def beyond_a_constant(x, y):
    observed(jnp.array([0.0, 1.0])[x] if coin() else 0.0, 1.0, y)


def covariate(x, y):
    observed(x if coin() else sample("m", dist.Normal(0, 1)), 1.0, y)


def gap(x, y):
    observed(*((1.0, 1.0) if coin() else (0.0, 2.0)), y)


def negative(x, y):
    observed(0.0, x.min() if coin() else sample("s", dist.HalfNormal(1)), y)


REFUSED = {
    beyond_a_site: (
        np.array([0, 1, 5]),
        THREE,
        "where c = 1: 'x' runs from 0 to 5 and picks from an axis of 2",
    ),
    beyond_a_constant: (np.array([0, 1, 5]), THREE, "'x' runs from 0 to 5 and picks from an axis of 2"),
    covariate: (GAPS, THREE, "where c = 1: 'x' holds 1 NaN"),
    gap: (0.0, GAPS, "the data of 'y' .* hold 1 NaN"),
    negative: (np.array([-1.0, 2.0]), THREE, "where c = 1: 'scale' of 'y' .* is -1, and Normal takes"),
}


@pytest.mark.parametrize("of", REFUSED, ids=lambda of: of.__name__)
def test_what_cannot_be_is_refused_with_its_structure(of):
    """Runs "converged" to what JAX reads beyond an end, stood still, or ended in NumPyro's own error."""
    x, y, told = REFUSED[of]
    with pytest.raises(DataError, match=told):
        model = gb.model(of, x, y)
        for c in (0, 1):
            model.structure(c=c)


def test_a_gap_is_masked_where_nothing_is_left_to_draw():
    def masked(y):
        c = coin()
        with plate("n", 3), handlers.mask(mask=~jnp.isnan(y)):
            sample("y", dist.Normal(1.0, 1.0) if c else dist.Normal(0.0, 2.0), obs=y)

    run = gb.model(masked, GAPS).sample(draws=2000, warmup=100, chains=2, seed=0)
    one, other = (stats.norm(*at).pdf([1.0, 2.0]).prod() for at in ((1.0, 1.0), (0.0, 2.0)))
    assert run.draws["c"].mean() == pytest.approx(one / (one + other), abs=0.04)


def test_data_that_are_impossible_in_every_structure_are_refused():
    def counts(y):
        c = coin()
        s = sample("s", dist.Normal(0, 1)) if c else 1.0
        with plate("n", 2):
            sample("y", dist.Poisson(jnp.exp(s)), obs=y)

    with pytest.raises(DataError, match=r"impossible in every structure; where c = 0: .* hold 1\.5 at \[0\]"):
        gb.model(counts, np.array([1.5, 2.0])).sample(draws=10, chains=1)


def test_an_element_that_a_discrete_site_switches_on_is_looked_at():
    """At 0, what is read counts for nothing; at 1 it does."""

    def model(x, y):
        observed(jnp.array([0.0, 1.0])[x] * coin(), 1.0, y)

    with pytest.raises(DataError, match="picks from an axis of 2"):
        gb.model(model, np.array([0, 1, 5]), THREE)


def test_what_decides_may_be_a_scale_and_be_kept():
    """NumPyro's look at parameters met what decides, and a `deterministic` has no arguments."""

    def model(y):
        s = sample("s", dist.Gamma(2, 2))
        mu = 1.0 if s > 1 else 0.0
        deterministic("side", 2.0 * s)
        sample("y", dist.Normal(mu, s), obs=y)

    run = gb.model(model, 1.5).sample(draws=2000, warmup=300, chains=2, seed=0)

    def weight(s):
        return stats.gamma(2, scale=0.5).pdf(s) * stats.norm(float(s > 1), s).pdf(1.5)

    above, below = (integrate.quad(weight, *ends)[0] for ends in ((1, 20), (0, 1)))
    told = next(s for s in run.structures if s.name == "s? = 1")
    assert abs(told.probability - above / (above + below)) < 4 * told.error + 0.01
    np.testing.assert_allclose(run.draws["side"], 2 * run.draws["s"], rtol=1e-5)


def test_what_is_too_much_is_told_before_a_run():
    def outliers(y):
        with plate("n", 7):
            o = sample("o", dist.Bernoulli(0.2))
        for i in range(7):
            if o[i]:
                sample(f"y{i}", dist.Normal(0.0, 5.0), obs=y[i])
            else:
                sample(f"y{i}", dist.Normal(0.0, 0.5), obs=y[i])

    with pytest.raises(ModelError, match=r"array of shape \(7,\): there are more than 64 combinations"):
        gb.model(outliers, np.zeros(7))

    def one_by_one(y):
        for i in range(7):
            o = sample(f"o{i}", dist.Bernoulli(0.2))
            sample(f"y{i}", dist.Normal(0.0, 5.0 if o else 0.5), obs=y[i])

    assert (
        "perhaps 128 of them, and a run that comes to more than 100 ends"
        in gb.model(one_by_one, THREE[[0] * 7]).notes[0]
    )


def test_random_numbers_of_one_branch_are_told():
    def model(y):
        sample("y", dist.Normal(random.random() if coin() else 0.0, 1.0), obs=y)

    assert "takes numbers from np.random or Python's random" in gb.model(model, 1.0).notes[-1]


@pytest.mark.parametrize(
    ("option", "told"), [("keep", "which those of one structure have"), ("tune", "'warmup'")]
)
def test_options_of_other_runs_are_told(option, told):
    model = gb.model(lambda y: sample("y", dist.Normal(1.0 if coin() else 0.0, 1.0), obs=y), 1.0)
    with pytest.raises(ArgumentError, match=told):
        model.sample(**{option: 10})
