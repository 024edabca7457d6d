"""Every schedule that was weighed, run to the end: is the default beaten by what we could have offered?

    python benchmarks/regret.py [MODEL ...] [--draws 2000] [--seeds 1]

Of each model of `regret_models.py`, every candidate of `model.schedule().candidates` is run with four chains:
once to compile, then with 500 steps of warm-up and the draws, in processor seconds of all threads. Effective
draws (bulk) are those of the worst number of any latent. A row holds the default against the best of them,
per processor second and per counted operation, and tells what its planning took; the lines beneath hold for
each schedule the counted work of a sweep against its time, and the integrated autocorrelation time that was
predicted or tried against that of the run.
"""

import argparse
import time
import warnings

import gibbsite as gb
import numpy as np
from arviz_stats.base import array_stats
from regret_models import CASES, cases

CHAINS, WARMUP, MOST = 4, 500, 20


def worst(run: gb.Run) -> float:
    """Effective draws of the number that has fewest; of sites of many, twenty are looked at."""
    found = []
    for values in run.draws.values():
        flat = np.asarray(values, np.float64).reshape(*values.shape[:2], -1)
        columns = np.unique(np.linspace(0, flat.shape[2] - 1, MOST).astype(int))
        for c in columns:
            found.append(array_stats.ess(flat[:, :, c], chain_axis=0, draw_axis=1, method="bulk"))
    return float(np.nanmin(found))


def measured(model: gb.Model, text: str, draws: int, seeds: int) -> tuple[float, float]:
    """Effective draws and processor seconds of a run under a schedule, means over seeds."""
    model.sample(draws=50, warmup=WARMUP, chains=CHAINS, schedule=text)
    effective, seconds = [], []
    for seed in range(1, 1 + seeds):
        began = time.process_time()
        run = model.sample(draws=draws, warmup=WARMUP, chains=CHAINS, schedule=text, seed=seed)
        seconds.append(time.process_time() - began)
        effective.append(worst(run))
    return float(np.mean(effective)), float(np.mean(seconds))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(CASES)}")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    regrets: list[tuple[float, float]] = []
    for name, (fn, args) in cases(chosen.models):
        model = gb.model(fn, *args)
        began = time.process_time()
        schedule = model.schedule()
        planned = time.process_time() - began
        rows = []
        for c in (c for c in schedule.candidates if not c.refused):
            effective, seconds = measured(model, c.text, chosen.draws, chosen.seeds)
            rows.append((c, effective, seconds))
        per_second = [effective / seconds for _, effective, seconds in rows]
        per_work = [effective / c.work for c, effective, _ in rows]
        regret = per_second[0] / max(per_second), per_work[0] / max(per_work)
        regrets += [regret] if len(rows) > 1 else []
        print(
            f"| {name} | {schedule.text} | {len(rows)} | {rows[0][1]:.0f} | {per_second[0]:.0f} "
            f"| {regret[0]:.2f} | {'–' if np.isnan(regret[1]) else f'{regret[1]:.2f}'} | {planned:.1f} |",
            flush=True,
        )
        for (c, effective, seconds), speed in zip(rows, per_second, strict=True):
            steps = chosen.draws + WARMUP
            times = (
                f"{c.times[0]:.1f}–{c.times[1]:.0f}" if c.measured is None else f"{c.measured:.1f} as tried"
            )
            print(
                f"    {c.text}: {speed:.0f}/s; {c.work / 1e3:.0f} thousand operations a sweep, "
                f"{seconds / steps * 1e6:.0f} µs; time {times}, "
                f"in the run {CHAINS * chosen.draws / effective:.1f}",
                flush=True,
            )
    if regrets:
        for what, values in zip(("processor second", "operation"), np.array(regrets).T, strict=True):
            told = f"median {np.median(values):.2f}, worst {values.min():.2f}"
            print(f"default against the best, effective draws per {what}: {told}, of {len(values)} models")


if __name__ == "__main__":
    main()
