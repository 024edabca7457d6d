"""What a model asks of a column's categories: answered from its labels, since the model gets codes.

`plate("shop", df.shop)` and `df.shop.nunique()` have no meaning for a traced array. They are known when the
model is made, so they stand in the function's code as constants: the code is changed and not the source,
which cells and files have in different forms. Looked at are calls that name the column, as the source has
them.
"""

import ast
import dis
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from gibbsite.inputs.compared import comparing

_plain: "WeakKeyDictionary[Any, Any]" = WeakKeyDictionary()
_Span = tuple[int, int, int, int]  # line and column where an expression begins, and where it ends


def with_categories(
    fn: Callable[..., Any], labels: Mapping[str, Sequence[str]], units: Mapping[str, str]
) -> Callable[..., Any]:
    """The model function with how many categories there are where a plate's size is a column or `.nunique()`
    is asked, `levels(column)`, and columns that are compared with texts and dates (`comparing`); `units` are
    those of dates."""
    labels = {n: texts for n, texts in labels.items() if " of " not in n.partition("[")[0]}  # not of rows
    if isinstance(fn, MethodType):
        return MethodType(with_categories(fn.__func__, labels, units), fn.__self__)
    if not isinstance(fn, FunctionType) or not (labels or units):
        return fn
    fn = _plain.get(fn, fn)
    made = _with_answers(fn, labels)
    told = comparing(made, inspect.signature(made), labels, units)
    _plain[told] = fn
    return told


def _with_answers(fn: FunctionType, labels: Mapping[str, Sequence[str]]) -> FunctionType:
    changed = _answered(fn.__code__, labels)
    if changed is fn.__code__:
        return fn
    made = FunctionType(changed, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__, made.__qualname__ = fn.__kwdefaults__, fn.__qualname__
    made.__module__, made.__doc__, made.__annotations__ = fn.__module__, fn.__doc__, fn.__annotations__
    made.__dict__.update(fn.__dict__)
    return made


def _answered(code: CodeType, labels: Mapping[str, Sequence[str]]) -> CodeType:
    """The code with what is known in place of what was asked, in functions inside it too."""
    inner = tuple(_answered(c, labels) if isinstance(c, CodeType) else c for c in code.co_consts)
    if any(new is not old for new, old in zip(inner, code.co_consts, strict=True)):
        code = code.replace(co_consts=inner)
    for span, tree in _expressions(code):
        for node, value in _count(tree, labels):
            code = _with_constant(code, _of(node, span), value) or code
    return code


def _expressions(code: CodeType) -> Iterator[tuple[_Span, ast.Call]]:
    """Place and tree of the calls of a function."""
    seen: set[_Span] = set()
    for step in dis.get_instructions(code):
        at = step.positions
        if not step.opname.startswith("CALL") or at is None:
            continue
        if None in (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset):
            continue
        span: Any = (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset)
        if span in seen:
            continue
        seen.add(span)
        lines = [linecache.getline(code.co_filename, n).encode() for n in range(span[0], span[2] + 1)]
        lines[-1] = lines[-1][: span[3]]
        lines[0] = lines[0][span[1] :]
        piece = b"".join(lines).decode(errors="ignore")
        try:
            tree = ast.parse(
                f"({piece})", mode="eval"
            ).body  # in parentheses, which it stood in if it goes on
        except SyntaxError:
            continue
        if isinstance(tree, ast.Call):
            yield span, tree


def _of(node: ast.expr, span: _Span) -> _Span:
    """Where a part of an expression stands in its file."""

    def column(line: int, offset: int) -> int:
        return offset + span[1] - 1 if line == 1 else offset

    end_line, end = node.end_lineno or 1, node.end_col_offset or 0
    first, last = span[0] + node.lineno - 1, span[0] + end_line - 1
    return first, column(node.lineno, node.col_offset), last, column(end_line, end)


def _count(call: Any, labels: Mapping[str, Sequence[str]]) -> Iterator[tuple[ast.expr, Any]]:
    """What a call asks of a column's categories, and the answer."""
    fn, called = call.func, _called(call)
    if called == "nunique" and isinstance(fn, ast.Attribute) and not (call.args or call.keywords):
        if (known := labels.get(_argument(fn.value))) is not None:
            yield call, len(known)
    elif _is_levels(call) and len(call.args) == 1:
        if (known := labels.get(_argument(call.args[0]))) is not None:
            yield call, tuple(known)
    elif called == "len" and len(call.args) == 1:
        if (known := labels.get(_of_categories(call.args[0]))) is not None:
            yield call, len(known)
    elif called == "plate":
        for size in [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "size")]:
            of = size.args[0] if isinstance(size, ast.Call) and len(size.args) == 1 else size
            if (known := labels.get(_argument(of))) is not None and (of is size or _is_levels(size)):
                yield size, len(known)


def _called(call: ast.Call) -> str:
    fn = call.func
    return fn.attr if isinstance(fn, ast.Attribute) else fn.id if isinstance(fn, ast.Name) else ""


def _of_categories(node: ast.expr) -> str:
    """The column whose categories pandas gives: `df.g.cat.categories`."""
    inner = node.value if isinstance(node, ast.Attribute) and node.attr == "categories" else None
    return _argument(inner.value) if isinstance(inner, ast.Attribute) and inner.attr == "cat" else ""


def _is_levels(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _called(node) == "levels"


def _with_constant(code: CodeType, span: _Span, value: Any) -> CodeType | None:
    """The code that loads a constant where it computed the expression at `span`; None where its instructions
    are not by themselves, as where one loads two variables."""
    steps = list(dis.get_instructions(code))
    inside = [i for i, step in enumerate(steps) if step.positions and _within(tuple(step.positions), span)]
    if not inside or inside != list(range(inside[0], inside[-1] + 1)) or inside[-1] + 1 == len(steps):
        return None
    effect = sum(dis.stack_effect(steps[i].opcode, steps[i].arg) for i in inside)
    if effect != 1 or len(code.co_consts) > 255:
        return None
    # what follows an instruction for its cache, too: skipping is all that is left to do there
    start, end = steps[inside[0]].offset, steps[inside[-1] + 1].offset
    load = [dis.opmap["LOAD_CONST"], len(code.co_consts)]
    skipped = [dis.opmap["NOP"], 0] * ((end - start) // 2 - 1)
    new = bytes([*load, *skipped])
    return code.replace(
        co_code=code.co_code[:start] + new + code.co_code[end:], co_consts=(*code.co_consts, value)
    )


def _within(at: tuple[Any, ...], span: _Span) -> bool:
    line, end_line, column, end = at
    if None in at:
        return False
    return (line, column) >= span[:2] and (end_line, end) <= span[2:]


def _argument(node: ast.expr) -> str:
    """An argument or a column of one as `labels` are called: `g`, `df['g']`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}[{node.attr!r}]"
    return ast.unparse(node)
