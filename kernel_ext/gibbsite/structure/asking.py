"""Where Python asks a discrete draw for its value: the site, and the values that it can have; or asks whether
something holds of continuous ones: a decision, which holds or does not.
"""

import itertools
import operator
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import constraints
from numpyro.primitives import Messenger

from gibbsite.density.build import changing
from gibbsite.density.handlers.scopes import GIVEN, under
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.arguments import as_numpy
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.collect import (
    TRACER_ERRORS,
    base_distribution,
    is_drawn,
    run_model,
    wants_value,
)
from gibbsite.errors import GibbsiteError, ModelError, OptionError, Question
from gibbsite.explain.latent import told_latent
from gibbsite.explain.spot import spot_of
from gibbsite.ground.arguments import shown
from gibbsite.programs.jaxpr.compat import duplicated, is_no_array, is_traced

MOST_LISTED = 64
"""Values of an array site, all combinations of its elements, up to which each is a way."""


HOLDS = "?"
"""Ends the name of a decision: `x?` is the first that continuous `x` makes, `x?[1]` the next, `x+y?` one of
two sites."""


def decided_by(name: str) -> tuple[str, ...]:
    """The sites that a decision is made of; none for the name of a site."""
    sites, mark, _ = name.partition(HOLDS)
    return tuple(sites.split("+")) if mark else ()


SCHEDULE = re.compile(r"^\s*Structure\s+(?P<sites>[^>]+?)\s*(?:>\s*(?P<inner>.+))?$", re.DOTALL)
"""`Structure K > NUTS [mu g]`: what chains go between the values of, and what updates the sites that a
structure has."""


def named_in(schedule: str) -> tuple[str, ...]:
    """What stands between `Structure` and `>` in a schedule's text."""
    found = SCHEDULE.match(schedule)
    return () if found is None else tuple(re.findall(r"[^\s\[\],]+", found["sites"]))


class Undecided(Question):
    """Python asks whether something holds of continuous draws, and nobody said: a decision, by its name, and
    the value, traced or not, that would tell."""

    def __init__(self, name: str, value: Any = None):
        super().__init__(name)
        self.name, self.value = name, value


class Deciding:
    """A continuous draw, or what Python computed of some, traced: asked whether it holds, it says what
    `answer(value, sites)` does. Functions of JAX see the traced value alone."""

    __array_ufunc__ = None  # NumPy's numbers leave it to what stands on their right
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        value: Any,
        sites: frozenset[str],
        answer: Callable[[Any, frozenset[str], Hashable], bool],
        words: Hashable,
    ):
        """`words`: what was computed, by which it is known again; None where nobody knows."""
        self._value, self._sites, self._answer, self._words = value, sites, answer, words

    def __jax_array__(self) -> Any:
        return self._value

    def __bool__(self) -> bool:
        # NumPyro looks at parameters before they reach a statement: that decides nothing
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "numpyro":
            return is_traced(self._value) or bool(self._value)
        return self._answer(self._value, self._sites, self._words)

    def _of(self, function: Callable[..., Any], *operands: Any, called: str | None = None) -> Any:
        """What a function makes of traced values, as one that decides by all of their sites."""
        sites = [o._sites for o in operands if isinstance(o, Deciding)]
        found = function(*map(traced, operands))
        if found is NotImplemented or not hasattr(found, "dtype"):
            return found
        words = None if called is None else _in_words(called, operands)
        return Deciding(found, frozenset().union(*sites), self._answer, words)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._value, name)
        if not callable(found):
            return found
        return lambda *a, **k: self._of(lambda _, *xs: found(*xs, **k), self, *a)

    def __getitem__(self, at: Any) -> Any:
        return self._of(operator.getitem, self, at, called="at")

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __index__(self) -> int:
        return operator.index(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self._value, *args, **kwargs)


_ASIDE = {"gt": "lt", "le": "ge"}
"""Comparisons that are another one with its sides changed."""
_NOT = {"ge": "lt", "ne": "eq"}
"""Comparisons that hold where another one does not."""


def _in_words(called: str, operands: Sequence[Any]) -> Hashable:
    """What an operation computes, by which it is known again; None where an operand is not known."""
    each = [o._words if isinstance(o, Deciding) else _constant(o) for o in operands]
    if any(w is None for w in each):
        return None
    if called in _ASIDE:
        called, each = _ASIDE[called], each[::-1]
    return ("not", (_NOT[called], *each)) if called in _NOT else (called, *each)


def _constant(value: Any) -> Hashable:
    if is_traced(value) or not isinstance(value, int | float | np.ndarray | np.generic | jax.Array):
        return None
    found = np.asarray(value, np.float64)
    return found.shape, found.tobytes()


