"""Numbers that JAX's types cannot hold."""

from typing import Any

import jax
import numpy as np

from gibbsite.errors import DataError


def check_range(name: str, leaf: Any) -> None:
    """Refuse whole numbers that would wrap around, and finite ones that would become infinite, in the types
    that JAX computes in: raises `DataError` with the first of them."""
    given, used = np.dtype(leaf.dtype), np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
    if given == used or given.kind not in "iuf" or not leaf.size:
        return
    value = np.asarray(leaf)
    if given.kind == "f":
        wrong = np.isfinite(value) & (np.abs(value) > np.finfo(used).max)
    else:
        limits = np.iinfo(used)
        wrong = (value > limits.max) | (value < limits.min)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f" at {list(at)}" if at else ""
        raise DataError(
            f"{name} holds {value[at]}{where}, which {used} cannot hold; JAX would compute with "
            f"another number. Turn on 64-bit numbers (`jax.config.update('jax_enable_x64', True)`), or "
            f"rescale"
        )
