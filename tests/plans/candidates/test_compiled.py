"""What is looked at before a run takes few programs: each operation that JAX runs by itself is compiled as
one of its own, for arrays of every shape, which took a third of the time to the first draw."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan

RNG = np.random.default_rng(0)


def ridge(x, y):
    tau, s = numpyro.sample("tau", dist.HalfCauchy(1)), numpyro.sample("s", dist.HalfNormal(2))
    a = numpyro.sample("a", dist.Normal(0, 5))
    b = numpyro.sample("b", dist.Normal(0, tau).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(a + x @ b, s), obs=y)


def mixture(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    rate = numpyro.sample("rate", dist.Gamma(1.0, 0.1).expand([3]).to_event(1))
    with numpyro.plate("rows", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Poisson(rate[z]), obs=y)


def hidden(y):
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones((3, 3))).to_event(1))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 0.3).expand([3]).to_event(1))

    def step(z, y):
        z = numpyro.sample("z", dist.Categorical(p[z]))
        numpyro.sample("y", dist.Poisson(rate[z]), obs=y)
        return z, None

    scan(step, 0, y)


X = RNG.normal(size=(101, 5))
MODELS = {
    "ridge": (ridge, (X, X @ np.arange(5) + RNG.normal(size=101))),
    "mixture": (mixture, (RNG.poisson(np.repeat([2, 9, 22], 37)),)),
    "hidden": (hidden, (RNG.poisson(np.repeat([2, 9, 22], 29)),)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", MODELS)
def test_planning_and_sampling_take_few_programs(name, programs_compiled):
    fn, args = MODELS[name]
    before = programs_compiled()
    model = gb.model(fn, *args)
    model.schedule()
    planned = programs_compiled()
    model.sample(draws=50, warmup=100, chains=2, seed=0)
    assert planned - before <= 25
    assert programs_compiled() - planned <= 25
