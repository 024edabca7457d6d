"""The density of a model: named sites and additive terms, each with its index maps."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload
from typing import Literal as Literal_

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.explain import Explanation, explain
from gibbsite.density.model.arguments import Arguments
from gibbsite.density.model.bounds import all_inside
from gibbsite.density.model.sites import Plate, Site
from gibbsite.density.passes.pipeline import Stages, stages
from gibbsite.density.passes.program import Program
from gibbsite.density.passes.reroll import latent_groups
from gibbsite.density.terms import Term
from gibbsite.errors import DataError, UnknownNameError
from gibbsite.ground.arguments import by_name, shown
from gibbsite.ground.once import once
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, Literal, jaxpr_as_fun, staged
from gibbsite.programs.jaxpr.compiling import ByShape, Surroundings
from gibbsite.programs.jaxpr.walker import behind, made_by
from gibbsite.programs.maps.access import Accesses
from gibbsite.programs.maps.provenance import Provenance
from gibbsite.programs.passes.for_cpu import jitted


@dataclass(frozen=True, eq=False)
class Density:
    """A NumPyro model as data: what its sites are and how its log density factorises.

    `parameter_constraints` tells by site what each parameter of its distribution has to meet, a NumPyro
    constraint. `closed` is the flat jaxpr of everything the model computes, with latents (constrained values)
    and data arrays as inputs; `outputs` names its outputs by kind and site; `terms` are the additive parts of
    the log joint density that depend on any latent; `bounds` are terms of 0 and −inf, for the supports that
    move with a latent; `transforms` names the base and the transforms of transformed distributions. In a
    density whose groups were re-rolled, `members` tells which sites each array site stands for. `constants`
    are the arrays that texts call by a name: those that the model's function knows under one, and those that
    were too long to be written out. `doubted` tells of latents that no data see why they are not drawn
    forward; `decisions` are those of `factor_names` that hold what Python decided by, in one structure.
    `deviances` makes the same density with counts in their other form (see `in_deviances`), where rounding
    asks for it. `traced` is the program as JAX traced it, `surroundings` are the JAX settings that held then;
    `cache` keeps what later stages derive from it.
    """

    sites: Mapping[str, Site]
    plates: Mapping[str, Plate]
    groups: Mapping[str, tuple[str, ...]]
    factor_names: tuple[str, ...]
    enumerated: Mapping[str, Any]
    parameter_event_dims: Mapping[str, Mapping[str, int]]
    closed: ClosedJaxpr
    latent_vars: Mapping[str, Any]
    data_vars: tuple[Any, ...]
    arguments: Arguments
    outputs: Mapping[str, Mapping[str, Any]]
    maps: Provenance
    terms: tuple[Term, ...]
    bounds: tuple[Term, ...] = ()
    transforms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parameter_constraints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict, repr=False)
    doubted: Mapping[str, str] = field(default_factory=dict)
    decisions: frozenset[str] = frozenset()
    deviances: Callable[[], "Density"] | None = field(default=None, repr=False)
    traced: Program | None = field(default=None, repr=False)
    surroundings: Surroundings = field(default_factory=Surroundings.here, repr=False)
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the latent sites, in program order."""
        return tuple(self.latent_vars)

    @property
    def latent_shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes and dtypes of the latents, as `jax.eval_shape` takes them."""
        return {n: jax.ShapeDtypeStruct(s.shape, s.dtype) for n, s in self.sites.items() if s.latent}

    def site(self, name: str) -> Site:
        """The site of that name; raises `UnknownNameError` with the nearest one."""
        if name not in self.sites:
            raise UnknownNameError("site", name, [*self.sites, *self.groups])
        return self.sites[name]

    @cached_property
    def in_deviances(self) -> "Density":
        """The same density for what compares values of discrete sites: counts of data by how far means are
        from them, where the usual form, which conjugacy is read from, is rounded by hundredths of a nat or
        more. Itself elsewhere."""
        if self.deviances is None:
            return self
        with self.surroundings.carried(), jax.ensure_compile_time_eval():
            return self.deviances()

    @cached_property
    def producer(self) -> dict[Any, Any]:
        """Which equation of `closed` computes each variable."""
        return made_by(self.closed.jaxpr)

    @cached_property
    def read(self) -> frozenset[Any]:
        """The variables of `closed` that anything is computed from, or that are put out as they are."""
        jaxpr = self.closed.jaxpr
        atoms = [*(a for eqn in jaxpr.eqns for a in eqn.invars), *jaxpr.outvars]
        return frozenset(a for a in atoms if not isinstance(a, Literal))

    @cached_property
    def data_names(self) -> dict[Any, str]:
        """The name of each data array, by its variable."""
        return dict(zip(self.data_vars, self.arguments.names, strict=True))

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The names of the data arrays that anything is computed from, or that are put out as they are."""
        return frozenset(n for v, n in self.data_names.items() if v in self.read)

    def behind(self, *atoms: Any, ends: Callable[[Any], bool] = lambda atom: False) -> Iterator[Any]:
        """The variables that `atoms` are computed from, as `walker.behind`."""
        return behind(self.producer, atoms, ends)

    def terms_of(self, site: str) -> list[tuple[Term, Accesses]]:
        """The terms that depend on a latent site, with the index maps of their arrays."""
        return [(t, m[site]) for t in self.terms if site in (m := self.maps[t.atom])]

    def terms_reading(self, sites: Collection[str]) -> dict[int, Term]:
        """By number, the terms that depend on any of some latent sites."""
        return {i: t for i, t in enumerate(self.terms) if not self.maps.latents(t.atom).isdisjoint(sites)}

    def bounds_of(self, site: str) -> list[tuple[Term, Accesses]]:
        """The terms for moving supports that depend on a latent site, as `terms_of`."""
        return [(t, m[site]) for t in self.bounds if site in (m := self.maps[t.atom])]

    def evaluator(self, latents: Mapping[str, Any], data: Any = None) -> Evaluator:
        """An evaluator at given latent values; `data` are the data arrays (default: the bound ones)."""
        data = self.arguments.arrays if data is None else data
        values = {self.latent_vars[n]: v for n, v in latents.items()}
        values.update(zip(self.data_vars, map(jnp.asarray, data), strict=True))
        return Evaluator(self.closed, self.producer, values)

    def feed(self, digest: Any) -> None:
        """Have a hash know the program and its constants, not the data's values."""
        digest.update(str(self.closed.jaxpr).encode())
        for const in self.closed.consts:
            keys = jnp.issubdtype(jnp.result_type(const), jax.dtypes.prng_key)
            const = jax.random.key_data(const) if keys else const
            digest.update(np.asarray(jax.device_get(const)).tobytes())

    def on_shapes(self, fn: Callable[[Any, Any], Any]) -> Any:
        """The shapes of `fn(latents, data)`, which is traced and not run."""
        with staged():
            return jax.eval_shape(fn, self.latent_shapes, tuple(self.arguments.arrays))

    def state_values(self, state: Mapping[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
        """The latent values in `state`, as arrays of the sites' shapes and dtypes.

        A group's stacked value serves its members, and members' values their group. Extra entries are
        ignored; a missing one or a wrong shape raises `DataError`. Sites in `without` may be missing.
        """
        flat = dict(by_name("state", state))
        for group, names in self.groups.items():
            if group in flat:
                value = _numbers(flat[group], group)
                flat.update({n: value[i] for i, n in enumerate(names) if n not in flat})
        flat = self.packed(flat)
        out = {}
        for name in self.latent_vars:
            if name not in flat:
                if name in without:
                    continue
                raise DataError(f"the state has no value for the latent site {name!r}")
            site = self.sites[name]
            value = _numbers(flat[name], name)
            if value.shape != site.shape:
                raise DataError(
                    f"the state's value of {name!r} has shape {value.shape}; the site has shape {site.shape}"
                )
            out[name] = value.astype(site.dtype)
        return out

    def packed(self, values: Mapping[str, Any], sample_ndims: int = 0) -> dict[str, Any]:
        """`values` with those of members stacked under the names of their array sites, after as many axes of
        samples."""
        out = dict(values)
        for group, names in self.members.items():
            if group not in out and all(n in out for n in names):
                out[group] = jnp.stack([jnp.asarray(out[n]) for n in names], axis=sample_ndims)
        return out

    def log_joint(self, state: Mapping[str, Any]) -> Any:
        """Log joint density of latents and data at `state`: a scalar. Works under `jit` and `vmap`."""
        return self.log_joint_at(self.state_values(state), self.arguments.arrays)

    def log_joint_at(self, latents: Mapping[str, Any], data: Any) -> Any:
        """As `log_joint`, with complete latent values and explicit data arrays."""
        return self._total()(dict(latents), tuple(data))

    def log_likelihoods(self, states: Mapping[str, Any]) -> Any:
        """Log density of data and of factors at `states` `[state, *shape]`, without that of latents:
        `[state]`."""
        return self._seen()(dict(states), tuple(self.arguments.arrays))

    def computed(self, latents: Mapping[str, Any], data: Any) -> Mapping[str, Mapping[str, Any]]:
        """What `outputs` names, at complete latent values and explicit data arrays."""
        out = jaxpr_as_fun(self.closed)(*[latents[n] for n in sorted(self.latent_vars)], *data)
        return jax.tree.unflatten(jax.tree.structure(self.outputs), out)

    def _summed(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """The log joint density, and that of data and factors alone."""
        found = self.computed(latents, data)
        inside = all_inside(found["inside"])
        sums = {n: jnp.sum(v) for n, v in found["log_prob"].items()}
        seen = sum((v for n, v in sums.items() if n not in latents), start=jnp.zeros(()))
        total = sum((v for n, v in sums.items() if n in latents), start=seen)
        return jnp.where(inside, total, -jnp.inf), seen

    @once
    def _total(self) -> Any:
        return jitted(lambda latents, data: self._summed(latents, data)[0])

    @once
    def _seen(self) -> Any:
        return ByShape(jax.vmap(lambda latents, data: self._summed(latents, data)[1], (0, None)))

    @overload
    def explain(self, site: str | None = None, *, passes: Literal_[False] = False) -> Explanation: ...
    @overload
    def explain(self, site: None = None, *, passes: Literal_[True]) -> Stages: ...
    def explain(self, site: str | None = None, *, passes: bool = False) -> Explanation | Stages:
        """How each term reads a latent site (or all of them), and which operations stand in the way of
        updating its elements together; printable. Raises `UnknownNameError`.

        With `passes`, how the program that JAX traced was rewritten, pass by pass: how many equations there
        were before and after, and at which lines of the model which operations went and came; `.full()` is
        the text of the programs.
        """
        if not passes:
            return explain(self, site)
        if self.traced is None:
            return Stages(())
        return stages(replace(self.traced, groups=latent_groups(self)), jax.default_backend() == "cpu")

    def __repr__(self) -> str:
        lines = [f"Density of {len(self.latents)} latent sites in {len(self.terms)} terms"]
        for name, site in self.sites.items():
            touching = [t for t, _ in self.terms_of(name)] if site.latent else []
            origins = ", ".join(dict.fromkeys(t.origin for t in touching))
            lines.append(f"  {site!r}" + (f"  in the terms of {origins}" if origins else ""))
        return "\n".join(lines)


def _numbers(value: Any, name: str) -> Any:
    """A state's value as an array. Raises `DataError` for what is no numbers."""
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"the state's value of {name!r} must be numbers, not {shown(value)}") from None
