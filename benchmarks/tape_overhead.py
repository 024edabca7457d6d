"""What recording costs per record: `python benchmarks/tape_overhead.py [records]`.

Times a chain of primitives run eagerly, recorded without and with values, and the first question asked.
"""

import sys
import time

import gibbsite
import jax
from gibbsite.trace.context import Values


def chain(n: int):
    """A function of `n` primitives."""

    def fn(x):
        for _ in range(n):
            x = jax.lax.sin(x)
        return x

    return fn


def seconds(run) -> float:
    """The best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def main(n: int) -> None:
    """Print microseconds per record."""
    fn, x = chain(n), jax.numpy.float32(0.5)
    plain = seconds(lambda: fn(x).block_until_ready())
    rows = {
        "eager, not recorded": plain,
        "recorded, values off": seconds(lambda: gibbsite.track(fn, x, context=Values(False))),
        "recorded, values on": seconds(lambda: gibbsite.track(fn, x)),
    }
    for name, total in rows.items():
        print(
            f"{name:24} {total / n * 1e6:8.1f} µs per primitive, overhead {(total - plain) / n * 1e6:8.1f} µs"
        )
    tape = gibbsite.track(fn, x)
    start = time.perf_counter()
    tape.backward(tape.records[-1])
    print(f"{'closure over ' + str(len(tape)):24} {time.perf_counter() - start:8.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
