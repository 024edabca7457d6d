"""Scans whose carries are partly known without running the loop: what is left of the loop."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.programs.jaxpr.compat import jaxpr_as_fun
from gibbsite.programs.passes.flatten import flatten
from helpers.startup.arrays import array
from helpers.truths.oracle import against_joint
from numpyro import handlers
from numpyro.contrib.control_flow import scan

X = array(np.arange(1.0, 6.0))

# carries → (next carries, what is given out), and how many loops are left
BODIES = {
    "last value": (lambda c, x: ((x, c[1]), c[0] + x), 0),
    "counter": (lambda c, x: ((c[0] + 2.0, x), c[0] * c[1]), 0),
    "decay": (lambda c, x: ((c[0] * 0.5 + x, x), jnp.sin(c[0]) + c[1]), 1),
    "decay read by another": (lambda c, x: ((c[0] * 0.5 + x, c[0] + 1), c[1] * x), 1),
    "two apart": (lambda c, x: ((c[0] * 0.5 + x, jnp.maximum(c[1], x)), c[0] * c[1]), 2),
    "one after the other": (lambda c, x: ((c[0] * 0.5 + x, c[1] * 0.9 + c[0]), c[1]), 2),
    "together": (lambda c, x: ((c[1] * 0.5 + x, c[0] - c[1]), c[0] * x), 1),
    "only carried": (lambda c, x: ((c[1] * 0.5 + x, c[0] - c[1]), c[0]), 1),
    "nothing given out": (lambda c, x: ((c[0] * x, c[1] + c[0]), None), 2),
    "both kept": (lambda c, x: (c, c[0] * x), 0),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_a_flattened_scan_computes_the_same_and_loops_over_recurrences_only(name, reverse):
    body, loops = BODIES[name]

    def run(a, b, xs):
        return jax.tree.leaves(jax.lax.scan(body, (a, b), xs, reverse=reverse))

    flat = flatten(jax.make_jaxpr(run)(1.5, 0.5, X))
    for found, wanted in zip(jaxpr_as_fun(flat)(1.5, 0.5, X), run(1.5, 0.5, X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert sum(e.primitive.name == "scan" for e in flat.jaxpr.eqns) == loops


HISTORY = array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]])


def capture_recapture(h):
    """NumPyro's example: whether an animal was seen before is a recurrence of the data alone."""
    phi = numpyro.sample("phi", dist.Uniform(0.0, 1.0))
    rho = numpyro.sample("rho", dist.Uniform(0.0, 1.0))

    def step(carry, y):
        seen, z = carry
        with numpyro.plate("animals", 3), handlers.mask(mask=seen):
            alive = dist.util.clamp_probs(seen * phi * z + (1 - seen))
            z = numpyro.sample("z", dist.Bernoulli(alive))
            numpyro.sample("y", dist.Bernoulli(dist.util.clamp_probs(rho * z)), obs=y)
        return (seen | y.astype(bool), z), None

    start = h[:, 0].astype(bool), jnp.ones(3, jnp.int32)
    scan(step, start, jnp.swapaxes(h[:, 1:], 0, 1))


@pytest.mark.slow
def test_states_beside_a_recurrence_of_the_data_are_a_chain():
    states = [
        {"phi": 0.6, "rho": 0.3, "z": np.array(z)} for z in (np.ones((3, 3), int), np.eye(3, dtype=int))
    ]
    states[1]["z"] = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    assert against_joint(capture_recapture, (HISTORY,), "z", states) == "chain"


@pytest.mark.slow
def test_bounds_of_sites_beside_a_recurrence():
    def model(y):
        def step(m, now):
            phi = numpyro.sample("phi", dist.Uniform(0.0, 1.0 + 0 * now))
            numpyro.sample("y", dist.Normal(phi * m, 1.0), obs=now)
            return m * 0.5 + now, None

        scan(step, 1.0, y)

    points = np.random.default_rng(0).uniform(size=(4, 3)).astype(np.float32)
    assert against_joint(model, (jnp.arange(3.0),), "phi", [{}], points) == "conjugate"
    assert "Conjugate phi" in gb.model(model, jnp.arange(3.0)).schedule().text


# windows of the last rows, and how many loops are left
WINDOWS = {
    "newest first": (lambda w, x: (jnp.concatenate([x[None], w[:-1]]), w), 0),
    "newest last": (lambda w, x: (jnp.concatenate([w[1:], 2 * x[None]]), w.sum() * x), 0),
    "of what it holds": (lambda w, x: (jnp.concatenate([(w[-1] + x)[None], w[:-1]]), w[0]), 1),
    "others' order": (lambda w, x: (jnp.concatenate([x[None], w[1:]]), w), 1),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_of_the_last_rows_is_those_side_by_side(name, rows, reverse):
    body, loops = WINDOWS[name]
    start, xs = np.arange(10.0, 10.0 + 2 * rows).reshape(rows, 2), np.arange(10.0).reshape(5, 2)

    def run(w, xs):
        return jax.tree.leaves(jax.lax.scan(body, w, xs, reverse=reverse))

    flat = flatten(jax.make_jaxpr(run)(array(start), array(xs)))
    found = jaxpr_as_fun(flat)(array(start), array(xs))
    for one, wanted in zip(found, run(array(start), array(xs)), strict=True):
        np.testing.assert_array_equal(one, wanted)
    if rows > 1:
        assert sum(e.primitive.name == "scan" for e in flat.jaxpr.eqns) == loops


def season(y):
    """A local level and effects of four seasons that sum to about 0, three of which are carried."""
    q, s, r = (numpyro.sample(n, dist.HalfNormal(1)) for n in "qsr")

    def step(carry, _):
        level, effects = carry
        level = numpyro.sample("level", dist.Normal(level, q))
        new = numpyro.sample("effect", dist.Normal(-effects.sum(), r))
        return (level, jnp.concatenate([jnp.expand_dims(new, 0), effects[:-1]])), level + new

    _, mean = scan(step, (0.0, jnp.zeros(3)), None, length=len(y))
    numpyro.sample("y", dist.Normal(mean, s), obs=y)


def test_a_season_whose_last_effects_are_carried_is_jointly_gaussian_with_its_level():
    steps = 12
    y = np.sin(np.arange(steps) * 1.7)
    left = gb.model(season, array(y)).marginal("level", "effect")
    shift = np.eye(steps) + sum(np.eye(steps, k=-lag) for lag in (1, 2, 3))
    level, effect = np.tri(steps), np.linalg.inv(shift)

    def truth(q, s, r):
        cov = q**2 * level @ level.T + r**2 * effect @ effect.T + s**2 * np.eye(steps)
        prior = 3 * np.log(2 / np.sqrt(2 * np.pi)) - (q**2 + s**2 + r**2) / 2
        normal = np.linalg.slogdet(2 * np.pi * cov)[1] + y @ np.linalg.solve(cov, y)
        return prior - normal / 2

    for at in ((0.3, 0.5, 0.2), (1.5, 0.2, 0.7)):
        state = dict(zip("qsr", at, strict=True))
        np.testing.assert_allclose(left.logdensity(state, constants=True), truth(*at), rtol=2e-4)
