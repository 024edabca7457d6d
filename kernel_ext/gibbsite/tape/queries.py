"""What depends on what: references, control, and closures backwards and forwards over a tape."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gibbsite.tape.recording.record import Record

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape


def seen_from(tape: "Tape", ident: int, index: tuple[int, ...]) -> Record | None:
    """The record that made a value, or the call around it, as a record at `index` sees it."""
    maker = tape.makers.get(ident)
    if maker is None:
        return None
    common = 0
    for a, b in zip(maker.index, index, strict=False):
        if a != b:
            break
        common += 1
    return tape[maker.index[: common + 1]]


def references(tape: "Tape", record: Record) -> tuple[Record, ...]:
    """The records whose values it reads; for a call, also those that it reads as a closure."""
    inner = (i for r in record.walk() for i in r.reads)
    found = (seen_from(tape, i, record.index) for i in dict.fromkeys(inner))
    depth = len(record.index)
    return tuple(dict.fromkeys(r for r in found if r is not None and r.index[:depth] != record.index))


def nearest_controls(tape: "Tape", record: Record) -> list[Record]:
    """The branches that hold it, and the last decision before it; that one knows the one before."""
    around = (tape[record.index[:n]] for n in range(1, len(record.index)))
    found = [r for r in around if r.kind == "branch"]
    last = None if record.decision is None else tape.get(record.decision)  # None where a slice dropped it
    return found if last is None else [*found, last]


def controls(tape: "Tape", record: Record) -> tuple[Record, ...]:
    """All decisions taken before it, and all branches that hold it."""
    found = nearest_controls(tape, record)
    while found and found[-1].kind == "decision" and (more := nearest_controls(tape, found[-1])):
        found += more
    return tuple(dict.fromkeys(found))


def backward(tape: "Tape", record: Record, control: bool, across: bool) -> tuple[Record, ...]:
    """Everything a record depends on."""

    def sources(r: Record) -> Iterable[Record]:
        if across:
            yield from (tape.makers[i] for i in r.reads if i in tape.makers)
            if r.children:  # the call's values were made inside
                yield from (tape.makers[i] for i in r.outputs)
        else:
            yield from references(tape, r)
        if control:
            yield from nearest_controls(tape, r)

    return _closure(record, sources)


def forward(tape: "Tape", record: Record, across: bool) -> tuple[Record, ...]:
    """Everything that depends on a record."""
    depth = len(record.index)

    def users(r: Record) -> Iterable[Record]:
        for ident in r.outputs:
            for reader in tape.readers.get(ident, ()):
                if across:
                    yield reader
                elif reader.index[: depth - 1] == record.index[:-1]:
                    yield tape[reader.index[:depth]]

    return _closure(record, users)


def _closure(record: Record, step: Callable[[Record], Iterable[Record]]) -> tuple[Record, ...]:
    seen: dict[tuple[int, ...], Record] = {}
    queue = [record]
    while queue:
        for r in step(queue.pop()):
            if r.index not in seen and r.index != record.index:
                seen[r.index] = r
                queue.append(r)
    return tuple(seen[k] for k in sorted(seen))
