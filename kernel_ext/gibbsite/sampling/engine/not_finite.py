"""Draws that are no numbers: a run that makes one has failed, and is told so at once."""

import numpy as np

from gibbsite.diagnostics.verdict.cause import cause_of
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import Chunk, label_of


def _finite(x: np.ndarray) -> bool:
    """Without an array of answers: NaN and infinities are in the largest or the smallest."""
    if x.dtype.kind not in "fc" or not x.size:
        return True
    return bool(np.isfinite(x.max()) and np.isfinite(x.min()))


def first_undefined(plan: Plan, chunk: Chunk) -> int | None:
    """The first step of a chunk at which some latent value is NaN or infinite; None where all are finite."""
    steps = [
        int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
        for name, x in chunk.values.items()
        if plan.sites[name].role == "latent" and not _finite(x)
    ]
    return min(steps) if steps else None


def undefined_error(plan: Plan, chunk: Chunk, step: int, done: int, warmup: int) -> ModelError:
    """What became undefined at `step` of a chunk before which `done` steps were made: site, chain, draw,
    and the first block of the sweep that made it."""
    bad = {
        name: np.argwhere(~np.isfinite(x[step]))
        for name, x in chunk.values.items()
        if plan.sites[name].role == "latent" and x.dtype.kind in "fc" and not np.isfinite(x[step]).all()
    }
    owner = {m: b for b in plan.blocks for s in b.sites for m in (s, *plan.members.get(s, ()))}
    order = {id(b): i for i, b in enumerate(plan.blocks)}

    def place(name: str) -> int:
        return order[id(owner[name])] if name in owner else len(order)

    name = min(bad, key=place)
    chain, *index = (int(i) for i in bad[name][0])
    value = chunk.values[name][(step, chain, *index)]
    at = done + step
    when = f"draw {at - warmup}" if at >= warmup else f"step {at} of warm-up"
    others = f" ({len(bad[name])} of its elements in all chains)" if len(bad[name]) > 1 else ""
    b = owner.get(name)
    block = f"{b.kernel} {b.label}" if b else "no block of the schedule"
    turn = place(name)
    state = {  # what the block drew from: the sweep's own draws before it, and those of the last one after it
        n: x[step - (step > 0 and place(n) >= turn), chain]
        for n, x in chunk.values.items()
        if plan.sites[n].role == "latent"
    }
    why = cause_of(plan.density, b.sites if b else (name,), state, float(value))
    return ModelError(
        f"the run has failed: {label_of(name, tuple(index))} is {value} in chain {chain}, {when}{others}, "
        f"drawn by the block {block}. The cause: {why}"
    )
