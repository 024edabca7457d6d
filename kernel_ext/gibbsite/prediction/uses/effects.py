"""An argument moved over its values, all others as observed → what the outcome does."""

from typing import Any

import numpy as np

from gibbsite.density.build import parameters_of_function
from gibbsite.diagnostics.predictive.parts import parts_of
from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.ground.arguments import shown
from gibbsite.prediction.asked.arguments import bound_arguments, leaves_of
from gibbsite.prediction.averaging import Averages, component_names
from gibbsite.prediction.frame import columns_of, frame_of, like
from gibbsite.prediction.prediction import Prediction
from gibbsite.prediction.uses.contrasting import check_ordered, check_total
from gibbsite.prediction.verbs import predict
from gibbsite.sampling.derived.interval import chosen
from gibbsite.showing import Shown, views
from gibbsite.validation.covariates import amounts

_GRID, _TAIL = 9, 2.5
_FEW = 8  # values that are all looked at
_SHOWN = 4  # components


class Effects(Shown):
    """The outcome that is expected at each of `values` of `name`, averaged over rows: `draws` `[chain, draw,
    value]`, the `predictions` they are of, and `slope`, its change per unit, where the values are an `amount`
    of something. Of rows that are vectors, of each component, on last axes."""

    def __init__(
        self, name: str, values: list[Any], predictions: list[Prediction], site: str, amount: bool = True
    ):
        self.name, self.values, self.predictions, self.site = name, values, predictions, site
        self.amount = amount

    @property
    def draws(self) -> np.ndarray:
        """`[chain, draw, value, *components]`."""
        return self._over()[1][0]

    def _over(self, by: Any = None) -> tuple[list[Any], list[np.ndarray]]:
        """The groups of rows, and for each the draws."""
        first = self.predictions[0]
        over = Averages.over(first.facts, self.site, first.draws[self.site].shape[2:], by)
        each = [
            over((p.expected if self.site in p.outcomes else p.draws)[self.site]) for p in self.predictions
        ]
        whole = np.stack(each, axis=2)
        return list(over.groups), [whole[:, :, :, i] for i in range(len(over.groups))]

    @property
    def components(self) -> tuple[int, ...]:
        """The axes of the site along which its rows are vectors."""
        return self.predictions[0].facts.components.get(self.site, ())

    @property
    def component_names(self) -> list[str]:
        """What the components of a row are called; none where a row is one number."""
        first = self.predictions[0]
        return component_names(first.facts, self.site, first.draws[self.site].shape[2:])

    @property
    def slope(self) -> np.ndarray:
        """The average change of the outcome per unit of the argument, `[chain, draw, *components]`: from the
        first value to the last. Raises `OptionError` for categories, and whole numbers that only pick
        elements."""
        first, last = self.values[0], self.values[-1]
        if isinstance(first, str) or not self.amount or len(self.values) < 2 or first == last:
            raise OptionError(f"{self.name!r} has no units between its values: contrast two of them")
        x = self.draws
        return (x[:, :, -1] - x[:, :, 0]) / (float(last) - float(first))

    def to_frame(self, *, by: Any = None) -> Any:
        """A row for each value: the average outcome's mean, standard deviation and interval; and of its
        difference from the first value's, `difference` and its interval; of rows that are vectors, one for
        each component. With `by`, a column or an array as long as the rows, of the rows of each of its
        values. Raises `UnknownNameError`, `DataError`."""
        first = self.predictions[0]
        groups, each = self._over(by)
        base = columns_of(np.concatenate(each, axis=2), chosen())
        more = columns_of(np.concatenate([x - x[:, :, :1] for x in each], axis=2), chosen())
        count, parts = len(self.values), self.component_names or [""]
        measures = {**base, **{f"difference {n}".replace(" mean", ""): v for n, v in more.items()}}

        def called(name: str) -> str:
            return f"{name} (column)" if name in measures else name

        every = [(g, v, part) for g in groups for v in self.values for part in parts]
        group = {called(by if isinstance(by, str) else "by"): [g for g, *_ in every]}
        columns = {
            **(group if by is not None else {}),
            called(self.name): [v for _, v, _ in every],
            **({called(self.site): [part for *_, part in every]} if self.components else {}),
            **measures,
        }
        shape = {self.name: (count * len(groups) * len(parts),)}
        source = like(first.facts.source)
        return frame_of({self.name: columns}, {self.name: ("",)}, {self.name: (None,)}, shape, source)

    def plot(self) -> Any:
        """A picture: the average outcome at each value, and its difference from the first."""
        return views().plot_use(self)

    def __repr__(self) -> str:
        means = self.draws.mean(axis=(0, 1))
        told = ", ".join(
            f"{v if isinstance(v, str) else f'{v:.4g}'}: {_numbers(m)}"
            for v, m in zip(self.values, means, strict=True)
        )
        unit = ""
        numbers = self.amount and all(isinstance(v, int | float) for v in self.values)
        if numbers and len(set(self.values)) > 1:
            flat = self.slope.reshape(-1, *self.slope.shape[2:])
            low, high = chosen().of(flat.reshape(len(flat), -1).T)
            unit = (
                f"; {_numbers(flat.mean(0))} per unit, {chosen()} {_numbers(np.asarray(low))} to "
                f"{_numbers(np.asarray(high))}"
            )
        same = len(self.predictions) > 1 and not np.ptp(self.draws, axis=2).any()
        rest = f"; the same in every draw: {self.site} does not depend on {self.name}" if same else unit
        return f"<Effects of {self.name} on {self.predictions[0].facts.called(self.site)}: {told}{rest}>"


