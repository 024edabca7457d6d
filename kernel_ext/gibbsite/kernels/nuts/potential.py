"""The density that a block of continuous sites sees, in the block's coordinates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from numpyro.distributions.transforms import biject_to
from numpyro.infer.gibbs import GIBBS_SITES_KWARG, conditioned, latent_sample_sites, prototype_trace
from numpyro.infer.util import log_density

from gibbsite.conditional.reads.support import bounded_by, support_movers
from gibbsite.density import Density
from gibbsite.density.model.tails import in_tails
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import given_to
from gibbsite.kernels.learnt.coordinates import Coordinates, Surroundings, coordinates
from gibbsite.kernels.learnt.moving import followed
from gibbsite.kernels.learnt.residuals import from_their_locations
from gibbsite.programs.jaxpr.compat import jit
from gibbsite.programs.passes.replaced import with_slopes

_RADIUS, _TRIES = 2.0, 100


@dataclass(frozen=True)
class Problem:
    """A NumPyro model, as wrapped by a composite, and the coordinates of the sites that are to be updated."""

    model: Callable[..., Any]
    coordinates: Coordinates
    _gradients: dict[Any, tuple[Any, list[Any]]] = field(default_factory=dict, repr=False, compare=False)

    def around(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Surroundings:
        """What locations and scales read outside the block, from the model's arguments."""
        siblings, data = given_to(self.coordinates.density, args, kwargs)
        return Surroundings({n: siblings[n] for n in self.coordinates.siblings}, data)

    def potential(self, lam: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[Any], Any]:
        """Minus the logdensity of coordinates of degrees `lam`, a function of u."""
        c, around = self.coordinates, self.around(args, kwargs)

        def potential(u: jax.Array) -> jax.Array:
            v, moved, offsets = c.written_with_offsets(u, lam, around)
            values, constrained = c.constrained(v)
            with in_tails(), from_their_locations(offsets):
                total = log_density(self.model, args, dict(kwargs), values)[0]
            return -(total + moved + constrained)

        return potential

    def value_and_grad(
        self, lam: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        """`potential` and its gradient, functions of u.

        The model is run and differentiated once for arguments of a kind; whatever evaluates it from then on
        calls a program, which is batched and lowered once for all.
        """
        leaves, tree = jax.tree.flatten((lam, args, dict(kwargs)))
        places = [isinstance(a, jax.Array | np.ndarray) for a in leaves]
        arrays = [a for a, is_array in zip(leaves, places, strict=True) if is_array]
        fixed: list[Any] = [a for a, is_array in zip(leaves, places, strict=True) if not is_array]

        def whole(u: jax.Array, *arrays: Any) -> tuple[jax.Array, jax.Array]:
            given, others = iter(arrays), iter(fixed)
            flat = [next(given) if is_array else next(others) for is_array in places]
            lam, args, kwargs = jax.tree.unflatten(tree, flat)
            return jax.value_and_grad(with_slopes(self.potential(lam, args, kwargs)))(u)

        def evaluated(u: jax.Array) -> tuple[jax.Array, jax.Array]:
            kinds = [jax.typeof(a) for a in (u, *arrays)]
            key = (tree, *((k.shape, k.dtype) for k in kinds), *map(id, fixed))
            if key not in self._gradients:
                # the objects are kept, so that their numbers stay theirs
                self._gradients[key] = jit(whole), fixed
            # by any other name, a type is another one for JAX: numbers written in Python have weak ones
            same = [lax.convert_element_type(a, k.dtype) for a, k in zip((u, *arrays), kinds, strict=True)]
            return self._gradients[key][0](*same)

        return evaluated

    def start(
        self, key: Any, given: Any, lam: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Any, Any]:
        """Where a chain starts: v, potential and gradient there in coordinates of degrees `lam`.

        Without a `given` v, a random one between −2 and 2, drawn again while there is no density there.
        """
        c, around = self.coordinates, self.around(args, kwargs)
        value_and_grad = self.value_and_grad(lam, args, kwargs)

        def at(v: jax.Array) -> Any:
            return v, *value_and_grad(c.learnt_from(v, lam, around))

        if given is not None:
            return at(given)

        def draw(carry: Any) -> Any:
            key, count, *_ = carry
            key, key_draw = random.split(key)
            v = random.uniform(key_draw, (c.size,), minval=-_RADIUS, maxval=_RADIUS)
            return key, count + 1, *at(v)

        def impossible(carry: Any) -> jax.Array:
            _, count, _, energy, gradient = carry
            return (count < _TRIES) & ~(jnp.isfinite(energy) & jnp.isfinite(gradient).all())

        nothing = jnp.zeros(c.size)
        carry = (key, jnp.zeros((), jnp.int32), nothing, jnp.full((), jnp.nan, nothing.dtype), nothing)
        return lax.while_loop(impossible, draw, carry)[2:]


def problem(
    model: Callable[..., Any],
    density: Density,
    centring: str,
    key: jax.Array,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Problem:
    """The problem of all latent sites of `model` that `kwargs` does not hold as other blocks' values.

    Raises `ScheduleError` for a discrete site and for one whose support moves with others.
    """
    model = conditioned(model)
    traced = prototype_trace(model, key, args, dict(kwargs))
    shapes, known = {}, followed(density)
    for name in latent_sample_sites(traced):
        fn, site = traced[name]["fn"], density.sites.get(name)
        if fn.support.is_discrete:
            raise ScheduleError(f"NUTS updates continuous sites, but {name!r} is discrete")
        support = fn.support if site is None else site.support
        shapes[name] = (jnp.shape(biject_to(support).inv(traced[name]["value"])), support)
        movers = () if site is None else support_movers(density, name) or bounded_by(density, name)
        if movers and name not in known:
            raise ScheduleError(f"NUTS cannot update {name!r}: a support moves with it or with {movers}")
    if not shapes:
        raise ScheduleError("NUTS has no latent site to update")
    siblings = tuple(kwargs.get(GIBBS_SITES_KWARG, {}))
    return Problem(model, coordinates(density, shapes, siblings, centring))
