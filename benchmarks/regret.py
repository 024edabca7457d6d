"""Every schedule that was weighed, run to the end: is the default beaten by what we could have offered?

    python benchmarks/regret.py [MODEL ...] [--plain] [--draws 2000] [--seeds 1] --to regret.jsonl
    python benchmarks/regret.py --planned [MODEL ...] [--plain]
    python benchmarks/regret.py --table regret.jsonl
    python benchmarks/regret.py --fit regret.jsonl

Of each model of `regret_models.py`, or with `--plain` of `plain_models.py`, every candidate of
`model.schedule().candidates` is run with four chains: once to compile, then with 500 steps of warm-up and the
draws, in processor seconds of all threads. Effective draws (bulk) are those of the worst number of any
latent; components that can be renamed are put in order first. What was run is appended to a file, a line a
schedule, and models that it holds are left out: a run that was broken off goes on. The table holds the
default against the best candidate in effective draws per processor second, of sampling alone and of the whole
of a run, planning and compiling included, where schedules of which a thousandth of all transitions diverged
count for nothing; and for each schedule the counted work of a sweep against its time, and predicted times
against those of the runs. `--fit` has the worths of `plans/candidates/limits.py` fitted to such a file: by
least squares of logarithms, each drawn a little towards what it is now, as some of them hardly vary.
`--planned` runs nothing: it tells what was weighed, and the processor seconds that took.
"""

import argparse
import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from gibbsite.plans.candidates.limits import COMPILING, WORTH
from gibbsite.plans.candidates.promise import Promises
from gibbsite.plans.candidates.promise import programs as programs_of
from gibbsite.plans.schedule.parse import parse_schedule
from plain_models import CASES as PLAIN
from regret_models import CASES as GRID
from regret_models import LABELS
from scipy.optimize import least_squares

CASES = {**GRID, **PLAIN}
CHAINS, WARMUP, MOST = 4, 500, 20
# Processor seconds of compiling and warming up beyond which a quarter of the draws has to do.
LONG = 60.0
# How far worths are drawn towards what they are, in standard deviations of a logarithm of the times.
DRAWN = 0.03
# The share of divergent transitions from which draws are not those of the posterior, however many they are.
DIVERGENT = 0.001


def worst(run: gb.Run, labels: str | None = None) -> float:
    """Effective draws of the number that has fewest; of sites of many, twenty are looked at. Components are
    put in the order of `labels`, the name of a site."""
    found = []
    drawn = {n: np.asarray(v, np.float64) for n, v in run.draws.items()}
    order = None if labels is None else np.argsort(drawn[labels], axis=-1)
    for name, values in drawn.items():
        if order is not None and values.shape == order.shape:
            values = np.take_along_axis(values, order, axis=-1)
        elif order is not None and run.model.sites[name].discrete:
            continue
        elif order is not None and values.ndim == 2:  # the share of the second of two
            values = np.where(order[..., 0] == 0, values, 1 - values)
        flat = values.reshape(*values.shape[:2], -1)
        for c in np.unique(np.linspace(0, flat.shape[2] - 1, MOST).astype(int)):
            if np.ptp(flat[:, :, c]):
                found.append(array_stats.ess(flat[:, :, c], chain_axis=0, draw_axis=1, method="bulk"))
    return float(np.nanmin(found))


def measured(model: gb.Model, text: str, labels: str | None, draws: int, seeds: int) -> dict[str, Any]:
    """Effective draws and processor seconds of runs under a schedule, means over seeds, and what compiling
    took beyond the same steps of a run."""
    began = time.process_time()
    model.sample(draws=50, warmup=WARMUP, chains=CHAINS, schedule=text)
    first = time.process_time() - began
    draws = draws if first < LONG else draws // 4
    effective, seconds, diverged = [], [], 0
    for seed in range(1, 1 + seeds):
        began = time.process_time()
        run = model.sample(draws=draws, warmup=WARMUP, chains=CHAINS, schedule=text, seed=seed)
        seconds.append(time.process_time() - began)
        effective.append(worst(run, labels))
        diverged += sum(run.snapshot().divergences)
    took = float(np.mean(seconds))
    compiled = max(0.0, first - took * (WARMUP + 50) / (WARMUP + draws))
    share = diverged / (CHAINS * draws * seeds)
    found = {"effective": float(np.mean(effective)), "seconds": took, "compiled": compiled}
    return {"draws": draws, **found, "diverged": share}


