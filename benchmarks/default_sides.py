"""The sides of `default_sampler.py`: a model and a seed → what a run of one sampler came to."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from default_models import Case
from default_table import Found
from gibbsite.diagnostics.measures.convergence import all_stats, scalar_stat
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
SIDES = ("ours", "interleaved", "numpyro", "nutpie")
_EVERY, _LOOKED_AT = 50, 12


class Clock:
    """Processor seconds of all threads: until `ready`, and from there to `ended`."""

    def __init__(self) -> None:
        self._began = time.process_time()

    def ready(self) -> None:
        """What follows is the run."""
        now = time.process_time()
        self.setup, self._began = now - self._began, now

    def ended(self) -> tuple[float, float]:
        """Seconds of the run, and of what came before it."""
        return time.process_time() - self._began, self.setup


def judged(
    draws: Mapping[str, Any],
    warm: int,
    work: np.ndarray,
    divergent: int,
    warmup: int,
    seconds: tuple[float, float],
) -> Found:
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
    return Found(ess, rhat, int(warm + work.sum()), divergent, goal, warmup, *seconds)


def twice(case: Case, seed: int, asked: Mapping[str, Any]) -> tuple[gb.Model, gb.Run, tuple[float, float]]:
    """A run that compiles whatever it needs, and the same again, to the bit: the model, the second run, its
    processor seconds and those that the first one took more."""
    clock = Clock()
    model = gb.model(case.fn, *case.args)
    again = partial(model.sample, seed=seed, chains=CHAINS, draws=STEPS, **asked)
    again()
    clock.ready()
    run = again()
    seconds, first = clock.ended()
    return model, run, (seconds, first - seconds)


def ours(case: Case, seed: int, warmup: Any, **asked: Any) -> Found:
    """A run at the defaults, or with this warm-up and other options."""
    asked |= {} if warmup is None else {"warmup": warmup}
    model, run, seconds = twice(case, seed, asked)
    parts = run.kept.warm_stats.read(), run.kept.sampled_stats.read()
    exact = sum(not any(n.startswith(f"{i}.n_steps") for n in parts[1]) for i in range(len(run._plan.blocks)))

    def work(stats: Mapping[str, Any], steps: int) -> np.ndarray:
        taken = [v.sum(0) for n, v in stats.items() if n.endswith("n_steps")]
        return sum(taken, np.full(steps, CHAINS * exact))

    warm = run.kept.warm_stats.steps
    divergent = sum(int(v.sum()) for n, v in parts[1].items() if n.endswith("diverging"))
    latents = {n: v for n, v in run.draws.items() if model.sites[n].role == "latent"}
    return judged(latents, int(work(parts[0], warm).sum()), work(parts[1], STEPS), divergent, warm, seconds)


def interleaved(case: Case, seed: int, warmup: Any) -> Found:
    """Trajectories of a centred and of a non-centred form in turn, as the interleaved HMC of Gorinova, Moore
    and Hoffman (2020) has them: theirs of a fixed length, these NUTS's, at NumPyro's acceptance of .8."""
    latents = [n for n, s in gb.model(case.fn, *case.args).sites.items() if s.role == "latent"]
    nuts = "NUTS(target_accept_prob=0.8)"
    text = f"Interleave({nuts} centred, {nuts} non-centred) [{' '.join(latents)}]"
    return ours(case, seed, warmup, schedule=text)


def numpyro_drawn(
    case: Case, seed: int, fn: Callable[..., None]
) -> tuple[Any, Any, Any, tuple[float, float]]:
    """NumPyro's NUTS, 1000 + 1000 steps, as one compiled program: draws of the last 1000 `[chain, draw, …]`
    by site, gradients and divergences `[step, chain]` of all, processor seconds of the run and before it."""
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

    clock, key = Clock(), jax.random.key(seed)
    compiled = program.lower(key, arrays).compile()
    clock.ready()
    values, steps, diverging = jax.device_get(compiled(key, arrays))
    seconds = clock.ended()
    draws = {n: np.moveaxis(v[STEPS:], 1, 0) for n, v in values.items() if "_decentered" not in n}
    return draws, steps, diverging, seconds


def numpyro_nuts(case: Case, seed: int, fn: Callable[..., None]) -> Found:
    """The figures of `numpyro_drawn`."""
    draws, steps, diverging, seconds = numpyro_drawn(case, seed, fn)
    steps = steps.sum(1)
    return judged(
        draws, int(steps[:STEPS].sum()), steps[STEPS:], int(diverging[STEPS:].sum()), STEPS, seconds
    )


def by_nutpie(
    fn: Callable[..., None], clock: Clock | None = None
) -> Callable[[int], tuple[Any, dict[str, Any]]]:
    """nutpie's defaults on the potential that NumPyro makes of a model: from a seed to nutpie's own tree and
    the draws `[chain, draw, …]` of the sites."""
    info = initialize_model(jax.random.key(0), fn, dynamic_args=False)
    first, unravel = ravel_pytree(info.param_info.z)
    both = jax.jit(jax.value_and_grad(lambda u: -info.potential_fn(unravel(u))))
    values = jax.jit(jax.vmap(jax.vmap(lambda u: info.postprocess_fn(unravel(u)))))

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

    density(np.asarray(first))

    def drawn(seed: int) -> tuple[Any, dict[str, Any]]:
        if clock:
            clock.ready()
        found = nutpie.sample(compiled, chains=CHAINS, cores=1, seed=seed, progress_bar=False)
        draws = values(jnp.asarray(np.asarray(found.posterior["u"]), first.dtype))
        return found, {n: v for n, v in draws.items() if "_decentered" not in n}

    return drawn


def nutpie_nuts(case: Case, seed: int, fn: Callable[..., None]) -> Found:
    clock = Clock()
    found, draws = by_nutpie(partial(fn, *case.args), clock)(seed)
    seconds = clock.ended()
    steps = [np.asarray(s["n_steps"]).sum(0) for s in (found.warmup_sample_stats, found.sample_stats)]
    divergent = int(np.asarray(found.sample_stats["diverging"]).sum())
    return judged(draws, int(steps[0].sum()), steps[1], divergent, len(steps[0]), seconds)


def forms(case: Case) -> dict[str, Callable[..., None]]:
    """What NUTS needs of the model: as written or with discrete sites summed out, and non-centred."""
    fn = case.summed or case.fn
    found = {"as written": fn}
    if case.hierarchy:
        found["non-centred"] = reparam(
            fn, config={n: LocScaleReparam(0.0, case.shape_params) for n in case.hierarchy}
        )
    return found


def samplers(case: Case, sides: tuple[str, ...], warmup: Any) -> dict[str, Callable[[int], Found]]:
    """By name, what runs it from a seed."""
    found: dict[str, Callable[[int], Found]] = {}
    if "ours" in sides:
        found["ours"] = partial(ours, case, warmup=warmup)
    if "interleaved" in sides and case.hierarchy and not case.summed:
        found["interleaved"] = partial(interleaved, case, warmup=warmup)
    for form, fn in forms(case).items():
        if "numpyro" in sides:
            found[f"NumPyro, {form}"] = partial(numpyro_nuts, case, fn=fn)
        if "nutpie" in sides and nutpie is not None:
            found[f"nutpie, {form}"] = partial(nutpie_nuts, case, fn=fn)
    return found
