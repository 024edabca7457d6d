"""The way of a model's program through the passes, pass by pass, to be read."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gibbsite.density.passes.pipeline import FLAT, PASSES, Pass
from gibbsite.density.passes.program import Program
from gibbsite.programs.jaxpr.primitives import name_of
from gibbsite.programs.jaxpr.source_line import equation_line, line_at
from gibbsite.programs.passes.replaced import bodies


@dataclass(frozen=True)
class Stage:
    """What one pass did: the programs `before` and `after` it."""

    by: Pass
    before: Program
    after: Program

    def __str__(self) -> str:
        sizes = [sum(_counted(p).values()) for p in (self.before, self.after)]
        head = f"{self.by.name}: {self.by.does} ({sizes[0]} → {sizes[1]} equations)"
        return "\n".join([head, *(f"  {line}" for line in self.changes())])

    def changes(self) -> Iterator[str]:
        """By line of the user's, which operations went and which came."""
        before, after = _counted(self.before), _counted(self.after)
        gone, come = before - after, after - before
        for place in dict.fromkeys(at for at, _ in (*before, *after)):
            words = [_listed(found, place) for found in (gone, come)]
            if any(words):
                where = "of no line" if place is None else str(line_at(*place))
                yield f"{where}: {words[0] or 'nothing'} → {words[1] or 'nothing'}"


@dataclass(frozen=True)
class Stages(Sequence[Stage]):
    """The passes that changed a model's program, in order. `full()` is the text of the programs."""

    stages: tuple[Stage, ...]

    def __len__(self) -> int:
        return len(self.stages)

    def __getitem__(self, at: Any) -> Any:
        return self.stages[at]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages)) or "no pass changes this program"

    __repr__ = __str__

    def full(self) -> str:
        """The program that JAX traced, and the program after every pass."""
        first = [f"traced:\n{self.stages[0].before.closed}"] if self.stages else []
        return "\n\n".join([*first, *(f"{s.by.name}:\n{s.after.closed}" for s in self.stages)])


def stages(program: Program, compiled: bool) -> Stages:
    """How the passes rewrite a program, each alone: the local ones over and over, then the others; those of
    programs on their way to a device where it is to be `compiled`."""
    found: list[Stage] = []

    def run(passes: Sequence[Pass]) -> None:
        for one in passes:
            before = found[-1].after if found else program
            if (after := one.run(before)) is not before:
                found.append(Stage(one, before, after))

    count = -1
    while count < len(found):
        count = len(found)
        run([p for p in PASSES if p.name in FLAT])
    wanted = {"traced", "asked", "compiled"} if compiled else {"traced", "asked"}
    run([p for p in PASSES if p.name not in FLAT and p.when in wanted and p.idempotent])
    return Stages(tuple(found))


def _counted(program: Program) -> Counter[tuple[Any, str]]:
    """How often an operation stands at a line, in bodies too."""
    found: Counter[tuple[Any, str]] = Counter()
    waiting = [program.closed.jaxpr]
    while waiting:
        for eqn in waiting.pop().eqns:
            found[equation_line(eqn), name_of(eqn)] += 1
            waiting += [body.jaxpr for parts in bodies(eqn).values() for body in parts]
    return found


def _listed(found: Counter[tuple[Any, str]], place: Any) -> str:
    return ", ".join(f"{n} {name}" if n > 1 else name for (at, name), n in found.items() if at == place)