def traced(value: Any) -> Any:
    """What stands behind a value that may decide."""
    return value._value if isinstance(value, Deciding) else value


def _operator(fn: Callable[..., Any], called: str, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Deciding, *other: Any) -> Any:
        return self._of(fn, *((*other, self) if reflected else (self, *other)), called=called)

    return method


def _operators() -> None:
    """Python's arithmetic and comparisons, of which the result decides as well."""
    for name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Deciding, f"__{name}__", _operator(getattr(operator, name), name))
    both = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor")
    for name in both:
        fn, word = getattr(operator, name), name.rstrip("_")
        setattr(Deciding, f"__{word}__", _operator(fn, word))
        setattr(Deciding, f"__r{word}__", _operator(fn, word, reflected=True))


_operators()


@contextmanager
def _unlooked() -> Iterator[None]:
    """NumPyro looks at parameters, as numbers, before they reach a statement, and here some decide."""
    with handlers_alone, numpyro.validation_enabled(False):
        yield


_STRUCTURE = "the structure"
"""What holds the value of a decision, in place of an argument."""


class Decided(Messenger):
    """Observes sites at values that stay NumPy's, so that Python can decide by them while all else is traced.

    As `numpyro.handlers.condition`, whose values become traced where a compiled run makes arrays of them.
    Where `values` has decisions, the continuous draws that these are made of decide, and those `deciding`
    (None: all): with a factor that holds what `values` says, and `Undecided` where they say nothing.
    """

    def __init__(self, fn: Any, values: Mapping[str, Any], deciding: Sequence[str] | None = ()):
        super().__init__(fn)
        self.values = values
        made_of = {site for n in values for site in decided_by(n)}
        self._deciding = None if deciding is None else made_of | {*deciding}
        self._asked: dict[str, int] = {}
        self._told: dict[Hashable, bool] = {}
        self._latent: set[str] = set()
        self._holding = ""
        self._within = ExitStack()

    def __enter__(self) -> Any:
        if self._deciding != set():
            self._within.enter_context(_unlooked())
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        self._within.close()
        super().__exit__(*problem)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give the value."""
        if msg["type"] not in ("sample", "deterministic"):
            return
        if self._deciding != set():  # what decides is Python's affair alone
            msg["value"] = traced(msg["value"])
            if msg["type"] == "sample":
                msg["args"] = tuple(map(traced, msg["args"]))
                msg["fn"] = _with_traced(msg["fn"])
                # handlers further out may give it a value: it decides all the same
                wanted = self._deciding is None or msg["name"] in self._deciding
                if wanted and not msg["is_observed"] and not msg["fn"].support.is_discrete:
                    self._latent.add(msg["name"])
        if msg["name"] == self._holding:
            msg["infer"] = {**msg["infer"], GIVEN: _STRUCTURE}
        if msg["type"] == "sample" and msg["name"] in self.values:
            msg["is_observed"], msg["value"] = True, self.values[msg["name"]]
            msg["infer"] = {**msg["infer"], GIVEN: _STRUCTURE}  # no datum: it is not predicted

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Give it back as it was: handlers further out may have made an array of it."""
        if msg["type"] != "sample":
            return
        if msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
        elif msg["name"] in self._latent:
            words = ("value", msg["name"])
            msg["value"] = Deciding(msg["value"], frozenset({msg["name"]}), self._answer, words)

    def _answer(self, value: Any, sites: frozenset[str], words: Hashable) -> bool:
        if np.shape(value):
            return bool(value)  # refused in JAX's words
        opposite = isinstance(words, tuple) and words[0] == "not"
        question = words[1] if opposite else words  # type: ignore[index]
        if question is not None and question in self._told:
            return self._told[question] != opposite  # asked before, and no decision of its own
        stem = "+".join(sorted(sites)) + HOLDS
        count = self._asked.get(stem, 0)
        self._asked[stem] = count + 1
        name = f"{stem}[{count}]" if count else stem
        if name not in self.values:
            raise Undecided(name, value)
        answer = bool(self.values[name])
        holds = jnp.asarray(value, bool) == answer
        self._holding = f"{name} is {int(answer)}"
        numpyro.factor(self._holding, jnp.where(holds, 0.0, -jnp.inf))
        if question is not None:
            self._told[question] = answer != opposite
        return answer


def _with_traced(fn: Any) -> Any:
    """A distribution whose parameters decide nothing."""
    leaves, tree = jax.tree.flatten(fn)
    if not any(isinstance(leaf, Deciding) for leaf in leaves):
        return fn
    return jax.tree.unflatten(tree, [traced(leaf) for leaf in leaves])


