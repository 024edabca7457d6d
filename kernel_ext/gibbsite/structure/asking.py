"""Where Python asks a discrete draw for its value: the site, and the values that it can have."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints
from numpyro.primitives import Messenger

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution, run_model
from gibbsite.density.model.tracers import TRACER_ERRORS
from gibbsite.errors import GibbsiteError, ModelError
from gibbsite.explain.latent import told_latent
from gibbsite.explain.spot import spot_of

MOST_LISTED = 64
"""Values of an array site, all combinations of its elements, up to which each is a way."""


class Decided(Messenger):
    """Observes sites at values that stay NumPy's, so that Python can decide by them while all else is traced.

    As `numpyro.handlers.condition`, whose values become traced where a compiled run makes arrays of them.
    """

    def __init__(self, fn: Any, values: Mapping[str, Any]):
        super().__init__(fn)
        self.values = values

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give the value."""
        if msg["type"] == "sample" and msg["name"] in self.values:
            msg["is_observed"], msg["value"] = True, self.values[msg["name"]]

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Give it back as it was: handlers further out may have made an array of it."""
        if msg["type"] == "sample" and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]


def decided(fn: Callable, values: Mapping[str, Any]) -> Callable:
    """`fn` with sites observed at values of NumPy's."""

    @functools.wraps(fn)
    def way(*args: Any, **kwargs: Any) -> Any:
        with Decided(None, values):
            return fn(*args, **kwargs)

    return way


@dataclass(frozen=True)
class Asked:
    """A discrete site that Python asks for its value: `shape`, `dtype`, and the bounds of its elements, of
    which `high` is None where there is none; `listed`, where it has few values."""

    site: str
    shape: tuple[int, ...]
    dtype: Any
    low: int
    high: int | None

    @property
    def listed(self) -> bool:
        """Whether all values of the whole site can be listed."""
        if self.high is None:
            return False
        count = float(self.high - self.low + 1) ** max(1, int(np.prod(self.shape)))
        return count <= MOST_LISTED

    def values(self) -> Iterator[Any]:
        """Its values: whole numbers, or tuples of them in the order of a flat array; perhaps without end."""
        span = itertools.count(self.low) if self.high is None else range(self.low, self.high + 1)
        if not self.shape:
            return iter(span)
        return itertools.product(span, repeat=int(np.prod(self.shape)))

    def has(self, value: Any) -> bool:
        """Whether that is one of them."""
        flat = np.ravel(value)
        above = self.high is None or bool((flat <= self.high).all())
        return flat.size == int(np.prod(self.shape)) and bool((flat >= self.low).all()) and above

    def array(self, value: Any) -> Any:
        """A value as the model sees it."""
        return np.asarray(value, self.dtype).reshape(self.shape)[()]


class _Seen(Messenger):
    """Notes the discrete latents of a run, and how many statements it came to."""

    def __init__(self, fn: Any):
        super().__init__(fn)
        self.discrete: dict[str, Any] = {}
        self.names: list[str] = []

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] not in ("sample", "deterministic", "plate"):
            return
        self.names.append(msg["name"])
        if msg["type"] != "sample" or msg["is_observed"] or msg["fn"] is None:
            return
        if getattr(msg["fn"].support, "is_discrete", False):
            self.discrete[msg["name"]] = (msg["fn"], msg["value"])


@dataclass(frozen=True)
class _Stop:
    """How far an abstract run came: statements until then, the exception that ended it and its place."""

    names: tuple[str, ...]
    discrete: Mapping[str, Any]
    error: BaseException | None
    place: tuple[Any, ...] | None


def _wants_value(error: BaseException) -> bool:
    """Whether Python wanted the value of something traced: JAX tells of it in several ways."""
    told = str(error)
    return (
        isinstance(error, TRACER_ERRORS)
        or (isinstance(error, IndexError) and "Slice entries must be static" in told)
        or (isinstance(error, TypeError) and "concrete values" in told)
    )


