"""The runs of a process side by side: what changed from one to the next, and how they did."""

import difflib
import math
import re
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gibbsite.diagnostics.predictive.caveats import given_text
from gibbsite.diagnostics.verdict.compare import Comparison, compare
from gibbsite.errors import GibbsiteError
from gibbsite.ground.lazy_import import DataFrame, later
from gibbsite.showing import Live, views

pd = later("pandas")

_ENDED = ("finished", "stopped", "failed")
_SETTINGS = ("draws", "asked_warmup", "chains", "seed", "thin")
_SHORT = 46  # characters of a line of source that are told
_MOST_LINES = 2
_HEADS = (
    "",
    "model",
    "changed",
    "schedule",
    "draws",
    "verdict",
    "seconds + compiling",
    "ESS/s",
    "elpd (LOO)",
)
_MLFLOW_TEXT, _MLFLOW_NAME = 500, 250  # letters of a parameter, and of a tag, that every MLflow server takes
_NO_MLFLOW = re.compile(r"[^\w.\- :]|^[. ]+")  # what it refuses in names


@dataclass(frozen=True)
class Entry:
    """One run in a history; `before` is the last earlier one of a model of the same name, or None, and
    `changed` says how it differs from that; `seconds` is all that it took, `compiling` the part of it that
    was compiling; `elpd` is ArviZ's, or None where it was not asked for; `data` a fingerprint; `note` and
    `tags` what people wrote; `path` where it is stored, beginning at the folder that was looked through."""

    run: Any
    model: str
    changed: str
    schedule: str
    draws: str
    verdict: str
    seconds: float
    ess_per_second: float | None
    elpd: Any = None
    data: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    before: Any = None
    compiling: float = 0.0

    def cells(self, number: int) -> tuple[str, ...]:
        """The row as words, in the order of `Runs.heads`."""
        ess = "–" if self.ess_per_second is None else _whole(self.ess_per_second)
        name = f"{number} {self.path}".strip()
        return (
            name, self.model, self.changed, self.schedule, self.draws, self.verdict,
            f"{self.seconds - self.compiling:.1f} + {self.compiling:.1f}", ess, elpd_text(self.elpd),
        )  # fmt: skip


class Runs(list[Any], Live):
    """Runs, oldest first: a list that shows itself as a table.

    `entries` is the table, `to_frame()` too; `with_elpd()` fills its last column; `compare()` sets two runs
    side by side. Those that were looked for in a `folder` tell where in it they are.
    """

    heads = _HEADS
    folder: Path | None = None

    @property
    def entries(self) -> list[Entry]:
        """A row for every run."""
        last: dict[str, Any] = {}
        found = []
        for run in self:
            found.append(replace(_entry(run, last.get(run.model_name)), path=self._place(run)))
            last[run.model_name] = run
        return found

    def to_frame(self) -> "DataFrame":
        """The table as a DataFrame, a row for every run: what `entries` has, `path` being the whole one, with
        the elpd and its standard error (missing where they were not asked for), and the seed."""
        rows = []
        for run, entry in zip(self, self.entries, strict=True):
            told = [f.name for f in fields(entry) if f.name not in ("run", "before", "elpd")]
            row = {name: getattr(entry, name) for name in told}
            elpd = entry.elpd
            row["elpd"], row["elpd_se"] = (None, None) if elpd is None else (elpd.elpd, elpd.se)
            rows.append({**row, "seed": run.settings.seed, "path": run.path})
        return pd.DataFrame(rows)

    def _place(self, run: Any) -> str:
        """Where in the folder a run is stored; empty for runs that were not looked for there."""
        if self.folder is None or run.path is None:
            return ""
        return Path(run.path).relative_to(self.folder).as_posix()

    def with_elpd(self) -> "Runs":
        """The same runs, with the expected log predictive density of each that has a likelihood and has
        ended, by ArviZ's leave-one-out cross-validation (Vehtari, Gelman and Gabry 2017)."""
        for run in self:
            if run.status in _ENDED:
                try:
                    run.elpd()
                except GibbsiteError:  # no likelihood, no draws or no model: the column stays empty
                    continue
        return self

    def compare(self, first: int = -2, second: int = -1) -> Comparison:
        """Two runs by their places: see `Run.compare`."""
        return compare(self[first], self[second])

    def plot(self, first: int = -2, second: int = -1, *labels: str) -> Any:
        """The posteriors of two runs, by their places, in the same plots: see `Run.plot`."""
        return self[first].plot(*labels, beside=self[second])

    def page(self, path: str | PathLike[str]) -> Path:
        """Write the runs as one HTML file: a row each, with what changed, data, schedule, verdict, seconds,
        elpd, tags and note, and below it the model's source and its difference from that model's run before.
        Raises `OSError` where it cannot be written."""
        return views().write_runs(self, Path(path).expanduser())

    def __repr__(self) -> str:
        rows = [self.heads, *(e.cells(i) for i, e in enumerate(self.entries))]
        if len(rows) == 1:
            return "<no runs yet>"
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.heads))]
        lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join(lines)


