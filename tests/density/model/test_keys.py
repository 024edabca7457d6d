"""Random numbers made inside a model from keys of its own are constants; keys may be arguments."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.startup.arrays import array

Y = array([0.1, 0.5, -0.3, 1.0])
KEYS = {
    "NumPyro's": numpyro.prng_key,
    "typed": lambda: jax.random.key(0),
    "raw": lambda: jax.random.PRNGKey(0),
    "split": lambda: jax.random.split(jax.random.key(1), 3)[1],
    "folded": lambda: jax.random.fold_in(jax.random.key(1), 3),
}


def projected(y, key=None):
    e = jax.random.normal(key() if callable(key) else key, (4,))
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(mu * e + z, 1.0), obs=y)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [*KEYS, "typed argument", "raw argument"])
def test_every_stage_of_a_model_with_keys(name):
    given = {"typed argument": jax.random.key(3), "raw argument": jax.random.PRNGKey(3)}
    m = gb.model(projected, Y, key=given.get(name) if name in given else KEYS[name])
    assert m.conditional("mu").kind == "conjugate" and m.conditional("z").kind == "finite"
    for stage in (m.tape, m.density, m.graph, m.schedule(), m.conditional("mu"), m.conditional("z")):
        assert str(stage)
    if name in given:
        e = jax.random.normal(given[name], (4,))
        natural = m.conditional("mu").natural({"z": np.zeros(4, int)})
        np.testing.assert_allclose(natural["mu"], jnp.sum(e * Y), rtol=1e-5)


def test_a_run_of_a_model_with_a_typed_key():
    run = gb.model(projected, Y, key=jax.random.key(3)).sample(draws=5, warmup=2, chains=1, seed=0)
    assert np.isfinite(run.draws["mu"]).all()
