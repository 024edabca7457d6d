"""The trajectory: every decision against one in NumPy, distributions against NumPyro and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.kernels.nuts import tree as module
from gibbsite.kernels.nuts.collectives import AXIS
from gibbsite.kernels.nuts.tree import chance, grown
from jax import lax, random
from numpyro.infer.hmc_util import build_tree, velocity_verlet
from scipy import stats

SCALES = np.array([0.3, 1.0, 2.5])


def potential(w):
    """A bent normal: not so round that every trajectory is alike."""
    return 0.5 * jnp.sum((w / SCALES) ** 2) + 0.1 * (w[0] - 0.3 * w[1] ** 2) ** 2


def tree(w, r, step_size, key, depth=10, of=potential, **rest):
    energy, gradient = jax.value_and_grad(of)(w)

    def moved(d):
        return jax.value_and_grad(of)(w + d)

    _, found = chance(key, w.size, depth, w.dtype)
    return grown(moved, energy, gradient, step_size, found._replace(momentum=r), **rest)


def numbers(key, size, depth):
    """Of every doubling its two random numbers, and of every leaf its own."""
    _, found = chance(key, size, depth, float)
    later = [random.uniform(k, (32,), float) for k in found.later]
    return found.doublings, jnp.concatenate([found.noise, *later])


@pytest.fixture(scope="module")
def many():
    """Trees of 300 chains side by side, in double precision, with what they were grown from."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        n = 300
        w, r = rng.normal(size=(n, 3)) * SCALES, rng.normal(size=(n, 3))
        step_size = np.exp(rng.uniform(np.log(0.02), np.log(1.2), n))
        keys = random.split(random.key(1), n)
        grow = jax.jit(jax.vmap(lambda *a: tree(*a, depth=6), axis_name=AXIS))
        found = jax.device_get(grow(jnp.asarray(w), jnp.asarray(r), jnp.asarray(step_size), keys))
        drawn = jax.device_get(jax.jit(jax.vmap(lambda k: numbers(k, 3, 6)))(keys))
    return w, r, step_size, *drawn, found


def gradient(w):
    bend = 0.2 * (w[0] - 0.3 * w[1] ** 2)
    return w / SCALES**2 + np.array([bend, -0.6 * w[1] * bend, 0.0])


def energy_of(w, r):
    return 0.5 * np.sum((w / SCALES) ** 2) + 0.1 * (w[0] - 0.3 * w[1] ** 2) ** 2 + 0.5 * r @ r


def turns(rs):
    middle = sum(rs) - (rs[0] + rs[-1]) / 2
    return rs[0] @ middle <= 0 or rs[-1] @ middle <= 0


def plain(w, r, eps, doublings, noise, most):
    """Doubling by doubling, with every leaf kept; the momenta of a part stand in the order of the walk."""
    first, used = energy_of(w, r), 0
    ends, r_all = {True: (w, r), False: (w, r)}, [r]
    chosen, weights, accepts = w, [0.0], []
    for depth in range(most):
        right = doublings[depth, 0] < 0.5
        here, (x, p), sign = None, ends[right], 1.0 if right else -1.0
        rs, logs, over = [], [], False
        for leaf in range(2**depth):
            p = p - 0.5 * sign * eps * gradient(x)
            x = x + sign * eps * p
            p = p - 0.5 * sign * eps * gradient(x)
            gain = first - energy_of(x, p)
            rs.append(p)
            logs.append(gain)
            accepts.append(min(1.0, np.exp(gain)))
            if noise[used] < np.exp(gain - np.logaddexp.reduce(logs)):
                here = x
            used += 1
            over = gain < -1000
            size = 2
            while (leaf + 1) % size == 0:  # every balanced part that ends here
                over |= turns(rs[-size:])
                size *= 2
            if over:
                break
        if over:
            break
        total = np.logaddexp.reduce(logs)
        if doublings[depth, 1] < np.exp(total - np.logaddexp.reduce(weights)):
            chosen = here
        weights.append(total)
        ends[right] = x, p
        r_all = r_all + rs if right else rs[::-1] + r_all
        if turns(r_all):
            break
    return chosen, used, np.mean(accepts)


