"""AutoGibbs's experiment as its author ran it: Gibbs by derived conditionals beside particle Gibbs.

    python benchmarks/particle_gibbs.py [--models GMM HMM IMM] [--sizes 10 25 50] [--draws N] [--seeds N]

The three models of Gabler (2020, §4.3) with the priors of its programs: a mixture and a hidden Markov model
of three states, a Dirichlet process cut off at ten sticks. Discrete sites are drawn by Gibbsite's
conditionals (*AutoGibbs's schedule*) or by conditional SMC of 100 particles (Andrieu, Doucet and Holenstein
2010), written here as a kernel of one's own; the rest by ten leapfrog steps of .05, as there; and all by the
default schedule. The thesis has nine figures and no table: it found particle Gibbs slower at every size, and
mixing comparable.

Told are, of 4 chains, R-hat and the fewest effective draws among three numbers that do not depend on what
components are called (the log likelihood, how many components are in use, and the mean of the fifth datum),
and these draws per processor second of a second run, in which nothing is compiled. Mean and Monte Carlo
error of the number of components are there because all three must agree.
"""

import argparse
import time
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from gibbsite.kernels.base import SiteKernel, step_info
from gibbsite.plans.schedule.registry import kernel_row, register_kernel
from numpyro.contrib.control_flow import scan

S = numpyro.sample
LEAPFROG = "HMC(num_steps=10, step_size=.05)"
NEAL = np.array([-1.48, -1.40, -1.16, -1.08, -1.02, 0.14, 0.51, 0.53, 0.78])


def gmm(x: Any, K: int = 3) -> None:
    mu = S("mu", dist.Normal(0.0, 1.0).expand([K]))
    w = S("w", dist.Dirichlet(jnp.ones(K)))
    with numpyro.plate("n", len(x)):
        z = S("z", dist.Categorical(w))
        S("x", dist.Normal(mu[z], 1.0), obs=x)


def hmm(x: Any, K: int = 3) -> None:
    T = S("T", dist.Dirichlet(jnp.ones(K)).expand([K]).to_event(1))
    mu = S("mu", dist.Normal(jnp.arange(1.0, K + 1), 0.5))

    def step(row: Any, y: Any) -> tuple[Any, None]:
        z = S("z", dist.Categorical(row))
        S("x", dist.Normal(mu[z], 0.1), obs=y)
        return T[z], None

    scan(step, jnp.ones(K) / K, x)


def imm(x: Any, K: int = 10, alpha: float = 10.0) -> None:
    v = S("v", dist.Beta(1.0, alpha).expand([K - 1]))
    w = jnp.concatenate([v, jnp.ones(1)]) * jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - v)])
    numpyro.deterministic("w", w)
    mu = S("mu", dist.Normal(0.0, 1.0).expand([K]))
    with numpyro.plate("n", len(x)):
        z = S("z", dist.Categorical(w))
        S("x", dist.Normal(mu[z], 1.0), obs=x)


MODELS = {"GMM": gmm, "HMM": hmm, "IMM": imm}
SCALE = {"GMM": 1.0, "HMM": 0.1, "IMM": 1.0}
REST = {"GMM": "[mu w]", "HMM": "[mu T]", "IMM": "[mu v]"}


class ParticleGibbs(SiteKernel):
    """Conditional SMC of the labels `z`, whose prior is a chain, or the same for all."""

    def __init__(self, model: Any, particles: int = 100):
        super().__init__(model)
        self._particles = particles

    def check(self, name: str, site: Any) -> None:
        """Labels are what it is for."""

    def step(self, key: Any, z: Any, tuning: Any, target: Any, adapting: Any) -> Any:
        found = {n: site["value"] for n, site in target.trace(z).items()}
        mu, x, old = found["mu"], found["x"], z["z"]
        rows = found["T"] if "T" in found else jnp.broadcast_to(found["w"], (len(mu), len(mu)))
        first = jnp.ones(len(mu)) / len(mu) if "T" in found else found["w"]
        scale, count = SCALE["HMM" if "T" in found else "GMM"], self._particles

        def move(carry: Any, at: Any) -> tuple[Any, Any]:
            z, weight, started = carry
            key, y, kept = at
            key_whence, key_z = jax.random.split(key)
            whence = jax.random.categorical(key_whence, weight, shape=(count,)).at[0].set(0)
            row = jnp.where(started, rows[z[whence]], first)
            new = jax.random.categorical(key_z, jnp.log(row)).at[0].set(kept)
            return (new, dist.Normal(mu[new], scale).log_prob(y), jnp.ones((), bool)), (new, whence)

        key, key_last = jax.random.split(key)
        start = (jnp.zeros(count, old.dtype), jnp.zeros(count), jnp.zeros((), bool))
        (_, weight, _), (every, whence) = jax.lax.scan(move, start, (jax.random.split(key, len(x)), x, old))

        def back(at: Any, step: Any) -> tuple[Any, Any]:
            values, before = step
            return before[at], values[at]

        _, path = jax.lax.scan(back, jax.random.categorical(key_last, weight), (every, whence), reverse=True)
        return {"z": path}, tuning, step_info()


