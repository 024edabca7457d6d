"""Which elements of the latent sites enter the density at all: a pass back from it that knows the data.

The index maps tell what an array may read; here a mask, a weight of zero and an index that no latent
reaches count by their values. Elements that nothing needs are flat directions: of padded sequences, the
padding.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import ModelError
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal, bind_equation, is_traced
from gibbsite.programs.jaxpr.walker import back, behind, made_by

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

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_ARRANGING = op.REARRANGES | op.SPREADS | op.TOTALS | op.RUNNING_TOTALS | op.SLICES
_LINEAR = op.GATHERS | op.CONTRACTS | op.WINDOWS  # in one operand, where they know the others


@once
def needed_elements(density: Density) -> dict[str, np.ndarray]:
    """For each latent site, which of its elements any term of the log density may depend on, at the bound
    data; a dependence is left out only where a known zero or a known choice cuts it off."""
    roots = [*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)]
    need = needed_by(density, roots)
    return {
        n: np.broadcast_to(need.get(v, False), density.sites[n].shape) for n, v in density.latent_vars.items()
    }


def needed_by(density: Density, roots: Iterable[Any], given: Mapping[str, Any] = _NOTHING) -> dict[Any, Any]:
    """For each array that `roots` may depend on, which of its elements they do, at the bound data and with
    the `given` values of some latent sites."""
    with jax.ensure_compile_time_eval():
        return _Pass(density, dict(given)).back(roots)


@once
def idle_latents(density: Density) -> frozenset[str]:
    """The latents that neither data nor factors can depend on, directly or through others, as a known choice
    or a known zero cuts them off: of these the posterior is the prior."""
    return _idle(density, {})


def _idle(density: Density, given: Mapping[str, Any]) -> frozenset[str]:
    """As `idle_latents`, where some latents have the `given` values."""
    roots: dict[str, list[Any]] = {}
    for term in (*density.terms, *density.bounds):
        roots.setdefault(term.origin, []).append(term.atom)
    latent = {n: v for n, v in density.latent_vars.items() if n not in given}
    seen, more = set[str](), {n for n in roots if n not in density.latent_vars}
    while more:
        seen |= more
        need = needed_by(density, [a for n in more for a in roots.get(n, ())], given)
        more = {n for n, v in latent.items() if n not in seen and np.any(need.get(v, False))}
    return frozenset(n for n in latent if n not in seen)


MOST_FORMS = 6
"""Values, and combinations of them, that are looked at: where there are no more structures, all are
known from the beginning of a run."""


@once
def switched(density: Density) -> dict[str, frozenset[str]]:
    """By discrete latent of one element that switches others on and off, which: the continuous ones that
    nothing which is observed depends on at some of its few values, and that count at others."""
    found = {}
    for name in density.latents:
        site = density.sites[name]
        ends = _ends(site.support) if site.discrete and not site.shape else None
        if ends is None or not 1 < ends[1] - ends[0] + 1 <= MOST_FORMS:
            continue
        off = [_idle(density, {name: v}) for v in range(ends[0], ends[1] + 1)]
        sometimes = frozenset().union(*off) - frozenset.intersection(*off)
        if smooth := frozenset(n for n in sometimes if not density.sites[n].discrete):
            found[name] = smooth
    return found


def few_forms(density: Density, names: Iterable[str]) -> bool:
    """Whether there are few combinations of values of sites that switch others."""
    ends = [_ends(density.sites[n].support) for n in names]
    return int(np.prod([e[1] - e[0] + 1 for e in ends if e is not None])) <= MOST_FORMS


class _Pass:
    """One pass back through the flat program; `given` latents count as known, as data do."""

    def __init__(self, density: Density, given: dict[str, Any]):
        self._density, self._given = density, frozenset(given)
        sites = density.sites
        values = {
            n: jnp.broadcast_to(jnp.asarray(v, sites[n].dtype), sites[n].shape) for n, v in given.items()
        }
        self._read = density.evaluator(values).full

    def _known(self, atom: Any) -> bool:
        return self._density.maps.latents(atom) <= self._given

    def _value(self, atom: Any) -> np.ndarray:
        return np.asarray(atom.val if isinstance(atom, Literal) else self._read(atom))

    def back(self, roots: Iterable[Any]) -> dict[Any, Any]:
        """Which elements of which arrays are needed."""
        whole = {a: np.ones(a.aval.shape, bool) for a in roots if not self._known(a)}
        return back(self._density.closed.jaxpr, whole, self._through, np.logical_or)

    def _through(self, eqn: JaxprEqn, i: int, outs: list[Any]) -> Any:
        """Which elements of operand `i` the needed elements of an equation's results need."""
        if self._known(eqn.invars[i]) or not any(o is not None and o.any() for o in outs):
            return None
        shape = tuple(eqn.invars[i].aval.shape)
        if op.of_kind(eqn, op.BRANCHES) and self._known(eqn.invars[0]):
            return np.full(shape, self._taken_reads(eqn, i, outs))
        if len(outs) > 1 or not op.of_kind(eqn, op.ELEMENTWISE, op.JOINS):
            others = {j: a for j, a in enumerate(eqn.invars) if j != i}
            alone = all(map(self._known, others.values())) and (i == 0 or op.of_kind(eqn, op.CONTRACTS))
            linear = op.of_kind(eqn, _ARRANGING) or (op.of_kind(eqn, _LINEAR) and alone)
            if len(outs) > 1 or not linear:
                return np.ones(shape, bool)
            return _transposed(eqn, i, outs[0], {j: self._value(a) for j, a in others.items()})
        out = outs[0]
        if op.of_kind(eqn, op.JOINS):
            axis = eqn.params["dimension"]
            start = sum(a.aval.shape[axis] for a in eqn.invars[:i])
            return np.take(out, range(start, start + shape[axis]), axis)
        if op.of_kind(eqn, op.SELECTS) and i > 0 and self._known(eqn.invars[0]):
            out = out & (self._value(eqn.invars[0]).astype(int) == i - 1)
        elif op.of_kind(eqn, op.MULTIPLIES) and self._known(eqn.invars[1 - i]):
            out = out & (self._value(eqn.invars[1 - i]) != 0)
        elif op.of_kind(eqn, op.BOTH) and eqn.invars[i].aval.dtype == bool and self._known(eqn.invars[1 - i]):
            out = out & self._value(eqn.invars[1 - i])
        if not shape:
            return out.any()
        repeated = tuple(a for a, n in enumerate(shape) if n == 1)  # operands of size 1 broadcast
        return out.any(axis=repeated, keepdims=True) if shape != out.shape else out

    def _taken_reads(self, eqn: JaxprEqn, i: int, outs: list[Any]) -> bool:
        """Whether the branch that a known index takes reads operand `i` for a result that is needed."""
        branches = eqn.params["branches"]
        at = int(np.clip(self._value(eqn.invars[0]), 0, len(branches) - 1))
        jaxpr = branches[at].jaxpr
        wanted = [v for v, o in zip(jaxpr.outvars, outs, strict=True) if o is not None and o.any()]
        return jaxpr.invars[i - 1] in set(behind(made_by(jaxpr), wanted))


