"""Programs that other people wrote, as they wrote them: accepted, scheduled, run, held against references.

    python benchmarks/originals.py FOLDER [FOLDER …] [--draws 250] [--seconds 60] [--out docs/gallery.md]
    python benchmarks/originals.py FOLDER --only NAME --draws 0        # accepted and scheduled alone
    python benchmarks/originals.py FOLDER --only NAME --program "366 model" --draws 1000 --chains 4 --cures 3

A folder holds Python files (notebooks as their cells' code), or entries of posteriordb: a Stan program, data
and published moments each, whose models `originals_stan.py` has from their mathematics. Nothing of it is
copied. Tables that lie in a folder `data` of any of these sources are read there; data that are only on the
internet are simulated in their shapes (`originals_data.py`). A file's top-level statements are taken from its
syntax tree and run one by one; whatever it hands to `MCMC` or `SVI` is lifted with the arguments that it is
run on, and sampled by the defaults here instead. What cannot be run (packages, data) is named.
One process per file.
"""

import argparse
import ast
import collections
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STATEMENT_SECONDS = 40
"""Of processor: a figure of the clock would cut more on a busier machine."""
CHORALES = ["--hidden-dim", "4", "--truncate", "10", "--num-sequences", "10"]
ARGUMENTS = {
    "annotation.py": [["--model", name] for name in ("mn", "ds", "mace", "hds", "id", "lre")],
    "gaussian_shells.py": [[], ["--enum"]],
    "hmm_enum.py": [["--model", name, *CHORALES] for name in ("1", "2", "3", "4", "6")],
}
"""Programs of which the command line chooses: each choice is one program more."""
MCSE, SPREAD = 4.0, 0.15
"""Means within so many standard errors (of both), and standard deviations within this share, agree."""


@dataclass
class Lifted:
    """A model function with the arguments it was run on, and where it stands."""

    name: str
    line: int
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    means: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """Published mean, standard error and standard deviation by element."""


