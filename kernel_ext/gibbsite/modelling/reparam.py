"""The same model in other coordinates: non-centred, partly centred, or in terms of a base distribution.

A reparameterised site becomes a deterministic one of the same name and shape, so that draws keep the user's
names; what is sampled in its place carries a suffix. The joint density of the new latents is that of the old
ones times the Jacobian, so every kernel stays right. NumPyro's reparameterisers do the rewriting.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import TransformedDistribution
from numpyro.infer.reparam import LocScaleReparam, Reparam, TransformReparam
from numpyro.primitives import Messenger

from gibbsite.density import Density, Site
from gibbsite.density.hierarchy.location_scale import (
    bounded_around_latents,
    location_scales,
    on_the_real_line,
)
from gibbsite.density.hierarchy.non_centred import non_centred_by_hand
from gibbsite.errors import DataError, ModelError, nearest
from gibbsite.ground.arguments import shown
from gibbsite.kernels.learnt.coordinates import declared

AUTO, NON_CENTRED, CENTRED, BASE = "auto", "non-centred", "centred", "base"
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
    affine = {"loc", "scale"} <= _parameters(density, site) and on_the_real_line(site.support)
    return (NON_CENTRED,) if affine else ()


def _parameters(density: Density, site: Site) -> set[str]:
    return set(density.parameter_event_dims.get(site.name, {}))


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
    config = {}
    for name, choice in choices.items():
        for member in density.groups.get(name, (name,)):
            config[member] = _Renamed(_reparam(density, member, choice))
    return functools.wraps(fn)(handlers.reparam(fn, config=config))


def checked_auto(density: Density, choices: Mapping[str, Any] | str) -> dict[str, Any]:
    """`choices` without the sites whose degree is to be learnt, which are checked.

    Such sites stay as they are: NUTS learns degrees while it warms up. "auto" alone stands for every site
    with degrees to learn. Raises `UnknownNameError`, and `ModelError` where there is nothing to learn.
    """
    continuous = [n for n in density.latents if not density.sites[n].discrete]
    fitting = declared(density, continuous, None)
    if choices == AUTO:
        if not fitting:
            raise ModelError("reparam('auto'): no site has a location or a scale that reads another latent")
        return {}
    if isinstance(choices, str) or not choices:
        raise DataError("reparam: which site, and how? For example reparam(theta='non-centred')")
    for name, choice in choices.items():
        for member in density.groups.get(name, (name,)) if isinstance(choice, str) and choice == AUTO else ():
            if member not in fitting:
                raise ModelError(f"reparam: {_why_not(density, member)}")
    return {n: c for n, c in choices.items() if not (isinstance(c, str) and c == AUTO)}


def _why_not(density: Density, name: str) -> str:
    """Why no degree of centring can be learnt for a site."""
    site, found = density.site(name), location_scales(density).get(name)
    if not site.latent or site.discrete:
        return f"{name!r} is {site.role if not site.latent else 'discrete'}: it has no degree of centring"
    if (by_hand := non_centred_by_hand(density).get(name)) is not None:
        return f"{name!r} is non-centred by hand, but {by_hand.obstacle}: it stays as it is"
    if found is None and bounded_around_latents(density, name):
        return f"{name!r} lies within bounds, which a change of its location and scale would not keep"
    if found is None:
        return f"{name!r} has no location or scale that reads a latent: any degree would change nothing"
    return (
        f"{name!r} is drawn all at once ({found.form}), not element by element, so its degree is not learnt"
    )


def _by_element(density: Density, site: Site, choice: Any, fitting: tuple[str, ...]) -> Reparam:
    """Degrees of centring for each element of a site."""
    try:
        degrees = np.asarray(choice, float)
    except (TypeError, ValueError):
        raise DataError(
            f"reparam: the degrees of {site.name!r} must be numbers, not {shown(choice)}"
        ) from None
    if degrees.shape != site.shape:
        raise DataError(f"reparam: {site.name!r} has shape {site.shape}; the degrees have {degrees.shape}")
    if not (np.isfinite(degrees) & (degrees >= 0) & (degrees <= 1)).all():
        raise DataError(f"reparam: degrees of centring lie between 0 and 1; those of {site.name!r} do not")
    if NON_CENTRED not in fitting:
        raise ModelError(
            f"reparam: {site.name!r} ~ {site.fn_name} has no location and scale on the real line"
        )
    shape = tuple(sorted(_parameters(density, site) - {"loc", "scale"}))
    return LocScaleReparam(jnp.asarray(degrees), shape_params=shape)


def _meant(choice: Any) -> str:
    return nearest(choice, (NON_CENTRED, CENTRED, BASE, AUTO)) if isinstance(choice, str) else ""


def _reparam(density: Density, name: str, choice: Any) -> Reparam:
    site = density.site(name)
    if not site.latent:
        raise ModelError(f"reparam: {name!r} is {site.role}; only latent sites have parameterisations")
    if site.in_scan:
        raise ModelError(f"reparam: {name!r} is drawn inside `scan`, where it cannot be replaced")
    if isinstance(choice, Reparam):
        return choice
    fitting = fitting_reparams(density, name)
    if isinstance(choice, np.ndarray | jax.Array | list | tuple):
        return _by_element(density, site, choice, fitting)
    ways = " or ".join(map(repr, fitting)) or "none by name; a `numpyro.infer.reparam.Reparam` may fit"
    if choice == BASE:
        if choice not in fitting:
            raise ModelError(f"reparam: {name!r} ~ {site.fn_name} is not a transformed one; it has {ways}")
        return TransformReparam()
    centred = {NON_CENTRED: 0.0, "non-centered": 0.0, CENTRED: 1.0, "centered": 1.0}.get(str(choice), choice)
    if isinstance(centred, bool) or not isinstance(centred, int | float) or not 0 <= centred <= 1:
        raise DataError(
            f"reparam: {name!r} can be 'non-centred', 'centred', a number between 0 (non-centred) and 1, or "
            f"'base', 'auto', or an array of numbers per element; got {shown(choice)}{_meant(choice)}"
        )
    if NON_CENTRED not in fitting:
        raise ModelError(
            f"reparam: {name!r} ~ {site.fn_name} has no location and scale on the real line; it has {ways}"
        )
    shape = tuple(sorted(_parameters(density, site) - {"loc", "scale"}))
    return LocScaleReparam(float(centred), shape_params=shape) if centred else _NonCentred(shape)
