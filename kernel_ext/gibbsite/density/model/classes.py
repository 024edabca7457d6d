"""Whose class a distribution is of."""

from collections.abc import Iterator
from typing import Any

_PARTS = (
    "base_dist",
    "_mixing_distribution",
    "_component_distribution",
    "_component_distributions",
    "transforms",
)


_TRUSTED = frozenset({"numpyro", "gibbsite"})


def is_own(fn: Any) -> bool:
    """Whether a distribution, one that it is made of, or a transform is of a class of the user's: neither
    NumPyro's nor one that stands here for one of those."""
    return any(type(part).__module__.partition(".")[0] not in _TRUSTED for part in _parts(fn))


def _parts(fn: Any) -> Iterator[Any]:
    yield fn
    for name in _PARTS:
        found = getattr(fn, "__dict__", {}).get(name)
        for part in found if isinstance(found, list | tuple) else [found]:
            if part is not None:
                yield from _parts(part)
