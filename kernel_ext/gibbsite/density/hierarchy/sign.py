"""Which arrays of a jaxpr are positive wherever the latents lie in their supports."""

from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.trace.jaxpr.compat import Literal

_MOVES = frozenset(
    "broadcast_in_dim reshape squeeze expand_dims convert_element_type copy transpose rev slice "
    "reduce_sum reduce_prod reduce_max reduce_min cumsum cumprod sqrt rsqrt max".split()
)
_BOTH = frozenset(["mul", "div", "add", "add_any", "min"])
_ALWAYS = frozenset(["exp", "exp2", "logistic", "cosh"])


def positive(density: Density, atom: Any) -> bool:
    """Whether an array is certain to be above 0; False is "not known".

    Latents count by their supports, data by their values.
    """
    if isinstance(atom, Literal) or not density.maps.latents(atom):
        with jax.ensure_compile_time_eval():
            value = np.asarray(density.evaluator({}).full(atom))
            return bool(np.all((value > 0) | np.isnan(value)))  # NaN stands for what is out of bounds
    if atom not in density.producer:
        name = next(n for n, v in density.latent_vars.items() if v is atom)
        return _above_zero(density.sites[name].support)
    eqn = density.producer[atom]
    name = eqn.primitive.name
    if name in _ALWAYS:
        return True
    if name in _MOVES:
        return (
            any(positive(density, a) for a in eqn.invars)
            if name == "max"
            else positive(density, eqn.invars[0])
        )
    if name in _BOTH:
        return all(positive(density, a) for a in eqn.invars)
    if name in ("gather", "dynamic_slice", "pow", "integer_pow"):
        return positive(density, eqn.invars[0])
    if name == "concatenate":
        return all(positive(density, a) for a in eqn.invars)
    if name == "select_n":
        return all(positive(density, a) for a in eqn.invars[1:])
    return False


def _above_zero(support: Any) -> bool:
    """Whether values are above 0 but on a set of no probability: of a count that may be 0, this is not so."""
    support = base_constraint(support)
    if support is constraints.positive or support is constraints.simplex:
        return True
    bound = getattr(support, "lower_bound", None)
    if bound is None or np.ndim(bound) != 0:
        return False
    return float(bound) > 0 if support.is_discrete else float(bound) >= 0
