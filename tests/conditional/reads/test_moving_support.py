"""Which latents move a support: asked of the distribution at two values, whatever it is called."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.reads.support import bounded_by, support_movers
from gibbsite.density.intervals import positive
from gibbsite.kernels.blocks.target import Target
from numpyro import handlers
from numpyro.distributions import constraints, transforms
from numpyro.infer.gibbs import conditioned
from scipy import stats


def transformed(base, *steps):
    return dist.TransformedDistribution(base, list(steps))


MOVE = {
    "LogUniform": lambda h: dist.LogUniform(0.1, 0.2 + h),
    "low end": lambda h: dist.LogUniform(0.1 * jnp.exp(-h), 5.0),
    "vector": lambda h: dist.LogUniform(0.1, 0.2 + h).expand([3]).to_event(1),
    "masked": lambda h: dist.LogUniform(0.1, 0.2 + h).mask(True),
    "Uniform": lambda h: dist.Uniform(0.0, h),
    "Pareto": lambda h: dist.Pareto(h, 2.0),
    "Levy": lambda h: dist.Levy(h, 1.0),
    "left": lambda h: dist.TruncatedNormal(0.0, 1.0, low=h),
    "right": lambda h: dist.RightTruncatedDistribution(dist.Normal(0.0, 1.0), h),
    "both": lambda h: dist.TwoSidedTruncatedDistribution(dist.Normal(0.0, 1.0), -h, h),
    "power law": lambda h: dist.LowerTruncatedPowerLaw(-2.5, 0.1 + h),
    "exp of Uniform": lambda h: transformed(dist.Uniform(0.0, h), transforms.ExpTransform()),
    "share of Uniform": lambda h: transformed(dist.Uniform(0.0, h), transforms.SigmoidTransform()),
    "affine": lambda h: transformed(dist.Beta(2.0, 2.0), transforms.AffineTransform(0.0, h)),
    "told its domain": lambda h: transformed(
        dist.Beta(2.0, 2.0), transforms.AffineTransform(0.0, h, domain=constraints.unit_interval)
    ),
}
STAND = {
    "fixed end": lambda h: dist.TruncatedNormal(h, 1.0, low=0.0),
    "fixed LogUniform": lambda h: dist.LogUniform(0.1, 2.0),
    "LogNormal": lambda h: dist.LogNormal(0.0, h),
    "Gamma": lambda h: dist.Gamma(h, 1.0),
    "logistic Normal": lambda h: transformed(dist.Normal(0.0, h), transforms.SigmoidTransform()),
    "HalfCauchy": lambda h: dist.HalfCauchy(h),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [*MOVE, *STAND])
def test_what_moves(name):
    def model():
        h = numpyro.sample("h", dist.HalfNormal(1.0))
        x = numpyro.sample("x", (MOVE | STAND)[name](h))
        numpyro.sample("y", dist.Normal(jnp.sum(x), 0.4), obs=1.0)

    density = gb.model(model, check_values=False).density
    assert support_movers(density, "x") == (frozenset("h") if name in MOVE else frozenset())
    assert bounded_by(density, "h") == (("x",) if name in MOVE else ())


def test_totals_move_counts():
    def model():
        n = numpyro.sample("n", dist.Poisson(3.0))
        k = numpyro.sample("k", dist.Binomial(n, 0.5))
        numpyro.sample("y", dist.Normal(k, 0.4), obs=1.0)

    density = gb.model(model).density
    assert support_movers(density, "k") == {"n"} and not support_movers(density, "n")


@pytest.mark.parametrize("name", ["LogUniform", "exp of Uniform", "vector"])
def test_densities_end_where_the_inner_one_does(name):
    def model():
        h = numpyro.sample("h", dist.HalfNormal(1.0))
        numpyro.sample("x", MOVE[name](h))

    target = Target(conditioned(handlers.seed(model, 0)), (), {}, frozenset("hx"))
    shape, logdensity = (3,) if name == "vector" else (), jax.jit(target.logdensity)
    ends = (0.1, 1.2) if name != "exp of Uniform" else (1.0, np.e)  # at h = 1
    for x in (ends[0] * 0.9, ends[0] * 1.1, ends[1] * 0.9, ends[1] * 1.1):
        found = logdensity({"h": jnp.float32(1.0), "x": jnp.full(shape, x, jnp.float32)})
        inside = ends[0] < x < ends[1]
        each = stats.loguniform.logpdf(x, *ends) if inside else -np.inf
        truth = stats.halfnorm.logpdf(1.0) + each * (3 if shape else 1)
        np.testing.assert_allclose(found, truth, rtol=1e-4)


def test_a_count_that_may_be_0_is_not_positive():
    def model():
        k = numpyro.sample("k", dist.Poisson(0.8))
        t = numpyro.sample("t", dist.HalfNormal(1.0))
        q = numpyro.sample("q", dist.ZeroInflatedPoisson(0.5, 2.0))
        numpyro.sample("y", dist.Normal(k + t + q, 1.0), obs=1.0)

    density = gb.model(model).density
    found = {n: positive(density, v) for n, v in density.latent_vars.items()}
    assert found == {"k": False, "t": True, "q": False}


class Counts(dist.Poisson):
    """NumPyro's by another name."""


class UpTo(dist.Distribution):
    """As likely each, below a bound that its support does not tell."""

    arg_constraints = {"high": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, high):
        self.high = high
        super().__init__(jnp.shape(high))

    def log_prob(self, value):
        return jnp.where(value < self.high, -jnp.log(self.high), -jnp.inf)


class Hits(UpTo):
    """Of as many tries as the bound says, all counts being called possible."""

    def log_prob(self, value):
        return dist.Binomial(self.high, 0.5).log_prob(value)


def test_what_may_bound_counts_of_a_class_of_ones_own():
    """A rate bounds nothing; a bound that the density computes does, and so may a number of tries."""

    def model(y):
        h, n = numpyro.sample("h", dist.HalfNormal(1.0)), numpyro.sample("n", dist.Poisson(3.0))
        numpyro.sample("x", Counts(h), obs=y)
        numpyro.sample("u", UpTo(h), obs=y)
        numpyro.sample("k", Hits(n), obs=y)

    density = gb.model(model, np.int32(0), check_values=False).density
    assert [support_movers(density, n) for n in ("x", "u", "k")] == [set(), {"h"}, {"n"}]

    def rates(y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        with numpyro.plate("n", 5):
            u = numpyro.sample("u", dist.Normal(a, 1.0))
            numpyro.sample("y", Counts(jnp.exp(u)), obs=y)

    assert "NUTS [a u]" in gb.model(rates, np.arange(5)).schedule().text
