"""Sites with a location and a scale that other latents enter: the hierarchies of a model.

What matters here is a change of coordinates, which may be any bijection; so a distribution that is not known
below is left out, and nothing else can go wrong.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal

_MOST = 100
"""Elements of a vector whose factor is solved with at every gradient."""
_LONG = 16
"""Elements of each of many vectors, which are gone through in turn."""


class Whitening(NamedTuple):
    """`stretched` maps standard normal numbers to how far the site is from `loc`, `whitened` is its inverse,
    and `log_size` the logarithm of the determinant of the former; arrays of the site's shape."""

    loc: Any
    stretched: Callable[[Any], Any]
    whitened: Callable[[Any], Any]
    log_size: Any

    def forth(self, z: Any) -> Any:
        """Standard normal numbers → the site's value."""
        return self.loc + self.stretched(z)

    def back(self, x: Any) -> Any:
        """The inverse of `forth`."""
        return self.whitened(x - self.loc)


def of_normal(site: Any, parameters: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], Whitening] | None:
    """For one vector with a triangular factor of its covariance, of 100 elements at most."""
    if "scale_tril" not in parameters or len(site.shape) != 1 or not 0 < site.shape[0] <= _MOST:
        return None

    def whitening(of: Callable[[Any], Any]) -> Whitening:
        loc, factor = jnp.asarray(of(parameters["loc"])), jnp.asarray(of(parameters["scale_tril"]))
        return Whitening(
            loc,
            lambda z: factor @ z,
            lambda x: solve_triangular(factor, x, lower=True),
            jnp.sum(jnp.log(jnp.diagonal(factor))),
        )

    return whitening


class Rows(NamedTuple):
    """Many vectors with a location `[…, d]` and a triangular factor of their covariance, `[…, d, d]`: given
    those before it in its vector, an element has a location and a scale of its own."""

    loc: Any
    factor: Any

    def element(self, k: int, noise: list[Any]) -> tuple[Any, Any, Any]:
        """Of the k-th elements: how far their locations are from `loc`, given the standard numbers of those
        before, their locations, and their scales."""
        shift = sum((self.factor[..., k, j] * e for j, e in enumerate(noise)), jnp.zeros(()))
        return shift, self.loc[..., k] + shift, self.factor[..., k, k]

    def around(self, x: Any) -> tuple[Any, Any]:
        """The locations and scales of all elements of `x`, given those before them."""
        noise: list[Any] = []
        found = []
        for k in range(x.shape[-1]):
            _, loc, scale = self.element(k, noise)
            noise.append((x[..., k] - loc) / scale)
            found.append((jnp.broadcast_to(loc, x.shape[:-1]), jnp.broadcast_to(scale, x.shape[:-1])))
        loc, scale = (jnp.stack(a, -1) for a in zip(*found, strict=True))
        return loc, scale


def of_normals(site: Any, parameters: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], Rows] | None:
    """For many vectors with triangular factors, as those of groups are: of 16 elements each at most."""
    if "scale_tril" not in parameters or site.in_scan or len(site.shape) < 2 or site.shape[-1] > _LONG:
        return None

    def rows(of: Callable[[Any], Any]) -> Rows:
        loc = jnp.broadcast_to(of(parameters["loc"]), site.shape)
        return Rows(loc, jnp.asarray(of(parameters["scale_tril"])))

    return rows


def of_walk(site: Any, parameters: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], Whitening] | None:
    """For a random walk whose last axis is time."""
    if site.in_scan:
        return None

    def whitening(of: Callable[[Any], Any]) -> Whitening:
        scale = jnp.broadcast_to(jnp.asarray(of(parameters["scale"]))[..., None], site.shape)
        return Whitening(
            jnp.zeros_like(scale),
            lambda z: jnp.cumsum(scale * z, -1),
            lambda x: jnp.diff(x, axis=-1, prepend=0.0) / scale,
            jnp.sum(jnp.log(scale)),
        )

    return whitening


