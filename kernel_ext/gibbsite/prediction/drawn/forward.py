"""The model run forward at one draw: known elements stand, new ones are drawn given them, data are drawn
anew."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.contrib.control_flow.cond import cond_wrapper
from numpyro.distributions import (
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
)
from numpyro.primitives import Messenger

from gibbsite.conditional.draws.gamma import drawn_here
from gibbsite.density.handlers.scopes import prefix_within
from gibbsite.density.model.collect import base_distribution, is_factor
from gibbsite.errors import DataError, MissingPackageError, ModelError
from gibbsite.inputs.table import SET
from gibbsite.modelling.in_part import known_part, missing_part, of_gaussian_vectors
from gibbsite.prediction.drawn.asking import DATA, as_long_as, into_loop
from gibbsite.prediction.drawn.joint import conditional_draw
from gibbsite.prediction.drawn.means import mean_of


@dataclass(frozen=True)
class Part:
    """A site of which some elements are known: `axes` tell per axis which element of the run each is, or -1;
    `joint` says that its last axis is drawn as a whole."""

    axes: tuple[np.ndarray, ...]
    joint: bool = False

    @property
    def known(self) -> np.ndarray:
        """Which elements are known."""
        out = np.ones((), bool)
        for axis in self.axes:
            out = out[..., None] & (axis >= 0)
        return out

    def picked(self, value: Any) -> Any:
        """The run's values at the places of this prediction; anything where there is none."""
        return value[np.ix_(*(np.maximum(a, 0) for a in self.axes))] if self.axes else value


@dataclass(frozen=True)
class Recipe:
    """What is done at which site.

    `known` sites stand as they are drawn, `parts` partly; `series` are those inside of `scan`, known for
    their first steps. `fixed` are set (`do`), `given` held at values with their likelihood noted, and of
    vectors that are given in part `partly` are the elements that are not; of data in `stays` the model goes
    on with what was given, and `seen` are data drawn as a whole whose first elements condition the others.
    `doubted` are discrete data that may have no distribution: whole numbers are drawn of parameters that are
    no numbers, too, and the weight says it. Of the sites `expected` the mean of their distribution is noted
    instead of what is drawn, with which the model goes on. Of the data `filled` some elements, at places, are
    elements of what the run imputed for them. `widest` is the longest support whose probabilities are told.
    """

    known: frozenset[str] = frozenset()
    parts: Mapping[str, Part] = field(default_factory=dict)
    series: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    partly: Mapping[str, np.ndarray] = field(default_factory=dict)
    stays: frozenset[str] = frozenset()
    seen: Mapping[str, np.ndarray] = field(default_factory=dict)
    doubted: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()
    filled: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    widest: int = 50


