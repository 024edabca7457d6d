"""Size of the analysed program and time to compile one update, at many observations against few, and what the
update then takes; then whole runs of a looped model, from the function to the last draw.

    python benchmarks/flat_cost.py
"""

import time

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.density import rerolled
from sweep_handwritten import gmm, hmm_scan


def looped(x, K=3):
    P = numpyro.sample("P", dist.Dirichlet(jnp.ones(K)).expand([K]).to_event(1))
    m = numpyro.sample("m", dist.Normal(0, 1).expand([K]).to_event(1))
    p = jnp.ones(K) / K
    for t in range(len(x)):
        s = numpyro.sample(f"s[{t}]", dist.Categorical(p))
        numpyro.sample(f"x[{t}]", dist.Normal(m[s], 0.5), obs=x[t])
        p = P[s]


def changepoint(x):
    """As many values of the site as observations; each observation tells on which side of it it lies."""
    tau = numpyro.sample("tau", dist.DiscreteUniform(1, len(x)))
    m = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.sample("x", dist.Normal(jnp.where(jnp.arange(len(x)) < tau, m[0], m[1]), 1).to_event(1), obs=x)


def measure(fn, site, n):
    x = jnp.asarray(np.random.default_rng(0).normal(size=n), jnp.float32)
    start = time.perf_counter()
    model = gb.model(fn, x)
    traced = time.perf_counter() - start
    density = rerolled(model.density)
    c = model.conditional(site)
    state = {s: jnp.ones(density.sites[s].shape) / 3 for s in density.latents if s != site}
    times = []
    for _ in range(3):
        jax.clear_caches()
        start = time.perf_counter()
        call = (jax.random.key(0), state, tuple(model.density.arguments.arrays))
        update = jax.jit(c.update).lower(*call).compile()
        times.append(time.perf_counter() - start)
    once = median_seconds(lambda: jax.block_until_ready(update(*call)))
    return len(density.closed.jaxpr.eqns), traced, min(times), once


def median_seconds(call, repeats=20):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def whole_run(n):
    """Seconds to analyse a looped model, and to compile and run its default schedule for 100 + 100 steps."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=n), jnp.float32)
    jax.clear_caches()
    start = time.perf_counter()
    model = gb.model(looped, x)
    analysed = time.perf_counter()
    run = model.sample(draws=100, warmup=100, chains=2, seed=0)
    assert run.draws["s"].shape == (2, 100, n)
    return analysed - start, time.perf_counter() - analysed


if __name__ == "__main__":
    print(
        "| model | N | equations | trace and analysis, s | compile, s | against the smallest | update, ms |"
    )
    print("|---|---|---|---|---|---|---|")
    cases = [
        ("plate (GMM)", gmm, "z", (100, 100_000)),
        ("scan (HMM)", hmm_scan, "z", (100, 100_000)),
        ("change point", changepoint, "tau", (100, 100_000)),
        ("Python loop (HMM)", looped, "s", (10, 100, 1000)),
    ]
    for name, fn, site, sizes in cases:
        first = None
        for n in sizes:
            equations, traced, compiled, once = measure(fn, site, n)
            first = first or (equations, compiled)
            ratios = f"{equations / first[0]:.1f}×, {compiled / first[1]:.2f}×"
            costs = f"{traced:.2f} | {compiled:.2f} | {ratios} | {1e3 * once:.2f}"
            print(f"| {name} | {n} | {equations} | {costs} |", flush=True)
    print(
        "\n| whole run of the looped HMM: sites | trace and analysis, s | compile, 200 steps of 2 chains, s |"
    )
    print("|---|---|---|")
    for n in (10, 100, 1000):
        print("| {} | {:.1f} | {:.1f} |".format(2 * n, *whole_run(n)), flush=True)
