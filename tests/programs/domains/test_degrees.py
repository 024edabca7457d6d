"""What is said to be a polynomial is one: differences of a higher order vanish, in double precision."""

from functools import cache
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.domains.degree import DEGREES, NONE
from gibbsite.programs.domains.domain import results
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import PICKS, SOLVES, TAKEN_APART
from gibbsite.programs.passes.flatten import flatten
from helpers.models.programs import STEPS
from helpers.truths.perturbation import INDEX, N, values
from jax import lax

HIGHEST = 3
MATRIX = np.tril(np.arange(1.0, 10).reshape(3, 3))
# those of the random programs' steps that keep what they are given in double precision
STEPWISE = [
    "rolled", "sliced", "windowed", "concatenated", "concatenated_rows", "padded", "padded_rows", "reshaped",
    "broadcast", "reduced", "gathered", "gathered_by_constants", "gathered_points", "gathered_windows",
    "scattered", "scattered_rows", "updated", "updated_at_data", "tiled", "stacked", "split", "triangle",
    "branched", "differences", "last_added", "sorted_rows", "scanned",
]  # fmt: skip
# of no degree, taken apart beforehand, or made by JAX in derivatives alone
UNREACHED = {"reduce_precision", "scatter", "add_any", "copy_p", "expand_dims", "pvary"}
OTHERS = [
    lambda x, i: lax.linalg.triangular_solve(MATRIX, x.reshape(3, 2), left_side=True, lower=True).reshape(N),
    lambda x, i: (MATRIX @ x.reshape(3, 2)).reshape(N),
    lambda x, i: -x / (1.0 + i),
    lambda x, i: (1.0 + i) / x,
    lambda x, i: jnp.where(i > 2, x, 2 * x),
    lambda x, i: jnp.where(x > 0, x, 2 * x),
    lambda x, i: jnp.cumsum(x),
    lambda x, i: lax.integer_pow(x, 3),
    lambda x, i: lax.integer_pow(x, -1),
    lambda x, i: lax.stop_gradient(x) + lax.optimization_barrier(x),
    lambda x, i: jnp.square(x) - x,
    lambda x, i: jnp.exp(x) + jnp.floor(x),
    lambda x, i: x * x[::-1],
    lambda x, i: x[(x > 0).astype(int)],
    lambda x, i: lax.cond(i[0] > 1, lambda v: v * v, lambda v: 3 * v, x),
    lambda x, i: lax.reduce_precision(x, 8, 10),
    lambda x, i: x.astype(jnp.int32).astype(x.dtype),
    lambda x, i: jnp.array(x.astype(jnp.float32), copy=True),
]


@cache
def program():
    """Steps after steps, all beside each other."""
    rng = np.random.default_rng(2)
    made = [STEPS[name](rng) for name in STEPWISE for _ in range(2)] + OTHERS
    pairs = [(made[a], made[b]) for a, b in rng.integers(len(made), size=(30, 2))]

    def run(x, i):
        return [f(x, i) for f in made] + [g(f(x, i) * 1.0, i) for f, g in pairs]

    with jax.enable_x64(True):
        return flatten(jax.make_jaxpr(run)(jnp.zeros(N), jnp.asarray(INDEX)))


def claims(closed):
    """The degree of each variable in the first input, and the primitives that polynomials went through."""
    found = dict.fromkeys(closed.jaxpr.constvars, 0) | dict(zip(closed.jaxpr.invars, (1, 0), strict=True))
    through = set()
    for eqn in closed.jaxpr.eqns:
        operands = [0 if isinstance(a, Literal) else found[a] for a in eqn.invars]
        outs = results(DEGREES, eqn, operands)
        found.update(zip(eqn.outvars, outs, strict=True))
        through |= {eqn.primitive.name} if 0 < max(outs) < NONE else set()
    return found, through


def broken(closed, found):
    """The primitives whose results are no polynomials of their degree, and how many were looked at."""
    rng, total, wrong = np.random.default_rng(1), 0, set()
    with jax.enable_x64(True):
        base, step = rng.normal(size=N), 2 * rng.normal(size=N)
        runs = [values(closed, jnp.asarray(base + k * step), jnp.asarray(INDEX)) for k in range(HIGHEST + 2)]
    for eqn in closed.jaxpr.eqns:
        for var in eqn.outvars:
            d = found[var]
            if d > HIGHEST or runs[0][var].dtype.kind not in "fiu":
                continue
            at = [run[var].astype(float) for run in runs[: int(d) + 2]]
            gap = sum((-1) ** k * comb(len(at) - 1, k) * x for k, x in enumerate(at))
            off = np.abs(gap) > 1e-5 * np.maximum(1.0, np.max(np.abs(at), axis=0))  # some are single numbers
            total += d > 0
            wrong |= {eqn.primitive.name} if off.any() else set()
    return wrong, total


def test_degrees_by_finite_differences():
    found, through = claims(program())
    wrong, total = broken(program(), found)
    assert not wrong
    assert total > 200
    rows = (
        TAKEN_APART | PICKS | SOLVES | {"pad", "tile", "split", "dynamic_update_slice", "scatter", "cumsum"}
    )
    assert rows - through == UNREACHED


@pytest.mark.share(5)
@pytest.mark.parametrize("name", ["exp", "gather", "integer_pow", "mul", "div", "select_n"])
def test_a_wrong_rule_is_caught(monkeypatch, name):
    monkeypatch.setitem(
        DEGREES.rules, name, lambda eqn, ds: [min(filter(None, ds), default=0)] * len(eqn.outvars)
    )
    assert broken(program(), claims(program())[0])[0]