class Forward(Messenger):
    """Draws what is to be drawn. `values` are those of the run by site, `held` those of `fixed` and `given`;
    `out` is filled with what every statement drew, `weight` with the log likelihood of `given`, `probs` with
    probabilities of the values of discrete sites."""

    def __init__(self, fn: Any, recipe: Recipe, key: Any, values: Mapping[str, Any], held: Mapping[str, Any]):
        super().__init__(fn)
        self.recipe, self.key, self.values, self.held = recipe, key, values, held
        self.out: dict[str, Any] = {}
        self.probs: dict[str, Any] = {}
        self._means: dict[str, Any] = {}
        self.weight: Any = jnp.zeros(())
        self._loops, self._asked = 0, 0

    def _key(self, name: str) -> Any:
        """A key of the site's own: alternatives of one model draw the same at what they share."""
        return jax.random.fold_in(self.key, zlib.crc32(name.encode()) & 0x7FFFFFFF)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give the statement its value."""
        name = msg.get("name")
        if msg["type"] == "control_flow":
            self._loops += 1
            msg["kwargs"]["rng_key"] = self._key(f"loop {self._loops}")
            branches = self.recipe.known if msg["fn"] is cond_wrapper else frozenset()
            series = {n: self.values[n] for n in self.recipe.series | branches}
            if series:
                msg["kwargs"]["substitute_stack"].append(("substitute", series))
            if self.recipe.given:
                msg["kwargs"]["substitute_stack"].append(("substitute", self._given_at_step))
            prefix = prefix_within(self)
            into_loop(msg, lambda: _Looped(self, prefix))
        elif msg["type"] == "prng_key" and msg["value"] is None:
            self._asked += 1
            msg["value"] = self._key(f"key {self._asked}")
        elif msg["type"] == "deterministic" and name in self.recipe.fixed:
            msg["value"] = jnp.broadcast_to(self.held[name], jnp.shape(msg["value"]))
        elif msg["type"] == "sample" and not msg.get("_control_flow_done"):
            try:
                self._sampled(msg, name)
            except ImportError as error:  # of NumPyro's, as the quantiles of a truncated StudentT ask for
                family = type(base_distribution(msg["fn"])).__name__
                raise MissingPackageError(
                    f"{name!r} cannot be drawn here: NumPyro's {family} needs a package for it that is not "
                    f"installed ({error})"
                ) from error

    def _draw(self, name: str, fn: Any, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """A draw of a statement's distribution; `ModelError` for one of somebody's own that makes none, as
        NumPyro's base class does where `sample` is not written."""
        try:
            return fn(rng_key=key, sample_shape=sample_shape)
        except NotImplementedError as error:
            family = type(base_distribution(fn)).__name__
            raise ModelError(
                f"{name!r} cannot be drawn: {family} does not say how (its `sample(key, sample_shape)` "
                "raises NotImplementedError). Write that method of it; the density alone is enough for "
                "sampling and leave-one-out, not for predictions"
            ) from error

    def _mean(self, name: str, fn: Any, value: Any) -> Any:
        return mean_of(fn, jnp.shape(value), self._key(f"mean of {name}"))

    def _sampled(self, msg: dict[str, Any], name: Any) -> None:
        fn, recipe = drawn_here(msg["fn"]), self.recipe
        if is_factor(fn) or name is None:
            return
        if name in recipe.fixed or name in recipe.given:
            fn = as_long_as(fn, jnp.shape(self.held[name]))
            held = jnp.broadcast_to(self.held[name], fn.shape())
            value = held.astype(_dtype(fn))
            if name in recipe.fixed:
                msg["infer"] = {**msg["infer"], SET: True}
            else:
                there = ~jnp.isnan(held)  # of the numbers as they came: a missing one is no whole number
                drawn = self._draw(name, fn, self._key(name))
                value = jnp.where(there, value, drawn)
                if name in recipe.partly and of_gaussian_vectors(fn):
                    gone = recipe.partly[name]
                    law = missing_part(fn, jnp.where(there, held, 0.0), gone)
                    value = value.at[np.nonzero(gone)].set(law.sample(self._key(name)))
                if name in recipe.expected:
                    self._means[name] = jnp.where(there, held, self._mean(name, fn, value))
                self._weigh(name, fn, value)
            msg["value"] = value
            return
        if msg["is_observed"] or msg["value"] is not None:
            return
        if name in recipe.known:
            msg["value"] = self.values[name]
            return
        sample_shape = msg["kwargs"].get("sample_shape", ())
        part, key = recipe.parts.get(name), self._key(name)
        if name in recipe.seen:
            known = recipe.seen[name]
            msg["value"] = conditional_draw(fn, key, jnp.asarray(msg["infer"][DATA]), known)
            return
        if part is not None and part.joint and (part.axes[-1] >= 0).any() and (part.axes[-1] < 0).any():
            picked = part.picked(self.values[name])
            drawn = conditional_draw(fn, key, picked, part.axes[-1] >= 0)
            batch = Part(part.axes[:-1]).known
            if not batch.all():
                fresh = self._draw(name, fn, jax.random.fold_in(key, 1), sample_shape)
                drawn = jnp.where(batch[..., None], drawn, fresh)
            msg["value"] = drawn
            return
        value = self._draw(name, fn, key, sample_shape)
        if name in recipe.expected:
            self._means[name] = self._mean(name, fn, value)
        if part is not None:
            value = jnp.where(part.known, part.picked(self.values[name]), value)
        if name in recipe.filled:
            at, which = recipe.filled[name]
            value = jnp.asarray(value).at[tuple(at)].set(jnp.ravel(self.values[f"{name}_missing"])[which])
        if name in recipe.doubted:
            lost = jnp.isnan(msg["fn"].log_prob(value)).any() | _of_no_numbers(msg["fn"])
            self.weight += jnp.where(lost, jnp.nan, 0.0)
        self._probabilities(name, fn, value)
        msg["value"] = value

    def _given_at_step(self, site: dict[str, Any]) -> Any:
        """Of a statement inside of a loop: what is given of it at this step, and draws for the rest. None
        where nothing is."""
        name = site["name"]
        if name not in self.recipe.given:
            return None
        fn, held = drawn_here(site["fn"]), jnp.asarray(self.held[name])
        if held.ndim > len(fn.shape()):
            held = held[site["infer"]["_scan_current_index"]]
        held = jnp.broadcast_to(held, fn.shape())
        drawn = fn(rng_key=site["kwargs"]["rng_key"], sample_shape=())
        return jnp.where(jnp.isnan(held), drawn, held.astype(_dtype(fn)))

    def _weigh(self, name: str, fn: Any, value: Any) -> None:
        """Add the log likelihood of what is given of a site, of which some elements may not be."""
        there = jnp.broadcast_to(~jnp.isnan(jnp.asarray(self.held[name])), jnp.shape(value))
        events = tuple(range(there.ndim - fn.event_dim, there.ndim))
        if name in self.recipe.partly:
            gone = self.recipe.partly[name]
            if of_gaussian_vectors(fn):
                fn, there = known_part(fn, gone), there.any(axis=events)
            elif (fn := of_elements(fn)) is None:
                raise DataError(
                    f"given: of {name!r} a vector is given in part, and nothing is known of what is left of "
                    "its distribution: give all of its elements, or none (NaN)"
                )
        else:
            there = there.all(axis=events)
        self.weight += jnp.sum(jnp.where(there, fn.log_prob(value), 0.0))

    def _probabilities(self, name: str, fn: Any, value: Any) -> None:
        """Of the values 0, 1, … of a discrete site, from its distribution at this draw (Rao-Blackwell); of
        known elements, whose distribution is another given the data, whether they are `value`."""
        if not getattr(fn.support, "is_discrete", False) or fn.event_dim:
            return
        base = base_distribution(fn)
        if not base.has_enumerate_support:
            return
        try:
            support = base.enumerate_support(expand=False)
        except (NotImplementedError, ValueError, TypeError):
            return  # bounds that differ from element to element list no values
        flat = support.reshape(support.shape[0], *(1,) * len(fn.batch_shape))
        if support.shape[0] > self.recipe.widest:
            return
        found = jnp.exp(fn.log_prob(flat))
        if name in self.recipe.parts:
            found = jnp.where(self.recipe.parts[name].known, jnp.asarray(value) == flat, found)
        self.probs[name] = jnp.moveaxis(found, 0, -1)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Note what was drawn; the model may go on with what was given instead."""
        if msg["type"] not in ("sample", "deterministic") or is_factor(msg.get("fn")):
            return
        self.out[msg["name"]] = self._means.get(msg["name"], msg["value"])
        if msg["type"] == "sample" and not msg.get("_control_flow_done"):
            go_on(msg, self.recipe)
        elif msg["type"] == "sample":  # of a loop, whose distributions come with an axis of steps
            self._looped(msg["name"], msg["fn"], msg["value"])

    def _looped(self, name: str, fn: Any, value: Any) -> None:
        given = name in self.recipe.given
        if given:
            self._weigh(name, fn, value)
        elif name not in self.recipe.known | self.recipe.fixed:
            self._probabilities(name, fn, value)
        if name in self.recipe.expected:
            held = jnp.broadcast_to(self.held[name], jnp.shape(value)) if given else jnp.nan
            self.out[name] = jnp.where(jnp.isnan(held), self._mean(name, fn, value), held)


def go_on(msg: dict[str, Any], recipe: Recipe, prefix: str = "") -> None:
    """Have the model go on with what was given for the site, where that holds something."""
    if f"{prefix}{msg['name']}" not in recipe.stays or DATA not in msg["infer"]:
        return
    given = jnp.asarray(msg["infer"][DATA])
    try:
        given = jnp.broadcast_to(given, jnp.shape(msg["value"]))
    except ValueError:
        return
    if jnp.issubdtype(given.dtype, jnp.floating):
        filled = jnp.where(jnp.isnan(given), msg["value"], given)
    else:
        filled = given
    msg["value"] = filled.astype(jnp.result_type(msg["value"]))


def of_elements(fn: Any) -> Any:
    """The distribution of each element of what is drawn apart, as by `to_event`; None of what is not."""
    while isinstance(fn, Independent | ExpandedDistribution):
        fn = fn.base_dist
    return None if fn.event_dim or isinstance(fn, MaskedDistribution) else fn


def _of_no_numbers(fn: Any) -> Any:
    """Whether a parameter is no number: a density may be clipped into one. Under a mask some may be."""
    if isinstance(fn, MaskedDistribution):
        return jnp.zeros((), bool)
    leaves = [x for x in jax.tree.leaves(fn) if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
    return jnp.stack([jnp.isnan(x).any() for x in leaves]).any() if leaves else jnp.zeros((), bool)


def _dtype(fn: Any) -> Any:
    return jnp.result_type(int) if getattr(fn.support, "is_discrete", False) else jnp.result_type(float)


class _Looped(Messenger):
    """What `Forward` does inside of a loop's function: its draws of latents are the loop's own to give."""

    def __init__(self, outer: Forward, prefix: str):
        super().__init__(None)
        self._outer, self._prefix = outer, prefix

    def process_message(self, msg: dict[str, Any]) -> None:
        """Set what is fixed."""
        if msg["type"] != "sample" or msg["value"] is not None:
            return
        msg["fn"] = drawn_here(msg["fn"])
        name = f"{self._prefix}{msg['name']}"
        if name in self._outer.recipe.fixed:
            value = jnp.asarray(self._outer.held[name])
            msg["value"] = jnp.broadcast_to(value, msg["fn"].shape()).astype(_dtype(msg["fn"]))

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Go on with what was given."""
        if msg["type"] == "sample":
            go_on(msg, self._outer.recipe, self._prefix)
            # what the loop records goes out of it as it is, and this is a value of its inside
            msg["infer"].pop(DATA, None)
