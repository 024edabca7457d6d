"""What a kernel has learnt in a warm-up of its own, put to use wherever a chain enters."""

import copy
from collections.abc import Mapping
from typing import Any

import jax
from jax import random
from numpyro.infer import HMC
from numpyro.infer.gibbs import GibbsState, with_conditioning

from gibbsite.kernels.base import unconstrained
from gibbsite.kernels.blocks.eliminated import Eliminated
from gibbsite.kernels.composite import Around, Repeat
from gibbsite.kernels.interleaved import Interleaved, put
from gibbsite.kernels.nuts.block import LearntNUTS

WARMUP = 400
"""Steps in which the kernel of one structure learns: its windows end after 45, 95, 150, 210 and 350 steps or
so, and one chain of a structure that is left again and again needs no finer tuning than these give."""


def learns(kernel: Any) -> bool:
    """Whether a kernel, or one inside of it, learns in warm-up."""
    if isinstance(kernel, Around):
        return learns(kernel._inner)
    if isinstance(kernel, Interleaved):
        return any(learns(k) for k, _ in kernel.parts)
    return hasattr(kernel, "window_ends") or hasattr(kernel, "init_tuning")


def frozen(kernel: Any) -> Any:
    """A copy of a kernel that has learnt, without the code that learns."""
    found: Any = copy.copy(kernel)
    if isinstance(kernel, LearntNUTS):
        found._adapt_step_size, found._ends = False, ()
    elif isinstance(kernel, Around):
        found._inner = frozen(kernel._inner)
    elif isinstance(kernel, Interleaved):
        found._parts = [(frozen(k), names) for k, names in kernel.parts]
    return found


def _keyed(state: Any, key: Any) -> Any:
    return state._replace(rng_key=key) if hasattr(state, "rng_key") else state


def placed(kernel: Any, before: Any, key: Any, values: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Any:
    """A state of a block, `before`, moved to other constrained values, with another random key; what it has
    learnt goes with it."""
    if isinstance(kernel, Repeat):
        return placed(kernel.kernel, before, key, values, kwargs)
    if isinstance(kernel, Eliminated):
        own = {n: values[n] for n in before.z}
        left = {n: v for n, v in own.items() if n not in kernel._marginal.sites}
        key_inner, key_draw = random.split(key)
        inner = placed(kernel.inner, before.inner, key_inner, left, kwargs)
        return before._replace(z=own, inner=inner, rng_key=key_draw)
    if isinstance(kernel, Interleaved):
        keys = random.split(key, len(kernel.parts))
        own = {n: values[n] for n in before.z}
        inner = []
        for (part, names), state, k in zip(kernel.parts, before.inner, keys, strict=True):
            others = with_conditioning(dict(kwargs), {n: v for n, v in own.items() if n not in names})
            inner.append(placed(part, state, k, own, others))
        return before._replace(z=own, inner=tuple(inner))
    state = _keyed(before, key)
    own = {n: values[n] for n in getattr(before, kernel.sample_field)}
    if isinstance(kernel, HMC):
        own = unconstrained(kernel, (), kwargs, own)
    return put(kernel, state, own, (), dict(kwargs))


def placed_all(
    kernel: Any, before: tuple[Any, ...], key: Any, values: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> GibbsState:
    """As `placed`, for every block of a composite."""
    blocks = list(zip(kernel._kernels, kernel._sites, strict=True))
    keys = random.split(key, len(blocks) + 1)
    new = []
    for (block, names), state, k in zip(blocks, before, keys[1:], strict=True):
        others = {n: v for n, v in values.items() if n not in names}
        new.append(placed(block, state, k, values, with_conditioning(dict(kwargs), others)))
    return GibbsState(kernel._merge_z(new), tuple(new), keys[0])


def all_frozen(kernel: Any) -> Any:
    """As `frozen`, for a composite that was initialised."""
    found = copy.copy(kernel)
    found._kernels = [frozen(k) for k in kernel._kernels]
    found._sample_fn = found._sample_one  # NumPyro binds it at `init`, to the composite that learnt
    return found


def diverging(state: GibbsState) -> Any:
    """Whether the last step of any block diverged."""
    found = [s.diverging for s in state.block_states if hasattr(s, "diverging")]
    return jax.numpy.any(jax.numpy.stack(found)) if found else jax.numpy.zeros((), bool)
