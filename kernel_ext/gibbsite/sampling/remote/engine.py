"""The engine of a run whose chains are stepped by workers.

Starts, pooling and all decisions are made here, as for a run on this machine; what is sent away is the step
loop, with the states of a few chains. The pieces are the same whatever the number of workers, and so are the
draws.
"""

import copy
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.programs.passes.for_cpu import for_cpu
from gibbsite.sampling.engine.abandonable import beside
from gibbsite.sampling.engine.engine import Engine, _traced
from gibbsite.sampling.engine.in_flight import Flight
from gibbsite.sampling.engine.stages import COMPILING
from gibbsite.sampling.remote.pieces import Piece, Pieces, checked
from gibbsite.sampling.remote.worker import Program
from gibbsite.storage import checkpoint
from gibbsite.storage.draws import Chunk

MOST_PIECES = 64
"""Pieces of a chunk: many more would wait for the one process that sends them."""


class RemoteEngine(Engine):
    """An engine whose step loop runs in pieces on an `executor`.

    A chunk is to take a second of a worker's time, of which what is sent and received (some milliseconds in a
    process pool, some tens over a network) is little.
    """

    chunk_seconds = 1.0

    def __init__(self, *arguments: Any, executor: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.executor = checked(executor)
        self.stop: threading.Event | None = None  # when set, late answers are waited for no longer
        self._piece = next(p for p in range(1, self.chains + 1) if _divides(p, self.chains))
        self._pieces: Pieces | None = None

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

    def _compile(self, tell: Callable[[str, bool], None]) -> None:
        first, asked, template = self._lowered_first(tell)
        with beside(lambda: [compiled(p, quickly=self._on_cpu) for p in first]) as compiled_first:
            with _traced(tell):
                exported, records = self._exported(template)
            tell(COMPILING, False)
            dealt, started = compiled_first()
        inputs = tuple(np.asarray(v) for v in jax.tree.leaves(self.plan.inputs))
        program = Program(exported, inputs, asdict(self.surroundings), checkpoint.versions())
        self._pieces = Pieces(self.executor, program)
        self._programs.update(
            keys=dealt, init=started, template=template, asked=asked, exported=program, records=records
        )

    def _exported(self, template: Any) -> tuple[bytes, Any]:
        """The step loop of one piece as bytes, and the structure of what it records. At its door keys are
        numbers, and trees are leaves."""
        tree, keyed = jax.tree.structure(template), [_is_key(leaf) for leaf in jax.tree.leaves(template)]
        data = jax.tree.structure(self.plan.inputs)
        structure: list[Any] = []

        def advance(leaves: Sequence[Any], inputs: Sequence[Any], steps: Any, sweeps: Any) -> Any:
            keys = [jax.random.wrap_key_data(v) if k else v for v, k in zip(leaves, keyed, strict=True)]
            state, records = self._advance_chains(
                jax.tree.unflatten(tree, keys), jax.tree.unflatten(data, inputs), steps, sweeps
            )
            structure.append(jax.tree.structure(records))
            return tuple(map(_plain, jax.tree.leaves(state))), tuple(jax.tree.leaves(records))

        few = jax.tree.map(lambda v: jax.ShapeDtypeStruct((self._piece, *v.shape[1:]), v.dtype), template)
        leaves = tuple(jax.eval_shape(_plain, v) for v in jax.tree.leaves(few))
        inputs = tuple(jax.ShapeDtypeStruct(np.shape(v), v.dtype) for v in jax.tree.leaves(self.plan.inputs))
        count = jax.ShapeDtypeStruct((), jnp.int32)
        platform = self.devices[0].platform
        fn = for_cpu(advance) if platform == "cpu" else advance
        try:
            found = jax.export.export(jax.jit(fn), platforms=["cuda" if platform == "gpu" else platform])(
                leaves, inputs, count, count
            )
            return bytes(found.serialize()), structure[-1]
        except (NotImplementedError, ValueError) as problem:
            raise ModelError(
                f"the program of {self.plan.model_name!r} cannot leave this process: "
                f"{str(problem).splitlines()[0]}. "
                f"What calls back into Python (pure_callback, debug.print) cannot be sent; sample without on="
            ) from problem

    def _begin(self, state: Any, steps: int, warming: bool) -> Flight:
        assert self._pieces is not None
        leaves = [np.asarray(_plain(v)) for v in jax.tree.leaves(state)]
        firsts = range(0, self.chains, self._piece)
        sweeps = 1 if warming else self.thin
        parts = [self._pieces.sent([v[c : c + self._piece] for v in leaves], steps, sweeps) for c in firsts]
        return RemoteFlight(self, parts, steps, warming)

    def landed(self, parts: Sequence[Piece]) -> tuple[Any, Chunk, float]:
        """The state and the chunk that pieces put together, and how long one of them took (the median)."""
        assert self._pieces is not None
        answers = self._pieces.answers(parts, self.stop)
        together = [np.concatenate(vs) for vs in zip(*(a.state for a in answers), strict=True)]
        leaves = jax.tree.leaves(self.template)
        keys = [
            jax.random.wrap_key_data(jnp.asarray(v)) if _is_key(like) else jnp.asarray(v)
            for v, like in zip(together, leaves, strict=True)
        ]
        state = jax.tree.unflatten(jax.tree.structure(self.template), keys)
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


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