ELEMENTS, LOGS, FACTOR, WALK, RECURSION = "elements", "logs", "factor", "walk", "recursion"
TILTED = "tilted"
_BOTH = ("loc", "scale")
_UNCONSTRAINING = (("Exp",), ("Sigmoid",))
"""Transforms whose inverse is that to a site's unconstrained values."""
_MULTIVARIATE = ("MultivariateNormal", "LowRankMultivariateNormal", "MultivariateStudentT")


@dataclass(frozen=True)
class LocationScale:
    """A latent site with a location and a scale, of which at least one reads latents.

    `location` and `scale` name those latents, in program order. `form` tells what they are a location and a
    scale of: each element by itself ("elements"), its logarithm or logit ("logs"), a vector with a factor of
    its covariance for a scale ("factor"), the steps of a random walk ("walk"), or elements that read earlier
    ones of the same site, as those of a `scan` do ("recursion"); "tilted" are numbers that are told of as
    shares of a squared scale, which is not their own (`tilted.py`). `read` computes from the values of the
    jaxpr's variables what each element is centred by, arrays of the site's shape: both, where `elementwise`;
    of recursions 0 and the scale of the steps, since a path of few data is as wide as its steps are; of maps
    of areas the scale of all. `whiten` computes from them a linear map that makes a random walk, or a vector
    with a factor, independent standard numbers a priori.
    """

    site: str
    location: tuple[str, ...]
    scale: tuple[str, ...]
    form: str
    read: Callable[[Callable[[Any], Any]], tuple[Any, Any]] | None = None
    whiten: Callable[[Callable[[Any], Any]], Whitening] | None = None
    rows: Callable[[Callable[[Any], Any]], Rows] | None = None

    @property
    def known(self) -> bool:
        """Whether it is known what its elements are centred by."""
        return any(f is not None for f in (self.read, self.whiten, self.rows))

    @property
    def reads(self) -> tuple[str, ...]:
        """Every other latent that location or scale read."""
        return tuple(n for n in dict.fromkeys((*self.location, *self.scale)) if n != self.site)

    @property
    def around_its_location(self) -> bool:
        """Whether the density of the site, or of its logarithms, is one of distances from what `read` says
        is the location."""
        return (self.read or self.rows) is not None and self.form not in (RECURSION, TILTED)

    @property
    def elementwise(self) -> bool:
        """Whether every element has a location and a scale of its own, given what both read."""
        return self.read is not None and self.form in (ELEMENTS, LOGS)

    def __str__(self) -> str:
        if self.form == TILTED:
            return (
                f"{self.site}: as it is, or over the square of the scale that reads {', '.join(self.scale)}"
            )
        parts = (("location", self.location), ("scale", self.scale))
        told = [f"{word} reads {', '.join(names)}" for word, names in parts if names]
        return f"{self.site}: {', '.join(told)}"


@once
def location_scales(density: Density) -> Mapping[str, LocationScale]:
    """The sites of a model whose location or scale read latents, by name, in program order."""
    found = {n: _found(density, n) for n in density.latents if not density.sites[n].discrete}
    return {n: f for n, f in found.items() if f is not None and f.reads}


def bounded_around_latents(density: Density, name: str) -> bool:
    """Whether a site has a location or scale that reads latents, but bounds that stay where they are."""
    parameters = density.outputs["parameters"].get(name, {})
    reads = any(density.maps.latents(a) for p, a in parameters.items() if p.split("/")[-1] in _BOTH)
    return reads and not on_the_real_line(density.sites[name].support)


def in_program_order(density: Density, names: frozenset[str]) -> tuple[str, ...]:
    """Latent sites in the order in which the model draws them."""
    return tuple(n for n in density.latents if n in names)


def on_the_real_line(support: Any) -> bool:
    """Whether a support is that of any real number, element by element."""
    return base_constraint(support) in (constraints.real, constraints.real_vector)