def decided(fn: Callable, values: Mapping[str, Any], deciding: Sequence[str] | None = ()) -> Callable:
    """`fn` with sites observed at values of NumPy's, and decisions made; `deciding`: see `Decided`."""
    return under(fn, lambda: Decided(None, values, deciding))


class _Asking(Messenger):
    """Asks for the values of some discrete draws, as Python does that decides by them."""

    def __init__(self, fn: Any, sites: Collection[str]):
        super().__init__(fn)
        self._sites = frozenset(sites)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] in self._sites and not msg["is_observed"]:
            for value in jnp.ravel(msg["value"]):
                int(value)


def asking(fn: Callable, sites: Collection[str]) -> Callable:
    """`fn`, in which Python asks for the values of some of its discrete draws."""
    return under(fn, lambda: _Asking(None, sites))


@dataclass(frozen=True)
class Asked:
    """A discrete site that Python asks for its value: `shape`, `dtype`, and the bounds of its elements, of
    which `high` is None where there is none; `listed`, where it has few values. Or a decision, which is 0 or
    1. `line` of the program is where it was asked for."""

    site: str
    shape: tuple[int, ...]
    dtype: Any
    low: int
    high: int | None
    line: tuple[str, int] | None = field(default=None, compare=False)

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

    def given(self, value: Any) -> Any:
        """A value that a person gave, as ways have it. Raises `OptionError` for one that it cannot have."""
        found = np.asarray(value)
        fits = found.dtype.kind in "iub" and found.shape in ((), self.shape)
        if not fits or not self.has(whole := np.broadcast_to(found, self.shape)):
            raise OptionError(f"{self.site!r} cannot be {shown(found.tolist())}")
        flat = tuple(int(v) for v in whole.ravel())
        return flat if self.shape else flat[0]

    def array(self, value: Any) -> Any:
        """A value as the model sees it."""
        return np.asarray(value, self.dtype).reshape(self.shape)[()]


class _Seen(Messenger):
    """Notes the discrete latents of a run, how many statements it came to, and a factor that leaves the data
    no density, whatever is drawn."""

    def __init__(self, fn: Any):
        super().__init__(fn)
        self.discrete: dict[str, Any] = {}
        self.continuous: list[str] = []
        self.names: list[str] = []
        self.barred = ""

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] not in ("sample", "deterministic", "plate"):
            return
        self.names.append(msg["name"])
        factor = getattr(msg.get("fn"), "log_factor", None)
        counted = msg.get("mask") is None and msg.get("scale") is None
        if factor is not None and counted and not is_traced(factor) and np.sum(factor) == -np.inf:
            self.barred = msg["name"]
        if msg["type"] != "sample" or msg["is_observed"] or msg["fn"] is None:
            return
        if getattr(msg["fn"].support, "is_discrete", False):
            self.discrete[msg["name"]] = (msg["fn"], msg["value"])
        else:
            self.continuous.append(msg["name"])


@dataclass(frozen=True)
class _Stop:
    """How far an abstract run came: statements until then, the exception that ended it and its place, and a
    factor that is minus infinity, if there is one."""

    names: tuple[str, ...]
    discrete: Mapping[str, Any]
    continuous: tuple[str, ...]
    error: BaseException | None
    place: tuple[Any, ...] | None
    barred: str = ""

    @property
    def line(self) -> tuple[str, int] | None:
        """The file and line of its place."""
        return self.place and self.place[:2]

    @property
    def decision(self) -> Asked | None:
        """What continuous draws were asked to decide, if that ended it."""
        if not isinstance(self.error, Undecided):
            return None
        return Asked(self.error.name, (), np.dtype(np.int32), 0, 1, self.line)


def _stopped(
    fn: Callable,
    args: tuple,
    kwargs: Mapping[str, Any],
    given: Mapping[str, Any],
    deciding: Sequence[str] | None = (),
) -> _Stop:
    seen = _Seen(decided(fn, given, deciding))
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
        found.append(_Stop(tuple(seen.names), sites, tuple(seen.continuous), error, place, seen.barred))
        return 0

    jax.eval_shape(run)
    return found[0]


