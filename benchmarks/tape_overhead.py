"""What recording costs per record: `python benchmarks/tape_overhead.py [records]`.

A chain of primitives, run eagerly, recorded without and with values; the questions one may ask of the tape;
and the size of the tape of a scan, which does not depend on its length.
"""

import sys
import time

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.tape.recording.context import Values
from timing import interleaved


def chain(n: int):
    """A function of `n` primitives."""

    def fn(x):
        for _ in range(n):
            x = jax.lax.sin(x)
        return x

    return fn


def scan(n: int) -> gibbsite.Tape:
    """The tape of a scan of `n` steps."""
    return gibbsite.track(lambda x: jax.lax.scan(lambda c, a: (c + a, None), 0.0, x)[0], jnp.ones(n))


def main(n: int) -> None:
    """Print a table of times per record, and the rest below it."""
    fn, x = chain(n), jnp.float32(0.5)
    seconds = interleaved(
        {
            "run eagerly": lambda: fn(x),
            "recorded, values off": lambda: gibbsite.track(fn, x, context=Values(False)).result,
            "recorded, values on": lambda: gibbsite.track(fn, x).result,
        },
        rounds=9,
    )
    eager = np.median(seconds["run eagerly"])
    print(f"| {n} primitives | µs each (median) | against eager |\n|---|---|---|")
    for name, taken in seconds.items():
        print(f"| {name} | {np.median(taken) / n * 1e6:.1f} | {np.median(taken) / eager:.1f} |")
    tape = gibbsite.track(fn, x)
    for what, ask in (
        ("backward from the end", lambda: tape.backward(tape.records[-1])),
        ("forward from the start", lambda: tape.forward(tape.records[0])),
        ("slice inside calls", lambda: tape.slice(inside=True)),
        ("print", lambda: str(tape)),
    ):
        start = time.perf_counter()
        ask()
        print(f"{what}: {(time.perf_counter() - start) / n * 1e6:.1f} µs per record")
    sizes = {steps: len(list(scan(steps).walk())) for steps in (10, 100_000)}
    print(f"records of a scan: {', '.join(f'{s} steps, {k} records' for s, k in sizes.items())}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
