"""The one module that touches parts of JAX which JAX does not promise to keep stable, and that reads the
texts of errors of JAX and NumPyro, where nothing else tells them apart."""

import io
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import jax.core as _jax_core
import jax.extend.core as _core
import numpy as np
from jax._src import cache_key as _cache_key
from jax._src import config as _config
from jax._src import core as _jax
from jax._src.array import ArrayImpl as _ArrayImpl
from jax.interpreters import partial_eval

if TYPE_CHECKING:  # JAX declares variables over an abstract value that has no shape or dtype

    class Var:
        """A variable of a jaxpr."""

        aval: Any

        def __init__(self, aval: Any) -> None: ...

    class JaxprEqn:
        """An equation of a jaxpr."""

        primitive: Any
        params: dict[str, Any]
        invars: list[Any]
        outvars: list[Any]
        source_info: Any
        effects: Any
        ctx: Any

        def replace(self, **changes: Any) -> "JaxprEqn": ...

    class Jaxpr:
        """An open jaxpr."""

        constvars: list[Any]
        invars: list[Any]
        outvars: list[Any]
        eqns: list[JaxprEqn]
        effects: Any
        debug_info: Any

        def __init__(self, *parts: Any, **info: Any) -> None: ...

    class ClosedJaxpr:
        """A jaxpr with the values of its constants."""

        jaxpr: Jaxpr
        consts: Sequence[Any]

        def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None: ...

    class Literal:
        """A constant that stands in an equation."""

        val: Any
        aval: Any

    def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Any, instantiate: Any = False) -> tuple[Jaxpr, list[bool]]: ...
    def jaxpr_as_fun(closed: ClosedJaxpr) -> Any: ...

else:
    Jaxpr, JaxprEqn, Var = _core.Jaxpr, _core.JaxprEqn, _core.Var
    ClosedJaxpr, Literal, jaxpr_as_fun = _core.ClosedJaxpr, _core.Literal, _core.jaxpr_as_fun
    dce_jaxpr = partial_eval.dce_jaxpr


def duplicated(error: BaseException) -> str | None:
    """The name that two sites of one run share, where NumPyro ended the run for that."""
    found = re.search(r"unique names but got `(.*?)`", str(error))
    return found.group(1) if found and isinstance(error, AssertionError) else None


_COUNTED = re.compile(
    r"for \*: '(list|tuple|str)' and '\w*Tracer'|for \*: '\w*Tracer' and '(list|tuple|str)'"
    r"|multiply sequence by non-int of type '\w*Tracer'|single integer, got '\w*Tracer"
    r"|format string passed to \w*Tracer|real number is required, not \w*Tracer|unhashable type: '\w*Tracer"
)


def of_no_argument(error: BaseException) -> bool:
    """Whether no argument of the traced function is in the value that Python wanted: what JAX's errors say of
    a value is what it was computed from."""
    return "became a tracer due to" in str(error)


def wants_number(error: BaseException) -> bool:
    """Whether something traced was given where a number has to stand, and JAX tells so by no error of a kind
    of its own: a slice, a shape, NumPy's too, how often a list is repeated, digits, or the key of a dict."""
    slices = isinstance(error, IndexError) and "Slice entries must be static" in str(error)
    if slices or not isinstance(error, TypeError):
        return slices
    return "concrete values" in str(error) or _COUNTED.search(str(error)) is not None


def is_no_array(error: BaseException) -> bool:
    """Whether a function of JAX was given something that makes an array of itself when it is asked to."""
    return "__jax_array__" in str(error)


# primitives that only wrap a body, with the parameter that holds it
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}


def closed_call_body(eqn: Any) -> ClosedJaxpr | None:
    """The body of an equation that merely calls a jaxpr (jit, custom derivatives, remat), else None."""
    param = _CALLS.get(eqn.primitive.name)
    if param is None:
        return None
    body = eqn.params[param]
    return body if isinstance(body, ClosedJaxpr) else ClosedJaxpr(body, ())


def shape_of(atom: Any) -> tuple[int, ...]:
    """The shape of a variable or literal."""
    return tuple(np.shape(atom.val)) if isinstance(atom, Literal) else tuple(atom.aval.shape)


def has_own_derivative(eqn: Any) -> bool:
    """Whether an equation calls a function that has a derivative of its own."""
    return eqn.primitive.name.startswith("custom_")


