"""Programs in the form for CPUs give the same numbers, without scatters of rows or gathers from a few."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.programs.passes.for_cpu import for_cpu
from helpers.startup.arrays import key
from numpyro.infer import NUTS

KEY = key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 10, 3)).astype(np.float32)


def same(fn, *args):
    """The primitives of both forms, whose results must agree bit by bit."""
    args, new = jax.tree.map(jnp.asarray, args), for_cpu(fn)
    for a, b in zip(jax.tree.leaves(jax.jit(fn)(*args)), jax.tree.leaves(jax.jit(new)(*args)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return [str(jax.make_jaxpr(f)(*args)) for f in (fn, new)]


def put(x, i, row):
    return x.at[i].set(row)


def clip(x, i, row):
    return x.at[i].set(row, mode="clip")


WRITES = {
    "batched": (jax.vmap(put), X, np.array([0, 9, -1, 10, 4]), X[:, 0]),
    "batched numbers": (jax.vmap(put), X[..., 0], np.array([0, 9, -1, 10, 4]), X[:, 0, 0]),
    "twice batched": (jax.vmap(jax.vmap(put)), X, np.arange(50).reshape(5, 10) % 3, X[..., 0]),
    "plain": (put, X, 3, X[0] + 1),
    "second axis": (jax.vmap(lambda x, i, v: x.at[:, i].set(v)), X, np.array([0, 1, 2, 3, -3]), X[..., 1]),
    "clipped": (jax.vmap(clip), X, np.array([0, 99, 3, 4, 5]), X[:, 0]),
    "shared row": (jax.vmap(put, (0, 0, None)), X, np.arange(5), X[0, 0]),
    "shared index": (jax.vmap(put, (0, None, 0)), X, 4, X[:, 0]),
    "integers": (jax.vmap(put), np.arange(50).reshape(5, 10), np.arange(5), np.arange(5) - 7),
    "booleans": (jax.vmap(put), X[..., 0] > 0, np.arange(5), X[:, 0, 0] > 0),
}


@pytest.mark.parametrize("name", WRITES)
def test_rows_are_written_by_selecting_them(name):
    before, after = same(*WRITES[name])
    assert "scatter[" in before and "scatter[" not in after


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.at[jnp.array([0, 0, 3])].set(x[:3] + 1),  # several rows, one of them twice
        lambda x: x.at[2].add(1.0),
        lambda x: x.at[1, 2].set(7.0),
        lambda x: x.at[2:4].set(1.0),
        lambda x: jnp.tile(x, (200, 1, 1)).at[3].set(0.0),  # large
    ],
    ids=["several", "sum", "two axes", "slice", "large"],
)
def test_other_writes_stay_what_they_are(fn):
    before, after = same(fn, X)
    assert before.count("scatter") == after.count("scatter") > 0


SHORT = RNG.normal(size=(5, 4, 3)).astype(np.float32)
NUMBERS = RNG.integers(-2, 6, (5, 100), np.int32)


def taken(x, i):
    return jnp.take(x, i, axis=0, mode="clip")


def gathered(x, i):
    return x.at[i].get(mode="promise_in_bounds")


READS = {
    "numbers": (taken, SHORT[0, :, 0], NUMBERS),
    "rows": (taken, SHORT[0], NUMBERS),
    "second axis": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), SHORT, NUMBERS),
    "batched": (jax.vmap(taken), SHORT, NUMBERS),
    "batched along the last": (jax.vmap(taken, (2, 0), 1), SHORT[:4], NUMBERS[:3]),
    "batched tables": (jax.vmap(taken, (0, None)), SHORT[..., 0], NUMBERS[0]),
    "batched numbers": (jax.vmap(taken, (None, 0), 1), SHORT[0], NUMBERS),
    "twice batched": (jax.vmap(jax.vmap(taken)), SHORT.reshape(5, 2, 2, 3), NUMBERS.reshape(5, 2, 50)),
    "in bounds": (gathered, SHORT[0, :, 0], NUMBERS % 4),
    "integers": (taken, np.arange(3), NUMBERS),
    "booleans": (taken, SHORT[0, :, 0] > 0, NUMBERS),
    "one row": (taken, SHORT[0, :1], NUMBERS),
}


@pytest.mark.parametrize("name", READS)
def test_few_rows_are_chosen_among(name):
    fn, x, i = READS[name]
    before, after = same(fn, x, i)
    assert "gather[" in before
    assert "gather[" not in after


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.at[NUMBERS].get(mode="fill", fill_value=0.0),  # beyond is another number
        lambda x: x[NUMBERS % 4, NUMBERS % 3],
        lambda x: x[jnp.arange(4) % 2, 0],
        lambda x: jnp.take(jnp.tile(x, (3, 1)), NUMBERS, axis=0, mode="clip"),
    ],
    ids=["filled", "two axes", "few elements", "many rows"],
)
def test_other_reads_stay_what_they_are(fn):
    before, after = same(fn, SHORT[0])
    assert before.count("gather[") == after.count("gather[") > 0


def test_programs_inside_of_programs():
    @jax.custom_jvp
    def own(x, i):
        return x.at[i].set(0.0)

    own.defjvp(lambda p, t: (own(*p), t[0]))

    def body(carry):
        n, x = carry
        x = jax.lax.cond(n % 2 == 0, lambda x: own(x, n), lambda x: jax.jit(put)(x, n + 1, x[0]), x)
        return n + 1, x

    def fn(x, key):
        n, x = jax.lax.while_loop(lambda c: (c[0] < 4) & (put(c[1], 0, c[1][1])[0, 0] < 1e9), body, (0, x))
        x, sums = jax.lax.scan(lambda x, i: (put(x, i, x[i] * 2), x.sum()), x, jnp.arange(3))
        noise = jax.random.normal(jax.random.split(key)[1], x.shape)
        return {"x": x + noise, "n": n, "sums": sums, "key": jax.random.key_data(key)}

    before, after = same(fn, X[0], KEY)
    assert before.count("scatter[") >= 4 and "scatter[" not in after


def schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu + tau * theta, sigma), obs=y)


@pytest.mark.slow
def test_nuts_becomes_loops_without_scatters():
    """The same trajectories, and nothing in the way of one function for a trajectory."""
    y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    kernel = NUTS(schools)
    args = (y, jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18]))
    state = jax.vmap(lambda key: kernel.init(key, 0, None, args, {}))(jax.random.split(KEY, 4))

    def steps(state):
        sample = jax.vmap(lambda s: kernel.sample(s, args, {}))
        return jax.lax.fori_loop(0, 3, lambda _, s: sample(s), state)

    old, new = jax.jit(steps).lower(state), jax.jit(for_cpu(steps)).lower(state)
    assert "stablehlo.scatter" in old.as_text() and "stablehlo.scatter" not in new.as_text()
    a, b = old.compile()(state), new.compile()(state)
    np.testing.assert_array_equal(a.num_steps, b.num_steps)
    for name, z in a.z.items():  # XLA may fuse them differently
        np.testing.assert_allclose(z, b.z[name], rtol=1e-4, atol=1e-5)


def loop(x):
    return jax.lax.fori_loop(0, 50, lambda i, x: jnp.sin(x) * 1.01 + 0.1, x)


def functions(compiled):
    return compiled.as_text().count('xla_cpu_small_call="true"')


def test_small_loops_become_functions_in_our_programs_alone():
    lowered = jax.jit(loop).lower(jnp.ones(1000))
    assert functions(compiled(lowered)) == functions(compiled(lowered, quickly=True)) == 1
    if jax.__version_info__ < (0, 11):  # later ones make a function of every loop
        assert functions(lowered.compile()) == 0
    ours, theirs = compiled(lowered), lowered.compile()
    np.testing.assert_allclose(ours(jnp.ones(1000)), theirs(jnp.ones(1000)), 1e-6)


THRESHOLD = "xla_cpu_small_while_loop_byte_threshold"
CHOSEN = """
import jax, jax.numpy as jnp
from gibbsite.programs.jaxpr.compiling import compiled
lowered = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda i, x: jnp.sin(x), x)).lower(jnp.ones(1000))
print('xla_cpu_small_call="true"' in compiled(lowered).as_text(), jax.device_count())
"""


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (f"--xla_backend_extra_options={THRESHOLD}=0", "False 1"),
        ("--xla_backend_extra_options=xla_cpu_optimize_for_size=true", "True 1"),
        ("--xla_force_host_platform_device_count=2", "True 2"),
    ],
)
def test_what_the_user_tells_xla_is_kept(flags, said):
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", CHOSEN], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == said, done.stderr
