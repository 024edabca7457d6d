"""What a parameter has to meet: when it surely does, which elements do not, and how one says it.

Where a value is computed from latents, what rounding may have done to it is let pass: a positive number that
has become 0, a simplex that sums to 0.9999.
"""

import math
from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.intervals import Range, range_of
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.passes.reroll import rerolled
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import CONVERTS, DIVIDES, MOVES, TOTALS, moved_from, of_kind

_SLACK = 1e-3
# the least eigenvalue, in the largest, of a matrix that is singular but for rounding to 64 bits
_SINGULAR = 1e-12
_WHOLE = (constraints.integer_greater_than, constraints.integer_interval)
_MATRICES = (
    type(constraints.lower_cholesky),
    type(constraints.positive_definite),
    type(constraints.corr_cholesky),
    type(constraints.corr_matrix),
)
_STRICT = (constraints.greater_than, constraints.open_interval, constraints.less_than)
_CLOSED = (constraints.greater_than_eq, constraints.less_than_eq)  # in NumPyro, kinds of the former


def _is_open(base: Any) -> bool:
    """Whether the ends of an interval are no part of it."""
    return isinstance(base, _STRICT) and not isinstance(base, _CLOSED)


def kind_of(constraint: Any) -> str:
    """ "interval", "simplex", "ordered", "matrix"; "" for what nothing is checked of."""
    base = base_constraint(constraint)
    if isinstance(base, type(constraints.simplex)):
        return "simplex"
    if isinstance(base, _MATRICES):
        return "matrix"
    if isinstance(base, type(constraints.ordered_vector)):
        return "ordered"
    if isinstance(base, type(constraints.circular)):
        return ""  # angles turn round
    ends = _ends(base)
    return "interval" if ends != (None, None) or isinstance(base, type(constraints.real)) else ""


def met(constraint: Any, found: Range, computed: bool) -> bool:
    """Whether every value in a range meets an interval; `computed` says that latents enter it."""
    if math.isnan(found[0]):
        return False
    base = base_constraint(constraint)
    low, high = (math.inf * s if e is None else float(e) for s, e in zip((-1, 1), _ends(base), strict=True))
    if not computed and isinstance(base, _WHOLE) and found[0] != found[1]:
        return False
    if not computed and _is_open(base) and (found[0] == low or found[1] == high):
        return False
    return low <= found[0] and found[1] <= high


def outside(constraint: Any, value: Any, computed: bool) -> Any:
    """Which elements of an array of NumPy or JAX do not meet a constraint, without its event axes; NaN never
    does."""
    base, kind = base_constraint(constraint), kind_of(constraint)
    jnp: Any = np if isinstance(value, np.ndarray) else jax.numpy
    if kind == "interval":
        wrong = jnp.isnan(value)
        if computed:
            low, high = _ends(base)
            if low is not None:
                wrong |= value < low - _SLACK * abs(low)
            if high is not None:
                wrong |= value > high + _SLACK * abs(high)
        elif not isinstance(base, type(constraints.real)):
            wrong |= ~jnp.asarray(base(value))
        return wrong
    if kind == "simplex":
        off = jnp.abs(jnp.sum(value, -1) - 1) > _SLACK
        return off | jnp.any(value < -1e-6, -1) | jnp.any(jnp.isnan(value), -1)
    if kind == "ordered":
        return ~jnp.all(value[..., 1:] >= value[..., :-1], -1)
    diagonal = jnp.diagonal(value, axis1=-2, axis2=-1)
    wrong = jnp.any(jnp.isnan(value), (-2, -1)) | jnp.any(diagonal < 0, -1)
    if isinstance(base, type(constraints.positive_definite) | type(constraints.corr_matrix)):
        least = jnp.linalg.eigvalsh(value)
        wrong |= least[..., 0] < -_SLACK * jnp.abs(least[..., -1])
        if not computed:  # as an intrinsic precision: a Cholesky factor of it is what rounding makes of it
            exact = np.linalg.eigvalsh(np.asarray(np.nan_to_num(value), np.float64))
            wrong |= np.abs(exact[..., 0]) <= _SINGULAR * np.abs(exact[..., -1])
    elif not computed:
        wrong |= jnp.any(diagonal == 0, -1)  # NumPyro reads no more than the triangle
    return wrong


