"""Arrays of JAX's for the top of a test's file: put on the device as they are.

`jnp.array` of a list, `jnp.ones` and `jax.random.key` compile programs; a file that does so when it is
imported makes every worker of a suite compile the same ones at the same moment, for tests it may not even
run.
"""

from typing import Any

import jax
import numpy as np


def array(values: Any, dtype: Any = None) -> jax.Array:
    """As `jnp.array(values, dtype)`."""
    return jax.device_put(np.asarray(values, dtype))


def key(seed: int) -> jax.Array:
    """As `jax.random.key(seed)`, of a seed below 2³²."""
    return jax.random.wrap_key_data(array([0, seed], np.uint32), impl="threefry2x32")
