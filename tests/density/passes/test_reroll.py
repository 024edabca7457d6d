"""Models that loop in Python over scalar sites become models over arrays."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density import build_density, rerolled
from numpyro.infer.util import log_density

RNG = np.random.default_rng(3)
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], np.float32)


def looped_hmm(x):
    m = numpyro.sample("m", dist.Normal(0, 2).expand([3]).to_event(1))
    p = jnp.ones(3) / 3
    for t in range(len(x)):
        s = numpyro.sample(f"s[{t}]", dist.Categorical(p))
        numpyro.sample(f"x[{t}]", dist.Normal(m[s], 0.5 + 0.1 * t), obs=x[t])
        p = jnp.asarray(P)[s]


def sliced_hmm(x):
    m = numpyro.sample("m", dist.Normal(0, 2).expand([3]).to_event(1))
    with numpyro.handlers.mask(mask=False):
        s = numpyro.sample("s", dist.Categorical(jnp.ones(3) / 3).expand([len(x)]).to_event(1))
    numpyro.factor("first", jnp.log(1 / 3))
    numpyro.factor("links", jnp.log(jnp.asarray(P))[s[:-1], s[1:]])
    numpyro.sample("x", dist.Normal(m[s], 0.5 + 0.1 * jnp.arange(len(x))).to_event(1), obs=x)


def named_apart(x):
    """Members by plain names, two structures in turn, and a sum over all of them."""
    total = 0.0
    for i in range(len(x)):
        z = numpyro.sample(f"z_{i}", dist.Bernoulli(0.3))
        total = total + z
        scale = 1.0 if i % 2 else 2.0
        numpyro.sample(
            f"y{i}", dist.Normal(z * 1.5, scale) if i % 3 else dist.Cauchy(1.0 * z, scale), obs=x[i]
        )
    numpyro.sample("total", dist.Normal(total, 1.0), obs=2.0)


def vectors(x):
    """Members that are arrays in a plate, and windows of the data that overlap."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    for i in range(4):
        with numpyro.plate(f"n{i}", 3):
            b = numpyro.sample(f"b[{i}]", dist.Categorical(w))
            numpyro.sample(f"x[{i}]", dist.Normal(2.0 * b, 1.0), obs=x[i : i + 3])


def stacked(x):
    """Members put together in an array by the model itself."""
    zs = [numpyro.sample(f"z[{i}]", dist.Categorical(jnp.array([0.2, 0.5, 0.3]))) for i in range(len(x))]
    z = jnp.stack(zs)
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([3]).to_event(1))
    numpyro.sample("x", dist.Normal(mu[z], 1.0).to_event(1), obs=x)


X = RNG.normal(size=6).astype(np.float32)
MODELS = {
    "hmm": (looped_hmm, {"s": 3}, {"m": lambda: RNG.normal(size=3).astype(np.float32)}),
    "apart": (named_apart, {"z": 2}, {}),
    "vectors": (vectors, {"b": 2}, {"w": lambda: RNG.dirichlet([1, 1]).astype(np.float32)}),
    "stacked": (stacked, {"z": 3}, {"mu": lambda: RNG.normal(size=3).astype(np.float32)}),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_density_is_that_of_the_original_model(name):
    fn, groups, others = MODELS[name]
    density = build_density(fn, (X,), {})
    arrays = rerolled(density)
    assert set(arrays.members) == set(groups)
    assert len(arrays.closed.jaxpr.eqns) < len(density.closed.jaxpr.eqns)
    values = []
    for _ in range(5):
        state = {n: draw() for n, draw in others.items()}
        for group, k in groups.items():
            state[group] = RNG.integers(k, size=arrays.sites[group].shape).astype(np.int32)
        flat = {n: jnp.asarray(v) for n, v in state.items() if n not in groups}
        for group in groups:
            flat.update({m: state[group][i] for i, m in enumerate(arrays.members[group])})
        truth = float(log_density(fn, (X,), {}, flat)[0])
        np.testing.assert_allclose(float(arrays.log_joint(state)), truth, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(float(arrays.log_joint(flat)), truth, rtol=1e-5, atol=1e-4)
        values.append(truth)
    assert np.ptp(values) > 0.1


@pytest.mark.parametrize("name", MODELS)
def test_the_group_s_logits_are_the_normalised_joint(name):
    fn, groups, others = MODELS[name]
    model = gb.model(fn, X)
    compared = 0
    for group, k in groups.items():
        c = model.conditional(group)
        names = rerolled(model.density).members[group]
        state = {n: draw() for n, draw in others.items()}
        state[group] = RNG.integers(k, size=(len(names), *model.sites[names[0]].shape)).astype(np.int32)
        logits = np.asarray(c.logits(state))
        assert logits.shape == (*state[group].shape, k)
        for at in np.ndindex(state[group].shape):
            table = []
            for value in range(k):
                moved = state[group].copy()
                moved[at] = value
                flat = {n: jnp.asarray(v) for n, v in state.items() if n != group}
                flat.update({m: moved[i] for i, m in enumerate(names)})
                table.append(float(log_density(fn, (X,), {}, flat)[0]))
            table = np.array(table) - np.logaddexp.reduce(table)
            np.testing.assert_allclose(logits[at], table, atol=2e-4)
            compared += np.isfinite(table).sum()
        single = model.conditional(names[2]).logits(
            {**state, **{m: state[group][i] for i, m in enumerate(names)}}
        )
        np.testing.assert_allclose(single, logits[2], atol=2e-4)
    assert compared > 10


@pytest.mark.slow
def test_a_loop_gives_the_kernel_of_slices_and_its_draws():
    loop, slices = gb.model(looped_hmm, X).conditional("s"), gb.model(sliced_hmm, X).conditional("s")
    assert loop.kind == slices.kind == "chain"
    state = {"m": np.array([-1.0, 0.0, 1.0], np.float32)}
    for seed in range(5):
        key = jax.random.key(seed)
        np.testing.assert_array_equal(loop.sample(key, state), slices.sample(key, state))


def test_the_program_does_not_grow_with_the_loop():
    sizes = [
        len(rerolled(build_density(looped_hmm, (np.zeros(n, np.float32),), {})).closed.jaxpr.eqns)
        for n in (10, 40)
    ]
    assert sizes[0] == sizes[1]


def test_models_without_groups_stay_as_they_are():
    density = build_density(sliced_hmm, (X,), {})
    assert rerolled(density) is density