def _stopped(fn: Callable, args: tuple, kwargs: Mapping[str, Any], given: Mapping[str, Any]) -> _Stop:
    seen = _Seen(decided(fn, given))
    found: list[_Stop] = []

    def run() -> int:
        error: BaseException | None = None
        try:
            run_model(seen, args, dict(kwargs), {})
        except Exception as problem:
            told = isinstance(problem, GibbsiteError) and problem.__cause__ is not None
            error = problem.__cause__ if told else problem
        spot = None if error is None else spot_of(error)
        place = None if spot is None else (spot.file, spot.line, spot.start)
        sites = {n: _read(f, v) for n, (f, v) in seen.discrete.items()}
        found.append(_Stop(tuple(seen.names), sites, error, place))
        return 0

    jax.eval_shape(run)
    return found[0]


def _read(fn: Any, value: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Shape and dtype of a discrete site, and the bounds of its support or, in words, why it has none."""
    return tuple(np.shape(value)), np.dtype(value.dtype), _bounds(fn)


def _bounds(fn: Any) -> Any:
    support = base_distribution(fn).support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    if support is constraints.boolean:
        return 0, 1
    low, high = getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)
    if low is None:
        return f"its support is {support}, whose values cannot be listed"
    try:
        ends = [None if b is None else np.unique(np.asarray(b)) for b in (low, high)]
    except TRACER_ERRORS:
        return "the bounds of its support move with another draw"
    if any(e is not None and e.size != 1 for e in ends):
        return "the bounds of its support differ from element to element"
    return tuple(None if e is None else int(e[0]) for e in ends)


def first_asked(
    fn: Callable, args: tuple, kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> Asked | None:
    """The discrete latent whose value Python asks for first, where those in `given` are known; None where it
    asks for none.

    Which site is asked, through whatever NumPy and Python compute between, is what lets the run go further
    once it is known: the fewest such sites are looked for. Raises `ModelError` where what is asked for is no
    discrete draw, with its place.
    """
    with handlers_alone:
        here = _stopped(fn, args, kwargs, given)
        if here.error is None or not _wants_value(here.error):
            return None
        # NumPy computes with values where `jnp` would do: no decision, and said to be none
        if isinstance(here.error, jax.errors.TracerArrayConversionError):
            raise told_latent(spot_of(here.error)) from here.error

        def settled(names: list[str]) -> bool:
            probes = {n: _probe(here.discrete[n]) for n in names}
            there = _stopped(fn, args, kwargs, {**given, **probes})
            return there.error is None or (there.place, there.names) != (here.place, here.names)

        needed = list(here.discrete)
        if not needed or not settled(needed):
            raise told_latent(spot_of(here.error)) from here.error
        alone = next((n for n in reversed(needed) if settled([n])), None)
        if alone is not None:
            needed = [alone]
        for name in list(needed) if alone is None else ():
            if len(needed) > 1 and settled([n for n in needed if n != name]):
                needed.remove(name)
    site = needed[0]
    shape, dtype, bounds = here.discrete[site]
    spot = spot_of(here.error)
    where = "" if spot is None else f" ({spot.told})"
    if isinstance(bounds, str):
        raise ModelError(
            f"Python asks for the value of {site!r}{where}, and {bounds}: so its ways cannot be told apart. "
            f"Give it a support with fixed bounds, such as Categorical or Poisson"
        ).at(None if spot is None else (spot.file, spot.line), "value-of-a-latent")
    low, high = bounds
    asked = Asked(site, shape, dtype, low, high)
    if shape and not asked.listed:
        raise ModelError(
            f"Python asks for the value of {site!r}{where}, an array of shape {shape}: there are more than "
            f"{MOST_LISTED} combinations of its elements. Draw them one by one, "
            f'`sample(f"{site}[{{i}}]", …)`, so that each is a decision of its own'
        ).at(None if spot is None else (spot.file, spot.line), "value-of-a-latent")
    return asked


def _probe(read: tuple[tuple[int, ...], Any, Any]) -> Any:
    shape, dtype, bounds = read
    low = 0 if isinstance(bounds, str) else bounds[0]
    # one above the least: sizes of 0 would end the run for another reason, which would count as going on
    high = low if isinstance(bounds, str) or bounds[1] == low else low + 1
    return np.full(shape, high, dtype)[()]