def _found(density: Density, name: str) -> LocationScale | None:
    site = density.sites[name]
    parameters = density.outputs["parameters"].get(name, {})
    family = getattr(dist, site.fn_name, None)
    if site.fn_name == "GaussianRandomWalk":
        scale = _reads(density, parameters["scale"])
        return LocationScale(name, (), scale, WALK, whiten=of_walk(site, parameters))
    if site.fn_name in _MULTIVARIATE:
        location = _reads(density, parameters["loc"])
        rest = frozenset().union(*(density.maps.latents(a) for p, a in parameters.items() if p != "loc"))
        whiten, rows = of_normal(site, parameters), of_normals(site, parameters)
        scale = in_program_order(density, rest)
        return LocationScale(name, location, scale, FACTOR, whiten=whiten, rows=rows)
    if site.fn_name == "CAR" and not site.in_scan:
        location, scale = (_reads(density, parameters[p]) for p in ("loc", "conditional_precision"))
        return LocationScale(name, location, scale, FACTOR, _areas(site, parameters))
    if family is None or not {"loc", "scale"} <= set(parameters):
        return None
    location, scale = _reads(density, parameters["loc"]), _reads(density, parameters["scale"])
    if name in location or name in scale:
        plain = on_the_real_line(site.support) and not density.transforms.get(name)
        stretched = plain and scale and name not in scale
        read = _spread(site, parameters["scale"]) if stretched else None
        return LocationScale(name, location, scale, RECURSION, read)
    logs = site.fn_name == "LogNormal" or density.transforms.get(name, ())[1:] in _UNCONSTRAINING
    if density.transforms.get(name) and not logs:
        return LocationScale(name, location, scale, ELEMENTS)
    if not (logs or on_the_real_line(site.support)) or (
        site.event_shape and site.element_rank < len(site.shape)
    ):
        return None
    read = _reader(site, parameters["loc"], parameters["scale"])
    return LocationScale(name, location, scale, LOGS if logs else ELEMENTS, read)


def _reads(density: Density, atom: Any) -> tuple[str, ...]:
    return in_program_order(density, density.maps.latents(atom))


def _spread(site: Any, scale: Any) -> Callable[[Callable[[Any], Any]], tuple[Any, Any]] | None:
    """0 for a location, and the steps' scale, by which a path from 0 is stretched."""
    rank = 0 if isinstance(scale, Literal) else len(scale.aval.shape)
    if site.in_scan and rank not in (0, len(site.shape)):
        return None

    def read(of: Callable[[Any], Any]) -> tuple[Any, Any]:
        steps = jnp.broadcast_to(of(scale), site.shape)
        return jnp.zeros_like(steps), steps

    return read


def _areas(site: Any, parameters: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], tuple[Any, Any]]:
    """The location, and what all of a map of areas is stretched by."""

    def read(of: Callable[[Any], Any]) -> tuple[Any, Any]:
        scale = jnp.asarray(of(parameters["conditional_precision"]))[..., None] ** -0.5
        return jnp.broadcast_to(of(parameters["loc"]), site.shape), jnp.broadcast_to(scale, site.shape)

    return read


def _reader(site: Any, loc: Any, scale: Any) -> Callable[[Callable[[Any], Any]], tuple[Any, Any]] | None:
    """Location and scale at the site's shape; None where it is not clear how a parameter stretches to it.

    Parameters of loops over time have the loop's axis first, all others end where the site's shape does.
    """
    ranks = {0 if isinstance(p, Literal) else len(p.aval.shape) for p in (loc, scale)}
    if site.in_scan and not ranks <= {0, len(site.shape)}:
        return None

    def read(of: Callable[[Any], Any]) -> tuple[Any, Any]:
        return jnp.broadcast_to(of(loc), site.shape), jnp.broadcast_to(of(scale), site.shape)

    return read
