"""Information of joint Gaussian conditionals against derivatives of the whole log joint, term by term."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import mask

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)
Z = RNG.integers(3, size=40)
GROUP = RNG.integers(2, size=40)
COV = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.5], [0.0, -0.5, 0.7]], np.float32)


def _components(k=3):
    with numpyro.plate("k", k):
        return numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(3), jnp.asarray(COV)))


def mixture(y):
    b = _components()
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("y", dist.MultivariateNormal(b[z], jnp.asarray(COV)), obs=y)


def scaled(y):
    """The scale differs by component, and the slope is not the identity."""
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0).expand([3]).to_event(1))
    b = _components()
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        mean = 4 * b[z] @ jnp.asarray(COV) - 1
        numpyro.sample("y", dist.Normal(mean, tau[z][:, None]).to_event(1), obs=y)


def shifted(y, group):
    """Which block is read depends on the discrete site and on data."""
    b = _components(5)
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("y", dist.MultivariateNormal(b[z + 2 * group], jnp.asarray(COV)), obs=y)


def mixture_of_regressions(x):
    b = _components()
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("y", dist.Normal((x * b[z]).sum(-1), 1.0), obs=x[:, 0])


def grouped(x, group):
    b = _components(2)
    with numpyro.plate("n", len(x)):
        numpyro.sample("y", dist.Normal((x * b[group]).sum(-1), 1.0), obs=x[:, 0])


def regression(x):
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0))
    b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(3), jnp.asarray(COV)))
    numpyro.sample("y", dist.Normal(x @ b, tau**-0.5).to_event(1), obs=x[:, 0])


def products(x):
    """A product of two different affine functions, divided and negated, and one that is no product."""
    b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(3), jnp.asarray(COV)))
    numpyro.factor("f", -(b[0] - x[:, 0]) * (2 * b[1] + x[:, 1]) / 8)
    numpyro.factor("g", -0.1 * b @ jnp.asarray(COV) @ b)


def missing(y):
    b = _components()
    seen = ~jnp.isnan(y[:, 0])
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        with mask(mask=seen):
            numpyro.sample("y", dist.MultivariateNormal(b[z], jnp.asarray(COV)), obs=y)


GAPS = X.copy()
GAPS[::4] = np.nan
CASES = {
    "mixture": (mixture, (X,), "plain"),
    "scaled": (scaled, (X,), "plain"),
    "shifted": (shifted, (X, GROUP), "differentiated"),
    "mixture of regressions": (mixture_of_regressions, (X,), "differentiated"),
    "groups": (grouped, (X, GROUP), "plain"),
    "regression": (regression, (X,), "plain"),
    "products": (products, (X,), "differentiated"),
    "missing": (missing, (GAPS,), "plain"),
}


@pytest.mark.share(8)
@pytest.mark.parametrize(("fn", "args", "way"), CASES.values(), ids=CASES)
def test_the_information_is_that_of_the_log_joint(fn, args, way):
    model = gb.model(fn, *args)
    c = model.conditional("b")
    assert c.kind == "conjugate" and type(c).__name__ == "GaussianConditional"
    latents = {"z": jnp.asarray(Z), "tau": jnp.asarray([0.5, 1.0, 2.0])}
    latents = {n: v for n, v in latents.items() if n in model.sites}
    if fn is regression:
        latents["tau"] = jnp.asarray(1.7)
    shape, data = model.sites["b"].shape, model.density.arguments.arrays
    if fn is missing:  # what is masked out is NaN for JAX's derivatives of the whole: leave it out
        rest = gb.model(mixture, GAPS[~np.isnan(GAPS[:, 0])])
        others = {"z": jnp.asarray(Z[~np.isnan(GAPS[:, 0])])}
        joint = lambda b: rest.density.log_joint_at({**others, "b": b}, rest.density.arguments.arrays)  # noqa: E731
    else:
        joint = lambda b: model.density.log_joint_at({**latents, "b": b}, data)  # noqa: E731
    zero, joint = jnp.zeros(shape), jax.jit(joint)
    expected = -jax.hessian(joint)(zero)
    found, gradient = c.natural(latents), jax.grad(joint)(zero)
    blocks = shape[0] if len(shape) > 1 else 1
    expected = expected.reshape(blocks, 3, blocks, 3)
    for k in range(blocks):
        np.testing.assert_allclose(found["precision"][k], expected[k, :, k], rtol=2e-5, atol=1e-4)
        np.testing.assert_allclose(
            found["information"][k], gradient.reshape(blocks, 3)[k], rtol=2e-5, atol=2e-4
        )
    used = [None if p is None else c._curvature.expansion(p, latents, data) for p in c._products.values()]
    assert used and all(u is not None for u in used) == (way == "plain")
