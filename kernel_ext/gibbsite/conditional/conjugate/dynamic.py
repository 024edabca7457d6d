"""Dynamic conjugacy: the family depends on the value of discrete sites, and is chosen as the chain runs.

Where a branch of the model on a discrete latent decides how a site is used, the conditional is certified once
for every value of that latent, following only the branch that the value takes (Gabler, Trapp, Ge and
Pernkopf 2019, figure 2). The branch depends on other sites alone, so choosing the update by it leaves the
conditional invariant. Where a value has no certificate, the site is updated by a slice there.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.certify import ConjugateConditional, certified
from gibbsite.conditional.draws.slice import slice_in_turn
from gibbsite.conditional.forms.support import Support, support_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.density.terms import summed
from gibbsite.errors import ModelError

_MOST_BRANCHES = 8
# a slice updates elements one after another
_MOST_SLICED = 16
_WIDTH, _STEPS = 2.0, 16


@dataclass(frozen=True)
class Branch:
    """What is done while the deciding sites have `values`: an exact draw, or for an `obstacle` a slice."""

    values: Mapping[str, Any]
    exact: ConjugateConditional | None
    obstacle: str = ""

    def __str__(self) -> str:
        when = ", ".join(f"{n} = {v}" for n, v in self.values.items())
        if self.exact is None:
            return f"if {when}, a slice: {self.obstacle}"
        return f"if {when}, {self.exact.reason}"


class DynamicConditional(Conditional):
    """A conditional whose family other sites decide: `branches`, one per combination of their values."""

    kind = "conjugate"

    def __init__(self, density: Density, site: str, supports: Mapping[str, np.ndarray], branches: Any):
        self.supports, self.branches = dict(supports), tuple(branches)
        reason = f"decided by {' and '.join(supports)}: " + "; ".join(map(str, self.branches))
        super().__init__(density, site, reason, "the branch that is taken, alone")

    def which(self, latents: Mapping[str, Any]) -> Any:
        """The index of the branch at these values of the deciding sites."""
        index: Any = jnp.zeros((), jnp.int32)
        for name, values in self.supports.items():
            at = jnp.argmax(jnp.asarray(values) == jnp.reshape(jnp.asarray(latents[name]), ()))
            index = index * len(values) + at
        return index

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """One draw, or one slice update per element where the branch has no certificate; pure in complete
        latent values and data arrays."""
        site = self.density.sites[self.site]

        def act(branch: Branch) -> Any:
            if branch.exact is not None:
                return lambda key: branch.exact.update(key, latents, data)  # type: ignore[union-attr]
            return lambda key: self._slice(key, latents, data).astype(site.dtype)

        return lax.switch(self.which(latents), [act(b) for b in self.branches], key)

    def _slice(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        shape = self.density.sites[self.site].shape
        others = {n: v for n, v in latents.items() if n != self.site}
        touching = [*self.density.terms_of(self.site), *self.density.bounds_of(self.site)]
        free = _Free(support_of(self.density, self.site), self.density.evaluator(others, data), shape)

        def logdensity(u: Any) -> Any:
            x, log_jacobian = free.constrained(u)
            ev = self.density.evaluator({**others, self.site: x}, data)
            total = summed((t for t, _ in touching), ev, log_jacobian)
            return jnp.where(jnp.isnan(total), -jnp.inf, total)

        u = free.unconstrained(latents[self.site]).reshape(-1)
        u, _ = slice_in_turn(key, lambda u: logdensity(u.reshape(shape)), u, _WIDTH, _STEPS)
        return free.constrained(u.reshape(shape))[0]

    def chosen(self, state: Mapping[str, Any]) -> Branch:
        """The branch at a state."""
        latents = self.density.state_values(state, without=(self.site,))
        return self.branches[int(self.which(latents))]

    def _exact(self, state: Mapping[str, Any]) -> ConjugateConditional:
        branch = self.chosen(state)
        if branch.exact is None:
            raise ModelError(f"{self.site!r} is updated by a slice at this state: {branch.obstacle}")
        return branch.exact

    def exact_at(self, state: Mapping[str, Any]) -> bool:
        """Whether the branch at a state is a draw, and no slice."""
        return self.chosen(state).exact is not None

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """As that of the branch at `state`; `ModelError` where that is a slice."""
        return self._exact(state).natural(state)

    def distribution(self, state: Mapping[str, Any]) -> Any:
        """As that of the branch at `state`; `ModelError` where that is a slice."""
        return self._exact(state).distribution(state)

    @property
    def fresh(self) -> tuple[str, ...]:
        """None where some branch is a slice, which starts from the site's own value."""
        return self.sites if all(b.exact is not None for b in self.branches) else ()

    @property
    def signature(self) -> str:
        parts = [b.exact.signature if b.exact is not None else "slice" for b in self.branches]
        return repr(("dynamic", self.site, [(n, v.tolist()) for n, v in self.supports.items()], parts))


