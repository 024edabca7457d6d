"""The notebook's data beside a model's: what it was not given, does not use, or was given before a change."""

import inspect
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from gibbsite_magics.show import has_front_end

_MOST = 1000
_ARRAYS = ("numpy", "jax", "jaxlib", "pandas", "polars")


def forgotten(model: Any, namespace: Mapping[str, Any]) -> list[str]:
    """A line for each latent site that a table the model was given, or the notebook, has values for, of the
    site's shape, with what to write. Where other sites are observed, only one counts that nothing reads."""
    found = []
    # of several structures each has the same arguments
    arguments = getattr(model, "one", model).density.arguments
    some = any(site.role == "observed" for site in model.sites.values())
    for name, site in model.sites.items():
        if site.role != "latent":
            continue
        table = _table_with(name, arguments.names)
        value: Any = namespace.get(name) if table is None else arguments.arrays[table[1]]
        if not _is_numbers(value) or not _fits(np.shape(value), model, name):
            continue
        if some and (np.shape(value) != tuple(site.shape) or model.graph.children(name)):
            continue
        if table is not None:
            has, write = f"{table[0]!r} has a column {name!r}", f"{table[0]}.{name} ~ …"
        else:
            call = ", ".join([*model.kwargs, name])
            has = f"the notebook has values for {name!r}, of the shape {np.shape(value)}"
            write = f"%%model {model.name}({call})"
        what = f"draws {name!r}, which nothing reads" if some else "observes nothing"
        found.append(f"{model.name} {what}, and {has}: to condition on them, write `{write}`")
    return found


def _table_with(column: str, names: Sequence[str]) -> tuple[str, int] | None:
    """The argument that is a table with this column, and which array of the arguments that is."""
    for i, name in enumerate(names):
        table, _, rest = name.partition("[")
        if rest == f"{column!r}]" and column.isidentifier():
            return table, i
    return None


def _is_numbers(value: Any) -> bool:
    listed = isinstance(value, list) and all(isinstance(v, int | float) for v in value)
    return _is_array(value) or (bool(value) if listed else False)


def _fits(shape: tuple[int, ...], model: Any, name: str) -> bool:
    """Whether values of a shape are likely a site's data: of its own shape, or many for one site that nothing
    else is computed from."""
    own = tuple(model.sites[name].shape)
    return bool(shape) and (shape == own or (not own and not model.graph.children(name)))


class Taken:
    """The notebook's values that a model was given, or reads, as they were when its cell ran."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any], namespace: Mapping[str, Any]
    ):
        from gibbsite.inputs.reading import reads

        given = {**reads(fn), **inspect.signature(fn).bind_partial(*args, **kwargs).arguments}
        own = {n: _fingerprint(v) for n, v in given.items() if n in namespace and namespace[n] is v}
        self._prints = {n: found for n, found in own.items() if found is not None}

    def changed(self, name: str, namespace: Mapping[str, Any]) -> list[str]:
        """A line for each that the notebook's variable of that name no longer equals."""
        now = {n: _fingerprint(namespace[n]) for n in self._prints if n in namespace}
        return [
            f"{n} has changed since the cell of {name} ran, and the run uses it as it was: run that cell "
            f"again to use what {n} is now"
            for n, found in now.items()
            if found is not None and found != self._prints[n]
        ]


def _is_array(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _ARRAYS and hasattr(value, "__array__")


def _fingerprint(value: Any) -> tuple[Any, ...] | None:
    """Numbers, texts and containers as they print, functions by what they do, arrays by a checksum;
    None for all else."""
    if isinstance(value, FunctionType):
        return "function", _written(value.__code__), repr(value.__defaults__)
    if isinstance(value, int | float | str):
        return type(value).__name__, value
    if isinstance(value, dict | list | tuple):
        return (type(value).__name__, repr(value)) if len(value) <= _MOST else None
    return _checksum(value) if _is_array(value) else None


def _checksum(value: Any) -> tuple[Any, ...]:
    """Type, shape and a checksum: of the bytes where there are any, else of what the elements print as."""
    columns = getattr(value, "columns", None)
    if columns is None:
        parts = [value]
    elif hasattr(value, "iloc"):
        parts = [value.iloc[:, i] for i in range(len(columns))]  # two may have one name
    else:
        parts = [value[c] for c in columns]
    found = zlib.crc32(repr([*columns] if columns is not None else "").encode())
    for part in parts:
        array = np.asarray(part)
        if array.dtype.kind in "biufcmMSUV" and not array.dtype.hasobject:
            plain = array
        else:
            plain = np.array([str(v) for v in array.ravel().tolist()])
        found = zlib.crc32(plain.tobytes(), found)
    return type(value).__name__, tuple(np.shape(value)), found


def _written(code: CodeType) -> tuple[Any, ...]:
    """What a function does, wherever it stands."""
    constants = (_written(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, tuple(constants)


class Ahead:
    """Has the runs of models prepared in the pauses between cells, where a notebook shows them.

    A terminal has no pauses to speak of: there, and before the first model, nothing is done.
    """

    def __init__(self, shell: Any):
        self._shell = shell
        self._preparing: Any = None

    def ask(self, name: str, model: Any, **options: Any) -> None:
        """Have `%sample name` with these options prepared."""
        if not has_front_end(self._shell):
            return
        if self._preparing is None:
            from gibbsite.preparing import Preparing

            self._preparing = Preparing(quiet, dashboard)
            self._shell.events.register("pre_run_cell", self._begins)
            self._shell.events.register("post_run_cell", self._ended)
        self._preparing.ask(name, model, **options)

    def drop(self, name: str | None = None) -> None:
        """Drop what is prepared under a name, or all of it."""
        if self._preparing is not None:
            self._preparing.drop(name)

    def make_way(self, model: Any = None) -> None:
        """Only what a run of this model waits for goes on."""
        if self._preparing is not None:
            self._preparing.make_way(model)

    def _begins(self, info: Any) -> None:
        self._preparing.busy()

    def _ended(self, result: Any) -> None:
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            self._preparing.drop()
        self._preparing.idle()


def quiet() -> None:
    """Have what this thread prints belong to no cell: who prepares a run runs its model, which may print."""
    for stream in (sys.stdout, sys.stderr):
        belong = getattr(stream, "set_thread_parent", None)
        if belong is None:  # ipykernel before 7 has the means, and no public name for it
            belong = getattr(getattr(stream, "_parent_header", None), "set", None)
        if belong is not None:
            belong({})


def dashboard(options: dict[str, Any]) -> None:
    """Have made what the dashboard of the run will be made of."""
    from gibbsite import views

    views.dashboard_ahead(options["chains"])
