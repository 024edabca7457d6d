"""A recipe at every draw: compiled once for shapes, run in chunks of draws, within a bound of memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jax
import numpy as np
import numpyro

from gibbsite.density.handlers.scopes import ScopedScans
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.arguments import Arguments
from gibbsite.errors import StoreError
from gibbsite.ground.telling import Telling
from gibbsite.inputs.table import ANEW
from gibbsite.prediction.drawn.asking import Asking
from gibbsite.prediction.drawn.forward import Forward, Recipe
from gibbsite.programs.jaxpr.compat import side_by_side
from gibbsite.programs.jaxpr.compiling import Repeated, lowered

MOST_BYTES = 2 * 2**30
"""What the draws of one prediction may take in memory, unless their number is asked for: beyond it they are
thinned."""
_AT_ONCE = 32 * 2**20  # bytes of results that are computed side by side: what stays in a processor's caches
_CHUNK = 256 * 2**20  # bytes of results per call of the program: what is held twice for a moment
_WIDEST = 16
"""Draws side by side: at 500 rows 16 take the time of 64, and compile in three fifths of theirs; one by one
they take the least at 10 000 rows, and a third more at 500."""


@dataclass(frozen=True)
class Ask:
    """The model's function with what is asked of it. `sites` are those whose values come back; `traced` tells
    a program that other categories may have made another from the model's own, for which it is empty."""

    fn: Callable[..., Any]
    arguments: Arguments
    data: frozenset[str]
    sizes: Mapping[str, int]
    recipe: Recipe
    anew: bool
    sites: tuple[str, ...]
    traced: str = ""

    def at(self, key: Any, values: Mapping[str, Any], held: Mapping[str, Any], arrays: Any) -> Any:
        """The sites' values, the probabilities, and the log likelihood of what is given, at one draw."""
        args, kwargs = self.arguments.rebuild(arrays)
        forward = Forward(None, self.recipe, key, values, held)
        token = ANEW.set(self.anew)
        try:
            with (
                handlers_alone,
                numpyro.validation_enabled(False),
                forward,
                Asking(None, self.data, self.sizes),
                ScopedScans(),
            ):
                self.fn(*args, **kwargs)
        finally:
            ANEW.reset(token)
        out = {n: forward.out[n] for n in self.sites if n in forward.out}
        return out, forward.probs, forward.weight


def signature(ask: Ask, values: Mapping[str, Any], held: Mapping[str, Any]) -> tuple:
    """What a compiled program depends on, its arrays' numbers aside."""
    shaped = [(n, np.shape(v), str(np.asarray(v).dtype)) for n, v in sorted({**values}.items())]
    holds = [(n, np.shape(v), str(np.asarray(v).dtype)) for n, v in sorted({**held}.items())]
    arrays = [(np.shape(a), str(np.asarray(a).dtype)) for a in ask.arguments.arrays]
    recipe = ask.recipe
    parts = [(n, tuple(a.tobytes() for a in p.axes), p.joint) for n, p in sorted(recipe.parts.items())]
    seen = [(n, known.tobytes()) for n, known in sorted((*recipe.seen.items(), *recipe.partly.items()))]
    sets = (recipe.known, recipe.series, recipe.fixed, recipe.given, recipe.stays, recipe.doubted)
    sets = (*sets, recipe.expected, ask.data)
    filled = [(n, a.tobytes(), w.tobytes()) for n, (a, w) in sorted(recipe.filled.items())]
    return (
        str(shaped), str(holds), str(arrays), str(parts), str(seen + filled), str([sorted(s) for s in sets]),
        ask.anew, ask.sites, str(sorted(ask.sizes.items())), ask.arguments.compiled_in, ask.traced,
    )  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """What a program gave: `[draw, *shape]` by site, mean probabilities, log weights per draw, and the shape
    in
    which draws are counted."""

    values: Mapping[str, np.ndarray]
    probs: Mapping[str, np.ndarray]
    weights: np.ndarray


def bytes_per_draw(ask: Ask, values: Mapping[str, Any], held: Mapping[str, Any]) -> int:
    """Of all that comes back."""
    one = {n: jax.ShapeDtypeStruct(v.shape[1:], v.dtype) for n, v in values.items()}
    out, probs, _ = jax.eval_shape(ask.at, jax.random.key(0), one, dict(held), ask.arguments.arrays)
    return sum(prod(v.shape) * v.dtype.itemsize for v in [*out.values(), *probs.values()]) or 4


def in_files(folder: Path) -> Callable[[str, tuple[int, ...], Any], np.ndarray]:
    """Arrays on disk, `<site>.npy` in `folder`, which NumPy reads piece by piece. Raises `StoreError` for a
    folder that holds something, or cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise StoreError(f"to: {folder} holds something already; name a new folder")
    except OSError as problem:
        if isinstance(problem, StoreError):
            raise
        raise StoreError(f"to: {folder} cannot be written to: {problem}") from problem

    def made(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.lib.format.open_memmap(folder / f"{quote(name, safe='')}.npy", "w+", dtype, shape)

    return made


def drawn(
    ask: Ask,
    keys: Any,
    values: Mapping[str, Any],
    held: Mapping[str, Any],
    kept: dict[Any, Any],
    each: int,
    room: Callable[[str, tuple[int, ...], Any], np.ndarray] | None = None,
) -> Drawn:
    """Run at all `keys` and `values`, leading axis draws; programs are kept in `kept`. `each` is the result's
    bytes per draw; `room` gives the array of a site, shape and type, that is written to (default: memory)."""
    count = len(keys)
    side = max(1, min(_WIDEST, _AT_ONCE // each))
    chunk = -(-max(1, min(count, _CHUNK // each)) // side) * side  # so that one program does
    fn = _program(ask, side)
    where = (signature(ask, values, held), chunk)
    first: dict[str, np.ndarray] = {}
    sums: dict[str, np.ndarray] = {}
    weights = np.zeros(count)
    telling = Telling("predictions", count)
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        take = np.minimum(
            np.arange(start, start + chunk), count - 1
        )  # the last chunk is as long as the others
        part = {n: v[take] for n, v in values.items()}
        arguments = keys[take], part, dict(held), ask.arguments.arrays
        if where not in kept:
            kept[where] = Repeated(lowered(fn, *arguments), arguments, numbers=chunk * each // 4)
        out, probs, weight = kept[where](*arguments, left=-(-(count - stop) // chunk))
        n = stop - start
        for name, v in out.items():
            array = np.asarray(v)
            if chunk >= count and room is None:  # all at once: as it came
                first[name] = array[:n]
                continue
            if name not in first:
                shape = (count, *array.shape[1:])
                first[name] = np.empty(shape, array.dtype) if room is None else room(name, shape, array.dtype)
            first[name][start:stop] = array[:n]
        for name, v in probs.items():
            sums[name] = sums.get(name, 0.0) + np.asarray(v)[:n].sum(axis=0, dtype=float)
        weights[start:stop] = np.asarray(weight)[:n]
        telling.at(stop)
    return Drawn(first, {n: v / count for n, v in sums.items()}, weights)


def _program(ask: Ask, side: int) -> Callable[..., Any]:
    def run(keys: Any, values: Any, held: Any, arrays: Any) -> Any:
        return side_by_side(lambda kv: ask.at(kv[0], kv[1], held, arrays), (keys, values), side)

    return run
