"""Two predictions whose draws belong together → what one has more than the other."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.ground.angles import once_around
from gibbsite.ground.arguments import shown
from gibbsite.prediction.averaging import Averages, average_over_rows, axes_of, component_names
from gibbsite.prediction.frame import columns_of, frame_of
from gibbsite.prediction.prediction import Prediction
from gibbsite.sampling.derived.interval import chosen
from gibbsite.showing import Shown, views

KINDS = ("difference", "ratio", "risk ratio", "odds ratio")
_OF_AVERAGES = ("risk ratio", "odds ratio")


class Contrast(Shown):
    """Of `a` against `b`, draw by draw, at `site`: `difference` and `ratio` per row `[chain, draw, *shape]`,
    and `risk_ratio` and `odds_ratio` `[chain, draw]`, those of the averages over rows; of rows that are
    vectors, of each component, on last axes. Of data they are those of what is expected at the draw, without
    the outcomes' own noise."""

    def __init__(self, a: Prediction, b: Prediction, site: str):
        self.a, self.b, self.site = a, b, site

    @property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        both = [p.expected if self.site in p.outcomes else p.draws for p in (self.a, self.b)]
        return both[0][self.site].astype(float), both[1][self.site].astype(float)

    @property
    def difference(self) -> np.ndarray:
        """a − b."""
        return self._of("difference")

    @property
    def ratio(self) -> np.ndarray:
        """a / b; not a number where b is 0."""
        return self._of("ratio")

    @property
    def risk_ratio(self) -> np.ndarray:
        """The average of a over rows, divided by that of b. Raises `OptionError` for elements of a total."""
        check_total(self.a, self.site, "contrast")
        return self._of("risk ratio", self._average)

    @property
    def odds_ratio(self) -> np.ndarray:
        """The odds a / (1 − a) of the average of a over rows, divided by those of b. Raises `OptionError` for
        what are no probabilities, and for elements of a total."""
        check_total(self.a, self.site, "contrast")
        return self._of("odds ratio", self._average)

    @property
    def components(self) -> tuple[int, ...]:
        """The axes of the site along which its rows are vectors."""
        return self.a.facts.components.get(self.site, ())

    def _average(self, values: np.ndarray) -> np.ndarray:
        return average_over_rows(values, self.components)

    def _of(self, kind: str, average: Callable[[np.ndarray], np.ndarray] = np.asarray) -> np.ndarray:
        if (turn := self.a.facts.turns.get(self.site)) is not None:
            if kind != "difference":
                raise OptionError(f"contrast: {self.site!r} is a direction, of which there is no ratio")
            a, b = self._both
            return average(once_around(a - b, -turn / 2, turn))
        a, b = (average(v) for v in self._both)
        if kind == "odds ratio":
            if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) > 1:
                raise OptionError(f"contrast: {self.site!r} is no probability, of which there are odds")
            with np.errstate(divide="ignore", invalid="ignore"):
                a, b = a / (1 - a), b / (1 - b)
        with np.errstate(divide="ignore", invalid="ignore"):
            return a - b if kind == "difference" else np.where(b == 0, np.nan, a / b)

    def to_frame(
        self, kind: str = "difference", *, by: Any = None, average: bool = False, weights: Any = None
    ) -> Any:
        """Mean, standard deviation and interval: per row, with `average` of the averages over all rows, or
        with `by` over the rows of each value of a column (or of an array as long as the rows); of rows that
        are vectors, of each component. `weights`, likewise, say how much each row counts in averages.

        `kind` is "difference", "ratio", or "risk ratio" and "odds ratio", which are of averages. Raises
        `OptionError` for another kind, and for averages of elements that always sum to the same;
        `UnknownNameError` for a column, `DataError` for another length.
        """
        if kind not in KINDS:
            raise OptionError(f"kind is one of {', '.join(map(repr, KINDS))}, not {shown(kind)}")
        if by is not None or average or weights is not None or kind in _OF_AVERAGES:
            check_total(self.a, self.site, "contrast")
            over = Averages.over(self.a.facts, self.site, self.a.draws[self.site].shape[2:], by, weights)
            return over.table(kind, columns_of(self._of(kind, over), chosen()), "contrast")
        values, name, facts = self._of(kind), self.site, self.a.facts
        dims, labels = axes_of(facts, name, range(values.ndim - 2))
        return frame_of({name: columns_of(values, chosen())}, {name: dims}, {name: labels},
                        {name: values.shape[2:]}, facts.source)  # fmt: skip

    @property
    def of_a_total(self) -> bool:
        """Whether the site's elements sum to the same in every draw, so that their average says nothing."""
        return of_a_total(self.a, self.site)

    def plot(self) -> Any:
        """A picture: the average difference, draw by draw, and that of every row."""
        return views().plot_use(self)

    def __repr__(self) -> str:
        if self.of_a_total:
            count = self.difference.shape[-1]
            return f"<Contrast of {self.site}: {count} elements of a total; each is in to_frame()>"
        x = self._of("difference", self._average)
        each = [_more(x[..., *at]) for at in np.ndindex(x.shape[2:])]
        if len(each) > 1:
            called = component_names(self.a.facts, self.site, self.a.draws[self.site].shape[2:])
            each = [f"{name} {words}" for name, words in zip(called, each, strict=True)]
        few = "; ".join(each) if len(each) <= _FEW else f"{len(each)} components, in to_frame(average=True)"
        name = self.a.facts.called(self.site)
        return f"<Contrast of {name}: {'on average ' * (len(each) <= _FEW)}{few}>"


