"""Supports that move with a latent: the density is zero outside, as NumPyro's own is with validation on."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions import transforms
from numpyro.infer.util import log_density

X = np.array([0.2, 1.5, 0.7, 2.5], np.float32)
COUNTS = np.array([1, 3, 0, 2])


def switch():
    with numpyro.plate("n", 4):
        return numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))


def uniform():
    numpyro.sample("x", dist.Uniform(0, 1.0 + switch()).to_event(1), obs=X)


def from_below():
    numpyro.sample("x", dist.Pareto(0.1 + 0.6 * switch(), 2.0), obs=X)


def truncated():
    z = switch()
    numpyro.sample("x", dist.TruncatedNormal(0.0, 1.0, low=0.5 * z, high=1.0 + z), obs=X)


def trials():
    numpyro.sample("x", dist.Binomial(1 + switch(), 0.4), obs=COUNTS)


def integers():
    z = switch()
    numpyro.sample("x", dist.DiscreteUniform(z, 1 + 2 * z), obs=COUNTS)


def latent():
    """The bounded value is latent itself."""
    z = switch()
    numpyro.sample("y", dist.Uniform(0, 1.0 + z))


def masked():
    keep = jnp.array([True, False, True, True])
    with handlers.mask(mask=keep):
        numpyro.sample("x", dist.Uniform(0, 1.0 + switch()), obs=X)


def multinomial():
    total = 2 + numpyro.sample("z", dist.Bernoulli(0.4))
    numpyro.sample(
        "x", dist.Multinomial(total, jnp.array([0.2, 0.3, 0.5]), total_count_max=3), obs=jnp.array([1, 0, 2])
    )


def transformed():
    made = dist.TransformedDistribution(dist.Uniform(0, 1.0 + switch()), transforms.ExpTransform())
    numpyro.sample("x", made, obs=jnp.exp(jnp.asarray(X)))


def mixture():
    z = switch()
    parts = [dist.Uniform(0, 1.0 + z), dist.Uniform(1.0, 2.0 + z)]
    weights = dist.Categorical(jnp.full((4, 2), 0.5))
    numpyro.sample("x", dist.MixtureGeneral(weights, parts, support=dist.constraints.positive), obs=X)


def looped():
    for i in range(4):
        z = numpyro.sample(f"z[{i}]", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        numpyro.sample(f"x[{i}]", dist.Uniform(0, 1.0 + z), obs=X[i])


# with states from which every element can be moved alone
MODELS = {
    uniform: [2, 2, 2, 2],
    from_below: [0, 0, 0, 0],
    truncated: [0, 1, 0, 2],
    trials: [0, 2, 0, 2],
    integers: [0, 1, 0, 1],
    latent: [2, 2, 2, 2],
    masked: [2, 2, 2, 2],
    multinomial: 1,
    transformed: [2, 2, 2, 2],
    mixture: [2, 2, 2, 2],
    looped: [2, 2, 2, 2],
}


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:Out-of-support values")
@pytest.mark.parametrize("fn", MODELS)
def test_what_lies_outside_is_impossible(fn):
    model = gb.model(fn)
    conditional = model.conditional("z")
    start = np.array(MODELS[fn])
    found = np.asarray(conditional.logits({"z": start, "y": X}))
    compared = impossible = 0
    for at in np.ndindex(start.shape):
        expected = []
        for value in conditional.support:
            z = start.copy()
            z[at] = value
            values = {f"z[{i}]": z[i] for i in range(4)} if fn is looped else {"z": z}
            values.update({"y": X} if fn is latent else {})
            expected.append(float(log_density(fn, (), {}, values)[0]))
            np.testing.assert_allclose(model.density.log_joint(values), expected[-1], rtol=1e-5)
        impossible += np.isneginf(expected).sum()
        np.testing.assert_allclose(found[at], expected - np.logaddexp.reduce(expected), atol=2e-5)
        compared += len(expected)
    assert compared == found.size
    assert impossible > 0


def test_supports_that_stand_still_add_nothing():
    def model(x):
        numpyro.sample("m", dist.Uniform(0, jnp.max(x)))
        numpyro.sample("x", dist.TruncatedNormal(0.0, 1.0, low=jnp.min(x) - 1), obs=x)

    assert gb.model(model, X).density.bounds == ()
