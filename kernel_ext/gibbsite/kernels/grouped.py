"""A model as compiled runs see it: every group of alike sites is one array site, every bound is known.

A loop of the model would be traced and compiled again by every kernel, at a cost that grows with the number
of sites; and a support whose bounds the model computes from its data is taken by NumPyro's composite for one
that moves. Kernels that need no more of the model than its logdensity and the supports of its sites
(`GROUPED_KERNELS`) run on the analysed density instead.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.transforms import biject_to

from gibbsite.conditional import Conditional, conditional_of
from gibbsite.conditional.reads.support import finite_support, support_movers
from gibbsite.density import Density, Site, rerolled
from gibbsite.density.hierarchy.residuals import at_distances
from gibbsite.density.model.bounds import computed_bounds
from gibbsite.ground.once import once
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.learnt.moving import followed
from gibbsite.kernels.learnt.residuals import known_distances
from gibbsite.programs.jaxpr.compat import is_traced, jaxpr_as_fun
from gibbsite.programs.passes.replaced import given

GROUPED_KERNELS = frozenset({"Gibbs", "Conjugate", "PolyaGamma", "Collapsed", "NUTS", "HMC"})
"""Kernels that ask a model for nothing but its logdensity and the supports of its sites."""

_MANY = 8
_START = 2.0  # Stan's and NumPyro's starting interval of unconstrained coordinates


class _Known(constraints.Constraint):
    """A support whose bounds are compiled in.

    NumPyro's composite takes any bound that is not a Python number for one that moves with other sites.
    """

    def __init__(self, support: Any):
        self.support = support

    @property
    def event_dim(self) -> int:
        return self.support.event_dim

    def __call__(self, x: Any) -> Any:
        return self.support(x)

    def feasible_like(self, prototype: Any) -> Any:
        return self.support.feasible_like(prototype)

    def tree_flatten(self) -> Any:
        return (self.support,), (("support",), {})


@biject_to.register(_Known)
def _known(constraint: _Known) -> Any:
    return biject_to(constraint.support)


class Flat(Distribution):
    """A site of known support whose density stands in factors of its own."""

    def __init__(self, site: Site, first: Any):
        self._support = site.support if site.discrete else _Known(site.support)
        self._first, self._dtype = first, site.dtype
        rank = len(site.shape) - len(site.event_shape)
        super().__init__(site.shape[:rank], site.shape[rank:], validate_args=False)

    @property
    def support(self) -> Any:
        return self._support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        shape = (*sample_shape, *self.batch_shape, *self.event_shape)
        if self._first is not None:
            return jnp.broadcast_to(self._first, shape)
        if self.support.is_discrete:  # integers without end
            return self.support.feasible_like(jnp.zeros(shape, self._dtype))
        transform = biject_to(self._support)
        return transform(
            jax.random.uniform(key, transform.inverse_shape(shape), minval=-_START, maxval=_START)
        )

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        return jnp.zeros(jnp.shape(value)[: jnp.ndim(value) - self.event_dim])


@dataclass(frozen=True, eq=False)
class GroupedModel:
    """What schedules and plans ask of a model, over its re-rolled density.

    `recorded` are the sites whose draws are kept: groups under their own names, but the members of sites
    that are only numbered (`z_0`, `z_1`, …) each under its own. The `hidden` are drawn forward: they are
    recorded, in `groups` where they are indexed, but no sites of the density. Of the sites that it `follows`
    the supports move with one another, and gradients can follow.
    """

    name: str
    density: Density
    recorded: Mapping[str, Site]
    inputs: Mapping[str, Any]
    observed: Mapping[str, Any]
    observed_sites: Mapping[str, Site]
    fingerprint: str
    unpacked: Mapping[str, tuple[str, ...]]
    written_model: Callable[..., Any]
    generated: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stacked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    follows: frozenset[str] = frozenset()

    @property
    def sites(self) -> Mapping[str, Site]:
        """Array sites by name."""
        return self.density.sites

    def conditional(self, site: str) -> Conditional:
        """As `Model.conditional`."""
        return conditional_of(self.density, site)

    @property
    def runtime_model(self) -> Callable[..., None]:
        """A NumPyro model with the array sites as latents and the re-rolled log densities as factors."""
        return _runtime_model(self.density, tuple(self.unpacked.items()), self.name)


def grouped_model(model: Any) -> GroupedModel | None:
    """The form of a model that compiled runs prefer; None where the model as written does as well.

    That is where groups can be made, and where bounds of supports are computed from the data.
    """
    latents = [s for s in model.density.sites.values() if s.latent and not s.discrete]
    bounds = {s.name: _bounds(s.support) for s in latents}
    moving = any(support_movers(model.density, s.name) for s in latents)
    if None in bounds.values() or (moving and not _followed(model.density)):
        return None
    density = model.density if moving else rerolled(model.density)
    unpacked = {g: m for g, m in density.members.items() if g not in model.density.groups}
    # a few numbered sites are better shown and updated under their own names
    few = any(len(members) < _MANY for members in unpacked.values())
    if few or any(len({bounds.get(n) for n in members}) > 1 for members in density.members.values()):
        density, unpacked = model.density, {}
    if density is model.density and not moving and all(computed_bounds(s.support) is None for s in latents):
        return None
    recorded = {n: s for n, s in density.sites.items() if s.role != "observed" and n not in unpacked}
    recorded.update({n: model.density.sites[n] for m in unpacked.values() for n in m})
    recorded.update({n: s for n, s in model.recorded.items() if n in model.hidden})
    # bounds are compiled in, whereas the model as written may read them from its data
    digest = hashlib.sha256(repr(sorted(bounds.items())).encode()).hexdigest()[:8]
    return GroupedModel(
        name=model.name,
        density=density,
        recorded=recorded,
        inputs=model.inputs,
        observed=model.observed,
        observed_sites=model.observed_sites,
        fingerprint=f"{model.fingerprint}-{digest}",
        unpacked=unpacked,
        written_model=model.written_model,
        generated=model.generated,
        hidden=model.hidden,
        stacked=model.density.groups,
        constants=model.constants,
        follows=_followed(density) if moving else frozenset(),
        groups={g: m for g, m in model.groups.items() if m[0] in model.hidden},
    )


def _followed(density: Density) -> frozenset[str]:
    """The sites by which all supports that move hang together, where gradients can follow them and none could
    be drawn exactly; else none."""
    found = followed(density)
    moved = [n for n in density.latents if support_movers(density, n)]
    if not found.issuperset(moved) or any(conditional_of(density, n).kind != "none" for n in found):
        return frozenset()
    return found


def _bounds(support: Any) -> tuple[Any, ...] | None:
    """A constraint as a value to compare by; None where a bound is not known before the run."""
    out: list[Any] = [type(support).__name__]
    for name, value in sorted(vars(support).items()):
        if isinstance(value, constraints.Constraint):
            inner = _bounds(value)
            if inner is None:
                return None
            out += [name, inner]
        elif is_traced(value):
            return None
        else:
            array = np.asarray(value)
            out += [name, array.shape, array.tobytes() if array.dtype != object else repr(value)]
    return tuple(out)


@once
def _runtime_model(
    density: Density, unpacked: Sequence[tuple[str, Sequence[str]]], name: str
) -> Callable[..., None]:
    ordered = sorted(density.latent_vars)
    tree = jax.tree.structure(density.outputs)

    @functools.cache
    def beside(known: tuple[Any, ...]) -> Callable[..., Any]:
        return jaxpr_as_fun(given(density.closed, known) if known else density.closed)

    sites = density.sites
    supports = {n: finite_support(density, n) for n in density.latent_vars if sites[n].discrete}
    first = {n: s.values[0] for n, s in supports.items() if s is not None}

    def model(**kwargs: Any) -> None:
        latents: dict[str, Any] = {
            n: numpyro.sample(n, Flat(sites[n], first.get(n))) for n in density.latent_vars
        }
        given = *(latents[n] for n in ordered), *kwargs[INPUTS_KWARG]["data"]
        known = at_distances(density, known_distances())
        out = beside(tuple(known))(*given, *known.values())
        parts = jax.tree.unflatten(tree, out)
        for origin, value in parts["log_prob"].items():
            numpyro.factor(f"log p({origin})", value)
        for n, value in parts.get("inside", {}).items():
            if sites[n].interval is not None:  # elsewhere supports are as the sites say
                numpyro.factor(f"inside({n})", value)
        for n, value in parts["deterministic"].items():
            numpyro.deterministic(n, value)
        for group, members in unpacked:
            for i, member in enumerate(members):
                numpyro.deterministic(member, latents[group][i])

    model.__name__ = name
    return model