def run_all(names: list[str], draws: int, seeds: int, to: Path | None) -> None:
    """Run every schedule of the models, and append a line for each to a file, if one is given."""
    held = {json.loads(line)["model"] for line in to.open()} if to and to.exists() else set()
    # what any run loads and compiles, which would count for the schedule that is run first
    gb.model(lambda: numpyro.sample("x", dist.Normal(0.0, 1.0))).sample(draws=50, warmup=60, chains=CHAINS)
    for name in (n for n in names if n not in held):
        fn, args = CASES[name]()
        model = gb.model(fn, *args)
        began = time.process_time()
        schedule = model.schedule()
        planned = time.process_time() - began
        rows = []
        for c in (c for c in schedule.candidates if not c.refused):
            found = measured(model, c.text, LABELS.get(name), draws, seeds)
            tried = None if c.measured is None else float(c.measured)
            told = {"text": c.text, "work": float(c.work), "times": [*map(float, c.times)], "tried": tried}
            rows.append({"model": name, "planned": planned, "chosen": c.chosen, **told, **found})
        if to is not None:
            with to.open("a") as out:
                out.writelines(json.dumps(row) + "\n" for row in rows)
        print(table(rows, True), flush=True)


def tell_planned(names: list[str]) -> None:
    """What was weighed for models, and the processor seconds of analysing them and of choosing."""
    for name in names:
        fn, args = CASES[name]()
        began = time.process_time()
        model = gb.model(fn, *args)
        analysed = time.process_time()
        schedule = model.schedule()
        took = time.process_time() - analysed
        print(f"{name}: {schedule.text}; analysis {analysed - began:.2f} s, choice {took:.2f} s")
        print("".join(f"    {c}\n" for c in schedule.weighed), end="", flush=True)


def table(rows: list[dict[str, Any]], long: bool) -> str:
    """Rows of a table, a model each; below each, if `long`, a line for each of its schedules."""
    lines, regrets = [], []
    for name in dict.fromkeys(r["model"] for r in rows):
        mine = [r for r in rows if r["model"] == name]
        chosen = next(r for r in mine if r["chosen"])
        sound = [r for r in mine if r.get("diverged", 0.0) < DIVERGENT] or mine
        alone = {r["text"]: r["effective"] / r["seconds"] for r in mine}
        wholes = {r["text"]: _whole(r, r["planned"] if r is chosen else 0.0) for r in mine}
        best = max((r["text"] for r in sound), key=alone.__getitem__)
        regret = alone[chosen["text"]] / alone[best]
        whole = wholes[chosen["text"]] / max(wholes[r["text"]] for r in sound)
        regrets += [(regret, whole)] if len(mine) > 1 else []
        other = "the same" if best == chosen["text"] else f"`{best}`"
        lines.append(
            f"| {name} | `{chosen['text']}` | {other} | {len(mine)} | {alone[chosen['text']]:.0f} "
            f"| {alone[best]:.0f} | {regret:.2f} | {whole:.2f} | {chosen['planned']:.2f} |"
        )
        for r in mine if long else ():
            low, high = r["times"]
            times = f"{low:.1f}–{high:.0f}" if r["tried"] is None else f"{r['tried']:.1f} as tried"
            ran = CHAINS * r["draws"] / r["effective"]
            diverged = f"; {100 * r['diverged']:.1f} % diverged" if r.get("diverged") else ""
            each = r["seconds"] / (r["draws"] + WARMUP)
            took = f"compiling {r['compiled']:.1f} s{diverged}"
            lines.append(
                f"    {r['text']}: {alone[r['text']]:.0f}/s; {r['work'] / 1e3:.0f} thousand operations, "
                f"{each * 1e6:.0f} µs; time {times}, in the run {ran:.1f}; {took}"
            )
    for what, of in zip(("sampling", "whole runs"), np.array(regrets).T, strict=False):
        few = ", ".join(f"{(of < x).sum()} below {x}" for x in (0.9, 0.5))
        told = f"median {np.median(of):.2f}, worst {of.min():.2f}, {few}"
        lines.append(f"default against the best, {what}: {told}, of {len(of)} models")
    return "\n".join(lines)


