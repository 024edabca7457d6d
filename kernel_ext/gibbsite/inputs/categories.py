"""The categories of a column within a model, which answer to what is written of pandas' index of them."""

from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np

from gibbsite.errors import ColumnError, DataError


class Categories(tuple[str, ...]):
    """The categories of the column `name` as texts, in the order of their codes: a tuple that has what models
    ask pandas' index of them for."""

    name: str

    def __new__(cls, labels: Iterable[str], name: str) -> "Categories":
        """`labels` in the order of the codes, of the column called `name`."""
        made = super().__new__(cls, labels)
        made.name = name
        return made

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self)

    @property
    def shape(self) -> tuple[int]:
        """How many there are, as the shape of an array."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """One axis."""
        return 1

    @property
    def values(self) -> np.ndarray:
        """The texts as an array."""
        return np.array(tuple(self), object)

    def to_numpy(self) -> np.ndarray:
        """The texts as an array."""
        return self.values

    def astype(self, dtype: Any) -> np.ndarray:
        """An array of that type, as of categories that are numbers."""
        return self.values.astype(dtype)

    def tolist(self) -> list[str]:
        """The texts in a list."""
        return list(self)

    to_list = tolist

    def get_loc(self, category: Any) -> int:
        """The code of a category. Raises `DataError` for what is none."""
        if category not in self:
            known = ", ".join(map(repr, self))
            raise DataError(f"none of the categories of {self.name} is {category!r}; it has {known}").at(
                None, "index-of-another-type"
            )
        return self.index(self._as_text(category))

    def get_indexer(self, categories: Iterable[Any]) -> np.ndarray:
        """The code of each, and -1 for what is none."""
        return np.array([self.get_loc(c) if c in self else -1 for c in categories], int)

    def isin(self, values: Iterable[Any]) -> np.ndarray:
        """Which of the categories are among the values."""
        among = {self._as_text(v) for v in values}
        return np.array([c in among for c in self], bool)

    def _as_text(self, category: Any) -> str:
        """What stands here for a category: the column's are texts, of whole numbers without a point."""
        whole = isinstance(category, float | np.floating) and float(category).is_integer()
        return str(int(category)) if whole else str(category)

    def __contains__(self, category: Any) -> bool:
        return super().__contains__(self._as_text(category))

    def __getitem__(self, at: Any) -> Any:
        """One, or several as such."""
        if isinstance(at, SupportsIndex) and not isinstance(at, np.ndarray):
            return super().__getitem__(at)
        return Categories(self.values[at], self.name)

    def __eq__(self, other: Any) -> Any:
        """Each against a text, as an index compares; all against other labels, as tuples do."""
        return self.isin([other]) if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        return ~self.isin([other]) if isinstance(other, str) else super().__ne__(other)

    __hash__ = tuple.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of libraries, which ask for what may not be there
            raise AttributeError(name)
        raise no_method(
            f"the categories of {self.name}", name, ": they are a tuple of texts, with `size` and `get_loc`"
        )


def no_method(what: str, attribute: str, has: str = "") -> ColumnError:
    """The error of a column's stand-in that lacks what pandas has; `has` tells of what there is."""
    cure = "what pandas or polars can do with them is done before the model"
    return ColumnError(f"{what} have no {attribute!r} in a model{has}; {cure}").at(None, "arrays-in-a-model")
