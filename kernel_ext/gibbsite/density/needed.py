"""Which elements of the latent sites enter the density at all: a pass back from it that knows the data.

The index maps tell what an array may read; here a mask, a weight of zero and an index that no latent
reaches count by their values. Elements that nothing needs are flat directions: of padded sequences, the
padding.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.maps.rules import ELEMENTWISE
from gibbsite.density.model.bounds import base_constraint
from gibbsite.trace.jaxpr.compat import JaxprEqn, Literal, bind_equation

_BOUNDED = (
    constraints.interval,
    constraints.unit_interval,
    constraints.simplex,
    constraints.circular,
    constraints.boolean,
    constraints.integer_interval,
    constraints.multinomial,
    constraints.corr_cholesky,
    constraints.corr_matrix,
    constraints.sphere,
)

Read = Callable[[Any], Any]

_ARRANGING = frozenset(
    "reshape squeeze transpose rev expand_dims broadcast_in_dim reduce_sum cumsum slice".split()
)
_LINEAR = frozenset(["gather", "dynamic_slice", "dot_general"])  # in one operand, where they know the others


def needed_elements(density: Density) -> dict[str, np.ndarray]:
    """For each latent site, which of its elements any term of the log density may depend on, at the bound
    data; a dependence is left out only where a known zero or a known choice cuts it off."""
    if "needed" not in density.cache:
        with jax.ensure_compile_time_eval():
            density.cache["needed"] = _needed(density)
    return density.cache["needed"]


def _needed(density: Density) -> dict[str, np.ndarray]:
    read = density.evaluator({}).full
    need: dict[Any, Any] = {}

    def add(atom: Any, more: Any) -> None:
        if isinstance(atom, Literal) or not density.maps.latents(atom):
            return
        need[atom] = need[atom] | more if atom in need else more

    for atom in (*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)):
        if not isinstance(atom, Literal):
            add(atom, np.ones(atom.aval.shape, bool))
    for eqn in reversed(density.closed.jaxpr.eqns):
        outs = [need.pop(v, None) for v in eqn.outvars]
        if any(o is not None and o.any() for o in outs):
            for i, atom in enumerate(eqn.invars):
                if not isinstance(atom, Literal) and density.maps.latents(atom):
                    add(atom, _through(density, eqn, i, outs, read))
    return {
        n: np.broadcast_to(need.get(v, False), density.sites[n].shape) for n, v in density.latent_vars.items()
    }


def _through(density: Density, eqn: JaxprEqn, i: int, outs: list[Any], read: Read) -> Any:
    """Which elements of operand `i` the needed elements of an equation's results need."""
    name, shape = eqn.primitive.name, tuple(eqn.invars[i].aval.shape)
    out = outs[0]
    known = [isinstance(a, Literal) or not density.maps.latents(a) for a in eqn.invars]

    def value(at: int) -> np.ndarray:
        atom = eqn.invars[at]
        return np.asarray(atom.val if isinstance(atom, Literal) else read(atom))

    if len(outs) == 1 and name in ELEMENTWISE:
        if name == "select_n" and i > 0 and known[0]:
            out = out & (value(0).astype(int) == i - 1)
        elif name == "mul" and known[1 - i]:
            out = out & (value(1 - i) != 0)
        elif name == "and" and known[1 - i] and eqn.invars[i].aval.dtype == bool:
            out = out & value(1 - i)
        return out if shape == out.shape else np.broadcast_to(out.any(), shape)
    others = [j for j in range(len(known)) if j != i]
    linear = name in _ARRANGING or (name in _LINEAR and all(known[j] for j in others))
    if len(outs) == 1 and linear:
        return _transposed(eqn, i, out, {j: value(j) for j in others})
    if name == "concatenate":
        axis = eqn.params["dimension"]
        start = sum(a.aval.shape[axis] for a in eqn.invars[:i])
        return np.take(out, range(start, start + shape[axis]), axis)
    return np.ones(shape, bool)


def _transposed(eqn: JaxprEqn, i: int, out: Any, others: Mapping[int, Any]) -> np.ndarray:
    """Through an operation that is linear in operand `i`: back along its transpose, in counts of needs."""
    shape = tuple(eqn.invars[i].aval.shape)
    product = eqn.primitive.name == "dot_general"
    changed = {"preferred_element_type": np.dtype(np.float32)} if product else {}

    def forward(x: Any) -> Any:
        operands = [x if j == i else _counted(eqn, others[j]) for j in range(len(eqn.invars))]
        return bind_equation(eqn, operands, **changed)[0]

    back = jax.linear_transpose(forward, jax.ShapeDtypeStruct(shape, np.float32))
    return np.asarray(back(jnp.asarray(out, np.float32))[0]) > 0


def _counted(eqn: JaxprEqn, other: Any) -> Any:
    """A factor by whether it is zero; indices as they are."""
    return jnp.asarray(other != 0, np.float32) if eqn.primitive.name == "dot_general" else jnp.asarray(other)


def flat_elements(density: Density) -> dict[str, np.ndarray]:
    """For the sites that have any: which elements nothing needs although their support is not bounded.

    Their density is constant on a set without end. A model has such where it masks or weighs a latent site,
    or where its prior is improper; others are not looked at.
    """
    suspects = [
        n
        for n in density.latents
        if (density.sites[n].fn_name == "ImproperUniform" or density.outputs["weights"].get(n))
        and not _bounded(density.sites[n].support)
    ]
    if not suspects:
        return {}
    found = {n: ~needed_elements(density)[n] for n in suspects}
    return {n: free for n, free in found.items() if free.any()}


def _bounded(support: Any) -> bool:
    support = base_constraint(support)
    return any(support is c or (isinstance(c, type) and isinstance(support, c)) for c in _BOUNDED)