def _numbers(x: np.ndarray) -> str:
    """One number, or those of a few components."""
    each = [f"{v:.4g}" for v in np.ravel(x)]
    return each[0] if len(each) == 1 else f"({', '.join(each[:_SHOWN])}{', …' * (len(each) > _SHOWN)})"


def effects(run: Any, name: str, values: Any = None, *, site: str | None = None, **options: Any) -> Effects:
    """See `Run.effects`: average predictive comparisons (Gelman and Pardoe 2007), by paired draws."""
    origin = run.model
    chosen_values = (
        list(values) if values is not None else _values(origin, name) if origin is not None else []
    )
    do = dict(options.pop("do", None) or {})
    if "by" in options and (origin is None or "by" not in bound_arguments(origin)):
        raise OptionError(f"effects: of each group they are effects({name!r}).to_frame(by=…)")
    own = {n: options.pop(n) for n in ("table", "given", "draws", "seed") if n in options}
    if values is not None and not chosen_values:
        raise OptionError("effects: values is a list of values to look at, such as [0, 1]")
    table = own.pop("table", None)
    found = [predict(run, table, options, do={**do, name: v}, **own) for v in chosen_values or [None]]
    names = found[0].outcomes
    if site is None and len(names) != 1:
        raise OptionError(f"effects: on which site? site= is one of {', '.join(names)}")
    if site is not None and site not in found[0].draws:
        raise UnknownNameError("site", site, found[0].draws)
    check_ordered(found[0], site or names[0], "effects")
    if (site or names[0]) in found[0].facts.turns:
        raise OptionError(
            f"effects: {site or names[0]!r} is a direction, and directions of rows have no average; contrast "
            f"two predictions, contrast(run.predict(do={{{name!r}: …}}), run.predict(do={{{name!r}: …}}))"
        )
    check_total(found[0], site or names[0], "effects")
    amount = origin is not None and any(_is_amount(p.model, name) for p in parts_of(run))
    return Effects(name, chosen_values, found, site or names[0], amount)


def _is_amount(origin: Any, name: str) -> bool:
    """Whether an argument is computed with; whole numbers that only pick elements have no units."""
    named = origin.density.data_names.items()
    read = {v: n for v, n in named if n == name or n.endswith(f"[{name!r}]")}
    return any(v.aval.dtype.kind == "f" for v in read) or bool(amounts(origin.density, read)) or not read


def _values(origin: Any, name: str) -> list[Any]:
    """All categories, all of a few values, or a grid over the middle of the others."""
    leaves = leaves_of(origin, bound_arguments(origin))
    found = [n for n in leaves if n == name or n.endswith(f"[{name!r}]")]
    if not found:
        arguments = [*bound_arguments(origin), *parameters_of_function(origin.fn)]
        if name in origin.sites or name in arguments:
            what = "is drawn by the model" if name in origin.sites else "is no array"
            raise OptionError(
                f"effects: {name!r} {what}, and has no values in the data; say which it is to be set to, as "
                f"in values=[0, 1], or take one of {', '.join(leaves) or 'the arguments'}"
            )
        raise UnknownNameError("argument or column", name, list(dict.fromkeys([*arguments, *leaves])))
    if found[0] in origin.labels:
        return list(origin.labels[found[0]])
    whole = np.asarray(leaves[found[0]]).dtype.kind in "iu"
    x = np.asarray(leaves[found[0]], float)
    x = x[np.isfinite(x)]
    if not x.size:
        raise OptionError(f"effects: {name!r} holds no number: {shown(x)}")
    few = np.unique(x)
    if len(few) > _FEW:
        low, high = np.percentile(x, [_TAIL, 100 - _TAIL])
        few = np.linspace(low, high, _GRID)
    return np.unique(few.round().astype(int)).tolist() if whole else few.tolist()
