"""How a tape is written: the notation of AutoGibbs (thesis §4.1), in lines of 80 columns."""

import ast
import enum
import functools
import linecache
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gibbsite.tape.queries import nearest_controls
from gibbsite.tape.recording.record import STATEMENTS, Const, Record

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape


def untaken(record: Record) -> str | None:
    """What a decision left out, as it was written; None where it left out nothing, or that is not known."""
    value = record.value
    if record.kind != "decision" or record.place is None or str(getattr(value, "dtype", "")) != "bool":
        return None
    file, line = record.place
    return _other(tuple(linecache.getlines(file)), line, bool(value))


@functools.lru_cache(64)
def _other(lines: tuple[str, ...], line: int, value: bool) -> str | None:
    at = [c for c in _choices("".join(lines)) if c.test.lineno <= line <= (c.test.end_lineno or line)]
    if len(at) != 1:
        return None  # which of them asked is not known
    (choice,) = at
    taken = _outcome(choice.test, value)
    if taken is None:
        return None
    left = choice.orelse if taken else choice.body
    nodes = left if isinstance(left, list) else [left]
    return _text(lines, nodes) if nodes else None


def _outcome(test: ast.expr, value: bool) -> bool | None:
    """What a test came to after a value in it did; None where that leaves it open."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _outcome(test.operand, value)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        ends = isinstance(test.op, ast.Or)  # the value that ends the question
        plain = not any(isinstance(v, ast.BoolOp | ast.UnaryOp) for v in test.values)
        return value if plain and value == ends else None
    chain = isinstance(test, ast.Compare) and len(test.ops) > 1
    return None if chain and value else value


@functools.lru_cache(16)
def _choices(source: str) -> tuple[ast.If | ast.IfExp | ast.While, ...]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with magics in it
        return ()
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp | ast.While))


def _text(lines: tuple[str, ...], nodes: list) -> str:
    first, last = nodes[0], nodes[-1]
    if isinstance(first, ast.expr):
        return ast.unparse(first)
    head = " " * first.col_offset + lines[first.lineno - 1][first.col_offset :]  # `if c: y = 1` on one line
    whole = "".join((head, *lines[first.lineno : last.end_lineno]))
    return "; ".join(part.rstrip() for part in textwrap.dedent(whole).splitlines() if part.strip())


_TELLS_NOTHING = frozenset(
    "accuracy sharding out_sharding precision preferred_element_type weak_type unique_indices num_keys "
    "indices_are_sorted is_stable index_dtype axis_name impl donated_invars inline keep_unused layout "
    "copy_semantics algorithm symmetrize_input srcs devices shape new_sizes bit_width".split()
)  # of those that matter, sizes and types of bits are told with the result


def static_parameters(primitive: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of a primitive as they are printed after its operands, without those that say nothing of
    its result."""
    if primitive == "slice":
        steps = params["strides"] or (1,) * len(params["start_indices"])
        ends = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        return tuple(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in ends)
    shown = ((n, _written(v)) for n, v in params.items() if n not in _TELLS_NOTHING)
    return tuple(f"{n}={v}" for n, v in shown if v)


def _written(value: Any) -> str:
    """A plain value; "" for what is not plain, or the same as nothing."""
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        parts = [_written(v) or ("()" if v == () else "") for v in value]
        if not parts or not all(parts):
            return ""
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if value is True or isinstance(value, str) or (isinstance(value, int | float) and value is not False):
        return str(value)
    return ""


FULL, ENDS, SHAPES, NAMES = range(4)  # how much of a value is told, from most to least


