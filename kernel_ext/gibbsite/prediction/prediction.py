"""What a model says of data that nobody has seen: draws, a table, a picture, a line on what it rests on."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from gibbsite.density.model.names import variable_name
from gibbsite.density.named import Named
from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.ground.angles import around_mean
from gibbsite.ground.arguments import a_name
from gibbsite.ground.lazy_import import later
from gibbsite.prediction.averaging import Averages
from gibbsite.prediction.drawn.means import finite
from gibbsite.prediction.frame import columns_of, frame_of
from gibbsite.sampling.derived.derived import Derived, Quantity, given_name
from gibbsite.sampling.derived.expression import Shape
from gibbsite.sampling.derived.interval import Interval, chosen
from gibbsite.showing import Shown, views

arviz_base, xr = later("arviz_base"), later("xarray")


@dataclass(frozen=True)
class Facts:
    """What a prediction is of. `group` is ArviZ's name for its kind, `outcomes` are the sites of data, `dims`
    and `labels` per axis of every site; `observed` the data that replicates stand beside; `constants` the
    arguments, by name, for expressions, and `categories` what their codes mean; `nominal` how many values
    those outcomes have that are of categories without order; `pairs` tells predictions apart whose draws
    belong together; `rows` are labels of tables' rows, where `source` is none; sites `reordered` by the model
    have rows in another order than their table's; sites with `turns` are angles; `components` are the axes
    of a site along which its rows are vectors; `resting` has a sentence for each argument that moved while
    latents behind it did not; `unordered` are the categories of more than two texts to which nobody gave an
    order."""

    model_name: str
    group: str
    outcomes: tuple[str, ...]
    dims: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, tuple[Sequence[str] | None, ...]]
    observed: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nominal: Mapping[str, int] = field(default_factory=dict)
    pairs: Any = None
    source: Any = None
    seed: int = 0
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reordered: tuple[str, ...] = ()
    turns: Mapping[str, float] = field(default_factory=dict)
    components: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    resting: Mapping[str, str] = field(default_factory=dict)
    unordered: Sequence[str] = ()

    def meant_by(self, site: str) -> str:
        """See `meant_by`."""
        return meant_by(self.categories.get(site, ()), site in self.nominal)

    def called(self, site: str) -> str:
        """A site's name, with what its numbers mean where they stand for categories."""
        meant = self.meant_by(site)
        return f"{site} ({meant})" if meant else site


def meant_by(texts: Sequence[str], nominal: Any = False) -> str:
    """What numbers are that stand for categories with an order, or two: "1 is 'yes'", "0 is 'bad', 2 'good'";
    "" for others, and for `nominal` ones, of which nothing is averaged."""
    if nominal or len(texts) < 2:
        return ""
    return f"1 is {texts[1]!r}" if len(texts) == 2 else f"0 is {texts[0]!r}, {len(texts) - 1} {texts[-1]!r}"