def only_by_its_own_slope(eqn: Any) -> bool:
    """Whether an equation is differentiated backwards by a rule of its own, and in no other way: a call of a
    `custom_vjp` function with a loop of unknown length in it, as an adaptive solver is."""
    if not eqn.primitive.name.startswith("custom_vjp_call"):
        return False
    body = closed_call_body(eqn)
    return body is not None and _has_while(body.jaxpr)


def _has_while(jaxpr: Any) -> bool:
    """Whether a `while` stands in a jaxpr, at any depth."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "while":
            return True
        for value in eqn.params.values():
            several = value if isinstance(value, tuple | list) else (value,)
            inner = (v.jaxpr if isinstance(v, ClosedJaxpr) else v for v in several)
            if any(_has_while(v) for v in inner if isinstance(v, Jaxpr)):
                return True
    return False


def scan_inputs(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many inputs of a `scan` are constants, and how many are carried; the others are scanned over.

    Up to JAX 0.10 the primitive says so by two numbers, from 0.11 on by a tree of its inputs.
    """
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def custom_name(eqn: Any) -> str:
    """The name of the function with a derivative of its own that an equation calls; empty for others."""
    if eqn.primitive.name != "custom_jvp_call":
        return ""
    info = getattr(closed_call_body(eqn).jaxpr, "debug_info", None)  # type: ignore[union-attr]
    return getattr(info, "func_name", None) or ""


_BACKENDS = frozenset(["cpu", "gpu", "cuda", "rocm", "tpu"])


def platform_default(eqn: Any) -> ClosedJaxpr | None:
    """The default branch of `lax.platform_dependent`, where no other is meant for a device of a backend.

    `jnp.diagonal` chooses so between an implementation for Pallas kernels and its usual one.
    """
    platforms = eqn.params.get("branches_platforms") if eqn.primitive.name == "cond" else None
    if not platforms or None not in platforms:
        return None
    if any(name in _BACKENDS for names in platforms for name in names or ()):
        return None
    return eqn.params["branches"][platforms.index(None)]


def jaxpr_outputs(
    jaxpr: Jaxpr, positions: Sequence[int], keep_inputs: bool = False
) -> tuple[Jaxpr, list[bool]]:
    """`jaxpr` cut to the outputs at `positions` (ascending), and which inputs that needs.

    With `keep_inputs` the result still takes all inputs.
    """
    wanted = set(positions)
    return dce_jaxpr(jaxpr, [i in wanted for i in range(len(jaxpr.outvars))], instantiate=keep_inputs)


def make_jaxpr_like(
    template: Jaxpr,
    constvars: Sequence[Var],
    invars: Sequence[Var],
    outvars: Sequence[Any],
    eqns: Sequence[JaxprEqn],
) -> Jaxpr:
    """A jaxpr of the given parts, with the debug information and effects of `template`."""
    return Jaxpr(
        list(constvars),
        list(invars),
        list(outvars),
        list(eqns),
        effects=template.effects,
        debug_info=template.debug_info,
    )


def bind_equation(eqn: JaxprEqn, operands: Sequence[Any], **changed: Any) -> list[Any]:
    """Apply the primitive of `eqn` to other operands, some parameters changed; always a list of results."""
    with eqn.ctx.manager:
        return bind_primitive(eqn.primitive, operands, {**eqn.params, **changed})


def equation_frames(eqn: JaxprEqn) -> list[tuple[str, int]]:
    """File names and line numbers of the stack on which an equation was traced, innermost first."""
    traceback = eqn.source_info.traceback
    if traceback is None:
        return []
    return [(frame.file_name, frame.line_num) for frame in traceback.frames]


def scope_of(eqn: JaxprEqn) -> str:
    """The `jax.named_scope`s within which an equation was traced, innermost last."""
    return str(eqn.source_info.name_stack)


_NUMBERS = re.findall(r"\d+", version("jaxlib"))[:3]
_WRONG = (0, 10, 2) <= tuple(map(int, _NUMBERS)) < (0, 12)
# From 0.10.2 on XLA hands reductions on CPUs to a library, YNNPACK, that adds up other elements than it is
# asked for: `-(d * x).sum(2)` of 320 by 160 by 2 numbers (jax-ml/jax#39103; also #39257, where it crashes).
RIGHT: dict[str, Any] = {"xla_cpu_experimental_ynn_fusion_type": ""} if _WRONG else {}
"""Options that a program has to be compiled with for its numbers to be right on CPUs."""


