"""Other samplers on originals: effective draws per processor second, with compiling and without.

    python benchmarks/originals_peers.py POSTERIORDB [--bugs FOLDER] [--peers PYTHON] [--keep FILE]
        [--shown] [--only NAME,NAME] [--sides ours,NumPyro,JAGS,nutpie,PyMC] [--limit 120]

Programs of posteriordb that `originals_stan.py` has, and BUGS's examples of a folder as `classics.py` has
it. 4 chains of 1000 draws after 1000 steps of warm-up (ours: the defaults), seed 1, one process per program
and side, one after another, killed after `--limit` processor seconds, on a machine that may be busy: only
processor time counts. NumPyro's NUTS is one compiled program. JAGS with `glm` (`classics.py` drives it).
nutpie and PyMC run in the interpreter `--peers`, which has them (`originals_pymc.py`), with the caches of
compiled parts that they keep; PyMC compiles whenever it samples and has one figure. The least bulk ESS of
the parameters (posteriordb) or of the quantities that BUGS reports, by one code; converged: R-hat below
1.01, ESS above 400, no divergence; what has not is in italics. Rows that FILE has are not run again, and
the table is made of all that it has.
"""

import argparse
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import classics
import numpy as np
from classics import Case
from gibbsite.diagnostics.measures.convergence import all_stats
from originals import published
from originals_jags import MODELS as TEXTS
from originals_jags import MONITORS

SIDES = ("ours", "NumPyro", "JAGS", "nutpie", "PyMC")
OWN = ("ours", "NumPyro")
STEPS, SEED = 1000, 1
DISCRETE = ("asia", "asia2", "biops", "pigs", "stagnant")
"""Those of BUGS's examples whose discrete sites the samplers by gradients do not take."""
HERE = Path(__file__).resolve().parent


def of_posteriordb(entry: Path) -> Case:
    """A program of posteriordb for all sides."""
    lifted = next(x for x in published(entry) if not isinstance(x, str))
    name, given = lifted.fn.__name__, {n: v for n, v in lifted.kwargs.items() if v is not None}
    data = {n: np.asarray(v, float) for n, v in given.items() if n != "scale"}
    sizes = {"N": len(data["y" if "y" in data else "k"])}
    if data["x"].ndim == 2 if "x" in data else False:
        sizes["K"] = data["x"].shape[1]
    latents = MONITORS.get(name, ("beta", "sigma"))
    own = tuple("f_tilde" if n == "f" else n for n in latents)
    text = TEXTS[f"{name}, half-Cauchy" if "scale" in given and name == "regression" else name]
    args = tuple(lifted.kwargs[n] for n in inspect.signature(lifted.fn).parameters)
    return Case(
        lifted.fn, args, f"model {{{text}\n}}", {**data, **sizes}, latents,
        lambda draws: {n: np.asarray(draws[n], float) for n in own}, lambda draws: draws,
    )  # fmt: skip


def figures(
    draws: Any, run: float | None, whole: float, divergent: int | None, said: str = ""
) -> dict[str, Any]:
    """What a side came to; what does not vary is no parameter."""
    varying = {}
    for name, x in draws.items():
        flat = np.asarray(x, float).reshape(*np.shape(x)[:2], -1)
        varying[name] = flat[:, :, np.ptp(flat, axis=(0, 1)) > 0]
    stats = all_stats(varying)
    ess, rhat = min(s.ess_bulk for s in stats), max(s.rhat for s in stats)
    return {"ess": ess, "rhat": rhat, "divergent": divergent, "run": run, "whole": whole, "said": said}


def in_process(case: Case, side: str) -> dict[str, Any]:
    """Ours or NumPyro's, here."""
    import default_models
    from default_sides import numpyro_drawn, twice

    # arguments that a model reads in NumPy are no arguments of a program
    bound = default_models.Case(partial(case.model, *case.args), ())
    if side == "NumPyro":
        draws, _, diverging, (run, setup) = numpyro_drawn(bound, SEED, bound.fn)
        divergent, said = int(diverging[STEPS:].sum()), ""
    else:
        _, run_, (run, setup) = twice(default_models.Case(case.model, case.args), SEED, {})
        draws, said = run_.draws, str(run_.verdict)
        stats = run_.kept.sampled_stats.read()
        divergent = sum(int(v.sum()) for n, v in stats.items() if n.endswith("diverging"))
    return figures(case.ours(draws), run, run + setup, divergent, said)


