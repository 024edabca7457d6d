"""Random models with discrete sites in a plate, along a chain, per group and alone, read in every way that
tables are made for: aligned, shifted, gathered, through another site, in branches, products and sums."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from helpers.models.zoo import Case

N, GROUPS = 5, 2
"""Elements of the long site, and of that of groups."""


def random_case(seed):
    """A model of at most nine discrete elements with some four to six random terms."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    group = rng.integers(0, GROUPS, N)
    pairs = rng.integers(0, N, (4, 2))
    weight = rng.normal(size=(2, N)).round(2)
    tables = rng.normal(size=(4, 3, 3, 3)).round(2)
    names = list(TERMS)
    chosen = [str(n) for n in rng.choice(names, rng.integers(3, 6), replace=False)]
    start = int(rng.integers(1, 3))

    def model():
        a = numpyro.sample("a", dist.Normal(0, 1).expand([3]).to_event(1))
        s = numpyro.sample("s", dist.Bernoulli(0.4))
        with numpyro.plate("groups", GROUPS):
            g = numpyro.sample("g", dist.Bernoulli(0.3))
        with numpyro.plate("n", N):
            z = numpyro.sample("z", dist.Categorical(jax.nn.softmax(a[0] * jnp.arange(k))))
        given = {"a": a, "s": s, "g": g, "z": z, "group": group, "pairs": pairs, "w": weight, "k": k}
        for i, name in enumerate(chosen):
            numpyro.factor(f"{name} {i}", TERMS[name](given, jnp.asarray(tables[i % 4]), start))

    model.__name__ = f"random_{seed}"
    return Case(model, ()), chosen


def _gated(m, t, start):
    z, a = m["z"], m["a"]
    return jnp.where(m["s"] == 1, a[1] * (z[1:] == z[:-1]), 0.3 * z[1:])


def _branch(m, t, start):
    z, a = m["z"], m["a"]
    return jax.lax.cond(m["s"] == 1, lambda: a[1] * z, lambda: t[0, 0, 0] * z * m["w"][0])


def _gated_sums(m, t, start):
    z, a = m["z"], m["a"]
    return jnp.where(
        m["s"] == 1, a[0] * jnp.sum(t[0][z[1:], z[:-1]]), jnp.dot(t[1, 0, :2], m["g"]) / jnp.exp(a[1])
    )


def _own_experts(m, t, start):
    """The value of each element decides what it reads besides; at the ends nothing."""
    z, s, g = m["z"], m["s"], m["g"][m["group"]]
    case = jnp.clip(z[1:], 0, 1)
    return jnp.log1p(
        jnp.exp(jnp.where(case == 0, m["a"][1] * s, jnp.where(g[1:] == 1, t[0, 1, 1], m["a"][2])))
    )


def _windows(m, t, start):
    """Another rule at the beginning than later on."""
    z, a = m["z"], m["a"]
    first = a[2] * t[0, 1, z[:start]]
    later = a[0] * t[1, z[start:], z[:-start]]
    return jnp.concatenate([first, later])


TERMS = {
    "aligned": lambda m, t, start: m["a"][1] * m["w"][0] * m["z"],
    "table": lambda m, t, start: t[0][m["z"], 1] * m["a"][2],
    "lag": lambda m, t, start: m["a"][0] * t[0][m["z"][1:], m["z"][:-1]] * m["w"][1, 1:],
    "two lags": lambda m, t, start: m["a"][1] * t[m["z"][2:], m["z"][1:-1], m["z"][:-2]],
    "skip": lambda m, t, start: jnp.abs(m["z"][2:] - m["z"][:-2]) * m["a"][2],
    "windows": _windows,
    "parent": lambda m, t, start: t[1][m["z"], m["g"][m["group"]]] * m["a"][1],
    "pairs": lambda m, t, start: t[2][m["z"][m["pairs"][:, 0]], m["z"][m["pairs"][:, 1]]] * m["a"][0],
    "switch": lambda m, t, start: t[2][m["s"], m["z"]] * m["w"][0],
    "gate": _gated,
    "branch": _branch,
    "product": lambda m, t, start: m["a"][0] * m["z"] * (1 + m["s"]) * m["g"][m["group"]],
    "dot": lambda m, t, start: jnp.log1p(jnp.asarray(m["w"][:, :3] ** 2) @ m["z"][:3]),
    "larger": lambda m, t, start: -jnp.exp(m["a"][1]) * jnp.maximum(m["z"][1:], m["z"][:-1]),
    "weighted sum": lambda m, t, start: m["a"][1] * ((m["z"][1:] == m["z"][:-1]).sum() - 0.5 * m["g"].sum()),
    "chosen sum": lambda m, t, start: jnp.where(m["s"] == 1, m["a"][2], 0.4) * (m["z"][2:] @ m["z"][:-2]),
    "gated sums": _gated_sums,
    "experts": lambda m, t, start: jnp.where(m["s"] == 1, m["a"][0] * m["z"], t[2, 0][m["g"][m["group"]]]),
    "own experts": _own_experts,
    "sum": lambda m, t, start: -0.5 * (m["g"].sum() + m["s"] - m["a"][2]) ** 2,
    "never": lambda m, t, start: jnp.where(m["z"][1] + m["s"] == 0, -jnp.inf, 0.0),
    "parity": lambda m, t, start: jnp.where((m["z"][0] + m["g"].sum()) % 2 == 1, m["a"][0], 0.1),
}
"""From the sites, some tables of numbers and a place: a term's array."""
