"""Whether a model's function is still the one that was analysed: what it reads may be another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.build import named_arguments, traced_again
from gibbsite.density.density import Density
from gibbsite.errors import ModelError
from gibbsite.inputs.live import live
from gibbsite.inputs.table import Table


def check_unchanged(fn: Callable[..., Any], density: Density) -> None:
    """Refuse to put draws into another program than they are of: where something that the model reads cannot
    be captured when it is made (objects, modules, what others have compiled), it is traced again. Raises
    `ModelError`."""
    names = live(fn, _plain_arguments(fn, density))
    if not names or density.traced is None:
        return
    now = traced_again(fn, density)
    if now is not None and (_same(now, density.traced.closed) or not _same(now, traced_again(fn, density))):
        return  # or it is another each time, which is told where the model is made
    some = ", ".join(names[:4]) + ", …" * (len(names) > 4)
    raise ModelError(
        f"the model is another than when it was made, since what it reads has changed ({some}): draws of the "
        "one are none of the other. Give it the values that it had, or make the model again, by its cell or "
        "`gibbsite.model`, and sample it"
    )


def _plain_arguments(fn: Callable[..., Any], density: Density) -> dict[str, Any]:
    """The arguments that are no arrays of the program, by name."""
    args, kwargs = density.arguments.rebuild(density.arguments.arrays)
    return {n: v for n, v in named_arguments(fn, args, kwargs).items() if not isinstance(v, Table)}


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None or len(one.jaxpr.eqns) != len(other.jaxpr.eqns):
        return False
    if len(one.consts) != len(other.consts) or str(one.jaxpr) != str(other.jaxpr):
        return False
    return all(_equal(a, b) for a, b in zip(one.consts, other.consts, strict=True))


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if jnp.issubdtype(jnp.result_type(one), jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    a, b = np.asarray(one), np.asarray(other)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
