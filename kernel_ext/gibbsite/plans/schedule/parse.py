"""The text form of a schedule, and the data it becomes.

    Conjugate pis (*) ESlice mu (*) HMC(step_size=.05, num_steps=10) [a b] (*) 3 x Gibbs z

One update after another, joined by `(*)`. An update is a kernel, its options in parentheses, and a site or a
block of sites in brackets; `3 x` in front repeats it; `*` as the site means every latent that no other update
names. `random:` in front of it all visits the updates at random. AugurV2's names of kernels are accepted.

    Eliminate z > NUTS [w mu] (*) Conjugate tau

`Eliminate` sums discrete sites and integrates continuous ones out of the update to the right of `>`, exactly,
and redraws them right after it.

    Interleave(NUTS centred, NUTS non-centred) [mu tau theta]
    Interleave(Conjugate mu, NUTS [mu tau theta])

`Interleave` is for sites that more than one update moves: one after another in every sweep. Updates without
sites of their own move all of the block.
"""

import ast
import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gibbsite.errors import ScheduleError

REST = "*"
ELIMINATE = "Eliminate"
INTERLEAVE = "Interleave"
TEMPERED = "Tempered"
_CENTRED = re.compile(r"(?:non-)?centred\b")
_EXPLORED = re.compile(r"\(\s*(?=[^\W\d]\w*\s*(\(|\[|\*|['\"]|[^\W\d]))")  # a kernel and what it updates
_LONG_LINE = 400  # of a schedule, in an error
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)+'|\"(?:[^\"\\\n]|\\.)+\"")
_SITE = re.compile(r"[^\W\d][\w.]*(?:/[\w.]+)*(?:\[\d+\])*")


@dataclass(frozen=True)
class Update:
    """One update of a sweep: a kernel, the sites it updates together, its options, how often in a row.

    `eliminated` sites are summed or integrated out of its target and redrawn right after it. Of `Interleave`,
    `parts` are the updates that share its sites. `span` is where it stands in the text it was read from, for
    messages; it does not count for equality.
    """

    kernel: str
    sites: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()
    repeat: int = 1
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)
    eliminated: tuple[str, ...] = ()
    parts: "tuple[Update, ...]" = ()

    @property
    def label(self) -> str:
        """The sites as they are written: `z`, or `[a b]` for a block."""
        return _written(self.sites)

    @property
    def everything(self) -> tuple[str, ...]:
        """All sites that it gives new values: the eliminated ones, and those of its kernel."""
        return (*self.eliminated, *self.sites)

    def keeping(self, sites: Collection[str]) -> "tuple[Update, ...]":
        """The update of those of its sites that are among `sites`: none, or one."""
        left = tuple(s for s in self.eliminated if s in sites)
        own = tuple(s for s in self.sites if s in sites)
        parts = tuple(p for part in self.parts for p in part.keeping(sites))
        if len(parts) > 1:
            return (replace(self, sites=own, eliminated=left, parts=parts),)
        if parts:
            return (replace(parts[0], eliminated=left),)
        if own:
            return (replace(self, sites=own, eliminated=left),)
        return (Update("Gibbs", left),) if left else ()

    def __str__(self) -> str:
        options = ", ".join(f"{k}={_shown(v)}" for k, v in self.options)
        times = f"{self.repeat} x " if self.repeat != 1 else ""
        times += f"{ELIMINATE} {_written(self.eliminated)} > " if self.eliminated else ""
        if self.parts:
            return f"{times}{self.kernel}({', '.join(map(str, self.parts))})"
        if self.kernel == TEMPERED:
            explorer = dict(self.options).get("explorer", "NUTS")
            rest = "".join(f", {k}={_shown(v)}" for k, v in self.options if k != "explorer")
            options, label = f"{explorer} {self.label}{rest}", ""
        else:
            label = f" {self.label}"
        return f"{times}{self.kernel}{f'({options})' if options else ''}{label}"


