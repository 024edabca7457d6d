"""`python -m gibbsite demo mixture --report report.html`: a demo from the command line, no browser needed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gibbsite.errors import GibbsiteError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gibbsite", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser("demo", help="run a demo on real data")
    demo.add_argument("name", choices=["mixture", "changepoint"])
    demo.add_argument("--report", type=Path, metavar="FILE", help="write graph, plots and summary as HTML")
    demo.add_argument("--draws", "-n", type=int, help="draws to keep per chain")
    demo.add_argument("--warmup", "-w", type=int, help="warm-up steps per chain")
    demo.add_argument("--chains", "-c", type=int, default=4)
    demo.add_argument("--seed", "-s", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        return run_demo(options)
    except GibbsiteError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


def run_demo(options: argparse.Namespace) -> int:
    """Sample from a demo's model with progress on the terminal; write the report."""
    from gibbsite import model as analyse
    from gibbsite.demo import DEMOS
    from gibbsite.progress import Lines
    from gibbsite.sampling import wait_interruptibly

    demo = DEMOS[options.name]
    model = analyse(demo.fn, **demo.arguments())
    print(f"{model}\n\n{model.graph}\n\n{model.schedule()}\n")
    run = model.start(
        draws=demo.draws if options.draws is None else options.draws,
        warmup=demo.warmup if options.warmup is None else options.warmup,
        chains=options.chains,
        seed=options.seed,
    )
    lines = Lines()
    lines(run)
    forget = run.subscribe(lines)
    try:
        wait_interruptibly(run)
    finally:
        forget()
    if options.report is not None:
        run.report(options.report)
        print(f"\nreport: {options.report.resolve()}")
    return 0 if run.status == "finished" else 1


if __name__ == "__main__":
    sys.exit(main())
