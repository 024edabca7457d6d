"""A table inside of a model: columns by name, and side by side where a matrix is wanted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import DataError, nearest


@jax.tree_util.register_pytree_with_keys_class
class Table:
    """Columns of equal length by name: `table["floor"]`, `table.floor`, `len(table)`, `table.columns`.

    Where a matrix is wanted its columns stand side by side: `table @ b`, `table.shape`, `table - m`, and
    `table[["x", "z"]] @ b` for some of them. Columns that no array can be made of are `refused`, each with
    the reason, which is raised where a model asks for them.
    """

    def __init__(self, columns: Mapping[Any, Any], refused: Mapping[Any, str] | None = None):
        self.__dict__.update(_columns=dict(columns), _refused=dict(refused or {}))

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns' names, in order."""
        return (*self._columns, *self._refused)

    def __getitem__(self, name: Any) -> Any:
        if self._has(name):
            if name in self._refused:
                raise DataError(self._refused[name]).at(None, "no-numbers")
            return self._columns[name]
        if isinstance(name, list | tuple) and name and all(map(self._has, name)):
            return Table({n: self[n] for n in name})
        if below := self._below(name):
            return below
        if isinstance(name, list | tuple) and name and all(isinstance(n, str) for n in name):
            name = next(n for n in name if not self._has(n))
        numbered = isinstance(name, int) and any(isinstance(c, int) for c in self.columns)
        if isinstance(name, str) or numbered:
            near = nearest(str(name), map(str, self.columns))
            raise DataError(f"{self._lacks(name)}{near}").at(None, "unknown-column")
        return self.to_numpy()[name]

    def _has(self, name: Any) -> bool:
        """Whether there is a column of that name: a text, a number, or a tuple of such for several levels."""
        parts = name if isinstance(name, tuple) else (name,)
        named = all(isinstance(part, str | int) for part in parts)
        return named and (name in self._columns or name in self._refused)

    def _below(self, name: Any) -> "Table | None":
        """The columns of names in several levels, `("a", "x")`, whose first is this one."""
        found: list[dict[Any, Any]] = [
            {c[1] if len(c) == 2 else c[1:]: v for c, v in part.items() if _starts(c, name)}
            for part in (self._columns, self._refused)
        ]
        return Table(*found) if any(found) else None

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_columns", {}) or name in self.__dict__.get("_refused", {}):
            return self[name]
        raise AttributeError(self._lacks(name) if "_columns" in self.__dict__ else name)

    def _lacks(self, name: Any) -> str:
        return f"the table has no column {name!r}; it has {', '.join(map(repr, self.columns))}"

    def __len__(self) -> int:
        return 0 if not self._columns else int(next(iter(self._columns.values())).shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __or__(self, columns: Mapping[str, Any]) -> "Table":
        """A table with columns added or replaced, as of a dict."""
        columns = dict(columns)
        return Table(self._columns | columns, {n: r for n, r in self._refused.items() if n not in columns})

    def like(self, other: "Table") -> "Table":
        """Its columns in the order of another's, without those that the other lacks: side by side they are
        the same matrix."""
        return Table(
            {n: self._columns[n] for n in other.columns if n in self._columns},
            {n: self._refused[n] for n in other.columns if n in self._refused},
        )

    def with_columns(self, more: Mapping[Any, Any]) -> "Table":
        """Its columns and `more` of them."""
        return Table({**self._columns, **more}, self._refused)

    def to_numpy(self) -> Any:
        """All columns side by side, `[row, column]`."""
        return jnp.stack([self[n] for n in self.columns], axis=1)

    __jax_array__ = to_numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        # column by column: each is known, and what is computed of them while traced is not
        columns = np.stack([np.asarray(self[n]) for n in self.columns], axis=1)
        return columns if dtype is None else columns.astype(dtype)

    @property
    def values(self) -> Any:
        """As `to_numpy()`."""
        return self.to_numpy()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.columns)

    @property
    def T(self) -> Any:
        """A row for each column. Raises `DataError` where a column is called so."""
        if "T" in self.columns:
            raise DataError("the table turned over is table.to_numpy().T, and its column 'T' is table['T']")
        return self.to_numpy().T

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        """For JAX: the columns, their names, and what is refused."""
        columns = [(jax.tree_util.DictKey(n), c) for n, c in self._columns.items()]
        return columns, (tuple(self._columns), tuple(self._refused.items()))

    @classmethod
    def tree_unflatten(cls, names: tuple[Any, ...], columns: Sequence[Any]) -> "Table":
        """For JAX."""
        return cls(dict(zip(names[0], columns, strict=True)), dict(names[1]))

    def __repr__(self) -> str:
        return f"Table({', '.join(self.columns)})"


def _starts(column: Any, name: Any) -> bool:
    return isinstance(column, tuple) and isinstance(name, str | int) and column[0] == name


def _as_matrix(operation: str) -> Callable[[Table, Any], Any]:
    def compute(self: Table, other: Any) -> Any:
        return getattr(self.to_numpy(), operation)(jnp.asarray(other))

    return compute


for _name in "add radd sub rsub mul rmul truediv rtruediv matmul rmatmul".split():
    setattr(Table, f"__{_name}__", _as_matrix(f"__{_name}__"))


ANEW: ContextVar[bool] = ContextVar("anew", default=False)
"""True while the model's function runs on rows that are not those it was made with."""

SET = "gibbsite_set"
"""In a statement's `infer`: its value was set as a whole, gaps of its data and all (`do=`)."""
