"""AutoGibbs's evaluation: a mixture, a hidden Markov model and an infinite mixture, at growing sizes.

    python benchmarks/autogibbs_table.py [models] [sizes]

Models after Gabler (2020), master's thesis, §4.3; the infinite mixture is a stick truncated at K=10. Per
model and number of observations: seconds from the function to the discrete site's conditional (extraction),
seconds of a run of 4 chains with 500 warm-up steps and 500 draws under the default schedule, compiling
included, and the worst R-hat and effective sample size over the continuous sites' scalars. The mixture's
means start at their priors' centres, which tell its components apart; the sticks of the infinite one can
change places, so that for it the number of components in use is judged instead.
"""

import sys
import time

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from numpyro.contrib.control_flow import scan

SIZES = (10, 25, 50, 1_000, 10_000, 100_000)
STARTS = {"GMM": {"mu": np.array([-5.0, 0.0, 5.0], np.float32)}}


def gmm(x, K=3):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    mu = numpyro.sample("mu", dist.Normal(5.0 * (jnp.arange(K) - 1), 1.0))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def hmm(x, K=3):
    T = numpyro.sample("T", dist.Dirichlet(jnp.ones(K)).expand([K]).to_event(1))
    m = numpyro.sample("m", dist.Normal(jnp.arange(K) * 1.0, 0.1))

    def step(before, y):
        z = numpyro.sample("z", dist.Categorical(T[before]))
        numpyro.sample("x", dist.Normal(m[z], 0.5), obs=y)
        return z, None

    scan(step, 0, x)


def imm(x, K=10, alpha=10.0):
    v = numpyro.sample("v", dist.Beta(1, alpha).expand([K - 1]))
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([K]))
    w = jnp.concatenate([v, jnp.ones(1)]) * jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - v)])
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 0.3), obs=x)


def data(name, n):
    rng = np.random.default_rng(0)
    if name == "GMM":
        return rng.normal(rng.choice([-5.0, 0.0, 5.0], n)).astype(np.float32)
    if name == "IMM":  # Neal's nine points, and more of their kind
        neal = np.array([-1.48, -1.40, -1.16, -1.08, -1.02, 0.14, 0.51, 0.53, 0.78])
        return (np.resize(neal, n) + 0.05 * rng.normal(size=n)).astype(np.float32)
    stay, z = rng.random(n) < 0.8, rng.integers(3, size=n)
    for t in range(1, n):
        z[t] = z[t - 1] if stay[t] else z[t]
    return rng.normal(z, 0.5).astype(np.float32)


def measure(fn, x, start_at):
    start = time.perf_counter()
    model = gb.model(fn, x)
    model.conditional("z")
    extraction = time.perf_counter() - start
    start = time.perf_counter()
    run = model.sample(draws=500, warmup=500, chains=4, seed=0, init=start_at)
    sampling = time.perf_counter() - start
    worst, least = 0.0, np.inf
    judged = [run.draws[n] for n, s in model.sites.items() if s.role == "latent" and not s.discrete]
    if fn is imm:
        judged = [np.apply_along_axis(lambda z: len(np.unique(z)), -1, run.draws["z"])]
    for draws in judged:
        for scalar in draws.reshape(*draws.shape[:2], -1).transpose(2, 0, 1):
            assert np.ptp(scalar) > 0  # constant draws would count as effective
            worst = max(worst, float(array_stats.rhat(scalar, chain_axis=0, draw_axis=1)))
            least = min(least, float(array_stats.ess(scalar, chain_axis=0, draw_axis=1)))
    return extraction, sampling, worst, least


if __name__ == "__main__":
    sizes = [int(n) for n in sys.argv[1:] if n.isdecimal()] or SIZES
    models = {"GMM": gmm, "HMM": hmm, "IMM": imm}
    names = [n for n in sys.argv[1:] if n in models] or list(models)
    print("| model | N | extraction, s | sampling, s | worst R-hat | least ESS of 2000 |")
    print("|---|---|---|---|---|---|")
    for name in names:
        for n in sizes:
            extraction, sampling, rhat, ess = measure(models[name], data(name, n), STARTS.get(name))
            print(
                f"| {name} | {n} | {extraction:.2f} | {sampling:.1f} | {rhat:.2f} | {ess:.0f} |", flush=True
            )
