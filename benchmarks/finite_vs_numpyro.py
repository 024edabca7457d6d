"""One sweep over a discrete site, and effective draws per second, against NumPyro's kernels and JAGS.

    python benchmarks/finite_vs_numpyro.py [N]

The model is a mixture of three normals with N = 4000 points. Against NumPyro, both sides are
`numpyro.infer.Gibbs` with the same HMC (fixed step size and length) over the means and weights, started at
the same values; only the block for `z` differs. That block alone is timed, then whole steps, then the
effective sample size of the means per second, from `MCMC`. Against JAGS, both sides update `z`, the
means and the weights by Gibbs steps, and a whole sweep is timed.
"""

import platform
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from gibbsite.kernels.blocks.finite import FiniteGibbs
from numpyro.distributions import biject_to
from numpyro.infer import HMC, MCMC, DiscreteGibbs, Gibbs
from numpyro.infer.gibbs import GIBBS_SITES_KWARG
from sweep_handwritten import gmm
from timing import interleaved

STEP = {"step_size": 0.01, "num_steps": 5, "trajectory_length": None, "adapt_step_size": False,
        "adapt_mass_matrix": False}  # fmt: skip
START = {"w": jnp.array([0.2, 0.3, 0.5]), "mu": jnp.array([-3.0, 0.0, 3.0])}


def data(n):
    rng = np.random.default_rng(0)
    z = rng.choice(3, n, p=np.asarray(START["w"]) / float(START["w"].sum()))
    return jnp.asarray(rng.normal(np.asarray(START["mu"])[z]), jnp.float32), jnp.asarray(z, jnp.int32)


def sweeps_of(kernel, x, z, count):
    """`count` updates of `z` alone in one compiled loop: latents and data are arguments."""
    given = {GIBBS_SITES_KWARG: START}
    state = kernel.init(jax.random.key(0), 0, {"z": z}, (x,), given)

    @jax.jit
    def run(state, x):
        return jax.lax.fori_loop(0, count, lambda _, s: kernel.sample(s, (x,), given), state)

    return lambda: run(state, x)


def effective(kernel, x, z, draws):
    """Draws of the means, seconds per step, and their smallest effective sample size per second."""
    mcmc = MCMC(kernel, num_warmup=0, num_samples=draws, progress_bar=False)
    first = {"w": biject_to(dist.constraints.simplex).inv(START["w"]), "mu": START["mu"], "z": z}
    run = partial(mcmc.run, extra_fields=(), init_params=first)
    run(jax.random.key(0), x)  # compiles
    start = time.perf_counter()
    run(jax.random.key(1), x)
    jax.block_until_ready(mcmc.get_samples())
    seconds = time.perf_counter() - start
    mu = np.asarray(mcmc.get_samples()["mu"])
    assert np.all(np.ptp(mu, axis=0) > 0)  # constant draws would count as effective
    ess = min(float(array_stats.ess(mu[None, :, k], chain_axis=0, draw_axis=1)) for k in range(3))
    return seconds / draws, ess, ess / seconds


JAGS_MODEL = """model {
  w ~ ddirch(ones)
  for (k in 1:3) { mu[k] ~ dnorm(0, 0.04) }
  for (n in 1:N) { z[n] ~ dcat(w)  x[n] ~ dnorm(mu[z[n]], 1) }
}
"""