@dataclass(frozen=True)
class Spec:
    """A schedule as data, before it meets a model: updates in order, or visited at random."""

    updates: tuple[Update, ...]
    random_scan: bool = False
    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return ("random: " if self.random_scan else "") + " (*) ".join(map(str, self.updates))


def update(
    kernel: str, *sites: str, repeat: int = 1, eliminate: str | Sequence[str] = (), **options: Any
) -> Update:
    """One update in Python: `update("HMC", "a", "b", step_size=0.05, num_steps=10)`.

    `eliminate` names sites to sum or integrate out of it.
    """
    eliminated = (eliminate,) if isinstance(eliminate, str) else tuple(eliminate)
    if not isinstance(kernel, str) or not all(isinstance(s, str) for s in sites):
        raise ScheduleError(f"update() takes the names of a kernel and of sites, got {(kernel, *sites)!r}")
    if not sites:
        raise ScheduleError(f"update({kernel!r}): which sites? Name at least one, or '*' for all the rest")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise ScheduleError(f"update({kernel!r}): repeat must be a positive integer, got {repeat!r}")
    return Update(kernel, tuple(sites), tuple(options.items()), repeat, eliminated=eliminated)


def _brief(kernel: str) -> str:
    return kernel if len(kernel) <= 60 else f"{kernel[:60]}…"


