"""Every kernel that fits runs on models that index their observations, in Python loops or one by one."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

Y = np.array([-1.2, 0.1, 2.2], np.float32)


def array_sites(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    z = numpyro.sample("z", dist.Categorical(w).expand([3]).to_event(1))
    for n in range(3):
        numpyro.sample(f"y[{n}]", dist.Normal(mu[z[n]], 1.0), obs=y[n])


def chain_of_sites(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([2]))
    table, z = jnp.array([[0.8, 0.2], [0.3, 0.7]]), 0
    for n in range(3):
        z = numpyro.sample(f"z[{n}]", dist.Categorical(table[z]))
        numpyro.sample(f"y[{n}]", dist.Normal(mu[z], 1.0), obs=y[n])


def indexed_everything(y):
    mu = [numpyro.sample(f"mu[{k}]", dist.Normal(0.0, 2.0)) for k in range(2)]
    for n in range(3):
        z = numpyro.sample(f"z[{n}]", dist.Bernoulli(0.4))
        numpyro.sample(f"y[{n}]", dist.Normal(jnp.stack(mu)[z], 1.0), obs=y[n])
        numpyro.deterministic(f"d[{n}]", z * 2)


MODELS = {m.__name__: m for m in (array_sites, chain_of_sites, indexed_everything)}
QUICK = ("ESlice", "Slice")
MORE = ("Conjugate", "ReflectiveSlice", "RandomWalk", "Independence", "HMC", "NUTS")
KERNELS = [*QUICK, *(pytest.param(k, marks=pytest.mark.slow) for k in MORE)]


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_a_schedule_that_is_accepted_runs(name, kernel):
    m = gb.model(MODELS[name], Y)
    rest = " (*) Conjugate w" if "w" in m.sites else ""
    run = m.sample(draws=3, warmup=2, chains=1, seed=0, schedule=f"Gibbs z{rest} (*) {kernel} mu")
    assert run.draws["mu"].shape == (1, 3, 2) and np.isfinite(run.draws["mu"]).all()
    assert run.draws["z"].shape == (1, 3, 3)
    if name == "indexed_everything":
        np.testing.assert_array_equal(run.draws["d"], 2 * run.draws["z"])