def _transposed(eqn: JaxprEqn, i: int, out: Any, others: Mapping[int, Any]) -> np.ndarray:
    """Through an operation that is linear in operand `i`: back along its transpose, in counts of needs."""
    shape = tuple(eqn.invars[i].aval.shape)
    changed: dict[str, Any] = {}
    if op.of_kind(eqn, op.CONTRACTS):
        changed = {"preferred_element_type": np.dtype(np.float32)}
    elif eqn.params.get("mode") is jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        changed = {"mode": jax.lax.GatherScatterMode.CLIP}  # what comes of it where the promise is not kept

    def forward(x: Any) -> Any:
        operands = [x if j == i else _counted(eqn, others[j]) for j in range(len(eqn.invars))]
        return bind_equation(eqn, operands, **changed)[0]

    back = jax.linear_transpose(forward, jax.ShapeDtypeStruct(shape, np.float32))
    return np.asarray(back(jnp.asarray(out, np.float32))[0]) > 0


def _counted(eqn: JaxprEqn, other: Any) -> Any:
    """A factor by whether it is zero; indices as they are."""
    return jnp.asarray(other != 0, np.float32) if op.of_kind(eqn, op.CONTRACTS) else jnp.asarray(other)


def flat_elements(density: Density) -> dict[str, np.ndarray]:
    """For the sites that have any: which elements nothing needs although their support is not bounded.

    Their density is constant on a set without end. A model has such where it masks or weighs a latent site,
    or where its prior is improper; others are not looked at.
    """
    found = {n: ~needed_elements(density)[n] for n in loose_sites(density)}
    return {n: free for n, free in found.items() if free.any()}


