"""How an error of a cell is shown: its line, as its writer sees it, with a caret, a sentence, the way out;
the rest is folded."""

import linecache
import re
import sys
from typing import Any

from gibbsite.errors import CATALOGUE, GibbsiteError, GrammarError
from IPython.core.compilerop import code_name

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
    where = f"line {spot.line}" if spot.file == filename else f"line {spot.line} of {_file(spot.file)}"
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
    more = f"More: {CATALOGUE}#{error.entry}" if ours and error.entry else ""
    lines.append(f"{more}{'; ' * bool(more)}{'the' if more else 'The'} whole traceback: %tb")
    shown = [False]

    def render() -> list[str]:
        if not shown[0]:
            shown[0] = True
            return lines
        return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)

    error._render_traceback_ = render  # type: ignore[attr-defined]
    return error


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


def _file(name: str) -> str:
    known = linecache.getline(name, 1).strip()
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
