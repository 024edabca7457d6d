"""Rows looked up in arrays that are put together of parts of a site: each part is read where it is, and what
leads out of one reads nothing of it."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.programs.maps import access
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import betaln, gammaln

RNG = np.random.default_rng(0)
N, SHAPE = 20, (3, 2)
R, C = RNG.integers(0, 3, N), RNG.integers(0, 2, N)
Y = RNG.normal(size=N)

FORMS = {
    "rolled, and as it is": lambda k: (jnp.roll(k, 1, 0) + 3 * k)[R, C],
    "rolled": lambda k: jnp.roll(k, 1, 0)[R, C],
    "the other axis": lambda k: (jnp.roll(k, 1, 1) * (1 + k))[R, C],
    "the other way": lambda k: jnp.roll(k, -1, 1)[R][:, 1],
    "what was before": lambda k: (jnp.pad(k, ((1, 0), (0, 0)))[:3] + 2 * k)[R, C],
    "parts": lambda k: jnp.concatenate([k[:1] * 2, k[2:], jnp.ones((1, 2))])[R, C],
    "nothing of it": lambda k: jnp.concatenate([k, jnp.ones(SHAPE)])[3 + R, C] + k[R, C],
    "flat": lambda k: (jnp.roll(k, 1, 0).reshape(-1) + k.reshape(-1))[2 * R + C],
    "of both": lambda k: jnp.roll(k, 1, 0)[R + 0 * C, (R + C) % 2] * k[R, C],
    "set": lambda k: (k.at[1].set(k[0]) + k)[R, C],
}


@pytest.fixture(params=[False, True], ids=["known", "large"])
def large(request, monkeypatch):
    """Also as tables are that are too large to be looked at while a program is analysed."""
    if request.param:
        monkeypatch.setattr(access, "_MOST_STATIC", 0)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("form", FORMS)
def test_of_categories(form):
    def model(y):
        with numpyro.plate("rows", 3, dim=-2), numpyro.plate("columns", 2, dim=-1):
            k = numpyro.sample("k", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        mean = FORMS[form](k) * 1.0
        with numpyro.plate("n", N):
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    found = gb.model(model, Y)
    states = jnp.asarray([np.array(z).reshape(SHAPE) for z in itertools.product(range(3), repeat=6)])
    at = jax.vmap(lambda k: log_density(model, (jnp.asarray(Y),), {}, {"k": k})[0])(states)
    whole = np.logaddexp.reduce(np.asarray(at, float))
    assert float(found.marginal("k").logdensity({}, constants=True)) == pytest.approx(whole, abs=2e-3)


@pytest.mark.share(12)
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("form", [f for f in FORMS if f not in ("the other axis", "of both")])
def test_of_numbers(form):
    def model(y):
        with numpyro.plate("rows", 3, dim=-2), numpyro.plate("columns", 2, dim=-1):
            x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        mean = FORMS[form](x)
        with numpyro.plate("n", N):
            numpyro.sample("y", dist.Normal(mean, 0.5), obs=y)

    zero = np.asarray(FORMS[form](jnp.zeros(SHAPE)))
    A = np.stack([np.asarray(FORMS[form](jnp.asarray(e.reshape(SHAPE)))) - zero for e in np.eye(6)], axis=1)
    exact = stats.multivariate_normal(zero, A @ A.T + 0.25 * np.eye(N)).logpdf(Y)
    found = gb.model(model, Y).marginal("x").logdensity({}, constants=True)
    assert float(found) == pytest.approx(exact, abs=5e-3)


def rates(prior, y):
    with numpyro.plate("k", 3):
        u = numpyro.sample("u", prior)
    with numpyro.plate("n", len(y)):
        if isinstance(prior, dist.Gamma):
            numpyro.sample("y", dist.Poisson(1.3 * jnp.concatenate([jnp.ones(1), u])[G]), obs=y)
        else:
            numpyro.sample("y", dist.Bernoulli(jnp.append(u, 0.25)[(G + 3) % 4]), obs=y)


G = np.array([0, 0, 0, 1, 1, 2, 3, 3, 0])


@pytest.mark.share(6)
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("family", [dist.Gamma, dist.Beta])
def test_what_is_seen_beside_a_site_is_no_statistic_of_it(family):
    """Rows of the reference are of no element: they count for none, and stay in the density."""
    prior = family(2.0, 1.0)
    y = np.array([1, 0, 1, 1, 1, 0, 1, 0, 1])
    model = gb.model(rates, prior, y)
    count, total = (np.bincount(G, weights=w, minlength=4) for w in (np.ones(9), y))
    if isinstance(prior, dist.Gamma):
        exact = stats.poisson(1.3).logpmf(y[G == 0]).sum()
        shape, rate = 2 + total[1:], 1 + 1.3 * count[1:]
        exact += np.sum(gammaln(shape) - shape * np.log(rate) + total[1:] * np.log(1.3) - gammaln(2.0))
        mean = shape / rate
    else:
        exact = stats.bernoulli(0.25).logpmf(y[G == 0]).sum()
        a, b = 2 + total[1:], 1 + count[1:] - total[1:]
        exact += np.sum(betaln(a, b) - betaln(2.0, 1.0))
        mean = a / (a + b)
    assert float(model.marginal("u").logdensity({}, constants=True)) == pytest.approx(exact, abs=1e-3)
    run = model.sample(draws=4000, warmup=10, chains=2, seed=0, schedule="Conjugate u")
    spread = run.draws["u"].std((0, 1)) / np.sqrt(8000)
    np.testing.assert_allclose(run.draws["u"].mean((0, 1)), mean, atol=5 * spread.max())
