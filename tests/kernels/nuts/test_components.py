"""Steps between the components of a prior: they leave any density as it is, and chains see every mode."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite import model as modelled
from gibbsite.kernels.learnt.components import Place, components_of, crossed, mixtures
from gibbsite.kernels.learnt.coordinates import Surroundings, coordinates
from gibbsite.kernels.nuts.report import to_be_learnt
from scipy import stats

WEIGHT, MEAN, SD = np.array([0.4, 0.6]), np.array([-1.5, 1.5]), np.array([0.3, 0.9])
GRID = np.linspace(-9, 9, 40_001)


def prior(family=dist.Normal):
    parts = family(jnp.array(MEAN), jnp.array(SD))
    return dist.MixtureSameFamily(dist.Categorical(jnp.array(WEIGHT)), parts)


def same_family():
    x = numpyro.sample("x", prior())
    numpyro.sample("y", dist.Normal(x, 2.0), obs=1.0)


def of_a_list():
    parts = [dist.Normal(m, s) for m, s in zip(MEAN, SD, strict=True)]
    x = numpyro.sample("x", dist.MixtureGeneral(dist.Categorical(logits=jnp.log(jnp.array(WEIGHT))), parts))
    numpyro.sample("y", dist.Normal(x, 2.0), obs=1.0)


def elements():
    with numpyro.plate("n", 3):
        x = numpyro.sample("x", prior())
        numpyro.sample("y", dist.Normal(x, 2.0), obs=jnp.array([1.0, 1.0, 1.0]))


def vectors():
    parts = dist.Normal(jnp.array(MEAN)[:, None] * jnp.ones(2), jnp.array(SD)[:, None]).to_event(1)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array(WEIGHT)), parts))
    numpyro.sample("y", dist.Normal(x[0], 2.0), obs=1.0)


def two_sites():
    x = numpyro.sample("x", prior())
    other = numpyro.sample("other", prior(dist.Laplace))
    numpyro.sample("y", dist.Normal(x + 0.0 * other, 2.0), obs=1.0)


def under_a_weight():
    with numpyro.handlers.scale(scale=0.5):
        x = numpyro.sample("x", prior())
    numpyro.sample("y", dist.Normal(x, 2.0), obs=1.0)


def posterior(weight):
    """Of one number and one datum, on the grid."""
    p = (WEIGHT * stats.norm.pdf(GRID[:, None], MEAN, SD)).sum(1) ** weight * stats.norm.pdf(GRID, 1.0, 2.0)
    return p / p.sum()


def stepped(fn, logdensity, draws):
    """Places after one step between the components of the priors of `fn`, from draws `[draw, size]`."""
    model = modelled(fn)
    shapes = {n: (model.sites[n].shape, model.sites[n].support) for n in model.density.latents}
    among = mixtures(coordinates(model.density, shapes, ()))
    assert [m.part.name for m in among] == list(shapes)
    around = Surroundings({}, model.density.arguments.arrays)
    value_and_grad = jax.value_and_grad(lambda u: -logdensity(u))

    def one(key, u):
        return crossed(among, key, Place(u, *value_and_grad(u)), value_and_grad, around)

    return jax.vmap(one)(jax.random.split(jax.random.key(1), len(draws)), jnp.asarray(draws, jnp.float32))


@pytest.mark.slow
def test_what_it_leaves_is_what_it_found():
    """Of exact draws of any density, one step makes exact draws: 25 quantiles, to six standard errors."""
    n = 200_000

    def wave(x):
        return -0.5 * (x / 2.0) ** 2 + jnp.sin(3 * x)

    p = np.exp(np.asarray(wave(GRID), float))
    rng = np.random.default_rng(0)
    draws = rng.choice(GRID, n, p=p / p.sum())[:, None]
    after = stepped(same_family, lambda u: wave(u[0]), draws)
    x = np.asarray(after.u)[:, 0]
    assert 0.1 < (x != draws[:, 0].astype(np.float32)).mean() < 0.9
    level = np.linspace(0.02, 0.98, 25)
    cdf = np.interp(np.quantile(x, level), GRID, np.cumsum(p) / p.sum())
    assert np.all(np.abs(cdf - level) < 6 * np.sqrt(level * (1 - level) / n)), cdf - level
    np.testing.assert_allclose(after.energy, -wave(after.u[:, 0]), atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fn",
    [
        under_a_weight,
        *(
            pytest.param(f, marks=pytest.mark.slow)
            for f in (elements, two_sites, same_family, of_a_list, vectors)
        ),
    ],
)
def test_every_mode_is_seen_as_often_as_it_weighs(fn):
    run = modelled(fn).sample(draws=1000, seed=0)
    x = np.asarray(run.draws["x"])
    below = x.reshape(*x.shape[:2], -1) < 0
    share = np.full(below.shape[-1], posterior(0.5 if fn is under_a_weight else 1.0)[GRID < 0].sum())
    if fn is vectors:  # the second number is seen through the component alone
        each = WEIGHT * stats.norm.pdf(1.0, MEAN, np.hypot(SD, 2.0))
        share[1] = each @ stats.norm.cdf(0, MEAN, SD) / each.sum()
    assert run.verdict.ok, run.verdict
    assert np.abs(below.mean(1) - share).max() < 0.1
    assert np.abs(below.mean((0, 1)) - share).max() < 0.04


@pytest.mark.slow
def test_a_narrow_mode_of_coins_that_say_little_is_seen():
    """With labels summed out. Of runs whose chains trajectories alone move, most are not converged after as
    many draws, and one in ten that says it is has seen a third of the narrow mode's mass."""

    def coins():
        x = numpyro.sample("x", prior())
        with numpyro.plate("n", 4):
            z = numpyro.sample("z", dist.Bernoulli(0.4))
            numpyro.sample("y", dist.Bernoulli(logits=x + 2.0 * z), obs=jnp.array([1, 1, 1, 0]))

    one = 0.6 / (1 + np.exp(-GRID)) + 0.4 / (1 + np.exp(-GRID - 2.0))
    p = (WEIGHT * stats.norm.pdf(GRID[:, None], MEAN, SD)).sum(1) * one**3 * (1 - one)
    model, share = modelled(coins), p[GRID < 0].sum() / p.sum()
    assert model.schedule().text == "Eliminate z > NUTS x"
    assert "steps between the components" in " ".join(to_be_learnt(model.density, ["x"], "auto"))
    for seed in range(4):
        run = model.sample(draws=1000, seed=seed)
        assert run.verdict.ok, run.verdict
        assert np.abs((run.draws["x"] < 0).mean(1) - share).max() < 0.08


def latent_parts():
    m = numpyro.sample("m", dist.Normal(0, 1))
    parts = dist.Normal(jnp.stack([m, m + 1]), 1.0)
    numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.5, 0.5])), parts))


def of_gammas():
    parts = dist.Gamma(jnp.array([1.0, 2.0]), 1.0)
    numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.5, 0.5])), parts))


def one_normal():
    numpyro.sample("x", dist.Normal(0, 1))


@pytest.mark.parametrize("fn", [latent_parts, of_gammas, one_normal])
def test_what_is_no_such_mixture_is_left_alone(fn):
    assert components_of(modelled(fn).density, "x") is None
