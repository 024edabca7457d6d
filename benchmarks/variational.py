"""Degrees of centring: learnt by our NUTS and by a variational bound, and what each form is worth to NUTS.

    python benchmarks/variational.py --data FOLDER [--models "eight schools;election-like"] [--seeds 3]

The experiment of Gorinova, Moore and Hoffman (2020, section 6: figures 6 and 7) on this project's models of
`default_models.py` and their German credit: a hierarchy is put centred, non-centred, and in between, with a
degree for every element. Degrees are learnt by maximising the evidence lower bound of an independent normal
(NumPyro's `LocScaleReparam` with `AutoNormal`; Adam from .02, .1 and .4, 3000 steps with their decay,
the best of them), and by the warm-up of a NUTS of ours. Then, for every form alike: the bound of an
independent normal, fitted likewise, and effective draws per 1000 gradients of NumPyro's NUTS, warm-up
counted, medians over seeds. Last the map of degrees, a character for each element, from `·` (non-centred) to
`█` (centred). Radon and German credit need the tables of `--data`, as for `default_sampler.py`.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from default_models import Case, cases, credit_table
from default_sides import numpyro_nuts
from numpyro.distributions.constraints import unit_interval
from numpyro.handlers import reparam
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.reparam import LocScaleReparam
from scipy.stats import spearmanr

MODELS = (
    "eight schools",
    "eight schools, log scale",
    "radon, Minnesota",
    "radon, all states",
    "election-like",
    "electric-like",
)
CREDIT = "German credit, a scale each"
RATES, STEPS, PARTICLES, JUDGED = (0.02, 0.1, 0.4), 3000, 16, 4096
SHADES = "·░▒▓█"
Degrees = Mapping[str, np.ndarray | None]
"""Degrees of centring by site: 1 is centred; None: to be learnt."""
Shapes = Mapping[str, tuple[int, ...]]


def credit(x: Any, y: Any) -> None:
    """Their regression: every coefficient has a scale of its own, and these a common one."""
    common = numpyro.sample("common", dist.Normal(0, 10))
    with numpyro.plate("column", x.shape[1]):
        log_tau = numpyro.sample("log_tau", dist.Normal(common, 1))
        b = numpyro.sample("b", dist.Normal(0, jnp.exp(log_tau)))
    numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def form(case: Case, degrees: Degrees, shapes: Shapes) -> Callable[..., None]:
    """The model with its hierarchy at these degrees, which are parameters where they are to be learnt."""

    def asked(name: str, degree: Any) -> Any:
        if degree is not None:
            return degree
        return numpyro.param(f"{name}_degree", jnp.full(shapes[name], 0.5), constraint=unit_interval)

    def model(*args: Any) -> None:
        sites = {n: asked(n, d) for n, d in degrees.items()}
        reparam(case.fn, config={n: LocScaleReparam(d) for n, d in sites.items()})(*args)

    return model


def fitted(case: Case, degrees: Degrees, shapes: Shapes, seed: int) -> tuple[float, dict[str, np.ndarray]]:
    """The largest bound of an independent normal at these degrees, in nats, and those that were learnt."""
    best: tuple[float, dict[str, np.ndarray]] = (-np.inf, {})
    model = partial(form(case, degrees, shapes), *case.args)
    for rate in RATES:

        def decayed(step: Any, rate: float = rate) -> Any:
            return rate * jnp.where(step < 1000, 1.0, jnp.where(step < 2000, 1 / 5, 1 / 20))

        guide = AutoNormal(model)
        loss = Trace_ELBO(num_particles=PARTICLES, vectorize_particles=True)
        svi = SVI(model, guide, numpyro.optim.Adam(decayed), loss)
        found = svi.run(jax.random.key(seed), STEPS, progress_bar=False)
        many = Trace_ELBO(num_particles=JUDGED, vectorize_particles=True)
        bound = -float(many.loss(jax.random.key(seed + 1), found.params, model, guide))
        if np.isfinite(bound) and bound > best[0]:
            learnt = {n: np.asarray(found.params[f"{n}_degree"]) for n in degrees if degrees[n] is None}
            best = bound, learnt
    return best


def learnt(case: Case, seed: int) -> dict[str, np.ndarray]:
    """The degrees that the warm-up of one NUTS of all latents learns."""
    model = gb.model(case.fn, *case.args)
    latents = [n for n, s in model.sites.items() if s.role == "latent"]
    found = model.sample(schedule=f"NUTS [{' '.join(latents)}]", draws=1000, seed=seed).centring
    return {n: np.asarray(found[n], np.float32) for n in case.hierarchy}


def shaded(degrees: Mapping[str, np.ndarray]) -> str:
    """A character for each element of each site, sites apart."""
    parts = (np.clip(np.ravel(d) * len(SHADES), 0, len(SHADES) - 1).astype(int) for d in degrees.values())
    return " ".join("".join(SHADES[i] for i in part) for part in parts)


def compared(case: Case, seeds: int) -> tuple[dict[str, tuple[float, float, float, int]], dict[str, str]]:
    """By form: the bound, effective draws per 1000 gradients, the largest R-hat and divergences; and the maps
    of the learnt degrees."""
    sites = gb.model(case.fn, *case.args).sites
    shapes = {n: sites[n].shape for n in case.hierarchy}
    at = {
        "centred": {n: np.ones(s, np.float32) for n, s in shapes.items()},
        "non-centred": {n: np.zeros(s, np.float32) for n, s in shapes.items()},
        "by the bound": fitted(case, dict.fromkeys(case.hierarchy), shapes, 0)[1],
        "by our warm-up": learnt(case, 0),
    }
    out = {}
    for name, degrees in at.items():
        bound = fitted(case, degrees, shapes, 0)[0]
        runs = [numpyro_nuts(case, seed, form(case, degrees, shapes)) for seed in range(seeds)]
        each = np.median([r.per_gradient for r in runs])
        out[name] = bound, float(each), max(r.rhat for r in runs), sum(r.divergent for r in runs)
    return out, {n: shaded(at[n]) for n in ("by the bound", "by our warm-up")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", default="")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    known = {n: c for n, c in cases(options.data).items() if n in MODELS}
    x, y = credit_table(options.data / "german_credit_numeric.csv")
    known[CREDIT] = Case(credit, (x, y), ("log_tau", "b"))
    wanted = [n.strip() for n in options.models.split(";") if n.strip()] or [*MODELS, CREDIT]
    print("| model | form | bound, nats | effective draws per 1000 gradients | R-hat | divergences |")
    print("|---|---|---|---|---|---|", flush=True)
    maps, agreed = {}, []
    for name in wanted:
        rows, maps[name] = compared(known[name], options.seeds)
        for kind, (bound, each, rhat, divergent) in rows.items():
            print(f"| {name} | {kind} | {bound:.2f} | {each:.1f} | {rhat:.3f} | {divergent} |", flush=True)
        bounds, worth = zip(*[(b, e) for b, e, *_ in rows.values()], strict=True)
        agreed.append(float(spearmanr(bounds, worth).statistic))
    print(
        f"\nrank correlation of bound and effective draws, by model: {', '.join(f'{r:.1f}' for r in agreed)}"
    )
    print("\n| model | degrees | of every element |\n|---|---|---|")
    for name, shades in maps.items():
        for kind, text in shades.items():
            print(f"| {name} | {kind} | `{text}` |")


if __name__ == "__main__":
    main()
