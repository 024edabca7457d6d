"""The whole schedule at exact draws: parameters and data that came together still belong together after it.

Parameters and data are drawn from the model, many times; some sweeps of the schedule are made of each pair,
given its data. If and only if all blocks, in their order, leave the posterior as it is, for whatever data,
parameters after and before have one distribution together with the data: independent pairs, however slowly
chains mix, so that plain tests of differences apply (Geweke 2004; Gandy and Scott 2021). What kernels learn
comes from a run on the user's own data, and is held.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.checking.finding import LEVEL, Finding, told_p
from gibbsite.checking.replicates import Replicates, own_values, placed
from gibbsite.density.model.alone import handlers_alone
from gibbsite.diagnostics.measures.series import spaced
from gibbsite.ground.lazy_import import later
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.programs.passes.for_cpu import jitted

stats = later("scipy.stats")

TEST = "the whole schedule"
SWEEPS = 5
_BATCH = 256
_ELEMENTS = 8
_QUANTITIES = 60
HEIGHT = "log density"
_BLIND = "chains that never get from one part of the posterior to another, and what warm-up does"


class Sweeps:
    """The compiled sweeps of a warmed-up kernel at any values and data, a batch at a time."""

    def __init__(self, replicates: Replicates, kernel: Any, state: Any):
        self._replicates, self._kernel = replicates, kernel
        self._state = jax.tree.map(lambda leaf: leaf[0], state)
        self._program: Any = jitted(self._batch)

    def __call__(self, values: Mapping[str, Any], data: Mapping[str, Any], key: Any, sweeps: int) -> Any:
        """Values by the model's names `[batch, *shape]` after so many sweeps, and the log density before and
        after."""
        count = len(next(iter(values.values())))
        keys = jax.random.split(key, count)
        with handlers_alone:
            found = self._program(keys, dict(values), dict(data), jnp.int32(sweeps))
        return jax.tree.map(np.asarray, found)

    def _batch(self, keys: Any, values: Any, data: Any, sweeps: Any) -> Any:
        return jax.vmap(self._one, in_axes=(0, 0, 0, None))(keys, values, data, sweeps)

    def _one(self, key: Any, values: Any, data: Any, sweeps: Any) -> Any:
        replicates, kernel = self._replicates, self._kernel
        inputs = replicates.inputs(data)
        kwargs = {INPUTS_KWARG: inputs}
        state = placed(kernel, self._state, own_values(replicates.plan, values), kwargs, key)
        state = jax.lax.fori_loop(0, sweeps, lambda _, s: kernel.sample(s, (), kwargs), state)
        found = dict(kernel.get_constrain_fn((), kwargs)(state.z))
        assert replicates.plan.density is not None
        for group, members in replicates.plan.density.members.items():
            if group in found:
                stack = found.pop(group)
                found.update({m: stack[i] for i, m in enumerate(members)})
        before = replicates.height({n: values[n] for n in found}, inputs)
        return found, before, replicates.height(found, inputs)


def quantities(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Some elements of every site, `[count]` each, by label."""
    each = max(1, min(_ELEMENTS, _QUANTITIES // max(len(values), 1)))
    out = {}
    for name, v in values.items():
        flat = np.asarray(v, np.float64).reshape(len(v), -1)
        for i in spaced(flat.shape[1], each):
            at = np.unravel_index(int(i), v.shape[1:]) if v.ndim > 1 else ()
            out[name + (f"[{', '.join(map(str, at))}]" if v.ndim > 1 else "")] = flat[:, i]
    return dict(list(out.items())[:_QUANTITIES])


def invariance(sweeps: Sweeps, replicates: Replicates, until: float, going: Callable[[], bool]) -> Finding:
    """As many pairs as there are and as time allows (`until`, of `time.monotonic`)."""
    before: list[dict[str, np.ndarray]] = []
    after: list[dict[str, np.ndarray]] = []
    heights: list[tuple[np.ndarray, np.ndarray]] = []
    batches = max(1, replicates.count // _BATCH)
    size = min(_BATCH, replicates.count)
    for b in range(batches):
        began, rows = time.monotonic(), slice(b * size, (b + 1) * size)
        values = {n: v[rows] for n, v in replicates.truth.items()}
        data = {n: v[rows] for n, v in replicates.data.items()}
        found, low, high = sweeps(values, data, jax.random.key(b), SWEEPS)
        before.append({n: values[n] for n in found})
        after.append(found)
        heights.append((low, high))
        if not going() or time.monotonic() + (time.monotonic() - began if b else 0.0) > until:
            break
    a = {n: np.concatenate([one[n] for one in before]) for n in after[0]}
    b = {n: np.concatenate([one[n] for one in after]) for n in after[0]}
    count = len(next(iter(a.values())))
    said = f"{count} draws of parameters and data, {SWEEPS} sweeps of each"
    bad = [n for n, v in b.items() if not np.isfinite(np.asarray(v, float)).all()]
    if bad:
        return Finding(TEST, "wrong", f"{said}: draws of {bad[0]} are not finite", _BLIND)
    old, new = quantities(a), quantities(b)
    # of the data, too, whose part in the posterior parameters alone say nothing of
    old[HEIGHT], new[HEIGHT] = (np.concatenate([h[i] for h in heights]).astype(float) for i in (0, 1))
    scores = {n: score for n in old if (score := _score(old[n], new[n])) is not None}
    if not scores:
        return Finding(TEST, "doubtful", f"{said}: nothing has moved", _BLIND)
    worst = max(scores, key=lambda n: scores[n])
    alone = min(1.0, 2 * float(stats.norm.sf(scores[worst])) * 2)
    p = min(1.0, alone * len(scores))
    least = f"least p-value {told_p(alone)} ({worst}), {told_p(p)} when corrected for all"
    told = f"{said}; {len(scores)} quantities, {least}"
    if p < LEVEL:
        return Finding(TEST, "wrong", f"{told}: they do not keep their distribution", _BLIND)
    return Finding(TEST, "right", told, _BLIND)


def _score(old: np.ndarray, new: np.ndarray) -> float | None:
    """The larger z-score of paired differences of ranks, and of their distances from the middle."""
    both = np.concatenate([old, new])
    if np.ptp(both) == 0 or (old == new).all():
        return None
    rank = stats.rankdata(both, method="average") / len(both) - 0.5
    u, v = rank[: len(old)], rank[len(old) :]
    worst = 0.0
    for d in (v - u, np.abs(v) - np.abs(u)):
        spread = d.std() / np.sqrt(len(d))
        if spread > 0:
            worst = max(worst, abs(float(d.mean() / spread)))
    return worst
