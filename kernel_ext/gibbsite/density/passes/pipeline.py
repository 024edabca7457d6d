"""The rewritings of a model's program, in one table, in their order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gibbsite.density.passes.distribute import distributed
from gibbsite.density.passes.program import Program
from gibbsite.density.passes.reroll import rolled
from gibbsite.density.passes.soften import soft
from gibbsite.ground.opaque import attempted
from gibbsite.programs.passes.flatten import flatten
from gibbsite.programs.passes.for_cpu import rows
from gibbsite.programs.passes.lapack import loops
from gibbsite.programs.passes.local import LOCAL, Local
from gibbsite.programs.passes.parts import traced
from gibbsite.programs.passes.replaced import Choice, changes, replayed
from gibbsite.programs.passes.slopes import slopes


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
