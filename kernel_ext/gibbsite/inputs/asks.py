"""Whether Python asked for the value of something traced and the user's own code caught the error, so that
nobody else heard of it."""

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from gibbsite.inputs.reading import codes_of, functions_of

_JAXS = frozenset(
    "ConcretizationTypeError TracerArrayConversionError TracerBoolConversionError "
    "TracerIntegerConversionError NonConcreteBooleanIndexError JAXTypeError".split()
)


class Asks:
    """The first error of a kind that came up in functions that may catch it; None where there was none."""

    def __init__(self, codes: frozenset[CodeType], wanted: Callable[[BaseException], bool]):
        self.error: BaseException | None = None
        self.codes, self._wanted = codes, wanted

    def entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What follows a frame, as `sys.settrace` takes it."""
        if frame.f_code not in self.codes:
            return None
        frame.f_trace_lines = False
        return self._followed

    def _followed(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and self.error is None and isinstance(arg[1], BaseException):
            self.error = arg[1] if self._wanted(arg[1]) else None
        return self._followed


@contextmanager
def asks_heard(fn: Callable[..., Any], wanted: Callable[[BaseException], bool]) -> Iterator[Asks]:
    """Note the `wanted` errors that functions of the user's catch while `fn` runs in here. Where none of them
    catches anything, nothing is followed."""
    codes = [c for one in functions_of(fn, set()) for c in codes_of(one.__code__)]
    heard = Asks(frozenset(c for c in codes if _catches(c)), wanted)
    if not heard.codes:
        yield heard
        return
    before = sys.gettrace()
    sys.settrace(heard.entered)
    try:
        yield heard
    finally:
        sys.settrace(before)


@lru_cache(maxsize=1024)
def _catches(code: CodeType) -> bool:
    """Whether some handler is no `with` statement's, but perhaps `contextlib.suppress`; one that names JAX's
    own errors knows what it catches."""
    names = [i.opname for i in dis.get_instructions(code)]
    handlers = names.count("PUSH_EXC_INFO") - names.count("WITH_EXCEPT_START")
    return (handlers > 0 or "suppress" in code.co_names) and _JAXS.isdisjoint(code.co_names)
