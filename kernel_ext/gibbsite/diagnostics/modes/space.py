"""A density in flat unconstrained coordinates: where volumes are compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.draws.safe_bijectors import transform_to
from gibbsite.conditional.reads.support import bounded_by, support_movers
from gibbsite.density import Density
from gibbsite.density.model.bounds import all_inside
from gibbsite.elimination import Marginal, joint_marginal
from gibbsite.ground.lazy_import import later
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.passes.for_cpu import jitted

optimize = later("scipy.optimize")

_IMPROPER = ("ImproperUniform", "Unit")
_CLIMB = {"maxiter": 100, "maxcor": 10}
_STEEP = 10.0
_BATCH = 256
"""Points that are evaluated at once: one compiled program for any number of them."""


@dataclass(frozen=True, eq=False)
class Space:
    """The latents that a run's kernels move, as flat unconstrained numbers `[point, size]`, and the
    logdensity there, Jacobians included.

    `smooth` are the continuous sites in order with their unconstrained shapes; `listed` the discrete ones,
    which `marginal` sums out where that can be done: where it cannot, the density is that of given values.
    `absent` are latents that no data see and no kernel moves: they integrate to one and are left out.
    """

    density: Density
    smooth: Mapping[str, tuple[int, ...]]
    listed: tuple[str, ...]
    absent: frozenset[str]
    marginal: Marginal | None
    data: tuple[Any, ...]
    _programs: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """How many continuous numbers there are."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.smooth.values())

    @property
    def proper(self) -> bool:
        """Whether the priors surely have a mass of one, and the density of the data is told."""
        sites, weights = self.density.sites, self.density.outputs["weights"]
        return self._own_priors and all(
            sites[n].fn_name not in _IMPROPER and not weights.get(n) for n in (*self.smooth, *self.listed)
        )

    @property
    def _own_priors(self) -> bool:
        """Whether continuous sites have one prior whatever the values of sites that are summed out."""
        summed = () if self.marginal is None else self.listed
        own = [t for t in self.density.terms if t.origin in self.smooth]
        return not any(n in self.density.maps[t.atom] for t in own for n in summed)

    @property
    def given(self) -> tuple[str, ...]:
        """The discrete sites whose values the logdensity is asked for with."""
        return () if self.marginal is not None else self.listed

    def free(self, values: Mapping[str, Any]) -> np.ndarray:
        """Coordinates `[point, size]` of constrained values `[point, *shape]` by site."""
        values = self.density.packed(values, 1) if not set(self.smooth) <= set(values) else values
        if not self.smooth:
            return np.zeros((len(next(iter(values.values()))), 0))
        own = {n: np.asarray(values[n]) for n in self.smooth}
        return np.asarray(self._by_rows("free", self._freed, own), np.float64)

    def _freed(self, values: Mapping[str, Any]) -> Any:
        sites = self.density.sites  # in the order of `smooth`: programs have names sorted
        parts = [transform_to(sites[n].support)._inverse(values[n]) for n in self.smooth]
        return jnp.concatenate([x.reshape(len(x), -1) for x in parts], axis=1)

    def _by_rows(self, name: str, fn: Callable[[Any], Any], given: Any) -> Any:
        """`fn` of arrays with points as rows, in one program for up to twice as many points."""
        if name not in self._programs:
            self._programs[name] = jitted(fn)
        points = len(jax.tree.leaves(given)[0])
        size = min(_BATCH, 1 << (points - 1).bit_length())
        found = []
        for at in range(0, points, size):
            rows = np.arange(at, at + size).clip(max=points - 1)
            out = self._programs[name](jax.tree.map(lambda v, rows=rows: v[rows], given))
            found.append(jax.tree.map(lambda v, at=at: np.asarray(v)[: points - at], out))
        return jax.tree.map(lambda *parts: np.concatenate(parts), *found)

    def discrete(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The values of `given` sites, `[point, *shape]`."""
        return {n: np.asarray(values[n]) for n in self.given}

    def logdensity(self, x: np.ndarray, z: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Log density of the coordinates `[point, size]` (with `given` sites at `z`), and the part of it that
        is the data's and factors': both `[point]`; −∞ where there is none."""
        if "both" not in self._programs:
            self._programs["both"] = jitted(jax.vmap(self._both, in_axes=(0, 0, None)))
        found = []
        for at in range(0, len(x), _BATCH):
            rows = np.arange(at, at + _BATCH).clip(max=len(x) - 1)
            part = {n: v[rows] for n, v in z.items()}
            out = self._programs["both"](jnp.asarray(x[rows]), part, self.data)
            found.append(np.asarray(out, np.float64)[: len(x) - at].T)
        level, fit = np.concatenate(found, axis=1)
        return np.where(np.isnan(level), -np.inf, level), fit

    def climbed(self, x: np.ndarray, held: np.ndarray, gain: float = 0.0) -> np.ndarray:
        """Where the density leads uphill from points `[point, size]`, with the coordinates that are `held`
        `[point, size]` as they are (L-BFGS, Liu and Nocedal 1989), as long as a step brings `gain` nats; the
        points where it has no slope."""
        if "slope" not in self._programs:
            down = jax.value_and_grad(lambda x, data: -self._both(x, {}, data)[0])
            self._programs["slope"] = jitted(down)
        out = np.array(x, np.float64)
        for point, fixed in zip(out, held, strict=True):
            seen: list[float] = []

            def level(
                part: np.ndarray, at: np.ndarray = point, free: np.ndarray = ~fixed, seen: Any = seen
            ) -> Any:
                whole = at.copy()
                whole[free] = part
                value, slope = self._programs["slope"](jnp.asarray(whole), self.data)
                down = np.asarray(slope, np.float64)[free]
                if np.isfinite(value) and np.isfinite(down).all():
                    seen.append(float(value))
                    return seen[-1], down
                # a step that overflows: as high as makes the search take a shorter one
                return seen[0] + _STEEP * (1 + abs(seen[0])) if seen else np.inf, np.zeros_like(down)

            found = optimize.minimize(
                level, point[~fixed], jac=True, method="L-BFGS-B", options=_CLIMB, callback=_ending(gain)
            )
            if np.isfinite(found.x).all() and np.isfinite(found.fun):
                point[~fixed] = found.x
        return out

    def values(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Constrained values `[point, *shape]` by site of coordinates `[point, size]`."""
        return self._by_rows("values", self._constrained, np.asarray(x)) if self.smooth else {}

    def _constrained(self, x: Any) -> dict[str, Any]:
        out, at = {}, 0
        for name, shape in self.smooth.items():
            size = int(np.prod(shape, dtype=np.int64))
            site = self.density.sites[name]
            part = x[:, at : at + size].reshape(len(x), *shape)
            out[name] = transform_to(site.support)(part).astype(site.dtype)
            at += size
        return out

    def _both(self, x: jax.Array, z: Mapping[str, Any], data: Any) -> jax.Array:
        values, moved, at = dict(z), jnp.zeros(()), 0
        for name, shape in self.smooth.items():
            size = int(np.prod(shape, dtype=np.int64))
            part = x[at : at + size].reshape(shape)
            at += size
            transform = transform_to(self.density.sites[name].support)
            values[name] = transform(part).astype(self.density.sites[name].dtype)
            moved = moved + jnp.sum(transform.log_abs_det_jacobian(part, values[name]))
        density = self.density
        whole = None if self.marginal is None else self.marginal.logdensity_at(values, data)
        if whole is not None and not self._own_priors:
            return jnp.stack([whole + moved, jnp.zeros(())])
        for name in density.latent_vars.keys() - values.keys():
            values[name] = jnp.zeros(density.sites[name].shape, density.sites[name].dtype)
        found = density.computed(values, data)
        inside = all_inside({n: v for n, v in found["inside"].items() if n not in self.absent})
        sums = {n: jnp.sum(v) for n, v in found["log_prob"].items() if n not in self.absent}
        if whole is not None:  # what the data say, whichever values of what is summed out they say it with
            return jnp.stack([whole + moved, whole - sum(sums[n] for n in self.smooth)])
        seen = sum((v for n, v in sums.items() if n not in values), start=jnp.zeros(()))
        total = sum((v for n, v in sums.items() if n in values), start=seen)
        return jnp.stack([jnp.where(inside, total + moved, -jnp.inf), seen])


def _ending(gain: float) -> Callable[[Any], None]:
    """Ends a search by SciPy, which knows the argument by its name, at a step that brings less."""
    last = np.inf

    def after(intermediate_result: Any) -> None:
        nonlocal last
        before, last = last, float(intermediate_result.fun)
        if before - last < gain:
            raise StopIteration

    return after


def space_of(plan: Plan, names: Any, summed: bool = True) -> Space | None:
    """The space of the latents `names` that a plan's kernels move; None where the support of one moves with
    others, or is not known. `summed`: sum discrete sites out where that can be done."""
    density = plan.density
    if density is None:
        return None
    key = ("space of modes", tuple(sorted(names)), summed)
    if key not in density.cache:
        density.cache[key] = _made(plan, density, frozenset(names), summed)
    return density.cache[key]


def _made(plan: Plan, density: Density, names: frozenset[str], summed: bool) -> Space | None:
    own = [n for n in density.latents if n in names]
    smooth: dict[str, tuple[int, ...]] = {}
    listed = []
    for name in own:
        site = density.sites[name]
        if site.discrete:
            listed.append(name)
            continue
        if site.support is None or support_movers(density, name) or bounded_by(density, name):
            return None
        transform = transform_to(site.support)
        smooth[name] = tuple(transform.inverse_shape(site.shape))
    absent = frozenset(density.latents) - names
    marginal = None
    if listed and summed and not absent:
        found = joint_marginal(density, listed, insist=False)
        marginal = None if isinstance(found, str) else found
    return Space(density, smooth, tuple(listed), absent, marginal, tuple(plan.inputs["data"]))
