"""What the general mechanism would cost where a special one stands beside it: processor microseconds a draw.

One Gaussian site by itself (its precision summed at zero, values of what picks a block one at a time) beside
the joint draw of several, asked for one; a chain of one discrete site beside its elimination.

    python benchmarks/special_cases.py
"""

import time
import warnings

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.conditional.linear.joint import joint_gaussian

DRAWS, TIMES = 100, 12


def regression(x, y):
    b = numpyro.sample("b", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))
    numpyro.sample("y", dist.Normal(x @ b, jnp.sqrt(v)), obs=y)


def mixture(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(2), 9 * jnp.eye(2)).expand([3]).to_event(1))
    z = numpyro.sample("z", dist.Categorical(w).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.MultivariateNormal(b[z], jnp.eye(2) + 0.3).to_event(1), obs=y)


def lines(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3).expand([2, 2]).to_event(2))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(2) / 2))
        numpyro.sample("y", dist.Normal(b[z, 0] + b[z, 1] * x, 0.5), obs=y)


def chain(y):
    z = numpyro.sample("b", dist.Categorical(jnp.ones(3) / 3).expand([len(y)]).to_event(1))
    m = numpyro.sample("mu", dist.Normal(0, 3).expand([3]).to_event(1))
    numpyro.factor("stays", jnp.sum(jnp.where(z[:-1] == z[1:], 1.0, 0.0)))
    numpyro.sample("y", dist.Normal(m[z], 1.0).to_event(1), obs=y)


def seconds(update, state, data):
    """A function that draws `DRAWS` times, compiled."""

    @jax.jit
    def loop(key):
        def step(b, k):
            return update.drawn(k, {**state, "b": b}, data).values["b"], None

        return jax.lax.scan(step, state["b"], jax.random.split(key, DRAWS))[0]

    jax.block_until_ready(loop(jax.random.key(0)))
    return loop


def main():
    warnings.simplefilter("ignore")
    chance = np.random.default_rng(1)

    def normal(*shape):
        return chance.normal(size=shape).astype(np.float32)

    cases = {
        "regression, 20 × 2": (regression, normal(20, 2), normal(20)),
        "regression, 1,000 × 10": (regression, normal(1000, 10), normal(1000)),
        "regression, 20,000 × 50": (regression, normal(20_000, 50), normal(20_000)),
        "mixture of 5,000 pairs": (mixture, normal(5000, 2)),
        "mixture of 2 lines, 2,000 points": (lines, normal(2000), normal(2000)),
        "chain of 200, 3 values": (chain, normal(200)),
        "chain of 5,000, 3 values": (chain, normal(5000)),
    }
    print(f"| model | special | general | ratio |\n|{'---|' * 4}")
    for name, (fn, *args) in cases.items():
        model = gb.model(fn, *args)
        density = model.density
        general = model.marginal("b") if fn is chain else joint_gaussian(density, ("b",))
        sites = {n: density.sites[n] for n in density.latents}
        state = {
            n: jnp.asarray(s.support.feasible_like(np.zeros(s.shape, s.dtype))) for n, s in sites.items()
        }
        data = tuple(density.arguments.arrays)
        loops = [seconds(u, state, data) for u in (model.conditional("b"), general)]
        best = [np.inf, np.inf]
        for _ in range(TIMES):
            for i, loop in enumerate(loops):
                began = time.process_time()
                jax.block_until_ready(loop(jax.random.key(1)))
                best[i] = min(best[i], time.process_time() - began)
        one, other = (1e6 * b / DRAWS for b in best)
        print(f"| {name} | {one:,.0f} | {other:,.0f} | {other / one:.1f} |", flush=True)


if __name__ == "__main__":
    main()
