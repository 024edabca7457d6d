"""What a run found of structures: which, how probable, and how well that is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.convergence import scalar_stat
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.errors import ModelError, UnknownNameError
from gibbsite.ground.lazy_import import DataFrame, later
from gibbsite.storage.draws import scalar_labels
from gibbsite.storage.names import scalar_name
from gibbsite.structure.present import Entry

pd = later("pandas")
_SHOWN = 12


@dataclass(frozen=True)
class Structure:
    """One structure among the draws of a run: the share of draws that are in it, with its Monte Carlo
    standard error, in all chains and in each; `given` are the values that Python asked for."""

    name: str
    given: Mapping[str, Any]
    probability: float
    error: float
    by_chain: tuple[float, ...]
    draws: int

    def __repr__(self) -> str:
        return f"<{self.name}: {self.probability:.3g} ± {self.error:.1g}>"


@dataclass(frozen=True)
class BayesFactor:
    """How many times likelier the data are in one structure than in another: `log` of that, with its Monte
    Carlo standard `error`."""

    of: str
    against: str
    log: float
    error: float

    @property
    def value(self) -> float:
        """The factor itself."""
        return float(np.exp(self.log))

    def __repr__(self) -> str:
        return f"<{self.of} against {self.against}: {self.value:.3g} (log {self.log:.2f} ± {self.error:.2f})>"


class Structures:
    """The structures that a run visited, the most probable first. `index` `[chain, draw]` tells which of them
    each draw is in; by position, or by name: `structures["K = 2"]`. `impossible` names those that were looked
    at and have no weight: the data are none of theirs, or none of a hundred draws from their priors has a
    density with them."""

    def __init__(
        self,
        found: Sequence[Structure],
        index: np.ndarray,
        impossible: Sequence[str] = (),
        log_prior: Callable[[str], float | None] = lambda name: None,
    ):
        self._found, self.index, self.impossible = tuple(found), index, tuple(impossible)
        self._log_prior = log_prior

    def bayes_factor(self, of: str, against: str) -> BayesFactor:
        """The ratio of the evidences of two structures, by their names: of the odds among the draws and the
        odds of their priors. Its error is that of a ratio of two shares of the same draws.

        Raises `UnknownNameError` for a structure without draws, and `ModelError` where a prior is not known:
        in a run without its model, of decisions of continuous draws, and where it reads other draws.
        """
        pair = [self[name] for name in (of, against)]
        priors = [self._log_prior(s.name) for s in pair]
        for s, prior in zip(pair, priors, strict=True):
            if prior is None:
                raise ModelError(
                    f"the prior probability of {s.name} is not known: the run has no model, or other draws "
                    f"have a say in it. Its share among draws of the model without data is that"
                )
        there = [(self.index == self._found.index(s)) / s.probability for s in pair]
        stat = scalar_stat("odds", "odds", (), there[0] - there[1])
        odds = np.log([s.probability for s in pair]) - np.array(priors, float)
        error = 0.0 if of == against else float(stat.mcse)
        return BayesFactor(of, against, float(odds[0] - odds[1]), error)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Structure]:
        return iter(self._found)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            known = {s.name: s for s in self._found}
            if at not in known:
                raise UnknownNameError("structure among the draws", at, known)
            return known[at]
        return self._found[at]

    def to_frame(self) -> "DataFrame":
        """A table: a row per structure with its probability, its standard error, and one column per chain."""
        rows = {
            s.name: {
                "probability": s.probability,
                "error": s.error,
                **{f"chain {c}": p for c, p in enumerate(s.by_chain)},
            }
            for s in self._found
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def __repr__(self) -> str:
        if not self._found:
            return "no draws yet"
        wide = max(len(s.name) for s in self._found[:_SHOWN])
        lines = [f"{'structure':{max(wide, 9)}}  probability  error   in each chain"]
        for s in self._found[:_SHOWN]:
            each = "  ".join(f"{p:.3f}" for p in s.by_chain)
            lines.append(f"{s.name:{max(wide, 9)}}  {s.probability:11.4f}  {s.error:.4f}  {each}")
        if len(self) > _SHOWN:
            rest = sum(s.probability for s in self._found[_SHOWN:])
            lines.append(f"and {len(self) - _SHOWN} more, of {rest:.4f} in all")
        if self.impossible:
            lines.append(f"no weight, as the data are impossible there: {'; '.join(self.impossible)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(float_format="{:.4f}".format)


def found(
    index: np.ndarray,
    entries: Sequence[Entry],
    impossible: Sequence[str] = (),
    log_prior: Callable[[str], float | None] = lambda name: None,
) -> Structures:
    """The structures of draws `[chain, draw]`, numbers of `entries`; `log_prior` is asked by their names."""
    if not index.size:
        return Structures((), index, impossible)
    out = []
    for i in np.unique(index):
        here = index == i
        entry = entries[int(i)]
        stat = indicator(entry.name, here)
        error = 0.0 if here.all() else stat.mcse
        out.append(
            (
                int(i),
                Structure(
                    entry.name,
                    dict(entry.way),
                    float(here.mean()),
                    float(error),
                    tuple(float(p) for p in here.mean(axis=1)),
                    int(here.sum()),
                ),
            )
        )
    out.sort(key=lambda at: (-at[1].probability, at[1].name))
    order = np.full(max(i for i, _ in out) + 1, -1)
    for rank, (i, _) in enumerate(out):
        order[i] = rank
    return Structures([s for _, s in out], order[index], impossible, log_prior)


def indicator(name: str, here: np.ndarray) -> ScalarStat:
    """The measures of being in a structure, of draws `[chain, draw]`."""
    return scalar_stat(f"[{name}]", f"[{name}]", (), here.astype(float))


def conditional_stat(label: str, site: str, at: tuple[int, ...], x: np.ndarray) -> ScalarStat | None:
    """The measures of a scalar's draws `[chain, draw]` in which NaN says that it is absent; None where it
    always is. Mean and standard deviation are those of the draws that have it; the Monte Carlo error of the
    mean is one of a ratio, of `1[there] (x - mean) / P(there)`, of which ESS and R-hat are, too."""
    there = np.isfinite(x)
    if there.all():
        return scalar_stat(label, site, at, x)
    held = x[there]
    if not held.size:
        return None
    mean, sd = float(held.mean()), float(held.std(ddof=1)) if held.size > 1 else np.nan
    stat = scalar_stat(label, site, at, np.where(there, x - mean, 0.0) / there.mean())
    return replace(stat, mean=mean, sd=sd)


def conditional_stats(values: Mapping[str, np.ndarray]) -> list[ScalarStat]:
    """As `conditional_stat`, of every scalar in draws `[chain, draw, …]`."""
    found = (
        conditional_stat(label, site, at, np.asarray(values[site][(..., *at)], float))
        for label, site, at in scalar_labels(values)
    )
    return [s for s in found if s is not None]


def summarised(values: Mapping[str, np.ndarray], labels: Callable[[str], Sequence[Any]]) -> Any:
    """A table of `conditional_stats`, with the share of draws that have each scalar, and quantiles in
    those. `labels` gives those along the axes of a site."""
    rows = {}
    for s in conditional_stats(values):
        x = np.asarray(values[s.site][(..., *s.index)], float)
        low, middle, high = np.nanquantile(x, [0.055, 0.5, 0.945])
        rows[scalar_name(s.site, s.index, labels(s.site)) if s.index else s.label] = {
            "present": float(np.isfinite(x).mean()),
            "mean": s.mean,
            "sd": s.sd,
            "eti89_lb": low,
            "median": middle,
            "eti89_ub": high,
            "mcse_mean": s.mcse,
            "ess_bulk": s.ess_bulk,
            "r_hat": s.rhat,
        }
    return pd.DataFrame.from_dict(rows, orient="index")