def wanted(constraint: Any) -> str:
    """What a constraint asks for, in words."""
    base, kind = base_constraint(constraint), kind_of(constraint)
    if kind == "simplex":
        return "numbers from 0 to 1 that sum to 1"
    if kind == "ordered":
        return "numbers that rise"
    if kind == "matrix":
        cholesky = isinstance(base, type(constraints.lower_cholesky) | type(constraints.corr_cholesky))
        return (
            "a lower triangle with a positive diagonal"
            if cholesky
            else "a symmetric positive-definite matrix"
        )
    whole = "a whole number" if isinstance(base, _WHOLE) else "a number"
    low, high = _ends(base)
    if low is not None and high is not None:
        return f"{whole} between {low:g} and {high:g}"
    if high is not None:
        return f"{whole} below {high:g}"
    if low is None:
        return whole
    return f"{whole} above {low:g}" if _is_open(base) else f"{whole} of at least {low:g}"


def _ends(base: Any) -> tuple[Any, Any]:
    ends = getattr(base, "lower_bound", None), getattr(base, "upper_bound", None)
    known = (float(e.reshape(())) if isinstance(e, np.ndarray) and e.size == 1 else e for e in ends)
    return tuple(e if isinstance(e, int | float) else None for e in known)  # type: ignore[return-value]


Named = tuple[str, str]
_MOVES = MOVES, CONVERTS


@once
def undecided(density: Density) -> tuple[list[Named], list[Named]]:
    """Sites and parameters that have to be evaluated: of what no latent enters, and of what some do."""
    grouped = rerolled(density)
    constant, open_ = [], []
    for site, parameters in grouped.outputs["parameters"].items():
        members = density.groups.get(site, (site,))
        for name, atom in parameters.items():
            constraint = density.parameter_constraints.get(members[0], {}).get(name)
            kind = "" if constraint is None else kind_of(constraint)
            computed = bool(grouped.maps.latents(atom))
            if kind and not _certain(grouped, atom, constraint, kind, computed):
                (open_ if computed else constant).extend((n, name) for n in members)
    return constant, open_


def _certain(density: Density, atom: Any, constraint: Any, kind: str, computed: bool) -> bool:
    if kind == "interval":
        return met(constraint, range_of(density, atom), computed)
    return computed and _by_construction(density, atom, base_constraint(constraint), kind)


def _by_construction(density: Density, atom: Any, base: Any, kind: str) -> bool:
    """Whether a simplex, ordered vector or triangle is a latent of that kind, moved about, or normalised."""
    last = tuple(atom.aval.shape)[-base.event_dim :]

    def keeps(eqn: Any) -> bool:
        return tuple(eqn.invars[0].aval.shape)[-base.event_dim :] == last

    atom = moved_from(density.producer, atom, *_MOVES, while_=keeps)
    eqn = None if isinstance(atom, Literal) else density.producer.get(atom)
    if of_kind(eqn, DIVIDES):
        return kind == "simplex" and _is_its_sum(density, *eqn.invars)  # type: ignore[union-attr]
    name = next((n for n, v in density.latent_vars.items() if v is atom), None)
    return name is not None and type(base_constraint(density.sites[name].support)) is type(base)


def _is_its_sum(density: Density, whole: Any, total: Any) -> bool:
    """Whether `total` is the sum of `whole`, which is not negative, as in a softmax."""
    total = moved_from(density.producer, total, *_MOVES)
    eqn = None if isinstance(total, Literal) else density.producer.get(total)
    summed = eqn.invars[0] if eqn is not None and of_kind(eqn, TOTALS) else None
    return summed is whole and range_of(density, whole)[0] >= 0
