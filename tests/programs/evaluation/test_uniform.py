"""What is the same everywhere is not looked up: gathers from filled arrays keep their size 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.walker import made_by
from gibbsite.programs.passes.flatten import flatten

N = 6
AT = np.array([3, 0, 5, 5])
READS = {
    "rows by index": lambda z: z[jnp.asarray(AT)],
    "by a running number": lambda z: jax.vmap(lambda t: z[t])(jnp.arange(N)),
    "of one axis": lambda z: jnp.stack([z, z], axis=1)[jnp.asarray(AT), 1],
    "windows": lambda z: jax.vmap(lambda t: jax.lax.dynamic_slice(z, (t,), (2,)))(jnp.asarray(AT)),
    "filled beyond the end": lambda z: z.at[jnp.asarray(AT) + 2].get(mode="fill", fill_value=-7),
}


@pytest.mark.parametrize("name", READS)
def test_gathers_from_a_filled_array_give_the_same_at_size_one(name):
    closed = flatten(jax.make_jaxpr(READS[name])(jnp.zeros(N, jnp.int32)))
    (z,), (out,) = closed.jaxpr.invars, closed.jaxpr.outvars
    ev = Evaluator(closed, made_by(closed.jaxpr), {z: jnp.full((1,), 4, jnp.int32)})
    found = ev.lazy(out)
    np.testing.assert_array_equal(ev.full(out), READS[name](jnp.full(N, 4, jnp.int32)))
    if name not in ("of one axis", "filled beyond the end"):  # two columns; a value from outside
        assert found.size == 1
