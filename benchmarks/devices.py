"""A step of the default schedule on the processor and on a GPU, by the size of the model and the chains.

    python benchmarks/devices.py [--small] [--only NAME ...] [--platforms cpu gpu] [--out FILE] [--lower]

Each row: milliseconds per step of all chains (a step updates every latent site once) on either device: of
the blocks alone, as `Run.time_blocks` measures them, and of a whole run that has compiled and warmed up
before the clock starts and is extended three times (the median is told); its draws of continuous sites come
to the host and are measured as ever, of discrete ones the summaries. The last columns say what
`device="auto"` takes, and by how many standard errors of the simulation the posterior means on both devices
differ (the largest over all scalars; not for topics, which may change places). Lines of JSON go to FILE as
they come, so that a run that is cut off leaves what it has. With --lower nothing is run: the programs of
every model (starts, the step loop, what pools chains) are made for CUDA and for TPUs, which needs neither.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.diagnostics.measures.convergence import all_stats
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.resources import capacity, choose_device
from gibbsite.sampling.remote.sent import program_for
from numpyro.contrib.control_flow import scan

SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18], np.float32)
Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12], np.float32)


def eight_schools(y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, jnp.asarray(SIGMA)), obs=y)


def mixture(x: Any) -> None:
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-3.0, 0.0, 3.0]), 1.0).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 0.5), obs=x)


def hmm(x: Any) -> None:
    rows = jnp.ones((3, 3)) + 5 * jnp.eye(3)
    table = numpyro.sample("table", dist.Dirichlet(rows).to_event(1))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-3.0, 0.0, 3.0]), 1.0).to_event(1))

    def step(z: Any, x: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(table[z]))
        numpyro.sample("x", dist.Normal(mu[z], 0.5), obs=x)
        return z, None

    scan(step, 0, x)


def topics(doc: Any, word: Any, D: int, V: int, K: int) -> None:
    theta = numpyro.sample("theta", dist.Dirichlet(0.1 * jnp.ones(K)).expand([D]).to_event(1))
    phi = numpyro.sample("phi", dist.Dirichlet(0.1 * jnp.ones(V)).expand([K]).to_event(1))
    with numpyro.plate("tokens", len(doc)):
        z = numpyro.sample("z", dist.Categorical(theta[doc]))
        numpyro.sample("w", dist.Categorical(phi[z]), obs=word)


def logistic(X: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=X @ b), obs=y)


def groups(g: Any, y: Any, G: int) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("group", G):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Poisson(jnp.exp(a[g])), obs=y)


Case = tuple[
    str, Callable[[], Any], int, int, "str | None"
]  # name, model, chains, steps per timing, schedule


def cases(small: bool) -> list[Case]:
    rng = np.random.default_rng(0)
    f32 = np.float32

    def points(n: int) -> Any:
        return (rng.choice([-3.0, 0.0, 3.0], n) + 0.5 * rng.normal(size=n)).astype(f32)

    def states(n: int) -> Any:
        z = np.cumsum(rng.random(n) < 0.1) % 3
        return (np.array([-3.0, 0.0, 3.0])[z] + 0.5 * rng.normal(size=n)).astype(f32)

    def regression(n: int, p: int) -> Any:
        X = rng.normal(size=(n, p)).astype(f32)
        b = 0.3 * rng.normal(size=p)
        return gb.model(logistic, X, (rng.random(n) < 1 / (1 + np.exp(-X @ b))).astype(np.int32))

    def grouped(n: int, G: int) -> Any:
        g = rng.integers(0, G, n)
        a = 1 + 0.5 * rng.normal(size=G)
        return gb.model(groups, g, rng.poisson(np.exp(a[g])), G=G)

    def documents(tokens: int, K: int) -> Any:
        D, V = max(4, tokens // 200), max(10, min(4000, tokens // 20))
        doc, word = np.sort(rng.integers(0, D, tokens)), rng.integers(0, V, tokens)
        return gb.model(topics, doc, word, D=D, V=V, K=K)

    s = 100 if small else 1
    return [
        ("eight schools", lambda: gb.model(eight_schools, Y), 4, 1000 // s, None),
        ("eight schools", lambda: gb.model(eight_schools, Y), 1024 // s, 100 // min(s, 10), None),
        ("mixture of 10⁴ points", lambda: gb.model(mixture, points(10_000 // s)), 4, 500 // s, None),
        ("mixture of 10⁶ points", lambda: gb.model(mixture, points(1_000_000 // s)), 4, 20, None),
        ("topics, 10⁵ tokens, K = 50", lambda: documents(100_000 // s, 50 // min(s, 10)), 4, 20, None),
        ("logistic, 10⁵ × 20", lambda: regression(100_000 // s, 20), 4, 50, "NUTS b"),
        ("logistic, 10³ × 20", lambda: regression(1_000 // min(s, 10), 20), 1024 // s, 50, "NUTS b"),
        ("counts, 10⁵ in 1000 groups", lambda: grouped(100_000 // s, 1000 // s), 4, 20, None),
        ("HMM of 10³ steps", lambda: gb.model(hmm, states(1_000 // s)), 4, 50, None),
        ("HMM of 10³ steps", lambda: gb.model(hmm, states(1_000 // s)), 1024 // s, 10, None),
        (
            "HMM of 10³ steps, states summed out",
            lambda: gb.model(hmm, states(1_000 // s)),
            256 // s,
            5,
            "Eliminate z > NUTS [table mu]",
        ),
    ]


def lowered(model: Any, chains: int, schedule: str | None) -> dict[str, int]:
    """The sizes in kB of a run's programs together, by platform. Raises as JAX does where one has none."""
    plan = model.plan(schedule)
    engine = Engine(plan, chains, 1000, capacity(plan, chains), (jax.devices("cpu")[0],))
    _, asked, state = engine._lowered_first(lambda *_: None)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), chains))
    programs = {
        "starts": (lambda g, data, *_: (engine._init_chains(g[0], data, g[1])[0], ()), (keys, asked)),
        "steps": (engine._advance_chains, state),
    }
    if engine.window_ends:
        programs["pooling"] = (lambda s, data, *_: (engine._pool_chains(s, data), ()), state)
    return {
        p: sum(
            len(program_for(fn, given, plan.inputs, engine.surroundings, p, what)[0].exported)
            for what, (fn, given) in programs.items()
        )
        // 1024
        for p in ("gpu", "tpu")
    }


