"""A model's function as predictions run it: what it observed is let go, and plates have the size of what is
asked."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.contrib.control_flow.cond import cond_wrapper
from numpyro.primitives import Messenger

from gibbsite.density.handlers.scopes import ScopedScans, prefix_within, under
from gibbsite.density.model.collect import is_factor

DATA = "gibbsite_data"
"""In a statement's `infer`: the value that it would have been observed at."""


class Asking(Messenger):
    """Lets go of the values of the sites `data`, keeping their shapes, and gives the plates `sizes` theirs.

    Inside of `scan`, where outer handlers see nothing, it goes along with the loop's function.
    """

    def __init__(self, fn: Any, data: Collection[str], sizes: Mapping[str, int], keep_shape: bool = True):
        super().__init__(fn)
        self._data, self._sizes, self._keep_shape = frozenset(data), dict(sizes), keep_shape
        self._before: dict[str, int] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Change the statement."""
        if msg["type"] == "plate" and msg["name"] in self._sizes:
            size = self._sizes[msg["name"]]
            self._before[msg["name"]] = msg["args"][0]
            msg["args"], msg["value"] = (size, None), jnp.arange(size)
        elif msg["type"] == "control_flow":
            # what a scope calls the loop's sites is not what they are called inside
            prefix = prefix_within(self)
            short = {n.removeprefix(prefix) for n in self._data if n.startswith(prefix)}
            into_loop(msg, lambda: Asking(None, short, self._sizes, False))
            stack = msg["kwargs"]["substitute_stack"]
            # NumPyro's own `condition` hands its values to the loop: those of data are let go there as well
            stack[:] = [(kind, _without(values, {*short, *self._data})) for kind, values in stack]
        elif msg["type"] == "sample":
            self._sampled(msg)

    def _sampled(self, msg: dict[str, Any]) -> None:
        for frame in msg["cond_indep_stack"]:
            if frame.name in self._before and msg["scale"] is not None:
                # NumPyro takes a plate of another size for a subsample, and weighs what it holds
                scale = msg["scale"] * self._sizes[frame.name] / self._before[frame.name]
                msg["scale"] = None if isinstance(scale, float) and abs(scale - 1) < 1e-6 else scale
        if msg["name"] in self._data and msg["is_observed"]:
            if msg.get("_control_flow_done") or is_factor(msg["fn"]):
                return
            value = msg["value"]
            msg["infer"] = {**msg["infer"], DATA: value}
            msg["value"], msg["is_observed"] = None, False
            if self._keep_shape:
                msg["fn"] = as_long_as(msg["fn"], np.shape(value))


def _without(values: Any, names: Collection[str]) -> Any:
    return {n: v for n, v in values.items() if n not in names} if isinstance(values, dict) else values


def into_loop(msg: dict[str, Any], handler: Callable[[], Messenger]) -> None:
    """Have a handler of one's own inside of a loop's function, or of both branches of a `cond`."""
    # which arguments are its functions is told by whose they are: a loop may carry what can be called
    functions = (1, 2) if msg["fn"] is cond_wrapper else (0,)
    msg["args"] = tuple(under(a, handler) if i in functions else a for i, a in enumerate(msg["args"]))


def as_long_as(fn: Any, shape: tuple[int, ...]) -> Any:
    """The distribution in the shape of its data: without a plate, `sample("y", Normal(mu, 1), obs=y)` says
    the
    same of every element of `y`. Where the two do not go together it stays as it is."""
    try:
        batch = np.broadcast_shapes(fn.batch_shape, shape[: len(shape) - fn.event_dim])
    except ValueError:
        return fn
    return fn if batch == fn.batch_shape else fn.expand(batch)


def asking(fn: Callable, data: Collection[str], sizes: Mapping[str, int]) -> Callable:
    """`fn` under `Asking`."""
    return under(under(fn, ScopedScans), lambda: Asking(None, data, sizes))
