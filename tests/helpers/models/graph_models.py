"""The models whose graphs the browser tests show, in exported pages and in notebooks."""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan


def lda(words, docs):
    with numpyro.plate("topics", 4):
        phi = numpyro.sample("phi", dist.Dirichlet(jnp.ones(7)))
    with numpyro.plate("documents", 3):
        theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("tokens", len(words)):
        z = numpyro.sample("z", dist.Categorical(theta[docs]))
        numpyro.sample("words", dist.Categorical(phi[z]), obs=words)


def looped(x):
    rows = numpyro.sample("P", dist.Dirichlet(jnp.ones((3, 3))).to_event(1))
    z = None
    for t in range(len(x)):
        z = numpyro.sample(f"z[{t}]", dist.Categorical(jnp.ones(3) / 3 if z is None else rows[z]))
        numpyro.sample(f"x[{t}]", dist.Normal(z, 0.5), obs=x[t])


def hundred(y):
    values = [numpyro.sample("root", dist.Normal(0, 1))]
    for i in range(50):
        values.append(numpyro.sample(f"effect_{i}", dist.Normal(values[i // 3], 1.0)))
        numpyro.sample(f"obs_{i}", dist.Normal(values[-1], 1.0), obs=y[i])


def mixture(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1), obs=x)


def hmm(x):
    rows = numpyro.sample("P", dist.Dirichlet(jnp.ones((3, 3))).to_event(1))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]))

    def step(z, x_t):
        z = numpyro.sample("z", dist.Categorical(rows[z]))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x_t)
        return z, None

    scan(step, 0, x)


def ratings(y):
    difficulty = numpyro.sample("difficulty", dist.Normal(0, 1))
    with numpyro.plate("persons", y.shape[0], dim=-2):
        ability = numpyro.sample("ability", dist.Normal(0, 1))
    with numpyro.plate("items", y.shape[1], dim=-1):
        item = numpyro.sample("item", dist.Normal(difficulty, 1))
    with numpyro.plate("persons", y.shape[0], dim=-2), numpyro.plate("items", y.shape[1], dim=-1):
        numpyro.sample("y", dist.Bernoulli(logits=ability - item), obs=y)


def schools(scores, answers):
    """Schools in regions, and items that every region answers: plates inside and across each other."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    regions = numpyro.plate("regions", scores.shape[0], dim=-2)
    with regions:
        region = numpyro.sample("region", dist.Normal(mu, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
    with regions, numpyro.plate("schools", scores.shape[1], dim=-1):
        school = numpyro.sample("school", dist.Normal(region, spread))
        numpyro.sample("score", dist.Normal(school, 1), obs=scores)
    items = numpyro.plate("items", answers.shape[1], dim=-1)
    with items:
        hardness = numpyro.sample("hardness", dist.Normal(0, 1))
    with regions, items:
        numpyro.sample("answer", dist.Bernoulli(logits=region - hardness), obs=answers)
