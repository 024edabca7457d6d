"""What the table of primitives says, held against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.jaxpr import primitives
from gibbsite.programs.jaxpr.primitives import ELEMENTWISE, MEANINGS
from jax import lax

R = np.random.default_rng(3)
X = R.normal(size=(3, 4)).astype(np.float32)
UNIT = R.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
HALVES = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4, -3.0]).reshape(2, 4)
INTEGERS = R.integers(-7, 8, (3, 4)).astype(np.int32)
OTHERS = R.integers(-3, 4, (3, 4)).astype(np.int32)
BITS = R.integers(0, 2, (3, 4)).astype(bool)

CASES = {
    "add": (lax.add, X, UNIT),
    "sub": (lax.sub, INTEGERS, OTHERS),
    "mul": (lax.mul, np.int8(INTEGERS * 17), np.int8(OTHERS * 17)),  # wraps around
    "div": (lax.div, INTEGERS, OTHERS),  # towards zero, and by zero
    "rem": (lax.rem, INTEGERS, OTHERS),
    "rem of floats": (lax.rem, X, UNIT),
    "div of floats": (lax.div, X, UNIT),
    "pow": (lax.pow, UNIT, X),
    "integer_pow": (lambda x: lax.integer_pow(x, -3), X),
    "integer_pow of integers": (lambda x: lax.integer_pow(x, 12), INTEGERS),  # wraps around
    "max": (lax.max, X, UNIT),
    "min": (lax.min, X, UNIT),
    "neg": (lax.neg, X),
    **{name: (getattr(lax, name), INTEGERS, OTHERS) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "and": (lax.bitwise_and, INTEGERS, OTHERS),
    "or": (lax.bitwise_or, BITS, ~BITS),
    "xor": (lax.bitwise_xor, BITS, ~BITS[::-1]),
    "not": (lax.bitwise_not, INTEGERS),
    **{name: (getattr(lax, name), 4 + UNIT) for name in ("lgamma", "digamma")},
    **{name: (getattr(lax, name), 2 * UNIT - 1) for name in ("erf", "erfc", "erf_inv")},
    "clamp": (lambda x: lax.clamp(np.float32(-0.5), x, np.float32(0.5)), X),
    "select_n": (lax.select_n, BITS, X, UNIT),
    "select_n of three": (lax.select_n, np.abs(OTHERS) % 3, X, UNIT, -X),
    "round to even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), HALVES),
    "round": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), HALVES),
    **{
        name: (getattr(lax, name), UNIT)
        for name in "exp exp2 expm1 log log1p sqrt rsqrt cbrt abs sign sin cos tanh square floor ceil "
        "is_finite logistic".split()
    },
    "copy": (jnp.copy, X),
    "convert_element_type": (lambda x: lax.convert_element_type(x, np.int32), 3 * X),
    "reshape": (lambda x: lax.reshape(x, (2, 6)), X),
    "squeeze": (lambda x: lax.squeeze(x, [1]), X[:, None]),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), X),
    "rev": (lambda x: lax.rev(x, (1,)), X),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)), X),
    "iota": (lambda x: lax.broadcasted_iota(np.int32, (3, 4), 1) + x, INTEGERS),
    "slice": (lambda x: lax.slice(x, (0, 1), (3, 4), (2, 1)), X),
    "concatenate": (lambda *xs: lax.concatenate(xs, 0), X, UNIT),
    **{
        f"reduce_{name}": (lambda x, fn=fn: fn(x, axis=1), UNIT)
        for name, fn in {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod}.items()
    },
    "reduce_and": (lambda x: jnp.all(x, axis=0), BITS),
    "reduce_or": (lambda x: jnp.any(x, axis=0), BITS),
    "cumsum": (lambda x: lax.cumsum(x, 1, reverse=True), X),
    "cumprod": (lambda x: lax.cumprod(x, 0), X),
    "cummax": (lambda x: lax.cummax(x, 1), X),
    "dot_general": (lambda a, b: jnp.einsum("bij,bjk->bki", a, b), X[None], UNIT.T[None]),
    "gather": (lambda x, i: x[i], X, np.abs(OTHERS[:, 0]) % 3),
    "gather along an axis": (
        lambda x, i: jnp.take_along_axis(x, i[:, :2], axis=1, mode="clip"),
        X,
        np.abs(OTHERS) % 4,
    ),
    "gather along the first": (
        lambda x, i: jnp.take_along_axis(x, i, axis=0, mode="clip"),
        X[:, :, None] * UNIT[:, None, :],
        np.abs(R.integers(0, 3, (2, 4, 4)).astype(np.int32)),
    ),
    "gather of elements": (lambda x, i, j: x[i, j], X, np.abs(OTHERS[:2, 0]) % 3, np.abs(OTHERS[:2, 1])),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), np.float32(X @ X.T + np.eye(3))),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("case", CASES)
def test_numpy_computes_what_jax_computes(case):
    fn, *operands = CASES[case]
    name = case.split(" ")[0]
    closed = jax.make_jaxpr(fn)(*operands)
    seen, env = set(), dict(zip(closed.jaxpr.invars, operands, strict=True))
    env.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))

    def run(jaxpr, env):
        for eqn in jaxpr.eqns:
            values = [np.asarray(a.val if hasattr(a, "val") else env[a]) for a in eqn.invars]
            inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
            if inner is not None:
                body = getattr(inner, "jaxpr", inner)
                of_body = dict(zip(body.invars, values, strict=True))
                outs = run(body, of_body)
            else:
                aval = eqn.outvars[0].aval
                seen.add(eqn.primitive.name)
                with np.errstate(all="ignore"):
                    outs = [MEANINGS[eqn.primitive.name](eqn.params, aval.shape, *values)]
                    outs = [np.asarray(outs[0]).astype(aval.dtype)]
                assert outs[0].shape == aval.shape
            env.update(zip(eqn.outvars, outs, strict=True))
        return [np.asarray(a.val if hasattr(a, "val") else env[a]) for a in jaxpr.outvars]

    (found,) = run(closed.jaxpr, env)
    assert name in seen
    np.testing.assert_allclose(found, np.asarray(fn(*operands)), rtol=2e-6, atol=1e-7)


def test_every_meaning_is_held_against_jax():
    assert set(MEANINGS) - {"stop_gradient", "expand_dims"} <= {case.split(" ")[0] for case in CASES}


def test_kinds_are_apart():
    kinds = [primitives.ARRANGES, ELEMENTWISE, primitives.REDUCTIONS, primitives.CUMULATIVE]
    kinds += [primitives.JOINS, primitives.MATRIX]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
