"""Integers without end, drawn from a table over a window around where they are: exact, nothing is cut off.

Of the windows of W values that hold the current value one is chosen at random, and the new value is drawn
from the conditional restricted to it, each value weighted by how probable the window is from there. That is
Gibbs sampling of window and value, which leaves the conditional of the value as it is, whatever the width
(Neal 2003, "Slice sampling", §4, calls the like of it a window of random place). Where the
window holds almost all of the mass it is an exact draw; a first window whose values are W apart takes long
steps.
"""

import copy
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.finite.finite import FiniteTables, finite_structure, sweep
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.density import Density, rerolled
from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import ModelError
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import is_traced

WIDTH = 64

Latents = Mapping[str, Any]


class WindowTables(FiniteTables):
    """Tables over windows: element by element the values `start + stride * j`, j = 0 … `width` − 1.

    `weights`, of shape `(width, *elements)`, are log probabilities of the windows from each of their values.
    """

    def __init__(self, density: Density, site: str, width: int = WIDTH):
        shape = density.sites[site].shape
        super().__init__(
            density, finite_structure(density, site, FiniteSupport(np.arange(width), shape, None))
        )
        self.thresholds, self.filled = (), self.structure.single
        self._bounded = any(t.term in density.bounds for t in self.filled)
        self.start: Any = None
        self.stride: Any = 1
        self.weights: Any = 0.0

    def beginning(self, start: Any) -> "WindowTables":
        """The tables over windows that begin at `start`, which broadcasts against the elements."""
        found = copy.copy(self)
        found.start = start
        return found

    def around(self, key: Any, now: Any, low: int | None, stride: int) -> "WindowTables":
        """The tables over one random window around each element of `now`, whose values begin at `low`."""
        found = copy.copy(self)
        back = jax.random.randint(key, now.shape, 0, WIDTH)
        steps = jnp.arange(WIDTH, dtype=now.dtype).reshape((WIDTH,) + (1,) * now.ndim)
        found.stride = stride
        if low is None:
            found.start, found.weights = now - stride * back, jnp.zeros(steps.shape)
            return found
        # windows do not begin below the smallest value of their residue, where several choices meet
        before = (now - low) // stride
        found.start = now - stride * jnp.minimum(back, before)
        first = before <= back
        found.weights = jnp.where(first, jnp.log(jnp.asarray(WIDTH - steps, jnp.result_type(float))), 0.0)
        return found

    def _filled(self, value: Any) -> Any:
        return self.start + self.stride * jnp.asarray(value, self.start.dtype)

    def single(self, latents: Latents, data: Any, level: bool = True) -> Any:
        """As for finite supports, over the windows and with their weights."""
        return super().single(latents, data, level) + self.weights

    def chosen(self, index: Any, now: Any) -> Any:
        """The values at `index` of each window; the current ones where there is none."""
        return jnp.where(index < 0, now, self.start + self.stride * index.astype(now.dtype)).astype(now.dtype)


class WindowDraw(Conditional):
    """The update of a discrete `site` of infinite support. Raises `Refused` where it has none."""

    kind = "window"

    def __init__(self, density: Density, site: str):
        self.low = lowest(density, site)
        self.tables = WindowTables(density, site)
        s = self.tables.structure
        self.elements = int(np.prod(s.elements, dtype=np.int64))
        if not s.independent and s.colours is None and self.tables.sums is None:
            raise Refused(f"the elements of {site} are coupled without a pattern")
        n = sum(int(np.prod(t.term.shape, dtype=np.int64)) for t in s.single + s.joint)
        passes = "" if s.independent else f" × {s.n_colours} passes" if s.n_colours else ", one after another"
        cost = f"2 windows × {WIDTH} values × {n} term elements{passes}"
        reason = "infinite support: drawn exactly from tables over windows placed at random around its value"
        super().__init__(density, site, reason, cost)

    @property
    def fresh(self) -> tuple[str, ...]:
        """None: windows are placed around the site's own value."""
        return ()

    def update(self, key: Any, latents: Latents, data: Any) -> Any:
        """Long steps, then short ones; pure in complete latent values and data arrays."""
        value = jnp.asarray(latents[self.site])
        for k, stride in zip(jax.random.split(key), (WIDTH, 1), strict=True):
            place, draw = jax.random.split(k)
            tables = self.tables.around(place, value, self.low, stride)
            value, _ = sweep(tables, draw, {**latents, self.site: value}, data)
        return value


def lowest(density: Density, site: str) -> int | None:
    """The smallest value of a support without end, None where that goes both ways. Raises `Refused` where a
    site has another support."""
    s = density.sites[site]
    if not s.discrete:
        raise Refused(f"{site} is continuous")
    try:
        finite = finite_support(density, site) is not None
    except ModelError as why:
        raise Refused(str(why)) from why
    if finite:
        raise Refused(f"{site} has a finite support: draw it from a table of all its values")
    if site in density.outputs["bounds"]:  # a count out of one that has no end itself: terms bound it
        return _known_low(density, site)
    support = base_constraint(s.support)
    low = getattr(support, "lower_bound", 0)
    if not isinstance(support, constraints.integer_greater_than):
        raise Refused(f"the support of {site} ({support}) is no range of integers")
    if np.ndim(low) or is_traced(low):
        raise Refused(f"the smallest value of {site} is computed by the model")
    return int(low)


def _known_low(density: Density, site: str) -> int:
    """The lower bound of a support whose upper one a latent decides."""
    atom = density.outputs["bounds"][site][0]
    low = None if density.maps.latents(atom) else np.asarray(density.evaluator({}).full(atom))
    if low is None or not low.size or low.min() != low.max():
        raise Refused(f"the smallest value of {site} is computed by the model")
    return int(low.min())


@once
def window_draw(density: Density, site: str) -> WindowDraw:
    """The update of a site of infinite support, derived once per density; `Refused` where it has none."""
    grouped = rerolled(density)
    if grouped is not density and site in grouped.sites:
        return window_draw(grouped, site)
    return WindowDraw(density, site)
