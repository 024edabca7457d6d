"""AugurV2's Gaussian mixture (Huang, Tristan and Morrisett 2017, table 2 and figure 10) against JAGS.

    python benchmarks/augur_hgmm.py [k,d,n ...] [--jags-cap SECONDS] [--draws 150] [--only table|reach|sweep]

Three tables. `table`: one chain each; set-up (analysis and compilation; for JAGS, compiling and initialising
its graph) and draws timed apart, with the effective draws per draw of the score below; a run of JAGS that
passes its cap is stopped, and what it had done by then is a bound. `reach`: seconds of sampling until the
held-out log predictive probability per point, averaged over chains, has come within given distances of the
best that any schedule reached (AugurV2's figure 10 as a table). `sweep`: a sweep of the derived schedule
against the same four draws written by hand in JAX, interleaved.

The score by which samplers are compared is the mean log density of held-out points given the means,
covariances and weights of a draw; relabelling components does not change it.
"""

import argparse
import os
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
from arviz_stats import ess
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from sweep_handwritten import draw
from timing import interleaved, report

SIZES = ["3,2,1000", "3,2,10000", "10,2,10000", "3,10,10000", "10,10,10000"]
SCHEDULES = {
    "Gibbs": None,
    "ESlice": "Conjugate pi (*) ESlice mu (*) Conjugate cov (*) Gibbs z",
    "HMC": "Conjugate pi (*) HMC(num_steps=10) mu (*) Conjugate cov (*) Gibbs z",
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


def scores(trail, y):
    """Of every draw, in order."""
    each = zip(*(np.asarray(trail[s], np.float32) for s in ("pi", "mu", "cov")), strict=True)
    return np.array([float(predictive(*draw, y)) for draw in each])


def effective(values):
    """Effective draws per draw of the second half of a chain of scores."""
    half = values[len(values) // 2 :]
    return float(ess(half[None])) / len(half)


def compiled(y, k, draws, text):
    """Seconds of set-up, and a function of a seed that returns seconds of sampling and the trail."""
    start = time.perf_counter()
    plan = gb.model(hgmm, y, k=k).schedule(text).plan()

    def run(key, inputs):
        kwargs = {"_gibbsite_inputs": inputs}
        # HMC adapts its step size in the first third
        state = plan.kernel.init(key, draws // 3, None, (), kwargs)

        def body(state, _):
            state = plan.kernel.sample(state, (), kwargs)
            return state, {s: state.z[s] for s in ("pi", "mu", "cov")}

        return jax.lax.scan(body, state, None, length=draws)[1]

    program = jax.jit(run).lower(jax.random.key(0), plan.inputs).compile()

    def sampled(seed):
        begun = time.perf_counter()
        trail = jax.block_until_ready(program(jax.random.key(seed), plan.inputs))
        # `mu` is real, so that the values that HMC keeps are the site's own
        return time.perf_counter() - begun, trail

    return time.perf_counter() - start, sampled


def by_hand(y, k):
    """One sweep in plain JAX, each draw as one would write it."""
    n, d = y.shape

    @jax.jit
    def sweep(key, pi, mu, cov, z, y):
        k_z, k_pi, k_mu, k_cov, key = jax.random.split(key, 5)
        factors = jnp.linalg.cholesky(cov)
        inverse = jax.vmap(lambda L: solve_triangular(L, jnp.eye(d), lower=True))(factors)
        logits = []
        for j in range(k):
            logdet = jnp.log(jnp.diag(factors[j])).sum()
            logits.append(jnp.log(pi[j]) - logdet - 0.5 * (((y - mu[j]) @ inverse[j].T) ** 2).sum(-1))
        z = draw(jax.random.uniform(k_z, (n,)), logits)
        mine = (z[:, None] == jnp.arange(k)).astype(y.dtype)
        counts = mine.sum(0)
        pi = jax.random.dirichlet(k_pi, 1 / k + counts)
        precision = jnp.swapaxes(inverse, -1, -2) @ inverse
        factor = jnp.linalg.cholesky(jnp.eye(d) + counts[:, None, None] * precision)
        vector = (precision @ (mine.T @ y)[..., None])[..., 0]
        mean = jax.vmap(lambda f, v: jax.scipy.linalg.cho_solve((f, True), v))(factor, vector)
        noise = jax.random.normal(k_mu, (k, d))
        mu = mean + jax.vmap(lambda f, e: solve_triangular(f, e, trans="T", lower=True))(factor, noise)
        away = y - mu[z]
        scatter = ((mine[:, :, None] * away[:, None, :]).reshape(n, k * d).T @ away).reshape(k, d, d)
        cov = dist.InverseWishart(d + 3.0 + counts, scale_matrix=jnp.eye(d) + scatter).sample(k_cov)
        return key, pi, mu, cov, z

    state = {
        "all": (
            jax.random.key(1),
            jnp.full(k, 1 / k),
            jax.random.normal(jax.random.key(2), (k, d)),
            jnp.broadcast_to(jnp.eye(d), (k, d, d)),
            jnp.zeros(n, jnp.int32),
        )
    }
    data = jnp.asarray(y)

    def step():
        state["all"] = sweep(*state["all"], data)
        return state["all"]

    return step


def derived(y, k):
    """One sweep of the default schedule."""
    plan = gb.model(hgmm, y, k=k).schedule().plan()
    start = jax.jit(lambda key, inputs: plan.kernel.init(key, 0, None, (), {"_gibbsite_inputs": inputs}))
    sweep = jax.jit(lambda s, inputs: plan.kernel.sample(s, (), {"_gibbsite_inputs": inputs}))
    state = {"all": start(jax.random.key(0), plan.inputs)}

    def step():
        state["all"] = sweep(state["all"], plan.inputs)
        return state["all"].z

    return step


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
        if line.startswith(os.sep) or f". {os.sep}" in line:
            marks.append(at)
    process.kill()
    process.wait()
    return list(np.diff(marks))


def jags(y, k, draws, cap):
    """Seconds of set-up and per draw, draws done within the cap, their trail; None for what never came."""
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
        ready += [f"monitor {s}" for s in ("pi", "mu", "omega")]
        took = stages(folder, [*ready, *["update 5, by(5)"] * (draws // 5), "coda *"], cap)
        found = coda(folder, k, d, draws) if len(took) == len(ready) + draws // 5 + 1 else None
    setup, rest = took[2:4], took[len(ready) :][: draws // 5]
    if len(setup) < 2:
        return None, None, 0, None
    return sum(setup), sum(rest) / (5 * len(rest)) if rest else None, 5 * len(rest), found


def coda(folder, k, d, draws):
    """What JAGS monitored, as our samplers return it."""
    values = np.loadtxt(Path(folder, "CODAchain1.txt"))[:, 1].reshape(-1, draws).T
    pi, mu, omega = np.split(values, np.cumsum([k, k * d]), axis=1)
    # JAGS writes arrays with the first index fastest
    omega = omega.reshape(draws, d, d, k).transpose(0, 3, 1, 2)
    return {"pi": pi, "mu": mu.reshape(draws, d, k).transpose(0, 2, 1), "cov": np.linalg.inv(omega)}


def table(size, y, test, k, given):
    """Set-up, draws and their worth, beside JAGS."""
    each = {}
    for name, text in SCHEDULES.items():
        setup, sampled = compiled(y, k, given.draws, text)
        spent, trail = sampled(0)
        found = scores(trail, test)
        each[name] = spent / given.draws
        print(
            f"| {size} | {name} | {setup:.1f} | {spent:.2f} | {1e3 * each[name]:.1f} | "
            f"{effective(found):.2f} | | {found[len(found) // 2 :].mean():.3f} |",
            flush=True,
        )
    setup, per, done, trail = jags(y, k, given.draws, given.jags_cap)
    if setup is None or per is None:
        told = f"> {given.jags_cap:.0f}" if setup is None else f"{setup:.1f}"
        print(f"| {size} | JAGS | {told} | none in {given.jags_cap:.0f} s | | | | |", flush=True)
        return
    found = None if trail is None else scores(trail, test)
    worth = "" if found is None else f"{effective(found):.2f}"
    held = "" if found is None else f"{found[len(found) // 2 :].mean():.3f}"
    print(
        f"| {size} | JAGS, {done} draws | {setup:.1f} | {per * done:.1f} | {1e3 * per:.1f} | {worth} | "
        f"{per / each['Gibbs']:.0f} | {held} |",
        flush=True,
    )


NEAR = (0.5, 0.1, 0.02)


def reach(size, y, test, k, given, seeds=3):
    """Seconds until the mean score of the chains has come near the best."""
    curves, seconds = {}, {}
    for name, text in SCHEDULES.items():
        _, sampled = compiled(y, k, 3 * given.draws, text)
        runs = [sampled(seed) for seed in range(seeds)]
        curves[name] = np.mean([scores(trail, test) for _, trail in runs], axis=0)
        seconds[name] = np.median([s for s, _ in runs]) / (3 * given.draws)
    best = max(c[-given.draws :].mean() for c in curves.values())
    for name, curve in curves.items():
        cells = []
        for near in NEAR:
            there = np.flatnonzero(curve > best - near)
            cells.append(f"{(there[0] + 1) * seconds[name]:.3f}" if len(there) else "not in the run")
        told = " | ".join(cells)
        print(f"| {size} | {name} | {told} | {curve[-given.draws :].mean():.3f} |", flush=True)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--jags-cap", type=float, default=900.0)
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--only", choices=["table", "reach", "sweep"])
    given = parser.parse_args()
    heads = {
        "table": "k, d, n | sampler | set-up, s | draws, s | ms per draw | ESS per draw "
        "| JAGS / ours, per draw | held-out",
        "reach": f"k, d, n | sampler | {' | '.join(f's to within {n}' for n in NEAR)} | at the end",
        "sweep": "k, d, n | derived, ms (min / median) | by hand, ms | ratio of minima | of medians",
    }
    for what in [given.only] if given.only else list(heads):
        print(f"\n| {heads[what]} |\n|{'---|' * (heads[what].count('|') + 1)}")
        for size in given.sizes:
            k, d, n = map(int, size.split(","))
            y, test = simulated(k, d, n)
            if what == "sweep":
                both = {"ours": derived(y, k), "hand": by_hand(y, k)}
                print(report(size, interleaved(both, 40), "ours", "hand"), flush=True)
            else:
                {"table": table, "reach": reach}[what](size, y, test, k, given)


if __name__ == "__main__":
    main()
