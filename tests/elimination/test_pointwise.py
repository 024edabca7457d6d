"""How likely each datum is given the others, without labels: against enumeration of all labels."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import CHANGED, Pointwise, marginal_of
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from scipy.special import logsumexp

Y = np.array([-1.3, 0.2, 1.9, 2.4], np.float32)


def mixture(gap=2.0, sd=1.0):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", len(Y)):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(mu + gap * z, sd), obs=Y)


def far_apart():
    mixture(gap=3.0, sd=0.05)  # a label is certain by hundreds of logs, whatever the rest says


def zero_inflated():
    mu = numpyro.sample("mu", dist.LogNormal(0, 1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.sample("y", dist.Poisson(jnp.where(z == 1, 0.0, mu)), obs=np.array([0, 3, 0, 1]))


def raters():
    mu = numpyro.sample("mu", dist.Beta(2, 2))
    with numpyro.plate("items", 3, dim=-2):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        with numpyro.plate("raters", 2, dim=-1):
            y = np.array([[1, 0], [1, 1], [0, 0]])
            numpyro.sample("y", dist.Bernoulli(jnp.where(z == 1, mu, 0.2)), obs=y)


def crossed():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", 2, dim=-2):
        a = numpyro.sample("a", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
    with numpyro.plate("columns", 2, dim=-1):
        b = numpyro.sample("b", dist.Bernoulli(0.4))
    with numpyro.plate("rows", 2, dim=-2), numpyro.plate("columns", 2, dim=-1):
        numpyro.sample("y", dist.Normal(mu * a + b, 1.0), obs=Y.reshape(2, 2))


def nested():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    c = numpyro.sample("c", dist.Bernoulli(0.3))
    with numpyro.plate("n", len(Y)):
        z = numpyro.sample("z", dist.Bernoulli(jnp.where(c == 1, 0.9, 0.2)))
        numpyro.sample("y", dist.Normal(mu + 2.0 * z, 1.0), obs=Y)


def hidden_markov():
    mu = numpyro.sample("mu", dist.Normal(0, 1))

    def step(before, y):
        z = numpyro.sample("z", dist.Bernoulli(jnp.where(before == 1, 0.8, 0.1)))
        numpyro.sample("y", dist.Normal(mu + 3.0 * z, 0.1), obs=y)
        return z, None

    scan(step, jnp.array(0), Y)


def looped():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    for i, y in enumerate(Y):
        z = numpyro.sample(f"z[{i}]", dist.Bernoulli(0.3))
        numpyro.sample(f"y[{i}]", dist.Normal(mu + 2.0 * z, 1.0), obs=y)


def weighted_and_masked():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", len(Y)):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        mask = handlers.mask(mask=np.array([True, True, False, True]))
        with handlers.scale(scale=np.array([2.0, 0.5, 1.0, 3.0])), mask:
            numpyro.sample("y", dist.Normal(mu + 2.0 * z, 1.0), obs=Y)


def a_label_that_moves_a_support():
    mu = numpyro.sample("mu", dist.HalfNormal(1.0))
    with numpyro.plate("n", 3):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Uniform(0.0, jnp.where(z == 1, 4.0, 1.0)), obs=np.array([0.5, 0.9, 3.0]))
    numpyro.sample("other", dist.Normal(mu, 1.0), obs=1.0)


def two_skills():
    """Of a vector of skills each answer reads some, and one reads none."""
    mu = numpyro.sample("mu", dist.Beta(2, 2))
    with numpyro.plate("people", 2, dim=-2), numpyro.plate("skills", 3, dim=-1):
        able = numpyro.sample("able", dist.Bernoulli(jnp.array([0.4, 0.5, 0.7])))
    needs = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    right = jnp.prod(jnp.where(needs == 1, able[:, None, :], 1), -1)
    with numpyro.plate("people", 2, dim=-2), numpyro.plate("items", 4, dim=-1):
        y = np.array([[1, 0, 1, 1], [0, 0, 0, 1]])
        numpyro.sample("y", dist.Bernoulli(jnp.where(right == 1, mu, 0.2)), obs=y)


def pairs():
    mu = numpyro.sample("mu", dist.Beta(2, 2))
    with numpyro.plate("people", 4):
        able = numpyro.sample("able", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
    first, second = np.array([0, 1, 2, 3, 1]), np.array([1, 2, 2, 0, 3])  # one with itself
    better = jnp.where(able[first] > able[second], mu, 0.3)
    numpyro.sample("y", dist.Bernoulli(better), obs=np.array([1, 1, 0, 0, 1]))


def what_a_state_and_the_one_before_say():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", len(Y)):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    before = jnp.concatenate([jnp.zeros(1, z.dtype), z[:-1]])
    numpyro.sample("y", dist.Normal(mu + 2.0 * z - before, 0.5), obs=Y)


def counts_beyond_their_tries():
    mu = numpyro.sample("mu", dist.Beta(2, 2))
    with numpyro.plate("n", 3):
        n = numpyro.sample("tries", dist.Binomial(2, 0.6))
    numpyro.sample("y", dist.Binomial(n[:-1] + n[1:], mu), obs=np.array([3, 1]))


MODELS = [
    two_skills, pairs, what_a_state_and_the_one_before_say, counts_beyond_their_tries,
    mixture, far_apart, zero_inflated, raters, crossed, nested, hidden_markov, looped, weighted_and_masked,
    a_label_that_moves_a_support,
]  # fmt: skip


def enumerated(model, mu):
    """By observed site `log p(y_i | the other data, mu)`: log Z less log Z without it, over all labels."""
    first = handlers.trace(handlers.seed(model, 0)).get_trace()
    labels = [n for n, m in first.items() if m["type"] == "sample" and m["fn"].is_discrete]
    labels = [n for n in labels if not first[n]["is_observed"]]
    data = [n for n, m in first.items() if m["type"] == "sample" and m["is_observed"]]
    shapes = {n: np.shape(first[n]["value"]) for n in labels}
    sizes = {n: len(first[n]["fn"].enumerate_support(expand=False)) for n in labels}
    elements = [range(sizes[n]) for n in labels for _ in range(int(np.prod(shapes[n], dtype=int)))]
    every = np.array(list(itertools.product(*elements)))

    def logs(row):
        values, at = {"mu": jnp.float64(mu)}, 0
        for n in labels:
            size = int(np.prod(shapes[n], dtype=int))
            values[n], at = row[at : at + size].reshape(shapes[n]), at + size
        traced = handlers.trace(handlers.substitute(handlers.seed(model, 0), values)).get_trace()
        out = {}
        for n, m in traced.items():
            if m["type"] == "sample":
                value = jnp.asarray(m["value"])
                inside = m["fn"].support(value).reshape(np.shape(value))
                log = m["fn"].log_prob(value) * (1 if m["scale"] is None else m["scale"])
                out[n] = jnp.where(inside, log, -jnp.inf)
        return out

    with jax.enable_x64(True):
        found = {n: np.asarray(v) for n, v in jax.vmap(logs)(jnp.asarray(every)).items()}
    joint = sum(v.reshape(len(every), -1).sum(1) for v in found.values())
    with np.errstate(invalid="ignore"):
        rest = sum(v.reshape(len(every), -1).sum(1) for n, v in found.items() if n not in data)
        out = {}
        for n in data:
            each = found[n].reshape(len(every), -1)
            for i in range(each.shape[1]):
                others = rest + np.delete(each, i, axis=1).sum(1)
                others = others + sum(found[m].reshape(len(every), -1).sum(1) for m in data if m != n)
                out.setdefault(n, []).append(logsumexp(joint) - logsumexp(others))
    return {n: np.array(v) for n, v in out.items()}


@pytest.mark.share(15)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_each_datum_given_the_others(model):
    density = gb.model(model).density
    sites = [n for n in density.latents if density.sites[n].discrete]
    marginal = marginal_of(density, sites)
    found = Pointwise(marginal, tuple(marginal.density.outputs["observed"]))
    assert not found.unread
    data = tuple(density.arguments.arrays)
    run = jax.jit(lambda mu: found({"mu": mu}, data))
    for mu in (0.3,):
        want, out = enumerated(model, mu), run(jnp.float32(mu))
        assert float(out.pop(CHANGED)) < 1e-2
        have = {}
        for name, v in out.items():
            names = density.groups.get(name)
            have |= {name: v} if names is None else dict(zip(names, v, strict=True))
        assert set(have) == set(want)
        for name, truth in want.items():
            np.testing.assert_allclose(np.ravel(have[name]), truth, rtol=2e-4, atol=2e-4)


@pytest.mark.slow
def test_what_reads_too_many_elements_of_one_site_is_not_summed_out():
    def totals():
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        z = numpyro.sample("z", dist.Bernoulli(0.5).expand([16]))
        numpyro.sample("y", dist.Normal(mu + jnp.array([z.sum(), z[0]]), 1.0), obs=Y[:2])
        numpyro.sample("x", dist.Normal(mu + z[:4], 1.0), obs=Y)

    marginal = marginal_of(gb.model(totals).density, ["z"])
    found = Pointwise(marginal, ("x", "y"))
    assert list(found.unread) == ["y"] and "reads too many elements of z" in found.unread["y"]
    z = jnp.arange(16) % 2
    out = found({"mu": jnp.float32(0.5), "z": z}, ())
    np.testing.assert_allclose(out["y"], dist.Normal(0.5 + jnp.array([8, 0]), 1.0).log_prob(Y[:2]), rtol=1e-5)
    np.testing.assert_allclose(out["x"], enumerated(totals, 0.5)["x"], rtol=2e-4)


def test_evidence_that_single_data_outweigh_is_told():
    def contradictory():
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(30.0 * z, jnp.array([1.0, 0.5])), obs=np.array([0.0, 30.0]))
        numpyro.sample("x", dist.Normal(mu, 1.0), obs=0.0)

    density = gb.model(contradictory).density
    found = Pointwise(marginal_of(density, ["z"]), ("y", "x"))
    assert float(found({"mu": jnp.float32(0.0)}, tuple(density.arguments.arrays))[CHANGED]) > 1
