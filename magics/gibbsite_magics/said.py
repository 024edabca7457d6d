"""How an error of a cell is shown: its line, as its writer sees it, with a caret, a sentence, the way out;
the rest is folded."""

import ast
import linecache
import re
import sys
from collections.abc import Collection
from types import TracebackType
from typing import Any, NamedTuple

from gibbsite.errors import CATALOGUE, GibbsiteError, GrammarError
from IPython.core.compilerop import code_name

from gibbsite_magics.vocabulary import vocabulary

_MOST = 400
_WORD = re.compile(r"[a-z]+[ ,:]")  # and no expression such as `df['p']`, whose case says what it is


def show_first(shell: Any, error: BaseException, filename: str) -> BaseException:
    """Let IPython show the error so: the first time in short where it concerns a line of the user's, and
    whole when `%tb` asks. An error that arose in the user's own code, outside of any library, stays as it
    is."""
    from gibbsite.explain.spot import spot_of, spot_of_message

    ours = isinstance(error, GibbsiteError)
    spot = spot_of_message(error) if ours else None
    spot = spot or spot_of(error)
    if spot is None or not (ours or _from_below(error)) or not spot.text.strip():
        return error
    where = f"line {spot.line}" if spot.file == filename else f"line {spot.line} of {_file(spot.file, shell)}"
    text, shift = spot.text.strip(), len(spot.text) - len(spot.text.lstrip())
    says = str(error).replace(f" ({spot.told})", "")
    if not ours:
        says = f"{says.strip().partition(chr(10))[0][:_MOST]}"
    start, end = max(spot.start - shift, 0), min(spot.end - shift, len(text))
    lines = [
        f"{type(error).__name__} in {where}",
        f"    {text}",
        f"    {' ' * start}{'^' * max(end - start, 1)}",
        says[:1].upper() + says[1:] if _WORD.match(says) else says,
    ]
    more = f"More: {CATALOGUE}#{error.entry}; here: %more" if ours and error.entry else "More: %more" * ours
    lines.append(f"{more}{'; ' * bool(more)}{'the' if more else 'The'} whole traceback: %tb")
    shown = [False]

    def render() -> list[str]:
        if not shown[0]:
            shown[0] = True
            return lines
        return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)

    error._render_traceback_ = render  # type: ignore[attr-defined]
    return error


def show_calls(shell: Any) -> None:
    """Have IPython show errors of ours that a call of Python's ends in as it shows those of cells and lines:
    the first time without our frames, whole when `%tb` asks."""

    def render(error: GibbsiteError) -> list[str]:
        show_first(shell, error, "")
        own = error.__dict__.pop("_render_traceback_", None)
        lines = _of_the_caller(shell, error) if own is None else own()
        error._render_traceback_ = lambda: _whole(shell, error)  # type: ignore[attr-defined]
        return lines

    GibbsiteError._render_traceback_ = render  # type: ignore[attr-defined]


def _whole(shell: Any, error: BaseException) -> list[str]:
    return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)


def _of_the_caller(shell: Any, error: BaseException) -> list[str]:
    """The traceback as far as the frames are the caller's."""
    from gibbsite.programs.jaxpr.source_line import is_foreign

    own, trace = [], error.__traceback__
    while trace is not None and is_foreign(trace.tb_frame.f_code.co_filename):  # IPython's
        trace = trace.tb_next
    while trace is not None and not is_foreign(trace.tb_frame.f_code.co_filename):
        own.append(trace)
        trace = trace.tb_next
    cut = None
    for t in reversed(own):
        cut = TracebackType(cut, t.tb_frame, t.tb_lasti, t.tb_lineno)
    cause, hidden = error.__cause__, error.__suppress_context__
    error.__cause__ = None
    error.__suppress_context__ = True
    try:
        lines = shell.InteractiveTB.structured_traceback(type(error), error, cut, tb_offset=0)
    finally:
        error.__cause__, error.__suppress_context__ = cause, hidden
    return [*lines, "The whole traceback: %tb"]


def ungrammatical(shell: Any, error: SyntaxError) -> GrammarError:
    """The error of a cell that cannot be read, shown as IPython shows it for any: line, caret, sentence."""
    made = GrammarError(f"line {error.lineno}: {error.msg}")
    shown = shell.SyntaxTB.structured_traceback(SyntaxError, error, [])
    made._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return made


def _from_below(error: BaseException) -> bool:
    """Whether an exception arose in a library that runs the model."""
    from gibbsite.programs.jaxpr.source_line import is_foreign

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_foreign(trace.tb_frame.f_code.co_filename)


def _file(name: str, shell: Any) -> str:
    known = linecache.getline(name, 1).strip()
    number = getattr(shell.compile, "_filename_map", {}).get(name)
    if number is not None and not known.startswith("%%model"):
        return f"In[{number}]"
    return known if name.startswith("<") or known.startswith("%%model") else name.rpartition("/")[2]


