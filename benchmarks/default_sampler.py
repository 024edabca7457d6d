"""The defaults against NumPyro's NUTS, as written and in the better of two forms, and against nutpie.

    python benchmarks/default_sampler.py --data FOLDER --seeds 10 --results found.jsonl
    python benchmarks/default_sampler.py --seeds 2 --first 5 --models "eight schools,HMM" --sides ours,numpyro
    python benchmarks/default_sampler.py --results found.jsonl --table

Models and data, and what FOLDER holds: `default_models.py`. Ours is `model.sample(seed=seed)`, with the
warm-up of `--warmup` if that is given. NumPyro runs 1000 + 1000 steps in 4 chains on the model as written
and, where it has a hierarchy, with that non-centred (`LocScaleReparam(0)`). nutpie (`pip install nutpie`)
runs its defaults (400 + 1000 steps, diagonal metric) in 4 chains on the potential of the same forms. Models
with discrete sites: the others run the form with these summed out.

Effective draws are the lowest bulk ESS of all continuous scalars of the model as written, over 4000 draws;
gradients are leapfrog steps of all chains, those of warm-up included, and every exact update of a block in a
chain counts as one. *To the goal*: gradients until every R-hat is below 1.01 and every ESS above 400, looked
at after 50, 100, 150, … draws. The ratios are medians over the seeds of ESS per gradient, ours over the
better form's. With `--results` a line is added to that file for every run, and what is in it is not run
again. Losses stand in the table as they are.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from default_models import Case, cases
from gibbsite.sampling.watch.diagnostics import all_stats, scalar_stat
from jax.flatten_util import ravel_pytree
from numpyro.handlers import reparam
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import initialize_model

try:
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc
except ImportError:  # its columns stay empty
    nutpie = from_pyfunc = None

CHAINS, STEPS = 4, 1000
SIDES = ("ours", "numpyro", "nutpie")
_EVERY, _LOOKED_AT = 50, 12


class Found(NamedTuple):
    """Of a run: lowest ESS, largest R-hat, gradients in all, divergences, gradients to the goal (0: never),
    and steps of warm-up."""

    ess: float
    rhat: float
    gradients: int
    divergent: int
    goal: int
    warmup: int

    @property
    def rate(self) -> float:
        """Effective draws per thousand gradients."""
        return 1000 * self.ess / self.gradients


def judged(draws: Mapping[str, Any], warm: int, work: np.ndarray, divergent: int, warmup: int) -> Found:
    """The figures of draws `[chain, draw, …]`, `work` gradients each over all chains, after `warm`."""
    values = {n: np.asarray(v) for n, v in draws.items()}
    values = {n: v for n, v in values.items() if v.dtype.kind == "f"}
    stats = all_stats(values)
    looked = [stats[i] for i in np.argsort([s.ess_bulk for s in stats])[:_LOOKED_AT]]
    goal = 0
    for n in range(_EVERY, work.size + 1, _EVERY):
        now = [
            scalar_stat(s.label, s.site, s.index, values[s.site][(slice(None), slice(n), *s.index)])
            for s in {s.label: s for s in (*looked, *stats[:_LOOKED_AT])}.values()
        ]
        if all(s.ess_bulk > 400 and s.rhat < 1.01 for s in now):
            goal = int(warm + work[:n].sum())
            break
    ess, rhat = min(s.ess_bulk for s in stats), max(s.rhat for s in stats)
    return Found(ess, rhat, int(warm + work.sum()), divergent, goal, warmup)


def ours(case: Case, warmup: Any) -> Callable[[int], Found]:
    """The default schedule."""
    model = gb.model(case.fn, *case.args)
    asked = {} if warmup is None else {"warmup": warmup}

    def run(seed: int) -> Found:
        run = model.sample(seed=seed, chains=CHAINS, draws=STEPS, **asked)
        parts = run.kept.warm_stats.read(), run.kept.sampled_stats.read()
        exact = sum(
            not any(n.startswith(f"{i}.n_steps") for n in parts[1]) for i in range(len(run._plan.blocks))
        )

        def work(stats: Mapping[str, Any], steps: int) -> np.ndarray:
            taken = [v.sum(0) for n, v in stats.items() if n.endswith("n_steps")]
            return sum(taken, np.full(steps, CHAINS * exact))

        warm = run.kept.warm_stats.steps
        divergent = sum(int(v.sum()) for n, v in parts[1].items() if n.endswith("diverging"))
        latents = {n: v for n, v in run.draws.items() if model.sites[n].role == "latent"}
        return judged(latents, int(work(parts[0], warm).sum()), work(parts[1], STEPS), divergent, warm)

    return run


def numpyro_nuts(fn: Callable[..., None], case: Case) -> Callable[[int], Found]:
    """NumPyro's NUTS, 1000 + 1000 steps, as one compiled program."""
    arrays = [jnp.asarray(a) for a in case.args if isinstance(a, np.ndarray)]
    places = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]

    def bound(arrays: Any) -> Callable[[], None]:
        args = list(case.args)
        for i, a in zip(places, arrays, strict=True):
            args[i] = a
        return partial(fn, *args)

    @jax.jit
    def program(key: Any, arrays: Any) -> Any:
        mcmc = MCMC(
            NUTS(bound(arrays)),
            num_warmup=0,
            num_samples=2 * STEPS,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        kernel = mcmc.sampler
        keys = jax.random.split(key, CHAINS)
        state = kernel.init(keys, STEPS, None, (), {})

        def step(state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})  # of all chains, as it was made
            return state, (state.z, state.num_steps, state.diverging)

        _, (z, steps, diverging) = jax.lax.scan(step, state, None, length=2 * STEPS)
        values = jax.vmap(jax.vmap(kernel.postprocess_fn((), {})))(z)
        return values, steps, diverging

    def run(seed: int) -> Found:
        values, steps, diverging = jax.device_get(program(jax.random.key(seed), arrays))
        draws = {n: np.moveaxis(v[STEPS:], 1, 0) for n, v in values.items() if "_decentered" not in n}
        steps = steps.sum(1)
        return judged(draws, int(steps[:STEPS].sum()), steps[STEPS:], int(diverging[STEPS:].sum()), STEPS)

    return run


