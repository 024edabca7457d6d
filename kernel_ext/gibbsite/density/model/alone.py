"""One thread at a time where NumPyro's handlers are at work, and none of the user's beside it.

NumPyro keeps its handlers on one stack for the whole process: two models that are traced at once would apply
their handlers to each other's statements. Whatever runs a model here takes `handlers_alone`, which can be
taken again by its holder. Meanwhile the holder has a stack of its own, and all other threads theirs: a user's
model that runs beside a run is not touched by what this one does, nor the other way round. What NumPyro's
modules refer to is put back when it is left. NumPyro's switch of validation is one for the whole process,
too: it is turned by the holder alone, so that what another thread traces sees it as the user left it. And
what columns of tables have, traced arrays have for the holder, and a text that is made of one asks for its
value."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from numpyro import handlers, primitives

from gibbsite.errors import ModelError
from gibbsite.explain.spot import is_shown
from gibbsite.ground.process import after_fork
from gibbsite.inputs.column import ATTRIBUTES
from gibbsite.inputs.compared import comparable, size_of
from gibbsite.programs.jaxpr.compat import TRACED, CalledAsColumns, no_text
from gibbsite.programs.jaxpr.source_line import is_foreign


def _sized(plain: Callable[..., None]) -> Callable[..., None]:
    """The constructor of plates, which have as many elements as a column has categories."""

    def made(self: Any, *args: Any, **options: Any) -> None:
        if len(args) > 1:
            args = (args[0], size_of(args[0], args[1]), *args[2:])
        elif "size" in options:
            options["size"] = size_of(str(args[0] if args else options.get("name")), options["size"])
        plain(self, *args, **options)

    return made


def _asked(plain: Callable[..., str]) -> Callable[..., str]:
    """The text of something traced, by which Python may decide as it does by a number: it is asked for a
    value that it does not have, unless the text is for people, or another library's."""

    def text(value: Any, *form: Any) -> str:
        whole = getattr(getattr(value, "dtype", None), "kind", "") in ("b", "i", "u")
        if whole and (by := _asking(sys._getframe(1))) is not None and not is_shown(by):
            raise no_text(value)
        return plain(value, *form)

    return text


def _asking(frame: FrameType | None) -> FrameType | None:
    """Whoever asked, where that is a program of the user's."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gibbsite":
        frame = frame.f_back
    return None if frame is None or is_foreign(frame.f_code.co_filename) else frame


as_columns = CalledAsColumns(
    ATTRIBUTES,
    comparable,
    {
        (primitives.plate, "__init__"): _sized,
        **{(TRACED, name): _asked for name in ("__str__", "__repr__", "__format__")},
    },
)
"""A context in which a model's function may be called with the columns of tables."""

_NAME = "_PYRO_STACK"
# these change nothing of what a model says
_HARMLESS = (handlers.seed, handlers.trace, handlers.block)
# how long another thread may take for a pass over its model before its handlers are held to be our caller's
_PASS_SECONDS = 1.0
# how often whoever waits looks whether anybody is left who could let go
_LOOK_SECONDS = 0.5


class _Stacks:
    """Stands in for NumPyro's stack: for one thread an empty one, for all others the one that was there."""

    def __init__(self, before: Any):
        self.before, self._own = before, []
        self._owner: int | None = threading.get_ident()

    def ended(self) -> None:
        """Be the stack that was there for everybody who still refers to this one."""
        self._owner = None

    @property
    def _here(self) -> Any:
        return self._own if threading.get_ident() == self._owner else self.before

    def append(self, handler: Any) -> None:
        self._here.append(handler)

    def pop(self, *at: int) -> Any:
        return self._here.pop(*at)

    def index(self, handler: Any) -> int:
        return self._here.index(handler)

    def __len__(self) -> int:
        return len(self._here)

    def __getitem__(self, at: Any) -> Any:
        return self._here[at]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._here)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._here)

    def __contains__(self, handler: Any) -> bool:
        return handler in self._here


def _replace(old: Any, new: Any) -> None:
    """Have every module of NumPyro's that refers to `old` refer to `new`."""
    # a copy is made at one go; a list of the items is not, where another thread imports something
    modules = sys.modules.copy()
    # thousands of names are looked through, at each pass over a model
    for name in [name for name in modules if name.startswith("numpyro")]:
        if vars(modules[name]).get(_NAME) is old:
            setattr(modules[name], _NAME, new)


class HandlersAlone:
    """A context that one thread at a time is in; see the module."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock, self._depth = threading.Lock(), 0
        self._owner: threading.Thread | None = None
        # who may hold the lock, and who of them is only waiting for it: a thread that is broken off between
        # two instructions may end with it
        self._near: set[threading.Thread] = set()
        self._waiting: set[threading.Thread] = set()
        self._stacks: _Stacks | None = None
        self._among_columns = 0  # the thread for which arrays answer as columns

    def __enter__(self) -> None:
        thread = threading.current_thread()
        if self._owner is not thread:
            self._near.add(thread)
            self._waiting.add(thread)
            self._acquire(thread)
            self._owner = thread
            self._waiting.discard(thread)
        if self._depth == 0:
            self._stacks = _Stacks(getattr(primitives, _NAME))
            _replace(self._stacks.before, self._stacks)
            self._among_columns = as_columns.begin()
        self._depth += 1

    def _acquire(self, thread: threading.Thread) -> None:
        without = 0
        while not self._lock.acquire(timeout=_LOOK_SECONDS):
            holders = {t for t in self._near - self._waiting if t.is_alive()} - {thread}
            without = 0 if holders else without + 1
            if without == 2:  # not one that has only just begun to hold it
                self._put_back()
                self._owner, self._depth = None, 0
                self._near = {t for t in self._near if t.is_alive()}
                if self._lock.locked():
                    self._lock.release()
                without = 0

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._put_back()
            self._near.discard(threading.current_thread())
            self._owner = None
            self._lock.release()

    def forked(self) -> None:
        """Be free in a forked child, where the thread that was in it is not."""
        self._put_back()
        self._reset()

    def _put_back(self) -> None:
        if self._stacks is not None:
            as_columns.end(self._among_columns)
            self._stacks.ended()
            _replace(self._stacks, self._stacks.before)
            self._stacks = None

    def refuse_others(self) -> None:
        """Raise `ModelError` where the caller is inside handlers that change what a model says: whatever runs
        the model later would not see them."""
        until = time.monotonic() + _PASS_SECONDS
        while (found := self._foreign()) and time.monotonic() < until:
            time.sleep(0.01)  # perhaps another thread's, which is about to be through with its model
        if found:
            names = ", ".join(sorted({type(h).__name__ for h in found}))
            raise ModelError(
                f"a model was made inside NumPyro's {names}, which its kernels could not see later. Apply it "
                f"to the function instead, as in handlers.{type(found[0]).__name__}(model, …)"
            )

    def _foreign(self) -> list[Any]:
        if self._depth and self._owned():
            return []  # inside one of our own passes
        stack = getattr(primitives, _NAME)
        theirs = stack.before if isinstance(stack, _Stacks) else stack
        return [h for h in list(theirs) if not isinstance(h, _HARMLESS)]

    def _owned(self) -> bool:
        return self._stacks is not None and self._stacks._owner == threading.get_ident()


handlers_alone = HandlersAlone()

after_fork(as_columns.forked)
after_fork(handlers_alone.forked)
