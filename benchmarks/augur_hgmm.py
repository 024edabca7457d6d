"""AugurV2's Gaussian mixture (Huang, Tristan and Morrisett 2017, table 2 and figure 10) against JAGS.

    python benchmarks/augur_hgmm.py [k,d,n ...] [--only jags|table|reach|sweep] [--rows FILE]
        [--jags-cap SECONDS] [--draws 150] [--seconds 10]

`table`: one chain each; set-up (analysis and compilation; for JAGS, compiling and initialising its graph) and
draws timed apart, with the effective draws per draw of the score below. JAGS has one thread and its seconds
are processor time, which other work on the machine does not change; ours are by the clock, and by processor
time of all threads. A run of JAGS whose processor time passes its cap is stopped; what it had done by then
is a bound. `jags`: runs JAGS alone and appends a row per size to FILE; sizes that FILE has are not run again.
`table` takes its rows from there if a FILE is given, and else runs JAGS itself. `reach`: the held-out log
predictive probability per point, averaged over chains, after so many seconds of sampling (AugurV2's figure 10
as a table). `sweep`: a sweep of the derived schedule against the same four draws written by hand in JAX,
interleaved.

The score by which samplers are compared is the mean log density of held-out points given the means,
covariances and weights of a draw; relabelling components does not change it.
"""

import argparse
import json
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
import psutil
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


def clocks():
    """Seconds by the clock, and of processor time of all threads."""
    return np.array([time.perf_counter(), time.process_time()])


def chain(y, k, warmup, text):
    """The first state from a key and the inputs, and the function of a scan that sweeps once and keeps the
    draw; and the inputs."""
    plan = gb.model(hgmm, y, k=k).schedule(text).plan()

    def begin(key, inputs):
        return plan.kernel.init(key, warmup, None, (), {"_gibbsite_inputs": inputs})

    def sweeps(state, inputs, count):
        def body(state, _):
            state = plan.kernel.sample(state, (), {"_gibbsite_inputs": inputs})
            # `mu` is real, so that the values that HMC keeps are the site's own
            return state, {s: state.z[s] for s in ("pi", "mu", "cov")}

        return jax.lax.scan(body, state, None, length=count)

    return begin, sweeps, plan.inputs


def compiled(y, k, draws, warmup, text):
    """Seconds of set-up, and a function of a key that returns the last state and the trail."""
    start = time.perf_counter()
    begin, sweeps, inputs = chain(y, k, warmup, text)
    whole = jax.jit(lambda key, inputs: sweeps(begin(key, inputs), inputs, draws))
    program = whole.lower(jax.random.key(0), inputs).compile()
    return time.perf_counter() - start, lambda key: jax.block_until_ready(program(key, inputs))


def in_steps(y, k, text, warmup=50):
    """Functions from a key, and from a state, to a state and the last draw: one sweep at a time, compiled."""
    begin, sweeps, inputs = chain(y, k, warmup, text)
    start = jax.jit(begin)

    @jax.jit
    def step(state, inputs):
        state, trail = sweeps(state, inputs, 1)
        return state, {n: v[-1] for n, v in trail.items()}

    jax.block_until_ready(step(start(jax.random.key(0), inputs), inputs))
    return (lambda key: step(start(key, inputs), inputs)), (lambda state: step(state, inputs))


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
    """Seconds of processor time that each command of a script took, as far as it came within `cap` in all."""
    Path(folder, "script").write_text("".join(f"{c}\npwd\n" for c in commands))
    command = ["stdbuf", "-oL", "jags", "script"]
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen(command, cwd=folder, text=True, stdout=pipe, stderr=joined)
    times, lines = psutil.Process(process.pid).cpu_times, queue.Queue()

    def spent():
        now = times()  # both commands replace themselves by the next: it is one process
        return now.user + now.system

    def read(out):
        for line in out:
            lines.put((spent(), line))

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    marks = [0.0]
    while len(marks) <= len(commands):
        try:
            at, line = lines.get(timeout=1.0)
        except queue.Empty:
            if process.poll() is not None:
                raise RuntimeError("JAGS ended before its script did") from None
            if spent() > cap:
                break
            continue
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


def kept_row(size, given):
    """What the file of rows tells of one size, if it does."""
    kept = given.rows.read_text().splitlines() if given.rows and given.rows.exists() else []
    return next((row for row in map(json.loads, kept) if row["size"] == size), None)


def jags_row(size, y, test, k, given):
    """What JAGS did with one size: read from the file of rows, or run now and appended to it."""
    row = kept_row(size, given)
    if row is not None:
        return row
    setup, per, done, trail = jags(y, k, given.draws, given.jags_cap)
    row = {"size": size, "cap": given.jags_cap, "setup": setup, "per": per, "done": done}
    if trail is not None:
        found = scores(trail, test)
        row |= {"worth": effective(found), "held": held_out(found)}
    if given.rows:
        with given.rows.open("a") as out:
            out.write(json.dumps(row) + "\n")
    return row


