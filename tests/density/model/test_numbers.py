"""Numbers that are not what they seem: narrow types, points among densities, priors without a posterior."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.truths.oracle import against_joint
from numpyro.infer.util import log_density


def flat(read):
    def model(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), (3,)))
        numpyro.sample("y", dist.Normal(read(mu), 1.0), obs=y)

    return model


@pytest.mark.parametrize(
    ("read", "untouched"),
    [(lambda mu: 0.0, 3), (lambda mu: mu[0], 2), (lambda mu: mu[jnp.array([0, 2, 2])], 1), (jnp.sum, 0)],
)
def test_an_improper_prior_that_no_data_touch(read, untouched):
    model, y = flat(read), jnp.zeros(3)
    if not untouched:
        assert gb.model(model, y)
        return
    with pytest.raises(gb.GibbsiteError, match=rf"the prior of 'mu' is improper.* of {untouched} of its"):
        gb.model(model, y)


DISGUISED = {
    "Delta": lambda: dist.Delta(2.0),
    "deltas": lambda: dist.Delta(jnp.zeros(3)).to_event(1),
    "spike and slab": lambda: dist.MixtureGeneral(
        dist.Categorical(jnp.array([0.5, 0.5])),
        [dist.Normal(0, 1), dist.Delta(0.0)],
        support=dist.constraints.real,
    ),
    "doubled counts": lambda: dist.TransformedDistribution(
        dist.Poisson(3.0), dist.transforms.AffineTransform(0.0, 2.0)
    ),
}


@pytest.mark.parametrize("name", DISGUISED)
def test_latents_whose_values_are_points(name):
    def model():
        x = numpyro.sample("x", DISGUISED[name]())
        numpyro.sample("y", dist.Normal(jnp.sum(x), 1), obs=0.5)

    with pytest.raises(gb.GibbsiteError, match=r"'x'.*(single point|whole numbers)"):
        gb.model(model)


@pytest.mark.parametrize(
    "y",
    [
        np.array([2**32 + 3, 5]),
        np.array([1, -(2**40)]),
        np.array([2**32 + 1], np.uint64),
        np.array([2**31], np.uint32).astype(np.int64),
        np.array([1.0, 1e300]),
    ],
)
def test_numbers_that_the_types_of_jax_cannot_hold(y):
    def model(y):
        r = numpyro.sample("r", dist.Gamma(1.0, 1.0))
        numpyro.sample("y", dist.Normal(r, 1.0).expand(y.shape), obs=y)

    with pytest.raises(gb.GibbsiteError, match=r"argument 'y' holds .* cannot hold"):
        gb.model(model, y)
    assert gb.model(model, np.where(np.abs(y.astype(float)) > 1e9, 7, y).astype(y.dtype))


NARROW = {
    "int8 product": lambda z: z.astype(jnp.int8) * jnp.int8(100),
    "int8 sum": lambda z: jnp.sum(z.astype(jnp.int8) * jnp.int8(50), dtype=jnp.int8),
    "uint8 difference": lambda z: z.astype(jnp.uint8) - jnp.uint8(2),
    "uint32 difference": lambda z: (z.astype(jnp.uint32) - jnp.uint32(2)) // jnp.uint32(2**24),
    "int16 negation": lambda z: -(z.astype(jnp.int16) * jnp.int16(12000)),
    "int32 product": lambda z: z * 1_500_000_000,
    "booleans": lambda z: (z > 1) + (z > 0),
    "boolean sum": lambda z: jnp.sum(z > 1) + (z > 2),
    "to int8": lambda z: (z * 90).astype(jnp.int8),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NARROW)
def test_integers_wrap_around_as_jax_wraps_them(name):
    largest = max(1.0, 0.3 * float(jnp.abs(NARROW[name](jnp.arange(4)).astype(float)).max()))

    def model():
        z = numpyro.sample("z", dist.Categorical(jnp.ones(4) / 4).expand([3]))
        number = NARROW[name](z).astype(float)
        numpyro.factor("f", jnp.sum(number / largest))

    states = [{"z": np.array(z)} for z in ([0, 1, 2], [3, 3, 1])]
    assert against_joint(model, (), "z", states) == "finite"


@pytest.mark.parametrize(
    "prior",
    [
        lambda: dist.Pareto(1, 1.5),
        lambda: dist.TruncatedNormal(0, 1, low=0),
        lambda: dist.Uniform(1, 4),
        lambda: dist.LeftTruncatedDistribution(dist.StudentT(5), low=1),
    ],
    ids=["pareto", "truncated", "uniform", "left truncated"],
)
def test_whole_bounds_make_no_whole_numbers(prior):
    """A continuous site keeps its fractions, whatever the type of its bounds."""

    def model():
        numpyro.sample("y", dist.Normal(numpyro.sample("x", prior()), 1.0), obs=1.3)

    density = gb.model(model).density
    assert jnp.issubdtype(density.sites["x"].dtype, jnp.floating)
    ours, theirs = (
        [float(f({"x": jnp.float32(v)})) for v in (1.2, 1.9)]
        for f in (density.log_joint, lambda s: log_density(model, (), {}, s)[0])
    )
    assert ours[1] - ours[0] == pytest.approx(theirs[1] - theirs[0], abs=1e-4)
