"""What an error advises works when it is followed."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError
from numpyro.contrib.control_flow import scan


def test_a_length_that_is_drawn():
    def ranged(y):
        k = numpyro.sample("k", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("y", dist.Normal(sum(1.0 for _ in range(int(k))), 1.0), obs=y)

    assert "3 structures" in gb.model(ranged, 1.0).notes[0]  # and as one array, drawn exactly:

    def masked(y):
        k = numpyro.sample("k", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("y", dist.Normal(jnp.where(jnp.arange(3) < k, 1.0, 0.0).sum(), 1.0), obs=y)

    assert gb.model(masked, 1.0).conditional("k").kind == "finite"


def test_a_function_that_is_drawn():
    several = [lambda m: m, lambda m: -m]

    def picked(y):
        k = numpyro.sample("k", dist.Bernoulli(0.5))
        m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(several[k](m), 1.0), obs=y)

    assert gb.model(picked, 1.0).structure(k=1).density.latents == ("m",)

    def switched(y):
        k = numpyro.sample("k", dist.Bernoulli(0.5))
        m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(jax.lax.switch(k, several, m), 1.0), obs=y)

    model = gb.model(switched, 1.0)
    assert model.conditional("k").kind == "finite"
    state = {"k": 1, "m": 0.5}
    expected = np.log(0.5) + dist.Normal(0, 1).log_prob(0.5) + dist.Normal(-0.5, 1).log_prob(1.0)
    assert np.allclose(model.density.log_joint(state), expected, rtol=1e-5)


def test_a_function_that_is_called_twice():
    def level():
        return numpyro.sample("std", dist.Normal(0, 1))

    def twice(y):
        numpyro.sample("y", dist.Normal(level() + level(), 1.0), obs=y)

    with pytest.raises(gb.GibbsiteError, match=r"numpyro\.handlers\.scope\(prefix=…\)"):
        gb.model(twice, 1.0)

    def scoped(y):
        with numpyro.handlers.scope(prefix="a"):
            a = level()
        with numpyro.handlers.scope(prefix="b"):
            b = level()
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)

    assert set(gb.model(scoped, 1.0).density.latents) == {"a/std", "b/std"}


def test_draws_in_an_array_of_numpy():
    def inplace(y):
        a = np.zeros(2)
        for i in range(2):
            a[i] = numpyro.sample(f"a{i}", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a.sum(), 1.0), obs=y)

    with pytest.raises(gb.GibbsiteError, match=r"array of NumPy .*a = a\.at\[i\]\.set"):
        gb.model(inplace, 1.0)

    def kept(y):
        a = jnp.zeros(2)
        for i in range(2):
            a = a.at[i].set(numpyro.sample(f"a{i}", dist.Normal(0, 1)))
        numpyro.sample("y", dist.Normal(a.sum(), 1.0), obs=y)

    assert gb.model(kept, 1.0).density.latents == ("a0", "a1")


def test_a_refusal_of_what_the_prior_draws_names_the_way_on():
    def negative(y):
        scale = numpyro.sample("scale", dist.Normal(0, 1).expand([4]).to_event(1))
        numpyro.sample("y", dist.Normal(jnp.zeros(4), scale).to_event(1), obs=y)

    with pytest.raises(gb.GibbsiteError, match="`check_values=False` leaves this look out"):
        gb.model(negative, np.ones(4))
    assert gb.model(negative, np.ones(4), check_values=False).density.latents == ("scale",)


def test_counts_of_a_restaurant_in_an_array_of_numpy():
    """NumPy's function, then NumPy's array: each error names the way past it, and the last program runs."""

    def restaurant(y, where, counted):
        n = len(y)
        alpha = numpyro.sample("alpha", dist.Gamma(1.0, 1.0))
        counts = np.zeros(n)
        for i in range(n):
            weights = where(np.arange(n) == (counts > 0).sum(), alpha, counts)
            z = numpyro.sample(f"z{i}", dist.Categorical(weights / weights.sum()))
            counts = counted(counts, z)
            numpyro.sample(f"y{i}", dist.Normal(z, 1.0), obs=y[i])

    def stored(counts, z):
        counts[z] += 1
        return counts

    def kept(counts, z):
        counts = jnp.asarray(counts)
        return counts.at[z].add(1)

    y = np.zeros(3)
    with pytest.raises(gb.GibbsiteError, match=r"of 'a', .* `jnp\.where\(…\)`"):
        gb.model(restaurant, y, lambda c, a, b: np.where(np.arange(len(b)) == c, a, b), stored)
    with pytest.raises(gb.GibbsiteError, match=r"jnp\.asarray\(counts\)`, .*counts\.at\[z\]\.add\(…\)`"):
        gb.model(restaurant, y, jnp.where, stored)
    model = gb.model(restaurant, y, jnp.where, kept)
    assert all(model.conditional(f"z{i}").kind == "finite" for i in range(3))


def test_a_row_of_an_array_of_numpy():
    def rows(y):
        a = np.zeros((2, 3))
        a[0] = numpyro.sample("a", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(a.sum(0), 1.0), obs=y)

    with pytest.raises(gb.GibbsiteError, match=r"`a = jnp\.asarray\(a\)`, .* `a = a\.at\[0\]\.set\(…\)`"):
        gb.model(rows, np.zeros(3))


def latent():
    return numpyro.sample("a", dist.Beta(2.0, 2.0))


LISTS = {
    "probabilities": (
        lambda: dist.Categorical(probs=[0.2, 0.8]),
        lambda: dist.Categorical(probs=jnp.array([0.2, 0.8])),
    ),
    "of latents": (
        lambda: dist.Bernoulli([latent(), 0.5]),
        lambda: dist.Bernoulli(jnp.array([latent(), 0.5])),
    ),
    "a tuple": (
        lambda: dist.Normal((0.0, 1.0), 1.0),
        lambda: dist.Normal(jnp.array((0.0, 1.0)), 1.0),
    ),
    "a matrix": (
        lambda: dist.MultivariateNormal(jnp.zeros(2), [[1.0, 0.0], [0.0, 1.0]]),
        lambda: dist.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.0], [0.0, 1.0]])),
    ),
    "of parts": (
        lambda: dist.MixtureSameFamily(dist.Categorical(probs=[0.5, 0.5]), dist.Normal(jnp.zeros(2), 1.0)),
        lambda: dist.MixtureSameFamily(
            dist.Categorical(probs=jnp.array([0.5, 0.5])), dist.Normal(jnp.zeros(2), 1.0)
        ),
    ),
}


@pytest.mark.parametrize("case", LISTS)
def test_lists_that_stand_for_arrays(case):
    listed, arrayed = LISTS[case]
    with pytest.raises(gb.GibbsiteError, match=r"no array.*`jnp.array"):
        gb.model(lambda: numpyro.sample("x", listed()))
    assert "x" in gb.model(lambda: numpyro.sample("x", arrayed())).sites


def test_a_list_from_which_an_array_of_places_picks():
    def model(of):
        z = numpyro.sample("z", dist.Bernoulli(0.3).expand([3]))
        mu = of([0.0, 3.0])
        numpyro.sample("y", dist.Normal(mu[z], 1), obs=jnp.ones(3))

    with pytest.raises(gb.GibbsiteError, match=r"'mu' is a list.*write `jnp.array\(mu\)\[…\]`"):
        gb.model(model, list)
    assert gb.model(model, jnp.array).conditional("z").kind == "finite"


@pytest.mark.slow
def test_a_gap_in_a_loop_that_hands_its_data_on():
    """Against the same with the gap as a parameter."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=20).cumsum()
    y[7] = np.nan

    def walk(y, seen=None):
        b = numpyro.sample("b", dist.Normal(0, 1))

        def step(before, now):
            value = numpyro.sample("y", dist.Normal(b * before, 1.0), **now)
            return value, value

        now = {"obs": y} if seen is None else {"obs": y, "obs_mask": seen}
        scan(step, 0.0, now)

    with pytest.raises(DataError, match=r"hand on what the statement returns.*obs_mask=seen"):
        gb.model(walk, y, missing="impute")
    seen = ~np.isnan(y)
    run = gb.model(walk, np.nan_to_num(y), seen).sample(draws=2000, chains=2, seed=0)

    def known(y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        gap = numpyro.sample("gap", dist.ImproperUniform(dist.constraints.real, (), ()))
        y = jnp.asarray(y).at[7].set(gap)
        before = jnp.concatenate([jnp.zeros(1), y[:-1]])
        numpyro.factor("walk", dist.Normal(b * before, 1.0).log_prob(y).sum())

    other = gb.model(known, np.nan_to_num(y)).sample(draws=2000, chains=2, seed=0)
    for mine, theirs in ((run.draws["b"], other.draws["b"]), (run.draws["y"][..., 7], other.draws["gap"])):
        assert mine.mean() == pytest.approx(theirs.mean(), abs=5 * theirs.std() / np.sqrt(1000))
        assert mine.std() == pytest.approx(theirs.std(), rel=0.1)
