"""`Tape`: the record of one run, an extended Wengert list, and the questions one can ask it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gibbsite.errors import TapeError, UnknownNameError
from gibbsite.tape import queries
from gibbsite.tape.diff import TapeDiff, compare
from gibbsite.tape.page import TapeView, html
from gibbsite.tape.recording.context import Context
from gibbsite.tape.recording.python_calls import code_of
from gibbsite.tape.recording.record import STATEMENTS, Const, Record, Ref, index_of
from gibbsite.tape.recording.recorder import Recorder
from gibbsite.tape.recording.run import record_run
from gibbsite.tape.replay import leaves, replay
from gibbsite.tape.show import dot, text
from gibbsite.tape.slicing import cut, iterations


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
        parts = index_of(place)
        if not parts:
            raise TapeError("a record's place has at least one number: tape['@3']")
        found = self.get(parts)
        if found is None:
            known = [r.ref for r in self.records[:12]]
            raise UnknownNameError("record", "@" + ".".join(map(str, parts)), known)
        return found

    def get(self, place: Sequence[int]) -> Record | None:
        """The record at a place, None where there is none."""
        records, found = self.records, None
        for part in place:
            found = _at(records, part)
            if found is None:
                return None
            records = found.children
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
        return queries.seen_from(self, ident, index)

    def references(self, record: Record) -> tuple[Record, ...]:
        """Data dependences: the records whose values it reads."""
        return queries.references(self, record)

    def controls(self, record: Record) -> tuple[Record, ...]:
        """Control dependences: the Python decisions taken before it, and the branches that hold it."""
        return queries.controls(self, record)

    def backward(self, record: Record, *, control: bool = False, across: bool = False) -> tuple[Record, ...]:
        """Everything it depends on, in order; `across` goes inside calls, `control` follows decisions."""
        return queries.backward(self, record, control, across)

    def forward(self, record: Record, *, across: bool = False) -> tuple[Record, ...]:
        """Everything that depends on it, in order; within its call, or `across` calls."""
        return queries.forward(self, record, across)

    def slice(self, *wanted: Record, control: bool = True, inside: bool = False) -> "Tape":
        """A tape of the records that `wanted` (by default what is returned) needs.

        Top-level records are kept or dropped whole; with `inside`, what a kept call computed in vain is
        dropped too. `control` keeps the decisions that led there. Records keep their places.
        """
        roots = wanted or tuple(r for r in self.records if r.kind == "return")
        return cut(self, roots, control, inside)

    def find(
        self, name: str | None = None, *, primitive: str | None = None, site: str | None = None
    ) -> Iterator[Record]:
        """Records by name of an argument or call, by primitive, or by site; lazily, in order."""
        computing = ("primitive", "branch", "loop")
        for r in self.walk():
            if name is not None and name not in (r.name, r.op if r.kind == "call" else None):
                continue
            if primitive is not None and (r.op != primitive or r.kind not in computing):
                continue
            if site is not None and not (r.name == site and r.kind in STATEMENTS):
                continue
            yield r

    # running again

    def replay(self, *args: Any) -> Any:
        """Run the recorded operations again, op by op, along the recorded path; returns the result.

        `args` replace the followed arguments, in order; without any, the recorded values are used.
        """
        return replay(self, args)

    def leaves(self) -> Iterator[Record]:
        """The records that compute: primitives, loops, and calls that were not entered."""
        return leaves(self.records)

    def iterations(self, record: Record | str) -> Iterator["Tape"]:
        """One tape per iteration of a `scan` or `while` loop, made when asked for."""
        found = self[record] if isinstance(record, str) else record
        return iterations(found, lambda operands: [self.value_of(o) for o in operands], Tape)

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

    def view(self, depth: int | None = None) -> TapeView:
        """The tape to a depth, to be displayed."""
        return TapeView(self, depth)

    def to_dot(self, depth: int = 1) -> str:
        """Graphviz: circles for tilde statements, boxes for the rest, dashed edges for control."""
        return dot(self, depth)


def _at(records: tuple[Record, ...], part: int) -> Record | None:
    if 0 < part <= len(records) and records[part - 1].index[-1] == part:
        return records[part - 1]
    return next((r for r in records if r.index[-1] == part), None)  # a slice has gaps


def track(fn: Callable, *args: Any, context: Context | None = None, **kwargs: Any) -> Tape:
    """Run `fn(*args, **kwargs)` once and return its `Tape`.

    Arrays, floats and random keys (also inside tuples, lists and dicts) are followed as values; other
    arguments are constants of the run. Python may branch, loop and recurse on followed values: each such
    decision is a record. `context`, such as `DepthLimit(2) | Timing()`, says what is entered, kept, noted and
    replaced.

    Exceptions of `fn` pass through with the tape so far as their attribute `tape`; `TapeError` is raised for
    a recursion that does not end and for values leaked from an earlier run.
    """
    if not callable(fn):
        raise TapeError(f"track takes a function and its arguments; got {type(fn).__name__}")
    return record_run(fn, args, kwargs, Recorder(context or Context(), code_of(fn)), Tape)
