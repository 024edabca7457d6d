"""SlicStan's evaluation, figures 8 to 12 as tables: `python benchmarks/elimination.py --slicstan`.

Per model, at the paper's largest number of discrete unknowns, the arms: ours with the discrete sites summed
out of NUTS, ours with Gibbs, NumPyro's enumeration of the arrays (`NumPyro-Opt` there) and PyMC-extras'
`marginalize`. One chain; all seconds are of the processor. *Compile* is what precedes sampling: the first run
of a program less the second. *Gradient* is value and gradient in a loop, as a sampler pays for it (PyMC: a
call). ESS is the lowest of the continuous numbers, per second of warm-up and draws.

The second table tells what SlicStan pays for (its figures' right halves): seconds to trace and compile value
and gradient of the model written with a site per step, and the program's equations, as the steps grow.

NumPyro's enumeration needs `pip install funsor`; PyMC-extras is asked for in another interpreter, since its
needs and ours differ: `python -m venv pymc && pymc/bin/pip install pymc pymc-extras`, then
`--pymc pymc/bin/python`. What is absent is left out, with a sentence.
"""

import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from elimination import compiled, enumerated, in_loop, in_turn, prepared
from numpyro.infer import MCMC, NUTS
from slicstan_models import FIGURES, Figure

Row = dict[str, Any]
_WARMUP, _DRAWS = 1_000, 2_000


def _timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds to compile and to run, and what the second of two runs gives."""
    spent, out = [], None
    for _ in range(2):
        began = time.process_time()
        out = run()
        spent.append(time.process_time() - began)
    return max(spent[0] - spent[1], 0.0), spent[1], out


def _ours(model: Any) -> Row:
    run_of = lambda: model.sample(draws=_DRAWS, warmup=_WARMUP, chains=1, seed=0)  # noqa: E731
    compile_s, seconds, run = _timed(run_of)
    ess = min(s.ess_bulk for s in run.diagnostics() if not model.sites[s.site].discrete)
    return {"compile": compile_s, "ess": ess, "seconds": seconds}


def _numpyro(fn: Callable, y: np.ndarray) -> Row:
    summed = importlib.import_module("numpyro.contrib.funsor").config_enumerate(fn)
    mcmc = MCMC(NUTS(summed), num_warmup=_WARMUP, num_samples=_DRAWS, num_chains=1, progress_bar=False)

    def run() -> Any:
        mcmc.run(jax.random.key(0), jnp.asarray(y))
        return jax.block_until_ready(mcmc.get_samples(group_by_chain=True))

    compile_s, seconds, draws = _timed(run)
    ess = min(float(np.min(numpyro.diagnostics.effective_sample_size(np.asarray(d)))) for d in draws.values())
    return {"compile": compile_s, "ess": ess, "seconds": seconds}


def _asked(run: Callable[[], Row]) -> Row:
    try:
        return run()
    except Exception as problem:  # what an arm does not take is part of the table
        return {"refused": type(problem).__name__}


def _pymc(python: str | None, figures: list[Figure]) -> dict[str, Row]:
    if python is None:
        print("PyMC-extras is left out: name an interpreter that has it with --pymc.\n")
        return {}
    data = {f.model.__name__: f.data(f.most).tolist() for f in figures}
    asked = json.dumps({"data": data, "warmup": _WARMUP, "draws": _DRAWS})
    script = Path(__file__).with_name("slicstan_pymc.py")
    env = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    done = subprocess.run([python, str(script)], input=asked, capture_output=True, text=True, env=env)
    if done.returncode:
        print(f"PyMC-extras is left out: {python} says {done.stderr.strip().splitlines()[-1]!r}.\n")
        return {}
    return {row.pop("model"): row for row in map(json.loads, done.stdout.splitlines())}


def _gradients(figure: Figure, y: np.ndarray, with_numpyro: bool) -> dict[str, float]:
    """Microseconds of value and gradient in a loop, ours and NumPyro's, called in turn."""
    _, model, marginal, state = prepared(figure.model, y)
    sides = {"summed out": (marginal.logdensity_at, tuple(model.execution.inputs["data"]))}
    theirs = enumerated(figure.numpyro) if with_numpyro else None
    if theirs is not None:
        sides["NumPyro"] = (theirs, jnp.asarray(y))
    runs, often = {}, 1_000
    for name, (fn, data) in sides.items():
        try:
            run = in_loop(fn, often, state, data)
        except Exception:  # the row of this arm tells why
            continue
        runs[name] = lambda run=run, data=data: run(state, data)
    return {name: 1e6 * s / often for name, s in in_turn(runs, 7).items()}


