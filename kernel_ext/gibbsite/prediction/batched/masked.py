"""A model some of whose data do not count: which, is an argument, so that one program serves every choice."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import Distribution, Independent
from numpyro.primitives import Messenger

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution
from gibbsite.programs.jaxpr.compiling import once

COUNTED = "counted_data"
"""The keyword argument that says which elements count, by observed site."""


def counting(fn: Callable) -> Callable:
    """`fn` with one argument more, `COUNTED`: by observed site which elements of its data count, an array
    that goes with its shape. Of the others the density is left out."""

    @functools.wraps(fn)
    def counted(*args: Any, **kwargs: Any) -> Any:
        with _Counted(None, kwargs.pop(COUNTED)):
            return fn(*args, **kwargs)

    return counted


class _Counted(Messenger):
    """Masks observed sites."""

    def __init__(self, fn: Any, counts: Mapping[str, Any]):
        super().__init__(fn)
        self._counts = counts

    def process_message(self, msg: dict[str, Any]) -> None:
        """Mask it."""
        if msg["type"] == "sample" and msg["is_observed"] and msg["name"] in self._counts:
            msg["fn"] = _masked(msg["fn"], self._counts[msg["name"]])


def _masked(fn: Distribution, counts: Any) -> Distribution:
    """`fn` of which the elements `counts` are left: an array over its batch, or over batch and event where
    its events are independent."""
    if jnp.ndim(counts) > len(fn.batch_shape) and isinstance(fn, Independent):
        return Independent(_masked(fn.base_dist, counts), fn.reinterpreted_batch_ndims)
    return fn.mask(counts)


def longer(array: Any, size: int) -> Any:
    """An array with its last row again and again until it is so long: rows that any model can take."""
    have = len(array)
    return array if have == size else np.asarray(array)[np.minimum(np.arange(size), have - 1)]


def same_but_longer(fn: Callable, short: tuple[tuple, dict], long: tuple[tuple, dict]) -> str:
    """Why a model of data with rows put after them that do not count says something else of the rest; empty
    where it does not. `short` and `long` are its arguments without and with those rows.

    Every statement's log density is compared element by element at one draw of the prior, by NumPyro: where
    those of the rest are as they were, and those of the rows put after them 0 or of latents of their own,
    these integrate to 1.
    """
    with handlers_alone, numpyro.validation_enabled(False):
        key = jax.random.key(0)
        wide = handlers.trace(handlers.seed(counting(fn), key)).get_trace(*long[0], **long[1])
        # NumPy's from here on: of every length each of JAX's operations is a program of its own
        drawn = {
            n: np.asarray(s["value"])
            for n, s in wide.items()
            if s["type"] == "sample" and not s["is_observed"]
        }
        narrow: dict[str, Any] = {}

        def told(own: dict[str, Any]) -> dict[str, Any]:
            held = handlers.substitute(handlers.seed(fn, key), data=own)
            narrow.update(handlers.trace(held).get_trace(*short[0], **short[1]))
            return {n: _told(s) for n, s in narrow.items() if s["type"] in ("sample", "deterministic")}

        shapes = jax.eval_shape(lambda: (told({}), {n: s["value"] for n, s in narrow.items()})[1])
        if set(wide) != set(shapes):
            return "it has other sites"
        own = {n: _cut(v, shapes[n].shape) for n, v in drawn.items()}
        narrow.clear()
        for name, a in jax.tree.map(np.asarray, once(told, own)).items():
            site, b = narrow[name], np.asarray(_told(wide[name]))
            if np.ndim(a) != np.ndim(b) or not _close(a, _cut(b, np.shape(a))):
                return f"{name!r} changes with rows that do not count"
            if site["type"] == "sample" and site["is_observed"] and not _close(np.sum(a), np.sum(b)):
                return f"rows that do not count enter {name!r}"
            base = base_distribution(site["fn"]) if site["type"] == "sample" else None
            if (
                base is not None
                and base.event_dim
                and np.shape(narrow[name]["value"]) != np.shape(wide[name]["value"])
            ):
                return f"{name!r} is drawn as a whole"
    return ""


def _told(site: Mapping[str, Any]) -> Any:
    if site["type"] == "deterministic":
        return site["value"]
    scale = 1.0 if site["scale"] is None else site["scale"]
    return scale * site["fn"].log_prob(site["value"])


def _cut(value: Any, shape: tuple[int, ...]) -> Any:
    """The first elements along every axis."""
    return value[tuple(slice(n) for n in shape)] if np.ndim(value) == len(shape) else value


def _close(a: Any, b: Any) -> bool:
    a, b = np.asarray(a, float), np.asarray(b, float)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True))
