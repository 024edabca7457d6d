"""Runs of several models of the same data → which is expected to predict new data best."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.errors import DataError, OptionError
from gibbsite.ground.sensible import shown
from gibbsite.prediction.frame import frame_of

_BAD_K = 0.7  # beyond it PSIS is not to be relied on (Vehtari et al. 2024, §3.2.4)
_SMALL = (
    4.0  # a difference below this says little, and its error is then not to be relied on (Sivula et al. 2020)
)
_FEW = 100  # observations below which errors of differences are too small (same)


@dataclass(frozen=True)
class Entry:
    """One run: its `name`, `elpd`, `se`, effective parameters `p`, the worst Pareto `k` and how many are
    `bad`,
    and the `difference` from the best with its standard error `dse`."""

    name: str
    elpd: float
    se: float
    p: float
    k: float
    bad: int
    difference: float
    dse: float


class Compared:
    """The models in the order of their expected log predictive density (PSIS-LOO), best first: `entries`, and
    `caveats` to read them by."""

    def __init__(self, entries: list[Entry], observations: int, caveats: list[str]):
        self.entries, self.observations, self.caveats = entries, observations, caveats

    def to_frame(self) -> Any:
        """A row for each run."""
        columns = {
            "elpd": [e.elpd for e in self.entries],
            "se": [e.se for e in self.entries],
            "p": [e.p for e in self.entries],
            "difference": [e.difference for e in self.entries],
            "dse": [e.dse for e in self.entries],
            "worst_k": [e.k for e in self.entries],
            "bad_k": [e.bad for e in self.entries],
        }
        arrays = {n: np.array(v) for n, v in columns.items()}
        names = [e.name for e in self.entries]
        return frame_of({"m": arrays}, {"m": ("model",)}, {"m": (names,)}, {"m": (len(names),)}, None)

    def __repr__(self) -> str:
        width = max(len(e.name) for e in self.entries)
        head = f"{'':{width}}  {'elpd':>9}  {'se':>7}  {'difference':>10}  {'se':>7}  {'p':>6}  Pareto k"
        rows = [head]
        for e in self.entries:
            k = "?" if not np.isfinite(e.k) else f"{e.k:.2f}" + (f", {e.bad} above {_BAD_K}" if e.bad else "")
            rows.append(
                f"{e.name:{width}}  {e.elpd:9.1f}  {e.se:7.1f}  {e.difference:10.1f}  {e.dse:7.1f}  "
                f"{e.p:6.1f}  {k}"
            )
        return "\n".join([*rows, f"PSIS-LOO over {self.observations} observations", *self.caveats])


def compare(*runs: Any) -> Compared:
    """Runs of models of the same data by how well each is expected to predict new data: PSIS-LOO (Vehtari,
    Gelman and Gabry 2017) by `run.elpd()`, with differences from the best and their standard errors.

    Raises `OptionError` for fewer than two runs, `DataError` where they are of different data, `ModelError`
    for a
    run without draws, data or its model.
    """
    if len(runs) < 2 or not all(hasattr(r, "elpd") for r in runs):
        raise OptionError(f"compare takes two or more runs, not {shown(runs)}")
    found = [r.elpd() for r in runs]
    points = [_pointwise(e) for e in found]
    counts = {len(p) for p in points}
    if len(counts) > 1:
        told = ", ".join(f"{r.model_name} {len(p)}" for r, p in zip(runs, points, strict=True))
        raise DataError(
            f"the runs are of different data: {told} observations; elpd is compared over the same ones"
        )
    names = _named(runs)
    order = sorted(range(len(runs)), key=lambda i: -float(found[i].elpd))
    best, n = order[0], len(points[0])
    entries = []
    for i in order:
        apart = points[i] - points[best]
        dse = float(np.sqrt(n * np.var(apart, ddof=1))) if i != best and n > 1 else 0.0
        k = _shapes(found[i])
        entries.append(
            Entry(
                names[i],
                float(found[i].elpd),
                float(found[i].se),
                float(found[i].p),
                float(np.nanmax(k)) if k.size else float("nan"),
                int((k > getattr(found[i], "good_k", _BAD_K)).sum()),
                float(apart.sum()),
                dse,
            )
        )
    return Compared(entries, n, _caveats(runs, entries, n))


def _pointwise(elpd: Any) -> np.ndarray:
    return np.ravel(np.asarray(elpd.elpd_i, float))


def _shapes(elpd: Any) -> np.ndarray:
    k = getattr(elpd, "pareto_k", None)
    k = np.array([]) if k is None else np.ravel(np.asarray(k, float))
    return k[~np.isnan(k)]


def _named(runs: tuple[Any, ...]) -> list[str]:
    names = [r.model_name for r in runs]
    return [f"{n} ({i + 1})" if names.count(n) > 1 else n for i, n in enumerate(names)]


def _caveats(runs: tuple[Any, ...], entries: list[Entry], n: int) -> list[str]:
    out = []
    data = [{k: np.asarray(v) for k, v in r.plan.observed.items()} for r in runs]
    values = [np.sort(np.concatenate([np.ravel(v) for v in d.values()])) if d else np.zeros(0) for d in data]
    if any(not np.array_equal(v, values[0], equal_nan=True) for v in values[1:]):
        out.append(
            "the data of the runs are as many and not the same numbers: their densities may not be compared"
        )
    close = [e.name for e in entries[1:] if abs(e.difference) < _SMALL]
    if close:
        out.append(
            f"{', '.join(close)}: a difference below {_SMALL:.0f} says little, and its error is then not to "
            "be relied on"
        )
    if n < _FEW:
        out.append(f"with fewer than {_FEW} observations the errors of differences are too small")
    for r in runs:
        if getattr(r.elpd(), "given", ()):
            told = ", ".join(r.elpd().given)
            out.append(f"{r.model_name}: given {told}, drawn with the very data that are left out: too high")
    for e in entries:
        if e.bad:
            out.append(f"{e.name}: {e.bad} of {n} Pareto k above {_BAD_K}: its elpd may be too high there")
    for r in runs:
        if not r.verdict.ok:
            out.append(f"{r.model_name}: {r.verdict}")
    return out