def in_other(case: Case, side: str, peers: str, limit: int) -> dict[str, Any] | None:
    """nutpie's or PyMC's, in an interpreter that has them."""
    named = zip(inspect.signature(case.model).parameters, case.args, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        given, drawn = Path(folder, "given.npz"), Path(folder, "drawn.npz")
        np.savez(given, **{n: np.asarray(v) for n, v in named if v is not None})
        name = case.model.__name__
        name = Path(case.model.__code__.co_filename).stem if name == "model" else name
        line = held([peers, str(HERE / "originals_pymc.py"), name, side, str(given), str(drawn)], limit)
        found = json.loads(line)
        if found is None:
            return None
        draws = dict(np.load(drawn))
    return figures(case.ours(draws), found["run"], found["whole"], found["divergent"])


def by_jags(case: Case, limit: int) -> dict[str, Any]:
    """JAGS's."""
    draws, setup, run = classics.jags(case, STEPS, SEED, limit)
    return figures(draws, run, setup + run, None)


def held(command: list[str], limit: int) -> str:
    """The last line that a process prints, within so many processor seconds; raises `CalledProcessError`."""
    environment = {n: v for n, v in os.environ.items() if n != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        classics.limited(command, limit), capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def case_of(name: str, options: argparse.Namespace) -> Case:
    """A program by its name."""
    entry = options.folder / name
    return of_posteriordb(entry) if entry.exists() else classics.of_folder(options.bugs.resolve(), name)


def one(name: str, side: str, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of a side on a program, or `why` there are none."""
    if name in DISCRETE and side in ("NumPyro", "nutpie", "PyMC"):
        return {"why": "discrete sites"}
    try:
        if side in OWN:
            command = [sys.executable, __file__, str(options.folder), "--only", name, "--worker", side]
            command += ["--bugs", str(options.bugs)] if options.bugs else []
            return json.loads(held(command, options.limit))
        case = case_of(name, options)
        if side == "JAGS":
            return by_jags(case, options.limit)
        found = in_other(case, side, options.peers, options.limit) if options.peers else None
        return found or {"why": "not written for it" if options.peers else "no interpreter that has it"}
    except subprocess.CalledProcessError as error:
        said = (error.stderr if isinstance(error.stderr, str) else (error.stderr or b"").decode()).strip()
        late = error.returncode in (-9, -24)
        return {"why": f"> {options.limit} s" if late else (said.splitlines() or ["failed"])[-1][:120]}


def converged(f: dict[str, Any]) -> bool:
    """By one rule for all."""
    return f["rhat"] < 1.01 and f["ess"] > 400 and not f["divergent"]


def cells(f: dict[str, Any] | None) -> tuple[str, str, str]:
    """Quality, and effective draws per second with compiling and without."""
    if f is None or "why" in f:
        return ("–" if f is None else f["why"], "–", "–")
    quality = f"{f['rhat']:.3f}, {f['ess']:.0f}" + (f", {f['divergent']} div." if f["divergent"] else "")
    rates = (f["ess"] / max(f[k], 0.01) if f[k] is not None else None for k in ("whole", "run"))
    whole, run = ("–" if r is None else f"{r:.0f}" for r in rates)
    return (quality if converged(f) else f"*{quality}*", whole, run)


def table(rows: dict[tuple[str, str], dict[str, Any]], sides: list[str]) -> str:
    """All that was found; in italics what has not converged."""
    head = " / ".join(sides)
    lines = [f"| program | {' | '.join(sides)} | with compiling: {head} | without |"]
    lines.append("|---" * (len(sides) + 3) + "|")
    wins: dict[str, tuple[int, int]] = {"whole": (0, 0), "run": (0, 0)}
    for name in dict.fromkeys(n for n, _ in rows):
        found = [rows.get((name, s)) for s in sides]
        parts = [cells(f) for f in found]
        lines.append(
            f"| {name} | {' | '.join(p[0] for p in parts)} | {' / '.join(p[1] for p in parts)} | "
            f"{' / '.join(p[2] for p in parts)} |"
        )
        for k in wins:
            rates = [f["ess"] / max(f[k], 0.01) if f and f.get(k) and converged(f) else 0 for f in found]
            if rates[0] and any(rates[1:]):
                ahead, of = wins[k]
                wins[k] = ahead + (rates[0] >= max(rates[1:])), of + 1
    lines.append("")
    lines += [
        f"{'with' if k == 'whole' else 'without'} compiling: first in {a} of {n}"
        for k, (a, n) in wins.items()
    ]
    for side in sides:
        done = [f for (_, s), f in rows.items() if s == side and "why" not in f]
        lines.append(f"{side}: {sum(map(converged, done))} of {len(done)} converged")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bugs", type=Path, help="a folder with data/ and models/, as for classics.py")
    parser.add_argument("--only", help="names; default: all programs of both folders")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--peers", help="an interpreter with pymc, nutpie and numba")
    parser.add_argument("--keep", type=Path, help="a file of rows, a line of JSON each")
    parser.add_argument("--shown", action="store_true", help="run nothing: the table of what FILE has")
    parser.add_argument("--limit", type=int, default=120, help="processor seconds of a side")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = in_process(case_of(options.only, options), options.worker)
        print(json.dumps(found))
        return
    names = sorted(p.parent.name for p in options.folder.glob("*/data.json.zip"))
    names += sorted(p.stem for p in (HERE / "bugs").glob("*.bug")) if options.bugs else []
    names = options.only.split(",") if options.only else names
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    if options.keep and options.keep.exists():
        rows = {(n, s): f for n, s, f in map(json.loads, options.keep.read_text().splitlines())}
    sides = options.sides.split(",")
    for side in () if options.shown else sides:
        for name in (n for n in names if (n, side) not in rows):
            rows[name, side] = found = one(name, side, options)
            print(f"{name} {side}: {' '.join(cells(found))}", file=sys.stderr, flush=True)
            if options.keep:
                with options.keep.open("a") as kept:
                    kept.write(json.dumps([name, side, found]) + "\n")
    order = {n: i for i, n in enumerate(names)}
    print(table(dict(sorted(rows.items(), key=lambda r: order.get(r[0][0], len(order)))), sides))


if __name__ == "__main__":
    main()