class Late(BaseException):
    """A statement that takes too long."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `Late` after so many seconds of this process on processors, however busy the machine is."""

    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Recorder:
    """Stands where NumPyro's `MCMC` and `SVI` stand, and keeps what they are run on."""

    def __init__(self) -> None:
        self.found: list[Lifted] = []
        self.line, self.names = 0, collections.Counter[str]()
        self._seen: set[Any] = set()

    def keep(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One program more, unless it is one of those found."""
        import jax

        read = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or ()]
        if any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves((args, kwargs, read))):
            return  # a fit inside of `vmap` or `lax.map`: its data are no numbers
        shapes = jax.tree.map(lambda a: getattr(a, "shape", a), (args, kwargs))
        key = (id(getattr(fn, "__code__", fn)), str(shapes))
        if key in self._seen:
            return
        self._seen.add(key)
        base = getattr(fn, "__name__", type(fn).__name__)
        self.names[base] += 1
        name = base if self.names[base] == 1 else f"{base} {self.names[base]}"
        kwargs = {n: v for n, v in kwargs.items() if n not in ("init_params", "extra_fields")}
        self.found.append(Lifted(name, self.line, fn, args, kwargs))

    def install(self) -> None:
        """Take the places of NumPyro's classes."""
        import jax
        import numpyro
        import numpyro.infer as infer
        from numpyro.infer import mcmc, svi

        recorder = self
        numpyro.set_platform = lambda *_: None

        class MCMC:
            def __init__(self, sampler: Any, *_: Any, **__: Any):
                self.sampler, self.drawn = sampler, None

            def run(self, rng_key: Any, *args: Any, **kwargs: Any) -> None:
                fn = getattr(self.sampler, "model", None) or getattr(self.sampler, "_model", None)
                inner = getattr(self.sampler, "inner_kernel", None)
                fn = fn if inner is None else inner.model
                if fn is None:
                    return  # a density of its own, no model
                recorder.keep(fn, args, kwargs)
                kept = {n: v for n, v in kwargs.items() if n not in ("init_params", "extra_fields")}
                self.drawn = infer.Predictive(fn, num_samples=20)(jax.random.key(0), *args, **kept)

            warmup = run

            def get_samples(self, *_: Any, **__: Any) -> Any:
                return self.drawn

            def print_summary(self, *_: Any, **__: Any) -> None:
                """Nothing to say."""

        class SVI:
            def __init__(self, model: Any, guide: Any, optim: Any, loss: Any, **static: Any):
                self.model, self.static = model, static

            def run(self, rng_key: Any, steps: int, *args: Any, **kwargs: Any) -> Any:
                own = {n: v for n, v in kwargs.items() if n not in ("progress_bar", "init_state")}
                recorder.keep(self.model, args, {**self.static, **own})
                raise RuntimeError("nothing is optimised here")

            def init(self, rng_key: Any, *args: Any, **kwargs: Any) -> Any:
                return self.run(rng_key, 0, *args, **kwargs)

        def initialize_model(
            key: Any, model: Any, *, model_args: Any = (), model_kwargs: Any = None, **_: Any
        ) -> Any:
            recorder.keep(model, model_args, model_kwargs or {})
            raise RuntimeError("nothing is started here")

        stand_ins = {"MCMC": MCMC, "SVI": SVI, "initialize_model": initialize_model}
        for module in (infer, infer.util, mcmc, svi):
            for name, stand_in in stand_ins.items():
                if hasattr(module, name):
                    setattr(module, name, stand_in)


def lifted(path: Path, data: list[Path]) -> Iterator[Lifted | str]:
    """The programs of a file as they are come to, and in words what is absent; tables are in `data`."""
    import socket
    import urllib.request

    import matplotlib

    matplotlib.use("Agg")
    socket.setdefaulttimeout(3)

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError("data on the internet")

    urllib.request.urlretrieve = urllib.request.urlopen = refused  # type: ignore[assignment]
    try:
        import pandas as pd

        read = pd.read_csv

        def from_folder(source: Any, *args: Any, **kwargs: Any) -> Any:
            text = str(source)
            near = next((p for d in data if (p := d / Path(text).name).exists()), None)
            if near is not None and not Path(text).exists():
                return read(near, *args, **kwargs)
            if "://" in text:
                return TABLES.get(Path(text).name, refused)()
            return read(source, *args, **kwargs)

        pd.read_csv = from_folder  # type: ignore[assignment]
        from numpyro.examples import datasets
        from originals_data import TABLES, load_dataset

        datasets.load_dataset = load_dataset
    except ImportError:
        pass
    recorder = Recorder()
    recorder.install()
    lines = [_plain(x) for x in path.read_text().splitlines()]
    tree, absent, told = ast.parse("\n".join(lines)), [], 0
    space: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    sys.path.insert(0, str(path.parent))
    flat = [
        (given, s)
        for top in tree.body
        for given in (ARGUMENTS.get(path.name, [[]]) if _is_main(top) else [[]])
        for s in (top.body if _is_main(top) else [top])
    ]
    import linecache

    linecache.cache[str(path)] = (0, None, [f"{x}\n" for x in lines], str(path))
    for given, statement in flat:
        if isinstance(statement, ast.Assert):
            continue
        sys.argv = [path.name, *given]
        recorder.line = statement.lineno
        module = ast.Module([statement], [])
        try:
            with at_most(STATEMENT_SECONDS), redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(module, str(path), "exec"), space)
        except ModuleNotFoundError as error:
            absent.append(f"package {error.name}")
        except Late:
            absent.append(f"line {statement.lineno}: longer than {STATEMENT_SECONDS} processor seconds")
        except BaseException as error:
            if "internet" in str(error) or isinstance(error, FileNotFoundError | OSError):
                absent.append(f"data (line {statement.lineno})")
            # what follows a fit fails where the fit was lifted instead: the models after it are what counts
        yield from recorder.found[told:]
        told = len(recorder.found)
    yield from dict.fromkeys(absent)


def _plain(line: str) -> str:
    """A line of a cell without what only notebooks know."""
    code = line.lstrip()
    return line[: len(line) - len(code)] + "pass" if re.match(r"!|%%?[a-z]", code) else line


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test)


