"""How likely each datum is given the others, with discrete sites summed out; what information these cost.

For a datum `y_i` that reads the discrete elements `z`, `p(y_i | the other data, the other latents)` is the
sum of `p(y_i | z = k)` over what the rest says of `z`, its cavity distribution (Vehtari, Mononen, Tolvanen,
Sivula and Winther 2016, "Bayesian leave-one-out cross-validation approximations for Gaussian latent variable
models", §3): the posterior of `z` divided by the likelihood of `y_i`. A likelihood that all but excludes a
value leaves none of its posterior to be divided, so likelihoods are kept from falling more than `_DEEPEST`
below their largest where cavities are computed, and it is looked at whether that changed the marginal
density.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions.transforms import biject_to

from gibbsite.conditional.tables.factor import (
    MAX_ENTRIES,
    Factor,
    TooLarge,
    is_identity,
    pieces_of,
    term_accesses,
)
from gibbsite.conditional.tables.fill import Tabulated
from gibbsite.density import Density
from gibbsite.density.terms import Term, number, summed
from gibbsite.elimination.marginal import Marginal
from gibbsite.elimination.plan import Plan
from gibbsite.elimination.tabled import TableMarginal
from gibbsite.elimination.tables.collect import Tables
from gibbsite.programs.jaxpr.compiling import Quick

_DEEPEST = 40.0
"""In logs: e^-40 is 4e-18, far below what adds to a probability of 1 in float32, and times cavities down to
e^-47 it is still a number there."""
_MOST_VALUES = 4096
"""Of the elements that one datum reads, together: each is one evaluation of the likelihood."""
CHANGED = "changed"
"""The name of by how much keeping likelihoods from falling changed the marginal log density."""


@dataclass(frozen=True)
class _Likelihood(Term):
    """What each datum of an observed site adds to the log density, minus infinity beyond its support."""

    density: Density = field(kw_only=True, compare=False)

    def at(self, ev: Any) -> Any:
        found = likelihood_of(self.density, self.origin, ev)
        for bound in (t for t in self.density.bounds if t.origin == self.origin):
            found = jnp.where(_onto(bound.at(ev), found.shape) < 0, -jnp.inf, found)  # of -1 tries: NaN
        return found


class _Rows(NamedTuple):
    """Data that read elements in one way: the tables of their likelihoods, and for each of these which data,
    by their numbers, its rows are."""

    tabulated: Tabulated
    data: tuple[np.ndarray, ...]


class Pointwise:
    """`log p(y_i | the other data, latents)` of the data `names` (those of `marginal.density`), with the
    sites of `marginal` summed out. `unread` says by name why that is not computed for a site; these are given
    the discrete sites' own values."""

    def __init__(self, marginal: TableMarginal, names: Collection[str]):
        self._marginal, self._density, of = marginal, marginal.density, marginal.of
        self.unread: dict[str, str] = {}
        self._rows: dict[str, list[_Rows]] = {}
        self._plain = [n for n in names if not self._met(n)]
        for name in names:
            if name not in self._plain:
                found = self._tabulated(name)
                if isinstance(found, str):
                    self.unread[name] = found
                else:
                    self._rows[name] = found
        without = set(self._rows)
        left = replace(
            self._density,
            terms=tuple(t for t in self._density.terms if t.origin not in without),
            bounds=tuple(t for t in self._density.bounds if t.origin not in without),
            cache={},
        )
        factors = tuple(f for rows in self._each() for f in rows.tabulated.source.factors)
        self._plan = Plan(Tables(left, of), more=factors)

    def _each(self) -> list[_Rows]:
        return [rows for several in self._rows.values() for rows in several]

    def __call__(self, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        """Arrays of the log density's shape, by name, and under `CHANGED` a number that ought to be
        0 (above what rounding makes of it)."""
        left = self._marginal.left(latents)
        plain = self._density.evaluator({**left, **self._own(latents)}, data)
        out = {n: likelihood_of(self._density, n, plain) for n in (*self._plain, *self.unread)}
        logs: dict[Factor, Any] = {}
        for rows in self._each():
            source = rows.tabulated.source
            logs.update(zip(source.factors, source.tables(left, data), strict=True))
        kept = {f: jnp.maximum(x, _top(x) - _DEEPEST) for f, x in logs.items()}
        tables = self._plan.tables(left, data)

        def total(found: Mapping[Factor, Any]) -> Any:
            return self._plan.total(tables, more=found)

        # by a list, since factors have no order
        changed, slopes = jax.value_and_grad(lambda xs: total(dict(zip(kept, xs, strict=True))))(
            [*kept.values()]
        )
        posterior = dict(zip(kept, slopes, strict=True))
        for name, several in self._rows.items():
            atom = self._density.outputs["log_prob"][name]
            count = math.prod(atom.aval.shape)
            found = jnp.zeros(count, atom.aval.dtype)
            for rows in several:
                for factor, at in zip(rows.tabulated.source.factors, rows.data, strict=True):
                    each = _without_own(logs[factor], kept[factor], posterior[factor])
                    found = each if is_identity(at, count) else found.at[at].set(each)
            if (free := self._free(name, several)).size:
                found = found.at[free].set(jnp.ravel(likelihood_of(self._density, name, plain))[free])
            out[name] = found.reshape(atom.aval.shape)
        exact = total(logs) if logs else changed
        noise = 8 * jnp.finfo(exact.dtype).eps * jnp.abs(exact)
        out[CHANGED] = jnp.maximum(jnp.abs(changed - exact) - noise, 0)
        return out

    @property
    def read(self) -> frozenset[str]:
        """The data that read sites which are summed out."""
        return frozenset((*self._rows, *self.unread))

    # what an observed site reads

    def _met(self, name: str) -> list[str]:
        maps = [self._density.maps[a] for a in _atoms(self._density, name)]
        return [s for s in self._marginal.of.names if any(s in m for m in maps)]

    def _tabulated(self, name: str) -> list[_Rows] | str:
        """The likelihoods of a site's data at all values of the elements that each reads, a row for each; or
        in words why there are none."""
        density, of = self._density, self._marginal.of
        atom, mine = density.outputs["log_prob"][name], self._met(name)
        shape = tuple(atom.aval.shape)
        term = _Likelihood(name, atom, shape, number(len(shape), 1.0), density=density)
        elements = {s: of.elements[s] for s in mine}
        accesses = term_accesses(density, term, elements)
        many = f"{name!r} reads too many elements of {', '.join(mine)} at once"
        if (inside := density.outputs["inside"].get(name)) is not None:
            if tuple(inside.aval.shape) == shape:
                bounds = term_accesses(density, replace(term, atom=inside), elements)
                accesses = {s: tuple({*accesses.get(s, ()), *bounds.get(s, ())}) for s in mine}
            elif not all(len(accesses.get(s, ())) == 1 for s in mine):
                # the elements of an event may read others than its datum does as a whole
                return many
        numbers = np.arange(math.prod(shape)).reshape(shape)
        out: list[_Rows] = []
        with jax.ensure_compile_time_eval():
            try:
                pieces = [p for p in pieces_of(density, term, accesses, of.elements, of.sizes) if p.reads]
                for piece in pieces:
                    if math.prod(of.sizes[s] for s in piece.sites) > _MOST_VALUES:
                        return many
                    found = Tabulated(density, piece, of.supports, MAX_ENTRIES, range(len(shape)))
                    here = numbers[tuple(slice(*c) for c in piece.cell)].reshape(-1)
                    out.append(_Rows(found, tuple(here[rows] for _, rows, *_ in found.patterns)))
            except TooLarge:
                return many
        return out

    def _free(self, name: str, several: Sequence[_Rows]) -> np.ndarray:
        """The numbers of a site's data that read nothing which is summed out."""
        count = math.prod(self._density.outputs["log_prob"][name].aval.shape)
        read = np.concatenate([np.zeros(0, int), *(at for rows in several for at in rows.data)])
        return np.setdiff1d(np.arange(count), read)

    # likelihoods

    def _own(self, latents: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the summed sites, where they are known: for what is given them."""
        packed = self._density.packed(latents)
        return {n: packed[n] for n in self._marginal.of.names if n in packed}


def _without_own(logs: Any, kept: Any, posterior: Any) -> Any:
    """The log likelihood of the datum of each row, `[*values, rows]`, given the others: its values weighed by
    what is left of their `posterior` without it."""
    values = tuple(range(logs.ndim - 1))
    cavity = jnp.where(posterior > 0, jnp.log(jnp.where(posterior > 0, posterior, 1)) - kept, -jnp.inf)
    cavity = cavity - jax.nn.logsumexp(cavity, axis=values)
    return jax.nn.logsumexp(cavity + logs, axis=values)


def likelihood_of(density: Density, name: str, evaluator: Any) -> Any:
    """What each datum of an observed site adds to the log density, at the values that `evaluator` has."""
    log_prob, *inside = (evaluator.full(a) for a in _atoms(density, name))
    for x in inside:
        log_prob = log_prob + jnp.sum(x, axis=tuple(range(jnp.ndim(log_prob), jnp.ndim(x))))
    return log_prob


def _atoms(density: Density, name: str) -> list[Any]:
    outputs = density.outputs
    return [outputs["log_prob"][name], *([outputs["inside"][name]] if name in outputs["inside"] else [])]


def _onto(bound: Any, shape: tuple[int, ...]) -> Any:
    """What is 0 within bounds and below it beyond, by datum: of events, of all their elements."""
    return jnp.sum(bound, axis=tuple(range(len(shape), jnp.ndim(bound))))


def _top(x: Any) -> Any:
    """The largest likelihood of each datum over all values; 0 where none is possible."""
    top = jnp.max(x, axis=tuple(range(x.ndim - 1)), keepdims=True)
    return jnp.where(jnp.isfinite(top), top, 0)


# How much of the information on the other sites is lost because discrete ones are not observed.
#
# With the discrete sites known, a step of Gibbs draws the others from what they and the data say together.
# The share λ of that information which the data alone do not have is the rate at which such a sampler
# forgets: it makes (1 − λ) / (1 + λ) effective draws per sweep (Dempster, Laird and Rubin 1977; Liu 1994,
# "The fraction of missing information and convergence rate for data augmentation").


DRAWS = 256
MOST_COORDINATES = 64


class MissingFraction:
    """The largest share λ of missing information about any direction of the continuous sites, at `latents`
    (their values by name, best a posterior mean): the largest eigenvalue of the scores' variance over draws
    of the discrete sites, measured by the mean information with these known (Louis 1982).

    Compiled once for models of one structure. None where there is nothing continuous, or more than
    `MOST_COORDINATES` numbers of it.
    """

    def __init__(self, marginal: Marginal):
        self._marginal = marginal
        self._measured = Quick(self._measure)

    def __call__(self, latents: Mapping[str, Any], key: Any, data: Any) -> float | None:
        """λ at `latents`, with the data arrays `data`."""
        density = self._marginal.density
        given = dict(self._marginal.left(latents))
        kept = {n: np.asarray(given.pop(n)) for n in list(given) if not density.sites[n].discrete}
        size = sum(math.prod(_free(density.sites[n]).inverse_shape(x.shape)) for n, x in kept.items())
        if not 0 < size <= MOST_COORDINATES:
            return None
        lost, whole = (np.asarray(x, np.float64) for x in self._measured(key, kept, given, data))
        if not (np.isfinite(whole).all() and np.isfinite(lost).all()):
            return None  # as where a probability was clamped to zero
        values, vectors = np.linalg.eigh((whole + whole.T) / 2)
        if values[0] <= 1e-6 * values[-1]:
            return None  # not at a mode: nothing can be said
        root = vectors / np.sqrt(values)
        return float(np.clip(np.linalg.eigvalsh(root.T @ lost @ root)[-1], 0.0, 1.0))

    def _measure(self, key: Any, kept: Any, fixed: Any, data: Any) -> tuple[Any, Any]:
        """Variance of the scores over draws of the discrete sites; mean information with these known."""
        density = self._marginal.density
        free = {n: _free(density.sites[n]).inv(x).astype(jnp.result_type(float)) for n, x in kept.items()}
        start, unravel = ravel_pytree(free)

        def values_at(u: Any) -> tuple[dict[str, Any], Any]:
            values, total = {}, jnp.zeros(())
            for n, x in unravel(u).items():
                transform = _free(density.sites[n])
                values[n] = transform(x)
                total = total + jnp.sum(transform.log_abs_det_jacobian(x, values[n]))
            return values, total

        def logdensity(u: Any, z: Mapping[str, Any]) -> Any:
            values, total = values_at(u)
            ev = density.evaluator({**fixed, **values, **z}, data)
            return summed(density.terms, ev, total, lazily=True)

        given = {**fixed, **values_at(start)[0]}

        def one(key: Any) -> tuple[Any, Any]:
            drawn = density.packed(self._marginal.draw_at(key, given, data))
            z = {n: v for n, v in drawn.items() if n in density.latent_vars}
            score = jax.grad(logdensity)
            return score(start, z), -jax.jacfwd(score)(start, z)

        scores, information = jax.lax.map(one, jax.random.split(key, DRAWS), batch_size=16)
        return jnp.atleast_2d(jnp.cov(scores.T)), jnp.mean(information, axis=0)


def _free(site: Any) -> Any:
    """The way from unconstrained coordinates to a site's values."""
    return biject_to(site.support)
