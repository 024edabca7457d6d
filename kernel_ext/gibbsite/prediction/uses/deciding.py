"""Predictions of alternatives and a utility → which is best, by how much, and how sure that is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.convergence import scalar_stat
from gibbsite.errors import OptionError
from gibbsite.ground.arguments import shown
from gibbsite.prediction.frame import columns_of, frame_of, like
from gibbsite.prediction.prediction import Prediction
from gibbsite.sampling.derived.interval import chosen
from gibbsite.showing import Shown, views


class Decision(Shown):
    """The utility `[chain, draw]` by alternative in `draws`; `best` names the one of highest expectation.

    `expected` and `error` are its mean and Monte Carlo standard error, `best_probability` how often it is the
    best of all, draw by draw (the best of equals share). `source` is a table of the kind that `to_frame`
    makes."""

    def __init__(self, draws: Mapping[str, np.ndarray], text: str, source: Any = None):
        self.draws, self.text, self.source = dict(draws), text, source

    @property
    def expected(self) -> dict[str, float]:
        """The mean utility."""
        return {n: float(v.mean()) for n, v in self.draws.items()}

    @property
    def error(self) -> dict[str, float]:
        """The Monte Carlo standard error of `expected`, by the effective number of draws."""
        return {n: float(scalar_stat(n, n, (), v).mcse) for n, v in self.draws.items()}

    @property
    def best_probability(self) -> dict[str, float]:
        """In which share of the draws each has the highest utility."""
        x = np.stack([v.ravel() for v in self.draws.values()])
        top = x == x.max(axis=0)
        return dict(zip(self.draws, (top / top.sum(axis=0)).mean(axis=1).tolist(), strict=True))

    @property
    def best(self) -> str:
        """The alternative of highest expected utility."""
        return max(self.expected, key=self.expected.__getitem__)

    def to_frame(self) -> Any:
        """A row for each alternative: `mean`, `sd`, interval, `mcse`, `best` (its probability), and `lead`,
        the mean difference from the best with its standard deviation `lead_sd`."""
        values = np.stack(list(self.draws.values()), axis=2)
        top = self.draws[self.best]
        columns = columns_of(values, chosen())
        columns["mcse"] = np.array(list(self.error.values()))
        columns["best"] = np.array(list(self.best_probability.values()))
        columns["lead"] = np.array([float((v - top).mean()) for v in self.draws.values()])
        columns["lead_sd"] = np.array([float((v - top).std(ddof=1)) for v in self.draws.values()])
        names = list(self.draws)
        shape = {"u": (len(names),)}
        return frame_of({"u": columns}, {"u": ("alternative",)}, {"u": (names,)}, shape, self.source)

    def plot(self) -> Any:
        """A picture: every alternative's utility, and how probably it is the best."""
        return views().plot_use(self)

    def __repr__(self) -> str:
        chance = self.best_probability
        rows = [
            f"  {n}: {self.expected[n]:.4g} ± {self.error[n]:.2g}, best with probability {chance[n]:.3f}"
            for n in self.draws
        ]
        return "\n".join([f"{self.text}: {self.best} has the highest expectation", *rows])


def decide(alternatives: Mapping[str, Prediction], utility: str) -> Decision:
    """Which of some predictions has the highest expected `utility`, an expression over their sites and
    arguments (`profit = 12 * min(sold, stock) - 5 * stock`), added up over rows where it has some.

    Draws are paired, so that what all share cancels: the alternatives are of one run, seed and number of
    draws.
    Raises `OptionError` where they are not, `ExpressionError` for the utility.
    """
    if not isinstance(alternatives, Mapping) or len(alternatives) < 2:
        raise OptionError(f"decide takes two or more predictions by name, not {shown(alternatives)}")
    for name, one in alternatives.items():
        if not isinstance(one, Prediction):
            raise OptionError(f"decide: {name!r} is no prediction but {shown(one)}")
    pairs = {one.facts.pairs for one in alternatives.values()}
    if len(pairs) != 1 or None in pairs:
        raise OptionError(
            "decide: the predictions must be of one run, with one seed and number of draws, without given="
        )
    draws, text = {}, utility
    for name, one in alternatives.items():
        # a site's own name is no new quantity's
        bare = isinstance(utility, str) and utility.strip() in one.draws
        quantity = one.derive(f"utility = {utility}" if bare else utility)
        text = utility.strip() if bare else quantity.name
        v = np.asarray(quantity.values, float)
        draws[str(name)] = v.reshape(*v.shape[:2], -1).sum(axis=2)
    return Decision(draws, text, like(next(iter(alternatives.values())).facts.source))