@dataclass(frozen=True)
class _Free:
    """Unconstrained coordinates of a support whose ends are read at the values of the other sites."""

    support: Support
    read: Any
    shape: tuple[int, ...]

    def _ends(self) -> tuple[Any, Any]:
        ends = (self.support.low, self.support.high)
        return tuple(e if e is None or isinstance(e, float) else self.read.full(e) for e in ends)  # type: ignore[return-value]

    def constrained(self, u: Any) -> tuple[Any, Any]:
        """Values, and the log Jacobian up to a constant."""
        low, high = self._ends()
        if low is None:
            return (u, jnp.zeros((), u.dtype)) if high is None else (high - jnp.exp(u), jnp.sum(u))
        if high is None:
            return low + jnp.exp(u), jnp.sum(u)
        log_jacobian = jnp.sum(jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u))
        return low + (high - low) * jax.nn.sigmoid(u), log_jacobian

    def unconstrained(self, x: Any) -> Any:
        """The inverse; values on the edge, by rounding, get a large finite coordinate."""
        low, high = self._ends()
        if low is None and high is None:
            return x
        below = 0.0 if low is None else jnp.log(x - low)
        above = 0.0 if high is None else jnp.log(high - x)
        u = above if low is None else below - above
        return jnp.nan_to_num(jnp.broadcast_to(u, self.shape), nan=0.0, posinf=80.0, neginf=-80.0)


def dynamic_of(density: Density, site: str) -> DynamicConditional | None:
    """The conditional decided by discrete sites; None where no combination of their values has a
    certificate."""
    deciding = _deciding(density, site)
    for names in [*((n,) for n in deciding), tuple(deciding)]:
        supports = {n: deciding[n] for n in names}
        count = int(np.prod([len(v) for v in supports.values()], dtype=np.int64))
        if not names or count > _MOST_BRANCHES:
            continue
        branches = [
            _branch(density, site, dict(zip(names, values, strict=True)))
            for values in itertools.product(*supports.values())
        ]
        sliced = any(b.exact is None for b in branches)
        if not any(b.exact is not None for b in branches) or (sliced and not _sliceable(density, site)):
            continue
        return DynamicConditional(density, site, supports, branches)
    return None


def _deciding(density: Density, site: str) -> dict[str, np.ndarray]:
    """Discrete latents of one element with finite supports, among those that the site's terms read."""
    near = frozenset().union(*(density.maps.latents(t.atom) for t, _ in density.terms_of(site)))
    found = {}
    for name in density.latents:
        s = density.sites[name]
        if name not in near or not s.discrete or int(np.prod(s.shape, dtype=np.int64)) != 1:
            continue
        if any(density.maps.latents(a) for a in density.outputs["bounds"].get(name, ())):
            continue  # its support moves with other sites
        support = finite_support(density, name)
        if support is not None and support.values.ndim == 1 and support.valid is None:
            found[name] = support.values
    return found


def _branch(density: Density, site: str, values: Mapping[str, Any]) -> Branch:
    try:
        return Branch(values, certified(density, site, values))
    except Refused as why:
        return Branch(values, None, str(why))


def _sliceable(density: Density, site: str) -> bool:
    try:
        support = support_of(density, site)
    except Refused:
        return False
    size = int(np.prod(density.sites[site].shape, dtype=np.int64))
    return support.kind != "simplex" and size <= _MOST_SLICED