@pytest.mark.slow
def test_every_decision_is_that_of_a_tree_whose_leaves_are_all_kept(many):
    w, r, step_size, doublings, noise, found = many
    steps = []
    for i in range(len(w)):
        chosen, n, accept = plain(w[i], r[i], step_size[i], doublings[i], noise[i], 6)
        assert n == found.num_steps[i]
        np.testing.assert_allclose(w[i] + found.proposal.w[i], chosen, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found.accept_prob[i], accept, rtol=1e-8)
        steps.append(n)
    assert len(set(steps)) > 15 and max(steps) == 63 and 0 < found.diverging.sum() < 100


def test_what_is_known_of_the_proposal_is_right(many):
    w, _, _, _, _, found = many
    for i in range(0, len(w), 10):
        at = w[i] + found.proposal.w[i]
        np.testing.assert_allclose(found.proposal.gradient[i], gradient(at), rtol=1e-8, atol=1e-10)
        energy = energy_of(at, np.zeros(3))
        np.testing.assert_allclose(found.proposal.potential_energy[i], energy, rtol=1e-8)
        assert found.proposal.energy[i] >= energy


def test_chains_side_by_side_are_the_chains_alone(many):
    """With counters shared, with those of each chain (a `vmap` that nobody named), and one by one."""
    w, r, step_size, *_, found = many
    with jax.enable_x64(True):
        apart, one_by_one = other_ways(w, r, step_size)
    for i in range(12):
        for other in jax.tree.map(lambda a, i=i: a[i], (apart, one_by_one)):
            assert other.num_steps == found.num_steps[i]
            np.testing.assert_allclose(other.proposal.w, found.proposal.w[i], rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(other.accept_prob, found.accept_prob[i], rtol=1e-8)


def other_ways(w, r, step_size):
    keys = random.split(random.key(1), len(w))
    arguments = (*(jnp.asarray(a)[:12] for a in (w, r, step_size)), keys[:12])

    def grow(*a):
        return tree(*a, depth=6)

    return jax.device_get(
        jax.jit(lambda *a: (jax.vmap(grow)(*a), lax.map(lambda b: grow(*b), a)))(*arguments)
    )


def numpyros(w, r, step_size, key, depth=10):
    begin, update = velocity_verlet(potential, lambda _, r: 0.5 * r @ r)
    found = build_tree(
        update,
        lambda _, r: 0.5 * r @ r,
        begin(w, r),
        jnp.ones_like(w),
        step_size,
        key,
        max_tree_depth=depth,
    )
    return found.z_proposal, found.num_proposals, found.sum_accept_probs / found.num_proposals


@pytest.fixture(scope="module")
def from_one_place():
    """Where NumPyro's trees and ours lead from one place, by step size."""
    w, r = jnp.array([0.4, -1.2, 0.5]), jnp.array([0.3, 1.1, -0.6])

    def both(step_size, ours, theirs):
        return (
            jax.vmap(lambda k: tree(w, r, step_size, k), axis_name=AXIS)(ours),
            jax.vmap(lambda k: numpyros(w, r, step_size, k))(theirs),
        )

    return w, jax.jit(both)


@pytest.mark.slow
@pytest.mark.parametrize("step_size", [pytest.param(0.11, marks=pytest.mark.slow), 0.7])
def test_from_one_place_it_goes_where_numpyros_goes(from_one_place, step_size):
    n = 4000
    keys = random.split(random.key(7), 2 * n)
    w, both = from_one_place
    ours, theirs = both(step_size, keys[:n], keys[n:])
    ours = w + ours.proposal.w, ours.num_steps, ours.accept_prob
    for a, b in zip(ours, theirs, strict=True):
        for power in (1, 2):
            x, y = (np.asarray(v, float).reshape(n, -1) ** power for v in (a, b))
            error = np.sqrt((x.var(0) + y.var(0)) / n) + 1e-9
            assert np.all(np.abs(x.mean(0) - y.mean(0)) < 4.5 * error)


def test_a_normal_distribution_stays_what_it_is():
    n = 20_000
    w = random.normal(random.key(0), (n, 3)) * SCALES
    r = random.normal(random.key(1), (n, 3))

    def normal(w):
        return 0.5 * jnp.sum((w / SCALES) ** 2)

    def step(w, r, key):
        return w + tree(w, r, 0.35, key, depth=5, of=normal).proposal.w

    z = np.asarray(jax.jit(jax.vmap(step, axis_name=AXIS))(w, r, random.split(random.key(2), n))) / SCALES
    moments = [z.mean(0), (z**2).mean(0) - 1, (z**4).mean(0) - 3, (z[:, :1] * z[:, 1:]).mean(0)]
    for found, spread in zip(moments, (1, 2, 96, 1), strict=True):
        assert np.all(np.abs(found) < 4.5 * np.sqrt(spread / n))


def test_a_tree_has_no_more_than_its_depth_and_goes_no_further_than_it_may():
    def walled(w):
        return jnp.where(w[0] > 1e4, jnp.nan, potential(w))

    grow = jax.jit(lambda r, step_size, key: tree(jnp.zeros(3), r, step_size, key, 3, of=walled))
    assert grow(jnp.ones(3), 1e-4, random.key(0)).num_steps == 7
    # too far, and where nothing is defined
    for step_size, keys in ((60.0, range(2)), (1e5, range(6))):
        for key in keys:
            found = grow(jnp.ones(3), step_size, random.key(key))
            assert found.diverging and found.num_steps == 1
            np.testing.assert_array_equal(found.proposal.w, 0.0)
            assert found.accept_prob < 1e-6


def test_many_leaves_have_random_numbers_of_their_own():
    """Beyond those that are drawn at once: of 255 leaves of equal weight, each is chosen as often."""
    n = 4000

    def flat(w):
        return 0.0 * jnp.sum(w)

    def at(key):
        found = tree(jnp.zeros(1), jnp.ones(1), 1.0, key, depth=8, of=flat)
        return found.proposal.w[0], found.num_steps

    where, steps = jax.jit(jax.vmap(at, axis_name=AXIS))(random.split(random.key(3), n))
    assert np.all(np.asarray(steps) == 255) and module._NOISE < 128
    # the last doubling is always accepted: its leaves are 128 places in a row, on either side
    far = np.abs(np.asarray(where))
    side = np.asarray(where) > 0
    assert abs(side.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(n)
    counts = np.bincount(far.astype(int), minlength=256)
    assert counts.max() < 10 * n / 256 and far.max() > 240


def test_momenta_are_normal_and_what_is_decided_by_is_uniform():
    n = 4000
    draw = jax.jit(jax.vmap(lambda k: chance(k, 3, 10, jnp.float32)))
    keys, found = draw(random.split(random.key(5), n))
    assert len(np.unique(jax.random.key_data(keys), axis=0)) == n and found.later.shape == (n, 31)
    momentum, rest = np.asarray(found.momentum), [np.asarray(x).reshape(n, -1) for x in found[1:3]]
    for x in momentum.T:
        assert stats.kstest(x, "norm").pvalue > 1e-4
    for x in np.concatenate(rest, 1).T:
        assert stats.kstest(x, "uniform").pvalue > 1e-5
    apart = np.corrcoef(np.concatenate([momentum, *rest], 1).T)
    assert np.abs(apart - np.eye(len(apart))).max() < 5.5 / np.sqrt(n)


def test_the_gradient_stands_once_in_what_is_compiled():
    def counted(jaxpr, name):
        total = 0
        for eqn in jaxpr.eqns:
            total += eqn.primitive.name == name
            for value in eqn.params.values():
                for part in value if isinstance(value, tuple) else (value,):
                    inner = getattr(part, "jaxpr", part)
                    total += counted(inner, name) if hasattr(inner, "eqns") else 0
        return total

    def marked(w):
        return jnp.sum(jnp.arctan(w))

    def moved(d):
        return jax.value_and_grad(marked)(d)

    def one(key):
        return grown(moved, jnp.zeros(()), jnp.zeros(3), 0.1, chance(key, 3, 10, jnp.float32)[1])

    program = jax.make_jaxpr(jax.vmap(one, axis_name=AXIS))(random.split(random.key(0), 4))
    assert counted(program.jaxpr, "atan") == 1
