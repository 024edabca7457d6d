"""Repeats of a block, and composites that visit their blocks in order or at random."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax, random
from numpyro.infer import HMC, Gibbs
from numpyro.infer.gibbs import GibbsState, with_conditioning
from numpyro.infer.mcmc import MCMCKernel

from gibbsite.errors import OptionError
from gibbsite.kernels.base import unconstrained


class Around(MCMCKernel):
    """A kernel that takes `times` steps of an inner one in each of its own.

    What is not said otherwise is that kernel's: `_own` is its part of a state, `_with` a state with another.
    """

    _inner: Any
    _times = 1

    def _own(self, state: Any) -> Any:
        return state

    def _with(self, state: Any, own: Any) -> Any:
        return own

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """The inner kernel's, in own steps; none where it does not learn in windows."""
        ends = getattr(self._inner, "window_ends", lambda steps: ())(num_warmup * self._times)
        return tuple(sorted({e // self._times for e in ends}))

    def pool(self, states: Any, model_args: Any, model_kwargs: Any, siblings: Mapping[str, Any]) -> Any:
        """The inner kernel's, if it learns in windows."""
        learn = getattr(self._inner, "pool", None)
        if learn is None:
            return states
        return self._with(states, learn(self._own(states), model_args, model_kwargs, siblings))

    @property
    def ends_early(self) -> bool:
        """The inner kernel's."""
        return ends_early(self._inner)

    def ending(self, states: Any, num_warmup: int) -> Any:
        """The inner kernel's, in own steps."""
        return self._with(states, self._inner.ending(self._own(states), num_warmup * self._times))

    def get_diagnostics_str(self, state: Any) -> str:
        """The inner kernel's."""
        return self._inner.get_diagnostics_str(self._own(state))


class Repeat(Around):
    """`kernel` applied `times` times in a row as one block; its state is the kernel's own."""

    def __init__(self, kernel: MCMCKernel, times: int):
        if isinstance(times, bool) or int(times) != times or times < 1:
            raise OptionError(f"a kernel is repeated a positive number of times, got {times!r}")
        self._inner, self._times = kernel, int(times)

    @property
    def kernel(self) -> MCMCKernel:
        """The kernel that is repeated."""
        return self._inner

    @property
    def model(self) -> Any:
        """The repeated kernel's model."""
        return self._inner.model

    @property
    def sample_field(self) -> str:
        """The repeated kernel's."""
        return self._inner.sample_field

    def init(
        self, rng_key: jax.Array, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> Any:
        """A composite hands constrained values to this block; HMC wants unconstrained ones."""
        if isinstance(self._inner, HMC) and init_params:
            init_params = unconstrained(self._inner, model_args, model_kwargs or {}, init_params)
        # every repeat is a step of warm-up for the kernel
        return self._inner.init(rng_key, num_warmup * self._times, init_params, model_args, model_kwargs)

    def sample(self, state: Any, model_args: Any, model_kwargs: Any) -> Any:
        """`times` steps."""
        return lax.fori_loop(
            0, self._times, lambda _, s: self._inner.sample(s, model_args, model_kwargs), state
        )

    def refresh(self, state: Any, model_args: Any, model_kwargs: Any) -> Any:
        """The repeated kernel's."""
        return self._inner.refresh(state, model_args, model_kwargs)

    def wrap_model(self, wrapper: Callable[..., Any]) -> "Repeat":
        """A copy around the wrapped kernel."""
        new = copy.copy(self)
        new._inner = self._inner.wrap_model(wrapper)
        return new

    def get_constrain_fn(self, model_args: Any, model_kwargs: Any) -> Callable[[Any], Any]:
        """The repeated kernel's."""
        return self._inner.get_constrain_fn(model_args, model_kwargs)

    def postprocess_fn(self, model_args: Any, model_kwargs: Any) -> Callable[[Any], Any]:
        """The repeated kernel's."""
        return self._inner.postprocess_fn(model_args, model_kwargs)


def ends_early(kernel: Any) -> bool:
    """Whether a kernel's warm-up may end before the step that it was laid out for: it has `ending`."""
    return getattr(kernel, "ends_early", hasattr(kernel, "ending"))


class PoolingGibbs(Gibbs):
    """A composite whose blocks learn from the draws of all chains at the end of windows of warm-up.

    Such blocks have `window_ends(num_warmup)` and `pool(states, model_args, model_kwargs, siblings)`.
    """

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """After how many sweeps of a warm-up `pool` is to be called."""
        learning = [k for k in self._kernels if hasattr(k, "window_ends")]
        return tuple(sorted({e for k in learning for e in k.window_ends(num_warmup)}))

    @property
    def ends_early(self) -> bool:
        """Whether every block allows for `ending`."""
        return all(map(ends_early, self._kernels))

    def ending(self, states: GibbsState, num_warmup: int) -> GibbsState:
        """The states of all chains with a warm-up of so many sweeps, where it `ends_early`."""
        pairs = zip(self._kernels, states.block_states, strict=True)
        return states._replace(block_states=tuple(k.ending(s, num_warmup) for k, s in pairs))

    def pool(self, states: GibbsState, model_args: Any, model_kwargs: Mapping[str, Any] | None) -> GibbsState:
        """The states of all chains, a leading axis, after every such block has learnt."""
        kwargs = dict(model_kwargs or {})
        blocks = list(zip(self._kernels, self._sites, strict=True))

        def values(kernel: Any, z: Any) -> Any:
            return jax.vmap(lambda z: kernel.get_constrain_fn(model_args, kwargs)(z))(z)

        held: list[dict[str, Any]] = []
        for (kernel, names), block in zip(blocks, states.block_states, strict=True):
            found = values(kernel, getattr(block, kernel.sample_field))
            held.append({n: v for n, v in found.items() if n in names})
        new = list(states.block_states)
        for i, (kernel, _) in enumerate(blocks):
            if hasattr(kernel, "pool"):
                siblings = {n: v for j, h in enumerate(held) if j != i for n, v in h.items()}
                new[i] = kernel.pool(new[i], model_args, kwargs, siblings)
        return states._replace(z=self._merge_z(new), block_states=tuple(new))


class SystematicScanGibbs(PoolingGibbs):
    """`numpyro.infer.Gibbs` that leaves its own random key alone.

    Blocks have keys of their own and the composite uses none, but splits one at every step, which on a CPU
    is a loop of some eighty small kernels. The draws are those of `numpyro.infer.Gibbs`.
    """

    def _sample_one(
        self, state: GibbsState, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> GibbsState:
        return super()._sample_one(state, model_args, model_kwargs)._replace(rng_key=state.rng_key)


def updated(
    blocks: Sequence[tuple[Any, Any]], i: int, states: Any, model_args: Any, kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The states of all `blocks`, kernels with their sites, after the `i`-th was refreshed against the values
    of the others and took a step."""
    values: dict[str, Any] = {}
    for j, (kernel, names) in enumerate(blocks):
        if j != i:
            here = kernel.get_constrain_fn(model_args, kwargs)(getattr(states[j], kernel.sample_field))
            values.update({k: v for k, v in here.items() if k in names})
    kernel, around = blocks[i][0], with_conditioning(kwargs, values)
    moved = kernel.sample(kernel.refresh(states[i], model_args, around), model_args, around)
    return (*states[:i], moved, *states[i + 1 :])


class RandomScanGibbs(PoolingGibbs):
    """`numpyro.infer.Gibbs` that picks, each step, as many blocks as there are, with replacement.

    Every pick refreshes its block against the current values first. Under `vmap` over chains all blocks run
    at every pick (a `switch` on a batched index evaluates every branch), so a sweep costs as many times
    more as there are blocks.
    """

    @property
    def ends_early(self) -> bool:
        """No: blocks count their own steps, of which nobody knows how many a sweep has."""
        return False

    def _sample_one(
        self, state: GibbsState, model_args: tuple[Any, ...], model_kwargs: Mapping[str, Any] | None
    ) -> GibbsState:
        kwargs = dict(model_kwargs or {})
        blocks = list(zip(self._kernels, self._sites, strict=True))
        rng_key, key = random.split(state.rng_key)
        picks = random.randint(key, (len(blocks),), 0, len(blocks))
        branches = [
            partial(updated, blocks, i, model_args=model_args, kwargs=kwargs) for i in range(len(blocks))
        ]
        states, _ = lax.scan(
            lambda s, i: (lax.switch(i, branches, s), None), tuple(state.block_states), picks
        )
        return state._replace(z=self._merge_z(states), block_states=states, rng_key=rng_key)