class Prediction(Shown):
    """Draws of data to come, and of all that is new with them.

    `draws` maps sites to arrays `[chain, draw, *shape]`: data, what of latents is new, what follows from
    them;
    `probs` the probabilities of discrete ones' values, `[*shape, K]`; `note` says in one line what was known
    and what was new. Made by `run.predict` and `model.predict`.
    """

    def __init__(
        self,
        draws: Mapping[str, np.ndarray],
        probs: Mapping[str, np.ndarray],
        note: str,
        facts: Facts,
        known: Mapping[str, np.ndarray] | None = None,
        expected: Callable[[], Mapping[str, np.ndarray]] | Mapping[str, np.ndarray] | None = None,
    ):
        self._expected = expected or {}
        self._draws, self._probs, self.note, self.facts = dict(draws), dict(probs), note, facts
        self.known, self._derived = dict(known or {}), Derived()

    def __getstate__(self) -> dict[str, Any]:
        # what is expected comes from a program of this process: it is asked for before
        derived = [(q.text, given_name(n, q.text)) for n, q in self.derived.items()]
        state = {n: v for n, v in self.__dict__.items() if n != "expected"}
        return state | {"_expected": dict(self.expected), "_derived": derived}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _derived=Derived())
        for text, name in state["_derived"]:
            self.derive(text, name=name)

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """`[chain, draw, *shape]` by site."""
        return MappingProxyType(Named("site of the prediction", self._draws))

    @cached_property
    def expected(self) -> Mapping[str, np.ndarray]:
        """What data are expected to be at every draw, given their parents there, `[chain, draw, *shape]` by
        site: the mean of their distribution, without its noise (what other packages call the expectation of
        the posterior predictive); of categories that of their codes (see `probs`); of data in a loop given
        what was drawn before. Where NumPyro has no formula (truncated, transformed), the mean of up to 256
        draws; where a mean is infinite (Student's t of few degrees of freedom), others stand in, which is
        told by a warning. What is drawn, of processes given their own past. Raises `ResourceError` for what
        memory does not hold.
        """
        found = self._expected() if callable(self._expected) else self._expected
        found, said = finite({n: found.get(n, self._draws[n]) for n in self.outcomes}, self._draws)
        for sentence in said:
            warnings.warn(sentence, stacklevel=3)
        return MappingProxyType(Named("outcome of the prediction", found))

    @property
    def means(self) -> Mapping[str, np.ndarray]:
        """Of `expected` what is not as drawn."""
        return {n: v for n, v in self.expected.items() if v is not self._draws[n]}

    @property
    def probs(self) -> Mapping[str, np.ndarray]:
        """`P(site = value)` of the discrete sites that were drawn, `[*shape, K]`: means over draws of their
        probabilities given their parents."""
        return MappingProxyType(Named("discrete site of the prediction", self._probs))

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.facts.model_name

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The sites of data."""
        return self.facts.outcomes

    def to_frame(
        self,
        site: str | None = None,
        *,
        prob: float | None = None,
        expected: bool = False,
        by: Any = None,
        average: bool = False,
        weights: Any = None,
    ) -> Any:
        """Mean, standard deviation and interval of every element of the data, or of `site` (or a quantity of
        `derive`): a table with the rows, and the index, of the table that was given; polars for polars. Of
        categories without order, the probability of each, which is what is expected of them as well; of
        angles, the mean direction, and what lies around it.

        With `expected`, of what data are expected to be, without their own noise (see `expected`). `prob` is
        the share in the interval; without it that of all views. With `average`, of the averages over all
        rows, draw by draw, or with `by` over the rows of each value of a column (of the table that was given,
        whether the model reads it or not) or of an array as long as the rows; there `weights`, likewise, say
        how much each row counts, as people do in the cells of a poststratification. Raises
        `UnknownNameError`, `DataError`.
        """
        values = dict(self.expected) if expected else {**self._draws, **self.derived_values()}
        names = self.outcomes if site is None else (site,)
        for name in names:
            if a_name("site", name, values) not in values:
                raise UnknownNameError("site", name, values)
        now = chosen()
        interval = now if prob is None else Interval(prob, now.kind)
        if by is not None or average or weights is not None:
            if len(names) != 1:
                raise OptionError(f"to_frame: averages of which site? site= is one of {', '.join(names)}")
            name, shape = names[0], values[names[0]].shape[2:]
            over = Averages.over(self.facts, name, shape, by, weights)
            return self._averaged(name, values[name], over, interval)
        parts = {
            n: self._shares(n) if n in self.facts.nominal else columns_of(self._cut(n, values[n]), interval)
            for n in names
        }
        shapes = {n: values[n].shape[2:] for n in names}
        dims = {
            n: self.facts.dims.get(n, tuple(f"{n}_dim_{i}" for i in range(len(s)))) for n, s in shapes.items()
        }
        labels = {n: self.facts.labels.get(n, (None,) * len(s)) for n, s in shapes.items()}
        return frame_of(parts, dims, labels, shapes, self.facts.source)

    def _averaged(self, site: str, values: np.ndarray, over: Averages, interval: Interval) -> Any:
        if site in self.facts.turns:
            raise OptionError(f"to_frame: {site!r} is a direction, and directions of rows have no average")
        if site not in self.facts.nominal:
            return over.table(site, columns_of(over(values), interval))
        shares = {n: over(v.reshape(1, 1, *values.shape[2:])) for n, v in self._shares(site).items()}
        return over.table(site, {n: v.ravel() for n, v in shares.items()})

    def _cut(self, site: str, values: np.ndarray) -> np.ndarray:
        turn = self.facts.turns.get(site)
        return values if turn is None else around_mean(values.astype(float), turn, axis=(0, 1))

    def _shares(self, site: str) -> dict[str, np.ndarray]:
        """How probable every category of a site is, by row: `P(category)`."""
        count, draws = self.facts.nominal[site], self._draws[site]
        drawn = [(draws == k).mean(axis=(0, 1)) for k in range(count)]
        shares = np.asarray(self._probs.get(site, np.stack(drawn, axis=-1))).reshape(-1, count)
        called = self.facts.categories.get(site) or range(count)
        return {f"P({label})": p for label, p in zip(called, shares.T, strict=True)}

    def derive(self, expression: str, *, name: str | None = None) -> Quantity:
        """A quantity of every draw, as `run.derive` has it: over the sites drawn here, the run's other
        latents, and the arguments by name (`profit = 12 * sold - 5 * stock`); categories by theirs
        (`rating == 'good'`). Raises `ExpressionError`."""
        space = self._space()
        shapes = {
            n: Shape(
                v.shape[2:],
                self.facts.labels.get(n, (None,) * (v.ndim - 2)),
                self.facts.categories.get(n, ()),
                n not in self.facts.unordered,
            )
            for n, v in space.items()
        }
        steps = next(iter(space.values())).shape[1]
        return self._derived.add(expression, name, space, steps, shapes)

    def _space(self) -> dict[str, np.ndarray]:
        leading = next(iter(self._draws.values())).shape[:2]
        constants = {n: np.broadcast_to(v, (*leading, *np.shape(v))) for n, v in self.facts.constants.items()}
        return {**constants, **self.known, **self._draws}

    @property
    def derived(self) -> dict[str, Quantity]:
        """What `derive` made, by name."""
        space = self._space()
        return self._derived.quantities(space, next(iter(space.values())).shape[1])

    def derived_values(self) -> dict[str, np.ndarray]:
        """Values of what was derived, `[chain, draw, *shape]`, truth values as 0 and 1."""
        if not len(self._derived):
            return {}
        return {
            n: q.values.astype(int) if q.values.dtype == bool else q.values for n, q in self.derived.items()
        }

    def to_datatree(self) -> Any:
        """The `xarray.DataTree` that ArviZ reads: group `predictions`, `posterior_predictive` or
        `prior_predictive` (and `prior`), with `observed_data` beside replicates."""
        inner = {n: v for n, v in self._draws.items() if n in self.outcomes}
        rest = {n: v for n, v in self._draws.items() if n not in self.outcomes} | self.derived_values()
        groups: dict[str, dict[str, np.ndarray]] = {self.facts.group: inner or rest}
        if inner and rest:
            key = "prior" if self.facts.group == "prior_predictive" else self.facts.group
            groups[key] = {**groups.get(key, {}), **rest}
        if self.facts.observed:
            groups["observed_data"] = dict(self.facts.observed)
        tree = xr.DataTree()
        for group, values in groups.items():
            named = {variable_name(n): v for n, v in values.items()}
            dims = {
                variable_name(n): [variable_name(d) for d in self.facts.dims[n]]
                for n in values
                if n in self.facts.dims
            }
            coords = {
                variable_name(d): np.asarray(t)
                for n in values
                for d, t in zip(self.facts.dims.get(n, ()), self.facts.labels.get(n, ()), strict=False)
                if t is not None
            }
            # ArviZ reads `predictions` from other arguments than all other groups
            name = "observed_data" if group == "observed_data" else "posterior"
            tree[group] = arviz_base.from_dict({name: named}, dims=dims, coords=coords)[name].to_dataset()
        tree.attrs.update(model=self.facts.model_name, seed=self.facts.seed, note=self.note)
        return tree

    def plot(self, site: str | None = None) -> Any:
        """A picture: replicates with the data over them, or every row's mean and interval.

        Without `site`, of the first site of data. It shows itself in every front end; `.save("plot.svg")`
        writes it. Raises `UnknownNameError`.
        """
        name = next(iter(self.outcomes or self._draws)) if site is None else site
        values = {**self._draws, **self.derived_values()}
        if a_name("site", name, values) not in values:
            raise UnknownNameError("site", name, values)
        return views().plot_prediction(self, name)

    def __repr__(self) -> str:
        shape = next(iter(self._draws.values())).shape[:2] if self._draws else (0, 0)
        sites = ", ".join(f"{n} {list(self._draws[n].shape[2:])}" for n in self.outcomes if n in self._draws)
        told = f"{sites}; {shape[0]} chain{'s' * (shape[0] != 1)} × {shape[1]} draws; {self.note}"
        return f"<Prediction of {self.model_name}: {told}>"