def nutpie_nuts(fn: Callable[..., None], case: Case) -> Callable[[int], Found]:
    """nutpie's defaults on the potential that NumPyro makes of the model."""
    info = initialize_model(jax.random.key(0), partial(fn, *case.args), dynamic_args=False)
    first, unravel = ravel_pytree(info.param_info.z)
    both = jax.jit(jax.value_and_grad(lambda u: -info.potential_fn(unravel(u))))
    values = jax.jit(jax.vmap(lambda u: info.postprocess_fn(unravel(u))))

    def density(u: Any) -> Any:
        value, slope = both(np.asarray(u, first.dtype))
        return float(value), np.asarray(slope, np.float64)

    size = first.size
    compiled = from_pyfunc(
        size,
        lambda: density,
        lambda *_: lambda u: {"u": np.asarray(u)},
        [np.dtype(np.float64)],
        [(size,)],
        ["u"],
        make_initial_point_fn=lambda seed: np.random.default_rng(seed).uniform(-2, 2, size),
    )

    def run(seed: int) -> Found:
        found = nutpie.sample(compiled, chains=CHAINS, cores=1, seed=seed, progress_bar=False)
        steps = [np.asarray(s["n_steps"]).sum(0) for s in (found.warmup_sample_stats, found.sample_stats)]
        u = jnp.asarray(np.asarray(found.posterior["u"]), first.dtype)
        draws = {n: v for n, v in jax.vmap(values)(u).items() if "_decentered" not in n}
        divergent = int(np.asarray(found.sample_stats["diverging"]).sum())
        return judged(draws, int(steps[0].sum()), steps[1], divergent, len(steps[0]))

    return run


def forms(case: Case) -> dict[str, Callable[..., None]]:
    """What NUTS needs of the model: as written or with discrete sites summed out, and non-centred."""
    fn = case.summed or case.fn
    found = {"as written": fn}
    if case.hierarchy:
        found["non-centred"] = reparam(
            fn, config={n: LocScaleReparam(0.0, case.shape_params) for n in case.hierarchy}
        )
    return found


