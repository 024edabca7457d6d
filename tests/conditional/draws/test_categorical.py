"""Draws by the inverse distribution function, against the same in double precision; programs stay short."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws.categorical import invert
from gibbsite.programs.jaxpr.compiling import compiled, lowered
from numpyro import plate, sample


@pytest.mark.parametrize("count", [1, 2, 24, 25, 111, 300])
@pytest.mark.parametrize("shape", [(), (3,), (40, 50)])
def test_indices_are_those_of_the_distribution_function(count, shape):
    rng = np.random.default_rng(count)
    logits = rng.normal(size=(count, *shape)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.2] = -np.inf
    logits[0] = 0.0  # something is possible
    uniform = rng.random(shape).astype(np.float32)
    found = np.asarray(jax.jit(invert)(uniform, logits))
    share = np.exp(logits.astype(float))
    below = np.cumsum(share, axis=0) / share.sum(axis=0)
    wanted = (below <= uniform).sum(axis=0)
    near = np.abs(below - uniform).min(axis=0) < 1e-5
    assert ((found == wanted) | near).all() and near.mean() < 0.05
    assert np.isfinite(np.take_along_axis(logits, found[None], axis=0)).all()


def test_what_has_no_weights_has_no_index():
    logits = np.zeros((30, 3), np.float32)
    logits[:, 0], logits[4, 1] = -np.inf, np.nan
    assert list(np.asarray(invert(np.full(3, 0.5, np.float32), logits))) == [-1, -1, 15]


@pytest.mark.share(2)
@pytest.mark.parametrize("joint", [False, True])
def test_programs_grow_with_the_values_and_not_with_their_square(joint):
    """XLA repeats what many of its fused computations read, in each of them."""

    def steps(y, values):
        with plate("changes", 2):
            at = sample("at", dist.DiscreteUniform(1, values))
        with plate("rates", 3):
            rate = sample("rate", dist.Gamma(1.0, 1.0))
        segment = (at <= jnp.arange(len(y))[:, None]).sum(axis=1)
        with plate("years", len(y)):
            sample("y", dist.Poisson(rate[segment]), obs=y)

    def lines(values):
        model = gibbsite.model(steps, np.arange(60) % 4, values)
        own = model.marginal("at") if joint else model.conditional("at")
        at = {"at": jnp.array([3, 9]), "rate": jnp.ones(3)}
        program = lowered(lambda key, z: own.sample(key, z), jax.random.key(0), at)
        return len(compiled(program).as_text().splitlines())

    assert lines(90) < 2 * lines(30)
