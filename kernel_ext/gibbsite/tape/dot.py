"""A tape as Graphviz source: circles for tilde statements, boxes for the rest (thesis, figure 4.1)."""

from typing import TYPE_CHECKING

from gibbsite.tape.queries import nearest_controls
from gibbsite.tape.recording.record import STATEMENTS
from gibbsite.tape.show import statement

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape


def dot(tape: "Tape", depth: int) -> str:
    """Data dependences as solid edges, control dependences as dashed ones."""
    lines = [f"digraph {_quoted(tape.name)} {{", '  node [shape=box, fontname="monospace"];']
    shown = [r for r in tape.walk() if len(r.index) <= depth]
    for r in shown:
        style = ""
        if r.kind in STATEMENTS:
            style = ", shape=circle" + (", style=filled" if r.kind == "observation" else "")
        label = r.name if style and r.name else statement(tape, r)
        lines.append(f"  {_quoted(r.ref)} [label={_quoted(label)}{style}];")
    for r in shown:
        lines += [f"  {_quoted(p.ref)} -> {_quoted(r.ref)};" for p in tape.references(r)]
        lines += [
            f"  {_quoted(p.ref)} -> {_quoted(r.ref)} [style=dashed];" for p in nearest_controls(tape, r)
        ]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
