"""What distributions are made of: those that no sampler can move, with all or some of their mass in points,
and parts of others."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Delta, Distribution, constraints

from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compat import is_traced

_PARTS = ("base_dist", "_component_distribution", "_component_distributions")


def _parts(fn: Any, names: Sequence[str] = _PARTS) -> Iterator[Any]:
    """A distribution and all that it is made of under `names`, which leave out the choice between
    components."""
    stack = [fn]
    while stack:
        fn = stack.pop()
        yield fn
        for name in names:
            found = getattr(fn, "__dict__", {}).get(name)
            stack += [p for p in (found if isinstance(found, list | tuple) else [found]) if p is not None]


def check_atoms(name: str, msg: Mapping[str, Any], line: tuple[str, int] | None) -> None:
    """Refuse a latent of continuous support whose values are points of positive probability.

    A density is taken to be one: at a point it counts for nothing, so that a `Delta` would vanish from it.
    Raises `ModelError`.
    """
    if getattr(msg["fn"].support, "is_discrete", False):
        return
    at = f" (line {line[1]})" if line else ""
    for part in _parts(msg["fn"]):
        kind = type(part).__name__
        if isinstance(part, Delta):
            alone = type(msg["fn"]).__name__ == "Delta"
            way_out = (
                f"give its value a name with `numpyro.deterministic({name!r}, …)`"
                if alone
                else "write the choice as a discrete site of its own, and use `jnp.where` on it"
            )
            raise ModelError(
                f"the latent site {name!r}{at} has a {kind}, which puts probability on a single point, where "
                f"other values have a density; {way_out}"
            )
        if getattr(part.support, "is_discrete", False):
            raise ModelError(
                f"the latent site {name!r}{at} is made of a {kind}, which takes whole numbers only, but its "
                f"support is called {msg['fn'].support}; sample the {kind} as a site of its own and "
                f"transform its value"
            )


MOST_COUNTS = 4096
"""Vectors of counts that are listed at most."""


def listed(fn: Any) -> np.ndarray | None:
    """The values of a discrete distribution out of its wrappers, `(K,)` or `(K, categories)`; None where they
    cannot be listed.

    The elements of a vector of Booleans are values of their own, whatever couples them.
    """
    support = base_constraint(fn.support)
    if support is constraints.boolean:
        return np.arange(2)
    if isinstance(support, constraints.multinomial):
        return _counts(fn)
    return None


def _counts(fn: Any) -> np.ndarray | None:
    """All ways to deal out the same known number of trials to a few categories."""
    total = fn.total_count
    if is_traced(total) or np.unique(total).size != 1:
        return None
    n, categories = int(np.unique(total)[0]), fn.event_shape[-1]
    if math.comb(n + categories - 1, categories - 1) > MOST_COUNTS:
        return None
    bars = itertools.combinations(range(n + categories - 1), categories - 1)
    return np.array([np.diff([-1, *b, n + categories - 1]) - 1 for b in bars])


_TRUSTED = frozenset({"numpyro", "gibbsite"})


def is_own(fn: Any) -> bool:
    """Whether a distribution, one that it is made of, or a transform is of a class of the user's: neither
    NumPyro's nor one that stands here for one of those."""
    parts = _parts(fn, (*_PARTS, "_mixing_distribution", "transforms"))
    return any(type(part).__module__.partition(".")[0] not in _TRUSTED for part in parts)


def part_by_part(fn: Any, change: Callable[[Any], Any]) -> Any:
    """A distribution with `change` of every one that it is made of in its place, and of itself; the very
    object where nothing changes."""
    if isinstance(fn, list | tuple):
        parts = [part_by_part(part, change) for part in fn]
        return fn if all(a is b for a, b in zip(parts, fn, strict=True)) else type(fn)(parts)
    if not isinstance(fn, Distribution):
        return fn
    changed = {n: new for n, old in vars(fn).items() if (new := part_by_part(old, change)) is not old}
    if changed:
        fn = copy.copy(fn)
        vars(fn).update(changed)
    return change(fn)


def whole_total(fn: Any) -> Any:
    """A distribution of counts out of a total of whole numbers, as its density takes it: NumPyro draws
    binomial variates by looking the total up, which numbers such as `10.0` cannot be."""
    total = vars(fn).get("total_count")
    if total is None or jnp.asarray(total).dtype.kind != "f":
        return fn
    out = copy.copy(fn)
    out.total_count = jnp.round(total).astype(int)
    return out
