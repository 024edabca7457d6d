"""The density of what is left of a model when some of its sites are eliminated, and the way back to them."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.group import updated_together
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density, rerolled
from gibbsite.density.model.factorials import as_double
from gibbsite.density.terms import summed
from gibbsite.elimination.integrals.conjugate import Latents, Moments
from gibbsite.errors import ModelError
from gibbsite.ground.arguments import flag
from gibbsite.programs.jaxpr.compat import is_traced, jit


class Marginal(Update):
    """The density of everything but `sites`, which are summed or integrated out; and their joint conditional.

    A `state` is a dict of constrained values that holds every other latent; extra entries are ignored. All
    methods are pure, and work under `jit` and `vmap`. `str()` tells the steps. Whether tables are summed or
    Gaussians integrated, kernels ask for `logdensity_at` and `draw_at` alone.
    """

    gone = "summed out"
    """What becomes of the sites, in words."""

    in_double: Callable[[], AbstractContextManager["Marginal"]] | None = None
    """The same of the model in double precision, where single precision does not hold what counts of a
    million add to the log density; None where it does."""

    near: tuple[str, ...] = ()
    """Sites whose own values, where kernels know them, are of use: not for what they are, but for digits."""

    def __init__(self, density: Density, sites: Sequence[str]):
        self.sites = tuple(sites)
        self._written = density
        self._units, self.density = units_of(density, self.sites)
        self._programs: dict[str, Any] = {}

    @property
    def others(self) -> tuple[str, ...]:
        """The latents that are left, as the model names them."""
        gone = {n for u, m in self._units.items() for n in (u, *m, *self.density.members.get(u, ()))}
        return tuple(n for n in self._written.latents if n not in gone)

    def logdensity(self, state: Mapping[str, Any], constants: bool = False) -> Any:
        """Log density of all other latents, a scalar; derivatives exist forwards and backwards, to any order.

        It is up to a constant, unless `constants` are wanted: then it is the log of their joint density with
        the data, all normalising constants included; outside of `jit` and the like in double precision where
        single precision does not hold these, as those of counts of a million.
        """
        if flag("constants", constants):
            return self._asked("complete", state)
        return self._jitted("logdensity", self._smooth)(self._latents(state), self._data)

    def complete(self, state: Mapping[str, Any]) -> Any:
        """As `logdensity` with `constants`, in the precision of all else."""
        return self._jitted("complete", self._with_constants)(self._latents(state), self._data)

    def _asked(self, name: str, state: Mapping[str, Any]) -> Any:
        """What a method gives, outside of transformations in double precision where that is needed."""
        ways = {"complete": self._with_constants, "moments": self.moments_at, "probs": self.probs_at}
        if self.in_double is None or any(map(is_traced, jax.tree.leaves(dict(state)))):
            return self._jitted(name, ways[name])(self._latents(state), self._data)
        with self.in_double() as twin:
            found = twin._asked(name, {n: as_double(v) for n, v in state.items()})
            found = jax.tree.map(np.asarray, found)
        return jax.tree.map(jnp.asarray, found)

    def moments(self, state: Mapping[str, Any]) -> dict[str, Moments]:
        """Mean and variance of every element of the sites given the rest, `(mean, variance)` by name, each of
        `site.shape`; infinite where they are."""
        return self._asked("moments", state)

    def probs(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`P(site = value)` given the rest, element by element: `site.shape + (K,)` by name, of the discrete
        sites. Raises `ModelError` where there are none."""
        return self._asked("probs", state)

    def best(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The values of discrete sites with the largest joint density given the rest, by name. Raises
        `ModelError` for continuous ones."""
        return self._by_name(self._jitted("best", self.settled_at)(self._latents(state), self._data))

    @property
    @abstractmethod
    def order(self) -> tuple[str, ...]:
        """The sites in the order in which they are eliminated."""

    @property
    @abstractmethod
    def read(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
        """The steps, as people go through them: the sites, what is near them, and the step in words."""

    @property
    def reason(self) -> str:
        """How the sites are drawn together, in words."""
        return f"{' and '.join(self._units)} drawn jointly: {self}"

    def __repr__(self) -> str:
        return f"<Marginal without {', '.join(self.sites)}: {self.cost}>"

    def names_of(self, units: Iterable[str]) -> tuple[str, ...]:
        """Sites of the plan, and those that they stand for, as the model names them."""
        return tuple(dict.fromkeys(n for u in units for n in (u, *self._units[u])))

    def left(self, latents: Latents, without: Collection[str] | None = None) -> dict[str, Any]:
        """Of values by name, those of the sites that are left, as `density` names them: all but those that
        are eliminated, or those `without`."""
        gone = self._units if without is None else without
        packed = self.density.packed(latents)
        return {n: v for n, v in packed.items() if n in self.density.latent_vars and n not in gone}

    # the same with complete latents and explicit data, for kernels

    @abstractmethod
    def logdensity_at(
        self, latents: Latents, data: Any, apart: Latents | None = None, held: bool = True
    ) -> Any:
        """As `logdensity`, at values of the other latents by name and explicit data arrays. `apart`: how far
        sites are from their locations, where that is better known than from values. Where `held`, it is to be
        pulled back once, which costs least."""

    @abstractmethod
    def settled_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        """Likely values of the sites given the rest, by the names that `density` has for them."""

    @abstractmethod
    def draw_at(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """As `sample`."""

    def drawn(self, key: Any, latents: Latents, data: Any) -> Drawn:
        return Drawn(self.draw_at(key, latents, data))

    @abstractmethod
    def moments_at(self, latents: Latents, data: Any) -> dict[str, Moments]:
        """As `moments`."""

    def probs_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        """As `probs`."""
        raise ModelError(
            f"{' and '.join(self.sites)}: probabilities are those of discrete sites; `moments` has means and "
            f"variances"
        )

    def _smooth(self, latents: Latents, data: Any) -> Any:
        return self.logdensity_at(latents, data, held=False)

    def _with_constants(self, latents: Latents, data: Any) -> Any:
        """What no term has is the same wherever it is looked at, so one place will do."""
        place = jax.lax.stop_gradient({**latents, **self.settled_at(latents, data)})
        whole = self.density.log_joint_at(place, data)
        return self._smooth(latents, data) + jax.lax.stop_gradient(
            whole - summed_terms(self.density, place, data)
        )

    # names and shapes

    def _unpacked(self, unit: str, value: Any) -> dict[str, Any]:
        members = self._units[unit]
        return {m: value if unit in members else value[i] for i, m in enumerate(members)}

    def _by_name(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by unit as values by the names that the model has."""
        return {m: x for u, v in values.items() for m, x in self._unpacked(u, v).items()}

    def _named(self, unit: str, moments: Moments) -> dict[str, Moments]:
        mean, variance = (self._unpacked(unit, x) for x in moments)
        return {n: Moments(mean[n], variance[n]) for n in mean}

    def _unit(self, site: str) -> str:
        return next(u for u, members in self._units.items() if site == u or site in members)

    def _latents(self, state: Mapping[str, Any]) -> dict[str, Any]:
        values = self.density.state_values(state, without=tuple(self._units))
        return {n: v for n, v in values.items() if n not in self._units}

    def _jitted(self, name: str, fn: Callable[..., Any]) -> Any:
        if name not in self._programs:
            self._programs[name] = jit(fn)
        return self._programs[name]


def summed_terms(
    density: Density,
    latents: Latents,
    data: Any,
    given: Mapping[Any, Any] | None = None,
    without: Collection[str] = (),
) -> Any:
    """The sum of a density's terms, those of moving supports among them, at complete latent values: a scalar.

    `given` are values of variables that are known better than by computing them, `without` the statements
    whose own density is left out.
    """
    ev = density.evaluator(latents, data)
    ev.give(given or {})
    return summed((*(t for t in density.terms if t.origin not in without), *density.bounds), ev)


def units_of(density: Density, sites: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], Density]:
    """Each site as the density that is worked on knows it, with the names it stands for; and that density.

    Groups of alike sites are array sites where they are eliminated as a whole.
    """
    grouped = rerolled(density)
    flat = [m for s in sites for m in ((s,) if s in density.sites else density.groups.get(s, (s,)))]
    for site in flat:
        density.site(site)
    if len(set(flat)) < len(flat):
        again = next(s for s in flat if flat.count(s) > 1)
        raise ModelError(f"{again!r} is named twice among the sites to sum out; name it once")
    units = updated_together(density, flat)
    groups = {m: g for g, members in grouped.members.items() for m in members}
    if grouped is density or any(u in groups and u not in grouped.sites for u in units):
        return {s: (s,) for s in flat}, density
    # a group asked for by its name is answered by its name
    return {u: (u,) if u in sites else members for u, members in units.items()}, grouped


def as_units(order: Sequence[str], units: Mapping[str, tuple[str, ...]]) -> list[str]:
    """An order of sites as one of units; `ModelError` where it names one twice."""
    again = next((s for s in order if list(order).count(s) > 1), None)
    if again is not None:
        raise ModelError(f"the order names {again!r} twice")
    owner = {m: u for u, members in units.items() for m in members}
    return list(dict.fromkeys(owner.get(s, s) for s in order))
