"""A model run forward where a chain enters a structure, or is looked at where it is before it leaves one."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln
from numpyro.distributions import MaskedDistribution
from numpyro.primitives import Messenger

from gibbsite.errors import ModelError
from gibbsite.structure.moves.learnt import Anew
from gibbsite.structure.moves.places import Place, by_element, concentration
from gibbsite.structure.moves.splitting import Splitting


class Entering(Messenger):
    """Runs a model forward: of the sites in `left` elements that are not kept (masks over `Place.batch`) are
    drawn from their priors, or come out of others by `splitting`, or are drawn `anew` from what a warm-up
    learnt, where `draw` says so.

    After the run `now` has the values, `total` the log density of how these elements came or would come, less
    the log of how volumes change, and `front` the values for a structure that has the kept ones only.
    """

    def __init__(
        self,
        fn: Any,
        values: Mapping[str, Any],
        left: Mapping[str, Place],
        kept: Mapping[str, Any],
        draw: Any,
        splitting: Splitting | None = None,
        anew: Anew | None = None,
    ):
        super().__init__(fn)
        self.now, self._left, self._kept, self._draw = dict(values), left, kept, draw
        self.front = dict(values)
        self._splitting, self._anew = splitting, anew
        self.total: Any = jnp.zeros(()) if anew is None else jnp.where(anew.uses, anew.cost, 0.0)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["is_observed"]:
            return
        name = msg["name"]
        if name not in self._left:
            msg["value"] = self.now[name]
            return
        fn, place, kept = msg["fn"], self._left[name], self._kept[name]
        whole = kept.reshape(kept.shape + (1,) * place.event_dim)
        while isinstance(fn, MaskedDistribution):
            fn = fn.base_dist
        try:
            drawn = fn.sample(msg["kwargs"]["rng_key"], tuple(msg["kwargs"].get("sample_shape", ())))
        except NotImplementedError as problem:  # NumPyro's answer of a density without `sample`
            raise ModelError(
                f"the site {name!r} cannot be drawn from its prior ({type(fn).__name__}), which a chain does "
                f"that enters a structure: give it a proper prior"
            ) from problem
        drawn = jnp.asarray(drawn, place.dtype)
        if place.weights:
            value, front, own = self._weights(by_element(fn), self.now[name], kept, drawn)
        else:
            front = value = jnp.where(whole | ~self._draw, self.now[name], drawn)
            by = by_element(fn)
            each = (by if len(by.event_shape) == place.event_dim else fn).log_prob(value)
            own = jnp.sum(jnp.where(kept, 0.0, each))
        if self._splitting is not None and self._splitting.can(name):
            splits = self._splitting.splits(name)
            two, one, cost = self._splitting.element(name, self.now[name])
            value, front = jnp.where(splits, two, value), jnp.where(splits, one, front)
            own = jnp.where(splits, cost, own)
        if self._anew is not None and name in self._anew.values:
            comes = self._anew.uses & ~whole & self._draw
            value = jnp.where(comes, self._anew.values[name], value)
            front, own = jnp.where(comes, value, front), jnp.where(self._anew.uses, 0.0, own)
        self.now[name] = msg["value"] = value
        self.front[name] = jnp.where(self._draw, value, front)
        self.total += own

    def _weights(self, fn: Any, now: Any, kept: Any, drawn: Any) -> tuple[Any, Any, Any]:
        """Dirichlet weights: the new ones have what the prior gives them of the whole, the kept ones divide
        the rest as they did the whole before, of which the prior knows nothing (neutrality)."""
        alpha = concentration(fn)
        any_kept, all_kept = (f(kept, axis=-1, keepdims=True) for f in (jnp.any, jnp.all))

        def of_kept(x: Any) -> Any:
            return jnp.sum(jnp.where(kept, x, 0.0), axis=-1, keepdims=True)

        divided = now / jnp.where(any_kept, of_kept(now), 1.0)
        spread = jnp.where(kept, divided * of_kept(drawn), drawn)
        value = jnp.where(all_kept | ~self._draw, now, spread)
        front = jnp.where(all_kept, now, jnp.where(kept, divided, 0.0))
        some = any_kept & ~all_kept
        mass, rest = (jnp.where(some, of_kept(x), 1.0) for x in (value, alpha))
        new = gammaln(alpha) - (alpha - 1) * jnp.log(value)
        own = gammaln(jnp.sum(alpha, axis=-1)) - jnp.sum(jnp.where(kept, 0.0, new), axis=-1)
        own += ((rest - jnp.sum(kept, axis=-1, keepdims=True)) * jnp.log(mass) - gammaln(rest))[..., 0]
        own = jnp.where(some[..., 0], own, jnp.where(all_kept[..., 0], 0.0, fn.log_prob(value)))
        return value, front, jnp.sum(own)
