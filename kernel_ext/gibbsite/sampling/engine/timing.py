"""How the time of a sweep is shared among its blocks.

A compiled sweep is one program, and no clock can be read inside it. So every block is compiled by itself as
well and applied to the run's own states: what XLA fuses across blocks is not seen, and nothing of the run
changes.
"""

import threading
import time
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.kernels.composite import updated
from gibbsite.kernels.nuts.collectives import AXIS
from gibbsite.programs.passes.for_cpu import lowered_for_cpu

_ROUNDS = 5
_SECONDS = 0.05
# of a run's time, for each of: compiling its blocks, measuring them
_SHARE = 0.01
_LEAST_COMPILING = 1.0
_LOOK_SECONDS = 0.001


def block_program(kernel: Any, i: int) -> Any:
    """A program `(state, inputs kwargs, n) -> block states`: block `i` of the composite `kernel`, refreshed
    and applied `n` times in all chains, the other blocks staying where they are."""
    blocks = list(zip(kernel._kernels, kernel._sites, strict=True))

    def program(states: Any, kwargs: Any, n: Any) -> Any:
        step = jax.vmap(lambda s: updated(blocks, i, s, (), kwargs), axis_name=AXIS)
        return jax.lax.fori_loop(0, n, lambda _, s: step(s), tuple(states))[i]

    return program


def lowered_blocks(kernel: Any, kwargs: dict[str, Any], states: Any, on_cpu: bool) -> list[Any]:
    """`block_program` of every block, traced for states and inputs like these, ready to be compiled."""
    count = jax.ShapeDtypeStruct((), jnp.int32)
    programs = [block_program(kernel, i) for i in range(len(states))]
    given = tuple(states), kwargs, count
    return [lowered_for_cpu(p, *given) if on_cpu else jax.jit(p).lower(*given) for p in programs]


def seconds_of(program: Any, states: Any, kwargs: dict[str, Any], n: int) -> float:
    """Seconds that `n` applications of a block take."""
    count = jnp.asarray(n, jnp.int32)
    began = time.perf_counter()
    jax.block_until_ready(program(tuple(states), kwargs, count))
    return time.perf_counter() - began


def block_seconds(programs: list[Any], kwargs: dict[str, Any], states: Any) -> list[float]:
    """Seconds of one application of each block, all chains together, from the given block states.

    Blocks are timed in turn; the fastest of five rounds counts, so that what else the machine does is left
    out.
    """
    counts = []
    for program in programs:
        seconds_of(program, states, kwargs, 1)
        once = seconds_of(program, states, kwargs, 1)
        counts.append(max(1, min(10_000, int(_SECONDS / once))))
    rounds = [
        [seconds_of(p, states, kwargs, n) / n for p, n in zip(programs, counts, strict=True)]
        for _ in range(_ROUNDS)
    ]
    return [min(times) for times in zip(*rounds, strict=True)]


class BlockClock:
    """Measures blocks between the chunks of a run, at no more than a share of the run's time.

    Compiling the blocks is the dear part. It is done in the background once the run has gone on for so long
    that it will not be felt; from then on, in this run and in others of the same structure, every few chunks
    one block is applied to the run's state of that moment. Shares are of mean times, since work per
    application varies.
    """

    def __init__(self, blocks: int):
        self._seconds, self._applied = [0.0] * blocks, [0] * blocks
        self._spent, self._compiling = 0.0, False
        self._fixed: tuple[float, ...] | None = (1.0,) if blocks == 1 else None

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Each block's part of a sweep's time; None while one of them has not been measured."""
        if self._fixed is not None or not all(self._applied):
            return self._fixed
        means = [s / n for s, n in zip(self._seconds, self._applied, strict=True)]
        return tuple(m / sum(means) for m in means)

    def fix(self, seconds: list[float]) -> None:
        """Show these, which were measured at leisure, from now on."""
        self._fixed = tuple(s / sum(seconds) for s in seconds)

    def due(self, engine: Any, kwargs: dict[str, Any], states: Any, ran: float) -> bool:
        """Whether `ran` seconds of running allow `measure` now, which wants nothing else under way.

        Begins to compile the blocks, in the background, once they allow that.
        """
        if self._fixed is not None:
            return False
        if engine.block_programs is not None:
            return self._spent + self._once(self._next) <= ran * _SHARE
        if not self._compiling and ran * _SHARE > max(_LEAST_COMPILING, engine.compile_seconds):
            self._compiling = True
            arguments = (kwargs, states)
            name = "gibbsite block programs"  # no daemon: a process that ends while XLA compiles is aborted
            threading.Thread(target=engine.compile_blocks, args=arguments, name=name).start()
        return False

    def measure(self, engine: Any, kwargs: dict[str, Any], states: Any) -> None:
        """Measure the block whose turn it is."""
        i = self._next
        program, once = engine.block_programs[i], self._once(i)
        began = time.perf_counter()
        if not self._applied[i]:
            seconds_of(program, states, kwargs, 1)
        n = max(1, min(100, int(_LOOK_SECONDS / once))) if once else 1
        self._seconds[i] += seconds_of(program, states, kwargs, n)
        self._applied[i] += n
        self._spent += time.perf_counter() - began

    @property
    def _next(self) -> int:
        return min(range(len(self._seconds)), key=self._seconds.__getitem__)

    def _once(self, i: int) -> float:
        return self._seconds[i] / self._applied[i] if self._applied[i] else 0.0