def jags_seconds(x, sweeps):
    """Wall time of a JAGS process that compiles the model and updates it `sweeps` times."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        numbers = ", ".join(f"{v:.6f}" for v in np.asarray(x))
        (home / "model.bug").write_text(JAGS_MODEL)
        (home / "data.R").write_text(f"N <- {len(x)}\nones <- c(1,1,1)\nx <- c({numbers})\n")
        (home / "inits.R").write_text(
            'mu <- c(-3, 0, 3)\n`.RNG.name` <- "base::Mersenne-Twister"\n`.RNG.seed` <- 1\n'
        )
        (home / "run.cmd").write_text(
            "model in model.bug\ndata in data.R\ncompile\nparameters in inits.R\ninitialize\n"
            f"update 100\nmonitor mu\nupdate {sweeps}\ncoda *\n"
        )
        start = time.perf_counter()
        done = subprocess.run(["jags", "run.cmd"], cwd=home, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - start
        drawn = np.loadtxt(home / "CODAchain1.txt")
        assert len(drawn) == 3 * sweeps, done.stdout
        return seconds, drawn[:, 1].reshape(3, sweeps)


def gibbs_seconds(x, sweeps):
    """Seconds per sweep of a compiled loop over Gibbsite's default schedule for conjugate models."""
    model = gb.model(gmm, x)
    plan = model.plan("Gibbs z (*) Conjugate mu (*) Conjugate w")
    kwargs = {"_gibbsite_inputs": plan.inputs}
    state = plan.kernel.init(jax.random.key(0), 0, None, (), kwargs)

    @jax.jit
    def run(state):
        def body(s, _):
            s = plan.kernel.sample(s, (), kwargs)
            return s, plan.kernel.postprocess_fn((), kwargs)(s.z)["mu"]

        return jax.lax.scan(body, state, None, length=sweeps)

    state, _ = jax.block_until_ready(run(state))
    start = time.perf_counter()
    _, mu = jax.block_until_ready(run(state))
    return (time.perf_counter() - start) / sweeps, np.asarray(mu)


def main(n=4000):
    x, z = data(n)
    versions = f"numpyro {numpyro.__version__}, jax {jax.__version__}, python {platform.python_version()}"
    print(f"{versions}; N={n}, K=3")
    print("| | Gibbsite | other | ratio |")
    print("|---|---|---|---|")
    counts = {"ours": 100, "theirs": 1}
    kernels = {"ours": FiniteGibbs(gmm), "theirs": DiscreteGibbs(gmm)}
    fns = {name: sweeps_of(kernels[name], x, z, count) for name, count in counts.items()}
    seconds = interleaved(fns, rounds=10)
    a, b = (1e3 * np.median(seconds[name]) / count for name, count in counts.items())
    print(f"| a sweep of `z`, against NumPyro's `DiscreteGibbs` | {a:.3f} ms | {b:.1f} ms | {b / a:.0f}× |")

    ours = Gibbs([(FiniteGibbs(gmm), ["z"]), (HMC(gmm, **STEP), None)])
    theirs = Gibbs([(DiscreteGibbs(gmm), ["z"]), (HMC(gmm, **STEP), None)])
    a, ess_a, rate_a = effective(ours, x, z, 4000)
    b, ess_b, rate_b = effective(theirs, x, z, 200)
    print(f"| a whole step with the same HMC | {1e3 * a:.3f} ms | {1e3 * b:.1f} ms | {b / a:.0f}× |")
    print(f"| ESS of the means per draw | {ess_a / 4000:.2f} | {ess_b / 200:.2f} | |")
    print(f"| ESS of the means per second | {rate_a:.0f} | {rate_b:.2f} | {rate_a / rate_b:.0f}× |")

    ratios, pairs = [], []
    for _ in range(3):
        a, mu = gibbs_seconds(x, 2000)
        short, _ = jags_seconds(x, 100)
        long, theirs_mu = jags_seconds(x, 500)
        b = (long - short) / 400
        ratios.append(b / a)
        pairs.append((a, b))
    # the same posterior, or the sweeps would not be worth comparing; components may be named differently
    means, others = np.sort(mu, 1).mean(0), np.sort(theirs_mu, 0).mean(1)
    assert np.all(np.abs(means - others) < 6 * np.sort(mu, 1).std(0) / np.sqrt(50)), (means, others)
    a, b = (1e3 * np.median(v) for v in zip(*pairs, strict=True))
    what, ratio = "a sweep of `z`, means and weights, against JAGS", np.median(ratios)
    print(f"| {what} | {a:.3f} ms | {b:.1f} ms | {ratio:.0f}× |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
