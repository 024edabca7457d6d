"""Every way to read or write elements by index, in range and out of it, by every reader of densities.

An index out of range reads a filling value, the nearest element, or wraps around, as the mode says; a
conditional that takes it for another element draws from something wrong.
"""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.startup.arrays import array
from helpers.truths.oracle import against_joint, joint
from jax import lax

K = 3
Y = array([0.3, 1.2, -0.5, 2.0, 1.5])
# in range, past the end, before the start and beyond; and for models whose density needs them in range
EVERYWHERE, INSIDE = [2, 0, 7, -1, -5], [0, -1, 2, 2, 1]


def window(x, i):
    """Two elements from `i` on, clamped; their sum."""
    return jax.vmap(lambda j: lax.dynamic_slice(x, (j,), (2,)).sum())(i)


def updated(x, i):
    return jax.vmap(lambda j: lax.dynamic_update_slice(x, x[:1] + 1.0, (j,))[2])(i)


READS = {
    "at default": lambda x, i: x.at[i].get(),
    "at fill 0": lambda x, i: x.at[i].get(mode="fill", fill_value=0.0),
    "at fill 2": lambda x, i: x.at[i].get(mode="fill", fill_value=2.0),
    "at clip": lambda x, i: x.at[i].get(mode="clip"),
    "at promise": lambda x, i: x.at[i].get(mode="promise_in_bounds"),
    "brackets": lambda x, i: x[i],
    "take fill": lambda x, i: jnp.take(x, i, mode="fill", fill_value=-1.0),
    "take clip": lambda x, i: jnp.take(x, i, mode="clip"),
    "take wrap": lambda x, i: jnp.take(x, i, mode="wrap"),
    "take_along_axis": lambda x, i: jnp.take_along_axis(x, i, 0, mode="fill", fill_value=0.0),
    "rows": lambda x, i: jnp.stack([x, 2 * x], 1).at[i].get(mode="fill", fill_value=0.5).sum(-1),
    "pairs": lambda x, i: jnp.stack([x, 2 * x], 1).at[i, jnp.minimum(i, 1)].get(mode="fill", fill_value=0.0),
    "narrow": lambda x, i: x.at[i.astype(jnp.int8)].get(mode="fill", fill_value=0.0),
    "unsigned": lambda x, i: x.at[jnp.abs(i).astype(jnp.uint8)].get(mode="fill", fill_value=0.0),
    "one-hot": lambda x, i: jax.nn.one_hot(i, K) @ x,
    "one-hot integers": lambda x, i: (jax.nn.one_hot(i, K, dtype=jnp.int8) * x).sum(-1),
    "dynamic_slice": window,
    "dynamic_update_slice": updated,
    "set drop": lambda x, i: jnp.zeros(5).at[i].set(x[0] + jnp.arange(5.0), mode="drop")[:5],
    "add drop": lambda x, i: jnp.zeros(5).at[i].add(x.sum() * jnp.ones(5), mode="drop")[:5],
    "add clip": lambda x, i: jnp.zeros(5).at[i].add(x[1] * jnp.ones(5), mode="clip")[:5],
    "segment sum": lambda x, i: jax.ops.segment_sum(x[jnp.array([0, 1, 2, 0, 1])], i, 5),
}


def by_data(read, prior):
    def model(y, i):
        mu = numpyro.sample("mu", prior())
        with numpyro.plate("n", 5):
            numpyro.sample("y", dist.Normal(read(mu, i), 1.0), obs=y)

    return model


def by_latent(read, values):
    def model(y, lowest):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([K]).to_event(1))
        with numpyro.plate("n", 5):
            z = numpyro.sample("z", dist.Categorical(jnp.arange(1.0, values + 1) / sum(range(values + 1))))
            numpyro.sample("y", dist.Normal(read(mu, z + lowest), 1.0), obs=y)

    return model


