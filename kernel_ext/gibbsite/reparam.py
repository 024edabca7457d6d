"""The same model in other coordinates: non-centred, partly centred, or in terms of a base distribution.

A reparameterised site becomes a deterministic one of the same name and shape, so that draws keep the user's
names; what is sampled in its place carries a suffix. The joint density of the new latents is that of the old
ones times the Jacobian, so every kernel stays right. NumPyro's reparameterisers do the rewriting.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import TransformedDistribution, constraints
from numpyro.infer.reparam import LocScaleReparam, Reparam, TransformReparam
from numpyro.primitives import Messenger

from gibbsite.density import Density, Site
from gibbsite.errors import DataError, ModelError

NON_CENTRED, CENTRED, BASE = "non-centred", "centred", "base"
_INDEXED = re.compile(r"(.*?)((?:\[\d+\])+)$")


class _Indexed(Messenger):
    """Names what stands for `s[3]` `s_decentered[3]`, so that groups of indexed sites stay groups."""

    def __init__(self, name: str):
        self.name = name
        super().__init__(None)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Move the index behind the suffix that the reparameteriser gave."""
        found = _INDEXED.match(self.name)
        if found and (given := str(msg.get("name"))).startswith(self.name) and given != self.name:
            msg["name"] = f"{found[1]}{given[len(self.name) :]}{found[2]}"


class _NonCentred(Reparam):
    """What `LocScaleReparam(0)` does, without its powers of one and products with zero in the program."""

    def __init__(self, shape_params: tuple[str, ...]):
        self.shape_params = shape_params

    def __call__(self, name: str, fn: Any, obs: Any) -> Any:
        fn, expand_shape, event_dim = self._unwrap(fn)
        shape = {key: getattr(fn, key) for key in self.shape_params}
        standard = type(fn)(loc=jnp.zeros_like(fn.loc), scale=jnp.ones_like(fn.scale), **shape)
        drawn = numpyro.sample(f"{name}_decentered", self._wrap(standard, expand_shape, event_dim))
        return None, fn.loc + fn.scale * drawn


class _Renamed(Reparam):
    def __init__(self, inner: Reparam):
        self.inner = inner

    def __call__(self, name: str, fn: Any, obs: Any) -> Any:
        with _Indexed(name):
            return self.inner(name, fn, obs)


def fitting_reparams(density: Density, name: str) -> tuple[str, ...]:
    """The parameterisations of a site that can be asked for by name, besides the one it has.

    "non-centred" for a latent with a location and a scale on the real line (Normal, StudentT, Cauchy, …),
    "base" for a transformed distribution (LogNormal, …). None inside `scan`, where statements cannot be
    replaced.
    """
    site = density.sites.get(name)
    if site is None:
        members = density.groups.get(name, ())
        choices = [fitting_reparams(density, m) for m in members]
        return tuple(c for c in (choices[0] if choices else ()) if all(c in other for other in choices))
    if not site.latent or site.in_scan:
        return ()
    if _transformed(density, site):
        return (BASE,)
    return (NON_CENTRED,) if {"loc", "scale"} <= _parameters(density, site) and _real(site) else ()


def _parameters(density: Density, site: Site) -> set[str]:
    return set(density.parameter_event_dims.get(site.name, {}))


def _real(site: Site) -> bool:
    support = site.support
    while isinstance(support, type(constraints.independent(constraints.real, 1))):
        support = support.base_constraint
    return support is constraints.real


def _transformed(density: Density, site: Site) -> bool:
    family = getattr(dist, site.fn_name, None)
    named = isinstance(family, type) and issubclass(family, TransformedDistribution)
    return bool(density.transforms.get(site.name)) or named


def reparameterised(fn: Callable, density: Density, choices: Mapping[str, Any]) -> Callable:
    """`fn` with sites in other parameterisations.

    A choice is "non-centred", "centred", a degree of centredness between 0 (non-centred) and 1, "base", or a
    `numpyro.infer.reparam.Reparam`. Raises `UnknownNameError` for a name, `DataError` for a choice that does
    not exist, `ModelError` for a site that it does not fit. Non-centring: Papaspiliopoulos, Roberts and
    Sköld 2007; degrees of it: Gorinova, Moore and Hoffman 2019.
    """
    if not choices:
        raise DataError("reparam: which site, and how? For example reparam(theta='non-centred')")
    config = {}
    for name, choice in choices.items():
        for member in density.groups.get(name, (name,)):
            config[member] = _Renamed(_reparam(density, member, choice))
    return functools.wraps(fn)(handlers.reparam(fn, config=config))


def _reparam(density: Density, name: str, choice: Any) -> Reparam:
    site = density.site(name)
    if not site.latent:
        raise ModelError(f"reparam: {name!r} is {site.role}; only latent sites have parameterisations")
    if site.in_scan:
        raise ModelError(f"reparam: {name!r} is drawn inside `scan`, where it cannot be replaced")
    if isinstance(choice, Reparam):
        return choice
    fitting = fitting_reparams(density, name)
    ways = " or ".join(map(repr, fitting)) or "none by name; a `numpyro.infer.reparam.Reparam` may fit"
    if choice == BASE:
        if choice not in fitting:
            raise ModelError(f"reparam: {name!r} ~ {site.fn_name} is not a transformed one; it has {ways}")
        return TransformReparam()
    centred = {NON_CENTRED: 0.0, "non-centered": 0.0, CENTRED: 1.0, "centered": 1.0}.get(str(choice), choice)
    if isinstance(centred, bool) or not isinstance(centred, int | float) or not 0 <= centred <= 1:
        raise DataError(
            f"reparam: {name!r} can be 'non-centred', 'centred', a number between 0 (non-centred) and 1, or "
            f"'base'; got {choice!r}"
        )
    if NON_CENTRED not in fitting:
        raise ModelError(
            f"reparam: {name!r} ~ {site.fn_name} has no location and scale on the real line; it has {ways}"
        )
    shape = tuple(sorted(_parameters(density, site) - {"loc", "scale"}))
    return LocScaleReparam(float(centred), shape_params=shape) if centred else _NonCentred(shape)
