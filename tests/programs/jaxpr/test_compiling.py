"""Compiled programs compute what they say, where XLA on CPUs is known to add up something else."""

import ast
from pathlib import Path

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.programs.jaxpr.compat import jit
from gibbsite.programs.jaxpr.compiling import Quick, compiled, once
from gibbsite.programs.passes.for_cpu import jitted

PACKAGE = Path(gb.__file__).parent
# 0.10.2 is off by 20 for the first without the option, and right for 200 by 160 by 2
SHAPES = [(320, 160, 2), (320, 130, 3), (40_000, 3, 1), (300, 300, 4)]


def weighted(d, x):
    return -(d[None] * x).sum(2)


@pytest.mark.parametrize("how", [jit, jitted, Quick, once, compiled], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_products_are_those_of_all_elements(how, shape):
    rng = np.random.default_rng(0)
    d, x = (rng.normal(size=s).astype(np.float32) for s in (shape[1:], shape))
    if how is once:
        found = once(weighted, d, x)
    elif how is compiled:
        found = compiled(jax.jit(weighted).lower(d, x))(d, x)
    else:
        found = how(weighted)(d, x)
    np.testing.assert_allclose(found, -np.einsum("ij,bij->bi", d, x), rtol=1e-3, atol=1e-3)


def test_within_another_program_options_are_its_own():
    once_more = jit(lambda x: jit(jnp.sin)(x) + 1)
    np.testing.assert_allclose(once_more(1.0), np.sin(1.0) + 1, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(jit(jnp.sin)))(jnp.ones(2)), np.cos(np.ones(2)), rtol=1e-6)


def test_no_program_is_compiled_without_the_options():
    """`jax.jit` alone is for lowering, and for what is compiled elsewhere."""
    bare = []
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        lowered = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        for node in ast.walk(tree):
            named = isinstance(node, ast.Attribute) and ast.unparse(node) == "jax.jit"
            if named and path.name != "compat.py":
                calls = [c for c in ast.walk(tree) if isinstance(c, ast.Call) and c.func is node]
                told = any(k.arg == "compiler_options" for c in calls for k in c.keywords)
                if not calls or not (told or any(id(c) in lowered for c in calls)):
                    bare.append(f"{path.name}:{node.lineno}")
    # programs for a GPU, one that is exported, and one that is traced within another
    assert sorted(p.split(":")[0] for p in bare) == ["engine.py", "engine.py", "engine.py", "sent.py"], bare


@pytest.mark.slow
def test_a_walk_of_two_coefficients_is_drawn_as_it_is():
    """Its slopes are such sums: of 400 numbers in one draw the means were off by 50 standard errors."""
    steps, scales, rng = 200, np.array([0.1, 0.05]), np.random.default_rng(59)
    x = rng.normal(size=(steps, 2))
    y = (x * np.cumsum(scales * rng.normal(size=(steps, 2)), 0)).sum(1) + 0.4 * rng.normal(size=steps)

    def varying(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([steps, 2]).to_event(2))
        numpyro.sample("y", dist.Normal((x * jnp.cumsum(w * scales, 0)).sum(-1), 0.4), obs=y)

    run = gb.model(varying, x, y).sample(draws=250, chains=4, warmup=10, seed=0, schedule="Conjugate w")
    rows = (np.tril(np.ones((steps, steps)))[:, None, :] * (x * scales)[:, :, None]).reshape(steps, -1)
    covariance = np.linalg.inv(np.eye(2 * steps) + rows.T @ rows / 0.16)
    mean, sd = covariance @ rows.T @ y / 0.16, np.sqrt(np.diag(covariance))
    drawn = run.draws["w"].reshape(-1, steps, 2).mean(0).T.reshape(-1)
    assert np.abs((drawn - mean) / (sd / np.sqrt(1000))).max() < 5