def _line(figure: Figure, arm: str, row: Row) -> str:
    name = f"{figure.number}: {figure.model.__name__}, N = {figure.most}"
    if "refused" in row:
        return f"| {name} | {arm} | refused: {row['refused']} | | | |"
    gradient = f"{row['gradient']:.1f}" if "gradient" in row else "–"
    ess = f"{row['ess']:,.0f} | {row['ess'] / row['seconds']:,.0f}"
    return f"| {name} | {arm} | {row['compile']:.1f} | {gradient} | {ess} |"


def figures(python: str | None, only: str | None) -> None:
    """The first table."""
    chosen = [f for f in FIGURES if only in (None, f.model.__name__)]
    with_numpyro = importlib.util.find_spec("funsor") is not None
    if not with_numpyro:
        print("NumPyro's enumeration is left out: it needs `pip install funsor`.\n")
    marginalised = _pymc(python, chosen)
    print("| figure | arm | compile, s | gradient, µs | lowest ESS of 2000 | ESS/s |\n" + "|---" * 6 + "|")
    for f in chosen:
        y = f.data(f.most)
        gradients = _gradients(f, y, with_numpyro)
        model = gb.model(f.model, y)
        rows = {"summed out": _ours(model.eliminate()), "Gibbs": _asked(lambda m=model: _ours(_gibbs(m)))}
        if with_numpyro:
            rows["NumPyro"] = _asked(lambda f=f, y=y: _numpyro(f.numpyro, y))
        if f.model.__name__ in marginalised:
            rows["PyMC-extras"] = marginalised[f.model.__name__]
        for arm, row in rows.items():
            row.update({"gradient": gradients[arm]} if arm in gradients else {})
            print(_line(f, arm, row), flush=True)


def _gibbs(model: Any) -> Any:
    """The discrete sites by Gibbs, and the default for the others."""
    discrete = [s.name for s in model.sites.values() if s.latent and s.discrete]
    others = [s.name for s in model.sites.values() if s.latent and not s.discrete]
    return model.with_schedule(f"Gibbs [{' '.join(discrete)}] (*) NUTS [{' '.join(others)}]")


def growth() -> None:
    """The second table."""
    print(
        "\n| model, a site per step | steps | ours: compile, s; equations | NumPyro: compile, s; equations |"
    )
    print("|---" * 4 + "|")
    for f in FIGURES:
        if f.by_site is None:
            continue
        for steps in (3, 6, f.most):
            y = f.data(steps)
            planning, model, marginal, state = prepared(f.by_site, y)
            spent, _, equations = compiled(
                marginal.logdensity_at, state, tuple(model.execution.inputs["data"])
            )
            cell, other = "–", enumerated(f.by_site)
            if other is not None:
                try:
                    theirs, _, size = compiled(other, state, jnp.asarray(y))
                    cell = f"{theirs:.1f}; {size}"
                except Exception as problem:  # it has an axis per site, and no more than 32
                    cell = f"refused: {type(problem).__name__}"
            ours = f"{planning + spent:.1f}; {equations}"
            print(f"| {f.model.__name__} | {steps} | {ours} | {cell} |", flush=True)
