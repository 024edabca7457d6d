"""JAX's compile cache, for processes that share a folder: entries appear whole, and what is not is none.

JAX 0.10 writes an entry under its own name, so another process may read the first half of it, and a process
that is killed leaves a half for good: `zlib.error: incomplete or truncated stream`. Here it is written aside
and renamed. JAX imports whatever stands in the namespace package `jax_plugins` on the path when it looks for
devices, which is before it compiles: so this holds in the kernels and commands that tests start, too.
"""

import os
import threading
from typing import Any

from jax._src import compilation_cache
from jax._src.lru_cache import LRUCache

_put, _get = LRUCache.put, LRUCache.get


def _path(cache: Any, key: str) -> str:
    return os.path.join(str(cache.path), f"{key}-cache")


def put(self: Any, key: str, value: bytes) -> None:
    """As JAX's, in one step."""
    if self.eviction_enabled:  # under a lock of its own
        _put(self, key, value)
        return
    path = _path(self, key)
    if os.path.exists(path):
        return
    aside = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(aside, "wb") as file:
            file.write(value)
        os.replace(aside, path)
    finally:
        if os.path.exists(aside):
            os.unlink(aside)


def get(self: Any, key: str) -> bytes | None:
    """As JAX's; what an older process left half written is none, and goes."""
    found = _get(self, key)
    if found is not None:
        try:
            compilation_cache.decompress_executable(found)
        except Exception:  # each way of packing has its own
            os.unlink(_path(self, key))
            return None
    return found


def initialize() -> None:
    """What JAX calls."""
    LRUCache.put, LRUCache.get = put, get  # type: ignore[method-assign]