def at_caret(message: str, text: str, span: tuple[int, int] | None) -> ScheduleError:
    """An error that points into the text of the schedule."""
    if span is None or not text:
        return ScheduleError(message)
    start, stop = span
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first : len(text) if last < 0 else last]
    carets = "^" * max(1, min(stop, first + len(line)) - start)
    if len(line) > _LONG_LINE:  # what is near
        begin = max(first, start - _LONG_LINE // 2)
        line, first, carets = text[begin : begin + _LONG_LINE], begin, carets[: _LONG_LINE // 2]
    return ScheduleError(f"{message}\n  {line}\n  {' ' * (start - first)}{carets}")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing."""
    lowered = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f"; did you mean {lowered[found[0]]!r}?" if found else ""


def parse_schedule(text: str, namespace: Mapping[str, Any] | None = None) -> Spec:
    """Read the text form. `namespace` gives names in options their values (a proposal function, say).

    Raises `ScheduleError` with a caret under what could not be read.
    """
    return _Parser(text, namespace or {}).schedule()


class _Parser:
    def __init__(self, text: str, namespace: Mapping[str, Any]):
        self.text, self.namespace, self.at = text, namespace, 0

    def error(self, message: str, span: tuple[int, int] | None = None) -> ScheduleError:
        return at_caret(message, self.text, span or (self.at, self.at + 1))

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        self.skip()
        found = re.compile(pattern).match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def schedule(self) -> Spec:
        if not self.text.strip():
            raise ScheduleError("the schedule is empty; write for example 'Gibbs z (*) NUTS [a b]'")
        random_scan = self.take(r"random\s*:") is not None
        updates = [self.update()]
        while True:
            self.skip()
            if self.at == len(self.text):
                break
            if not self.take(r"\(\s*\*\s*\)"):
                raise self.error("expected '(*)' between two updates")
            updates.append(self.update())
        return Spec(tuple(updates), random_scan, self.text)

    def update(self) -> Update:
        self.skip()
        repeat, times = 1, self.take(r"(-?\d+(?:\.\d+)?)\s*[x×*](?=\s)")
        if times:
            span = times.span(1)
            if not times.group(1).isdigit() or int(times.group(1)) < 1:
                raise self.error("an update is repeated a positive whole number of times", span)
            repeat = int(times.group(1))
        kernel = self.take(_NAME)
        if not kernel:
            raise self.error("expected the name of a kernel, such as Gibbs, Conjugate or NUTS")
        spans = {"kernel": kernel.span()}
        if kernel.group().lower() == ELIMINATE.lower():
            return self.eliminating(repeat, kernel)
        if kernel.group().lower() == INTERLEAVE.lower():
            return self.interleaving(repeat, spans)
        options: tuple[tuple[str, Any], ...] = ()
        if kernel.group().lower() == TEMPERED.lower() and self.take(_EXPLORED):
            return self.tempering(repeat, spans)
        if self.text[self.at : self.at + 1] == "(" and not re.match(r"\(\s*\*\s*\)", self.text[self.at :]):
            options = self.options(kernel, spans)
        sites = self.sites(kernel.group(), spans)
        return Update(kernel.group(), sites, options, repeat, spans)

    def eliminating(self, repeat: int, word: re.Match[str]) -> Update:
        """What follows `Eliminate`: sites, `>`, and the update that they are summed out of."""
        spans: dict[str, tuple[int, int]] = {}
        left = self.sites(ELIMINATE, spans)
        if not self.take(">"):
            several = re.match(r"(?:\s*[^\W\d][\w.]*)+\s*>", self.text[self.at :])
            if several:
                names = f"{_written(left)} {several.group()[:-1].strip()}"
                raise self.error(f"several sites stand in brackets: '{ELIMINATE} [{names}] > …'")
            raise self.error(
                f"expected '>' and the update that {_written(left)} is summed out of, such as "
                f"'{ELIMINATE} {_written(left)} > NUTS *'"
            )
        inner = self.update()
        if inner.eliminated or inner.repeat != 1:
            what = f"a second {ELIMINATE}" if inner.eliminated else "a repeat"
            raise self.error(f"to the right of '>' stands one update, not {what}", word.span())
        moved = {f"eliminated {name}": span for name, span in spans.items()}
        return replace(inner, eliminated=left, repeat=repeat, spans={**inner.spans, **moved})

    def tempering(self, repeat: int, spans: dict[str, tuple[int, int]]) -> Update:
        """What follows `Tempered(`: the kernel that explores, its options and sites, and options of the
        ladder of replicas."""
        explorer = self.take(_NAME)
        assert explorer is not None  # it was seen
        spans["option explorer"] = explorer.span()
        options = [("explorer", explorer.group())]
        if self.text[self.at : self.at + 1] == "(":
            options += self.options(explorer, spans)
        sites = self.sites(explorer.group(), spans)
        if self.take(r"(?=,)"):
            start, stop = self.at, self._closing(self.text.rindex("(", 0, spans["option explorer"][0]))
            self.text, whole = f"{self.text[:start]}({self.text[start + 1 :]}", self.text
            try:
                options += self.options(explorer, spans)
            finally:
                self.text = whole
            self.at = stop
        elif not self.take(r"\)"):
            raise self.error(f"expected ',' or ')' after the sites of {TEMPERED}")
        return Update(TEMPERED, sites, tuple(options), repeat, spans)

    def interleaving(self, repeat: int, spans: dict[str, tuple[int, int]]) -> Update:
        """What follows `Interleave`: updates in parentheses, and the block of those without sites."""
        if not self.take(r"\("):
            raise self.error(f"expected the updates: {INTERLEAVE}(NUTS centred, NUTS non-centred) [a b]")
        parts = [self.part()]
        while self.take(","):
            parts.append(self.part())
        if not self.take(r"\)"):
            raise self.error(f"expected ',' or ')' after an update of {INTERLEAVE}")
        if len(parts) == 1:
            raise self.error(f"{INTERLEAVE} takes two updates or more", spans["kernel"])
        self.skip()
        named = bool(re.compile(rf"\[|\*|{_QUOTED.pattern}|{_SITE.pattern}").match(self.text, self.at))
        block: tuple[str, ...] = ()
        if named or not all(p.sites for p in parts):
            block = self.sites(INTERLEAVE, spans)
        parts = [p if p.sites else replace(p, sites=block) for p in parts]
        union = dict.fromkeys(s for p in parts for s in p.sites)
        idle = [s for s in block if s not in union]
        if idle:
            raise self.error(f"no update within {INTERLEAVE} moves {', '.join(idle)}", spans["sites"])
        for part in parts:
            spans.update({k: v for k, v in part.spans.items() if k.startswith("site ")})
        return Update(INTERLEAVE, tuple(union), (), repeat, spans, parts=tuple(parts))

    def part(self) -> Update:
        """One update within `Interleave`: a kernel, how it centres, its options, its sites."""
        self.skip()
        kernel = self.take(_NAME)
        if not kernel:
            raise self.error("expected the name of a kernel, such as NUTS or Conjugate")
        spans = {"kernel": kernel.span()}
        if kernel.group().lower() in (ELIMINATE.lower(), INTERLEAVE.lower()):
            raise self.error(f"{kernel.group()} cannot stand within {INTERLEAVE}", kernel.span())
        options: tuple[tuple[str, Any], ...] = ()
        if self.text[self.at : self.at + 1] == "(":
            options = self.options(kernel, spans)
        centring = self.take(_CENTRED)
        if centring:
            options = (*options, ("centring", centring.group()))
            spans["option centring"] = centring.span()
        self.skip()
        sites = (
            () if self.text[self.at : self.at + 1] in (",", ")", "") else self.sites(kernel.group(), spans)
        )
        return Update(kernel.group(), sites, options, 1, spans)

    def options(
        self, kernel: re.Match[str], spans: dict[str, tuple[int, int]]
    ) -> tuple[tuple[str, Any], ...]:
        start = self.at
        stop = self._closing(start)
        source = self.text[start:stop]
        try:
            call = ast.parse("f" + source, mode="eval").body
        except SyntaxError as problem:
            at = start + max((problem.offset or 2) - 2, 0)
            raise self.error("these options cannot be read; write name=value", (at, at + 1)) from None
        assert isinstance(call, ast.Call)
        self.at = stop
        if call.args:
            at = start + call.args[0].col_offset - 1
            raise self.error(f"options of {kernel.group()} are written name=value", (at, at + 1))
        found = []
        for word in call.keywords:
            if word.arg is None:
                raise self.error("'**' is not an option", (start, stop))
            where = (start + word.col_offset - 1, start + (word.value.end_col_offset or 1) - 1)
            spans[f"option {word.arg}"] = where
            found.append((word.arg, self._value(word.value, where)))
        return tuple(found)

    def _closing(self, start: int) -> int:
        depth = 0
        for i in range(start, len(self.text)):
            depth += {"(": 1, ")": -1}.get(self.text[i], 0)
            if depth == 0:
                return i + 1
        raise self.error("this parenthesis is never closed", (start, start + 1))

    def _value(self, node: ast.expr, where: tuple[int, int]) -> Any:
        if isinstance(node, ast.Name):
            if node.id not in self.namespace:
                raise self.error(f"the option's value {node.id!r} is not defined", where)
            return self.namespace[node.id]
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise self.error("an option's value is a number, a string, a list or a name", where) from None

    def sites(self, kernel: str, spans: dict[str, tuple[int, int]]) -> tuple[str, ...]:
        opened = self.take(r"\[")
        names: list[str] = []
        while True:
            self.skip()
            quoted = self.take(_QUOTED)
            found = quoted or self.take(_SITE) or self.take(r"\*")
            if found:
                name = ast.literal_eval(quoted.group()) if quoted else found.group()
                names.append(name)
                spans[f"site {name}"] = found.span()
                if not opened:
                    break
                self.take(",")
                continue
            if opened and self.take(r"\]"):
                break
            if opened:
                raise self.error("expected a site, or ']' at the end of the block")
            break
        if not names:
            raise self.error(f"which site does {_brief(kernel)} update? Write its name, or [a b] for a block")
        spans["sites"] = (spans[f"site {names[0]}"][0], self.at)
        self.skip()
        following = None if opened else re.compile(_SITE.pattern).match(self.text, self.at)
        if following and kernel != ELIMINATE:
            block = f"[{names[0]} {following.group()}]"
            raise self.error(f"expected '(*)' before the next update, or brackets for a block: {block}")
        return tuple(names)


def _written(sites: Sequence[str]) -> str:
    names = [s if _SITE.fullmatch(s) or s == REST else repr(s) for s in sites]
    return names[0] if len(names) == 1 else f"[{' '.join(names)}]"


def _shown(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)
