"""Running the recorded operations again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax

from gibbsite.errors import TapeError
from gibbsite.tape.recording.record import STATEMENTS, Const, Record, Ref

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape


def replay(tape: "Tape", args: tuple[Any, ...]) -> Any:
    """The result of the recorded path, op by op, for the recorded arguments or for `args`."""
    env = replayed(tape, args)
    return jax.tree.map(lambda o: read(env, o), tape.structure, is_leaf=lambda o: isinstance(o, Ref | Const))


def replayed(tape: "Tape", args: tuple[Any, ...]) -> dict[int, Any]:
    """All values of the recorded path by number."""
    followed = [r for r in tape.records if r.kind == "argument" and r.outputs]
    if args and len(args) != len(followed):
        raise TapeError(f"{tape.name} was recorded with {len(followed)} arrays; replay got {len(args)}")
    env: dict[int, Any] = {}
    for record, value in zip(followed, args or [r.value for r in followed], strict=True):
        if value is None:
            raise TapeError("this tape was recorded without values: give the arguments to `replay`")
        env[record.outputs[0]] = jax.numpy.asarray(value)
    for leaf in leaves(tape.records):
        if any(o.ident not in env for o in leaf.operands if isinstance(o, Ref)):
            raise TapeError(f"{leaf.ref} reads a value that no record of this tape made")
        values = leaf.apply(*(read(env, o) for o in leaf.operands)) if leaf.apply else leaf.values
        env.update(zip(leaf.outputs, values or (), strict=True))
    return env


def leaves(records: tuple[Record, ...]) -> Iterator[Record]:
    """The records that compute: primitives, loops, and calls that were not entered.

    What was given rather than computed (a latent's draw, a value that a context replaced) has no `apply`.
    """
    stack = list(reversed(records))
    while stack:
        r = stack.pop()
        given = "replaced" in r.metadata or (r.kind in STATEMENTS and r.outputs and r.apply is None)
        if given:
            yield replace(r, operands=(), apply=None)
        elif r.children:
            stack.extend(reversed(r.children))
        elif r.apply is not None:
            yield r


def read(env: dict[int, Any], operand: Ref | Const) -> Any:
    """The value of an operand among those of a run."""
    return env[operand.ident] if isinstance(operand, Ref) else operand.value
