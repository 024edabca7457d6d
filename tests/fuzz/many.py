"""Many random models over several processes: `python tests/fuzz/many.py --models 10000 --workers 12`.

One line per model, a summary of what was found at the end; exit status 1 where a claim failed. Of every
hundredth model a short run is made besides. `--shrink SEED` looks for the shortest program that fails as a
model of that seed does.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent))

BLOCK = 100
"""Models of one seed of Hypothesis's."""
RUN_EVERY = 100
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "JAX_PLATFORMS": "cpu",
}


def asked(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no model is begun after these")
    parser.add_argument("--shrink", type=int, help="the seed of a line that failed")
    parser.add_argument("--seeds", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def kind_of(error: BaseException) -> str:
    """What tells one failure from another: where it was raised, and its class."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "gibbsite" in f.filename or "claims" in f.filename]
    at = (ours or frames)[-1]
    return f"{type(error).__name__} in {Path(at.filename).name}:{at.name}"


def one(program: Any, with_run: bool) -> dict[str, Any]:
    """What came of one model."""
    from helpers.claims.models import check
    from helpers.claims.runs import check_run

    start = time.process_time()
    out: dict[str, Any] = {}
    try:
        out["found"] = check(program)
        if with_run:
            out["run"] = check_run(program)
    except Exception as error:
        out.update(failed=kind_of(error), message=str(error)[:1500], program=repr(program))
    return {**out, "seconds": round(time.process_time() - start, 2)}


def look(seeds: list[int], until: float) -> None:
    """A worker: the models of some seeds, each told as a line of JSON."""
    from helpers.models.grammar import CALM, programs
    from hypothesis import Phase, given, seed, settings

    seen: set[str] = set()

    def block(number: int) -> None:
        @seed(number)
        @settings(max_examples=BLOCK, phases=(Phase.generate,), **CALM)
        @given(programs())
        def each(program: Any) -> None:
            if repr(program) not in seen and time.time() < until:
                seen.add(repr(program))
                line = one(program, len(seen) % RUN_EVERY == 1)
                sys.stdout.write(json.dumps({"seed": number, **line}) + "\n")
                sys.stdout.flush()

        each()

    for number in seeds:
        if time.time() < until:
            block(number)


def shrink(number: int) -> None:
    """The shortest program of a seed that fails."""
    from helpers.claims.models import check
    from helpers.models.grammar import CALM, FIND_AND_SHRINK, programs
    from hypothesis import given, seed, settings

    @seed(number)
    @settings(max_examples=BLOCK, phases=FIND_AND_SHRINK, **CALM)
    @given(programs())
    def each(program: Any) -> None:
        check(program)

    each()


def told(line: dict[str, Any]) -> str:
    """A model's line."""
    head = f"{line['seed']:6d} {line['seconds']:6.2f} s "
    if "failed" in line:
        return f"{head} FAILED {line['failed']}\n{line['message']}\n{line['program']}"
    return head + line["found"] + (f"; run: {line['run'].splitlines()[0]}" if "run" in line else "")


def main(options: argparse.Namespace) -> int:
    """Start the workers, print what they tell, and sum up."""
    start, lines = time.time(), []
    seeds = range(options.seed, options.seed + -(-options.models // BLOCK))
    until = start + options.seconds
    env = {**os.environ, **ONE_THREAD}

    def follow(pipe: Any) -> None:
        for text in pipe:
            line = json.loads(text)
            lines.append(line)
            print(told(line), flush=True)

    workers, threads = [], []
    for k in range(options.workers):
        mine = ",".join(map(str, seeds[k :: options.workers]))
        if not mine:
            continue
        command = [sys.executable, str(HERE), "--seeds", mine, "--seconds", str(until)]
        workers.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        threads.append(threading.Thread(target=follow, args=(workers[-1].stdout,)))
        threads[-1].start()
    for worker, thread in zip(workers, threads, strict=True):
        try:
            worker.wait(max(until + 60 - time.time(), 1) if until < float("inf") else None)
        except subprocess.TimeoutExpired:
            worker.kill()
            print("a model took more than a minute beyond the end, and was given up")
        thread.join()
    died = [w.returncode for w in workers if w.returncode not in (0, -9)]
    return summed_up(lines, time.time() - start, died)


def summed_up(lines: list[dict[str, Any]], seconds: float, died: list[int]) -> int:
    """Print the figures; 1 where something failed."""
    failed = [x for x in lines if "failed" in x]
    kinds = collections.Counter(k for x in lines for k in x.get("found", "").split())
    runs = collections.Counter(x["run"].splitlines()[0] for x in lines if "run" in x)
    cost = sum(x["seconds"] for x in lines)
    print(f"\n{len(lines)} models in {seconds:.0f} s, {cost / max(len(lines), 1):.2f} processor seconds each")
    print("conditionals:", dict(kinds.most_common()))
    print("runs:", dict(runs.most_common()))
    print("failed:", len(failed), dict(collections.Counter(x["failed"] for x in failed).most_common()))
    for what in dict.fromkeys(x["failed"] for x in failed):
        shortest = min((x for x in failed if x["failed"] == what), key=lambda x: len(x["program"]))
        print(f"\n=== {what}: the shortest is of seed {shortest['seed']}\n{shortest['message']}")
        print(shortest["program"])
    if died:
        print("workers that died:", died)
    return int(bool(failed or died or not lines))


if __name__ == "__main__":
    given_options = asked()
    if given_options.shrink is not None:
        shrink(given_options.shrink)
    elif given_options.seeds:
        look([int(s) for s in given_options.seeds.split(",")], given_options.seconds)
    else:
        sys.exit(main(given_options))