_FEW = 4  # components that are told one by one


def _more(x: np.ndarray) -> str:
    low, high = chosen().of(x.ravel())
    return (
        f"{x.mean():+.4g}, {chosen()} {float(low):.4g} to {float(high):.4g}; above 0 in "
        f"{100 * float(np.mean(x > 0)):.1f} % of the draws"
    )


def check_ordered(prediction: Prediction, site: str, verb: str) -> None:
    """Refuse averages of categories without order, which would be of their codes; raises `OptionError`."""
    if site in prediction.facts.nominal:
        count = prediction.facts.nominal[site]
        raise OptionError(
            f"{verb}: {site!r} is of {count} categories without order, of which there is no average; compare "
            f"their probabilities, run.predict(do=…).probs[{site!r}], or a quantity of them, "
            f"run.predict(do=…).derive('chosen = {site} == …')"
        )


def of_a_total(prediction: Prediction, site: str) -> bool:
    """Whether rows always sum to the same, as the elements of one simplex do: not the components of rows."""
    draws = prediction.draws[site]
    if draws.ndim < 3 or draws.shape[-1] < 2 or draws.ndim - 3 in prediction.facts.components.get(site, ()):
        return False
    total = draws.sum(axis=-1, dtype=float).reshape(draws.shape[0] * draws.shape[1], -1)
    return len(total) > 1 and np.allclose(np.ptp(total, axis=0), 0, atol=1e-5 * np.abs(draws).max())


def check_total(prediction: Prediction, site: str, verb: str) -> None:
    """Refuse averages over elements that always sum to the same; raises `OptionError`."""
    if of_a_total(prediction, site):
        draws = prediction.draws[site]
        first = ", ".join([*(":" for _ in draws.shape[3:]), "0"])
        raise OptionError(
            f"{verb}: the {draws.shape[-1]} elements of {site!r} sum to the same in every draw, and so does "
            f"their average; look at one by one, run.predict(do=…).expected[{site!r}][..., 0], or at a "
            f"quantity of them, run.predict(do=…).derive('first = {site}[{first}]')"
        )


def contrast(a: Prediction, b: Prediction, *, site: str | None = None) -> Contrast:
    """What prediction `a` has more than `b`, by paired draws: two of the same run, seed and number of draws,
    such as `contrast(run.predict(do={"treated": 1}), run.predict(do={"treated": 0}))`.

    `site` is the outcome where there are several. Raises `OptionError` for what is no pair, and for arguments
    that differ while latents behind them stay as the run drew them, as `do=` does.
    """
    for one in (a, b):
        if not isinstance(one, Prediction):
            raise OptionError(f"contrast takes two predictions, not {shown(one)}")
    names = [n for n in a.outcomes if n in b.draws]
    if site is None and len(names) != 1:
        raise OptionError(f"contrast: of which site? site= is one of {', '.join(names) or 'none in both'}")
    name = names[0] if site is None else site
    for one in (a, b):
        if name not in one.draws:
            raise UnknownNameError("site", name, one.draws)
    check_ordered(a, name, "contrast")
    if a.facts.pairs is None or b.facts.pairs is None:
        raise OptionError(
            "given= takes some draws several times, so that draws of two predictions are no pairs; use do=, "
            "or condition the model"
        )
    if a.facts.pairs != b.facts.pairs:
        raise OptionError(
            "draws are paired where both predictions are of one run, with one seed and number of draws"
        )
    if a.draws[name].shape != b.draws[name].shape:
        raise OptionError(
            f"{name!r} has shape {a.draws[name].shape[2:]} in one and {b.draws[name].shape[2:]} in the other"
        )
    for moved, told in {**a.facts.resting, **b.facts.resting}.items():
        one, other = (p.facts.constants.get(moved, np.nan) for p in (a, b))
        if not np.array_equal(one, other):
            raise OptionError(f"contrast: {told}")
    return Contrast(a, b, name)
