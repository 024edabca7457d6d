"""The ways through a model, and which of them is proposed from which: a tree that grows as it is asked.

Proposals are read off one random number of 32 bits: every way that can be proposed from another has an
interval of whole numbers of its own, which depends on nothing but the two. So what a chain draws does not
depend on which ways are known already.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions import Distribution, ImproperUniform
from numpyro.primitives import Messenger

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution, feasible
from gibbsite.errors import ModelError
from gibbsite.structure.asking import (
    Asked,
    Undecided,
    decided,
    decided_by,
    first_asked,
    shapes_of,
)

Way = tuple[tuple[str, Any], ...]
"""The sites that were asked for with their values, in the order of asking."""

ALL = 1 << 32
MOST_DECISIONS = 200
"""Values that one way may ask for. A program that goes on asking has not ended by then with a probability
that no run will see, or does not end."""
_FEW = 8
# values of a range without end of which a new decision is drawn: what is left of its prior beyond is reached
# step by step
_LEFT_OUT = 2.0**-20
_UNIFORM = 0.1
# one of so many moves draws what is asked for afterwards anew, where it is another choice
_ANEW = 4
_MOST_TERMS = 10_000


def named(way: Way) -> str:
    """`K = 3, c = 1`."""
    return ", ".join(f"{n} = {_shown(v)}" for n, v in way)


def _shown(value: Any) -> str:
    return "[" + " ".join(map(str, value)) + "]" if isinstance(value, tuple) else str(value)


def moved_with(way: Way, other: Way) -> set[str]:
    """The continuous sites of which something holds in one of two ways and not in the other: their values
    cannot be kept in a move between these."""
    apart = {n for a, b in ((way, dict(other)), (other, dict(way))) for n, v in a if b.get(n) != v}
    return {site for name in apart for site in decided_by(name)}


class _Reached(Exception):
    """A run has come to the site that was looked for."""

    def __init__(self, fn: Any):
        super().__init__()
        self.fn = fn


class _Until(Messenger):
    """Ends a run at a site, with its distribution."""

    def __init__(self, fn: Any, site: str):
        super().__init__(fn)
        self.site = site

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] == self.site:
            raise _Reached(msg["fn"])


def _somewhere(fn: Any) -> Any:
    """`fn`, with some value of what cannot be drawn, since its prior is improper."""

    def value(msg: dict[str, Any]) -> Any:
        flat = isinstance(msg.get("fn"), Distribution) and isinstance(
            base_distribution(msg["fn"]), ImproperUniform
        )
        return feasible(msg) if flat else None

    return handlers.substitute(fn, substitute_fn=value)


class Spread:
    """Uniform numbers for one of several chains, `c` of `total`: of the first numbers of all there is one in
    each `total`-th part of what there may be, and so of the second and of all others (McKay, Beckman and
    Conover 1979, "A comparison of three methods for selecting values of input variables in the analysis of
    output from a computer code"). Chains that begin far apart tell of modes that moves do not join."""

    def __init__(self, seed: int, c: int, total: int):
        self._own, self._of_all = np.random.default_rng([seed, c]), np.random.default_rng(seed)
        self._at, self._total = c, total

    def random(self) -> float:
        """The next."""
        return float(self._of_all.permutation(self._total)[self._at] + self._own.random()) / self._total


class Ways:
    """All ways through `fn(*args, **kwargs)`."""

    def __init__(self, fn: Callable, args: tuple, kwargs: Mapping[str, Any]):
        self.fn, self.args, self.kwargs = fn, args, dict(kwargs)
        self._nodes: dict[Way, Asked | None] = {}
        self.barred: dict[Way, str] = {}  # by a factor of minus infinity, which has that name
        self._runs: dict[Any, tuple[str, ...]] = {}  # the statements that runs came to, by what was given
        self._fills: dict[Way, tuple[list[Any], np.ndarray]] = {}
        self.located = lru_cache(maxsize=None)(self._located)
        self.spans = lru_cache(maxsize=None)(self._spans)

    def values(self, way: Way) -> dict[str, Any]:
        """The values of a way, or of its first steps, by site, as the model sees them."""
        return {n: self._asked(way[:i]).array(v) for i, (n, v) in enumerate(way)}

    def model(self, way: Way) -> Callable:
        """The static model of a way."""
        return decided(self.fn, self.values(way))

    def node(self, before: Way) -> Asked | None:
        """What is asked for after these; None where the model then runs through."""
        if before not in self._nodes:
            if len(before) > MOST_DECISIONS:
                told = named(before[:3])
                raise ModelError(
                    f"the model asked for the values of more than {MOST_DECISIONS} draws, {told}, … to "
                    f"{named(before[-2:-1])}: a loop or recursion that does not end? Let it end with "
                    f"probability one, soon"
                ).at(self._asked(before[:-1]).line, "loop-without-end")
            known = self.values(before)
            barred = partial(self.barred.__setitem__, before)
            self._nodes[before] = first_asked(self.fn, self.args, self.kwargs, known, self._runs, barred)
        return self._nodes[before]

    def _asked(self, before: Way) -> Asked:
        found = self.node(before)
        assert found is not None
        return found

    def growing(self, way: Way) -> set[str]:
        """The discrete latents of a way that another number of elements belongs to where a number that was
        asked for is one more or, at its end, one less."""
        here, found = shapes_of(self.fn, self.args, self.kwargs, self.values(way)), set()
        for i, (name, value) in enumerate(way):
            node = self._asked(way[:i])
            if node.shape or (node.high is not None and node.high - node.low < 2):
                continue
            other = (*way[:i], (name, value + 1 if node.has(value + 1) else value - 1))
            while (later := self.node(other)) is not None:
                kept = dict(way).get(later.site)
                other = (*other, (later.site, later.low if kept is None or not later.has(kept) else kept))
                if len(other) > len(way) + _FEW:
                    break  # a recursion: what is of another size there has another name, too
            there = shapes_of(self.fn, self.args, self.kwargs, self.values(other))
            found |= {n for n in here if n in there and here[n] != there[n]}
        return found

    def fill(self, before: Way) -> tuple[list[Any], np.ndarray]:
        """What a decision that was not there is drawn from in a proposal: its values, and their cumulated
        probabilities: those of the prior, mixed with some uniform ones. Where the prior depends on other
        draws, it is that at fixed ones: a proposal may be anything."""
        if before not in self._fills:
            node = self._asked(before)
            self._fills[before] = self._filled(node, before)
        return self._fills[before]

    def _filled(self, node: Asked, before: Way) -> tuple[list[Any], np.ndarray]:
        if decided_by(node.site):
            return [0, 1], np.array([0.5, 1.0])
        fn = self._distribution(node, before)

        def mass(values: list[Any]) -> np.ndarray:
            given = np.stack([np.asarray(v, node.dtype).reshape(node.shape) for v in values])
            logs = np.asarray(fn.log_prob(given), np.float64)
            found = np.exp(logs.reshape(len(values), -1).sum(axis=1))
            return np.where(np.isfinite(found), found, 0.0)

        if node.high is not None and (node.listed or node.high - node.low < _MOST_TERMS):
            values = list(node.values())
            prior = mass(values)
            total = prior.sum()
            prior = prior / total if total > 0 else np.full(len(values), 1 / len(values))
            share = (1 - _UNIFORM) * prior + _UNIFORM / len(values)
        else:
            room, prior, values = 16, np.zeros(0), []
            while room <= _MOST_TERMS and prior.sum() < 1 - _LEFT_OUT:
                values = list(range(node.low, node.low + room))
                prior, room = mass(values), room * 2
            if prior.sum() <= 0:
                prior = np.exp2(-np.arange(1.0, len(values) + 1))
            last = int(np.flatnonzero(prior > 0)[-1]) + 1
            values, share = values[:last], prior[:last] / prior.sum()
        return values, np.cumsum(share) / share.sum()

    def _distribution(self, node: Asked, before: Way) -> Any:
        """The site's distribution, where other draws are fixed ones from the prior."""
        run = _Until(decided(self.fn, self.values(before)), node.site)
        with handlers_alone:
            try:
                handlers.seed(_somewhere(run), jax.random.key(0))(*self.args, **self.kwargs)
            except _Reached as found:
                return base_distribution(found.fn)
        raise ModelError(
            f"the site {node.site!r} is there in one run of the model and not in the next: take Python's "
            f"random numbers, counters and global state out of it"
        )

    # proposals

    def _options(self, node: Asked, value: Any) -> list[Any]:
        """The values that one decision may change to, equally likely each; None: it stays."""
        if node.shape:
            flat = list(value)
            return [
                None if other is None else (*flat[:i], other, *flat[i + 1 :])
                for i, v in enumerate(flat)
                for other in self._neighbours(node, v)
            ]
        return self._neighbours(node, value)

    @staticmethod
    def _neighbours(node: Asked, v: int) -> list[Any]:
        if node.high is not None and node.high - node.low < _FEW:
            return [w for w in range(node.low, node.high + 1) if w != v]
        return [
            v - 1 if v > node.low else None,
            v + 1 if node.high is None or v < node.high else None,
        ]

    def _changes(self, way: Way) -> Iterator[tuple[int, Any, int, int]]:
        """All ways to change one decision: its place, the new value, and the interval of numbers that choose
        it."""
        each = ALL // len(way)
        for i, (_, value) in enumerate(way):
            options = self._options(self._asked(way[:i]), value)
            if not options:
                continue
            width = each // len(options)
            for k, new in enumerate(options):
                yield i, new, i * each + k * width, width

    def _located(self, way: Way, u: int) -> tuple[int, int, Way | None]:
        """The interval around the number `u` from which one way is proposed: its beginning, its width and
        that way; None where the proposal is to stay."""
        at = 0
        for i, new, low, width in self._changes(way):
            if at <= u < low:
                return at, low - at, None
            at = low + width
            if low <= u < at:
                return (low, width, None) if new is None else self._followed(way, i, new, low, width, u)
        return at, ALL - at, None

    def _followed(
        self, way: Way, i: int, new: Any, low: int, width: int, u: int
    ) -> tuple[int, int, Way | None]:
        """As `_located`, where the decision at `i` is `new`: what is asked for afterwards stays as `_parts`
        tells, and is drawn where it does not."""
        parts = self._parts(way, i, new, low, width)
        stays, low, width = next(p for p in parts if p[1] <= u < p[1] + p[2])
        here = (*way[:i], (way[i][0], new))
        while (node := self.node(here)) is not None:
            if (value := stays(node)) is not None:
                here = (*here, (node.site, value))
                continue
            if width <= 1:  # there is no telling ways apart beyond this
                return low, width, None
            values, edges = self._edges(here, low, width)
            k = int(np.searchsorted(edges, u, side="right")) - 1
            here = (*here, (node.site, values[k]))
            low, width = int(edges[k]), int(edges[k + 1] - edges[k])
        return low, width, here

    def _parts(
        self, way: Way, i: int, new: Any, low: int, width: int
    ) -> list[tuple[Callable[[Asked], Any], int, int]]:
        """What tells the value that a later decision keeps where the one at `i` becomes `new` (None: none),
        by the parts of the interval.

        It is the same value; but where that becomes another choice, also, as often, the same thing by its new
        number; and, in one of `_ANEW`, none. Tables of a restaurant are numbered as they are opened: a guest
        who leaves for one of his own moves the numbers of all that were opened later.
        """
        kept, old = dict(way), way[i][1]
        before = {name: self._asked(way[:k]) for k, (name, _) in enumerate(way)}
        here = before[way[i][0]]

        def same(node: Asked) -> Any:
            return kept[node.site] if node.site in kept and node.has(kept[node.site]) else None

        def renumbered(node: Asked) -> Any:
            was = before.get(node.site)
            if was is None or (*node.shape, *was.shape, *here.shape):
                return same(node)
            if node.high is None or was.high is None:
                return same(node)
            value, more = kept[node.site], node.high - was.high
            value += 1 if more > 0 and value >= new else -1 if more < 0 and value > old else 0
            return value if node.has(value) else None

        if not self._other_choice(way, i, new):
            return [(same, low, width)]
        anew = width // _ANEW
        half = (width - anew) // 2
        rules = (same, half), (renumbered, width - anew - half), (lambda node: None, anew)
        parts = []
        for stays, share in rules:
            parts.append((stays, low, share))
            low += share
        return [p for p in parts if p[2]]

    def _other_choice(self, way: Way, i: int, new: Any) -> bool:
        """Whether what is asked for next, if it stays, has other values to choose from than it had."""
        here = (*way[:i], (way[i][0], new))
        for k in range(i + 1, len(way)):
            node, before = self.node(here), self._asked(way[:k])
            if node is None or node.site != before.site:
                return False
            if node != before:
                return True
            here = (*here, way[k])
        return False

    def _edges(self, here: Way, low: int, width: int) -> tuple[list[Any], np.ndarray]:
        values, cumulated = self.fill(here)
        inner = np.floor(cumulated[:-1] * width).astype(np.int64)
        return values, low + np.concatenate([[0], inner, [width]])

    def _spans(self, way: Way, other: Way) -> list[tuple[int, int]]:
        """The intervals of numbers that propose `other` from `way`, as their beginnings and widths."""
        first = next((i for i, (a, b) in enumerate(zip(way, other, strict=False)) if a != b), None)
        if first is None or way[first][0] != other[first][0]:
            return []
        value = other[first][1]
        found = ((at, share) for i, new, at, share in self._changes(way) if i == first and new == value)
        low, width = next(found, (0, 0))
        parts = self._parts(way, first, value, low, width) if width else []
        spans = [self._span(other, first, *part) for part in parts]
        return [(low, width) for low, width in spans if width]

    def _span(
        self, other: Way, first: int, stays: Callable[[Asked], Any], low: int, width: int
    ) -> tuple[int, int]:
        """The part of an interval that proposes `other`, where decisions behind the `first` change keep what
        `stays` tells; of width 0 where none does."""
        for k in range(first + 1, len(other)):
            node, value = self._asked(other[:k]), other[k][1]
            if (kept := stays(node)) is not None:
                if kept != value:
                    return 0, 0
                continue
            if width <= 1:
                return 0, 0
            values, edges = self._edges(other[:k], low, width)
            if value not in values:
                return 0, 0
            at = values.index(value)
            low, width = int(edges[at]), int(edges[at + 1] - edges[at])
        return low, width

    def stays(self, way: Way) -> list[tuple[int, int]]:
        """The intervals of numbers from which the proposal is to stay, but for want of numbers to tell ways
        apart."""
        found, at = [], 0
        for _, new, low, width in self._changes(way):
            if low > at:
                found.append((at, low - at))
            if new is None:
                found.append((low, width))
            at = low + width
        return [*found, (at, ALL - at)] if at < ALL else found

    def proposed(self, way: Way, u: int) -> Way | None:
        """The way that the number `u` proposes from this one; None where that is to stay."""
        return self.located(way, u)[2]

    def drawn(
        self, numbers: "np.random.Generator | Spread", given: Callable[[Asked], Any] = lambda node: None
    ) -> Way:
        """A way from the prior, as far as proposals know it, with what is `given`, where that is not None."""
        here: Way = ()
        while (node := self.node(here)) is not None:
            value = given(node)
            if value is None:
                values, cumulated = self.fill(here)
                k = min(int(np.searchsorted(cumulated, numbers.random(), side="right")), len(values) - 1)
                value = values[k]
            here = (*here, (node.site, value))
        return here

    def forward(self, key: Any) -> tuple[Way, dict[str, Any]]:
        """A draw from the prior, as Python runs the model, with nothing known but the data: its way, and the
        values of all that it came to. What continuous draws decide is asked with their values."""
        with handlers_alone:
            seen = handlers.trace(handlers.seed(self.fn, key)).get_trace(*self.args, **self.kwargs)
        values = {
            n: np.asarray(s["value"])
            for n, s in seen.items()
            if s["type"] == "sample" and not s["is_observed"] and s["fn"] is not None
        }
        here: Way = ()
        while (node := self.node(here)) is not None:
            if decided_by(node.site):
                value: Any = int(self._holds(node, here, values))
            else:
                value = tuple(values[node.site].ravel().tolist()) if node.shape else int(values[node.site])
            here = (*here, (node.site, value))
        return here, values

    def _holds(self, node: Asked, before: Way, values: Mapping[str, Any]) -> bool:
        """Whether a decision holds where all draws have these values."""
        known = decided(self.fn, self.values(before), decided_by(node.site))
        with handlers_alone:
            try:
                handlers.seed(handlers.substitute(known, data=dict(values)), 0)(*self.args, **self.kwargs)
            except Undecided as found:
                return bool(found.value)
        raise AssertionError(f"{node.site} is not decided where {named(before)}")

    def most(self, way: Way) -> int:
        """How many combinations there are of the values of what is asked for along a way, about as many as
        there may be ways; 0 where one has no end."""
        nodes = [self._asked(way[:i]) for i in range(len(way))]
        spans = (0 if n.high is None else (n.high - n.low + 1) ** math.prod(n.shape) for n in nodes)
        return math.prod(spans)

    def all_of(self, most: int) -> list[Way] | None:
        """All ways, where there are at most so many; None where there are more."""
        found: list[Way] = []
        stack: list[Way] = [()]
        while stack:
            before = stack.pop()
            node = self.node(before)
            if node is None:
                found.append(before)
            elif node.high is None or len(before) > most:
                return None
            else:
                values = [v for v, _ in zip(node.values(), range(most + 1), strict=False)]
                stack.extend((*before, (node.site, v)) for v in reversed(values))
            if len(found) + len(stack) > most:
                return None
        return found
