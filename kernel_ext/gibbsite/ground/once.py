"""What is derived of a density is derived once, and kept with it."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


def once(fn: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """`fn`, whose values are kept in the `cache` of its first argument, by the others.

    It may be asked while something else is traced (a kernel's `init` under `jit`), so that what it needs of
    the data is computed at once.
    """

    @wraps(fn)
    def kept(of: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        plain = (tuple(a) if isinstance(a, Sequence) and not isinstance(a, str) else a for a in args)
        key = (fn, *plain, *kwargs.items())
        if key not in of.cache:
            with jax.ensure_compile_time_eval():
                of.cache[key] = fn(of, *args, **kwargs)
        return of.cache[key]

    return kept
