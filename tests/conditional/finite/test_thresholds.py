"""Change points: logits through thresholds equal the normalised joint of the model as written."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density

N = 40
RNG = np.random.default_rng(7)
Y = RNG.poisson(np.where(np.arange(N) < 15, 2.0, 4.0))
TIMES = RNG.permutation(np.linspace(0, 1.2, N)).astype(np.float32)
TIMES[3] = np.nan
UNIT = RNG.uniform(0.05, 0.99, N).astype(np.float32)
RATE = np.array([2.0, 4.0], np.float32)


def point(name="tau"):
    return numpyro.sample(name, dist.DiscreteUniform(1, N))


def observe(mean):
    numpyro.sample("y", dist.Poisson(mean).to_event(1), obs=jnp.asarray(Y))


def after(rate):
    observe(jnp.where(point() > jnp.arange(N), rate[0], rate[1]))


def before(rate):
    observe(jnp.where(jnp.arange(N) <= point(), rate[0], rate[1]))


def gathered(rate):
    observe(rate[(jnp.arange(N) >= point()).astype(int)])


def scaled(rate, times):
    """Real thresholds in no order, one of them missing, and a function of the site."""
    observe(jnp.where(times > jnp.log(point()) / jnp.log(N), rate[0], rate[1]))


def mirrored(rate, times):
    observe(jnp.where(0.5 + point() / N <= times, rate[0], rate[1]))


def two(rate):
    """Three regimes; each point given the other."""
    n, first, second = jnp.arange(N), point(), point("rho")
    observe(jnp.where(n < first, rate[0], jnp.where(n < second, rate[1], 3.0)))


def several(rate):
    """A point for each of two series."""
    with numpyro.plate("j", 2, dim=-2):
        tau = point()
        with numpyro.plate("n", N):
            mean = jnp.where(tau > jnp.arange(N), rate[0], rate[1])
            numpyro.sample("y", dist.Poisson(mean), obs=jnp.stack([Y, Y[::-1]]))


def indexed(rate, place):
    """Which comparison an observation reads is data."""
    observe(jnp.where(point() > jnp.arange(N), rate[0], rate[1])[place])


def impossible(rate):
    """Observations that only one regime allows."""
    x = jnp.where(jnp.arange(N) < 15, 0.5, 1.5) * jnp.asarray(UNIT)
    upper = jnp.where(jnp.arange(N) < point(), 0.5, 1.5)
    numpyro.sample("x", dist.Uniform(0, upper).to_event(1), obs=x)


def shared(rate):
    """Two sites read the same point, and the threshold of one depends on a latent."""
    tau = point()
    lag = numpyro.sample("lag", dist.Normal(0, 3))
    observe(jnp.where(tau > jnp.arange(N), rate[0], rate[1]))
    early = jnp.arange(N) + lag < tau
    numpyro.sample("x", dist.Normal(jnp.where(early, 0.0, 1.0), 1.0).to_event(1), obs=jnp.asarray(UNIT))


def summed(rate):
    """Every element of the mean reads all comparisons before it."""
    observe(rate[0] + jnp.cumsum(jnp.arange(N) > point()) * 0.1)


def graded(rate):
    """Compared, and read as a number too."""
    tau = point()
    observe(jnp.where(tau > jnp.arange(N), rate[0], rate[1]) * (1 + 0.01 * tau))


def periodic(rate):
    """A comparison of what does not grow with the site."""
    observe(jnp.where(point() % 7 > jnp.arange(N) % 5, rate[0], rate[1]))


MODELS = {
    after: ("tau", 1, (RATE,)),
    before: ("tau", 1, (RATE,)),
    gathered: ("tau", 1, (RATE,)),
    scaled: ("tau", 1, (RATE, TIMES)),
    mirrored: ("tau", 1, (RATE, TIMES)),
    two: ("rho", 1, (RATE,)),
    several: ("tau", 1, (RATE,)),
    indexed: ("tau", 1, (RATE, RNG.integers(0, N, N))),
    impossible: ("tau", 1, (RATE,)),
    shared: ("tau", 2, (RATE,)),
    summed: ("tau", 0, (RATE,)),
    graded: ("tau", 0, (RATE,)),
    periodic: ("tau", 0, (RATE,)),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("fn", MODELS)
def test_logits_are_the_normalised_joint(fn):
    site, count, args = MODELS[fn]
    model = gb.model(fn, *args)
    conditional = model.conditional(site)
    assert len(conditional.tables.thresholds) == count
    state = {"tau": jnp.array(11), "rho": jnp.array(20), "lag": jnp.array(0.7)}
    state = {n: v for n, v in state.items() if n in model.sites}
    if fn is several:
        state["tau"] = jnp.array([[11], [20]])
    shape = model.sites[site].shape
    found = np.asarray(conditional.logits(state)).reshape(-1, N)

    def joint(i, value):
        moved = jnp.ravel(state[site]).at[i].set(value).reshape(shape)
        return log_density(fn, tuple(map(jnp.asarray, args)), {}, {**state, site: moved})[0]

    with jax.enable_x64(True):
        state = {n: np.asarray(v, np.float64 if v.dtype.kind == "f" else int) for n, v in state.items()}
        every = jax.jit(jax.vmap(joint, (None, 0)), static_argnums=0)
        expected = np.stack([every(i, jnp.asarray(conditional.support)) for i in range(len(found))])
    expected = np.asarray(jax.nn.log_softmax(expected, axis=1))
    finite = np.isfinite(expected)
    assert finite.sum() > (1 if fn is impossible else N - 1)
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    np.testing.assert_allclose(found[finite], expected[finite], atol=1e-4)


def test_the_work_grows_with_the_data_not_with_its_square():
    """At a length where a table of all pairs would not fit into memory."""
    n = 200_000
    y = np.random.default_rng(0).poisson(np.where(np.arange(n) < 70_000, 2.0, 4.0))

    def model(y):
        tau = numpyro.sample("tau", dist.DiscreteUniform(1, len(y)))
        numpyro.sample("y", dist.Poisson(jnp.where(jnp.arange(len(y)) < tau, 2.0, 4.0)).to_event(1), obs=y)

    found = gb.model(model, y).conditional("tau")
    assert found.cost == "400000 term elements once, compared with thresholds"
    assert abs(int(found.sample(jax.random.key(0), {})) - 70_000) < 30
