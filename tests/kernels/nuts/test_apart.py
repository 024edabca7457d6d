"""Effects beside a scale that is below the last digit of their location."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import joint_marginal
from gibbsite.kernels.blocks.eliminated import MarginalModel
from gibbsite.kernels.nuts.potential import problem
from numpyro.distributions.transforms import ExpTransform, SigmoidTransform
from numpyro.handlers import mask, scale

Z = np.array([0.3, -1.2, 2.0, 0.1])
GROUP = np.array([0, 0, 1, 1], np.int32)
SOME = np.array([True, True, False, True])


def plain(mu, tau):
    with numpyro.plate("g", 4):
        theta = numpyro.sample("normal", dist.Normal(mu, tau))
        with mask(mask=jnp.asarray(SOME)):
            masked = numpyro.sample("masked", dist.LogNormal(mu, tau))
        with scale(scale=2.0):
            scaled = numpyro.sample("scaled", dist.Laplace(mu, tau))
    heavy = numpyro.sample("heavy", dist.StudentT(4.0, mu, tau).expand([4]).to_event(1))
    return theta, jnp.log(masked), scaled, heavy


def transformed(mu, tau):
    base = dist.Normal(mu, tau).expand([4])
    share = numpyro.sample("share", dist.TransformedDistribution(base, SigmoidTransform()))
    size = numpyro.sample("size", dist.TransformedDistribution(base.to_event(1), ExpTransform()))
    return jnp.log(share / (1 - share)), jnp.log(size)


def levels(mu, tau):
    middle = numpyro.sample("middle", dist.Normal(mu, tau).expand([2]))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0).expand([2]))
    field = numpyro.sample("field", dist.MultivariateNormal(mu * jnp.ones(4), tau**2 * jnp.eye(4)))
    return numpyro.sample("low", dist.Normal(middle[GROUP], spread[GROUP])), field


@pytest.fixture(scope="module", params=[plain, transformed, levels])
def energies(request):
    """Minus the log density and its gradient at mu = 5.3, scales of exp(−18) and the coordinates Z: in
    single and in double precision, by degree of centring."""

    def effects():
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        for i, theta in enumerate(request.param(numpyro.sample("mu", dist.Normal(0, 5)), tau)):
            numpyro.sample(f"y{i}", dist.Normal(theta, 1.0).to_event(1), obs=jnp.arange(4.0))

    def found():
        p = problem(effects, gb.model(effects).density, "auto", jax.random.key(0), (), {})
        c = p.coordinates
        at = []
        for lam in (0.0, 0.3):
            place = {"mu": [5.3], "tau": [-18.0], "spread": [-18.0, -18.0]}
            flat = [place.get(part.name, np.resize(Z, part.shape) + lam * 5.3) for part in c.parts]
            degrees = np.where(c.whole, 0.0, lam)
            u = np.concatenate([np.ravel(np.asarray(a)) for a in flat])
            if c.whole.any():
                u[next(part.at for part in c.parts if part.name == "field")] = Z
            at.append((u, degrees))
        pairs = [jnp.asarray(np.array(a), float) for a in zip(*at, strict=True)]
        both = jax.jit(lambda pairs: jax.lax.map(lambda a: p.value_and_grad(a[1], (), {})(a[0]), pairs))
        return jax.device_get(both(tuple(pairs)))

    single = found()
    with jax.enable_x64(True):
        return single, found()


@pytest.mark.share(6)
@pytest.mark.parametrize("lam", [0, 1])
def test_single_precision_says_what_double_does(energies, lam):
    (energy, gradient), (right, slope) = ([np.asarray(a[lam], float) for a in pair] for pair in energies)
    np.testing.assert_allclose(energy, right, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-3 * np.abs(slope).max())


def looped():
    """Eight sites that run as one, by the model's density and not by its distributions."""
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(1.0))
    for i in range(8):
        theta = numpyro.sample(f"theta[{i}]", dist.Normal(mu, tau))
        numpyro.sample(f"y[{i}]", dist.Normal(theta, 1.0), obs=float(i))


def summed():
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("n", 4):
        here = numpyro.sample("here", dist.Bernoulli(0.4))
        theta = numpyro.sample("theta", dist.LogNormal(mu, tau))
        numpyro.sample("y", dist.Normal(jnp.log(theta) + here, 1.0), obs=jnp.arange(4.0))


def as_a_run_sees_it(fn):
    """A model whose log density is evaluated as a whole: its sites grouped, or a marginal."""
    model = gb.model(fn)
    if fn is looped:
        assert model.execution.grouped is not None
        return model.execution.grouped
    marginal = joint_marginal(model.density, ["here"], insist=True)
    return MarginalModel(model.name, model.density, marginal, model.execution.inputs, ("here",))


@pytest.mark.share(2)
@pytest.mark.parametrize("fn", [looped, summed])
def test_a_density_that_is_evaluated_as_a_whole_is_told_the_distances(fn):
    """Also where single precision is enough."""

    def found():
        model = as_a_run_sees_it(fn)
        kwargs = {"_gibbsite_inputs": {"data": model.density.arguments.arrays}}
        p = problem(model.runtime_model, model.density, "auto", jax.random.key(0), (), kwargs)
        count = p.coordinates.degrees
        at = {"mu": [5.3], "theta": np.resize(Z, count)}
        of = p.value_and_grad(jnp.zeros(count), (), kwargs)
        us = [np.concatenate([at.get(x.name, [low]) for x in p.coordinates.parts]) for low in (-18.0, -1.0)]
        return [jax.device_get(of(jnp.asarray(u, float))) for u in us]

    single = found()
    with jax.enable_x64(True):
        double = found()
    for (energy, gradient), (right, slope) in zip(single, double, strict=True):
        np.testing.assert_allclose(energy, right, rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-3 * np.abs(slope).max())
