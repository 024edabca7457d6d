"""Batches of factorisations as loops, and solves of few numbers each: no threads that wait for each other."""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.passes.for_cpu import for_cpu, jitted, threads
from helpers.startup.arrays import array

X = np.random.default_rng(0).normal(size=(5, 10, 3))
SQUARE = array(X @ np.swapaxes(X, -1, -2) + 12 * np.eye(10))
FACTORS = {
    "cholesky": jnp.linalg.cholesky,
    "triangular": lambda a: jax.lax.linalg.triangular_solve(a, a[..., :3], left_side=True, lower=True),
    "lu": jax.lax.linalg.lu,
    "eigh": jnp.linalg.eigh,
    "qr": jnp.linalg.qr,
    "svd": jnp.linalg.svd,
    "logdet": jnp.linalg.slogdet,
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]),
}


@pytest.fixture
def few_threads(monkeypatch):
    """Whatever this machine has."""
    monkeypatch.setenv("NPROC", "2")


def calls(fn, *args):
    return re.findall(r"stablehlo.custom_call @lapack\w+\(.*", jax.jit(fn).lower(*args).as_text())


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FACTORS)
def test_batches_of_factorisations_are_loops(name, few_threads):
    fn = FACTORS[name]
    for batch in (SQUARE, jnp.stack([SQUARE, 2 * SQUARE])):
        both = jax.jit(for_cpu(jax.vmap(fn)))(batch)
        one_by_one = jax.tree.map(lambda *parts: jnp.stack(parts), *(fn(m) for m in batch))
        jax.tree.map(np.testing.assert_array_equal, both, one_by_one)
    ours, plain = calls(for_cpu(fn), SQUARE), calls(fn, SQUARE)
    assert ours and not any("tensor<5x" in call for call in ours)
    assert any("tensor<5x" in call for call in plain)  # programs of others stay as they are


@pytest.mark.parametrize("size", [40, 127])
@pytest.mark.parametrize("left", [True, False])
def test_solves_are_too_small_to_be_shared_out(size, left, few_threads):
    near = jnp.exp(-jnp.abs(jnp.subtract.outer(jnp.arange(size), jnp.arange(size))) / 5)
    matrix, many = jnp.tril(near + jnp.eye(size)), jax.random.normal(jax.random.key(1), (size, 150))
    sides = many if left else many.T

    def solve(a, b):
        return jax.lax.linalg.triangular_solve(a, b, left_side=left, lower=True)

    shapes = re.findall(r"tensor<(\d+)x(\d+)xf32>\) ->", " ".join(calls(for_cpu(solve), matrix, sides)))
    assert shapes and all(int(a) * int(b) < 1024 for a, b in shapes)
    found = np.asarray(jitted(solve)(matrix, sides))
    np.testing.assert_allclose(matrix @ found if left else found @ matrix, sides, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found, solve(matrix, sides), rtol=1e-4, atol=1e-5)
    both = jitted(jax.vmap(solve))(jnp.stack([matrix, 2 * matrix]), jnp.stack([sides, sides]))
    np.testing.assert_array_equal(both[0], found)


def test_derivatives_go_through(few_threads):
    def f(a):
        return jnp.linalg.slogdet(jnp.linalg.cholesky(a))[1].sum()

    grad = jax.jit(for_cpu(jax.grad(f)))(SQUARE)
    np.testing.assert_allclose(grad, 0.5 * jnp.linalg.inv(SQUARE), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(jax.grad(jitted(f))(SQUARE), grad, rtol=1e-5)


MANY = """
import jax, jax.numpy as jnp
from gibbsite.programs.passes.for_cpu import jitted
a = jnp.broadcast_to(60 * jnp.eye(60) + 1.0, (14, 4, 60, 60))
step = lambda i, xs: [x + 0 * jnp.linalg.cholesky(x + 1e-6 * i) for x in xs]
out = jitted(lambda xs: jax.lax.fori_loop(0, 300, step, xs))(list(a))
print(float(out[0].sum()) == float(out[13].sum()))
"""


@pytest.mark.slow
def test_many_at_once_end_on_two_threads():
    """As JAX compiles it, this program waits for ever within some hundred steps."""
    done = subprocess.run(
        [sys.executable, "-c", MANY],
        env=os.environ | {"NPROC": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "True", done.stderr


def test_machines_with_many_cores_keep_their_batches(monkeypatch):
    monkeypatch.setenv("NPROC", "16")
    assert threads() == 16
    assert any("tensor<5x" in call for call in calls(for_cpu(jnp.linalg.cholesky), SQUARE))
    monkeypatch.setenv("NPROC", "x")
    assert 1 <= threads() <= os.cpu_count()