def samplers(case: Case, sides: tuple[str, ...], warmup: Any) -> dict[str, Callable[[], Any]]:
    """By name, what makes a function of a seed that runs it: made only where it is needed."""
    found: dict[str, Callable[[], Any]] = {}
    if "ours" in sides:
        found["ours"] = partial(ours, case, warmup)
    for form, fn in forms(case).items():
        if "numpyro" in sides:
            found[f"NumPyro, {form}"] = partial(numpyro_nuts, fn, case)
        if "nutpie" in sides and nutpie is not None:
            found[f"nutpie, {form}"] = partial(nutpie_nuts, fn, case)
    return found


Table = dict[str, dict[str, dict[int, Found]]]


def held(path: Path | None) -> Table:
    """What was found before: model, sampler, seed."""
    table: Table = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        model, name, seed, found = json.loads(line)
        table.setdefault(model, {}).setdefault(name, {})[seed] = Found(*found)
    return table


def row(model: str, found: Mapping[str, Mapping[int, Found]]) -> str:
    """One line of the table."""

    def told(name: str) -> str:
        runs = list(found.get(name, {}).values())
        if not runs:
            return "–"
        rate, rhat = np.median([f.rate for f in runs]), max(f.rhat for f in runs)
        return f"{rate:.1f} ({np.median([f.ess for f in runs]):.0f}, {rhat:.3f})"

    def better(who: str) -> tuple[str, str]:
        runs = [r for n, r in found.items() if n.startswith(who)]
        seeds = [s for s in found["ours"] if all(s in r for r in runs)] if runs else []
        if not seeds:
            return "–", "–"
        best = max(runs, key=lambda r: np.median([r[s].rate for s in seeds]))
        ratio = np.median([found["ours"][s].rate / best[s].rate for s in seeds])
        goals = [(found["ours"][s].goal, best[s].goal) for s in seeds]
        shown = [
            f"{np.median(g) / 1000:.0f}k" if all(g) else f"{sum(x > 0 for x in g)} of {len(g)}"
            for g in zip(*goals, strict=True)
        ]
        return f"{ratio:.2f}", " / ".join(shown)

    mine = list(found["ours"].values())
    warm = sorted(f.warmup for f in mine)
    span = f"{warm[0]}" if warm[0] == warm[-1] else f"{warm[0]} … {warm[-1]}"
    against, goals = better("NumPyro")
    columns = [
        told("ours"),
        span,
        told("NumPyro, as written"),
        told("NumPyro, non-centred"),
        told("nutpie, as written"),
        told("nutpie, non-centred"),
        against,
        better("nutpie")[0],
        goals,
    ]
    return f"| {model} | {' | '.join(columns)} |"


HEAD = """\
ESS per 1000 gradients, warm-up counted (median lowest ESS of 4000 draws, largest R-hat)

| model | ours | warm-up | NumPyro, as written | NumPyro, non-centred | nutpie, as written | nutpie, \
non-centred | ours / better NumPyro | ours / better nutpie | to the goal, ours / better NumPyro |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--data", type=Path, help="folder with the tables")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--warmup", help="of our side: steps, or auto; default: the default")
    parser.add_argument("--models", default="", help="names, separated by semicolons or commas; default: all")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--results", type=Path, help="file with a line per run, to add to")
    parser.add_argument("--table", action="store_true", help="run nothing: print what --results holds")
    options = parser.parse_args()
    warmup = int(options.warmup) if options.warmup and options.warmup.isdigit() else options.warmup
    known, table = cases(options.data), held(options.results)
    wanted = [n.strip() for n in options.models.split(";" if ";" in options.models else ",") if n.strip()]
    print(HEAD)
    for model, case in known.items():
        known_already = "ours" in table.get(model, {})
        if (wanted and model not in wanted) or (options.table and not known_already):
            continue
        found = table.setdefault(model, {})
        for name, make in samplers(case, tuple(options.sides.split(",")), warmup).items():
            seeds = range(options.first, options.first + options.seeds)
            missing = [] if options.table else [s for s in seeds if s not in found.get(name, {})]
            run = make() if missing else None
            for seed in missing:
                found.setdefault(name, {})[seed] = run(seed)
                if options.results is not None:
                    with options.results.open("a") as file:
                        file.write(json.dumps([model, name, seed, found[name][seed]]) + "\n")
        if "ours" in found:
            print(row(model, found), flush=True)


if __name__ == "__main__":
    main()
