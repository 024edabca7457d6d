"""Quantities derived from the draws of a run, kept with it and grown with its draws."""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.convergence import scalar_stat
from gibbsite.diagnostics.measures.moments import SiteMoments
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.errors import ExpressionError, UnknownNameError
from gibbsite.sampling.derived.expression import Expression, Shape, parse
from gibbsite.sampling.derived.interval import chosen
from gibbsite.storage.draws import Part, label_of

_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)(.*)", re.DOTALL)
# Longer runs are measured by their moments while they go on, as sites are.
_EXACT = 60_000
_LISTED = 24
_SHARES_SHOWN = 4
_MOST = 50


def given_name(name: str, text: str) -> str | None:
    """The name that somebody gave to an expression, of the one that it is kept under; None for its own
    text."""
    own = " ".join(text.split())
    return None if name in (own, f"({own})") else name


class Quantity:
    """A quantity of every draw: `name`, the expression's `text`, and its `values` `[chain, draw, *shape]`."""

    def __init__(self, name: str, expression: Expression):
        self.name, self.text, self.expression = name, expression.text, expression
        self._part, self._moments = Part(0), SiteMoments(expression.shape)
        self._stats: tuple[int, list[ScalarStat]] = (-1, [])
        self._chains = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its value in one draw."""
        return self.expression.shape

    def grow(self, draws: Mapping[str, np.ndarray], steps: int) -> None:
        """Take in what `draws` hold beyond what was seen, up to `steps`."""
        start = self._part.steps
        self._chains = next((np.shape(draws[n])[0] for n in self.expression.sites), 0)
        while start < steps:
            end = min(steps, start + max(1, 2_000_000 // max(1, self._chains * int(np.prod(self.shape)))))
            new = self.expression.of({n: draws[n][:, start:end] for n in self.expression.sites})
            by_step = np.moveaxis(new, 1, 0)
            self._part.append({"value": by_step}, end - start)
            self._moments.update(by_step)
            start = end

    @property
    def values(self) -> np.ndarray:
        """Of all draws so far."""
        read = self._part.read()
        return read["value"] if read else np.zeros((self._chains, 0, *self.shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def stats(self, ended: bool = False) -> list[ScalarStat]:
        """The measures of its scalars, of a large array those of the worst."""
        values, steps = self.values, self._part.steps
        if not steps or (not ended and steps < 1.1 * self._stats[0]) or steps == self._stats[0]:
            return self._stats[1]
        found = []
        for k in self._moments.worst(_LISTED):
            index = tuple(int(i) for i in np.unravel_index(int(k), self.shape))
            x = values[(..., *index)]
            if x.size > _EXACT and not ended:
                found += self._moments.stats(self.name, [k], x.dtype.kind in "iub")
            else:
                found.append(scalar_stat(label_of(self.name, index), self.name, index, x))
        self._stats = steps, found
        return found

    def _shares(self, pooled: np.ndarray) -> str:
        """How often what each whole number stands for is drawn, the most frequent first; empty of amounts."""
        found, counts = np.unique(pooled, return_counts=True)
        called = getattr(self.expression, "called", ())
        if not called:
            return ""
        first = np.argsort(-counts, kind="stable")[:_SHARES_SHOWN]
        named = [called[int(v)] for v in found[first]]
        parts = [f"{n} in {100 * c / counts.sum():.3g} %" for n, c in zip(named, counts[first], strict=True)]
        return ", ".join(parts) + ", …" * (len(found) > _SHARES_SHOWN)

    def __repr__(self) -> str:
        values = self.values
        if not values.size:
            return f"<{self.name}: no draws yet>"
        if self.shape:
            return f"<{self.name}: shape {self.shape}, {values.shape[0]} chains × {values.shape[1]} draws>"
        pooled = values.ravel()
        if values.dtype == bool:
            return f"<{self.name}: true in {100 * pooled.mean():.1f} % of the draws>"
        if values.dtype.kind in "iu" and (shares := self._shares(pooled)):
            return f"<{self.name}: {shares} of the draws>"
        lost = float(np.mean(~np.isfinite(pooled)))
        if lost == 1 and self.expression.may_be_absent:
            return f"<{self.name}: in no draw, as no structure has all that it reads, or it is not finite>"
        if lost and not self.expression.may_be_absent:
            return f"<{self.name}: not finite in {100 * lost:.3g} % of the draws>"
        interval, pooled = chosen(), pooled[np.isfinite(pooled)]
        low, high = interval.of(pooled)
        absent = f"; absent in {100 * lost:.3g} % of the draws" if lost else ""
        return (
            f"<{self.name}: mean {pooled.mean(dtype=float):.4g}, median {np.median(pooled):.4g}, "
            f"{interval} {float(low):.4g} to {float(high):.4g}{absent}>"
        )


class Derived:
    """The quantities of one run, by name; safe from any thread. `parse` makes an expression of a text."""

    def __init__(self, parse: Callable[[str, Mapping[str, Shape]], Expression] = parse) -> None:
        self._held: dict[str, Quantity] = {}
        self._parse = parse
        self._lock = threading.RLock()

    def add(
        self,
        text: str,
        name: str | None,
        draws: Mapping[str, np.ndarray],
        steps: int,
        sites: Mapping[str, Shape],
    ) -> Quantity:
        """Parse `text`, or `name = text`, and evaluate it. Raises `ExpressionError`."""
        if name is None:
            match = _NAMED.fullmatch(text) if isinstance(text, str) else None
            name = match[1] if match else None
            if match:
                text = match[2]
        if not isinstance(text, str):
            raise ExpressionError(f"an expression is a text, not {type(text).__name__}", "")
        text = text.strip()
        name = " ".join(text.split()) if name is None else name
        with self._lock:
            known = {n: q for n, q in self._held.items() if n != name}
            if name in sites:
                raise ExpressionError(f"{name!r} is a site: choose another name for what is derived", text)
            if name not in self._held and len(self._held) >= _MOST:
                raise ExpressionError(f"a run keeps {_MOST} derived quantities at most; forget some", text)
            told = {n: Shape(q.shape, [None] * len(q.shape)) for n, q in known.items()}
            parsed = self._parse(text, {**sites, **told})
            if name == parsed.text and parsed.shape and not name.isidentifier():
                name = f"({name})"  # so that an index belongs to all of it
            found = Quantity(name, parsed)
            self._held[name] = found
            if steps:
                self._grow(draws, steps)
        return found

    def remove(self, name: str) -> None:
        """Forget a quantity, and those that read it. Raises `UnknownNameError`."""
        with self._lock:
            if name not in self._held:
                raise UnknownNameError("derived quantity", name, self._held)
            gone = {name}
            for n, q in self._held.items():  # what reads others stands after them
                if gone & set(q.expression.sites):
                    gone.add(n)
            self._held = {n: q for n, q in self._held.items() if n not in gone}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def quantities(self, draws: Mapping[str, np.ndarray], steps: int) -> dict[str, Quantity]:
        """All of them, up to so many draws."""
        with self._lock:
            if steps:
                self._grow(draws, steps)
            return dict(self._held)

    def _grow(self, draws: Mapping[str, np.ndarray], steps: int) -> None:
        have = dict(draws)
        for name, quantity in self._held.items():
            quantity.grow(have, steps)
            have[name] = quantity.values

    def facts(self) -> list[list[str]]:
        """Names and texts, for a checkpoint."""
        with self._lock:
            return [[n, q.text] for n, q in self._held.items()]
