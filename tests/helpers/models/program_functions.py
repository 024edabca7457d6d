"""Functions of one array, element by element or as a whole, for random programs."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special


@jax.custom_jvp
def halved(v: Any) -> Any:
    """A function with a forward derivative of its own."""
    return v * 0.5 + v[::-1] if v.ndim else v * 0.5


@halved.defjvp
def _halved_jvp(primals: Any, tangents: Any) -> Any:
    return halved(*primals), tangents[0] * 0.5


@jax.custom_vjp
def mended(v: Any) -> Any:
    """A function with a backward derivative of its own."""
    return jnp.where(v > 0, v, 0.1 * jnp.roll(v, 1))


def _mended_forward(v: Any) -> Any:
    return mended(v), None


def _mended_backward(residual: None, cotangent: Any) -> tuple[Any]:
    return (cotangent,)


mended.defvjp(_mended_forward, _mended_backward)


@jax.jit
def two_results(v: Any) -> Any:
    """A compiled function of which only the second result counts."""
    return v.sum(), lax.optimization_barrier((v, v[::-1]))[1]


FUNCTIONS = [
    lambda x: x * 2 + 1,
    lambda x: jnp.where(x > 0, x, -x),
    jnp.abs, jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.sinh, jnp.cosh, jnp.arctan, jnp.arcsinh,
    lambda x: jnp.arcsin(x / 9), lambda x: jnp.arccos(x / 9), lambda x: jnp.arctanh(x / 9),
    lambda x: jnp.arccosh(x * x + 1.5), lambda x: jnp.arctan2(x, 1 + x * x),
    jnp.exp, jnp.exp2, jnp.expm1, lambda x: jnp.log(x * x + 1), lambda x: jnp.log1p(x * x),
    lambda x: jnp.sqrt(x * x + 1), lambda x: lax.rsqrt(x * x + 1), lambda x: jnp.cbrt(x), jnp.square,
    lambda x: x**3, lambda x: (x * x + 1) ** 1.5, lambda x: 1 / (x * x + 1), jnp.floor, jnp.ceil, jnp.round,
    jnp.sign, lambda x: jnp.remainder(x, 1.3), lambda x: jnp.nextafter(x, 3.0), lambda x: jnp.clip(x, -1, 1),
    lambda x: jnp.maximum(x, 0.3), lambda x: jnp.minimum(x, 0.3), jax.nn.sigmoid, jax.nn.softplus,
    lambda x: special.gammaln(x * x + 0.5), lambda x: special.digamma(x * x + 0.5),
    lambda x: special.erf(x), lambda x: special.erfc(x), lambda x: special.erfinv(x / 9),
    lambda x: special.gammainc(2.0, x * x), lambda x: special.gammaincc(2.0, x * x),
    lambda x: special.betainc(2.0, 3.0, jnp.abs(x) / 9), lambda x: special.polygamma(1, x * x + 1),
    lambda x: special.i0e(x), lambda x: special.i1e(x), lambda x: special.zeta(x * x + 2, 1.0),
    lambda x: (x > 0).astype(jnp.float32) + jnp.isfinite(x),
    lambda x: jnp.where((x > 0) & (x < 1) | (x < -1), 1.0, x),
    lambda x: jnp.where((x == 0) ^ ~(x >= 1), x, x != 2), lambda x: x.astype(jnp.int32) << 1,
    lambda x: x.astype(jnp.int32) >> 1, lambda x: lax.shift_right_logical(x.astype(jnp.int32), 1),
    lambda x: lax.population_count(x.astype(jnp.int32)), lambda x: lax.clz(x.astype(jnp.int32)),
    lambda x: lax.stop_gradient(x) - 1, lambda x: lax.reduce_precision(x, 8, 4),
    lambda x: lax.bitcast_convert_type(x, jnp.int32) % 7, lambda x: jnp.real(x + 1j * x) + jnp.imag(2j * x),
    lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), jnp.copy,
]  # fmt: skip
if hasattr(lax, "polynomial"):  # JAX 0.11 and newer
    FUNCTIONS += [
        lambda x: jnp.log2(x * x + 1),
        lax.one_minus_square,
        lambda x: lax.polynomial(x, [1.0, -0.5, 0.25]),
        lambda x: lax.polynomial(x, [jnp.flip(x), jnp.ones((1,) * x.ndim), x]),
    ]
