"""Discrete sites summed out: what it costs to plan, compile and differentiate, and what it is worth.

    python benchmarks/elimination.py [--small] [--items N] [--flat] [--runs] [--only NAME]

The models are those that SlicStan was evaluated on (Gorinova, Gordon, Sutton and Vákár 2022, "Conditional
independence by typing", §7: mixtures, hidden Markov models of one and two orders) and the classic examples of
sums over discrete unknowns. A row tells, in processor seconds: the time to analyse and plan, to compile value
and gradient, and for one of them; the same of the marginal as an expert writes it, where there is one, and of
NumPyro's enumeration, where `funsor` is installed and it takes the model as it stands (its gradients are
compared with ours first); equations of the program and table entries. Value and gradient are timed as a
sampler pays for them: many in one compiled loop, on all sides with the options that Gibbsite compiles with,
in turn, the fastest of several told. A single call from Python costs 30 to 100 µs more, whatever it computes.

`--flat` instead tells equations and compiling at several lengths, and `--slicstan` runs figures 8 to 12 of
that paper against NumPyro's enumeration and PyMC-extras' `marginalize` (see `slicstan.py`). With `--runs`
follow the effective draws of the worst continuous number per processor second, compiling included: with the
discrete sites summed out of NUTS, and with the default schedule.
"""

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.programs.jaxpr.compiling import compiled as as_sampled
from gibbsite.programs.passes.for_cpu import for_cpu
from jax.scipy.special import logsumexp
from numpyro.contrib.control_flow import scan

RNG = np.random.default_rng(0)
P = jnp.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])


def gmm(x: Any) -> None:
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-4.0, 0.0, 4.0]), 1.0).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def gmm_by_hand(state: Any, x: Any) -> Any:
    w, mu = state["w"], state["mu"]
    each = jnp.log(w) - 0.5 * (x[:, None] - mu) ** 2 - 0.9189385
    return logsumexp(each, axis=1).sum() - 0.5 * ((mu - jnp.array([-4.0, 0.0, 4.0])) ** 2).sum()


def hmm(x: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-4.0, 0.0, 4.0]), 1.0).to_event(1))

    def step(z: Any, x: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(P[z]))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)
        return z, None

    scan(step, 0, x)


def hmm_by_hand(state: Any, x: Any) -> Any:
    mu, log_p = state["mu"], jnp.log(P)
    seen = -0.5 * (x[:, None] - mu) ** 2 - 0.9189385

    def step(a: Any, lp: Any) -> Any:
        return logsumexp(a[:, None] + log_p, axis=0) + lp, None

    last, _ = jax.lax.scan(step, log_p[0] + seen[0], seen[1:])
    return logsumexp(last) - 0.5 * ((mu - jnp.array([-4.0, 0.0, 4.0])) ** 2).sum()


def second_order(x: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-4.0, 0.0, 4.0]), 1.0).to_event(1))
    table = jnp.stack([P, P[::-1], P.T / P.sum(0)[:, None]])

    def step(before: Any, x: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(table[before]))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)
        return (before[1], z), None

    scan(step, (0, 0), x)


def factorial(x: Any) -> None:
    a, b = (numpyro.sample(n, dist.Normal(m, 0.5)) for n, m in (("a", 1.0), ("b", 3.0)))
    stay = jnp.array([[0.9, 0.1], [0.2, 0.8]])

    def step(before: Any, x: Any) -> Any:
        u = numpyro.sample("u", dist.Categorical(stay[before[0]]))
        v = numpyro.sample("v", dist.Categorical(stay[before[1]]))
        numpyro.sample("x", dist.Normal(a * u + b * v, 1.0), obs=x)
        return (u, v), None

    scan(step, (0, 0), x)


def dawid_skene(y: Any) -> None:
    weight = jnp.ones((3, 3)) + 5 * jnp.eye(3)
    beta = numpyro.sample("beta", dist.Dirichlet(weight).expand([y.shape[1], 3]).to_event(2))
    pi = numpyro.sample("pi", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("items", len(y), dim=-2):
        z = numpyro.sample("z", dist.Categorical(pi))
        with numpyro.plate("raters", y.shape[1]):
            numpyro.sample("y", dist.Categorical(beta[jnp.arange(y.shape[1]), z]), obs=y)


def occupancy(y: Any) -> None:
    psi, p = (numpyro.sample(n, dist.Beta(1, 1)) for n in ("psi", "p"))
    with numpyro.plate("sites", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(psi))
        numpyro.sample("y", dist.Binomial(4, p * z), obs=y)


def capture_recapture(y: Any) -> None:
    phi, p = (numpyro.sample(n, dist.Beta(1, 1)) for n in ("phi", "p"))

    def step(z: Any, y: Any) -> Any:
        with numpyro.plate("animals", y.shape[0]):
            z = numpyro.sample("z", dist.Bernoulli(phi * z))
            numpyro.sample("y", dist.Bernoulli(p * z), obs=y)
        return z, None

    scan(step, jnp.ones(y.shape[1], jnp.int32), y)


def zero_inflated(y: Any) -> None:
    psi, rate = numpyro.sample("psi", dist.Beta(1, 1)), numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(psi))
        numpyro.sample("y", dist.Poisson(jnp.where(z == 1, rate, 1e-6)), obs=y)


