"""Lowered programs → compiled ones, with options told to XLA for these alone; how long that takes here."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

from gibbsite.programs.jaxpr.compat import RIGHT, compiled_by, dumped, program_key, program_size, staged
from gibbsite.programs.jaxpr.kept import chosen, found_or_made, put
from gibbsite.programs.passes.for_cpu import lowered_for_cpu

_FILE = "took.json"
_MOST, _LAST, _MOST_BYTES = 64, 5, 100_000
# programs of a size within this factor are alike; what they take goes with their size
_ALIKE = 2.0
_adding = threading.Lock()
_logger = logging.getLogger("gibbsite")


class Took:
    """Seconds by sort and size of program, in a file beside the compiled ones: the last of them, as numbers.

    Whatever is wrong with the file, nothing is known: it is replaced by what is learnt next.
    """

    def __init__(self, folder: Path):
        self._path = folder / _FILE

    def expected(self, sort: str, size: int) -> float | None:
        """Seconds that a program of so many bytes will take, by the last ones like it; None where there was
        none."""
        alike = [s * size / n for k, n, s in self._read() if k == sort and 1 / _ALIKE <= n / size <= _ALIKE]
        return median(alike[-_LAST:]) if alike else None

    def add(self, sort: str, size: int, seconds: float) -> None:
        """Remember what a program took."""
        with _adding:  # of two processes at once, one may be forgotten
            rows = [*self._read(), (sort, size, round(seconds, 3))][-_MOST:]
            try:
                put(self._path, json.dumps(rows).encode())
            except OSError as error:  # the cache of compiled programs, in the same folder, tells of it
                _logger.debug("cannot remember how long compiling took: %s", error)

    def _read(self) -> list[tuple[str, int, float]]:
        try:
            with self._path.open("rb") as file:
                rows = json.loads(file.read(_MOST_BYTES))
            found = [(str(sort), int(size), float(seconds)) for sort, size, seconds in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            _logger.debug("what was remembered of compiling is of no use: %s", error)
            return []
        return [(k, n, s) for k, n, s in found if n > 0 and math.isfinite(s) and s >= 0]


# On CPUs XLA runs every operation of a `while` loop as a task of its own, unless one pass of the loop touches
# no more bytes than this: then the loop becomes one function. The default, 1 kB, is less than the state of
# most samplers; up to some megabytes one function is as fast, or up to three times faster.
_FOR_CPU = {"xla_cpu_small_while_loop_byte_threshold": "4000000"}
# XLA's newer way of writing fused loops goes through MLIR, which takes a third of the time of compiling, and
# most of what runs on few numbers is slower for it, but for products with matrices of data; from 0.11 on XLA
# knows no other
_PLAIN_LOOPS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
# what runs once: compiling it fast matters more than running it fast
_QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True, **_PLAIN_LOOPS}
# LLVM's costlier passes double the time of compiling; what they gain shows in loops over long arrays
_SMALL = {"xla_backend_optimization_level": 1}
_SHORT = 4096
# where it runs on more numbers than these, it had better run fast
_FEW = 200_000
# fields of XLA's messages: CompileOptionsProto.executable_build_options, ExecutableBuildOptionsProto
# .debug_options, DebugOptions.xla_backend_extra_options and the two halves of an entry of this map
_BUILD_OPTIONS, _DEBUG_OPTIONS, _EXTRA, _KEY, _VALUE = 3, 3, 500, 1, 2


def compiled(
    lowered: Any, quickly: bool = False, on: Any = None, expect: Callable[[float], object] | None = None
) -> Any:
    """Compile a `jax.stages.Lowered`; on CPUs small loops become functions.

    `quickly` is for what runs once, on a CPU; `on` are the arrays of data that what runs there often runs on.
    `expect` is told how many seconds it will take, where XLA has to compile it and programs like it were
    compiled before; what it takes is remembered then.

    The option for that is one of XLA's backend for CPUs. JAX can name it in the variable `XLA_FLAGS` alone,
    which speaks for the whole process; so it is put into the options on their way to XLA. What the user says
    there is kept.
    """
    sort = "quickly" if quickly else "long" if on is None or not _few(on) else "small"
    options = {"quickly": _QUICKLY, "small": _SMALL, "long": None}[sort]
    if sort == "small" and _PLAIN_LOOPS and not _with_matrices(on):
        sort, options = "plain", _SMALL | _PLAIN_LOOPS
    return compiled_by(lowered, partial(_Client, sort=sort, expect=expect), {**RIGHT, **(options or {})})


def _few(tree: Any) -> bool:
    """Whether a program that runs on these arrays gains nothing from being optimised for long ones."""
    return sum(np.size(a) for a in jax.tree.leaves(tree)) <= _SHORT


def _with_matrices(tree: Any) -> bool:
    return any(np.ndim(a) > 1 and np.issubdtype(a.dtype, np.inexact) for a in jax.tree.leaves(tree))


def once(fn: Callable[..., Any], *arguments: Any) -> Any:
    """`fn(*arguments)`, compiled as fast as can be: for what is computed once, of a few million numbers."""
    return for_once(lowered(fn, *arguments), arguments)(*arguments)


def for_once(program: Any, arguments: Any, numbers: int = 0) -> Any:
    """Compile a `jax.stages.Lowered` that runs once, on these arguments: quickly, unless these are long or it
    computes more `numbers` than a few."""
    return compiled(program, quickly=_is_short(arguments, numbers), on=arguments)


def _is_short(arguments: Any, numbers: int) -> bool:
    """Whether it takes less to compute something once, unoptimised, than to optimise it."""
    most = max([numbers, *map(np.size, jax.tree.leaves(arguments))])
    return most <= _FEW and jax.default_backend() == "cpu"


class Repeated:
    """A `jax.stages.Lowered` that runs some times on such `arguments`: compiled as `for_once`, and properly
    as soon as what is left would take longer than that."""

    def __init__(self, program: Any, arguments: Any, numbers: int = 0):
        self._lowered, self._on = program, arguments
        began = time.monotonic()
        self._program = for_once(program, arguments, numbers)
        self._compiling, self._quick = time.monotonic() - began, _is_short(arguments, numbers)

    def __call__(self, *arguments: Any, left: int = 0) -> Any:
        """Its results, of which `left` more will be asked for."""
        began = time.monotonic()
        out = jax.block_until_ready(self._program(*arguments))
        # unoptimised programs take two to ten times as long; optimising takes some twice what compiling took
        if self._quick and left * (time.monotonic() - began) > 4 * self._compiling:
            self._program, self._quick = compiled(self._lowered, on=self._on), False
        return out


class Quick:
    """`fn`, a function of arrays, compiled as fast as can be when it is first called: for what runs once or a
    few times. Arguments have the same shapes at every call."""

    def __init__(self, fn: Callable[..., Any]):
        self._fn, self._program = fn, None
        self._making = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Its results."""
        with self._making:
            if self._program is None:
                on_cpu = jax.default_backend() == "cpu"
                self._program = compiled(lowered(self._fn, *arguments), quickly=on_cpu)
        return self._program(*arguments)


