"""`Record`: one entry of a tape, an extended Wengert list (Gabler 2020, thesis §3.1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jax

from gibbsite.errors import TapeError
from gibbsite.programs.jaxpr.source_line import Line, line_at

STATEMENTS = ("assumption", "observation", "deterministic", "factor", "subsample")
KINDS = (
    "argument",
    "constant",
    "primitive",
    "call",
    "branch",
    "loop",
    "decision",
    "distribution",
    *STATEMENTS,
    "return",
)
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ref:
    """An operand that an earlier record made: the number of that value."""

    ident: int


@dataclass(frozen=True, slots=True)
class Const:
    """An operand that stands in the program: a literal."""

    value: Any


@dataclass(frozen=True, eq=False)
class Record:
    """One entry.

    `index` is its place, `(8, 3)` for `@8.3`; `operands` are `Ref`s and `Const`s; `outputs` the numbers of
    the values it made, with `shapes` as (shape, dtype name) and `values` (None where none were kept);
    `place` file and line number; `decision` the index of the last Python decision before it; `children` the
    records of a nested call or of the branch taken; `apply` computes the outputs from operand values;
    `detail` holds what is particular to a kind (static parameters, bodies of loops, branches not taken).
    """

    index: tuple[int, ...]
    kind: str
    op: str
    operands: tuple[Ref | Const, ...] = ()
    outputs: tuple[int, ...] = ()
    shapes: tuple[tuple[tuple[int, ...], str], ...] = ()
    values: tuple[Any, ...] | None = None
    name: str | None = None
    place: tuple[str, int] | None = None
    decision: tuple[int, ...] | None = None
    children: tuple["Record", ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    detail: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    apply: Callable[..., list[Any]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a record is one of {', '.join(KINDS)}; got {self.kind!r}")

    @property
    def ref(self) -> str:
        """`@8.3`."""
        return "@" + ".".join(map(str, self.index))

    @property
    def value(self) -> Any:
        """The value, or a tuple where there are several; None where values were not kept."""
        if self.values is None:
            return None
        return self.values[0] if len(self.values) == 1 else self.values

    @cached_property
    def line(self) -> Line | None:
        """The line as the user wrote it."""
        return None if self.place is None else line_at(*self.place)

    @property
    def params(self) -> Mapping[str, Any]:
        """The static parameters of a primitive or a loop, as JAX has them."""
        return self.detail.get("params", NOTHING)

    @property
    def branches(self) -> tuple[Any, ...]:
        """All branches of a `cond` or `switch` as jaxprs, taken or not."""
        return tuple(self.detail.get("branches", ()))

    @property
    def taken(self) -> int | None:
        """Which of `branches` was taken; None where that is not known."""
        return self.detail.get("taken")

    @property
    def not_taken(self) -> tuple[Any, ...]:
        """The branches that were not taken, as jaxprs."""
        return tuple(b for i, b in enumerate(self.branches) if i != self.taken)

    @property
    def reads(self) -> tuple[int, ...]:
        """Numbers of the values it reads."""
        return tuple(o.ident for o in self.operands if isinstance(o, Ref))

    def walk(self) -> Iterator["Record"]:
        """The record and everything inside, in order of execution."""
        stack: list[Record] = [self]
        while stack:
            record = stack.pop()
            yield record
            stack.extend(reversed(record.children))


def shape_of(value: Any) -> tuple[tuple[int, ...], str]:
    """Shape and name of the dtype, as records keep them."""
    aval = jax.typeof(value)
    return tuple(getattr(aval, "shape", ())), str(getattr(aval, "dtype", type(value).__name__))


def index_of(written: str | int | Sequence[int]) -> tuple[int, ...]:
    """`(8, 3)` from `"@8.3"`, `"⟨8.3⟩"`, or `(8, 3)`; `TapeError` for anything else."""
    if isinstance(written, int):
        return (written,)
    if not isinstance(written, str):
        return tuple(written)
    numbers = written.strip("@⟨⟩").split(".")
    if not all(n.isdecimal() for n in numbers):
        raise TapeError(f"a record's place is written '@8.3'; got {written!r}")
    return tuple(map(int, numbers))
