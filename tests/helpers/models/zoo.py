"""Small models of every structure, as plain NumPyro functions, each with data and a way to make states.

`ZOO[name]` is a `Case`; `case.state(seed)` draws values of all latents from the prior, as the original model
would, so that they lie in the supports.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer.gibbs import prototype_trace


@dataclass(frozen=True)
class Case:
    """A model function with arguments; `structure` is the expected form of each discrete latent."""

    fn: Callable[..., Any]
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    structure: dict = field(default_factory=dict)

    def state(self, seed: int) -> dict[str, np.ndarray]:
        trace = prototype_trace(self.fn, jax.random.key(seed), self.args, self.kwargs)
        return {
            n: np.asarray(m["value"])
            for n, m in trace.items()
            if m["type"] == "sample" and not m["is_observed"]
        }


RNG = np.random.default_rng(7)
X = RNG.normal(size=6)
NEAL = np.array([-1.48, -1.40, -1.16, -1.08, -1.02, 0.14, 0.51, 0.53, 0.78])
ROWS = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])


def gmm(x, K=3):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([K]))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def gmm_event(x, K=3):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([K]).to_event(1))
    z = numpyro.sample("z", dist.Categorical(w).expand([len(x)]).to_event(1))
    numpyro.sample("x", dist.Normal(4 * mu[z] - 1, 1.0).to_event(1), obs=x)


def gmm_loop(x, K=3):
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([K]))
    for i in range(len(x)):
        z = numpyro.sample(f"z[{i}]", dist.Categorical(logits=jnp.zeros(K)))
        numpyro.sample(f"x[{i}]", dist.Normal(mu[z], 1.0), obs=x[i])


def hmm_slices(x, K=3):
    P = numpyro.sample("P", dist.Dirichlet(jnp.ones((K, K))))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(K) / K))
    numpyro.factor("transitions", jnp.log(P)[z[:-1], z[1:]].sum())
    numpyro.sample("x", dist.Normal(1.0 * z, 0.5), obs=x)


def hmm_scan(x, K=3):
    P = numpyro.sample("P", dist.Dirichlet(jnp.ones((K, K))))
    mu = numpyro.sample("mu", dist.Normal(jnp.arange(K), 0.1))

    def step(z, x_t):
        z = numpyro.sample("z", dist.Categorical(P[z]))
        numpyro.sample("x", dist.Normal(mu[z], 0.5), obs=x_t)
        return z, None

    scan(step, 0, x)


def hmm_second_order(x, K=3):
    P = numpyro.sample("P", dist.Dirichlet(jnp.ones((K, K))))

    def step(carry, x_t):
        before, last = carry
        z = numpyro.sample("z", dist.Categorical(P[jnp.maximum(before, last)]))
        numpyro.sample("x", dist.Normal(1.0 * z, 2.0), obs=x_t)
        return (last, z), None

    scan(step, (0, 0), x)


def hmm_factorial(x, K=2):
    P = numpyro.sample("P", dist.Dirichlet(jnp.ones((2, K, K))))

    def step(carry, x_t):
        a, b = carry
        a = numpyro.sample("a", dist.Categorical(P[0, a]))
        b = numpyro.sample("b", dist.Categorical(P[1, b]))
        numpyro.sample("x", dist.Normal(a + 2.0 * b, 2.5), obs=x_t)
        return (a, b), None

    scan(step, (0, 0), x)


def lda(doc, word, D, V, K=2):
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(K)).expand([D]))
    phi = numpyro.sample("phi", dist.Dirichlet(jnp.ones(V)).expand([K]))
    with numpyro.plate("token", len(word)):
        z = numpyro.sample("z", dist.Categorical(theta[doc]))
        numpyro.sample("w", dist.Categorical(phi[z]), obs=word)


def stick_breaking(x, K=10, alpha=10.0):
    v = numpyro.sample("v", dist.Beta(1, alpha).expand([K - 1]))
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([K]))
    rest = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - v)])
    w = jnp.concatenate([v, jnp.ones(1)]) * rest
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 0.3), obs=x)


def changepoint(y):
    N = len(y)
    tau = numpyro.sample("tau", dist.DiscreteUniform(1, N))
    rate = numpyro.sample("rate", dist.Gamma(2, 1).expand([2]))
    with numpyro.plate("n", N):
        numpyro.sample("y", dist.Poisson(jnp.where(tau > jnp.arange(N), rate[0], rate[1])), obs=y)


def groups(x, g, J=3):
    with numpyro.plate("j", J):
        s = numpyro.sample("s", dist.Bernoulli(0.4))
    with numpyro.plate("n", len(x)):
        numpyro.sample("x", dist.Normal(2.0 * s[g], 1.0), obs=x)


def factorial_mixture(x):
    a = numpyro.sample("a", dist.Normal(0, 1).expand([2]))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]))
    with numpyro.plate("n", len(x)):
        u = numpyro.sample("u", dist.Bernoulli(0.3))
        v = numpyro.sample("v", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Normal(a[u] * b[v], 0.7), obs=x)


def ising(rows=3, columns=4):
    with numpyro.plate("i", rows, dim=-2), numpyro.plate("j", columns, dim=-1):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
    s = 2.0 * z - 1
    numpyro.factor("down", 0.7 * (s[1:] * s[:-1]).sum())
    numpyro.factor("right", 0.4 * jnp.sum(s[:, 1:] * s[:, :-1]))


def sprinkler(wet):
    cloudy = numpyro.sample("cloudy", dist.Bernoulli(0.5))
    sprinkler = numpyro.sample("sprinkler", dist.Bernoulli(jnp.where(cloudy == 1, 0.1, 0.5)))
    rain = numpyro.sample("rain", dist.Bernoulli(jnp.where(cloudy == 1, 0.8, 0.2)))
    p = jnp.array([[0.01, 0.9], [0.9, 0.99]])[sprinkler, rain]
    numpyro.sample("wet", dist.Bernoulli(p), obs=wet)


def program_d(y):
    """A hidden Markov model of three scalar statements."""
    theta = numpyro.sample("theta", dist.Beta(1, 1).expand([2]))
    phi = numpyro.sample("phi", dist.Normal(0, 1).expand([2]))
    z1 = numpyro.sample("z1", dist.Bernoulli(theta[0]))
    z2 = numpyro.sample("z2", dist.Bernoulli(theta[z1]))
    z3 = numpyro.sample("z3", dist.Bernoulli(theta[z2]))
    for i, z in enumerate((z1, z2, z3), 1):
        numpyro.sample(f"y{i}", dist.Normal(phi[z], 1), obs=y[i - 1])


def program_g(y):
    """As Program D, through named deterministic variables, and with a variable that is only generated."""
    phi = numpyro.sample("phi", dist.Beta(1, 1).expand([2]))
    theta = numpyro.sample("theta", dist.Beta(1, 1).expand([2]))
    now = numpyro.deterministic("theta0", theta[0])
    for i in (1, 2, 3):
        z = numpyro.sample(f"z{i}", dist.Bernoulli(now))
        now = numpyro.deterministic(f"theta{i}", theta[z])
        mean = numpyro.deterministic(f"phi{i}", phi[z])
        numpyro.sample(f"y{i}", dist.Normal(mean, 1), obs=y[i - 1])
    numpyro.sample("genz", dist.Bernoulli(now))


class Arm(NamedTuple):
    """One arm of a trial: a container of arrays, as models take them."""

    y: Any
    weight: Any


def _arm(arm, shift):
    """A model that another one calls, with names of its own and a key of its own."""
    with numpyro.plate("patient", len(arm.y)):
        responds = numpyro.sample("responds", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(shift * responds, arm.weight), obs=arm.y)
    return responds


def trial(arms, *, prior=None):
    """Submodels under their scopes, a pytree with an empty leaf, and what they return joined in a factor."""
    shift = numpyro.sample("shift", dist.Normal(0, 1 if prior is None else prior))
    treated = handlers.scope(_arm, prefix="treated")(arms["treated"], shift)
    control = handlers.scope(_arm, prefix="control")(arms["others"][0], 0.5 * shift)
    numpyro.factor("balance", -0.3 * (treated[0] - control[0]) ** 2)


def program_h(y, K=5):
    """Three discrete variables of which the first decides how the others hang together."""
    z1 = numpyro.sample("z1", dist.Categorical(jnp.ones(K) / K))
    z2 = numpyro.sample("z2", dist.Categorical(jnp.arange(1.0, K + 1) / 15))
    p3 = jnp.where(z1 > K / 2, (z2 + 1) / (K + 1), 0.5)
    z3 = numpyro.sample("z3", dist.Bernoulli(p3))
    numpyro.sample("y", dist.Normal(1.0 * z1 + z3, 1.0), obs=y)


def cross(x):
    """Four neighbours around a centre."""
    centre = numpyro.sample("centre", dist.Bernoulli(0.3))
    for i in range(4):
        arm = numpyro.sample(f"arm{i}", dist.Bernoulli(0.2 + 0.5 * centre))
        numpyro.sample(f"x{i}", dist.Normal(1.0 * arm, 1.0), obs=x[i])


def soft_k_means(x, K=3):
    tau = numpyro.sample("tau", dist.Gamma(1.0, 1.0))
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([K, x.shape[1]]).to_event(2))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(K) / K))
        numpyro.sample("x", dist.Normal(mu[z], 1 / jnp.sqrt(tau)).to_event(1), obs=x)


def causal_direction(a, b):
    q = numpyro.sample("q", dist.Beta(1, 1))
    with numpyro.plate("pair", len(a)):
        forward = numpyro.sample("forward", dist.Bernoulli(q))
        lp = dist.Bernoulli(0.5).log_prob(a) + dist.Bernoulli(jnp.where(a == b, 0.8, 0.2)).log_prob(b)
        other = dist.Bernoulli(0.4).log_prob(b) + dist.Bernoulli(0.6).log_prob(a)
        numpyro.factor("direction", jnp.where(forward == 1, lp, other))


def outliers(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    p = numpyro.sample("p", dist.Beta(1, 9))
    with numpyro.plate("n", len(y)):
        bad = numpyro.sample("bad", dist.Bernoulli(p))
        numpyro.sample("y", dist.Normal(slope * x, jnp.where(bad == 1, 5.0, 1.0)), obs=y)


def total(y, n=5):
    with numpyro.plate("n", n):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(z.sum(), 1.0), obs=y)


def bernoulli_mixture(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([0.5, 0.5])))
    p = numpyro.sample("p", dist.Categorical(w))
    numpyro.sample("x", dist.Bernoulli(jnp.array([0.3, 0.7])[p]), obs=x)


def occupancy(y, visits=4):
    psi = numpyro.sample("psi", dist.Beta(1, 1))
    p = numpyro.sample("p", dist.Beta(1, 1))
    with numpyro.plate("site", len(y)):
        present = numpyro.sample("present", dist.Bernoulli(psi))
        numpyro.sample("y", dist.Binomial(visits, p * present), obs=y)


def masked(x, keep, weight):
    with numpyro.plate("n", len(x)), handlers.mask(mask=keep), handlers.scale(scale=weight):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Normal(1.0 * z, 1.0), obs=x)


def counts(n, y):
    with numpyro.plate("i", len(n)):
        k = numpyro.sample("k", dist.Binomial(n, 0.4))
        b = numpyro.sample("b", dist.BetaBinomial(2.0, 3.0, 4))
        u = numpyro.sample("u", dist.DiscreteUniform(1, n))
        o = numpyro.sample("o", dist.OrderedLogistic(0.3, jnp.array([-1.0, 0.5, 2.0])))
        numpyro.sample("y", dist.Normal(k + 0.5 * b - u + 0.2 * o, 1.0), obs=y)


def nested(y, data):
    with numpyro.plate("school", 2, dim=-2):
        s = numpyro.sample("s", dist.Bernoulli(0.5))
        with numpyro.plate("pupil", 3, dim=-1):
            e = numpyro.sample("e", dist.Categorical(jnp.ones(3) / 3))
            numpyro.sample("y", dist.Normal(s * data["gain"] + e, data["sd"]), obs=y)


def edges(pairs):
    with numpyro.plate("n", 5):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
    numpyro.factor("agree", jnp.where(z[pairs[:, 0]] == z[pairs[:, 1]], 0.8, 0.0).sum())


def ring(n=5):
    with numpyro.plate("n", n):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
    numpyro.factor("around", 0.9 * (z == jnp.roll(z, 1)).sum())


def switched(x):
    """A branch on a discrete latent, and a group-level state picked by another latent."""
    with numpyro.plate("k", 2):
        s = numpyro.sample("s", dist.Bernoulli(0.3))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.4, 0.6])))
        numpyro.sample("x", dist.Normal(1.5 * s[z], 2.0), obs=x)


def conditional_branch(y):
    c = numpyro.sample("c", dist.Bernoulli(0.4))
    m = numpyro.sample("m", dist.Normal(0, 1))
    mean = jax.lax.cond(c == 1, lambda v: v + 2.0, lambda v: -v, m)
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def sorted_sum(y):
    """`sort` mixes all elements: only the conservative rule is right."""
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
    numpyro.sample("y", dist.Normal(jnp.sort(z)[-1] - jnp.sort(z)[0], 0.5), obs=y)


def run_length(y):
    """Each element reads all before it."""
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.sample("y", dist.Normal(jnp.cumsum(z), 1.0), obs=y)


ZOO: dict[str, Case] = {
    "gmm": Case(gmm, (X,), structure={"z": "independent"}),
    "gmm_event": Case(gmm_event, (X,), structure={"z": "independent"}),
    "gmm_loop": Case(gmm_loop, (X[:4],), structure=dict.fromkeys(("z[0]", "z[3]"), "independent")),
    "hmm_slices": Case(hmm_slices, (X,), structure={"z": "chain"}),
    "hmm_scan": Case(hmm_scan, (X,), structure={"z": "chain"}),
    "hmm_second_order": Case(hmm_second_order, (X,), structure={"z": "3 colours"}),
    "hmm_factorial": Case(hmm_factorial, (X,), structure={"a": "chain", "b": "chain"}),
    "lda": Case(
        lda,
        (np.array([0, 0, 1, 1, 1]), np.array([0, 3, 2, 1, 1]), 2, 4),
        structure={"z": "independent"},
    ),
    "stick_breaking": Case(stick_breaking, (NEAL,), structure={"z": "independent"}),
    "changepoint": Case(changepoint, (RNG.poisson(3, size=8),), structure={"tau": "independent"}),
    "groups": Case(groups, (X, np.array([0, 1, 1, 2, 0, 1])), structure={"s": "independent"}),
    "factorial_mixture": Case(factorial_mixture, (X,), structure={"u": "independent", "v": "independent"}),
    "ising": Case(ising, structure={"z": "2 colours"}),
    "sprinkler": Case(
        sprinkler, (1,), structure=dict.fromkeys(("cloudy", "sprinkler", "rain"), "independent")
    ),
    "program_d": Case(program_d, (X[:3],), structure=dict.fromkeys(("z1", "z3"), "independent")),
    "program_g": Case(program_g, (X[:3],), structure=dict.fromkeys(("z2", "genz"), "independent")),
    "trial": Case(
        trial,
        ({"treated": Arm(X[:3], 0.7), "others": [Arm(X[3:5], np.array([0.5, 1.5])), None]},),
        {"prior": 2.0},
        structure=dict.fromkeys(("treated/responds", "control/responds"), "independent"),
    ),
    "program_h": Case(program_h, (1.3,), structure=dict.fromkeys(("z1", "z2", "z3"), "independent")),
    "cross": Case(cross, (X[:4],), structure=dict.fromkeys(("centre", "arm0", "arm3"), "independent")),
    "soft_k_means": Case(soft_k_means, (RNG.normal(size=(5, 2)),), structure={"z": "independent"}),
    "causal_direction": Case(
        causal_direction,
        (np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1])),
        structure={"forward": "independent"},
    ),
    "outliers": Case(outliers, (X, 2 * X), structure={"bad": "independent"}),
    "total": Case(total, (2.3,), structure={"z": "one by one"}),
    "bernoulli_mixture": Case(bernoulli_mixture, (1,), structure={"p": "independent"}),
    "occupancy": Case(occupancy, (np.array([0, 2, 0, 4]),), structure={"present": "independent"}),
    "masked": Case(
        masked, (X, np.array([True, False, True, True, False, True]), 0.5), structure={"z": "independent"}
    ),
    "counts": Case(
        counts, (np.array([2, 4, 3]), X[:3]), structure=dict.fromkeys(("k", "b", "u", "o"), "independent")
    ),
    "nested": Case(
        nested,
        (RNG.normal(size=(2, 3)),),
        {"data": {"gain": 1.5, "sd": np.array([1.5, 2.0, 3.0])}},
        {"s": "independent", "e": "independent"},
    ),
    "edges": Case(edges, (np.array([[0, 1], [1, 2], [0, 0], [3, 4], [2, 4]]),), structure={"z": "2 colours"}),
    "ring": Case(ring, structure={"z": "3 colours"}),
    "switched": Case(switched, (X,), structure={"s": "independent", "z": "independent"}),
    "conditional_branch": Case(conditional_branch, (0.7,), structure={"c": "independent"}),
    "sorted_sum": Case(sorted_sum, (1.2,), structure={"z": "one by one"}),
    "run_length": Case(run_length, (X[:4],), structure={"z": "one by one"}),
}

__all__ = ["ZOO", "Case"]