def tracing() -> Any:
    """What JAX does with operations now, to be compared with what it did elsewhere: None where this version
    does not say."""
    state = getattr(_core, "get_opaque_trace_state", None)
    return None if state is None else state()


def jit(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit`, with numbers that are right on CPUs (see `RIGHT`); within another program as those are."""
    plain: Any = jax.jit(fn)
    alone: Any = jax.jit(fn, compiler_options=RIGHT) if RIGHT else plain

    def run(*args: Any) -> Any:
        # JAX takes options for whole programs only
        return (alone if _jax.trace_state_clean() else plain)(*args)

    return run


def compiled_by(lowered: Any, client: Callable[[Any], Any], options: Any = None) -> Any:
    """Compile a `jax.stages.Lowered` by `client(what JAX would ask)`, as by `lowered.compile(options)`.

    Where this version of JAX keeps its client elsewhere, that is what is done.
    """
    arguments = getattr(lowered._lowering, "compile_args", {})
    asked = arguments.get("backend")
    options = options or {}  # with None it would keep the result for whoever compiles it next
    if asked is None:
        return lowered.compile(options)
    arguments["backend"] = client(asked)
    try:
        return lowered.compile(options)
    finally:
        arguments["backend"] = asked


def program_key(module: Any, devices: Any, options: Any, client: Any) -> str:
    """A name for what XLA would compile: a hash of the program, its options, the devices and all versions."""
    return _cache_key.get(module, np.array(list(devices)), options, client)


def program_size(module: Any) -> int:
    """How many bytes what XLA would compile takes in MLIR's own writing."""
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.tell()


def dumped(executable: Any, client: Any) -> bytes:
    """What XLA compiled, as bytes that `client.deserialize_executable` takes."""
    if hasattr(executable, "serialize"):
        return executable.serialize()
    return client.serialize_executable(executable)


class RecordedValue(_jax_core.Tracer):
    """A value on its way through a recorded run: concrete, so Python may branch on it.

    `value` is what the surrounding computation sees, `ident` the number by which records refer to it.
    """

    __slots__ = ("ident", "value")

    def __init__(self, trace: Any, value: Any, ident: int):
        super().__init__(trace, jax.typeof(value))
        self.value = value
        self.ident = ident

    def to_concrete_value(self) -> Any:
        """The value, as JAX asks for it where Python needs a number; the recorder notes the question."""
        self._trace.recorder.decided(self)
        return _concrete(self.value)

    def full_lower(self) -> "RecordedValue":
        """JAX 0.10.0 asks for it where a value outlived its run, before it says so."""
        return self

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        value = self.to_concrete_value()
        if value is None:
            return super().__array__(*args, **kwargs)
        return np.asarray(value, *args, **kwargs)

    def __float__(self) -> float:
        value = self.to_concrete_value()
        return super().__float__() if value is None else float(value)

    def __complex__(self) -> complex:
        value = self.to_concrete_value()
        return super().__complex__() if value is None else complex(value)

    def __format__(self, how: str) -> str:
        value = _concrete(self.value)  # to be read by a person: nothing depends on it
        return super().__format__(how) if value is None else format(value, how)

    def tolist(self) -> Any:
        """The value as Python numbers."""
        return np.asarray(self).tolist()

    def item(self, *args: int) -> Any:
        """One element as a Python number."""
        return np.asarray(self).item(*args)


def _concrete(value: Any) -> Any:
    if isinstance(value, _jax_core.Tracer):
        return value.to_concrete_value()
    return value


class RecordingTrace(_jax_core.Trace):
    """Hands every primitive of a running function to `recorder.primitive(primitive, values, params)`."""

    def __init__(self, recorder: Any):
        super().__init__()
        self.recorder = recorder

    def stage_value(self, val: Any) -> Any:
        """JAX lifts constants through here; they need no record of their own."""
        return val

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        """One primitive."""
        return self.recorder.primitive(primitive, list(tracers), params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, *, symbolic_zeros: Any
    ) -> Any:
        """A function with its own derivative."""

        def bind(*xs: Any) -> Any:
            return primitive.bind(*xs, subfuns=(fun, jvp), symbolic_zeros=symbolic_zeros)

        return self.recorder.custom(bind, list(tracers))

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **options: Any
    ) -> Any:
        """A function with its own derivative."""

        def bind(*xs: Any) -> Any:
            return primitive.bind(*xs, subfuns=(fun, fwd, bwd), **options)

        return self.recorder.custom(bind, list(tracers))


def stage_custom(bind: Any, values: Sequence[Any]) -> ClosedJaxpr:
    """The equation of a function with its own derivative, as a jaxpr."""
    traced: Any = jax.make_jaxpr(bind)(*values)
    return traced


TRACED: type = _jax_core.Tracer
"""What stands in for a value inside of a transformation."""


def no_text(value: Any) -> Exception:
    """The error of Python that asks for the text of something traced, as JAX has one for its number."""
    return jax.errors.ConcretizationTypeError(value, "its text was asked for")


def is_traced(value: Any) -> bool:
    """Whether a value is a stand-in inside some transformation rather than data."""
    return isinstance(value, _jax_core.Tracer)


def innermost(value: Any) -> Any:
    """What `vmap` or a derivative inside the recorded function wraps; the value itself where none does."""
    while isinstance(value, _jax_core.Tracer) and not isinstance(value, RecordedValue):
        inner = getattr(value, "val", getattr(value, "primal", None))
        if inner is None:
            break
        value = inner
    return value


def _is_whole(place: Any) -> bool:
    return isinstance(place, np.ndarray) and place.dtype.kind in "iu"


def _is_index(at: Any) -> bool:
    return isinstance(at, list) and bool(at) and all(isinstance(i, int | np.integer | np.bool_) for i in at)


def _check_bounds(array: Any, places: tuple[Any, ...]) -> None:
    """Raise NumPy's error for a number beyond an axis, where JAX picks the last element instead."""
    for axis, (i, size) in enumerate(zip(places, array.shape, strict=False)):
        if i is None or i is Ellipsis or not isinstance(i, slice | int | np.integer) or isinstance(i, bool):
            return  # from here on places are of other axes
        if not isinstance(i, slice) and not -size <= i < size:
            raise IndexError(f"index {i} is out of bounds for axis {axis} with size {size}")


class CalledAsColumns:
    """Arrays answer to what columns of tables and NumPy's functions ask arrays for, on threads inside of it.

    `attributes` tells by name what an array has there, `comparable(array, other, "eq")` what it is compared
    with in place of another value, and `methods` by class and name what takes the place of one that is given.
    A list of numbers is an index, as NumPy has it, and NumPy's `argsort` and `take` hand defaults on
    (`stable=None`, `mode="raise"`) that JAX's methods of that name take badly. All other threads see JAX as
    it is; so does everybody once the last has left.
    """

    def __init__(
        self,
        attributes: Mapping[str, Callable[[Any], Any]],
        comparable: Callable[[Any, Any, str], Any],
        methods: Mapping[tuple[type, str], Callable[[Callable[..., Any]], Callable[..., Any]]],
    ):
        self._attributes, self._comparable, self._methods = attributes, comparable, methods
        self._lock, self._inside = threading.Lock(), Counter[int]()
        self._before: list[tuple[type, str, Any]] = []

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.end(threading.get_ident())

    def begin(self) -> int:
        """Until `end` of what is returned."""
        thread = threading.get_ident()
        with self._lock:
            if not self._inside:
                self._put()
            self._inside[thread] += 1
        return thread

    def end(self, thread: int) -> None:
        """Leave JAX as it was, where nobody else is inside."""
        with self._lock:
            self._inside[thread] -= 1
            self._inside = +self._inside
            if self._inside:
                return
            for owner, name, attribute in self._before:
                if attribute is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, attribute)
            self._before = []

    def forked(self) -> None:
        """Be left in a forked child, where the threads that were inside are not."""
        self._lock = threading.Lock()
        for thread in list(self._inside.elements()):
            self.end(thread)

    def _here(self) -> bool:
        return threading.get_ident() in self._inside

    def _put(self) -> None:
        for name, of in self._attributes.items():
            self._set(_ArrayImpl, name, property(self._having(name, of)))
            self._set(_jax.ShapedArray, name, _jax.aval_property(self._having(name, of)))
        for name, option, default in (("argsort", "stable", None), ("take", "mode", "raise")):
            plain = self._without(option, default, vars(_ArrayImpl)[name])
            self._set(_ArrayImpl, name, plain)
            plain = self._without(option, default, vars(_jax.ShapedArray)[name].fun)
            self._set(_jax.ShapedArray, name, _jax.aval_method(plain))

        self._set(_ArrayImpl, "__getitem__", self._of_lists(vars(_ArrayImpl)["__getitem__"]))
        known = vars(_jax.ShapedArray)["_getitem"].__func__
        self._set(_jax.ShapedArray, "_getitem", staticmethod(self._of_lists(known)))

        for how in ("eq", "ne", "lt", "le", "gt", "ge"):
            self._set(_ArrayImpl, f"__{how}__", self._compared(vars(_ArrayImpl)[f"__{how}__"], how))
            known = vars(_jax.ShapedArray)[f"_{how}"].__func__
            self._set(_jax.ShapedArray, f"_{how}", staticmethod(self._compared(known, how)))

        for (owner, name), changed in self._methods.items():
            plain = getattr(owner, name)
            self._set(owner, name, self._either(plain, changed(plain)))

    def _either(self, plain: Callable[..., Any], changed: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def method(*args: Any, **options: Any) -> Any:
            return (changed if self._here() else plain)(*args, **options)

        return method

    def _compared(self, plain: Callable[[Any, Any], Any], how: str) -> Callable[[Any, Any], Any]:
        def compare(array: Any, other: Any) -> Any:
            return plain(array, self._comparable(array, other, how) if self._here() else other)

        return compare

    def _of_lists(self, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def item(array: Any, at: Any) -> Any:
            if self._here():  # NumPy takes a list for the array that it makes
                places = at if isinstance(at, tuple) else (at,)
                places = tuple(np.asarray(i) if _is_index(i) else i for i in places)
                _check_bounds(array, places)
                if _config.enable_x64.value:  # JAX takes those of NumPy for what they are without that
                    places = tuple(jax.numpy.asarray(i) if _is_whole(i) else i for i in places)
                at = places if isinstance(at, tuple) else places[0]
            return plain(array, at)

        return item

    def _set(self, owner: type, name: str, attribute: Any) -> None:
        self._before.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, attribute)

    def _having(self, name: str, of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def read(array: Any) -> Any:
            if not self._here():
                raise AttributeError(f"{type(array).__name__!r} object has no attribute {name!r}")
            return of(array)

        return read

    def _without(self, option: str, default: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
        def method(array: Any, *args: Any, **options: Any) -> Any:
            if self._here() and option in options and options[option] == default:
                del options[option]
            return plain(array, *args, **options)

        return method


def sent_to(trace: Any) -> Any:
    """Context manager: primitives go to `trace`."""
    return _core.set_current_trace(trace)


def current_trace() -> Any:
    """The trace that primitives go to now."""
    with _core.take_current_trace() as trace:
        return trace


def bind_primitive(primitive: Any, operands: Sequence[Any], params: Any) -> list[Any]:
    """Apply a primitive to operands; always a list of results."""
    out = primitive.bind(*operands, **primitive.get_bind_params(params))
    return list(out) if primitive.multiple_results else [out]


def side_by_side(fn: Callable[[Any], Any], xs: Any, at_once: int) -> Any:
    """`fn` of every row of a tree, `at_once` rows by one call: `lax.map`, which cannot put results together
    that have no elements (a table without rows, a site of a plate of size 0)."""
    tree, blanks = None, list[Any]()

    def with_elements(x: Any) -> list[Any]:
        nonlocal tree, blanks
        leaves, tree = jax.tree.flatten(fn(x))
        blanks = [None if jax.numpy.size(leaf) else leaf for leaf in leaves]
        return [leaf for leaf, blank in zip(leaves, blanks, strict=True) if blank is None]

    found = iter(jax.lax.map(with_elements, xs, batch_size=at_once))
    rows = len(jax.tree.leaves(xs)[0])
    assert tree is not None
    return jax.tree.unflatten(
        tree, [next(found) if b is None else jax.numpy.zeros((rows, *b.shape), b.dtype) for b in blanks]
    )


def staged() -> Any:
    """A context in which a program that is traced holds all its operations: within
    `jax.ensure_compile_time_eval`, each one on constants would be compiled and run by itself."""
    return _config.eager_constant_folding(False)
