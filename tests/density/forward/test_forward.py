"""What a distribution of the user's draws is held against what it says of its density."""

import functools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.forward.agrees import disagreement
from gibbsite.density.model.atoms import is_own
from numpyro.distributions import constraints, transforms


class Own(dist.Distribution):
    """As another distribution; draws may be replaced."""

    def __init__(self, inner, draw=None):
        self.inner, self.draw = inner, draw
        super().__init__(inner.batch_shape, inner.event_shape)

    @property
    def support(self):
        return self.inner.support

    def sample(self, key, sample_shape=()):
        return (self.draw or self.inner.sample)(key, sample_shape)

    def log_prob(self, value):
        return self.inner.log_prob(value) + 3.0  # up to a constant

    def tree_flatten(self):
        return (self.inner,), (self.draw,)


def mixture(first):
    """Of two normals far apart, the first of which weighs so much."""
    weights = dist.Categorical(jnp.array([first, 1 - first]))
    return dist.MixtureSameFamily(weights, dist.Normal(jnp.array([-3.0, 3.0]), 1.0))


def covariance():
    return jnp.array([[1.0, 0.8], [0.8, 1.0]])


@functools.cache
def right():
    return {
        "normal": dist.Normal(jnp.array([0.0, 300.0, -1e-3]), jnp.array([1.0, 1e-2, 1e-4])),
        "heavy": dist.Cauchy(1.0, 2.0),
        "near zero": dist.Gamma(0.5, 3.0),
        "beta": dist.Beta(0.5, 0.5),
        "two modes": mixture(0.2),
        "uniform": dist.Uniform(2.0, 5.0),
        "correlated": dist.MultivariateNormal(jnp.zeros(2), covariance()),
        "simplex": dist.Dirichlet(jnp.array([0.5, 2.0, 3.0])),
        "t in 3": dist.StudentT(3.0, 0.0, 1.0).expand([3]).to_event(1),
        "ordered": dist.TransformedDistribution(
            dist.Normal(0, 1).expand([3]).to_event(1), transforms.OrderedTransform()
        ),
        "counts": dist.Poisson(4.0),
        "large counts": dist.NegativeBinomial2(300.0, 2.0),
        "labels": dist.Categorical(jnp.array([0.2, 0.5, 0.3])),
        "binomial": dist.Binomial(20, 0.1),
    }


RIGHT = (
    "normal",
    "heavy",
    "near zero",
    "beta",
    "two modes",
    "uniform",
    "correlated",
    "simplex",
    "t in 3",
    "ordered",
    "counts",
    "large counts",
    "labels",
    "binomial",
)
WRONG = (
    "zeros",
    "a constant",
    "another place",
    "another width",
    "another shape",
    "other weights of far modes",
    "not correlated",
    "outside",
    "other counts",
    "other labels",
    "excluded",
)
QUICK = {"normal", "correlated", "counts", "zeros", "another width", "not correlated", "other labels"}


def cases(of):
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in of]


@pytest.mark.parametrize("name", cases(RIGHT))
def test_what_is_right_is_trusted(name):
    for seed in range(2):
        assert disagreement(Own(right()[name]), jax.random.key(seed)) == ""


def as_drawn(other):
    return lambda key, shape: other.sample(key, shape)


@functools.cache
def wrong():
    return {
        "zeros": (
            dist.MultivariateNormal(jnp.zeros(2), covariance()),
            lambda k, s: jnp.zeros((*s, 2)),
            "the same",
        ),
        "a constant": (dist.Normal(0, 1), lambda k, s: jnp.full(s, 0.3), "the same"),
        "another place": (dist.Normal(3.0, 0.5), as_drawn(dist.Normal(0.0, 1.0)), "another"),
        "another width": (dist.Normal(0.0, 1.3), as_drawn(dist.Normal(0.0, 1.0)), "another"),
        "another shape": (dist.Laplace(0.0, 0.7071), as_drawn(dist.Normal(0.0, 1.0)), "another"),
        "other weights of far modes": (mixture(0.2), as_drawn(mixture(0.4)), "another"),
        "not correlated": (
            dist.MultivariateNormal(jnp.zeros(2), covariance()),
            as_drawn(dist.Normal(0, 1).expand([2]).to_event(1)),
            "Stein",
        ),
        "outside": (dist.Gamma(2.0, 1.0), as_drawn(dist.Normal(0.0, 1.0)), "outside"),
        "other counts": (dist.Poisson(4.0), as_drawn(dist.Poisson(5.0)), "frequencies"),
        "other labels": (
            dist.Categorical(jnp.array([0.2, 0.5, 0.3])),
            as_drawn(dist.Categorical(jnp.array([0.3, 0.4, 0.3]))),
            "frequencies",
        ),
        "excluded": (
            dist.Categorical(jnp.array([0.5, 0.5, 0.0])),
            as_drawn(dist.Categorical(jnp.ones(3) / 3)),
            "e",
        ),
    }


@pytest.mark.parametrize("name", cases(WRONG))
def test_what_is_wrong_is_doubted(name):
    inner, draw, why = wrong()[name]
    assert why in disagreement(Own(inner, draw), jax.random.key(0))


def test_whose_class_it_is():
    class Shift(transforms.AffineTransform):
        pass

    assert not any(is_own(d) for d in right().values())
    assert is_own(Own(dist.Normal(0, 1)).expand([3]).to_event(1))
    assert is_own(dist.TransformedDistribution(dist.Normal(0, 1), Shift(1.0, 2.0)))


class Bent(dist.Distribution):
    """A dummy `sample`, as NumPyro's examples have them."""

    support = constraints.real

    def __init__(self, loc=3.0):
        self.loc = loc
        super().__init__(jnp.shape(loc))

    def sample(self, key, sample_shape=()):
        return jax.random.normal(key, sample_shape + self.batch_shape)

    def log_prob(self, value):
        return -0.5 * ((value - self.loc) / 0.5) ** 2


def leaf(y):
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    x = numpyro.sample("x", Bent(mu))
    numpyro.sample("after", dist.Normal(x, 0.1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


@pytest.mark.slow
def test_a_latent_that_no_data_see_follows_its_density():
    """mu given three values of mean 5 has mean 15 / 3.01 and variance 1 / 3.01; x adds a variance of .25."""
    m = gb.model(leaf, np.array([5.0, 5.2, 4.8], np.float32))
    assert any("x is not drawn forward" in n and "Bent" in n for n in m.notes)
    assert m.generated == ("after",)
    run = m.sample(draws=1500, seed=0)
    x = run.draws["x"].astype(float)
    variance = 1 / 3.01 + 0.25
    assert abs(x.mean() - 15 / 3.01) < 4.5 * np.sqrt(variance / 1000)
    assert abs(x.var() / variance - 1) < 4.5 * np.sqrt(2 / 1000)
    assert abs((run.draws["after"] - x).std() - 0.1) < 0.01


def alone():
    numpyro.sample("x", Bent())


def test_a_prior_of_an_own_class_follows_its_density():
    run = gb.model(alone).sample(draws=1500, seed=0)
    assert "Ancestral" not in run.schedule_text and run.verdict.state == "prior"
    assert abs(run.draws["x"].mean() - 3.0) < 0.07 and abs(run.draws["x"].std() - 0.5) < 0.05


def trusted():
    numpyro.sample("x", Own(dist.Normal(0.0, 1.0)))


def test_what_agrees_is_drawn_forward():
    assert gb.model(trusted).schedule().text == "Ancestral x"
