"""Discrete sites summed out: what it costs to plan, compile and differentiate, and what it is worth.

    python benchmarks/elimination.py [--small] [--runs]

The models are those that SlicStan was evaluated on (Gorinova, Gordon, Sutton and Vákár 2022, "Conditional
independence by typing", §7: mixtures, hidden Markov models of one and two orders) and the classic examples of
sums over discrete unknowns. A row tells, in processor seconds: the time to analyse and plan, to compile value
and gradient, and for one of them; the same of the marginal as an expert writes it, where there is one;
equations of the program and table entries. With `--runs` follow the effective draws of the worst continuous
number per processor second, compiling included: with the discrete sites summed out of NUTS, and with the
default schedule.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
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


def cases(small: bool) -> dict[Callable, tuple[Any, Callable | None]]:
    n, t, few = (1_000, 200, 60) if small else (100_000, 10_000, 400)
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


def gradient(fn: Callable, state: Any, *args: Any) -> tuple[float, float, int]:
    """Compiling value and gradient, the least of twenty calls, and equations."""
    traced = jax.jit(jax.value_and_grad(fn)).trace(state, *args)
    compiling, run = seconds(lambda: traced.lower().compile())
    return compiling, min(seconds(lambda: run(state, *args))[0] for _ in range(20)), count(traced.jaxpr)


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


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--small", action="store_true", help="sizes for a try")
    asked.add_argument("--runs", action="store_true", help="effective draws per second, too")
    options = asked.parse_args()
    more = " ESS/s summed out | ESS/s default |" if options.runs else ""
    print(f"| model | plan, s | compile, s | gradient, ms | by hand, ms | equations | entries |{more}")
    print("|---" * (7 + 2 * options.runs) + "|")
    for fn, (x, hand) in cases(options.small).items():
        planning, model = seconds_of_model(fn, x)
        marginal = model.marginal()
        key = jax.random.key(0)
        traced = numpyro.handlers.trace(numpyro.handlers.seed(fn, key)).get_trace(x)
        state = {n: traced[n]["value"] for n in marginal.others}
        data = tuple(model.inputs["data"])
        compiling, least, equations = gradient(marginal.logdensity_at, state, data)
        own = "–" if hand is None else f"{1e3 * gradient(hand, state, jnp.asarray(x))[1]:.2f}"
        row = f"| {fn.__name__}, {x.shape} | {planning:.1f} | {compiling:.1f} | {1e3 * least:.2f} | {own} |"
        row += f" {equations} | {marginal.plan.entries:,.0f} |"
        print(row + (worth(model) if options.runs else ""), flush=True)


def seconds_of_model(fn: Callable, x: Any) -> tuple[float, Any]:
    began = time.process_time()
    model = gb.model(fn, x)
    model.marginal()
    return time.process_time() - began, model


if __name__ == "__main__":
    main()
