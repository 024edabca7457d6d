"""What runs at a worker: a program that came as bytes, applied to the chains that came with it.

A worker keeps nothing of a run but compiled programs, so that any of them can take any piece, in any order,
and one that dies takes nothing with it.
"""

import hashlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import parent_process
from typing import IO, Any

import jax
import numpy as np

from gibbsite.ground.process import after_fork
from gibbsite.programs.jaxpr.compiling import Surroundings, compiled
from gibbsite.storage import checkpoint

_KEPT = 8
_REST = 60.0
_programs: OrderedDict[str, Callable[..., Any]] = OrderedDict()
_making = threading.Lock()
_forked = False
_own: "list[_Process]" = []
_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class Program:
    """A step loop as bytes (`jax.export`), the data that it reads, the settings of JAX that it was traced
    in, and the versions that may run it."""

    exported: bytes
    inputs: tuple[np.ndarray, ...]
    surroundings: Mapping[str, Any]
    versions: Mapping[str, str]

    def packed(self) -> tuple[str, bytes]:
        """A name that no other program has, and all of it as bytes."""
        body = pickle.dumps((self.exported, self.inputs, dict(self.surroundings), dict(self.versions)))
        return hashlib.sha256(body).hexdigest(), body


@dataclass(frozen=True)
class Answer:
    """What became of a piece: "done" with the state and the records after the steps; "unknown" where the
    worker has not seen the program; "refused" or "raised" with a `text`. `worker` is who did it, `seconds`
    how long it took, `compiling` what came before where it was the first there."""

    kind: str
    worker: str
    state: tuple[np.ndarray, ...] = ()
    records: tuple[np.ndarray, ...] = ()
    seconds: float = 0.0
    compiling: float = 0.0
    text: str = ""


def stepped(
    name: str, body: bytes | None, state: Sequence[np.ndarray], steps: int, sweeps: int, attempt: str
) -> Answer:
    """Steps of some chains by the program of that name, which `body` holds where the worker may not know it.

    `attempt` is another text in every call: there are engines that take equal calls for one. Raises nothing
    of the program's: an exception here is one of the engine's.
    """
    with _interrupts.left():
        if _forked:
            return _process().call(name, body, state, steps, sweeps, attempt)
        return _stepped(name, body, state, steps, sweeps)


def _stepped(name: str, body: bytes | None, state: Sequence[np.ndarray], steps: int, sweeps: int) -> Answer:
    me = f"{socket.gethostname()}:{os.getpid()}"
    try:
        program = _program(name, body)
    except _Refused as refused:
        return Answer("refused", me, text=str(refused))
    except Exception as error:
        return Answer("raised", me, text=_told(error))
    if program is None:
        return Answer("unknown", me)
    began = time.monotonic()
    try:
        (new, records), compiling = program(tuple(state), np.int32(steps), np.int32(sweeps))
        seconds = time.monotonic() - began - compiling
        return Answer("done", me, new, tuple(r[:steps] for r in records), seconds, compiling)
    except Exception as error:
        return Answer("raised", me, text=_told(error))


class _Interrupts:
    """SIGINT in a process that another made for its pool: a key that is pressed, or a kernel that is
    interrupted, reaches all processes of a group. What is to end, that process says: from a piece's beginning
    until a minute after its end, when the next would be there, this one does nothing of its own accord."""

    def __init__(self) -> None:
        self._until, self._former = float("-inf"), None

    @contextmanager
    def left(self) -> Iterator[None]:
        self._until = float("inf")
        if parent_process() is not None and threading.current_thread() is threading.main_thread():
            set_here = signal.getsignal(signal.SIGINT)
            if callable(set_here) and set_here != self._met:
                self._former = set_here
                signal.signal(signal.SIGINT, self._met)
        try:
            yield
        finally:
            self._until = time.monotonic() + _REST

    def _met(self, number: int, frame: Any) -> None:
        if self._former is not None and time.monotonic() > self._until:
            self._former(number, frame)


_interrupts = _Interrupts()


class _Refused(Exception):
    """This worker must not run the program."""


def _told(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _program(name: str, body: bytes | None) -> Callable[..., Any] | None:
    with _making:
        if name not in _programs:
            if body is None:
                return None
            _programs[name] = _made(*pickle.loads(body))
            while len(_programs) > _KEPT:
                _programs.popitem(last=False)
        _programs.move_to_end(name)
        return _programs[name]


def _made(
    exported: bytes, inputs: tuple[np.ndarray, ...], around: dict[str, Any], versions: dict[str, str]
) -> Callable[..., Any]:
    here = checkpoint.versions()
    other = [f"{n} {here.get(n)} where the run has {v}" for n, v in versions.items() if here.get(n) != v]
    if other:
        raise _Refused(f"it has {', '.join(other)}: draws would not be those of one machine")
    found = jax.export.deserialize(bytearray(exported))
    surroundings, device = Surroundings(**around), _device(found.platforms)
    programs: list[Any] = []
    compiling = threading.Lock()

    def run(state: tuple[np.ndarray, ...], steps: Any, sweeps: Any) -> Any:
        began = time.monotonic()
        with surroundings.carried(), jax.default_device(device):
            with compiling:  # a worker of several threads
                if not programs:
                    lowered = jax.jit(found.call).lower(state, inputs, steps, sweeps)
                    programs.append(compiled(lowered, on=inputs if device.platform == "cpu" else None))
            ready = time.monotonic()
            return jax.tree.map(np.asarray, programs[0](state, inputs, steps, sweeps)), ready - began

    return run


def _device(platforms: Sequence[str]) -> Any:
    """The first device of this worker that the program was made for."""
    for platform in platforms:
        try:
            return jax.local_devices(backend=platform)[0]
        except RuntimeError:
            continue
    raise _Refused(f"it has no device of {', '.join(platforms)}")


# JAX does not survive a fork: a worker that was forked from a process in which JAX ran hands what it gets to
# a process of its own


def _after_fork() -> None:
    global _forked, _making
    _forked, _making = True, threading.Lock()
    _own.clear()


after_fork(_after_fork)


class _Process:
    """A fresh process that does what this one must not."""

    def __init__(self) -> None:
        self.of, self._busy = os.getpid(), threading.Lock()
        code = "from gibbsite.sampling.remote.worker import serve; serve()"
        paths = os.pathsep.join(p for p in sys.path if p)
        self._child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def call(self, *arguments: Any) -> Answer:
        """`stepped` there. Raises `EOFError` where it has died."""
        assert self._child.stdin is not None and self._child.stdout is not None
        with self._busy:
            _write(self._child.stdin, arguments)
            return _read(self._child.stdout)


def _process() -> _Process:
    with _making:
        if not _own:
            _own.append(_Process())
        return _own[0]


def serve() -> None:
    """Answer what comes by standard input until it ends; what models print goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of who asks
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            arguments = _read(asked)
        except EOFError:
            return
        _write(answers, stepped(*arguments))


def _write(stream: IO[bytes], value: Any) -> None:
    body = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError("the process at the other end has ended")
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError("the process at the other end has ended")
    return pickle.loads(body)
