"""The terms that updates are derived from add up to NumPyro's log density, also where what is left out by a
condition on data is infinite or no number."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density import terms as of_terms
from gibbsite.density.terms import summed
from gibbsite.errors import ModelError
from numpyro.infer.util import log_density

Y = np.array([0.0, 2.0, 0.0, 1.5], np.float32)
HOLED = np.array([[np.nan, 1.0], [0.3, -1.0], [np.nan, np.inf], [1.0, 2.0]], np.float32)


def of_logits(y):
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Bernoulli(logits=np.array([-0.5, 0.3, 0.0, 1.0])))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)


def of_one_logit(y):
    z = numpyro.sample("z", dist.Bernoulli(logits=-0.5).expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(z, 1).to_event(1), obs=y)


def of_logarithms(y):
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.factor("f", jnp.where(y > 0, z * jnp.log(y), -1.0 * z))


def of_quotients(y):
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
    numpyro.factor("f", jnp.where(y > 0, -z / y, 0.5 * z))


def of_counts(y):
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Poisson(2.0))
    numpyro.factor("f", jnp.where(y > 0, z * jnp.log(y), 0.0))


def of_slopes(y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Bernoulli(logits=-1.0))
    numpyro.factor("f", jnp.where(y > 0, a * z * jnp.log(y), -z))


def of_columns_with_holes(y):
    with numpyro.plate("k", 2):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    mean = jnp.where(np.isfinite(HOLED).all(1), HOLED @ z, 0.0)
    numpyro.sample("y", dist.Normal(mean, 1).to_event(1), obs=y)


def of_sums_with_holes(y):
    with numpyro.plate("k", 2):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.factor("f", jnp.where(np.isfinite(HOLED).all(1), HOLED @ z, 0.0).sum())


MODELS = [
    of_logits,
    of_one_logit,
    of_logarithms,
    of_quotients,
    of_counts,
    of_slopes,
    of_columns_with_holes,
    of_sums_with_holes,
]


@pytest.mark.share(3)
@pytest.mark.parametrize("fn", MODELS)
def test_terms_add_up(fn):
    density = gb.model(fn, Y, check_values=False).density
    rng, off = np.random.default_rng(0), []
    for _ in range(4):
        state = {
            n: jnp.asarray(rng.integers(0, 2, s.shape) if s.discrete else rng.normal(size=s.shape), s.dtype)
            for n, s in density.sites.items()
            if s.latent
        }
        found = summed(density.terms, density.evaluator(state, density.arguments.arrays))
        off.append(found - log_density(fn, (Y,), {}, state)[0])
    assert np.isfinite(off).all()
    np.testing.assert_allclose(off, off[0], atol=1e-5)  # constants are no terms


def of_components(y):
    m = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("n", 4):
        mixture = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(m, 1.0))
        numpyro.sample("y", mixture, obs=y)


def of_latent_components(y):
    m = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1))
    mixture = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(m, 1.0))
    x = numpyro.sample("x", mixture)
    numpyro.sample("y", dist.Normal(x, 1.0).expand([4]).to_event(1), obs=y)


def of_general_components(y):
    m = numpyro.sample("m", dist.Normal(0, 1))
    parts = [dist.Normal(m, 1.0), dist.StudentT(3.0, -m, 2.0)]
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.MixtureGeneral(dist.Categorical(jnp.array([0.4, 0.6])), parts), obs=y)


def of_shares(y):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("z", dist.Categorical(logits=b).expand([4]).to_event(1), obs=y.astype(int))


def of_logarithms_of_sums(y):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.factor("f", 2.0 * jax.scipy.special.logsumexp(b) - jax.nn.logsumexp(b * jnp.arange(3.0)))


def of_held_values(y):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.factor("f", jnp.sum(jax.lax.stop_gradient(b) * jnp.arange(3.0)) + jax.lax.stop_gradient(b[0]))


SMOOTH = [
    of_components,
    of_latent_components,
    of_general_components,
    of_shares,
    of_logarithms_of_sums,
    of_held_values,
]


@pytest.mark.share(6)
@pytest.mark.parametrize("fn", SMOOTH)
def test_derivatives_of_terms_add_up(fn):
    """What a density stops the derivative of stays stopped where it is taken apart."""
    density = gb.model(fn, Y, check_values=False).density
    rng = np.random.default_rng(1)
    for _ in range(3):
        state = {
            n: jnp.asarray(rng.normal(size=s.shape), s.dtype) for n, s in density.sites.items() if s.latent
        }
        of_terms_ = jax.grad(lambda s: summed(density.terms, density.evaluator(s, density.arguments.arrays)))(
            state
        )
        whole = jax.grad(lambda s: log_density(fn, (Y,), {}, s)[0])(state)
        for n in state:
            np.testing.assert_allclose(of_terms_[n], whole[n], rtol=2e-5, atol=2e-5)


def test_draws_of_bits_with_known_logits():
    """One chain, which nothing else is held against."""
    run = gb.model(of_logits, Y).sample(draws=4000, warmup=100, chains=1, seed=0)
    exact = 1 / (1 + np.exp(-(np.array([-0.5, 0.3, 0.0, 1.0]) + Y - 0.5)))
    np.testing.assert_allclose(run.draws["z"].mean((0, 1)), exact, atol=4 * 0.5 / np.sqrt(4000))


def test_terms_that_are_no_numbers_are_not_drawn_from(monkeypatch):
    times = of_terms._times

    def careless(w, other, shape, invert=False):
        found = times(w, other, shape, invert)
        if found.scalar is not None:
            return found
        return of_terms.Weight(found.shape, None, lambda read: found.value(read) * jnp.nan)

    monkeypatch.setattr(of_terms, "_times", careless)
    model = gb.model(of_logits, Y)
    with pytest.raises(ModelError, match="log density of z is a number where chains start"):
        model.sample(draws=10, warmup=10, chains=1, seed=0)
