"""Univariate slice sampling (Neal 2003, figures 3 and 5), element by element, or all at once where apart."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from jax.flatten_util import ravel_pytree
from numpyro.infer.gibbs import GIBBS_SITES_KWARG

from gibbsite.conditional.draws.slice import slice_element, slice_in_turn
from gibbsite.conditional.reads.elements import ElementDensity, element_density
from gibbsite.density import Density
from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.finite import data_of
from gibbsite.kernels.blocks.target import Target, Values


class SliceTuning(NamedTuple):
    """Width of the first interval per coordinate, learned in warm-up from the distance moved."""

    width: jax.Array
    count: jax.Array

    def after(self, flat: jax.Array, start: jax.Array, adapting: jax.Array) -> "SliceTuning":
        """What a move from `start` to `flat` teaches, where it is `adapting`."""
        count = self.count + 1
        # three mean moves is about the width that needs neither stepping out nor much shrinking
        gain = jnp.asarray(count + 1, flat.dtype) ** -0.6
        width = jnp.maximum(self.width + gain * (3.0 * jnp.abs(flat - start) - self.width), 1e-6)
        return SliceTuning(jnp.where(adapting, width, self.width), jnp.where(adapting, count, self.count))


class Slice(SiteKernel):
    """Updates every element of the block's sites by a slice through that element.

    Works in unconstrained coordinates, so any continuous support fits. Elements are updated in turn, which
    costs about six evaluations of the touched factors each; sites whose elements `density`, the analysis of
    the model, shows to be independent given the rest take their slices side by side, in as many evaluations
    as the slowest of them. `width`: first interval, adapted in warm-up; `max_steps`: most steps out.
    """

    def __init__(
        self, model: Any, width: float = 2.0, max_steps: int = 16, *, density: Density | None = None
    ):
        super().__init__(model)
        self._density = density
        if not width > 0:
            raise OptionError(f"Slice: width must be positive, got {width!r}")
        if int(max_steps) != max_steps or max_steps < 1:
            raise OptionError(f"Slice: max_steps must be a positive integer, got {max_steps!r}")
        self._width, self._max_steps = float(width), int(max_steps)

    def init_tuning(self, z: Values, target: Target) -> SliceTuning:
        """Equal widths."""
        flat, _ = ravel_pytree(target.unconstrain(z))
        return SliceTuning(jnp.full_like(flat, self._width), jnp.zeros((), jnp.int32))

    def step(
        self, key: jax.Array, z: Values, tuning: SliceTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], SliceTuning, StepInfo]:
        """One sweep over all elements, site by site where theirs are independent, else in order."""
        free = target.unconstrain(z)
        start, unravel = ravel_pytree(free)
        apart = self._apart(z)
        if apart is None:
            flat, evaluations = slice_in_turn(
                key, lambda u: target.free_logdensity(unravel(u)), start, tuning.width, self._max_steps
            )
        else:
            flat, evaluations = self._at_once(key, free, unravel(tuning.width), apart, target)
        new = tuning.after(flat, start, adapting)
        return target.constrain(unravel(flat)), new, step_info(1.0, evaluations, jnp.mean(tuning.width))

    def _apart(self, z: Values) -> dict[str, ElementDensity] | None:
        """The conditionals of the elements of each site, where all have them."""
        if self._density is None or any(n not in self._density.latent_vars for n in z):
            return None
        found = {n: element_density(self._density, n) for n in z}
        return {n: d for n, d in found.items() if d is not None} if all(found.values()) else None

    def _at_once(
        self, key: jax.Array, free: Values, width: Values, apart: Mapping[str, ElementDensity], target: Target
    ) -> tuple[jax.Array, jax.Array]:
        kwargs, density = dict(target.kwargs), self._density
        assert density is not None
        others = dict(kwargs.pop(GIBBS_SITES_KWARG, {}))
        others |= {n: apart[n].constrained(u) for n, u in free.items()}
        data = data_of(density, target.args, kwargs)
        moved, evaluations = dict(free), jnp.zeros((), jnp.int32)
        for i, (name, elements) in enumerate(apart.items()):
            at = partial(elements.at, others=dict(others), data=data)
            moved[name], _, count = slice_element(
                random.fold_in(key, i), at, free[name], None, width[name], self._max_steps
            )
            others[name] = elements.constrained(moved[name])
            evaluations = evaluations + count
        return ravel_pytree(moved)[0], evaluations