def timed(model: Any, platform: str, chains: int, steps: int, schedule: str | None) -> dict[str, Any]:
    """Milliseconds per step, and mean and standard error of every scalar of the continuous sites."""
    continuous = [name for name, site in model.plan(schedule).sites.items() if not site.discrete]
    began = time.perf_counter()
    run = model.sample(
        schedule=schedule, draws=steps, warmup=50, chains=chains, seed=0, device=platform, keep=continuous
    )
    first = time.perf_counter() - began
    each = []
    for _ in range(3):
        began = time.perf_counter()
        run.resume(draws=steps)
        each.append((time.perf_counter() - began) / steps)
    numbers = {n: draws.reshape(*draws.shape[:2], -1)[..., :50] for n, draws in run.draws.items()}
    return {
        "blocks": 1e3 * sum(run.time_blocks().values()),
        "run": 1e3 * float(np.median(each)),
        "first_s": first,
        "stats": {s.label: (s.mean, s.mcse) for s in all_stats(numbers)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--platforms", nargs="*", default=["cpu", "gpu"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--lower", action="store_true")
    chosen = parser.parse_args()
    if chosen.lower:
        print("| model | chains | CUDA, kB of programs | TPU |\n|---|---|---|---|")
        for name, build, chains, _, schedule in cases(chosen.small):
            if not chosen.only or any(o in name for o in chosen.only):
                made = lowered(build(), chains, schedule)
                print(f"| {name} | {chains} | {made['gpu']} | {made['tpu']} |", flush=True)
        return
    there = [
        p for p in chosen.platforms if any(d.platform == p for d in [*jax.devices(), *jax.devices("cpu")])
    ]
    columns = [f"{p}, {what}" for what in ("blocks", "run") for p in there]
    print("milliseconds a step of all chains")
    print(f"| model | chains | {' | '.join(columns)} | ratio of blocks | of runs | auto | differ by |")
    print("|---|---|" + "---|" * (len(columns) + 4))
    for name, build, chains, steps, schedule in cases(chosen.small):
        if chosen.only and not any(o in name for o in chosen.only):
            continue
        model = build()
        rows = {p: timed(model, p, chains, steps, schedule) for p in there}
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps({"model": name, "chains": chains, **rows}) + "\n")
        told = [f"{rows[p][what]:.3g}" for what in ("blocks", "run") for p in there]
        first, last = rows[there[0]], rows[there[-1]]
        ratios = [f"{first[what] / last[what]:.2f}" if len(there) > 1 else "" for what in ("blocks", "run")]
        apart = ""
        if len(there) > 1 and not name.startswith("topics"):
            a, b = first["stats"], last["stats"]
            apart = f"{max(abs(a[k][0] - b[k][0]) / np.hypot(a[k][1], b[k][1]) for k in a):.1f}"
        auto = choose_device("auto", model.plan(schedule), chains).devices[0].platform
        print(f"| {name} | {chains} | {' | '.join([*told, *ratios, auto, apart])} |", flush=True)


if __name__ == "__main__":
    main()