def cases(small: bool, items: int = 400) -> dict[Callable, tuple[Any, Callable | None]]:
    n, t, few = (1_000, 200, 60) if small else (100_000, 10_000, items)
    x = RNG.choice([-4.0, 0.0, 4.0], n) + RNG.normal(size=n)
    labels = RNG.integers(0, 3, few)[:, None]
    votes = np.where(RNG.uniform(size=(few, 4)) < 0.75, labels, RNG.integers(0, 3, (few, 4)))
    present = RNG.uniform(size=few) < 0.6
    alive = np.cumprod(RNG.uniform(size=(6, few)) < 0.8, axis=0)
    return {
        gmm: (x.astype(np.float32), gmm_by_hand),
        hmm: (x[:t].astype(np.float32), hmm_by_hand),
        second_order: (x[:t].astype(np.float32), None),
        factorial: (x[:t].astype(np.float32), None),
        dawid_skene: (votes, None),
        occupancy: (RNG.binomial(4, 0.3 * present), None),
        capture_recapture: (RNG.binomial(1, 0.5 * alive), None),
        zero_inflated: (RNG.poisson(2.0, few) * present, None),
    }


def seconds(fn: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of one call, and what it gives."""
    began = time.process_time()
    found = jax.block_until_ready(fn())
    return time.process_time() - began, found


def compiled(fn: Callable, state: Any, *args: Any) -> tuple[float, Any, int]:
    """Compiling value and gradient: seconds, the program, its equations."""
    began = time.process_time()
    traced = jax.jit(jax.value_and_grad(fn)).trace(state, *args)
    run = traced.lower().compile()
    return time.process_time() - began, run, count(traced.jaxpr)


def in_loop(fn: Callable, often: int, state: Any, *args: Any) -> Any:
    """A program that takes value and gradient `often` times, each where the last has led, as samplers do."""
    both = jax.value_and_grad(fn)

    def run(state: Any, *args: Any) -> Any:
        def step(_: Any, at: Any) -> Any:
            value, gradient = both(at[0], *args)
            return jax.tree.map(lambda x, g: x + 1e-9 * g, at[0], gradient), at[1] + value

        return jax.lax.fori_loop(0, often, step, (state, 0.0))

    return as_sampled(jax.jit(for_cpu(run)).lower(state, *args))


def in_turn(runs: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    """Processor seconds per call: the median of batches of some milliseconds, in turn. Not the fastest:
    what XLA's threads took is charged late now and then, to the batch after."""
    often = {n: max(1, int(5e-3 / max(seconds(run)[0], 1e-6))) for n, run in runs.items()}
    found: dict[str, list[float]] = {n: [] for n in runs}
    for _ in range(rounds):
        for n, run in runs.items():
            began = time.process_time()
            for _ in range(often[n]):
                jax.block_until_ready(run())
            found[n].append((time.process_time() - began) / often[n])
    return {n: float(np.median(times)) for n, times in found.items()}


def enumerated(fn: Callable) -> Callable | None:
    """NumPyro's log density with the discrete sites enumerated; None without `funsor`."""
    if importlib.util.find_spec("funsor") is None:
        return None
    handlers = importlib.import_module("numpyro.contrib.funsor")
    density = importlib.import_module("numpyro.contrib.funsor.infer_util").log_density
    summed = handlers.enum(handlers.config_enumerate(fn), first_available_dim=-3)
    return lambda state, x: density(summed, (x,), {}, state)[0]


def close(ours: Any, theirs: Any) -> bool:
    """Whether gradients agree as far as single precision carries."""
    return all(np.allclose(g, theirs[n], rtol=1e-2, atol=1e-2 * np.abs(g).max()) for n, g in ours.items())


def count(jaxpr: Any) -> int:
    inner = [v for e in jaxpr.eqns for v in e.params.values() if hasattr(v, "eqns") or hasattr(v, "jaxpr")]
    return len(jaxpr.eqns) + sum(count(getattr(v, "jaxpr", v)) for v in inner)


def worth(model: Any) -> str:
    """Effective draws of the worst continuous number per processor second, warm-up and compiling included."""

    def per_second(m: Any) -> str:
        spent, run = seconds(lambda: m.sample(draws=500, warmup=500, chains=2, seed=0))
        stats = [s for s in run.diagnostics() if not m.sites[s.site].discrete]
        return f"{min(s.ess_bulk for s in stats) / spent:,.0f}"

    return f" {per_second(model.eliminate())} | {per_second(model)} |"


def prepared(fn: Callable, x: Any) -> tuple[float, Any, Any, Any]:
    """Seconds of analysis and plan, the model, its marginal and a state."""
    began = time.process_time()
    model = gb.model(fn, x)
    marginal = model.marginal()
    spent = time.process_time() - began
    traced = numpyro.handlers.trace(numpyro.handlers.seed(fn, jax.random.key(0))).get_trace(x)
    return spent, model, marginal, {n: traced[n]["value"] for n in marginal.others}


def row(fn: Callable, x: Any, hand: Callable | None) -> tuple[str, Any]:
    """A row of the table, and the model."""
    planning, model, marginal, state = prepared(fn, x)
    data = tuple(model.execution.inputs["data"])
    compiling, ours, equations = compiled(marginal.logdensity_at, state, data)
    often = max(5, 400_000 // max(int(marginal.plan.entries), 1))
    loop = in_loop(marginal.logdensity_at, often, state, data)
    runs, told = {"ours": lambda: loop(state, data)}, {}
    for name, other in {"hand": hand, "numpyro": enumerated(fn)}.items():
        if other is None:
            continue
        try:
            told[name], run, _ = compiled(other, state, jnp.asarray(x))
        except Exception as problem:  # what NumPyro's enumeration does not take is part of the table
            told[name] = f"refused: {type(problem).__name__}"
            continue
        gradient = run(state, jnp.asarray(x))[1]
        if close(ours(state, data)[1], gradient):
            loop_of = in_loop(other, often, state, jnp.asarray(x))
            runs[name] = lambda run=loop_of: run(state, jnp.asarray(x))
        else:
            finite = all(np.isfinite(g).all() for g in gradient.values())
            told[name] = "another gradient" if finite else "gradient not finite"
    times = {n: 1e6 * s / often for n, s in in_turn(runs, 10).items()}
    cells = [f"{fn.__name__}, {x.shape}", f"{planning:.1f}", f"{compiling:.1f}", f"{times['ours']:,.1f}"]
    for name in ("hand", "numpyro"):
        ratio = f" ({times['ours'] / times[name]:.2f} ×)" if name in times else ""
        cells.append(f"{times[name]:,.1f}{ratio}" if name in times else str(told.get(name, "–")))
    cells.append(f"{told['numpyro']:.1f}" if "numpyro" in times else "–")
    cells += [str(equations), f"{marginal.plan.entries:,.0f}"]
    return f"| {' | '.join(cells)} |", model


def flat(found: dict[Callable, Any]) -> None:
    """Equations and compiling at several lengths: what must not grow."""
    lengths = (25, 1_000, 10_000)
    print("| model | " + " | ".join(f"N = {n:,}: equations, compile s" for n in lengths) + " |")
    print("|---" * (1 + len(lengths)) + "|")
    for fn in (gmm, hmm, second_order, factorial):
        cells = []
        for n in lengths:
            _, model, marginal, state = prepared(fn, np.resize(found[fn][0], n))
            spent, _, equations = compiled(
                marginal.logdensity_at, state, tuple(model.execution.inputs["data"])
            )
            cells.append(f"{equations}, {spent:.1f}")
        print(f"| {fn.__name__} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--small", action="store_true", help="sizes for a try")
    asked.add_argument("--flat", action="store_true", help="equations and compiling at several lengths")
    asked.add_argument("--runs", action="store_true", help="effective draws per second, too")
    asked.add_argument("--items", type=int, default=400, help="items, sites, animals of the models of plates")
    asked.add_argument("--slicstan", action="store_true", help="SlicStan's figures 8 to 12 as tables")
    asked.add_argument("--pymc", help="with --slicstan: an interpreter that has pymc and pymc-extras")
    asked.add_argument("--only", help="the model of this name")
    options = asked.parse_args()
    if options.slicstan:
        tables = importlib.import_module("slicstan")  # which takes the measures from here
        tables.figures(options.pymc, options.only)
        tables.growth()
        return
    found = cases(options.small, options.items)
    if options.flat:
        flat(found)
        return
    titles = ["model", "plan, s", "compile, s", "gradient, µs", "by hand, µs (ours / theirs)",
              "NumPyro's, µs (ours / theirs)", "its compile, s", "equations", "entries"]  # fmt: skip
    titles += ["ESS/s summed out", "ESS/s default"] if options.runs else []
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for fn, (x, hand) in found.items():
        if options.only in (None, fn.__name__):
            cells, model = row(fn, x, hand)
            print(cells + (worth(model) if options.runs else ""), flush=True)


if __name__ == "__main__":
    main()