def _whole(r: dict[str, Any], planned: float) -> float:
    """Effective draws per processor second from the call on: planning, compiling and the run."""
    return r["effective"] / (r["seconds"] + r["compiled"] + planned)


def fitted(rows: list[dict[str, Any]]) -> str:
    """What each part of a sweep, and of a program, is worth by the times that were measured, beside what is
    believed, and by what factor either is off."""
    sweeps, programs, own = [], [], []
    for name in dict.fromkeys(r["model"] for r in rows):
        fn, args = CASES[name]()
        promises = Promises(gb.model(fn, *args).execution, ())
        for r in (r for r in rows if r["model"] == name):
            spec = parse_schedule(r["text"])
            found = promises.counted(spec)
            sweeps.append([found.parts.get(kind, 0.0) for kind in WORTH])
            programs.append([*programs_of(spec, found).values()])
            own.append(name)
    took = np.array([r["seconds"] / (r["draws"] + WARMUP) for r in rows])
    compiled = np.array([r["compiled"] for r in rows])
    known = compiled > 1  # else the same program stood ready
    lines = _fit(WORTH, np.array(sweeps), took, np.array(own))
    return "\n".join(
        lines + _fit(COMPILING, np.array(programs)[known], compiled[known], np.array(own)[known])
    )


def _fit(now: Mapping[str, float], parts: np.ndarray, seconds: np.ndarray, own: np.ndarray) -> list[str]:
    start, times = np.log([*now.values()]), 1e9 * seconds

    def off(logs: np.ndarray) -> np.ndarray:
        return np.log(parts @ np.exp(logs) / times)

    def drawn(logs: np.ndarray) -> np.ndarray:
        return np.concatenate([off(logs), DRAWN * len(times) ** 0.5 * (logs - start)])

    found = least_squares(drawn, start).x
    lines = [f"{k}: {v:.3g}, fitted {np.exp(x):.3g}" for (k, v), x in zip(now.items(), found, strict=True)]
    for what, logs in (("as it is", start), ("fitted", found)):
        within = [off(logs)[own == n] - off(logs)[own == n].mean() for n in {*own}]
        apart = np.exp(np.std(np.concatenate(within)))
        lines.append(f"{what}: off by a factor of {np.exp(off(logs).std()):.2f}, in a model {apart:.2f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(CASES)}")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="the models of plain_models.py")
    parser.add_argument("--planned", action="store_true", help="tell what was weighed, and run nothing")
    parser.add_argument("--to", type=Path, help="a file that keeps what was run")
    parser.add_argument("--table", type=Path, help="such a file, of which to print the table")
    parser.add_argument(
        "--fit", type=Path, help="such a file, to which to fit what the parts of a sweep take"
    )
    parser.add_argument("--long", action="store_true", help="each schedule below its model")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    names = chosen.models or [*(PLAIN if chosen.plain else GRID)]
    if chosen.table is not None:
        print(table([json.loads(line) for line in chosen.table.open()], chosen.long))
    elif chosen.fit is not None:
        print(fitted([json.loads(line) for line in chosen.fit.open()]))
    elif chosen.planned:
        tell_planned(names)
    else:
        run_all(names, chosen.draws, chosen.seeds, chosen.to)


if __name__ == "__main__":
    main()
