"""The coordinates of a block: flat, unconstrained, centred to a degree.

`v` is the block's unconstrained values as the model is written, `u` the same with every centred element moved
to its degree λ, and with logarithms of positive numbers bent; both flat, sites in an order in which locations
and scales come after all that they read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import ExpTransform, IdentityTransform, IndependentTransform

from gibbsite.conditional.draws.directions import turning
from gibbsite.conditional.draws.safe_bijectors import transform_to
from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import LocationScale, Rows, Whitening, location_scales
from gibbsite.density.hierarchy.non_centred import ByHand, non_centred_by_hand
from gibbsite.density.hierarchy.tilted import tilted_locations
from gibbsite.ground.angles import around_mean, once_around
from gibbsite.kernels.learnt.centring import centred_from, centred_to, factor, offset
from gibbsite.kernels.learnt.moving import Moving, moving_supports
from gibbsite.kernels.learnt.power_transform import Bends, bent_from, bent_to, straight

Centred = LocationScale | ByHand
_FEW = 4
"""Elements of a site of positive numbers up to which they may be bent: scales that many effects share. A
local scale for each of many coefficients gains nothing, and each bend is a place where a chain may stay (a
horseshoe of 25: one run in six with R-hat above 1.01 or a quarter of the others' effective draws)."""


@dataclass(frozen=True)
class Surroundings:
    """What locations and scales read beside the block: other blocks' values by site, and data arrays."""

    siblings: Mapping[str, Any]
    data: Any


class Form(NamedTuple):
    """What is learnt of coordinates: degrees of centring `[degrees]`, and bends."""

    lam: jax.Array
    bends: Bends


@dataclass(frozen=True)
class Part:
    """One site of a block: where it stands in the flat vector, in that of degrees if it is centred, among the
    elements that may be bent if it is one of positive numbers, and how its support moves if it does."""

    name: str
    shape: tuple[int, ...]
    at: slice
    support: Any
    centred: Centred | None = None
    degrees: slice | None = None
    bends: slice | None = None
    moving: Moving | None = None

    def constrain(self, x: Any) -> Any:
        """Unconstrained → constrained value."""
        return transform_to(self.support)(x)


@dataclass(frozen=True)
class Coordinates:
    """The sites of a block in flat coordinates, `size` numbers, of which `degrees` are centred.

    `site` numbers the centred site that each degree belongs to, `written` is its degree in the model as
    written; `siblings` are the sites outside the block that centring reads. Where methods take `lam`, that is
    a whole `Form`, or degrees alone with nothing bent.
    """

    density: Density
    parts: tuple[Part, ...]
    siblings: tuple[str, ...]
    size: int
    site: np.ndarray = field(compare=False)
    written: np.ndarray = field(compare=False)

    @property
    def degrees(self) -> int:
        """How many elements have a degree of centring."""
        return len(self.site)

    @property
    def follows(self) -> bool:
        """Whether any coordinate is another for other values of the block's own sites."""
        return bool(self.degrees) or any(p.moving is not None for p in self.parts)

    @property
    def whole(self) -> np.ndarray:
        """Which of the degrees are those of sites that are whitened as a whole (0) or not at all (1)."""
        found = [np.full(int(np.prod(p.shape)), _whitening(p) is not None) for p in self.centred]
        return np.concatenate([np.zeros(0, bool), *found])

    @cached_property
    def turns(self) -> np.ndarray:
        """The turn of each element that is an angle, in the flat vector, and 0 of the others."""
        found = np.zeros(self.size, np.float32)
        for p in self.parts:
            if (around := turning(p.support)) is not None and p.moving is None and p.centred is None:
                found[p.at] = around.high - around.low
        return found

    def in_one_turn(self, v: Any) -> Any:
        """v with each angle in its first turn, so that it stays a number of few digits."""
        if not self.turns.any():
            return v
        turn = np.where(self.turns > 0, self.turns, 1.0)
        return jnp.where(self.turns > 0, once_around(v, 0.0, turn, by=jnp), v)

    def in_the_turn_of_most(self, v: Any, weight: Any) -> Any:
        """Draws `[n, size]` with each angle cut opposite to the mean direction of those with a `weight`."""
        finite = jnp.isfinite(v)
        known, counts = jnp.where(finite, v, 0.0), jnp.where(finite, weight[:, None], 0.0)
        turned = around_mean(known, np.where(self.turns > 0, self.turns, 1.0), counts, by=jnp)
        return jnp.where(finite & (self.turns > 0), turned, v)

    @property
    def bent(self) -> tuple[Part, ...]:
        """The parts whose elements may be bent."""
        return tuple(p for p in self.parts if p.bends is not None)

    @property
    def bent_at(self) -> np.ndarray:
        """Where the elements that may be bent stand in the flat vector."""
        return np.concatenate([np.zeros(0, int), *(np.arange(p.at.start, p.at.stop) for p in self.bent)])

    @property
    def centred(self) -> tuple[Part, ...]:
        """The parts that are centred to a degree."""
        return tuple(p for p in self.parts if p.centred is not None)

    def flat(self, z: Mapping[str, Any]) -> jax.Array:
        """v, from unconstrained values by site."""
        return jnp.concatenate([jnp.ravel(z[p.name]) for p in self.parts])

    def by_site(self, v: jax.Array) -> dict[str, jax.Array]:
        """The inverse of `flat`."""
        return {p.name: v[p.at].reshape(p.shape) for p in self.parts}

    def constrained(self, v: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        """Values by site, and the log determinant of the change from v to them."""
        values, total = {}, jnp.zeros((), v.dtype)
        for p in self.parts:
            x, transform = v[p.at].reshape(p.shape), transform_to(p.support)
            values[p.name] = transform(x)
            if not isinstance(transform, IdentityTransform):
                total = total + jnp.sum(transform.log_abs_det_jacobian(x, values[p.name]))
        return values, total

    def written_from(
        self, u: jax.Array, lam: jax.Array | Form, around: Surroundings
    ) -> tuple[jax.Array, jax.Array]:
        """u → v, and the log determinant of that change."""
        return self._walk(u, self._form(lam), around, forth=True)[:2]

    def written_with_offsets(
        self, u: jax.Array, lam: jax.Array | Form, around: Surroundings
    ) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        """As `written_from`, and how far the elements of each centred site are from their locations: told by
        its coordinates, for beside a location that is many times the scale the difference is lost."""
        return self._walk(u, self._form(lam), around, forth=True)

    def learnt_from(self, v: jax.Array, lam: jax.Array | Form, around: Surroundings) -> jax.Array:
        """v → u."""
        return self._walk(v, self._form(lam), around, forth=False)[0]

    def _form(self, lam: jax.Array | Form) -> Form:
        return lam if isinstance(lam, Form) else Form(lam, straight(len(self.bent_at)))

    def locations(self, v: jax.Array, around: Surroundings) -> tuple[jax.Array, jax.Array]:
        """Location and scale of every centred element at v, `[degrees]` each."""
        read, given = self._reader(around)
        found = []
        for p in self.parts:
            x = v[p.at].reshape(p.shape)
            if p.centred is not None:
                rows = _rows(p)
                found.append([jnp.ravel(a) for a in (rows(read).around(x) if rows else _read(p, read))])
            given(p, x)
        return tuple(jnp.concatenate(a) for a in zip(*found, strict=True))  # type: ignore[return-value]

    def centred_values(
        self, v: jax.Array, g: jax.Array, loc: jax.Array, scale: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The centred elements themselves and the gradients by them, from v and the gradient by it; arrays
        `[…, size]` and `[…, degrees]`. Of `z` in `a + b z` it is the whole that is meant."""
        x = jnp.concatenate([v[..., p.at] for p in self.centred], -1)
        slope = jnp.concatenate([g[..., p.at] for p in self.centred], -1)
        by_hand = self.written == 0
        return jnp.where(by_hand, loc + scale * x, x), jnp.where(by_hand, slope / scale, slope)

    def _walk(
        self, flat: jax.Array, form: Form, around: Surroundings, forth: bool
    ) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        offsets: dict[str, jax.Array] = {}
        if not self.follows and not self.bent:
            return flat, jnp.zeros((), flat.dtype), offsets
        read, given = self._reader(around)
        out, total = [], jnp.zeros((), flat.dtype)
        for p in self.parts:
            x = flat[p.at].reshape(p.shape)
            written, log_factor = x, None
            if p.bends is not None:
                bends = Bends(*(jnp.asarray(a, x.dtype)[p.bends].reshape(p.shape) for a in form.bends))
                other, log_factor = bent_from(x, bends) if forth else (bent_to(x, bends), jnp.zeros(()))
                x, written = other, other if forth else x
            elif p.moving is not None:
                x, written, log_factor = _within(p, p.moving.transform(read), x, forth)
            elif p.centred is not None and p.degrees is not None:
                degree = form.lam[p.degrees].reshape(p.shape)
                whiten, rows = _whitening(p), _rows(p)
                if rows is not None and forth:
                    x, log_factor, offsets[p.name] = _in_turn(rows(read), x, degree)
                    written = x
                elif rows is not None:
                    x, log_factor = centred_to(x, degree, *rows(read).around(x)), jnp.zeros(())
                elif whiten is not None:
                    by, white = whiten(read), jnp.ravel(degree)[0] == 0
                    if forth:
                        offsets[p.name] = jnp.where(white, by.stretched(jnp.where(white, x, 0.0)), x - by.loc)
                    x, written, log_factor = _whitened(by, x, white, forth)
                else:
                    loc, scale = _read(p, read)
                    if forth and isinstance(p.centred, LocationScale) and p.centred.around_its_location:
                        offsets[p.name] = offset(x, degree, loc, scale)
                    x, written, log_factor = _moved(p.centred, x, degree, loc, scale, forth)
            total = total if log_factor is None else total + jnp.sum(log_factor)
            out.append(jnp.ravel(x))
            if self.follows:
                given(p, written)
        return jnp.concatenate(out), total, offsets

    def _reader(self, around: Surroundings) -> tuple[Callable[[Any], Any], Callable[[Part, Any], None]]:
        evaluator = self.density.evaluator({n: around.siblings[n] for n in self.siblings}, around.data)

        def given(part: Part, x: Any) -> None:
            site = self.density.sites[part.name]
            value = jnp.asarray(part.constrain(x), site.dtype)
            evaluator.give({self.density.latent_vars[part.name]: value})

        return evaluator.full, given


def _within(part: Part, through: Any, x: Any, forth: bool) -> tuple[Any, Any, Any]:
    """As `_moved`, for a site whose support moves: `through` leads to it as it is now."""
    fixed = transform_to(part.support)
    if not forth:
        return through.inv(fixed(x)), x, jnp.zeros_like(x)
    value = through(x)
    written = fixed.inv(value)
    return (
        written,
        written,
        through.log_abs_det_jacobian(x, value) - fixed.log_abs_det_jacobian(written, value),
    )


def _whitening(part: Part) -> Callable[[Callable[[Any], Any]], Whitening] | None:
    return getattr(part.centred, "whiten", None)


def _rows(part: Part) -> Callable[[Callable[[Any], Any]], Rows] | None:
    return getattr(part.centred, "rows", None)


def _in_turn(by: Rows, x: Any, lam: Any) -> tuple[Any, Any, Any]:
    """As `_moved` forth, for vectors whose elements are centred around what those before them say: values as
    written, log factors, and how far the elements are from the location of their vectors."""
    noise: list[Any] = []
    columns = []
    for k in range(x.shape[-1]):
        shift, loc, scale = by.element(k, noise)
        degree = lam[..., k]
        own = offset(x[..., k], degree, loc, scale)
        written = jnp.where(degree == 1, x[..., k], loc + own)
        noise.append(own / scale)
        columns.append((written, jnp.where(degree == 1, 0.0, (1 - degree) * jnp.log(scale)), shift + own))
    written, log_factor, apart = (jnp.stack(a, -1) for a in zip(*columns, strict=True))
    return written, log_factor, apart


def _whitened(by: Whitening, x: Any, white: Any, forth: bool) -> tuple[Any, Any, Any]:
    """As `_moved`, for a site that is `white` or as written."""
    there = jnp.where(white, x, 0.0)  # what is not asked for has no slope that is not finite
    other = jnp.where(white, by.forth(there) if forth else by.back(there), x)
    return other, other if forth else x, jnp.where(white, by.log_size, 0.0) if forth else jnp.zeros_like(x)


def _read(part: Part, read: Callable[[Any], Any]) -> tuple[Any, Any]:
    if _whitening(part) is not None:  # nothing is learnt element by element
        return jnp.zeros(part.shape), jnp.ones(part.shape)
    assert part.centred is not None and part.centred.read is not None
    loc, scale = part.centred.read(read)
    return jnp.reshape(loc, part.shape), jnp.reshape(scale, part.shape)


def _moved(centred: Centred, x: Any, lam: Any, loc: Any, scale: Any, forth: bool) -> tuple[Any, Any, Any]:
    """The other coordinate of `x`, the one as written, and log |d written / d centred|."""
    if isinstance(centred, LocationScale):
        other = centred_from(x, lam, loc, scale) if forth else centred_to(x, lam, loc, scale)
        written, log_factor = other if forth else x, (1 - lam) * jnp.log(scale)
        return other, written, jnp.where(lam == 1, 0.0, log_factor)
    # z of a + b z: the centred coordinate of the whole, whose factor b is taken out
    back = jnp.where(lam == 0, 1.0, factor(lam, scale) / scale)
    if forth:
        written = jnp.where(lam == 0, x, back * (x - lam * loc))
        return written, written, jnp.where(lam == 0, 0.0, -lam * jnp.log(scale))
    return jnp.where(lam == 0, x, x / back + lam * loc), x, jnp.zeros_like(x)


def coordinates(
    density: Density,
    shapes: Mapping[str, tuple[tuple[int, ...], Any]],
    siblings: Sequence[str],
    centring: str = "auto",
) -> Coordinates:
    """Coordinates of the sites in `shapes`, by unconstrained shape and support.

    `siblings` are the sites whose values other blocks give. Unless `centring` is "as written", every site is
    centred to a degree whose location or scale reads another site of the block and nothing that is unknown;
    with "auto" the others of a few positive numbers may be bent.
    """
    names = [n for n in shapes if n in density.latent_vars]
    moving = {n: m for n, m in moving_supports(density).items() if {n, *m.reads} <= set(names)}
    found = declared(density, names, siblings, centring)
    found = {n: c for n, c in found.items() if n not in moving}
    parts, site, written = [], [], []
    at = degrees = number = bends = 0
    for name in [*_ordered(names, found, moving), *(n for n in shapes if n not in names)]:
        shape, support = shapes[name]
        size = int(np.prod(shape, dtype=np.int64))
        c = found.get(name)
        where = None
        if c is not None:
            where = slice(degrees, degrees + size)
            site += [number] * size
            number += 1
            written += [1.0 if isinstance(c, LocationScale) else 0.0] * size
            degrees += size
        among = None
        bendable = c is None and name not in moving and centring == "auto" and 0 < size <= _FEW
        if bendable and _is_logarithm(transform_to(support)):
            among = slice(bends, bends + size)
            bends += size
        parts.append(Part(name, shape, slice(at, at + size), support, c, where, among, moving.get(name)))
        at += size
    outside = [n for c in found.values() for n in c.reads if n not in names]
    return Coordinates(
        density,
        tuple(parts),
        tuple(dict.fromkeys(outside)),
        at,
        np.array(site, np.int32),
        np.array(written, np.float32),
    )


def _is_logarithm(transform: Any) -> bool:
    if isinstance(transform, IndependentTransform):
        transform = transform.base_transform
    return isinstance(transform, ExpTransform)


def declared(
    density: Density, names: Sequence[str], siblings: Sequence[str] | None, centring: str = "auto"
) -> dict[str, Centred]:
    """The sites among `names` that can be centred to a degree, as one block.

    Their location or scale reads another of them, and what it reads beside them is in `siblings`, or anything
    where that is None. None is where `centring` is "as written"; with "auto" locations of truncated normals
    are among them.
    """
    if centring == "as written":
        return {}
    tilted = tilted_locations(density) if centring == "auto" else {}
    forms: Mapping[str, Centred] = {**tilted, **location_scales(density), **non_centred_by_hand(density)}
    found = {}
    for name in names:
        c = forms.get(name)
        known = c is not None and (c.known if isinstance(c, LocationScale) else c.read is not None)
        if c is None or not known or getattr(c, "obstacle", None):
            continue
        outside = set(c.reads) - set(names)
        if set(c.reads) & set(names) and (siblings is None or outside <= set(siblings)):
            found[name] = c
    return found


def _ordered(names: Sequence[str], found: dict[str, Centred], moving: Mapping[str, Moving]) -> list[str]:
    """Sites such that what a location, a scale or a moving support reads comes first; drops from `found` what
    allows no order. Supports read what the program draws before, so that they always have one."""
    left, out = list(names), []
    while left:
        reads = {
            n: [*(found[n].reads if n in found else ()), *(moving[n].reads if n in moving else ())]
            for n in left
        }
        ready = [n for n in left if not set(reads[n]) & set(left)]
        if not ready:
            found.pop(next(n for n in left if n in found))
            continue
        out += ready
        left = [n for n in left if n not in ready]
    return out