def held_out(found):
    """The mean score of the second half of a chain."""
    return float(found[len(found) // 2 :].mean())


def jags_cells(row, ours=None):
    """JAGS's part of the table; `ours`: seconds per draw by the clock and by processor time."""
    if row["setup"] is None:
        return f"| {row['size']} | JAGS, none within {row['cap']:.0f} s | > {row['cap']:.0f} | | | | | |"
    name = f"| {row['size']} | JAGS, {row['done']} draws | {row['setup']:.1f} |"
    if row["per"] is None:
        return f"{name} none within {row['cap']:.0f} s | | | | |"
    ratio = "" if ours is None else " / ".join(f"{row['per'] / t:.0f}" for t in ours)
    worth, held = (f"{row[n]:{f}}" if n in row else "" for n, f in (("worth", ".2f"), ("held", ".3f")))
    return f"{name} {row['per'] * row['done']:.1f} | {1e3 * row['per']:.1f} | {worth} | {ratio} | {held} |"


def only_jags(size, y, test, k, given):
    """The rows of JAGS alone."""
    print(jags_cells(jags_row(size, y, test, k, given)), flush=True)


def table(size, y, test, k, given, runs=3):
    """Set-up, draws and their worth, beside JAGS; seconds are medians over runs."""
    each = {}
    for name, text in SCHEDULES.items():
        setup, sampled = compiled(y, k, given.draws, given.draws // 3, text)
        spent = []
        for seed in range(runs):
            start = clocks()
            _, trail = sampled(jax.random.key(seed))
            spent.append(clocks() - start)
        clock, processor = np.median(spent, axis=0)
        each[name] = np.array([clock, processor]) / given.draws
        found = scores(trail, test)
        print(
            f"| {size} | {name} | {setup:.1f} | {clock:.2f} | {1e3 * each[name][0]:.2f} / "
            f"{1e3 * each[name][1]:.2f} | {effective(found):.2f} | | {held_out(found):.3f} |",
            flush=True,
        )
    row = kept_row(size, given) if given.rows else jags_row(size, y, test, k, given)
    if row is not None:
        print(jags_cells(row, each["Gibbs"]), flush=True)


SPENT = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def reach(size, y, test, k, given, seeds=3):
    """The mean score of the chains at given times of sampling."""
    marks = [t for t in SPENT if t <= given.seconds]
    for name, text in SCHEDULES.items():
        begin, carry_on = in_steps(y, k, text)
        reached = []
        for seed in range(seeds):
            state, last = jax.block_until_ready(begin(jax.random.key(seed)))
            passed, found = 0.0, []
            for mark in marks:
                while passed < mark:
                    start = time.perf_counter()
                    state, last = jax.block_until_ready(carry_on(state))
                    passed += time.perf_counter() - start
                found.append(float(predictive(last["pi"], last["mu"], last["cov"], test)))
            reached.append(found)
        cells = " | ".join(f"{v:.3f}" for v in np.mean(reached, axis=0))
        print(f"| {size} | {name} | {cells} |", flush=True)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--jags-cap", type=float, default=900.0, help="seconds of processor time")
    parser.add_argument("--rows", type=Path, help="file of JAGS's rows, read and appended to")
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=10.0, help="of sampling per chain of `reach`")
    parser.add_argument("--only", choices=["jags", "table", "reach", "sweep"])
    given = parser.parse_args()
    columns = "k, d, n | sampler | set-up, s | draws, s | ms per draw | ESS per draw | JAGS / ours | held-out"
    heads = {
        "jags": columns,
        "table": columns,
        "reach": f"k, d, n | sampler | {' | '.join(f'{t:g} s' for t in SPENT if t <= given.seconds)}",
        "sweep": "k, d, n | derived, ms (min / median) | by hand, ms | ratio of minima | of medians",
    }
    for what in [given.only] if given.only else ["table", "reach", "sweep"]:
        print(f"\n| {heads[what]} |\n|{'---|' * (heads[what].count('|') + 1)}")
        for size in given.sizes:
            k, d, n = map(int, size.split(","))
            y, test = simulated(k, d, n)
            if what == "sweep":
                both = {"ours": derived(y, k), "hand": by_hand(y, k)}
                print(report(size, interleaved(both, 40), "ours", "hand"), flush=True)
            else:
                {"jags": only_jags, "table": table, "reach": reach}[what](size, y, test, k, given)


if __name__ == "__main__":
    main()
