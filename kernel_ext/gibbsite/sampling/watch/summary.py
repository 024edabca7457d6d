"""Draws → ArviZ's table, with the digits that their Monte Carlo errors leave, short where a site is long."""

import inspect
import math
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from gibbsite.errors import ArgumentError, UnknownNameError, nearest
from gibbsite.ground.angles import around_mean
from gibbsite.ground.arguments import a_name
from gibbsite.ground.lazy_import import later

arviz, pd = later("arviz_stats.summary"), later("pandas")

# Indicators come by the hundred, and their means are read as probabilities (`run.probs`), not one by one: of
# discrete sites with more elements than are taken in at a glance only the worst are listed.
_LISTED, WORST = 20, 10
_MOST = 2000
"""Elements of a site that each have a line: for more, ArviZ takes long (3 ms each, of 4,000 draws)."""


def summary_of(
    tree: Any,
    worst: Mapping[str, np.ndarray],
    partly: Collection[str],
    options: Mapping[str, Any],
    turns: Mapping[str, float] | None = None,
) -> Any:
    """ArviZ's summary of `tree`, whose discrete sites of many elements, and others of thousands, have only
    those at the flat indices `worst`, in that order (`partly`: the worst of some), unless `options` names
    variables or dimensions. Variables with `turns` are angles, whose draws are cut opposite to their mean
    direction. Raises as `Run.summary`."""
    if axes := [n for n in ("chain", "draw") if _drawn_as(tree, n)]:
        found = summary_of(_spelt(tree, axes), worst, partly, options, turns)
        found.index = found.index.map(lambda n: n[:-1] if n[:-1] in axes else n)
        return found
    known_options = [n for n in inspect.signature(arviz.summary).parameters if n != "data"]
    for name in options:
        if name not in known_options:
            raise ArgumentError(f"summary has no option {name!r}{nearest(name, known_options)}")
    asked = options.get("var_names")
    if asked is not None and options.get("filter_vars") is None:
        known = list(tree["posterior"].data_vars)
        names = [asked] if isinstance(asked, str) or not isinstance(asked, Iterable) else list(asked)
        for name in names or [""]:
            if a_name("variable", name, known).removeprefix("~") not in known:
                raise UnknownNameError("variable", name, known)
    shortened: dict[str, str] = {}
    everything = ("var_names", "filter_vars", "coords", "sample_dims", "fmt")
    if options.get("group", "posterior") == "posterior" and not any(options.get(n) for n in everything):
        tree, shortened = _short(tree, worst, partly)
    with np.errstate(invalid="ignore", divide="ignore"):  # of what never moved, there is no R-hat
        found = arviz.summary(_in_double(tree, options, turns or {}), **{"round_to": None, **options})
    # who asks for digits, or for another form, has what was asked for
    plain = options.get("round_to") is not None or options.get("fmt", "wide") != "wide"
    return found if plain else _table()(found).told(shortened)


def _drawn_as(tree: Any, axis: str) -> bool:
    """Whether a site is called as an axis of all draws is, of which xarray makes no variable."""
    posterior = tree["posterior"]
    return axis in posterior.coords and posterior.coords[axis].ndim > 1


def _spelt(tree: Any, axes: Collection[str]) -> Any:
    """The tree with such sites as variables of another name."""
    posterior = tree["posterior"].to_dataset()
    values = {f"{n}_": (posterior.coords[n].dims, posterior.coords[n].values) for n in axes}
    return type(tree).from_dict({"posterior": posterior.drop_vars(list(axes)).assign(values)})


def _in_double(tree: Any, options: Mapping[str, Any], turns: Mapping[str, float]) -> Any:
    """The group that is asked for, in double precision: in single, the mean of thousands of draws is rounded,
    so that what never moves would have a standard deviation. Angles lie around their mean direction."""
    group = options.get("group", "posterior")
    if group not in tree.children:
        return tree
    asked = tree[group].to_dataset()
    single = {n: v.astype(float) for n, v in asked.data_vars.items() if v.dtype == np.float32}
    for name in turns.keys() & asked.data_vars.keys():
        drawn = asked[name].astype(float)
        single[name] = drawn.copy(data=around_mean(drawn.values, turns[str(name)], axis=(0, 1)))
    return type(tree).from_dict({group: asked.assign(single)}) if single else tree


