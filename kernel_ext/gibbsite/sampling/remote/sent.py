"""A step loop as bytes that any worker runs, and what goes through its door: random keys as numbers, trees as
tuples of NumPy's arrays."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compiling import Surroundings
from gibbsite.programs.passes.for_cpu import for_cpu
from gibbsite.sampling.remote.worker import Program
from gibbsite.storage import checkpoint


def program_for(
    advance: Callable[[Any, Any, Any, Any], tuple[Any, Any]],
    given: Any,
    inputs: Any,
    surroundings: Surroundings,
    platform: str,
    name: str,
) -> tuple[Program, Any, Any]:
    """`advance(given, inputs, steps, sweeps) → state, records` for such `given` (shapes will do) and these
    `inputs`, and the structures of its state, as shapes, and of its records.

    Raises `ModelError` where the model `name` has parts that cannot leave the process.
    """
    like, data = jax.tree.leaves(given), jax.tree.leaves(inputs)
    tree, around = jax.tree.structure(given), jax.tree.structure(inputs)
    keyed, structure = [checkpoint.is_key(leaf) for leaf in like], []

    def called(leaves: Sequence[Any], inputs: Sequence[Any], steps: Any, sweeps: Any) -> Any:
        back = [jax.random.wrap_key_data(v) if k else v for v, k in zip(leaves, keyed, strict=True)]
        state, records = advance(
            jax.tree.unflatten(tree, back), jax.tree.unflatten(around, inputs), steps, sweeps
        )
        shapes = jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype), state)
        structure[:] = [shapes, jax.tree.structure(records)]
        return tuple(map(checkpoint.plain, jax.tree.leaves(state))), tuple(jax.tree.leaves(records))

    leaves = tuple(jax.eval_shape(checkpoint.plain, v) for v in like)
    fixed = tuple(jax.ShapeDtypeStruct(np.shape(v), v.dtype) for v in data)
    count = jax.ShapeDtypeStruct((), jnp.int32)
    fn = for_cpu(called) if platform == "cpu" else called
    try:
        found = jax.export.export(jax.jit(fn), platforms=["cuda" if platform == "gpu" else platform])(
            leaves, fixed, count, count
        )
        body = bytes(found.serialize())
    except (NotImplementedError, ValueError) as problem:
        # `jax.export` refuses calls back into Python by the one, and calls of code that other versions of XLA
        # need not have by the other
        raise ModelError(
            f"the program of {name!r} cannot leave this process: {str(problem).splitlines()[0]}. "
            f"What calls back into Python (pure_callback, debug.print) cannot be sent; sample without on="
        ) from problem
    arrays = tuple(np.asarray(v) for v in data)
    return Program(body, arrays, asdict(surroundings), checkpoint.versions()), *structure


def leaves_of(tree: Any) -> list[np.ndarray]:
    """What is sent of a state."""
    return [np.asarray(checkpoint.plain(v)) for v in jax.tree.leaves(tree)]


def rebuilt(leaves: Sequence[np.ndarray], template: Any) -> Any:
    """The state that came back, by the shapes of one."""
    keys = [
        jax.random.wrap_key_data(jnp.asarray(v)) if checkpoint.is_key(like) else jnp.asarray(v)
        for v, like in zip(leaves, jax.tree.leaves(template), strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(template), keys)
