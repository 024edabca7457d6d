"""Gibbsite from the command line, no browser needed.

`demo mixture --report report.html` runs a demo; `sample FILE.py:MODEL --store PATH --resume auto` samples
where there is no notebook, and goes on where it was cut off; `watch PATH` shows a store while another
process writes to it.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gibbsite.errors import GibbsiteError

_OPTIONS = (
    "draws",
    "warmup",
    "chains",
    "seed",
    "schedule",
    "device",
    "store",
    "resume",
    "thin",
    "keep",
    "shard",
    "host",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    called = "gibbsite" if Path(sys.argv[0]).stem == "gibbsite" else "python -m gibbsite"
    parser = argparse.ArgumentParser(
        prog=called, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser("demo", help="run a demo on real data")
    demo.set_defaults(run=run_demo)
    demo.add_argument("name", choices=["mixture", "changepoint"], metavar="mixture|changepoint")
    _add_counts(demo)
    sample = commands.add_parser("sample", help="sample from a model into a store")
    sample.set_defaults(run=run_sample)
    sample.add_argument(
        "model", metavar="MODULE:NAME", help="a model or a NumPyro function; also FILE.py:NAME"
    )
    sample.add_argument("--store", required=True, metavar="PATH", help="folder or URL for draws and state")
    sample.add_argument(
        "--resume", choices=["auto"], help="auto: go on with the run in PATH, if one has begun"
    )
    sample.add_argument(
        "--data",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=".npz or .csv: arguments by name",
    )
    sample.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more argument")
    _add_counts(sample)
    sample.add_argument("--schedule", "-k", help="kernels by site")
    sample.add_argument("--device", "-d", help="where chains run: cpu, gpu, …")
    sample.add_argument("--thin", type=int, help="keep one draw of so many sweeps")
    sample.add_argument("--keep", help="sites whose draws are kept: mu,w")
    sample.add_argument("--keep-warmup", action="store_true", help="keep the draws of warm-up too")
    sample.add_argument("--shard", help="a plate whose data all devices share, PLATE:PARTS of them, or auto")
    sample.add_argument("--host", metavar="K/N", help="the share of chains of host K, from 0, of N; or auto")
    sample.add_argument("--until", "-u", help="go on until this holds: 'ess>400, rhat<1.01'")
    sample.add_argument("--max-draws", type=int, help="with --until: the most draws per chain")
    sample.add_argument(
        "--every", type=float, default=60.0, metavar="SECONDS", help="between lines of the log"
    )
    watch = commands.add_parser("watch", help="show a store, from another process")
    watch.set_defaults(run=run_watch)
    watch.add_argument("store", metavar="PATH")
    watch.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="between two looks")
    watch.add_argument("--port", type=int, default=0, help="of the page, on this machine alone (a free one)")
    watch.add_argument(
        "--html", type=Path, metavar="FILE", help="write the page to a file until the run ends"
    )
    watch.add_argument("--text", action="store_true", help="print it once, in words")
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except GibbsiteError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


class _Version(argparse.Action):
    """Ours, and what a run depends on."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from gibbsite.storage.checkpoint import versions

        print(", ".join(f"{name} {version}" for name, version in versions().items()))
        parser.exit()


def _steps_or_auto(text: str) -> int | str:
    return "auto" if text == "auto" else int(text)


def _add_counts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", type=Path, metavar="FILE", help="write graph, plots and summary as HTML")
    parser.add_argument("--draws", "-n", type=int, help="draws to keep per chain")
    parser.add_argument("--warmup", "-w", type=_steps_or_auto, help="warm-up steps per chain, or auto")
    parser.add_argument("--chains", "-c", type=int, default=4)
    parser.add_argument("--seed", "-s", type=int, default=0)


def run_sample(options: argparse.Namespace) -> int:
    """Sample into a store, with a line of the log now and then. SIGTERM and an interrupt end the run at the
    next chunk, with all draws on disk; the exit status is then 143 or 130, as a shell has it."""
    from gibbsite.batch import made_model
    from gibbsite.progress import Lines
    from gibbsite.sampling.start import foretold

    model = made_model(options.model, options.data, options.set)
    asked = {n: getattr(options, n) for n in (*_OPTIONS, "until", "max_draws")}
    asked |= {"keep_warmup": options.keep_warmup or None}
    asked = {n: v for n, v in asked.items() if v is not None}
    lines = Lines(seconds=options.every, stamped=True)

    def begin(run: Any) -> None:
        lines.say(f"{model!r} · {run.schedule_text} · {options.store}")
        if words := foretold(run):
            lines.say(words)
        lines(run)
        run.subscribe(lines)

    before = signal.signal(signal.SIGTERM, _leave)
    try:
        run = model.sample(**asked, on_start=begin)
    finally:
        signal.signal(signal.SIGTERM, before)
    if options.report is not None:
        run.report(options.report)
    return {"finished": 0, "stopped": 128 + signal.SIGINT}.get(run.status, 1)


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def run_watch(options: argparse.Namespace) -> int:
    """Show a store until it is interrupted, or until the run ends where a file is written."""
    from gibbsite.watching import Watch, served, write_until_ended

    watch = Watch(options.store, options.every)
    if options.text:
        print(watch.words())
        return 0
    with suppress(KeyboardInterrupt):  # the way to end it
        if options.html is not None:
            write_until_ended(watch, options.html)
        else:
            server, address = served(watch, options.port)
            print(f"{options.store}: {address} (■ with Ctrl-C; the run does not notice)", flush=True)
            with server:
                server.serve_forever()
    return 0


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
