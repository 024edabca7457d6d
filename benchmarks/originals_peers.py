"""Other samplers on originals: effective draws per processor second, with compiling and without.

    python benchmarks/originals_peers.py POSTERIORDB [--only NAME,NAME] [--sides ours,NumPyro,nutpie,PyMC]

Each program of posteriordb that `originals_stan.py` has, 4 chains of 1000 draws, one process per program and
side, on a machine that may be busy: only processor time counts. Ours at the defaults; NumPyro's NUTS as one
compiled program, 1000 steps of warm-up; nutpie and PyMC from a PyMC model of the same mathematics (nutpie
compiles by numba; PyMC compiles whenever it samples, so that it has one figure). The least bulk ESS of all
parameters, by one code.
"""

import argparse
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIDES = ("ours", "NumPyro", "nutpie", "PyMC")
CHAINS, STEPS = 4, 1000
ENTRIES = (
    "kidiq-kidscore_interaction", "earnings-logearn_interaction", "mesquite-logmesquite", "nes1976-nes",
    "sblri-blr", "kilpisjarvi_mod-kilpisjarvi", "eight_schools-eight_schools_centered",
    "gp_pois_regr-gp_regr", "gp_pois_regr-gp_pois_regr", "arma-arma11",
)  # fmt: skip


def in_pymc(name: str, data: dict[str, Any]) -> Any:
    """The same program as a PyMC model; None where it is not written here."""
    import pymc as pm
    import pytensor.tensor as pt

    x, y = data.get("x"), data.get("y")
    with pm.Model() as model:
        if name == "regression":
            beta = pm.Flat("beta", shape=x.shape[1])
            sigma = pm.HalfFlat("sigma") if data["scale"] is None else pm.HalfCauchy("sigma", data["scale"])
            pm.Normal("y", x @ beta, sigma, observed=y)
        elif name == "blr":
            beta, sigma = pm.Normal("beta", 0, 10, shape=x.shape[1]), pm.HalfNormal("sigma", 10)
            pm.Normal("y", x @ beta, sigma, observed=y)
        elif name == "kilpisjarvi":
            alpha = pm.Normal("alpha", float(data["mean_a"]), float(data["sd_a"]))
            beta = pm.Normal("beta", float(data["mean_b"]), float(data["sd_b"]))
            pm.Normal("y", alpha + beta * x, pm.HalfFlat("sigma"), observed=y)
        elif name == "eight_schools":
            mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
            pm.Normal("y", pm.Normal("theta", mu, tau, shape=len(y)), data["error"], observed=y)
        elif name in ("gp_regr", "gp_pois_regr"):
            rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
            apart = (x[:, None] - x[None, :]) / rho
            smooth, ones = alpha**2 * pt.exp(-0.5 * apart**2), np.eye(len(x))
            if name == "gp_regr":
                pm.MvNormal("y", np.zeros(len(x)), smooth + pm.HalfNormal("sigma", 1) * ones, observed=y)
            else:
                white = pm.Normal("f_tilde", 0, 1, shape=len(x))
                pm.Poisson("k", pt.exp(pt.linalg.cholesky(smooth + 1e-5 * ones) @ white), observed=data["k"])
        else:
            return None
    return model


def by_pymc(fn: Callable[..., Any], arguments: dict[str, Any], native: bool) -> dict[str, Any] | None:
    """nutpie on a PyMC model, or PyMC itself where `native`."""
    from gibbsite.diagnostics.measures.convergence import all_stats

    began = time.process_time()
    model = in_pymc(fn.__name__, {n: v for n, v in arguments.items()})
    if model is None:
        return None
    if native:
        import pymc as pm

        with model:
            found = pm.sample(STEPS, tune=STEPS, chains=CHAINS, cores=1, random_seed=1, progressbar=False)
        run = np.nan
    else:
        import nutpie

        compiled = nutpie.compile_pymc_model(model)
        begun = time.process_time()
        found = nutpie.sample(
            compiled, draws=STEPS, tune=STEPS, chains=CHAINS, cores=1, seed=1, progress_bar=False
        )
        run = time.process_time() - begun
    whole = time.process_time() - began
    names = {v.name for v in model.free_RVs}
    stats = all_stats({n: np.asarray(v) for n, v in found.posterior.items() if n in names})
    divergent = int(np.asarray(found.sample_stats["diverging"]).sum())
    return {
        "ess": min(s.ess_bulk for s in stats),
        "rhat": max(s.rhat for s in stats),
        "divergent": divergent,
        "run": run,
        "whole": whole,
    }


def one(entry: Path, side: str) -> dict[str, Any] | None:
    """The figures of a side on an entry."""
    from originals import published

    lifted = next(x for x in published(entry) if not isinstance(x, str))
    if side in ("nutpie", "PyMC"):
        return by_pymc(lifted.fn, lifted.kwargs, side == "PyMC")
    from default_models import Case
    from default_sides import numpyro_nuts, ours

    case = Case(lifted.fn, tuple(lifted.kwargs[n] for n in inspect.signature(lifted.fn).parameters))
    found = ours(case, 1, None) if side == "ours" else numpyro_nuts(case, 1, case.fn)
    return {
        "ess": found.ess,
        "rhat": found.rhat,
        "divergent": found.divergent,
        "run": found.seconds,
        "whole": found.seconds + found.setup,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(ENTRIES))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = one(options.folder / options.only, options.worker)
        print(json.dumps(found))
        return
    print("| program | side | R-hat | least ESS | divergent | per second, compiling too | without |")
    print("|---|---|---|---|---|---|---|", flush=True)
    environment = {n: v for n, v in os.environ.items() if n != "JAX_COMPILATION_CACHE_DIR"}
    for entry in options.only.split(","):
        for side in options.sides.split(","):
            command = [sys.executable, __file__, str(options.folder), "--only", entry, "--worker", side]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1800)
            line = done.stdout.strip().splitlines()[-1:] or ["null"]
            f = json.loads(line[0])
            if f is None:
                why = done.stderr.strip().splitlines()[-1][:120] if done.returncode else "not written for it"
                print(f"| {entry} | {side} | – | – | – | {why} | – |", flush=True)
                continue
            rates = [f"{f['ess'] / f[k]:.0f}" if f[k] == f[k] else "–" for k in ("whole", "run")]
            print(
                f"| {entry} | {side} | {f['rhat']:.3f} | {f['ess']:.0f} | {f['divergent']} | "
                f"{' | '.join(rates)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