class ByShape:
    """`fn`, a function of arrays, compiled once for arguments of each shape: what many runs start with."""

    def __init__(self, fn: Callable[..., Any]):
        self._fn, self._programs, self._lowered = fn, dict[Any, Any](), dict[Any, Any]()
        self._making = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Its results."""
        self.compile(*arguments)
        return self._programs[_kind(arguments)](*arguments)

    def lower(self, *arguments: Any) -> None:
        """Trace and lower what is compiled for such arguments, so that another thread may compile it."""
        key = _kind(arguments)
        with self._making:
            if key not in self._programs and key not in self._lowered:
                self._lowered[key] = lowered(self._fn, *arguments)

    def compile(self, *arguments: Any) -> None:
        """Have the program for such arguments."""
        key = _kind(arguments)
        with self._making:
            if key not in self._programs:
                program = self._lowered.pop(key, None) or lowered(self._fn, *arguments)
                self._programs[key] = for_once(program, arguments)


def _kind(arguments: Any) -> tuple[Any, ...]:
    leaves, tree = jax.tree.flatten(arguments)
    return (tree, *((np.shape(a), jax.numpy.result_type(a)) for a in leaves))


def lowered(fn: Callable[..., Any], *arguments: Any) -> Any:
    """The program of `fn` for such arguments, in the form that is best on JAX's default device."""
    with staged():
        if jax.default_backend() == "cpu":
            return lowered_for_cpu(fn, *arguments)
        return jax.jit(fn).lower(*arguments)


