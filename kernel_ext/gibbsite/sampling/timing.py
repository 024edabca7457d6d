"""How the time of a sweep is shared among its blocks."""

import time
from typing import Any

import jax
from numpyro.infer.gibbs import with_conditioning

_ROUNDS = 5
_SECONDS = 0.05


def block_program(kernel: Any, kwargs: dict[str, Any], i: int) -> Any:
    """A program `(state, inputs kwargs, n) -> block states`: block `i` of the composite `kernel`, refreshed
    and applied `n` times in all chains, the other blocks staying where they are."""
    blocks = list(zip(kernel._kernels, kernel._sites, strict=True))

    def visit(states: Any, kwargs: Any) -> Any:
        values: dict[str, Any] = {}
        for j, (block, names) in enumerate(blocks):
            if j != i:
                here = block.get_constrain_fn((), kwargs)(getattr(states[j], block.sample_field))
                values.update({k: v for k, v in here.items() if k in names})
        conditioned = with_conditioning(kwargs, values)
        fresh = blocks[i][0].refresh(states[i], (), conditioned)
        return blocks[i][0].sample(fresh, (), conditioned)

    def step(states: Any, kwargs: Any) -> Any:
        moved = jax.vmap(lambda s: visit(s, kwargs))(states)
        return (*states[:i], moved, *states[i + 1 :])

    def program(states: Any, kwargs: Any, n: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, s: step(s, kwargs), tuple(states))[i]

    return jax.jit(program)


def block_seconds(kernel: Any, kwargs: dict[str, Any], states: Any) -> list[float]:
    """Seconds of one application of each block, all chains together, from the given block states.

    Each block is compiled by itself and timed in turn with the others; the fastest of five rounds counts, so
    that what else the machine does is left out. What XLA fuses across blocks in a sweep is not seen.
    """
    programs = [block_program(kernel, kwargs, i) for i in range(len(states))]

    def seconds(i: int, n: int) -> float:
        began = time.perf_counter()
        jax.block_until_ready(programs[i](states, kwargs, n))
        return time.perf_counter() - began

    counts = []
    for i in range(len(programs)):
        seconds(i, 1)
        once = seconds(i, 1)
        counts.append(max(1, min(10_000, int(_SECONDS / once))))
    rounds = [[seconds(i, n) / n for i, n in enumerate(counts)] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]
