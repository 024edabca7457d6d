"""Steps on their way, and what they produced."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gibbsite.storage.draws import Chunk


class Flight:
    """Some steps on their way on the device since `began`: `state` is theirs to be, from which others may
    depart already.

    `begin` is called at once; what it raises is raised on landing, when the steps before these are safe.
    """

    def __init__(self, begin: Callable[[], tuple[Any, Any]], steps: int, warming: bool):
        self.steps, self.warming = steps, warming
        self.began = time.monotonic()
        self.state: Any = None
        self._buffers: Any = None
        self._error: Exception | None = None
        try:
            self.state, self._buffers = begin()
        except Exception as error:
            self._error = error

    def landed(self) -> tuple[Chunk, float]:
        """Wait for the end; what was produced, and the seconds since the beginning."""
        if self._error is not None:
            raise self._error
        jax.block_until_ready((self.state, self._buffers))
        seconds = time.monotonic() - self.began
        values, stats = jax.tree.map(self._fetched, self._buffers)
        return Chunk(values, stats), seconds

    def _fetched(self, buffer: Any) -> np.ndarray:
        """The first steps of a buffer. A slice is a program of its own for every length, so on the host there
        is none, and elsewhere few lengths: powers of two."""
        if next(iter(buffer.devices())).platform != "cpu":
            buffer = buffer[: 1 << (self.steps - 1).bit_length()]
        return np.asarray(buffer)[: self.steps]
