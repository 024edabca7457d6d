"""How a tape is written: the notation of AutoGibbs (thesis §4.1), in 80 columns or collapsible HTML."""

from html import escape
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gibbsite.trace.record import Const, Record

if TYPE_CHECKING:
    from gibbsite.trace.tape import Tape

_STYLE = """<style>
.gibbsite-tape{font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);
color:var(--jp-content-font-color1,inherit);line-height:1.5;overflow-x:auto}
.gibbsite-tape div,.gibbsite-tape summary{white-space:pre;color:inherit}
.gibbsite-tape details>:not(summary){margin-left:1.6em}
.gibbsite-tape div{padding-left:1.1em}.gibbsite-tape summary{cursor:pointer}
.gibbsite-tape .tilde{font-weight:bold}.gibbsite-tape .line{opacity:.65;font-style:italic}
</style>"""


def summary(value: Any, width: int = 32) -> str:
    """A value in few characters; long arrays by shape, ends and type."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "(" + ", ".join(summary(v, width) for v in value) + ")"
    if hasattr(value, "dtype") and "key<" in str(value.dtype):
        return "random key"
    if isinstance(value, str):
        return repr(value) if len(value) < width else repr(value[: width - 3]) + "…"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))  # JAX marks some literals by subclasses of int
    if not isinstance(value, jax.Array | np.ndarray | np.generic | float):
        shown = (
            repr(value) if isinstance(value, int | bool) else getattr(value, "__name__", type(value).__name__)
        )
        return shown if len(shown) <= width else shown[: width - 1] + "…"
    array = np.asarray(value)
    if array.ndim == 0:
        return _number(array[()])
    if array.ndim == 1 and array.size <= 6:
        shown = "[" + " ".join(map(_number, array)) + "]"
        if len(shown) <= width:
            return shown
    if array.size < 3:
        return f"{array.dtype}{_shape(array.shape)}"
    flat = array.reshape(-1)
    return f"[{_number(flat[0])} {_number(flat[1])} … {_number(flat[-1])}]{_shape(array.shape)}"


def _number(value: Any) -> str:
    return f"{value:.3g}" if np.asarray(value).dtype.kind in "fc" else str(value)


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + "×".join(map(str, shape)) + ")" if shape else ""


def statement(tape: "Tape", record: Record) -> str:
    """One record as a line: `⟨4⟩ = w ~ ⟨3⟩ → [0.82 0.17]`."""
    number = _number_of(record)
    operands = [operand(tape, record, o) for o in record.operands]
    value = _value(record)
    arrow = f" → {value}" if value else ""
    if record.kind == "assumption":
        return f"{number} = {record.name} ~ {operands[0]}{arrow}"
    if record.kind == "observation":
        return f"{number} = {record.name} ⩪ {operands[0]} ← {operands[1]}"
    if record.kind == "argument":
        shown = f" = {operands[0]}" if operands and len(record.index) > 1 else ""
        return f"{number} = {record.name}{shown or arrow.replace(' →', ' =')}"
    if record.kind == "return":
        return f"{number} return {', '.join(operands) or value}" + (arrow if operands else "")
    if record.kind == "decision":
        return f"{number} decide on {operands[0]}{arrow}"
    if record.kind == "branch":
        chosen = "?" if record.taken is None else record.taken + 1
        head = f"branch {chosen} of {len(record.branches)} as {operands[0]}"
        return f"{number} = {head} ({', '.join(operands[1:])}){arrow}"
    if record.op == "scan":
        head = f"scan × {record.detail['params']['length']}"
        return f"{number} = {head} ({', '.join(operands)}){arrow}"
    return f"{number} = {record.op}({', '.join(operands)}){arrow}"


def _value(record: Record) -> str:
    if record.kind == "distribution":
        return f"{record.op}({summary_of(record.detail)})" if record.values is not None else ""
    if record.values is not None:
        return summary(record.value)
    return ", ".join(f"{dtype}{_shape(shape)}" for shape, dtype in record.shapes)


def summary_of(detail: Any) -> str:
    """Named parameters and their values."""
    return ", ".join(f"{n}={summary(v, 20)}" for n, v in detail.get("parameters", {}).items())


def _number_of(record: Record) -> str:
    return f"⟨{record.ref[1:]}⟩"


def operand(tape: "Tape", record: Record, item: Any) -> str:
    """An operand as the record sees it."""
    if isinstance(item, Const):
        return summary(item.value, 24)
    maker = tape.seen_from(item.ident, record.index)
    if maker is None:
        return "?"
    several = len(maker.outputs) > 1 and item.ident in maker.outputs
    return _number_of(maker) + (f"[{maker.outputs.index(item.ident)}]" if several else "")


def text(tape: "Tape", depth: int | None, width: int) -> str:
    """All records to a depth, one line each."""
    lines: list[str] = []
    stack = list(reversed(tape.records))
    while stack:
        record = stack.pop()
        line = "  " * (len(record.index) - 1) + statement(tape, record)
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
        if depth is None or len(record.index) < depth:
            stack.extend(reversed(record.children))
    return "\n".join(lines)


def html(tape: "Tape", depth: int | None, limit: int = 2000) -> str:
    """Collapsible: calls open on a click; colours are the notebook's own. At most `limit` records."""
    left = [limit]

    def one(record: Record) -> str:
        left[0] -= 1
        if left[0] < 0:
            return ""
        line = "" if record.line is None else f'  <span class="line">{escape(str(record.line))}</span>'
        tilde = ' class="tilde"' if record.kind in ("assumption", "observation") else ""
        shown = f"<span{tilde}>{escape(statement(tape, record))}</span>{line}"
        if record.children and (depth is None or len(record.index) < depth):
            inner = "".join(one(c) for c in record.children)
            return f"<details><summary>{shown}</summary>{inner}</details>"
        return f"<div>{shown}</div>"

    body = "".join(one(r) for r in tape.records)
    more = "<div>…</div>" if left[0] < 0 else ""
    return f'{_STYLE}<div class="gibbsite-tape">{body}{more}</div>'
