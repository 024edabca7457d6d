"""The defaults against NumPyro's NUTS, as written and in the better of two forms, and against nutpie.

    python benchmarks/default_sampler.py --out FOLDER --seeds 10 --workers 14 --seconds 3000
    python benchmarks/default_sampler.py --out FOLDER --seeds 2 --first 5 --models "eight schools,HMM"
    python benchmarks/default_sampler.py --table FOLDER

Models and data: `default_models.py`. Ours is `model.sample(seed=seed)`, with the warm-up of `--warmup` if
that is given; *interleaved* is ours with centred and non-centred trajectories in turn, where the model has a
hierarchy. NumPyro runs 1000 + 1000 steps in 4 chains on the model as written and, where it has a
hierarchy, with that non-centred (`LocScaleReparam(0)`). nutpie (`pip install nutpie`; left out where it is
not there) runs its defaults (400 + 1000 steps, diagonal metric) in 4 chains on the potential of the same
forms. Models with discrete sites: the others run the form with these summed out.

Every run is a process of its own on one core, `--workers` of them side by side, the first seed of all first.
What has ended is a line of `FOLDER/runs.jsonl` and is not run again; what failed or was cut off after
`--seconds` stands in `failed.jsonl`, and below the table. No network is needed. Radon (two models) and German
credit (three) need the tables of `--data`, by default `../shared/data` or `shared/data` beside the
repository's root where there is one; without them there are radon-like and credit-like models instead.

Effective draws are the lowest bulk ESS of all continuous scalars of the model as written, over 4000 draws;
gradients are leapfrog steps of all chains, those of warm-up included, and every exact update of a block in a
chain counts as one. *To the goal*: gradients until every R-hat is below 1.01 and every ESS above 400, looked
at after 50, 100, 150, … draws. The ratios are medians over the seeds, ours over the better form's, of ESS per
gradient and per processor second (warm-up counted, analysis and compilation not). Seconds of processes that
share a machine's caches are worse than those of one alone, on either side. Losses stand in the table.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from default_models import cases
from default_sides import SIDES, nutpie, samplers
from default_table import FAILED, RUNS, held, printed

ROOT = Path(__file__).resolve().parents[1]
_SIDE = "one run, in this process: model, sampler and seed as JSON"


class Task(NamedTuple):
    """A run: which model, which sampler, which seed."""

    model: str
    name: str
    seed: int


class Going(NamedTuple):
    """A process, its core, and where it writes."""

    task: Task
    process: subprocess.Popen
    core: int
    said: IO[str]


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """What there is to run, seed by seed; not what has been run."""
    wanted = [n.strip() for n in options.models.split(";" if ";" in options.models else ",") if n.strip()]
    known = {
        model: samplers(case, tuple(options.sides.split(",")), None)
        for model, case in cases(options.data).items()
        if not wanted or model in wanted
    }
    before = held(options.out)
    for seed in range(options.first, options.first + options.seeds):
        for model, sides in known.items():
            for name in sides:
                if seed not in before.get(model, {}).get(name, {}):
                    yield Task(model, name, seed)


def begin(task: Task, core: int, options: argparse.Namespace, cache: str) -> Going:
    """A process that runs it on this core alone."""
    said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed when it has been read)
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    command += ["--warmup", options.warmup] if options.warmup else []
    command += ["--data", str(options.data)] if options.data else []
    kept = {"GIBBSITE_CACHE": cache, "JAX_COMPILATION_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # a process that begins now inherits it, and all threads of its libraries
    try:
        process = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **kept})
    finally:
        os.sched_setaffinity(0, ours)
    return Going(task, process, core, said)


def written(going: Going, folder: Path, why: str = "") -> str:
    """Add what a process came to to the folder; in a word."""
    going.said.seek(0)
    lines = [line for line in going.said.read().splitlines() if line.strip()] or ["(nothing said)"]
    going.said.close()
    good = not why and going.process.returncode == 0
    last = json.loads(lines[-1]) if good else why or lines[-1]
    with (folder / (RUNS if good else FAILED)).open("a") as file:
        file.write(json.dumps([*going.task, last]) + "\n")
    return "done" if good else str(last)


def run_all(left: list[Task], options: argparse.Namespace) -> None:
    """Processes side by side, until all have ended or the time is over."""
    free = list(islice(cycle(sorted(os.sched_getaffinity(0))), options.workers))
    until = time.monotonic() + options.seconds
    running: list[Going] = []
    cache = tempfile.mkdtemp()
    try:
        while (left or running) and time.monotonic() < until:
            while left and free:
                running.append(begin(left.pop(0), free.pop(0), options, cache))
            for going in [g for g in running if g.process.poll() is not None]:
                running.remove(going)
                free.append(going.core)
                word = written(going, options.out)
                print(
                    f"{len(left) + len(running):4} left: {', '.join(map(str, going.task))}: {word}",
                    flush=True,
                )
            time.sleep(0.05)
    finally:
        for going in running:
            going.process.kill()
            going.process.wait()
            written(going, options.out, f"cut off after {options.seconds} s of all")
        shutil.rmtree(cache, ignore_errors=True)
    if left:
        print(f"{len(left)} runs had not begun")


def tables() -> Path | None:
    """Where the tables are by default."""
    places = (ROOT.parent / "shared" / "data", ROOT / "shared" / "data")
    return next((p for p in places if (p / "radon_all.json").exists()), None)


def one(options: argparse.Namespace) -> list[Any]:
    """The run of `--task`."""
    task = Task(*json.loads(options.task))
    case = cases(options.data)[task.model]
    warmup = int(options.warmup) if options.warmup and options.warmup.isdigit() else options.warmup
    return list(samplers(case, SIDES, warmup)[task.name](task.seed))


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument(
        "--out", type=Path, help="folder for the lines of runs; what is there is not run again"
    )
    parser.add_argument("--data", type=Path, default=tables(), help="folder with the tables")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side, one core each")
    parser.add_argument("--seconds", type=float, default=36000.0, help="then what still runs is cut off")
    parser.add_argument("--warmup", help="of our side: steps, or auto; default: the default")
    parser.add_argument("--models", default="", help="names, separated by semicolons or commas; default: all")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--table", type=Path, help="run nothing: print what this folder holds")
    parser.add_argument("--task", help=_SIDE)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(one(options)))
        return
    if options.table is None:
        if options.out is None:
            options.out = Path(tempfile.mkdtemp())
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / FAILED).unlink(missing_ok=True)
        if nutpie is None and "nutpie" in options.sides:
            print("nutpie cannot be imported: left out")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended: what still runs is cut off"))
        with suppress(KeyboardInterrupt):
            run_all(list(tasks(options)), options)
    print(printed(options.table or options.out))


if __name__ == "__main__":
    main()
