"""The rewritings of a model's program, in one table, in their order."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gibbsite.density.passes.distribute import distributed
from gibbsite.density.passes.program import Program
from gibbsite.density.passes.reroll import rolled
from gibbsite.density.passes.soften import soft
from gibbsite.ground.opaque import attempted
from gibbsite.programs.jaxpr.primitives import name_of
from gibbsite.programs.jaxpr.source_line import equation_line, line_at
from gibbsite.programs.passes.flatten import flatten
from gibbsite.programs.passes.for_cpu import loops, rows
from gibbsite.programs.passes.local import LOCAL, Local
from gibbsite.programs.passes.replaced import Choice, bodies, changes, replayed, slopes, traced


@dataclass(frozen=True)
class Pass:
    """A rewriting of programs: `run` gives a program that computes the same, or the very same program where
    there is nothing to do. `does` says it in words.

    In programs that it is given, the passes called `expects` must have nothing left to do. In what it made
    itself it has nothing to do either, unless it is not `idempotent`. It runs `when` a model is "traced", is
    "asked" for, or when a program is "compiled".
    """

    name: str
    does: str
    run: Callable[[Program], Program]
    expects: tuple[str, ...] = ()
    when: str = "traced"
    idempotent: bool = True

    def leaves(self, program: Program) -> bool:
        """Whether a program is as this pass leaves it: there is nothing to do."""
        return self.run(program) is program


def _of_equations(local: Local) -> Pass:
    def run(program: Program) -> Program:
        done: list[Any] = []
        closed = flatten(program.closed, len(program.data_vars), (local,), done)
        return program.rewritten(closed) if done else program

    return Pass(local.name, local.does, run, () if local is LOCAL[0] else (LOCAL[0].name,))


def _everywhere(name: str, does: str, choice: Choice, shut: bool = False) -> Pass:
    """In bodies of calls, loops and branches, too."""

    def run(program: Program) -> Program:
        closed = program.closed
        if not changes(closed, choice, shut):
            return program
        return program.rewritten(traced(lambda *xs: replayed(closed, xs, choice, shut), closed.jaxpr.invars))

    return Pass(name, does, run, when="compiled")


FLAT = tuple(local.name for local in LOCAL)
"""What leaves a flat program, together: whatever one of them makes is looked at by all of them again."""
PASSES = (
    *map(_of_equations, LOCAL),
    Pass("distribute", "what multiplies a sum multiplies what is summed", distributed, FLAT),
    Pass("reroll", "alike sites of a loop become one array", rolled, FLAT, "asked"),
    Pass("soften", "what is impossible becomes unlikely", soft, FLAT, "asked", idempotent=False),
    _everywhere("slopes", "x log y where both are 0 gets the slope 0", slopes, shut=True),
    _everywhere("rows", "a few rows are read and written by choices among them", rows),
    _everywhere("loops", "batches of matrices are factorised one by one", loops),
)
"""All of them."""


def analysable(program: Program, notes: list[str]) -> Program:
    """A program as it is analysed, after all passes of models that are traced; `notes` takes what was left
    out of these.

    Those of `FLAT` are done in one sweep, which ends where each of them alone, over and over, would.
    """
    closed, data = program.closed, len(program.data_vars)
    flat = attempted(
        "taking calls apart", lambda: program.rewritten(flatten(closed, data=data)), lambda: program, notes
    )
    return attempted("a product of sums", lambda: distributed(flat), lambda: flat, notes)


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
