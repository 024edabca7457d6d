"""One model, many data sets → a run for each, and one tree of all their draws.

Data sets of equal shapes share one compiled program; they are sampled one after another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from gibbsite.errors import GibbsiteError, ModelError, OptionError, UnknownNameError
from gibbsite.ground.later import later
from gibbsite.ground.sensible import shown
from gibbsite.prediction.asked.arguments import asked_of, call_of

xr = later("xarray")

Made = Callable[[tuple, dict[str, Any]], Any]


class Many:
    """Runs of one model by the name of their data set: `runs`, `verdicts`, and in `failures` what stopped the
    others."""

    def __init__(self, model_name: str, runs: Mapping[Any, Any], failures: Mapping[Any, GibbsiteError]):
        self.model_name, self.runs, self.failures = model_name, dict(runs), dict(failures)

    @property
    def verdicts(self) -> dict[Any, Any]:
        """Whether the draws of each can be used."""
        return {name: run.verdict for name, run in self.runs.items()}

    def to_datatree(self) -> Any:
        """The groups of ArviZ's schema with a dimension `dataset` in front; NaN where a data set has fewer
        elements than others. Raises `ModelError` where every one failed."""
        if not self.runs:
            raise ModelError(f"none of the data sets of {self.model_name!r} has a run: see .failures")
        trees = [run.to_datatree() for run in self.runs.values()]
        tree = xr.DataTree()
        for group in ("posterior", "sample_stats", "observed_data"):
            sets = [t[group].to_dataset() for t in trees if group in t.children]
            if len(sets) == len(trees):
                alike = [n for n in sets[0].data_vars if all(n in s for s in sets)]
                names = xr.DataArray(list(self.runs), dims="dataset", name="dataset")
                tree[group] = xr.concat([s[alike] for s in sets], names, join="outer", coords="minimal")
        tree.attrs["model"] = self.model_name
        return tree

    def __len__(self) -> int:
        return len(self.runs) + len(self.failures)

    def __getitem__(self, name: Any) -> Any:
        """The run of one data set. Raises what made it fail, and `UnknownNameError`."""
        if name in self.failures:
            raise self.failures[name]
        if name not in self.runs:
            raise UnknownNameError("data set", name, map(str, [*self.runs, *self.failures]))
        return self.runs[name]

    def __repr__(self) -> str:
        doubtful = {n: v for n, v in self.verdicts.items() if not v.ok}
        lines = [f"<{len(self)} data sets of {self.model_name}: {len(self.runs) - len(doubtful)} converged>"]
        lines += [f"  {n}: {v}" for n, v in list(doubtful.items())[:10]]
        lines += [f"  {n} failed: {e}" for n, e in list(self.failures.items())[:10]]
        return "\n".join(lines)


def many(origin: Any, datasets: Any, by: str | None, made: Made, options: Mapping[str, Any]) -> Many:
    """See `Model.many`; `made` is the model with other arguments."""
    if origin.analysis.missing:
        raise ModelError(
            f"{origin.name!r} has dealt with the gaps in its own data, and other data have others; make a "
            f"model of complete data, and give it data sets without gaps"
        )
    runs, failures = {}, {}
    for name, table, arguments in _named(datasets, by):
        try:
            asked = asked_of(origin, table, arguments)
            runs[name] = made(*call_of(origin, asked.values)).sample(**options)
        except GibbsiteError as error:
            failures[name] = error
    return Many(origin.name, runs, failures)


def _named(datasets: Any, by: str | None) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Name, table and arguments of every data set."""
    if by is not None:
        whole = nw.from_native(datasets, eager_only=True)
        if by not in whole.columns:
            raise UnknownNameError("column", by, whole.columns)
        for value in whole[by].unique(maintain_order=True).to_list():
            yield value, whole.filter(nw.col(by) == value).to_native(), {}
        return
    if not isinstance(datasets, Mapping | Sequence) or isinstance(datasets, str) or not len(datasets):
        raise OptionError(
            f"many takes a sequence of arguments by name, [{{'y': …}}, …], or a table and by=, not "
            f"{shown(datasets)}"
        )
    named = datasets.items() if isinstance(datasets, Mapping) else enumerate(datasets)
    for name, one in named:
        if isinstance(one, Mapping):
            yield name, None, dict(one)
        elif isinstance(one, np.ndarray | str | int | float):
            raise OptionError(f"many: each data set is a mapping of arguments or a table, not {shown(one)}")
        else:
            yield name, one, {}
