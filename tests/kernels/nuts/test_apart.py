"""Effects beside a scale that is below the last digit of their location."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.nuts.problem import problem
from numpyro.handlers import mask, scale

Z = np.array([0.3, -1.2, 2.0, 0.1])


def effects(wrap):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    if wrap == "event":
        theta = numpyro.sample("theta", dist.StudentT(4.0, mu, tau).expand([4]).to_event(1))
    else:
        around = {"mask": mask(mask=jnp.array([True, True, False, True])), "scale": scale(scale=2.0)}
        with numpyro.plate("g", 4), around.get(wrap, scale(scale=1.0)):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Normal(theta, 1.0).to_event(1), obs=jnp.arange(4.0))


def energy(wrap, lam):
    """Minus the log density and its gradient at mu = 5.3, tau = exp(−18) and the coordinates Z."""
    density = gb.model(effects, wrap).density
    p = problem(effects, density, "auto", jax.random.key(0), (wrap,), {})
    at = {"mu": 5.3, "tau": -18.0, "theta": Z + lam * 5.3}
    u = jnp.concatenate([jnp.ravel(jnp.asarray(at[part.name], float)) for part in p.coordinates.parts])
    value, gradient = p.value_and_grad(jnp.full(4, float(lam)), (wrap,), {})(u)
    return np.asarray(value, float), np.asarray(gradient, float)


@pytest.mark.parametrize(
    ("wrap", "lam"), [("plain", 0.0), ("plain", 0.3), ("event", 0.0), ("mask", 0.0), ("scale", 0.0)]
)
def test_single_precision_says_what_double_does(wrap, lam):
    single = energy(wrap, lam)
    with jax.enable_x64(True):
        double = energy(wrap, lam)
    np.testing.assert_allclose(single[0], double[0], rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(single[1], double[1], rtol=1e-3, atol=1e-3 * np.abs(double[1]).max())