def register(shell: Any, text: str) -> str:
    """Make `text` known as the source of a file; returns the file's name, to compile under.

    IPython's own name for the cell will not do: under a kernel it ends in `.py`, and for such a name that is
    no file IPython shows a function's source alone, which it takes to end where the cell's first line does.
    """
    # IPython's table of the numbers of cells makes a traceback say `Cell In[3]` instead of a file's name.
    numbers = getattr(shell.compile, "_filename_map", {})
    number = _number_of_the_running_cell(numbers, shell.execution_count)
    name = code_name(text, number)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    numbers[name] = number
    return name


def _number_of_the_running_cell(numbers: dict[str, int], otherwise: int) -> int:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename in numbers:
            return numbers[frame.f_code.co_filename]
        frame = frame.f_back
    return otherwise


_SHAPED = ("expand", "to_event", "mask")


class Slip(NamedTuple):
    """A statement that cannot be meant, and the sentence to say so."""

    node: ast.stmt
    sentence: str


def find_slip(
    tree: ast.Module, parameters: Collection[str], sampled: Collection[tuple[int, int]]
) -> Slip | None:
    """The first such statement of a tilde cell, parsed with `=` for each `~`; None where there is none.
    `sampled` are line and column of the statements that had one."""
    for node in ast.walk(tree):
        made = _made(node) if isinstance(node, ast.stmt) else None
        if made is not None:
            name, family = made
            return Slip(node, f"this samples nothing: write `{name} ~ {family}(…)`")  # type: ignore[arg-type]
        if not isinstance(node, ast.Assign) or (node.lineno, node.col_offset) in sampled:
            continue
        if _hides(node, tree, parameters):
            name, family = node.targets[0].id, _family(node.value)  # type: ignore[attr-defined]
            return Slip(node, f"{name!r} is data, and this observes nothing: write `{name} ~ {family}(…)`")
    return _overwritten(tree.body, {}, parameters, sampled)


def _overwritten(
    block: list[ast.stmt],
    unread: dict[str, ast.expr],
    parameters: Collection[str],
    sampled: Collection[tuple[int, int]],
) -> Slip | None:
    """A latent sampled under a name that holds data which nothing has read: `x = df.x`, then `x ~ …`.
    `unread` are such names so far; blocks that may run or not are left alone."""
    for node in block:
        if isinstance(node, ast.With):
            for item in node.items:
                _read(item, unread)
            if found := _overwritten(node.body, unread, parameters, sampled):
                return found
            continue
        _read(node, unread)
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if (node.lineno, node.col_offset) not in sampled:
            if len(node.targets) == 1 and _names(value) & set(parameters):
                unread[name] = value
        elif name in unread and name not in parameters:
            data = unread[name]
            told = ast.unparse(data)
            column = isinstance(data, ast.Attribute | ast.Subscript) and isinstance(data.value, ast.Name)
            text = not isinstance(data, ast.Subscript) or isinstance(getattr(data.slice, "value", 0), str)
            cure = f"`{told} ~ …`" if column and text else f"`numpyro.sample({name!r}, …, obs={told})`"
            return Slip(
                node,
                f"{name!r} becomes a latent here, and the data it held, `{told}`, are lost, since {name!r} "
                f"is no argument of the model: to observe them write {cure}",
            )
    return None


def _read(node: ast.AST, unread: dict[str, ast.expr]) -> None:
    for name in _names(node):
        unread.pop(name, None)


def _names(node: ast.AST) -> set[str]:
    """The names that a statement or expression reads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _made(node: ast.stmt) -> tuple[str, str] | None:
    """Name and family of what a statement was likely meant to sample."""
    left: ast.expr | None = None
    right: ast.expr | None = None
    if isinstance(node, ast.AnnAssign) and node.value is None:
        left, right = node.target, node.annotation
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.UnaryOp):
        # `a ~~ Normal(0, 1)`: a second tilde
        doubled = isinstance(node.value.op, ast.Invert)
        left, right = node.targets[0], node.value.operand if doubled else None
    elif isinstance(node, ast.Expr):
        value = node.value
        if isinstance(value, ast.Compare):
            left, right = value.left, value.comparators[-1]
        elif isinstance(value, ast.BinOp):
            left, right = value.left, value.right
        else:
            right = value
        if isinstance(right, ast.UnaryOp):
            right = right.operand
    family = None if right is None else _family(right)
    if family is None:
        return None
    return (ast.unparse(left) if left is not None else "name"), family


def _hides(node: ast.Assign, tree: ast.Module, parameters: Collection[str]) -> bool:
    """Whether an argument is given a distribution that nothing below reads."""
    target = node.targets[0]
    if not isinstance(target, ast.Name) or target.id not in parameters or _family(node.value) is None:
        return False
    later = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return not any(n.id == target.id and n.lineno > (node.end_lineno or node.lineno) for n in later)


def _family(node: ast.expr) -> str | None:
    """The family of an expression that is a distribution as NumPyro makes them; None for anything else."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPED:
        node = node.func.value
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    word = vocabulary().get(name)
    return name if word is not None and word.module == "numpyro.distributions" else None
