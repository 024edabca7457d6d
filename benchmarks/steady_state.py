"""After warm-up: effective draws per gradient and per processor second, against NumPyro's NUTS.

    python benchmarks/steady_state.py [--draws 9000] [--seeds 3] [--models "eight schools,group counts"]

Four chains; both sides in turn in one process, NumPyro's as written and non-centred, each compiled before
and warmed up by its own rules (1000 steps there, until it has settled here). Counted are the draws alone:
gradients of all chains, processor seconds of all threads with what a run does beside them (watching, storing,
measures in mid-run). The lowest bulk ESS of all scalars counts; a ratio is to the better of NumPyro's forms.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from default_models import Case, cases
from default_sides import CHAINS, forms
from gibbsite.diagnostics.measures.convergence import all_stats
from numpyro.infer import NUTS

MODELS = ("eight schools", "unequal groups with t effects", "group counts", "correlated logistic")
WARMUP = 1000


class Drawn(NamedTuple):
    """Of the draws after warm-up: lowest ESS, largest R-hat, gradients, processor seconds, divergences."""

    ess: float
    rhat: float
    gradients: float
    seconds: float
    divergent: int

    @property
    def rates(self) -> tuple[float, float]:
        """Effective draws per 1000 gradients, and per processor second."""
        return 1000 * self.ess / self.gradients, self.ess / self.seconds


def judged(draws: dict[str, Any], gradients: float, seconds: float, divergent: int) -> Drawn:
    """The figures of draws `[chain, draw, …]`."""
    stats = all_stats({n: np.asarray(v) for n, v in draws.items() if np.asarray(v).dtype.kind == "f"})
    ess, rhat = min(s.ess_bulk for s in stats), max(s.rhat for s in stats)
    return Drawn(ess, rhat, gradients, seconds, divergent)


def ours(case: Case, draws: int) -> Callable[[int], Drawn]:
    """A run of NUTS on all sites, which is not every model's default: eight schools have no gradients."""
    model = gb.model(case.fn, *case.args)

    def run(seed: int) -> Drawn:
        marks: list[tuple[int, float]] = []
        made = model.start(draws=draws, chains=CHAINS, seed=seed, schedule="NUTS *")
        made.subscribe(lambda r: marks.append((r.kept.sampled.steps, time.process_time())))
        made.wait()
        (n, begun), ended = next(m for m in marks if m[0]), next(m for m in marks if m[0] == draws)
        seconds = (ended[1] - begun) * draws / max(draws - n, 1)
        stats = made.kept.sampled_stats.read()
        gradients = sum(float(v.sum()) for name, v in stats.items() if name.endswith("n_steps"))
        divergent = sum(int(v.sum()) for name, v in stats.items() if name.endswith("diverging"))
        latents = {n: v for n, v in made.draws.items() if model.sites[n].role == "latent"}
        return judged(latents, gradients, seconds, divergent)

    return run


def theirs(case: Case, draws: int, fn: Callable[..., None]) -> Callable[[int], Drawn]:
    """NumPyro's NUTS, warm-up and draws as one compiled program each."""
    arrays = [jnp.asarray(a) for a in case.args if isinstance(a, np.ndarray)]
    places = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]

    def kernel_of(arrays: Any) -> Any:
        args = list(case.args)
        for i, a in zip(places, arrays, strict=True):
            args[i] = a
        return NUTS(partial(fn, *args))

    def stepped(kernel: Any, state: Any, steps: int) -> Any:
        def step(state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            return state, (state.z, state.num_steps, state.diverging)

        return jax.lax.scan(step, state, None, length=steps)

    # a kernel is made where it is traced: what it holds is of that program
    kernels = {}

    @jax.jit
    def warm(key: Any, arrays: Any) -> Any:
        kernels["warm"] = kernel = kernel_of(arrays)
        state = kernel.init(jax.random.split(key, CHAINS), WARMUP, None, (), {})
        return stepped(kernel, state, WARMUP)[0]

    @jax.jit
    def draw(key: Any, state: Any, arrays: Any) -> Any:
        kernel = kernel_of(arrays)
        kernel.init(jax.random.split(key, CHAINS), WARMUP, None, (), {})
        _, (z, steps, diverging) = stepped(kernel, state, draws)
        return jax.vmap(jax.vmap(kernel.postprocess_fn((), {})))(z), steps, diverging

    def run(seed: int) -> Drawn:
        key = jax.random.key(seed)
        state = jax.block_until_ready(warm(key, arrays))
        began = time.process_time()
        values, steps, diverging = jax.device_get(draw(key, state, arrays))
        seconds = time.process_time() - began
        values = {n: np.moveaxis(v, 1, 0) for n, v in values.items() if "_decentered" not in n}
        return judged(values, float(steps.sum()), seconds, int(diverging.sum()))

    return run


def told(found: list[Drawn]) -> str:
    """Medians of one side."""
    per_gradient, per_second = np.median([f.rates for f in found], axis=0)
    ess, rhat = np.median([f.ess for f in found]), max(f.rhat for f in found)
    gradients = np.median([f.gradients for f in found])
    astray = "/".join(str(f.divergent) for f in found)
    return f"{per_gradient:.1f}, {per_second:.0f} ({ess:.0f}, {rhat:.3f}; {gradients / 1000:.0f}k; {astray})"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--draws", type=int, default=9000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    print("| model | side | ESS per 1000 gradients, per second (ESS, R-hat; gradients; divergences) |")
    print("|---|---|---|")
    known = cases()
    for name in options.models.split(","):
        case = known[name]
        sides = {"ours": ours(case, options.draws)}
        if not options.only_ours:
            sides |= {form: theirs(case, options.draws, fn) for form, fn in forms(case).items()}
        found: dict[str, list[Drawn]] = {side: [] for side in sides}
        for side in sides.values():
            side(0)  # compiles
        for seed in range(1, options.seeds + 1):
            for side, run in sides.items():
                found[side].append(run(seed))
        for side, runs in found.items():
            print(f"| {name} | {side} | {told(runs)} |", flush=True)
        if len(sides) > 1:
            rates = {s: np.median([f.rates for f in r], axis=0) for s, r in found.items()}
            best = [max(r[i] for s, r in rates.items() if s != "ours") for i in (0, 1)]
            ratio = rates["ours"] / best
            print(f"| {name} | ours / the better | {ratio[0]:.2f}, {ratio[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
