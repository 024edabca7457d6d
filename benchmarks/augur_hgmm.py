"""AugurV2's Gaussian mixture (Huang, Tristan and Morrisett 2017, table 2 and figure 10) against JAGS.

    python benchmarks/augur_hgmm.py [k,d,n ...] [--jags-cap SECONDS] [--draws 150]

Both draw from the same posterior, one chain. Set-up (analysis and compilation; for JAGS, compiling and
initialising its graph) and draws are timed apart. A run of JAGS that passes its cap is stopped, and what it
had done by then is a bound. The last columns are held-out log predictive probability per point after the
draws, averaged over their second half.
"""

import argparse
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp

SIZES = ["3,2,1000", "3,2,10000", "10,2,10000", "3,10,10000", "10,10,10000"]
SCHEDULES = {
    "Gibbs": None,
    "ESlice": "Conjugate pi (*) ESlice mu (*) Conjugate cov (*) Gibbs z",
    "HMC": "Conjugate pi (*) HMC(step_size=0.02, num_steps=5, adapt_step_size=False, "
    "adapt_mass_matrix=False) mu (*) Conjugate cov (*) Gibbs z",
}

JAGS_MODEL = """
model {
  pi ~ ddirch(alpha)
  for (j in 1:k) {
    mu[j, 1:d] ~ dmnorm(zero, eye)
    omega[j, 1:d, 1:d] ~ dwish(eye, d + 3)
  }
  for (i in 1:n) {
    z[i] ~ dcat(pi)
    y[i, 1:d] ~ dmnorm(mu[z[i], 1:d], omega[z[i], 1:d, 1:d])
  }
}
"""


def hgmm(y, k):
    d = y.shape[1]
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.full(k, 1 / k)))
    with numpyro.plate("k", k):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.zeros(d), jnp.eye(d)))
        cov = numpyro.sample("cov", dist.InverseWishart(d + 3.0, jnp.eye(d)))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(pi))
        numpyro.sample("y", dist.MultivariateNormal(mu[z], cov[z]), obs=y)


def simulated(k, d, n, seed=0):
    """Train and test points of a mixture with means drawn twice as wide as the prior's."""
    rng = np.random.default_rng(seed)
    mu = 2 * rng.normal(size=(k, d))
    z = rng.integers(k, size=2 * n)
    y = (mu[z] + 0.5 * rng.normal(size=(2 * n, d))).astype(np.float32)
    return y[:n], y[n:]


@jax.jit
def predictive(pi, mu, cov, y):
    """Mean log probability of the rows of `y` under one draw."""
    parts = jax.vmap(lambda m, c: dist.MultivariateNormal(m, c).log_prob(y))(mu, cov)
    return logsumexp(parts + jnp.log(pi)[:, None], axis=0).mean()


def score(draws, y):
    half = len(draws["pi"]) // 2
    return float(
        np.mean([predictive(*(draws[s][i] for s in ("pi", "mu", "cov")), y) for i in range(half, 2 * half)])
    )


def gibbsite(y, k, draws, text):
    start = time.perf_counter()
    plan = gb.model(hgmm, y, k=k).schedule(text).plan()
    kwargs = {"_gibbsite_inputs": plan.inputs}
    state = plan.kernel.init(jax.random.key(0), 0, None, (), kwargs)

    def body(state, _):
        state = plan.kernel.sample(state, (), kwargs)
        return state, {s: state.z[s] for s in ("pi", "mu", "cov")}

    compiled = jax.jit(lambda s: jax.lax.scan(body, s, None, length=draws)).lower(state).compile()
    ready = time.perf_counter()
    _, trail = jax.block_until_ready(compiled(state))
    # `mu` is real, so that the values that HMC keeps are the site's own
    return ready - start, time.perf_counter() - ready, trail


def stages(folder, commands, cap):
    """Seconds that each command of a script took, as far as it came within `cap` seconds in all."""
    Path(folder, "script").write_text("".join(f"{c}\npwd\n" for c in commands))
    command = ["stdbuf", "-oL", "jags", "script"]
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen(command, cwd=folder, text=True, stdout=pipe, stderr=joined)
    lines: queue.Queue = queue.Queue()
    assert process.stdout is not None
    out = process.stdout
    threading.Thread(target=lambda: [lines.put((time.perf_counter(), s)) for s in out], daemon=True).start()
    marks = [time.perf_counter()]
    while len(marks) <= len(commands):
        try:
            at, line = lines.get(timeout=max(marks[0] + cap - time.perf_counter(), 0.01))
        except queue.Empty:
            break
        if "rror" in line:
            raise RuntimeError(line)
        if "/" in line:
            marks.append(at)
    process.kill()
    process.wait()
    return list(np.diff(marks))


def jags(y, k, draws, cap):
    """Seconds of set-up, seconds per draw, and draws done within the cap; None for what never came."""
    n, d = y.shape
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "m.bug").write_text(JAGS_MODEL)
        eye = ",".join(str(float(v)) for v in np.eye(d).ravel())
        rows = ",".join(f"{v:.6f}" for v in y.T.ravel())
        text = f"k <- {k}\nd <- {d}\nn <- {n}\nalpha <- c({','.join([str(1 / k)] * k)})\n"
        text += f"zero <- c({','.join(['0'] * d)})\neye <- structure(c({eye}), .Dim=c({d},{d}))\n"
        text += f"y <- structure(c({rows}), .Dim=c({n},{d}))\n"
        Path(folder, "d.R").write_text(text)
        ready = ["model in m.bug", "data in d.R", "compile", "initialize"]
        took = stages(folder, ready + ["update 5, by(5)"] * (draws // 5), cap)
    setup, rest = took[2:4], took[4:]
    if len(setup) < 2:
        return None, None, 0
    return sum(setup), sum(rest) / (5 * len(rest)) if rest else None, 5 * len(rest)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--jags-cap", type=float, default=900.0)
    parser.add_argument("--draws", type=int, default=150)
    given = parser.parse_args()
    print("| k, d, n | sampler | set-up, s | draws, s | ms per draw | JAGS / ours, per draw | held-out |")
    print("|---|---|---|---|---|---|---|")
    for size in given.sizes:
        k, d, n = map(int, size.split(","))
        y, test = simulated(k, d, n)
        each = {}
        for name, text in SCHEDULES.items():
            setup, spent, draws = gibbsite(y, k, given.draws, text)
            each[name] = spent / given.draws
            held = score(draws, test)
            row = f"| {size} | {name} | {setup:.1f} | {spent:.2f} | {1e3 * each[name]:.1f} | | {held:.3f} |"
            print(row, flush=True)
        setup, per, done = jags(y, k, given.draws, given.jags_cap)
        if setup is None:
            print(f"| {size} | JAGS | > {given.jags_cap:.0f} | | | | |", flush=True)
        elif per is None:
            print(f"| {size} | JAGS | {setup:.1f} | none in the cap | | | |", flush=True)
        else:
            ratio = per / each["Gibbs"]
            figures = f"{setup:.1f} | {per * done:.1f} | {1e3 * per:.1f} | {ratio:.0f} | |"
            print(f"| {size} | JAGS, {done} draws | {figures}", flush=True)


if __name__ == "__main__":
    main()
