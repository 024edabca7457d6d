"""Runs of several models of the same data → which is expected to predict new data best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gibbsite.diagnostics.predictive.caveats import factors_text, given_text
from gibbsite.diagnostics.verdict.elpd import difference
from gibbsite.diagnostics.verdict.predictions import SMALL, other_data
from gibbsite.errors import DataError, OptionError
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import DataFrame
from gibbsite.prediction.frame import frame_of
from gibbsite.showing import Shown, views

BAD_K = 0.7  # beyond it PSIS is not to be relied on (Vehtari et al. 2024, §3.2.4)
_CLEAR = 2.0  # standard errors
_FEW = 100  # observations below which errors of differences are too small (same)


@dataclass(frozen=True)
class Entry:
    """One run: its `name`, `elpd`, `se`, effective parameters `p`, the worst Pareto `k` and how many are
    `bad`,
    and the `difference` from the best with its standard error `dse`; `pareto_k` by observation."""

    name: str
    elpd: float
    se: float
    p: float
    k: float
    bad: int
    difference: float
    dse: float
    pareto_k: Mapping[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> list[tuple[str, float]]:
        """The observations of bad Pareto k, worst first."""
        found = [(n, k) for n, k in self.pareto_k.items() if k > BAD_K]
        return sorted(found, key=lambda pair: -pair[1])


class Compared(Shown):
    """The models in the order of their expected log predictive density (PSIS-LOO), best first: `entries`, and
    `caveats` to read them by."""

    def __init__(self, entries: list[Entry], observations: int, caveats: list[str], kind: str = "PSIS-LOO"):
        self.entries, self.observations, self.caveats, self.kind = entries, observations, caveats, kind

    def to_frame(self) -> "DataFrame":
        """A row for each run."""
        fields = {n: n for n in ("elpd", "se", "p", "difference", "dse")} | {"worst_k": "k", "bad_k": "bad"}
        arrays = {n: np.array([getattr(e, f) for e in self.entries]) for n, f in fields.items()}
        names = [e.name for e in self.entries]
        return frame_of({"m": arrays}, {"m": ("model",)}, {"m": (names,)}, {"m": (len(names),)}, None)

    def plot(self) -> Any:
        """A picture: differences from the best, and every run's Pareto k by observation; `.save("k.html")`
        writes a page that names an observation under the pointer."""
        return views().plot_use(self)

    def __repr__(self) -> str:
        width = max(len(e.name) for e in self.entries)
        head = f"{'':{width}}  {'elpd':>9}  {'se':>7}  {'difference':>10}  {'se':>7}  {'p':>6}  Pareto k"
        smoothed = any(np.isfinite(e.k) for e in self.entries)
        rows = [head if smoothed else head.removesuffix("  Pareto k")]
        for e in self.entries:
            k = f"{e.k:.2f}" if np.isfinite(e.k) else "?" * smoothed
            k += f", {e.bad} above {BAD_K}" if e.bad else ""
            rows.append(
                f"{e.name:{width}}  {e.elpd:9.1f}  {e.se:7.1f}  {e.difference:10.1f}  {e.dse:7.1f}  "
                f"{e.p:6.1f}  {k}".rstrip()
            )
        return "\n".join([*rows, f"{self.kind} over {self.observations} observations", *self.caveats])


def compare(*runs: Any, **options: Any) -> Compared:
    """Runs of models of the same data by how well each is expected to predict new data: PSIS-LOO (Vehtari,
    Gelman and Gabry 2017), or by `options` of `run.elpd`: `kfold=10`, `by="county"`, `refit=True`; with
    differences from the best and their standard errors. One dict of runs gives them names of its own.

    Raises `OptionError` for fewer than two runs, `DataError` where they are of different data, `ModelError`
    for a run without draws, data or its model.
    """
    own: list[str] | None = None
    if len(runs) == 1 and isinstance(runs[0], Mapping):
        own, runs = [str(name) for name in runs[0]], tuple(runs[0].values())
    if len(runs) < 2 or not all(hasattr(r, "elpd") for r in runs):
        raise OptionError(f"compare takes two or more runs, not {shown(runs)}")
    found = [r.elpd(**options) for r in runs]
    names = _named(runs) if own is None else own
    for name, run in zip(names[1:], runs[1:], strict=True):
        if (other := other_data(runs[0], run)) is not None:
            raise DataError(
                f"{names[0]} and {name} are of different data ({other}): elpd is compared over the same ones"
            )
    order = sorted(range(len(runs)), key=lambda i: -float(found[i].elpd))
    best, n = found[order[0]], int(found[0].n_data_points)
    entries = []
    for i in order:
        apart, dse = difference(best, found[i])
        k = _shapes(found[i])
        entries.append(
            Entry(
                names[i],
                float(found[i].elpd),
                float(found[i].se),
                float(found[i].p),
                float(np.nanmax(k)) if k.size else float("nan"),
                int((k > getattr(found[i], "good_k", BAD_K)).sum()),
                apart,
                dse,
                _pareto(found[i]),
            )
        )
    kind = f"{found[0].n_folds}-fold cross-validation" if found[0].kind == "loo_kfold" else "PSIS-LOO"
    ordered = [(runs[i], found[i]) for i in order]
    return Compared(entries, n, _caveats(ordered, entries, n), kind)


def _pareto(elpd: Any) -> dict[str, float]:
    k = elpd.pareto_k
    return {} if k is None else dict(zip(map(str, k["datum"].values), k.values.tolist(), strict=True))


def _shapes(elpd: Any) -> np.ndarray:
    k = getattr(elpd, "pareto_k", None)
    k = np.array([]) if k is None else np.ravel(np.asarray(k, float))
    return k[~np.isnan(k)]


def _named(runs: tuple[Any, ...]) -> list[str]:
    names = [r.model_name for r in runs]
    return [f"{n} ({i + 1})" if names.count(n) > 1 else n for i, n in enumerate(names)]


def _caveats(runs: Sequence[tuple[Any, Any]], entries: list[Entry], n: int) -> list[str]:
    """What to beware of (Vehtari's cross-validation FAQ; Sivula et al. 2025)."""
    out = []
    close = [e.name for e in entries[1:] if abs(e.difference) < SMALL]
    if close:
        out.append(
            f"{', '.join(close)}: a difference below {SMALL:.0f} says little, and its error is then not to "
            "be relied on"
        )
    best = float(getattr(runs[0][1], "mcse", 0.0))
    unsure = [
        f"{e.name} (±{error:.2g})"
        for (_, elpd), e in zip(runs[1:], entries[1:], strict=True)
        if abs(e.difference) < _CLEAR * (error := float(np.hypot(best, getattr(elpd, "mcse", 0.0))))
    ]
    if unsure:
        out.append(
            f"{', '.join(unsure)}: the difference is within the error that comes of the runs' length; draw "
            "more, or compare by kfold="
        )
    unclear = [e.name for e in entries[1:] if SMALL <= abs(e.difference) < _CLEAR * e.dse]
    if unclear:
        out.append(f"{', '.join(unclear)}: less than {_CLEAR:.0f} standard errors from the best")
    if n < _FEW:
        out.append(f"with fewer than {_FEW} observations the errors of differences are too small")
    for (run, elpd), e in zip(runs, entries, strict=True):
        if told := given_text(elpd):
            out.append(
                f"{e.name}: given {told}, drawn with the very data that are left out: it may be too high"
            )
        if names := getattr(elpd, "factors", ()):
            out.append(f"{e.name}: {factors_text(names, 'counted')}")
        if e.bad:
            worst = ", ".join(f"{name} ({k:.2f})" for name, k in e.worst[:3])
            out.append(
                f"{e.name}: {e.bad} of {n} Pareto k above {BAD_K}, {worst}{', …' * (e.bad > 3)}: its elpd "
                "may be too high there; run.elpd(refit=True) leaves these out in earnest"
            )
        if not run.verdict.ok:
            out.append(f"{e.name}: {run.verdict}")
        out += [f"{e.name}, refitted without {told}" for told in getattr(elpd, "doubtful", ())[:3]]
    return out
