"""The engine of a run whose chains are stepped by workers.

Starts, pooling and all decisions are made here, as for a run on this machine; what is sent away is the step
loop, with the states of a few chains. The pieces are the same whatever the number of workers, and so are the
draws.
"""

import copy
import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jax
import numpy as np

from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.sampling.engine.abandonable import beside
from gibbsite.sampling.engine.engine import Engine, _traced
from gibbsite.sampling.engine.in_flight import Flight
from gibbsite.sampling.engine.stages import COMPILING
from gibbsite.sampling.remote.pieces import Piece, Pieces, checked
from gibbsite.sampling.remote.sent import leaves_of, program_for, rebuilt
from gibbsite.storage.draws import Chunk

MOST_PIECES = 1024
"""Pieces of a chunk: many more would wait for the one process that sends them (`benchmarks/clusters.py`)."""
_MOST_SECONDS = 60.0  # that a chunk takes to be worth its way: jobs have limits, and people watch
_PIECES_A_SECOND = 100  # so that this process, which has a millisecond for each, is busy a tenth of the time


class RemoteEngine(Engine):
    """An engine whose step loop runs in pieces on an `executor`.

    A chunk is to take a second of a worker's time, of which what is sent and received (some milliseconds in a
    process pool, some tens over a network) is little; of more than a hundred pieces more, and where each is a
    job that waits, starts and compiles, as long as that takes.
    """

    leg = first_chunk = 25  # each is sent; and stop waits for no worker

    def __init__(self, *arguments: Any, executor: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.executor = checked(executor)
        self.stop: threading.Event | None = None  # when set, late answers are waited for no longer
        self._piece = next(p for p in range(1, self.chains + 1) if _divides(p, self.chains))
        self._pieces: Pieces | None = None
        self._least_seconds = self.chunk_seconds = max(1.0, self.chains / self._piece / _PIECES_A_SECOND)

    def moved(self, executor: Any) -> "RemoteEngine":
        """The same with other workers."""
        engine = copy.copy(self)
        engine.executor = checked(executor)
        engine._pieces = None if self._pieces is None else Pieces(executor, self._programs["exported"])
        return engine

    @property
    def workers(self) -> tuple[str, ...]:
        """Who has answered, as `host:process`."""
        return () if self._pieces is None else tuple(sorted(self._pieces.workers))

    @property
    def waits(self) -> str | None:
        """What is waited for, where no worker has answered for a while."""
        return None if self._pieces is None else self._pieces.waits

    def _compile(self, tell: Callable[[str, bool], None]) -> None:
        first, asked, template = self._lowered_first(tell)
        with beside(lambda: [compiled(p, quickly=self._on_cpu) for p in first]) as compiled_first:
            few = jax.tree.map(lambda v: jax.ShapeDtypeStruct((self._piece, *v.shape[1:]), v.dtype), template)
            around, platform = self.surroundings, self.devices[0].platform
            with _traced(tell):
                program, _, records = program_for(
                    self._advance_chains, few, self.plan.inputs, around, platform, self.plan.model_name
                )
            tell(COMPILING, False)
            dealt, started = compiled_first()
        self._pieces = Pieces(self.executor, program)
        self._programs.update(
            keys=dealt, init=started, template=template, asked=asked, exported=program, records=records
        )

    def _begin(self, state: Any, steps: int, warming: bool) -> Flight:
        assert self._pieces is not None
        leaves = leaves_of(state)
        firsts = range(0, self.chains, self._piece)
        sweeps = 1 if warming else self.thin
        parts = [self._pieces.sent([v[c : c + self._piece] for v in leaves], steps, sweeps) for c in firsts]
        return RemoteFlight(self, parts, steps, warming)

    def landed(self, parts: Sequence[Piece]) -> tuple[Any, Chunk, float]:
        """The state and the chunk that pieces put together, and how long one of them took (the median)."""
        assert self._pieces is not None
        answers = self._pieces.answers(parts, self.stop)
        # what none of them was spared: others waited for these
        self.chunk_seconds = max(self._least_seconds, min(_MOST_SECONDS, *(p.beside for p in parts)))
        together = [np.concatenate(vs) for vs in zip(*(a.state for a in answers), strict=True)]
        state = rebuilt(together, self.template)
        records = [np.concatenate(vs, axis=1) for vs in zip(*(a.records for a in answers), strict=True)]
        values, stats = jax.tree.unflatten(self._programs["records"], records)
        return state, Chunk(values, stats), median(a.seconds for a in answers)


class RemoteFlight(Flight):
    """Pieces of a chunk on their way."""

    def __init__(self, engine: RemoteEngine, parts: Sequence[Piece], steps: int, warming: bool):
        self.steps, self.warming, self.began = steps, warming, time.monotonic()
        self.state: Any = None
        self._engine, self._parts = engine, parts

    def landed(self) -> tuple[Chunk, float]:
        """As `Flight.landed`, with the seconds that a piece took at its worker."""
        self.state, chunk, seconds = self._engine.landed(self._parts)
        return chunk, seconds


def _divides(piece: int, chains: int) -> bool:
    return chains % piece == 0 and chains // piece <= MOST_PIECES
