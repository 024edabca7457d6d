"""Sums that latents multiply: the same numbers, taken apart into what reads neighbours alone."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.passes import distribute
from gibbsite.programs.jaxpr.primitives import DIVIDES, SELECTS
from helpers.readers.in_numpy import in_numpy
from helpers.truths.perturbation import misses, moves
from numpyro.infer.util import log_density

N = 6


def alike(z):
    return (z[1:] == z[:-1]).sum()


LINES = {
    "sum": lambda b, z: b * alike(z),
    "product": lambda b, z: b * jnp.sum(z[:-1] * z[1:]),
    "signs": lambda b, z: b * jnp.sum((2 * z[:-1] - 1) * (2 * z[1:] - 1)),
    "difference": lambda b, z: -b * jnp.abs(jnp.diff(z)).sum(),
    "mean": lambda b, z: b * (z[1:] == z[:-1]).mean(),
    "function": lambda b, z: jnp.exp(b) * alike(z) / 2.0,
    "quotient": lambda b, z: (alike(z) - 0.3) / (1 + b**2),
    "vectors": lambda b, z: b * jnp.dot(z[:-1].astype(float), z[1:].astype(float)),
    "whole vectors": lambda b, z: b * (z[:-1] @ z[1:]),
    "choice": lambda b, z: jnp.where(b > 0, alike(z), -0.5 * alike(z)),
    "array": lambda b, z: jnp.where(z[1:] == z[:-1], b, -b).sum(),
    "numbers": lambda b, z: b * sum((z[i] == z[i + 1]) * 1.0 for i in range(N - 1)),
    "twice": lambda b, z: b * (2.0 - b * (1.0 - alike(z))),
}


def on_a_line(form):
    def model():
        b = numpyro.sample("b", dist.Normal(0, 1))
        z = numpyro.sample("z", dist.Bernoulli(0.4).expand([N]))
        numpyro.factor("e", form(b, z))

    return gb.model(model)


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_a_chain_however_it_is_written(name):
    assert on_a_line(LINES[name]).conditional("z").kind == "chain"


def test_a_grid_has_two_colours_and_products_of_two_sums_are_left():
    def model():
        b = numpyro.sample("b", dist.Normal(0, 1))
        z = numpyro.sample("z", dist.Bernoulli(0.4).expand([3, 4]))
        u = numpyro.sample("u", dist.Bernoulli(0.4).expand([3]))
        x = numpyro.sample("x", dist.Normal(0, 1).expand([3]))
        numpyro.factor("e", b * (alike(z) + (z[:, 1:] == z[:, :-1]).sum()))
        numpyro.factor("two", jnp.sum(u) * jnp.sum(x))

    found = gb.model(model)
    assert found.conditional("z").structure.n_colours == 2
    (two,) = [t for t in found.density.terms if t.origin == "two"]
    assert two.shape == ()


def test_integers_are_weighted_by_real_numbers():
    """Whatever is done to the shape of integers between them and their weights."""
    weight = np.array([[0.3, 0.7], [1.2, 2.2]])

    def model():
        z = numpyro.sample("z", dist.Bernoulli(0.5).expand([4]))
        numpyro.factor("turned", (jnp.asarray(weight) * z.reshape(2, 2).T).sum())
        numpyro.factor("rows", jnp.asarray(weight[0]) @ z[2:])

    logits = gb.model(model).conditional("z").logits({"z": np.zeros(4, int)})
    expected = weight.T.ravel() + np.array([0, 0, *weight[0]])
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], expected, rtol=1e-5)


def random_form(seed):
    """An expression of sums, each multiplied, divided, chosen and added at random."""
    rng = np.random.default_rng(seed)
    t = jnp.asarray(rng.normal(size=4).round(2))

    def leaf(s):
        z, v, w = s["z"], s["v"], s["w"]
        return [
            lambda: alike(z),
            lambda: jnp.sum(z[:-1] * z[1:]),
            lambda: t @ z,
            lambda: jnp.dot(1.0 * z[2:], 1.0 * z[:-2]),
            lambda: jnp.sum((v[1:] == v[:-1]).sum(0) * w),
            lambda: jnp.sum(w[0] * (1.0 * v).sum(1) / (1 + s["b"] ** 2)),
            lambda: jnp.sum(w * jnp.einsum("ij,ij->j", 1.0 * v, 1.0 * v[::-1])),
            lambda: jnp.sum(jnp.stack([t[1:], t[:-1]]) * v[:, ::-1]),
            lambda: jnp.sum(t.reshape(2, 2) * z.reshape(2, 2).T) + w[1],
            lambda: jnp.max(z) * 0.3,
            lambda: t[0] + 0.0 * s["b"],
        ][rng.integers(11)]()

    def grown(s, depth):
        kind = rng.integers(8) if depth else 0
        if kind == 0:
            return leaf(s)
        inner = grown(s, depth - 1)
        by = [s["b"], jnp.exp(s["w"][1]), s["m"] + 0.5, t[1]][rng.integers(4)]
        return [
            lambda: by * inner,
            lambda: inner / (1.5 + jnp.abs(by)),
            lambda: -inner,
            lambda: inner + grown(s, depth - 1),
            lambda: grown(s, depth - 1) - 2 * inner,
            lambda: jnp.where(s["m"] == 1, inner, grown(s, depth - 1)),
            lambda: by * (inner + t[2]),
        ][kind - 1]()

    def model():
        s = {"b": numpyro.sample("b", dist.Normal(0, 1)), "m": numpyro.sample("m", dist.Bernoulli(0.4))}
        s["w"] = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        s["z"] = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.3, 0.5])).expand([4]))
        s["v"] = numpyro.sample("v", dist.Bernoulli(0.3).expand([2, 3]))
        nonlocal rng
        rng = np.random.default_rng(seed)  # the model runs several times
        numpyro.factor("e", grown(s, 4))

    return model


def states(number):
    rng = np.random.default_rng(number)
    return {
        "b": rng.normal(),
        "m": rng.integers(0, 2),
        "w": rng.normal(size=3),
        "z": rng.integers(0, 3, 4),
        "v": rng.integers(0, 2, (2, 3)),
    }


def check(seed):
    """Whether a sum was written anew; the joint density, the terms and the index maps are right."""
    fn = random_form(seed)
    density = gb.model(fn).density
    both = {n: np.stack([states(2 * seed)[n], states(2 * seed + 1)[n]]) for n in states(0)}
    both = {n: v.astype(density.sites[n].dtype) for n, v in both.items()}
    truth = in_numpy(jax.vmap(lambda s: log_density(fn, (), {}, s)[0]), both)

    def ours(state):
        ev = density.evaluator(state)
        return sum(
            jnp.sum(jnp.broadcast_to(t.contribution(ev.full(t.atom), ev.full), t.shape))
            for t in density.terms
        )

    found = in_numpy(jax.vmap(ours), both)
    np.testing.assert_allclose(found[0] - found[1], truth[0] - truth[1], rtol=2e-4, atol=2e-4)
    order = sorted(density.latent_vars)
    inputs = [jnp.asarray(both[n][0]) for n in order]
    total, missed = misses(
        density.maps, moves(density.closed, inputs, {n: (i, both[n][1]) for i, n in enumerate(order)})
    )
    assert total > 0
    assert missed == 0
    return any(
        t.origin == "e" and len(t.shape) and "b" in density.maps.latents(t.atom) for t in density.terms
    )


@pytest.mark.slow
def test_random_sums_are_the_same_numbers():
    assert sum(check(seed) for seed in range(8)) >= 3


@pytest.mark.slow
def test_many_random_sums():
    assert sum(check(seed) for seed in range(8, 300)) > 90


def unscaled(patch):
    """What is added to a sum and reads no latent is not multiplied."""
    patch.setattr(distribute, "ADD", frozenset())


def first_case(patch):
    """A choice takes the first of its arrays, whatever the selector."""
    real = distribute._By.__call__
    patch.setattr(
        distribute._By,
        "__call__",
        lambda self, x, by=None: x if self.kind is SELECTS else real(self, x, by),
    )


def multiplied_twice(patch):
    """A quotient is a product."""
    real = distribute._By.__call__

    def wrong(self, x, by=None):
        return x * jnp.broadcast_to(by, x.shape) if self.kind is DIVIDES else real(self, x, by)

    patch.setattr(distribute._By, "__call__", wrong)


@pytest.mark.parametrize("fault", [unscaled, first_case, multiplied_twice])
def test_faults_are_found(monkeypatch, fault):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(30):
            check(seed)
