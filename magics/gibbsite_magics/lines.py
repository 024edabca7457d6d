"""Let tracebacks show the lines of a cell as its writer sees them."""

import linecache
import sys
from typing import Any

from IPython.core.compilerop import code_name


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
