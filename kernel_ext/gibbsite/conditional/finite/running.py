"""Dense coupling through sums: a sweep over elements that keeps the sums running.

Where the terms read a site only through sums over its elements (`z.sum()`, `jnp.dot(w, z)`, `X.T @ z`),
moving one element moves each sum by a difference known beforehand. A sweep over N elements then costs N
evaluations of what follows the sums, not N evaluations of the sums themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density import Density
from gibbsite.density.terms import Term, levels, summed_beyond
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal
from gibbsite.programs.jaxpr.primitives import CONTRACTS, TOTALS, of_kind
from gibbsite.programs.maps.access import Affine, full_window


@dataclass(frozen=True)
class RunningSum:
    """An equation that sums over the elements of a site: `out` is linear in `summand`, whose axes `along` run
    along the site's element axes; with `factor`, `out` is their product contracted over that axis."""

    out: Any
    summand: Any
    along: tuple[int, ...]
    axes: tuple[int, ...]
    factor: Any = None
    factor_axis: int = 0


@dataclass(frozen=True)
class RunningSums:
    """All sums through which `terms` read a site, and what else they read, from one walk back."""

    site: str
    terms: tuple[Term, ...]
    sums: tuple[RunningSum, ...]
    others: tuple[Any, ...]


def running_sums(
    density: Density, site: str, terms: tuple[Term, ...], elements: tuple[int, ...]
) -> RunningSums | None:
    """The sums through which the terms read the site; None where one of them reads it otherwise."""
    sums: dict[Any, RunningSum] = {}
    others: dict[Any, None] = {}
    for atom in density.behind(*(t.atom for t in terms), ends=lambda a: a in sums or a in others):
        if site not in density.maps[atom]:
            others[atom] = None
            continue
        eqn = density.producer.get(atom)
        if eqn is None:
            return None  # the site itself, read element by element
        found = _as_sum(density, site, eqn, elements)
        if found is not None:
            sums[atom] = found
    return RunningSums(site, terms, tuple(sums.values()), tuple(others))


def _as_sum(density: Density, site: str, eqn: JaxprEqn, elements: tuple[int, ...]) -> RunningSum | None:
    if of_kind(eqn, TOTALS):
        along = _along(density, site, eqn.invars[0], elements)
        axes = tuple(a % len(eqn.invars[0].aval.shape) for a in eqn.params["axes"])
        if along is None or not set(along) <= set(axes):
            return None
        return RunningSum(eqn.outvars[0], eqn.invars[0], along, axes)
    if of_kind(eqn, CONTRACTS):
        contract, batch = eqn.params["dimension_numbers"]
        if batch[0] or len(contract[0]) != 1:
            return None
        for side in (0, 1):
            summand, factor = eqn.invars[side], eqn.invars[1 - side]
            flat = len(summand.aval.shape) == 1 and site not in density.maps[factor]
            if flat and _along(density, site, summand, elements) == (0,):
                return RunningSum(eqn.outvars[0], summand, (0,), (0,), factor, contract[1 - side][0])
    return None


def _along(density: Density, site: str, atom: Any, elements: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of an array that run along the site's, where each of its elements reads just its own."""
    if isinstance(atom, Literal):
        return None
    shape = tuple(atom.aval.shape)
    accesses = density.maps[atom].get(site, ())
    if len(accesses) != 1 or accesses[0].window != full_window(shape):
        return None
    axes: list[int] = []
    for c, n in zip(accesses[0].index, elements, strict=False):
        if not isinstance(c, Affine) or c.offset or len(c.axes) != 1 or c.coefs[c.axes[0]] != 1:
            return None
        if shape[c.axes[0]] != n:
            return None
        axes.append(c.axes[0])
    same_rank = len(accesses[0].index) == len(elements) == len(set(axes))
    return tuple(axes) if same_rank else None


class RunningTables:
    """The sums at given values of everything, and how each element's change of value moves them."""

    def __init__(
        self,
        density: Density,
        found: RunningSums,
        support: Any,
        filled: Callable[[Any], Any],
        latents: Mapping[str, Any],
        data: Any,
    ):
        """`filled` makes of a value of `support` the site with all its elements there."""
        self._density, self._found, self._data = density, found, data
        now = density.evaluator(latents, data)
        self.sums = tuple(now.full(s.out) for s in found.sums)
        self._others = {a: now.full(a) for a in found.others}
        rest = {n: v for n, v in latents.items() if n != found.site}
        self._moves = []
        for s in found.sums:

            def summand(value: Any, s: RunningSum = s) -> Any:
                return density.evaluator({**rest, found.site: filled(value)}, data).full(s.summand)

            change = jax.vmap(summand)(jnp.asarray(support)) - now.full(s.summand)
            self._moves.append(_by_element(change, s))
        self._here = levels(found.terms, self._at(self.sums))
        factors = [None if s.factor is None else now.full(s.factor) for s in found.sums]
        self._factors = [
            None if f is None else jnp.moveaxis(f, s.factor_axis, 0)
            for f, s in zip(factors, found.sums, strict=True)
        ]

    def moves(self, i: Any) -> tuple[Any, ...]:
        """How much each sum changes when element `i` takes each of the K values: `(K, *sum.shape)`."""
        out = []
        for move, factor, total in zip(self._moves, self._factors, self.sums, strict=True):
            step = move[:, i]
            if factor is not None:
                step = step.reshape(-1, *(1,) * (factor.ndim - 1)) * factor[i]
            out.append(step.astype(total.dtype))
        return tuple(out)

    def total(self, sums: tuple[Any, ...]) -> Any:
        """The terms' sum, a scalar, at given values of the running sums, less that at the first ones."""
        return summed_beyond(self._found.terms, self._at(sums), self._here)

    def _at(self, sums: tuple[Any, ...]) -> Evaluator:
        ev = self._density.evaluator({}, self._data)
        ev.give({**self._others, **{s.out: v for s, v in zip(self._found.sums, sums, strict=True)}})
        return ev

    def logits(self, sums: tuple[Any, ...], i: Any) -> Any:
        """The terms' total with element `i` at each of the K values: shape `(K,)`."""
        moved = tuple(s + m for s, m in zip(sums, self.moves(i), strict=True))
        return jax.vmap(self.total)(moved)

    def after(self, sums: tuple[Any, ...], i: Any, index: Any) -> tuple[Any, ...]:
        """The sums once element `i` took the value of number `index`; unchanged where that is -1."""
        moves = self.moves(i)
        return tuple(
            jnp.where(index < 0, s, s + m[jnp.maximum(index, 0)]) for s, m in zip(sums, moves, strict=True)
        )


def _by_element(change: Any, s: RunningSum) -> Any:
    """Changes `(K, *summand.shape)` as `(K, N, *rest)`: summed over what the sum sums beside the elements."""
    gone = tuple(a + 1 for a in s.axes if a not in s.along)
    kept = [a for a in range(change.ndim - 1) if a + 1 not in gone]
    change = jnp.sum(change, axis=gone)
    change = jnp.moveaxis(change, [1 + kept.index(a) for a in s.along], range(1, 1 + len(s.along)))
    count = int(np.prod(change.shape[1 : 1 + len(s.along)], dtype=np.int64))
    return change.reshape(change.shape[0], count, *change.shape[1 + len(s.along) :])
