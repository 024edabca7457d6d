"""Every script of this folder, once, at its least size: does it still run? Its figures mean nothing.

    python benchmarks/all_small.py [--data FOLDER] [NAME ...]

A line per script with its seconds, and what it printed last where it failed; the exit status is the number of
failures. FOLDER is the tables' folder of `nuts_numpyro.py`; without it, what needs it is left out and said.
"""

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent

# The arguments that make each script short; `{data}` is the tables' folder.
ARGUMENTS = {
    "augur_hgmm": "2,2,100 --only sweep",
    "augur_hlr": "--data {data} --rounds 1",
    "augur_lda": "5",
    "autogibbs_table": "25",
    "beside_runs": "--runs 4 --draws 100",
    "check_plots": "--still --only decision",
    "checked": "--seconds 5 --models regression",
    "classics": "dyes --draws 100",
    "clusters": "--small",
    "dashboard_cost": "1 400",
    "dashboard_stream": "4000 2",
    "variational": "--data {data} --models 'eight schools' --seeds 1",
    "default_sampler": "--seeds 1 --models 'eight schools'",
    "devices": "--small --platforms cpu",
    "elimination": "--small",
    "finite_vs_numpyro": "100",
    "few_effects": "--seeds 1 --small",
    "first_draw": "--models schools",
    "first_plot": "--models schools",
    "flat_cost": "",
    "graph_paint": "",
    "kernel_ends": "--times 1 --busy 0",
    "lai": "--seeds 1 --draws 50 --models 'batters of 1970' --sides default 'NumPyro, by hand'",
    "map_precision": "gmm",
    "marginal": "--seeds 1 --draws 200 --models '25 pumps'",
    "modes": "--seeds 1 --draws 100 --targets banana",
    "nuts_numpyro": "--rounds 1",
    "particle_gibbs": "--models GMM --sizes 10 --seeds 1 --draws 50",
    "precision": "--small",
    "exact_loo": "masked",
    "predicted": "-k regression",
    "predicting": "--rows 50 --draws 100 --datasets 4 --rounds 1",
    "hard": "camel --draws 50",
    "regret": "pumps --draws 100",
    "steady_state": "--draws 200 --seeds 1 --models 'eight schools'",
    "special_cases": "",
    "store_cost": "",
    "structures": "coal 200",
    "sweep_handwritten": "gmm",
    "tape_overhead": "200",
    "varying_slopes": "--draws 50 --groups 12",
    "two_kernels": "--seeds 1 --only curved",
}
PARTS = {
    "timing",
    "default_models",
    "default_sides",
    "default_table",
    "modes_of_data",
    "originals",
    "originals_data",
    "originals_jags",
    "originals_peers",
    "originals_pymc",
    "originals_stan",
    "plain_models",
    "regret_models",
    "slicstan",
    "slicstan_models",
    "slicstan_pymc",
    Path(__file__).stem,
}  # used by the others, or of other people's files


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="of scripts; default: all")
    parser.add_argument("--data", type=Path)
    chosen = parser.parse_args()
    scripts = {path.stem for path in HERE.glob("*.py")} - PARTS
    if scripts != set(ARGUMENTS):
        parser.error(f"no arguments are known for {sorted(scripts ^ set(ARGUMENTS))}")
    failed = 0
    for name in chosen.names or sorted(scripts):
        if "{data}" in ARGUMENTS[name] and not chosen.data:
            print(f"{name:20} left out: needs --data", flush=True)
            continue
        began = time.monotonic()
        given = shlex.split(ARGUMENTS[name].format(data=chosen.data))
        command = [sys.executable, str(HERE / f"{name}.py"), *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        failed += done.returncode != 0
        print(
            f"{name:20} {'ok' if not done.returncode else 'FAILED'} {time.monotonic() - began:6.0f} s",
            flush=True,
        )
        if done.returncode:
            print("    " + "\n    ".join((done.stdout + done.stderr).splitlines()[-12:]), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
