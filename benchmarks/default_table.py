"""Lines of runs → the table of `default_sampler.py`."""

import json
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

RUNS, FAILED = "runs.jsonl", "failed.jsonl"
COLUMNS = (
    "ours", "interleaved",
    "NumPyro, as written", "NumPyro, non-centred", "nutpie, as written", "nutpie, non-centred",
)  # fmt: skip


class Found(NamedTuple):
    """Of a run: lowest ESS, largest R-hat, gradients in all, divergences, gradients to the goal (0: never),
    steps of warm-up, and processor seconds of the run and of what came before (analysis and compilation)."""

    ess: float
    rhat: float
    gradients: int
    divergent: int
    goal: int
    warmup: int
    seconds: float
    setup: float

    @property
    def per_gradient(self) -> float:
        """Effective draws per thousand gradients."""
        return 1000 * self.ess / self.gradients

    @property
    def per_second(self) -> float:
        """Effective draws per processor second, without set-up."""
        return self.ess / self.seconds


Runs = dict[str, dict[int, Found]]


def held(folder: Path) -> dict[str, Runs]:
    """What was found: by model, sampler and seed."""
    table: dict[str, Runs] = {}
    for model, name, seed, found in lines(folder / RUNS):
        table.setdefault(model, {}).setdefault(name, {})[seed] = Found(*found)
    return table


def lines(path: Path) -> Iterable[list]:
    """The lines that are whole: the last one of a process that was killed may not be."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def shown(found: Mapping[int, Found]) -> str:
    """Median of effective draws per thousand gradients; of all 4000 draws, and the largest R-hat."""
    runs = list(found.values())
    if not runs:
        return "–"
    rate, rhat = np.median([f.per_gradient for f in runs]), max(f.rhat for f in runs)
    return f"{rate:.1f} ({np.median([f.ess for f in runs]):.0f}, {rhat:.3f})"


def against(who: str, found: Runs) -> tuple[float, float, str]:
    """Ours over the better form of `who`, per gradient and per second, each the median over the seeds that
    both ran; and how either came to the goal."""
    runs = [r for n, r in found.items() if n.startswith(who) and r]
    seeds = [s for s in found.get("ours", {}) if all(s in r for r in runs)] if runs else []
    if not seeds:
        return np.nan, np.nan, "–"

    def ratio(of: Callable[[Found], float]) -> tuple[float, Mapping[int, Found]]:
        best = max(runs, key=lambda r: np.median([of(r[s]) for s in seeds]))
        return float(np.median([of(found["ours"][s]) / of(best[s]) for s in seeds])), best

    (gradients, best), (seconds, _) = ratio(attrgetter("per_gradient")), ratio(attrgetter("per_second"))
    goals = [
        f"{np.median(g) / 1000:.0f}k" if all(g) else f"{sum(x > 0 for x in g)} of {len(g)}"
        for g in ([found["ours"][s].goal for s in seeds], [best[s].goal for s in seeds])
    ]
    return gradients, seconds, " / ".join(goals)


def told(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def printed(folder: Path) -> str:
    """The table, in the order of the models' first lines, and what did not come to an end."""
    table = held(folder)
    names = [n for n in COLUMNS if any(n in found for found in table.values())]
    peers = ["NumPyro", *(["nutpie"] if any(n.startswith("nutpie") for n in names) else [])]
    head = ["model", "seeds", *names, "warm-up", *(f"ours / {p}" for p in peers)]
    head += ["per second", "to the goal, ours / NumPyro"]
    rows, ratios = [], []
    for model, found in table.items():
        mine = found.get("ours", {})
        warm = sorted(f.warmup for f in mine.values()) or [0]
        span = f"{warm[0]}" if warm[0] == warm[-1] else f"{warm[0]} … {warm[-1]}"
        compared = {p: against(p, found) for p in peers}
        _, seconds, goals = compared["NumPyro"]
        ratios.append([c[0] for c in compared.values()] + [seconds])
        cells = [model, str(len(mine)), *(shown(found.get(n, {})) for n in names), span]
        rows.append([*cells, *(told(c[0]) for c in compared.values()), told(seconds), goals])
    middle = np.nanmedian(ratios, axis=0) if ratios else []
    blank = [""] * (len(names) + 2)
    rows.append(["median of the ratios", *blank, *map(told, middle), ""])
    text = [f"| {' | '.join(r)} |" for r in (head, ["---"] * len(head), *rows)]
    text += [
        "",
        *(f"{model}, {name}, seed {seed}: {why}" for model, name, seed, why in lines(folder / FAILED)),
    ]
    return "\n".join(text)