def data(name: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    if name == "IMM":  # Neal's nine points, and more of their kind
        return np.float32(np.resize(NEAL, n) + (0.05 * rng.normal(size=n) if n > len(NEAL) else 0))
    if name == "GMM":
        return np.float32(rng.normal(rng.choice([-2.0, 0.0, 2.0], n)))
    stay, z = rng.random(n) < 0.8, rng.integers(3, size=n)
    for t in range(1, n):
        z[t] = z[t - 1] if stay[t] else z[t]
    return np.float32(rng.normal(z + 1.0, 0.1))


def judged(name: str, run: Any, x: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers that no labels show in, `[chain, draw]`."""
    z, mu = np.asarray(run.draws["z"]), np.asarray(run.draws["mu"])
    mean = np.take_along_axis(mu, z, axis=-1)
    return {
        "log likelihood": np.sum(-0.5 * ((x - mean) / SCALE[name]) ** 2, -1),
        "in use": np.sum(np.diff(np.sort(z, -1), axis=-1) > 0, -1) + 1.0,
        "fifth": mean[..., 4],
    }


def measured(name: str, x: np.ndarray, schedule: str | None, draws: int, seed: int) -> tuple[Any, ...]:
    """R-hat, fewest effective draws, these per processor second, and the number in use with its error."""
    model = gb.model(MODELS[name], x)
    model = model if schedule is None else model.with_schedule(schedule)
    model.sample(draws=20, warmup=500, chains=4, seed=seed + 100)
    began = time.process_time()
    run = model.sample(draws=draws, warmup=500, chains=4, seed=seed)
    seconds = time.process_time() - began
    found = judged(name, run, x)
    moved = [v for v in found.values() if np.ptp(v)]
    rhat = max(float(array_stats.rhat(v, chain_axis=0, draw_axis=1)) for v in moved)
    ess = min(float(array_stats.ess(v, chain_axis=0, draw_axis=1)) for v in moved)
    used = found["in use"]
    error = float(array_stats.mcse(used, chain_axis=0, draw_axis=1)) if np.ptp(used) else 0.0
    return rhat, ess, ess / seconds, float(used.mean()), error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 25, 50])
    parser.add_argument("--draws", type=int, default=2500)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    register_kernel(kernel_row("ParticleGibbs", ParticleGibbs, fits=lambda model, site: None))
    print("| model | N | schedule | R-hat | fewest effective draws | a processor second | in use |")
    print("|---|---|---|---|---|---|---|")
    for name in asked.models:
        rest = f"{LEAPFROG} {REST[name]}"
        sides = {
            "default": None,
            "AutoGibbs's": f"Gibbs z (*) {rest}",
            "particle Gibbs": f"ParticleGibbs z (*) {rest}",
        }
        for n in asked.sizes:
            x = data(name, n)
            for side, schedule in sides.items():
                every = [measured(name, x, schedule, asked.draws, s) for s in range(asked.seeds)]
                rhat, ess, rate, used, _ = np.median(every, axis=0)
                error = np.sqrt(np.mean(np.square([e[-1] for e in every])))
                row = f"{rhat:.3f} | {ess:,.0f} | {rate:,.0f} | {used:.2f} ± {error:.2f}"
                print(f"| {name} | {n} | {side} | {row} |", flush=True)


if __name__ == "__main__":
    main()
