"""Models at the ends of what people write: nothing in a site, one share, hidden draws, nothing observed."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError
from numpyro import handlers
from numpyro.infer.util import log_density

Y = np.array([0.1, 2.0, 0.3, 1.9, 2.2, 0.2])


def line(X, y):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    m = numpyro.sample("m", dist.Normal(0, 1))
    with numpyro.plate("n", len(X)):
        numpyro.sample("y", dist.Normal(m + X @ b, 1.0), obs=y)


@pytest.mark.share(3)
@pytest.mark.parametrize("schedule", [None, "NUTS *", "Conjugate [b m]"])
def test_a_design_without_columns(schedule):
    """As the first of several sets of covariates may be."""
    run = gb.model(line, np.zeros((6, 0)), Y).sample(
        draws=500, warmup=300, chains=2, seed=0, schedule=schedule
    )
    assert run.draws["b"].shape == (2, 500, 0)
    assert run.draws["m"].mean() == pytest.approx(Y.sum() / 7, abs=0.05)
    assert run.predict(X=np.zeros((2, 0))).draws["y"].shape == (2, 500, 2)


@pytest.mark.slow
def test_one_component_that_takes_all():
    def one(y):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(1)))
        numpyro.sample("y", dist.Normal(w[0], 1.0), obs=y)

    run = gb.model(one, 1.0).sample(draws=20, chains=2, seed=0)
    assert (run.draws["w"] == 1).all()


def hidden(y):
    m = numpyro.sample("m", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.HalfNormal(1))
    with handlers.block(hide=["z"]), numpyro.plate("n", 6):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
    with numpyro.plate("k", 6):
        numpyro.sample("y", dist.Normal(m + 2 * z, s + 0.2), obs=y)


def by_key(y):
    m = numpyro.sample("m", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.HalfNormal(1))
    e = jax.random.normal(numpyro.prng_key(), (6,))
    with numpyro.plate("n", 6):
        numpyro.sample("y", dist.Normal(m + 2 * e, s + 0.2), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("fn", [hidden, by_key])
def test_a_draw_that_nobody_sees_is_one_draw(fn):
    """The same for gradients as for what was read of the model, which says so."""
    model = gb.model(fn, Y)
    assert "one draw stands for the whole run" in " ".join(model.notes)
    run = model.sample(draws=200, warmup=200, chains=2, seed=0, schedule="NUTS [m s]")
    again = model.sample(draws=200, warmup=200, chains=2, seed=0, schedule="NUTS [m s]")
    np.testing.assert_array_equal(run.draws["m"], again.draws["m"])
    states = [{"m": jnp.float32(m), "s": jnp.float32(1.0)} for m in (0.0, 1.0)]
    seeded = handlers.seed(model.execution.runtime_model, jax.random.key(5))  # a key that must not be taken
    inputs = model.execution.inputs
    found = [float(log_density(seeded, (), {"_gibbsite_inputs": inputs}, z)[0]) for z in states]
    own = [float(model.density.log_joint(z)) for z in states]
    assert found[1] - found[0] == pytest.approx(own[1] - own[0], abs=1e-3)


def test_checks_of_data_of_which_none_was_seen():
    def mean(y):
        m = numpyro.sample("m", dist.Normal(0, 1))
        with numpyro.plate("n", 6):
            numpyro.sample("y", dist.Normal(m, 1.0), obs=y)

    run = gb.model(mean, np.full(6, np.nan), missing="mask").sample(draws=20, warmup=20, chains=1, seed=0)
    with pytest.raises(DataError, match="none of the data of 'y' was observed"):
        run.checks()