def _whole(value: float) -> str:
    """Digits that mean something, none of them as a power of ten."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}".replace(",", "\u202f")


def elpd_text(elpd: Any) -> str:
    """`-31.2 ± 1.4`, with a star where ArviZ warns of it, and what latents of single data it is given where
    these could not be summed or integrated out; a dash where there is none."""
    if elpd is None:
        return "–"
    given = given_text(elpd)
    told = f" given {given}" if given else " *" * bool(elpd.warning)
    return f"{elpd.elpd:.1f} ± {elpd.se:.1f}{told}"


def _entry(run: Any, before: Any) -> Entry:
    snapshot, s = run.snapshot(1), run.settings
    going = run.status not in _ENDED or run.elsewhere is not None
    status = run.status if run.elsewhere is None else f"goes on in {run.elsewhere}"
    return Entry(
        run=run,
        model=run.model_name,
        changed="" if before is None else "; ".join(changes(before, run)) or "nothing",
        schedule=run.schedule_text,
        draws=f"{s.chains} × {snapshot.draws_done}" + (f" of {snapshot.draws_total}" if going else ""),
        verdict=status if going else str(run.verdict).partition(";")[0],
        seconds=run.elapsed,
        compiling=snapshot.compile_seconds,
        before=before,
        ess_per_second=snapshot.efficiency.ess_per_second,
        elpd=run.known_elpd,
        data=run.data_fingerprint,
        note=run.remarks["note"],
        tags=tuple(run.remarks["tags"]),
    )


def logged(run: Any, mlflow: Any, report: bool) -> None:
    """See `Run.log_to`."""
    s, shot, elpd = run.settings, run.snapshot(24), run.known_elpd
    with mlflow.start_run(run_name=run.model_name):
        asked = {n.removeprefix("asked_"): getattr(s, n) for n in _SETTINGS}
        texts = {"model": run.model_name, "schedule": run.schedule_text, "data": run.data_fingerprint}
        mlflow.log_params({**asked, **{n: t[:_MLFLOW_TEXT] for n, t in texts.items()}})
        rhats, sizes = [s.rhat for s in shot.scalars], [s.ess_bulk for s in shot.scalars]
        numbers = {
            "seconds": run.elapsed,
            "draws_done": shot.draws_done,
            "divergences": sum(shot.divergences),
            "worst_rhat": max((r for r in rhats if math.isfinite(r)), default=math.nan),
            "worst_ess_bulk": min((n for n in sizes if math.isfinite(n)), default=math.nan),
            "ess_per_second": shot.efficiency.ess_per_second or math.nan,
            "elpd_loo": math.nan if elpd is None else elpd.elpd,
            "elpd_loo_se": math.nan if elpd is None else elpd.se,
        }
        mlflow.log_metrics({n: float(v) for n, v in numbers.items() if math.isfinite(v)})
        tags = [_NO_MLFLOW.sub("_", t)[:_MLFLOW_NAME] for t in run.remarks["tags"]]
        told = {"verdict": str(run.verdict), "note": run.remarks["note"], "source": run.source}
        mlflow.set_tags({n: t for n, t in told.items() if t} | {t: "true" for t in tags})
        if report:
            with TemporaryDirectory() as folder:
                mlflow.log_artifact(str(run.report(Path(folder) / "report.html")))


def changes(before: Any, after: Any) -> list[str]:
    """How a run differs from an earlier one of its model: source, data, schedule, what was asked."""
    found = []
    if before.source != after.source:
        found.append(_difference(before.source, after.source))
    elif before.fingerprint != after.fingerprint:
        found.append("model changed")
    if not found and before.data_fingerprint != after.data_fingerprint:
        found.append("data")
    if not found and before.schedule_text != after.schedule_text:
        found.append("schedule")
    pairs = ((n, getattr(before.settings, n), getattr(after.settings, n)) for n in _SETTINGS)
    found += [f"{n.removeprefix('asked_')} {old} → {new}" for n, old, new in pairs if old != new]
    return found


def _difference(old: str, new: str) -> str:
    """The lines of source that differ, the first of them."""
    lines = [
        f"{line[0]} {line[1:].strip()}"
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip()
    ]
    shown = [line if len(line) <= _SHORT else line[: _SHORT - 1] + "…" for line in lines[:_MOST_LINES]]
    more = len(lines) - len(shown)
    return " ".join(shown) + (f" … {more} more lines" if more else "")