class _Client:
    """XLA's client, as one compilation sees it."""

    def __init__(self, client: Any, sort: str, expect: Callable[[float], object] | None):
        self._client, self._sort, self._expect = client, sort, expect
        self._extra = _FOR_CPU if client.platform == "cpu" else {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def platform_version(self) -> str:
        """As JAX's own compile cache sees it, which does not know of these options."""
        return f"{self._client.platform_version} {self._extra or ''}".strip()

    def compile_and_load(
        self, module: Any, executable_devices: Any, compile_options: Any, **rest: Any
    ) -> Any:
        """As XLA's, or as it was kept. Where JAX has a compile cache of the user's, that is enough."""
        client, options = self._client, with_extra(compile_options, self._extra)

        def make() -> Any:
            return client.compile_and_load(module, executable_devices, options, **rest)

        settings: Any = jax.config
        if settings.jax_compilation_cache_dir or any(rest.values()) or jax.process_count() > 1:
            return make()
        return found_or_made(
            lambda: program_key(module, executable_devices, options, client),
            lambda content: client.deserialize_executable(content, executable_devices, options),
            lambda: self._timed(module, make),
            lambda made: dumped(made, client),
        )

    def _timed(self, module: Any, make: Callable[[], Any]) -> Any:
        """`make()`, whose time is told before and remembered after."""
        kept, expect = chosen(), self._expect
        if kept is None or expect is None:
            return make()
        took, size = Took(kept.folder), program_size(module)
        if (seconds := took.expected(self._sort, size)) is not None:
            expect(seconds)
        began = time.monotonic()
        made = make()
        took.add(self._sort, size, time.monotonic() - began)
        return made


def with_extra(options: Any, extra: Mapping[str, str]) -> Any:
    """XLA's `CompileOptions` with options of the backend added; those that are there already stay."""
    said = options.SerializeAsString()
    more = b"".join(
        _message(_EXTRA, _message(_KEY, key.encode()) + _message(_VALUE, value.encode()))
        for key, value in extra.items()
        if key.encode() not in said
    )
    if not more:
        return options
    # serialised messages that follow each other are merged
    return type(options).ParseFromString(said + _message(_BUILD_OPTIONS, _message(_DEBUG_OPTIONS, more)))


def _message(field: int, content: bytes) -> bytes:
    """A field that holds bytes, in protocol buffers' wire format."""
    return _number(field << 3 | 2) + _number(len(content)) + content


def _number(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + _number(n >> 7)


# What a `with` statement of JAX's says about the thread it is in, carried to another one.
#
# A run samples in a thread of its own, and JAX's contexts (`jax.enable_x64`, `jax.default_prng_impl`, …)
# hold for one thread. What held where the model was made is what its program was traced for.


@dataclass(frozen=True)
class Surroundings:
    """JAX's settings that decide what a program computes, called as the contexts that set them are."""

    enable_x64: bool
    default_prng_impl: str
    default_matmul_precision: str | None
    numpy_dtype_promotion: str
    threefry_partitionable: bool = True

    @classmethod
    def here(cls) -> "Surroundings":
        """Those of this thread, now."""
        config: Any = jax.config
        return cls(
            bool(config.jax_enable_x64),
            str(config.jax_default_prng_impl),
            config.jax_default_matmul_precision,
            str(getattr(config.jax_numpy_dtype_promotion, "value", config.jax_numpy_dtype_promotion)),
            bool(getattr(config, "jax_threefry_partitionable", True)),
        )

    def with_numbers_of(self, other: "Surroundings") -> "Surroundings":
        """These, with the types of numbers of `other`: a program is run with those it was traced for."""
        promotion = other.numpy_dtype_promotion
        return replace(self, enable_x64=other.enable_x64, numpy_dtype_promotion=promotion)

    def others(self, saved: Mapping[str, Any]) -> list[str]:
        """Settings that were others when a run was saved: `jax_enable_x64=True (here False)`."""
        now = asdict(self)
        differ = [n for n in now if n in saved and saved[n] != now[n]]
        return [f"jax_{n}={str(saved[n])[:40]} (here {now[n]})" for n in differ]

    @contextmanager
    def carried(self) -> Iterator[None]:
        """Have them hold in this thread."""
        now = Surroundings.here()
        with ExitStack() as stack:
            for name, value in vars(self).items():
                if getattr(now, name) != value:
                    stack.enter_context(getattr(jax, name)(value))
            yield
