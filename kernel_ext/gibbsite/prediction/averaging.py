"""Values of rows → their averages, of each group of rows and of each component of what is a vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.errors import DataError, UnknownNameError
from gibbsite.ground.arguments import shown
from gibbsite.inputs.tables import in_order_of
from gibbsite.prediction.asked.together import told_order
from gibbsite.prediction.frame import frame_of, like

# `facts` are what a prediction is of (`Facts`), `shape` that of the site's elements.


def average_over_rows(values: np.ndarray, components: Sequence[int] = ()) -> np.ndarray:
    """The averages `[chain, draw, *components]` of `[chain, draw, *shape]`, over all axes of the shape but
    those."""
    return values.mean(axis=tuple(a + 2 for a in range(values.ndim - 2) if a not in components))


def axes_of(facts: Any, site: str, axes: Sequence[int]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """What some of a site's axes are called, and their labels."""
    dims, labels = facts.dims.get(site), facts.labels.get(site)
    named = (f"{site}_dim_{a}" if dims is None else dims[a] for a in axes)
    return tuple(named), tuple(None if labels is None else labels[a] for a in axes)


def component_names(facts: Any, site: str, shape: Sequence[int]) -> list[str]:
    """The components of a site's rows in words, `Y[0]`, in the order of their axes; none where a row is one
    number."""
    components = facts.components.get(site, ())
    if not components:
        return []
    named = axes_of(facts, site, components)[1]
    places = np.ndindex(tuple(shape[a] for a in components))
    told = (", ".join(str(i if n is None else n[i]) for i, n in zip(at, named, strict=True)) for at in places)
    return [f"{site}[{text}]" for text in told]


@dataclass(frozen=True)
class Averages:
    """Averages over the rows of a `site` of `shape`, of those of each of the `groups`, each row by its
    weight; `axis` is that of rows, `components` those that stay, `named` what the groups are values of."""

    facts: Any
    site: str
    shape: tuple[int, ...]
    axis: int
    components: tuple[int, ...]
    groups: Mapping[Any, np.ndarray]
    weights: np.ndarray | None
    named: str

    @classmethod
    def over(
        cls, facts: Any, site: str, shape: tuple[int, ...], by: Any = None, weights: Any = None
    ) -> "Averages":
        """Of all rows, or of those of each value of `by`, a column or an array as long as the rows; `weights`
        likewise. Raises `UnknownNameError`, `DataError`."""
        components, axis = facts.components.get(site, ()), _row_axis(facts, site)
        whole = np.arange(shape[axis]) if shape else np.zeros(1, int)
        groups = {None: whole} if by is None else groups_of(facts, site, shape, by)
        counted = None
        if weights is not None:
            counted, told = _per_row(facts, site, shape, weights, "weights")
            if told is not None or counted.dtype.kind not in "biuf":
                raise DataError(f"weights: {shown(weights)} holds no numbers")
            counted = counted.astype(float)
            if not (counted >= 0).all() or not all(counted[at].sum() > 0 for at in groups.values()):
                raise DataError(f"weights: {shown(weights)} are to be 0 or more, and above 0 in every group")
        return cls(facts, site, shape, axis, components, groups, counted, by if isinstance(by, str) else "by")

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """`[chain, draw, *shape]` → `[chain, draw, group, *components]`."""
        if values.ndim == 2:  # one number has no rows
            return values[:, :, None]
        return np.stack([self._of(values, at) for at in self.groups.values()], axis=2)

    def _of(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        some = np.take(values, rows, axis=2 + self.axis)
        if self.weights is None:
            return average_over_rows(some, self.components)
        # other rows' axes keep their place for the average that follows
        mean = np.average(some, axis=2 + self.axis, weights=self.weights[rows])
        return average_over_rows(np.expand_dims(mean, 2 + self.axis), self.components)

    def table(self, name: str, columns: Mapping[str, np.ndarray], alone: str = "average") -> Any:
        """A table of columns with a number for each group and component: where all rows are one group, that
        is the `name` of what is `alone`."""
        dims, named = axes_of(self.facts, self.site, self.components)
        one = [*self.groups] == [None]
        dim, labels = (alone, [name]) if one else (self.named, [*self.groups])
        shape = (len(labels), *(self.shape[a] for a in self.components))
        return frame_of({name: columns}, {name: (dim, *dims)}, {name: (labels, *named)}, {name: shape},
                        like(self.facts.source))  # fmt: skip


def _row_axis(facts: Any, site: str) -> int:
    components = facts.components.get(site, ())
    return next(a for a in range(len(components) + 1) if a not in components)


def _per_row(
    facts: Any, site: str, shape: tuple[int, ...], of: Any, option: str
) -> tuple[np.ndarray, Sequence[str] | None]:
    """A column, or an array, with a value for every row, and what its codes mean."""
    if not shape:
        raise DataError(f"{option}: {site!r} is one number, which has no rows")
    rows = shape[_row_axis(facts, site)]
    if site in facts.reordered and not isinstance(of, np.ndarray):
        raise DataError(told_order(site))
    told = None
    if isinstance(of, str):
        if of not in facts.constants:
            raise UnknownNameError("column", of, facts.constants)
        values, told = np.asarray(facts.constants[of]), facts.categories.get(of)
    else:
        values = np.asarray(in_order_of(of, facts.rows, facts.source))
    if values.ndim != 1 or len(values) != rows:
        raise DataError(f"{option}: {shown(of)} has shape {values.shape}, and there are {rows} rows")
    return values, told


def groups_of(facts: Any, site: str, shape: tuple[int, ...], by: Any) -> Mapping[Any, np.ndarray]:
    """Which rows of `site` have which value of a column, or of an array as long as the rows; those without
    one are "missing". Raises `UnknownNameError`, `DataError`."""
    values, told = _per_row(facts, site, shape, by, "by")
    found = {v: np.flatnonzero((values == v) | ((values != values) & (v != v))) for v in np.unique(values)}
    return {called(v, told): at for v, at in found.items()}


def called(value: Any, told: Sequence[str] | None) -> Any:
    """What a group is called that has a value, or a code of what is `told`."""
    if value != value:
        return "missing"
    if told is not None:
        return told[int(value)]
    return value.item() if isinstance(value, np.generic) else value
