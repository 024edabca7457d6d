"""`Tape`: the record of one run, an extended Wengert list, and the questions one can ask it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax

from gibbsite.errors import TapeError, UnknownNameError
from gibbsite.trace.diff import TapeDiff, compare
from gibbsite.trace.record import Const, Record, Ref
from gibbsite.trace.show import html, text


@dataclass(frozen=True)
class Tape:
    """Records of one run, in order; `result` is what the function returned.

    Look one up by its place, `tape["@8.3"]` or `tape[8, 3]`; iterate over the top level; `walk()` visits
    everything. All questions are answered on demand: an index is built when first needed.
    """

    name: str
    records: tuple[Record, ...]
    result: Any = None
    structure: Any = None

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def walk(self) -> Iterator[Record]:
        """Every record, nested ones after the call that holds them."""
        for record in self.records:
            yield from record.walk()

    def __getitem__(self, place: str | int | Sequence[int]) -> Record:
        parts = _place(place)
        records, found = self.records, None
        for part in parts:
            found = _at(records, part)
            if found is None:
                raise UnknownNameError(
                    "record", "@" + ".".join(map(str, parts)), [r.ref for r in records[:12]]
                )
            records = found.children
        if found is None:
            raise TapeError("a record's place has at least one number: tape['@3']")
        return found

    # indices, built when first asked for

    @cached_property
    def makers(self) -> dict[int, Record]:
        """The innermost record that made each value."""
        found: dict[int, Record] = {}
        for record in self.walk():
            if not record.children or "replaced" in record.metadata:
                found.update((ident, record) for ident in record.outputs)
        return found

    @cached_property
    def readers(self) -> dict[int, list[Record]]:
        """The records that read each value."""
        found: dict[int, list[Record]] = {}
        for record in self.walk():
            for ident in dict.fromkeys(record.reads):
                found.setdefault(ident, []).append(record)
        return found

    # neighbours

    def children(self, record: Record) -> tuple[Record, ...]:
        """The records inside."""
        return record.children

    def parent(self, record: Record) -> Record | None:
        """The call that holds a record; None at the top."""
        return self[record.index[:-1]] if len(record.index) > 1 else None

    def seen_from(self, ident: int, index: tuple[int, ...]) -> Record | None:
        """The record that made a value, or the call around it, as a record at `index` sees it."""
        maker = self.makers.get(ident)
        if maker is None:
            return None
        common = 0
        for a, b in zip(maker.index, index, strict=False):
            if a != b:
                break
            common += 1
        return self[maker.index[: common + 1]]

    def references(self, record: Record) -> tuple[Record, ...]:
        """Data dependences: the records whose values it reads."""
        found = (self.seen_from(i, record.index) for i in record.reads)
        return tuple(dict.fromkeys(r for r in found if r is not None and r.index != record.index))

    def controls(self, record: Record) -> tuple[Record, ...]:
        """Control dependences: the Python decisions taken before it, and the branches that hold it."""
        found = []
        for n in range(1, len(record.index)):
            around = self[record.index[:n]]
            if around.kind == "branch":
                found.append(around)
        place = record.decision
        while place is not None:
            found.append(self[place])
            place = found[-1].decision
        return tuple(found)

    def backward(self, record: Record, *, control: bool = False, across: bool = False) -> tuple[Record, ...]:
        """Everything it depends on, in order; `across` goes inside calls, `control` follows decisions."""

        def sources(r: Record) -> Iterable[Record]:
            if across:
                yield from (self.makers[i] for i in r.reads if i in self.makers)
                if r.children:  # the call's values were made inside
                    yield from (self.makers[i] for i in r.outputs)
            else:
                yield from self.references(r)
            if control:
                yield from self.controls(r)

        return _closure(record, sources)

    def forward(self, record: Record, *, across: bool = False) -> tuple[Record, ...]:
        """Everything that depends on it, in order; within its call, or `across` calls."""
        depth = len(record.index)

        def users(r: Record) -> Iterable[Record]:
            for ident in r.outputs:
                for reader in self.readers.get(ident, ()):
                    if across:
                        yield reader
                    elif reader.index[: depth - 1] == record.index[:-1]:
                        yield self[reader.index[:depth]]

        return _closure(record, users)

    def slice(self, *wanted: Record, control: bool = True) -> "Tape":
        """A tape of the top-level records that `wanted` (by default what is returned) needs."""
        roots = wanted or tuple(r for r in self.records if r.kind == "return")
        keep = {r.index[:1] for r in roots}
        queue = [self[i] for i in keep]
        while queue:
            record = queue.pop()
            needed = [
                m for inner in record.walk() for i in inner.reads if (m := self.makers.get(i)) is not None
            ]
            needed += [r for inner in record.walk() for r in self.controls(inner)] if control else []
            for r in needed:
                if r.index[:1] not in keep:
                    keep.add(r.index[:1])
                    queue.append(self[r.index[:1]])
        return replace(self, records=tuple(r for r in self.records if r.index[:1] in keep))

    def find(
        self, name: str | None = None, *, primitive: str | None = None, site: str | None = None
    ) -> Iterator[Record]:
        """Records by name of an argument or call, by primitive, or by site; lazily, in order."""
        statements, computing = ("assumption", "observation"), ("primitive", "branch", "loop")
        for r in self.walk():
            if name is not None and name not in (r.name, r.op if r.kind == "call" else None):
                continue
            if primitive is not None and (r.op != primitive or r.kind not in computing):
                continue
            if site is not None and not (r.name == site and r.kind in statements):
                continue
            yield r

    # running again

    def replay(self, *args: Any) -> Any:
        """Run the recorded operations again, op by op, along the recorded path; returns the result.

        `args` replace the followed arguments, in order; without any, the recorded values are used.
        """
        followed = [r for r in self.records if r.kind == "argument" and r.outputs]
        if args and len(args) != len(followed):
            raise TapeError(f"{self.name} was recorded with {len(followed)} arrays; replay got {len(args)}")
        env: dict[int, Any] = {}
        for record, value in zip(followed, args or [r.value for r in followed], strict=True):
            if value is None:
                raise TapeError("this tape was recorded without values: give the arguments to `replay`")
            env[record.outputs[0]] = jax.numpy.asarray(value)
        for leaf in self.leaves():
            if any(o.ident not in env for o in leaf.operands if isinstance(o, Ref)):
                raise TapeError(f"{leaf.ref} reads a value that no record of this tape made")
            values = leaf.apply(*(read_operand(env, o) for o in leaf.operands)) if leaf.apply else leaf.values
            env.update(zip(leaf.outputs, values or (), strict=True))
        return jax.tree.map(
            lambda o: read_operand(env, o), self.structure, is_leaf=lambda o: isinstance(o, Ref | Const)
        )

    def leaves(self) -> Iterator[Record]:
        """The records that compute: primitives, loops, and calls that were not entered."""
        stack = list(reversed(self.records))
        while stack:
            r = stack.pop()
            if r.children and "replaced" not in r.metadata:
                stack.extend(reversed(r.children))
            elif "replaced" in r.metadata or r.kind in ("assumption",):
                yield replace(r, apply=None)
            elif r.apply is not None:
                yield r

    def iterations(self, record: Record | str) -> Iterator["Tape"]:
        """One tape per iteration of a `scan` or `while` loop, made when asked for."""
        from gibbsite.trace.loops import iterations

        found = self[record] if isinstance(record, str) else record
        return iterations(found, lambda operands: [self.value_of(o) for o in operands])

    def value_of(self, operand: Ref | Const) -> Any:
        """The value of an operand; `TapeError` where none was kept."""
        if isinstance(operand, Const):
            return operand.value
        maker = self.makers.get(operand.ident)
        if maker is None or maker.values is None:
            raise TapeError("this tape was recorded without values: track with `Values(True)`")
        return maker.values[maker.outputs.index(operand.ident)]

    def diff(self, other: "Tape") -> TapeDiff:
        """Where two runs took different paths, or made different values."""
        return compare(self, other)

    # showing

    def to_text(self, depth: int | None = 1, width: int = 80) -> str:
        """The tape to a depth (None: everything), in lines of at most `width` columns."""
        return text(self, depth, width)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Tape {self.name}: {len(self)} records at the top, depth {self.depth}>"

    @cached_property
    def depth(self) -> int:
        """The deepest nesting."""
        return max((len(r.index) for r in self.walk()), default=0)

    def _repr_html_(self) -> str:
        return html(self, None)

    def view(self, depth: int | None = None) -> "TapeView":
        """The tape to a depth, to be displayed."""
        return TapeView(self, depth)

    def to_dot(self, depth: int = 1) -> str:
        """Graphviz: circles for tilde statements, boxes for the rest, dashed edges for control."""
        from gibbsite.trace.dot import dot

        return dot(self, depth)


@dataclass(frozen=True)
class TapeView:
    """A tape shown to a depth: text in a terminal, collapsible in a notebook."""

    tape: Tape
    depth: int | None = None

    def __repr__(self) -> str:
        return self.tape.to_text(self.depth)

    def _repr_html_(self) -> str:
        return html(self.tape, self.depth)


def read_operand(env: dict[int, Any], operand: Ref | Const) -> Any:
    """The value of an operand among those of a run."""
    return env[operand.ident] if isinstance(operand, Ref) else operand.value


def _place(place: str | int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(place, int):
        return (place,)
    if isinstance(place, str):
        parts = place.strip("@⟨⟩").split(".")
        if not all(p.isdecimal() for p in parts):
            raise TapeError(f"a record's place is written '@8.3'; got {place!r}")
        return tuple(map(int, parts))
    return tuple(place)


def _at(records: tuple[Record, ...], part: int) -> Record | None:
    if 0 < part <= len(records) and records[part - 1].index[-1] == part:
        return records[part - 1]
    return next((r for r in records if r.index[-1] == part), None)  # a slice has gaps


def _closure(record: Record, step: Any) -> tuple[Record, ...]:
    seen: dict[tuple[int, ...], Record] = {}
    queue = [record]
    while queue:
        for r in step(queue.pop()):
            if r.index not in seen and r.index != record.index:
                seen[r.index] = r
                queue.append(r)
    return tuple(seen[k] for k in sorted(seen))