def shapes_of(
    fn: Callable, args: tuple, kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """The shapes of the discrete latents, where those in `given` are known: as far as the model runs."""
    with handlers_alone:
        return {n: shape for n, (shape, _, _) in _stopped(fn, args, kwargs, given).discrete.items()}


def _read(fn: Any, value: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Shape and dtype of a discrete site, and the bounds of its support or, in words, why it has none."""
    return tuple(np.shape(value)), np.dtype(value.dtype), _bounds(fn)


def _bounds(fn: Any) -> Any:
    support = base_constraint(base_distribution(fn).support)
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


def _check_same(runs: dict[Any, tuple[str, ...]], given: Mapping[str, Any], stop: _Stop) -> None:
    """Raise `ModelError` where a run with these values came to other statements before."""
    key = tuple((n, np.asarray(v).tobytes()) for n, v in sorted(given.items()))
    first = runs.setdefault(key, stop.names)
    if first != stop.names:
        other = next((n for n in [*first, *stop.names] if (n in first) != (n in stop.names)), None)
        what = "statements stand in this order" if other is None else f"{other!r} is there"
        raise changing(f"{what} in one run of the model and not in the next")


def first_asked(
    fn: Callable,
    args: tuple,
    kwargs: Mapping[str, Any],
    given: Mapping[str, Any],
    runs: dict[Any, tuple[str, ...]],
    barred: Callable[[str], None] = lambda factor: None,
) -> Asked | None:
    """The discrete latent whose value Python asks for first, or the decision of continuous ones, where those
    in `given` are known; None where it asks for none. Where a run that ends has a factor of minus infinity,
    whatever is drawn, `barred` is told its name.

    Which site is asked, through whatever NumPy and Python compute between, is what lets the run go further
    once it is known: the fewest such sites are looked for. Raises `ModelError` where what is asked for is
    neither, with its place; and where a run comes to other statements than one of `runs` before.
    """
    with handlers_alone:
        here = _stopped(fn, args, kwargs, given)
        arrays = any(isinstance(v, jax.Array) for v in jax.tree.leaves((args, dict(kwargs))))
        if arrays and here.error is not None and wants_value(here.error):
            # what is done with JAX's own arrays is traced: of data, NumPy has the numbers
            plain, named = jax.tree.map(as_numpy, (args, dict(kwargs)))
            there = _stopped(fn, plain, named, given)
            if there.error is None or wants_value(there.error):
                here, args, kwargs = there, plain, named
        _check_same(runs, given, here)
        if here.decision is not None or here.error is None:
            if here.error is None and here.barred:
                barred(here.barred)
            return here.decision
        if is_no_array(here.error):
            spot = spot_of(here.error)
            sites = ", ".join(dict.fromkeys(site for n in given for site in decided_by(n)))
            raise ModelError(
                f"a function of JAX does not take {sites}, by which Python decides"
                f"{'' if spot is None else f' ({spot.told})'}: give it jnp.asarray(…) of that"
            ).at(here.line, "decided-through-jax") from here.error
        if not wants_value(here.error):
            return None
        # NumPy computes with values where `jnp` would do: no decision, and said to be none
        if isinstance(here.error, jax.errors.TracerArrayConversionError):
            raise told_latent(spot_of(here.error)) from here.error

        def settled(names: list[str]) -> bool:
            probes = {n: _probe(here.discrete[n]) for n in names}
            there = _stopped(fn, args, kwargs, {**given, **probes})
            _check_same(runs, {**given, **probes}, there)
            # a second site or plate of one name ends the run before it is counted
            further = (there.place, there.names) != (here.place, here.names)
            return there.error is None or further or duplicated(there.error) is not None

        needed = list(here.discrete)
        if not needed or not settled(needed):
            # of all continuous draws, or of one where functions of JAX do not take others
            for deciding in (None, *([n] for n in here.continuous)):
                there = _stopped(fn, args, kwargs, given, deciding)
                if there.decision is not None and there.names == here.names:
                    return there.decision
            drawn = is_drawn(decided(fn, given), args, dict(kwargs))
            raise told_latent(spot_of(here.error), drawn) from here.error
        # one by itself has just been tried
        alone = needed[0] if len(needed) == 1 else next((n for n in reversed(needed) if settled([n])), None)
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
        ).at(here.line, "values-that-cannot-be-listed")
    low, high = bounds
    asked = Asked(site, shape, dtype, low, high, here.line)
    if shape and not asked.listed:
        raise ModelError(
            f"Python asks for the value of {site!r}{where}, an array of shape {shape}: there are more than "
            f"{MOST_LISTED} combinations of its elements. `jnp.where(condition, a, b)` keeps one model; or "
            f'draw them one by one, `sample(f"{site}[{{i}}]", …)`, so that each is a decision of its own'
        ).at(here.line, "values-that-cannot-be-listed")
    return asked


def _probe(read: tuple[tuple[int, ...], Any, Any]) -> Any:
    shape, dtype, bounds = read
    low = 0 if isinstance(bounds, str) else bounds[0]
    # one above the least: sizes of 0 would end the run for another reason, which would count as going on
    high = low if isinstance(bounds, str) or bounds[1] == low else low + 1
    return np.full(shape, high, dtype)[()]
