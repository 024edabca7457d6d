"""`numpyro.param` in a model that is sampled: constants where the density does not read them.

`random_flax_module` and its like register the parameters of a network, and put priors in their places: what
is left of the `param` is a scaffold; so is the degree of a `LocScaleReparam()`. One whose values the density
reads is to be optimised, and refused.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro import handlers

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import LooseParam, feasible, log_probs
from gibbsite.programs.jaxpr.walker import behind, made_by


def with_constants(fn: Callable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable:
    """The model `fn` with each `numpyro.param` that its density does not read fixed at its first value.

    Raises `LooseParam`, a `ModelError`, for one that it does read.
    """
    first = _trace(fn, args, kwargs)
    loose = {n: m["value"] for n, m in first.items() if m["type"] == "param" and m["value"] is not None}
    leaves, tree = jax.tree.flatten(loose)
    arrays = [
        i for i, x in enumerate(leaves) if isinstance(x, np.ndarray | np.generic | jax.Array | float | int)
    ]

    def density(given: list[Any]) -> list[Any]:
        values = list(leaves)
        for i, x in zip(arrays, given, strict=True):
            values[i] = x
        fixed = handlers.substitute(fn, data=jax.tree.unflatten(tree, values))
        return list(log_probs(_trace(fixed, args, kwargs), {}).values())

    if arrays:
        jaxpr = jax.make_jaxpr(density)([leaves[i] for i in arrays]).jaxpr
        live = set(behind(made_by(jaxpr), jaxpr.outvars))
        read = {i for i, v in zip(arrays, jaxpr.invars, strict=True) if v in live}
        paths = jax.tree_util.tree_flatten_with_path(loose)[0]
        names = [str(paths[i][0][0].key) for i in sorted(read)]  # type: ignore[union-attr]
        # the degree of a `LocScaleReparam()` is a matter of coordinates: the posterior is the same at each
        degrees = {f"{n.removesuffix('_decentered')}_centered" for n in first if n.endswith("_decentered")}
        free = [n for n in names if n not in degrees]
        if free:
            raise LooseParam.of(free[0])
    return handlers.substitute(fn, data=loose)


def _trace(fn: Callable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    model = handlers.substitute(handlers.seed(fn, jax.random.key(0)), substitute_fn=feasible)
    with handlers_alone, numpyro.validation_enabled(False):
        return handlers.trace(model).get_trace(*args, **kwargs)