def summary(value: Any, detail: int = FULL) -> str:
    """A value in few characters; long arrays by their ends and shape, or by dtype and shape."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        if detail == NAMES:
            return f"{len(value)} values"
        return "(" + ", ".join(summary(v, max(detail, ENDS)) for v in value) + ")"
    if hasattr(value, "dtype") and "key<" in str(value.dtype):
        return "random key" + (f"s{_shape(value.shape)}" if value.ndim else "")
    if isinstance(value, str):
        return repr(value) if len(value) < 32 else repr(value[:29]) + "…"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))  # JAX marks some literals by subclasses of int
    if not isinstance(value, jax.Array | np.ndarray | np.generic | float):
        shown = repr(value) if isinstance(value, bool) else getattr(value, "__name__", type(value).__name__)
        return shown if len(shown) <= 32 else shown[:31] + "…"
    return _array(np.asarray(value), detail)


def _array(array: np.ndarray, detail: int) -> str:
    if array.ndim == 0:
        return _number(array[()])
    if array.size == 0 or (detail >= SHAPES and array.size > 3):
        return f"{array.dtype}{_shape(array.shape)}"
    flat = [_number(v) for v in (array.reshape(-1) if array.size <= 6 else array.reshape(-1)[[0, 1, -1]])]
    shape = "" if array.ndim == 1 else _shape(array.shape)
    whole = f"[{' '.join(flat)}]{shape}"
    if array.size <= 3 or (array.size <= 6 and detail == FULL and len(whole) <= 32):
        return whole
    first = flat[:2] if detail == FULL else flat[:1]
    return f"[{' '.join(first)} … {flat[-1]}]{_shape(array.shape)}"


def _number(value: Any) -> str:
    return f"{value:.3g}" if np.asarray(value).dtype.kind in "fc" else str(value)


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + "×".join(map(str, shape)) + ")" if shape else ""


def number(record: Record) -> str:
    """`⟨8.3⟩`."""
    return f"⟨{record.ref[1:]}⟩"


def statement(tape: "Tape", record: Record, width: int | None = None) -> str:
    """One record as a line: `⟨4⟩ = w ~ ⟨3⟩ → [0.82 0.17]`; values are told more briefly to fit `width`."""
    line = ""
    for detail in (FULL, ENDS, SHAPES, NAMES):
        head, value = parts(tape, record, detail)
        sign = "" if record.kind in ("decision", "return") else " ="
        line = f"{number(record)}{sign} {head}{value}"
        if width is None or len(line) <= width:
            return line
    assert width is not None
    return line[: width - 1] + "…"


def parts(tape: "Tape", record: Record, detail: int = FULL) -> tuple[str, str]:
    """What a record did, and ` → value`, empty where it has none of its own."""
    operands = [operand(tape, record, o, detail) for o in record.operands]
    value = _value(record, detail)
    arrow = f" → {value}" if value else ""
    name, kind = record.name, record.kind
    if kind == "constant":
        return f"{name} = {value}" if name else value, ""
    if kind == "assumption":
        return f"{name} ~ {operands[0]}", arrow
    if kind == "observation":
        return f"{name} ⩪ {operands[0]} ← {operands[1]}", ""
    if kind == "deterministic":
        return f"{name} := {operands[0]}", arrow
    if kind == "factor":
        return f"{name} ∝ exp({operands[0]})", arrow
    if kind == "subsample":
        return f"{name} ~ {record.detail['some']} of {record.detail['all']}", arrow
    if kind == "argument":
        nested = operands and len(record.index) > 1
        return f"{name} = {operands[0] if nested else value}", ""
    if kind == "return":
        return f"return {', '.join(operands) or value}".rstrip(), arrow if operands else ""
    if kind == "decision":
        other = untaken(record) if detail < NAMES else None
        return f"decide on {operands[0]}", arrow + (f", not taken: {other}" if other else "")
    if kind == "primitive" and detail < NAMES:
        operands += static_parameters(record.op, record.params)
    return _operation(record, operands), arrow


def _operation(record: Record, operands: list[str]) -> str:
    if record.kind == "branch":
        return f"{_branch(record)} as {operands[0]} ({', '.join(operands[1:])})"
    if record.op == "scan":
        return f"scan × {record.detail['params']['length']} ({', '.join(operands)})"
    inner = [r for r in record.children if r.kind == "branch"] if record.detail.get("library") else []
    taken = f" by {_branch(inner[0])}" if len(inner) == 1 else ""
    name = record.detail.get("written") or record.op.removeprefix("reduce_")
    return f"{name}({', '.join(operands)}){taken}"


def _branch(record: Record) -> str:
    chosen = "?" if record.taken is None else record.taken + 1
    return f"branch {chosen} of {len(record.branches)}"


def _value(record: Record, detail: int) -> str:
    if record.kind == "distribution":
        return _distribution(record, detail)
    if record.values is not None:
        return summary(record.value, detail)
    return ", ".join(f"{dtype}{_shape(shape)}" for shape, dtype in record.shapes)


def _distribution(record: Record, detail: int) -> str:
    parameters: Mapping[str, Any] = record.detail.get("parameters", {})
    if not parameters:
        return ""
    if detail == NAMES:
        return f"{record.op}(…)"
    return f"{record.op}({', '.join(f'{n}={summary(v, detail)}' for n, v in parameters.items())})"


def operand(tape: "Tape", record: Record, item: Any, detail: int = FULL) -> str:
    """An operand as the record sees it."""
    if isinstance(item, Const):
        return summary(item.value, detail)
    maker = tape.seen_from(item.ident, record.index)
    if maker is None:
        return "?"
    several = len(maker.outputs) > 1 and item.ident in maker.outputs
    return number(maker) + (f"[{maker.outputs.index(item.ident)}]" if several else "")


def rows(tape: "Tape", depth: int | None) -> Iterator[Record]:
    """Records to a depth (None: all), in the order in which they are written."""
    stack = list(reversed(tape.records))
    while stack:
        record = stack.pop()
        yield record
        if depth is None or len(record.index) < depth:
            stack.extend(reversed(record.children))


def text(tape: "Tape", depth: int | None, width: int) -> str:
    """All records to a depth, one line each."""
    lines = []
    for record in rows(tape, depth):
        indent = "  " * (len(record.index) - 1)
        lines.append(indent + statement(tape, record, max(width - len(indent), 24)))
    return "\n".join(line[:width] for line in lines)


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