def published(entry: Path) -> Iterator[Lifted | str]:
    """The program of an entry of posteriordb."""
    from originals_stan import MODELS

    with zipfile.ZipFile(entry / "data.json.zip") as packed:
        data = json.loads(packed.read(packed.namelist()[0]))
    (stan,) = entry.glob("*.stan")
    if stan.stem not in MODELS:
        yield f"no model for {stan.stem}"
        return
    mean, square = (json.loads((entry / f"mean_{what}value.json").read_text()) for what in ("", "squared_"))
    means = {}
    squares = dict(zip(square["names"], square["mean_squared_value"], strict=True))
    for name, m, e in zip(mean["names"], mean["mean_value"], mean["mcse_mean"], strict=True):
        means[name] = (m, e, max(squares[name] - m**2, 0.0) ** 0.5)
    fn, arguments = MODELS[stan.stem](data)
    yield Lifted(entry.name, 0, fn, (), arguments, means)


def told(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def theirs(one: Lifted) -> str:
    """What NumPyro's NUTS makes of a program that is refused here."""
    import jax
    from numpyro.infer import NUTS

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            NUTS(one.fn).init(jax.random.key(0), 10, None, one.args, one.kwargs)
    except Exception as error:
        return f"fails ({told(error)})"
    return "starts"


def drawn(model: Any, draws: int, chains: int, seconds: float) -> tuple[Any, bool]:
    """A run at the default schedule, and whether it was cut after so many processor seconds."""
    run = model.start(draws=draws, warmup=max(draws, 200), chains=chains, seed=0)
    return run, cut(run, seconds)


def cut(run: Any, seconds: float) -> bool:
    """Wait until a run ends, or stop it."""
    most = time.process_time() + seconds
    while run.going and time.process_time() < most:
        run.wait(0.5)
    if late := run.going:
        run.stop()
        run.wait()
    return late


def cured(run: Any, model: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The first cures of a run that has not converged, in their order, until one does; each with its run's
    verdict."""
    from gibbsite.diagnostics.verdict.cures import cures

    found: list[dict[str, Any]] = []
    left = list(cures(run)) if options.cures else []
    while left and len(found) < options.cures:
        cure = left.pop(0)
        if cure.draws:
            run.continue_(cure.draws)
            better, late = run, cut(run, options.seconds)
            left += [c for c in cures(run) if c.draws]  # as long as it goes on as it went
        else:
            better, late = drawn(cure.applied(model), options.draws, options.chains, options.seconds)
        found.append({"words": cure.words, "verdict": str(better.verdict), "cut": late})
        if better.verdict.ok:
            break
    return found


def tried(one: Lifted, options: argparse.Namespace) -> dict[str, Any]:
    """What came of one program."""
    import gibbsite as gb

    draws = options.draws

    out: dict[str, Any] = {"name": one.name, "line": one.line}
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = gb.model(one.fn, *one.args, **one.kwargs)
            out["schedule"] = model.schedule().text
            out["notes"] = list(model.notes)
        out["analysed"] = round(time.process_time() - began, 1)
        if not draws:
            return out
        run, late = drawn(model, draws, options.chains, options.seconds)
        if late:
            out["cut"] = True
        steps = len(next(iter(run.draws.values()))[0]) if run.draws else 0
        out["draws"], out["chains"] = steps, options.chains
        if steps > 10:
            table = run.summary()
            column = next(c for c in table.columns if c.startswith("ess"))
            out["ess"] = float(table[column].astype(float).min())
            out["rhat"] = float(table["r_hat"].astype(float).max())
            out["verdict"] = str(run.verdict)
            out["state"] = run.verdict.state
            out.update(compared(run, one.means) if one.means else {})
            if out["state"] == "not yet":
                out["cures"] = cured(run, model, options)
    except gb.GibbsiteError as error:
        out["refused"], out["theirs"] = told(error), theirs(one)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-3:]
        out["crashed"] = told(error)
        out["where"] = [f"{Path(f.filename).name}:{f.lineno} {f.line}" for f in last]
    return out


def compared(run: Any, means: dict[str, tuple[float, float, float]]) -> dict[str, Any]:
    """The largest difference of means from published ones, in standard errors of both, and of spreads."""
    import arviz_stats
    import numpy as np

    worst, spread, seen = 0.0, 0.0, 0
    for label, (mean, error, sd) in means.items():
        name, _, index = label.partition("[")
        if name not in run.draws:
            continue
        at = tuple(int(i) - 1 for i in index.rstrip("]").split(",")) if index else ()
        x = np.asarray(run.draws[name], np.float64)[(..., *at)]
        own = float(np.asarray(arviz_stats.ess(x))) if x.std() else 1.0
        z = abs(x.mean() - mean) / np.hypot(error, x.std() / np.sqrt(max(own, 1.0)))
        worst, spread, seen = max(worst, float(z)), max(spread, abs(float(x.std() / sd) - 1)), seen + 1
    return {"z": round(worst, 1), "sd": round(spread, 2), "compared": seen}


def one_file(path: Path, data: list[Path], options: argparse.Namespace) -> None:
    """A worker: every program of a file, a line of JSON each."""
    absent: list[str] = []
    for one in published(path) if path.is_dir() else lifted(path, data):
        if isinstance(one, str):
            absent.append(one)
        elif options.program in f"{one.line} {one.name}":
            print(json.dumps(tried(one, options)), flush=True)
    print(json.dumps({"absent": absent}), flush=True)


def asked(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="of processor, before a run is cut")
    parser.add_argument(
        "--cures", type=int, default=0, help="of how many cures a run is tried that needs one"
    )
    parser.add_argument("--program", default="", help="only those with this in their line and name")
    parser.add_argument("--file-seconds", type=float, default=900, help="of all programs of a file")
    parser.add_argument("--only", default="", help="files whose name holds this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="results as lines of JSON, taken up again")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def files_of(folder: Path) -> list[Path]:
    """Python files below a folder, and entries of posteriordb."""
    entries = sorted(p.parent for p in folder.glob("*/mean_value.json"))
    return entries or sorted(folder.rglob("*.py"))


def gather(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The results of all files."""
    rows: list[dict[str, Any]] = []
    if options.keep and options.keep.exists():
        rows = [json.loads(line) for line in options.keep.read_text().splitlines()]
    done = {row["file"] for row in rows}
    for folder in options.folders:
        for path in files_of(folder):
            label = f"{folder.name}/{path.relative_to(folder)}"
            if options.only not in label or label in done:
                continue
            command = [sys.executable, str(Path(__file__).resolve()), str(folder.resolve())]
            command += ["--worker", str(path.resolve())]
            for name in ("draws", "seconds", "chains", "cures", "program"):
                command += [f"--{name}", str(getattr(options, name))]
            with (
                tempfile.TemporaryDirectory() as aside,  # programs save their pictures where they run
                subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=aside
                ) as worker,
            ):
                try:
                    out, error = worker.communicate(timeout=options.file_seconds)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    out, error = worker.communicate()
                    error = f"given up after {options.file_seconds:g} seconds"
            new = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            if worker.returncode or not new:
                new.append({"name": "–", "died": " ".join(error.split())[-300:]})
            new = [{"file": label, **row} for row in new]
            rows += new
            if options.keep:
                with options.keep.open("a") as kept:
                    kept.writelines(json.dumps(row) + "\n" for row in new)
            for row in new:
                if "name" in row:
                    print(f"{label}:{row.get('line', 0)} {row['name']}: {outcome(row)}", flush=True)
                for cure in row.get("cures", ()):
                    late = ", cut" * cure["cut"]
                    print(f"    {cure['words']}: {cure['verdict']}{late}", flush=True)
    return rows


def outcome(row: dict[str, Any]) -> str:
    """What came of a program, in words."""
    for kind in ("died", "crashed", "refused"):
        if kind in row:
            return f"{kind}: {row[kind]}" + (f"; NumPyro's NUTS {row['theirs']}" if "theirs" in row else "")
    if "state" not in row:
        return "accepted; not run" if "draws" not in row else f"accepted; {row['draws']} draws"
    return f"{row['verdict']} ({row['draws']} draws{', cut' if row.get('cut') else ''})"


CAUSES = {
    "labels, signs or modes that chains hold apart": ("switched", "renamed", "modes", "never move"),
    "divergent transitions": ("divergent",),
    "single precision": ("single precision",),
}
SLOW = 0.1
"""Effective draws for each draw below which a run of the default 4 × 1000 has fewer than 400."""


def cause(row: dict[str, Any]) -> str:
    """Why a run did not converge, as its verdict has it."""
    for why, words in CAUSES.items():
        if any(word in row["verdict"] for word in words):
            return why
    if row.get("cut"):
        return "cut before its end"
    slow = row["ess"] < SLOW * row.get("chains", 2) * row["draws"]
    return f"fewer than one effective draw in {1 / SLOW:g}" if slow else "few draws, nothing else"


def agrees(row: dict[str, Any]) -> bool:
    """Whether the published moments are met."""
    return row.get("z", 99) <= MCSE and row.get("sd", 99) <= SPREAD


def page(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """`docs/gallery.md`."""
    programs = [r for r in rows if "name" in r and r["name"] != "–"]
    accepted = [r for r in programs if "schedule" in r]
    run = [r for r in programs if "state" in r]
    good = [r for r in run if r["state"] == "converged"]
    known = [r for r in run if r.get("compared")]
    sound = [r for r in known if agrees(r)]
    silent = [r for r in known if r["state"] == "converged" and not agrees(r)]
    crashed = [r for r in programs if "crashed" in r]
    lines = [
        "# Gallery: programs that other people wrote",
        "",
        "Made by `python benchmarks/originals.py FOLDER …`: NumPyro's examples and notebooks and "
        "*Statistical Rethinking*, lifted by their syntax trees and run as they are written, and "
        "models of posteriordb from their mathematics. Failures are in it by name; data that are only on the "
        "internet are simulated in their shapes. Nothing of theirs is in this repository.",
        "",
        f"Runs: {options.chains} chains of {options.draws} draws after a warm-up of "
        f"{max(options.draws, 200)}, cut after {options.seconds:g} processor seconds: far fewer than the "
        "defaults, so that “not converged” often says just that.",
        "",
        "| what | of how many |",
        "|---|---|",
        f"| programs lifted | {len(programs)} |",
        f"| accepted and scheduled | {len(accepted)} of {len(programs)} |",
        f"| raw errors | {len(crashed)} of {len(programs)} |",
        f"| run, with draws | {len(run)} of {len(accepted)} |",
        f"| “converged” in these few draws | {len(good)} of {len(run)} |",
        f"| means within {MCSE:g} standard errors of published ones, and sds within {SPREAD:.0%} "
        f"| {len(sound)} of {len(known)} |",
        f"| “converged” and yet off published moments | {len(silent)} of {len(known)} |",
        "",
    ]
    causes = collections.Counter(cause(r) for r in run if r["state"] == "not yet")
    lines += ["| not converged: why, as the verdict says | runs |", "|---|---|"]
    lines += [*(f"| {why} | {n} |" for why, n in causes.most_common()), ""]
    for folder in dict.fromkeys(r["file"].split("/")[0] for r in rows):
        lines += [f"## {folder}", "", "| program | schedule | outcome |", "|---|---|---|"]
        for r in (r for r in programs if r["file"].startswith(f"{folder}/")):
            where = r["file"].split("/", 1)[1] + (f":{r['line']}" if r.get("line") else "")
            said = outcome(r)
            if r.get("compared"):
                said += f"; published moments: {r['z']:g} standard errors, sds {r['sd']:.0%}"
                said += "" if agrees(r) else " (**off**)"
            named = where if where == r["name"] else f"{where} {r['name']}"
            cells = (named, f"`{r['schedule']}`" if "schedule" in r else "–", said)
            lines.append("| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |")
        missing = {
            r["file"].split("/", 1)[1]: r.get("absent") or [r.get("died", "")]
            for r in rows
            if r["file"].startswith(f"{folder}/") and (r.get("absent") or "died" in r)
        }
        if missing:
            lines += ["", "Absent:", ""]
            lines += [f"- {name}: {'; '.join(what)}" for name, what in missing.items()]
        here = next((f for f in options.folders if f.name == folder), None)
        done = {r["file"] for r in rows}
        left = [] if here is None else [str(p.relative_to(here)) for p in files_of(here)]
        left = [name for name in left if f"{folder}/{name}" not in done]
        if left:
            lines += ["", f"Not reached when this page was made: {', '.join(left)}."]
        lines.append("")
    return "\n".join(lines)


def main(options: argparse.Namespace) -> int:
    """Run, print, and write the page; 1 where a program met a raw error."""
    rows = gather(options)
    text = page(rows, options)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    print("\n".join(line for line in text.splitlines() if line.startswith("| "))[:2000])
    return int(any("crashed" in r for r in rows))


if __name__ == "__main__":
    given = asked()
    if given.worker:
        near = given.folders[0]
        one_file(given.worker, [near / "data", *sorted(near.parent.glob("*/data"))], given)
    else:
        sys.exit(main(given))