def loose_sites(density: Density) -> tuple[str, ...]:
    """The sites whose prior may say nothing, on a support that is not bounded."""
    return tuple(
        n
        for n in density.latents
        if (density.sites[n].fn_name == "ImproperUniform" or density.outputs["weights"].get(n))
        and not _bounded(density.sites[n].support)
    )


def _bounded(support: Any) -> bool:
    support = base_constraint(support)
    return any(support is c or (isinstance(c, type) and isinstance(support, c)) for c in _BOUNDED)


_ALIKE = 16
_AT_RANDOM = 16


def check_proper(density: Density) -> None:
    """Refuse elements without a proper prior that no term reads, or none where discrete sites take values
    that they may take; raises `ModelError` naming site and element.

    Their posterior is as improper as their prior, and any draw of them would be made up.
    """
    for name, free in flat_elements(density).items():
        if density.sites[name].fn_name == "ImproperUniform":
            raise ModelError(
                f"the prior of {name!r} is improper, and neither data nor other sites say anything"
                f"{_of_elements(free)}, so that there is no posterior to draw from; give {name!r} a proper "
                f"prior, or leave it out"
            )
    _check_chosen(density)


def _check_chosen(density: Density) -> None:
    """Elements that are read through discrete latents: whether they are, wherever these may be. Looked at
    where all discrete elements have one value, which reads least, and at some values at random."""
    loose = loose_sites(density)
    if not loose:
        return
    ends = {n: _ends(density.sites[n].support) for n in density.latents if density.sites[n].discrete}
    known = {n: e for n, e in ends.items() if e is not None}
    if not known:
        return
    roots = [*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)]
    for given in _values(density, known):
        need = needed_by(density, roots, given)
        for name in loose:
            free = ~np.broadcast_to(need.get(density.latent_vars[name], False), density.sites[name].shape)
            if free.any() and _possible(density, given):
                prior = "improper" if density.sites[name].fn_name == "ImproperUniform" else "masked out"
                raise ModelError(
                    f"the prior of {name!r} is {prior}, and at some values of {', '.join(given)} nothing "
                    f"else says anything{_of_elements(free)}: these have a chance above zero, so that there "
                    f"is no posterior to draw from; give {name!r} a proper prior"
                )


def _values(density: Density, ends: dict[str, tuple[int, int]]) -> Iterator[dict[str, np.ndarray]]:
    """Values of the discrete sites: all elements alike, then some at random."""
    rng = np.random.default_rng(0)
    shapes = {n: density.sites[n].shape for n in ends}
    for k in range(min(max(high - low for low, high in ends.values()) + 1, _ALIKE)):
        yield {n: np.full(shapes[n], min(low + k, high)) for n, (low, high) in ends.items()}
    for _ in range(_AT_RANDOM):
        yield {n: rng.integers(low, high + 1, shapes[n]) for n, (low, high) in ends.items()}


def _of_elements(free: np.ndarray) -> str:
    first = np.argwhere(free)[0].tolist()
    return f" of {free.sum()} of its elements (the first: {first})" if free.shape else ""


def _ends(support: Any) -> tuple[Any, Any] | None:
    """The first and last value of a finite support, where they are known."""
    support = base_constraint(support)
    if support is constraints.boolean:
        return 0, 1
    if isinstance(support, constraints.integer_interval):
        low, high = support.lower_bound, support.upper_bound
        if any(is_traced(b) for b in (low, high)):  # other sites say how far it goes
            return None
        if all(isinstance(b, int | np.ndarray | jax.Array) and np.size(b) == 1 for b in (low, high)):
            return int(np.ravel(low)[0]), int(np.ravel(high)[0])
    return None


def _possible(density: Density, given: dict[str, Any]) -> bool:
    """Whether the density is above zero there, at some place of everything else."""
    state = dict(given)
    for name in density.latents:
        site = density.sites[name]
        if name not in state:
            if site.discrete:
                return False
            to = biject_to(site.support)
            state[name] = to(jnp.full(to.inverse_shape(site.shape), 0.1))
    read = density.evaluator(density.state_values(state)).full
    with jax.ensure_compile_time_eval():
        parts = [
            jnp.sum(read(a))
            for a in [*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)]
        ]
        return bool(np.isfinite(np.sum([np.asarray(p) for p in parts])))