def _short(tree: Any, worst: Mapping[str, np.ndarray], partly: Collection[str]) -> tuple[Any, dict[str, str]]:
    posterior, gone = tree["posterior"].to_dataset(), {}
    for name, values in list(posterior.data_vars.items()):
        count = math.prod(values.shape[2:])
        if not count:  # ArviZ has no quantiles of nothing
            posterior = posterior.drop_vars(name)
            continue
        most = _LISTED if values.dtype.kind in "iub" and name in worst else _MOST
        if count <= most:
            continue
        known = name in worst and len(worst[name]) > 0
        at = np.asarray(worst[name]) if known else np.linspace(0, count - 1, WORST).astype(int)
        places = zip(*np.unravel_index(at, values.shape[2:]), strict=True)
        axes = [
            posterior[d].values if d in posterior.coords else range(posterior.sizes[d])
            for d in values.dims[2:]
        ]
        labels = [", ".join(str(axis[i]) for axis, i in zip(axes, place, strict=True)) for place in places]
        flat = values.values.reshape(*values.shape[:2], count)[..., at]
        posterior = posterior.drop_vars(name)
        posterior[name] = (("chain", "draw", f"some of {name}"), flat)
        posterior = posterior.assign_coords({f"some of {name}": labels})
        gone[str(name)] = (
            f"{count - len(at):,} more of {name}{', none worse' * (known and name not in partly)}"
        )
    order = [n for n in tree["posterior"].data_vars if n in posterior]
    if not gone and len(order) == len(tree["posterior"].data_vars):
        return tree, gone
    return type(tree).from_dict({"posterior": posterior[order]}), gone


def _decimals(error: float) -> int:
    """How many decimals two digits of an error have."""
    return max(0, 1 - math.floor(math.log10(error)))


def _cell(column: str, value: float, error: float) -> str:
    if not math.isfinite(value):
        return "–"
    if column.startswith("ess"):
        return f"{value:.0f}"
    if column == "r_hat":
        return f"{value:.3f}" if value < 1000 else f"{value:.1e}"
    if not (math.isfinite(error) and 1e-12 < error < 1e12):
        return f"{value:.4g}"
    return f"{value:.{_decimals(error)}f}"


def _again(table: Any, gone: Mapping[str, str]) -> Any:
    return _table()(table).told(gone)


@cache
def _table() -> Any:
    class Table(pd.DataFrame):
        """A table of summaries: numbers in full, printed with two digits of their Monte Carlo error."""

        _metadata = ("_gone",)

        @property
        def _constructor(self) -> Any:
            return pd.DataFrame  # what is made of it is an ordinary table

        def __reduce__(self) -> Any:
            return _again, (pd.DataFrame(self), getattr(self, "_gone", {}))

        def told(self, gone: Mapping[str, str]) -> Any:
            """The same, with how many elements of which sites are left out, in words."""
            self._gone = dict(gone)
            return self

        def _printed(self) -> Any:
            middle = next((n for n in ("mcse_mean", "mcse_median") if n in self.columns), "")
            shown = {}
            for column in self.columns:
                of = column if column.startswith("mcse") else "mcse_sd" if column == "sd" else middle
                error = self[of] if of in self.columns else [math.nan] * len(self)
                shown[column] = [
                    _cell(column, float(v), float(e)) for v, e in zip(self[column], error, strict=True)
                ]
            return pd.DataFrame(shown, index=self.index)

        def _notes(self) -> list[str]:
            return [
                f"… and {more}: summary(var_names=[{name!r}]) lists all"
                for name, more in getattr(self, "_gone", {}).items()
            ]

        def __repr__(self) -> str:
            with pd.option_context("display.width", 200, "display.max_columns", None):
                return "\n".join([repr(self._printed()), *self._notes()])

        def _repr_html_(self) -> str:
            return self._printed()._repr_html_() + "".join(f"<div>{line}</div>" for line in self._notes())

    return Table