PRIORS = {
    "independent": lambda: dist.Normal(0.5, 2).expand([K]),
    "coupled": lambda: dist.MultivariateNormal(jnp.ones(K), jnp.eye(K) + 0.5),
}
POINTS = np.random.default_rng(0).normal(size=(6, K)).astype(np.float32)


def usable(read, indices):
    """Whether the model has a density: JAX fills with NaN where it is told nothing else."""
    return bool(jnp.isfinite(read(jnp.ones(K), jnp.asarray(indices))).all())


@pytest.mark.share(30)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("read", READS)
def test_a_continuous_site_read_by_data(read, prior):
    args = (Y, jnp.array(EVERYWHERE if usable(READS[read], EVERYWHERE) else INSIDE))
    found = against_joint(by_data(READS[read], PRIORS[prior]), args, "mu", [{}], POINTS)
    assert found in ("conjugate", "none")
    if read.startswith(("at", "take", "brackets")):
        assert found == "conjugate"


@pytest.mark.share(70)
@pytest.mark.parametrize("lowest", [0, -2])
@pytest.mark.parametrize("read", READS)
def test_a_site_read_by_a_discrete_one(read, lowest):
    if not usable(READS[read], range(lowest, lowest + 5)):
        pytest.skip("the model has no density")
    model, rng = by_latent(READS[read], 5), np.random.default_rng(1)
    states = [{"mu": rng.normal(size=K).astype(np.float32), "z": rng.integers(0, 5, 5)} for _ in range(2)]
    assert against_joint(model, (Y, lowest), "z", states) == "finite"
    against_joint(model, (Y, lowest), "mu", states, POINTS)


def vectors(read):
    def model(y):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.ones(2), jnp.eye(2) + 0.5).expand([K]))
        with numpyro.plate("n", 5):
            z = numpyro.sample("z", dist.Categorical(jnp.ones(5) / 5))
            numpyro.sample("y", dist.MultivariateNormal(read(mu, z), jnp.eye(2)), obs=y)

    return model


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_curvature_of_vectors_that_a_discrete_site_picks(mode):
    fill = {"fill_value": 0.25} if mode == "fill" else {}
    model, rng = vectors(lambda mu, z: mu.at[z].get(mode=mode, **fill)), np.random.default_rng(2)
    y = jnp.stack([Y, -Y], 1)
    states = [
        {"mu": rng.normal(size=(K, 2)).astype(np.float32), "z": rng.integers(0, 5, 5)} for _ in range(2)
    ]
    points = rng.normal(size=(5, K, 2)).astype(np.float32)
    assert against_joint(model, (y,), "mu", states, points) == "conjugate"
    assert against_joint(model, (y,), "z", states) == "finite"


TABLE = array([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.3, 0.2, 0.3, 0.2]])


def walk(mode, fill):
    def model(y):
        z = 0
        for t in range(5):
            logits = jnp.log(TABLE + 0.1).at[z].get(mode=mode, **fill)
            z = numpyro.sample(f"z[{t}]", dist.Categorical(logits=logits))
            numpyro.sample(f"y[{t}]", dist.Normal(z * 1.0, 1.0), obs=y[t])

    return model


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_a_chain_whose_last_value_is_out_of_the_tables_range(mode):
    fill = {"fill_value": 0.5} if mode == "fill" else {}
    model, rng = walk(mode, fill), np.random.default_rng(3)
    conditional = gb.model(model, Y).conditional("z")
    assert conditional.kind == "chain"
    z = rng.integers(0, 4, 5)
    table = np.zeros((5, 4))
    for t in range(5):
        for v in range(4):
            w = z.copy()
            w[t] = v
            table[t, v] = joint(model, (Y,), {f"z[{s}]": w[s] for s in range(5)})
    table -= np.logaddexp.reduce(table, 1, keepdims=True)
    ours = np.asarray(conditional.logits({f"z[{s}]": z[s] for s in range(5)}))
    np.testing.assert_allclose(np.exp(ours), np.exp(table), atol=2e-5)
