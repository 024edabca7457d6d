"""The coordinates of learnt centring: against the log density of the model, Jacobians and forms by hand."""

import functools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.kernels.learnt.centring import centred_from, centred_to
from gibbsite.kernels.nuts.potential import problem
from gibbsite.kernels.nuts.tuning import Rows, moved, unmoved
from helpers.models.hierarchies import EFFECT, ERROR, HIERARCHIES, eight_schools
from numpyro.infer.gibbs import with_conditioning

CENTRED = ["eight schools", "eight schools by hand", "varying intercepts", "two levels", "horseshoe"]
CENTRED += ["horseshoe by hand", "log scales", "slopes by hand", "autoregressive", "areas"]
CENTRED += ["random walk", "gaussian process"]  # whitened as a whole
CENTRED += ["slopes together", "vectors of t"]  # element after element


@functools.cache
def made(name, centring="auto"):
    """Analysed once for all tests of a model, which share a precision."""
    case = HIERARCHIES[name]
    density = gb.model(case.fn, *case.args).density
    return problem(case.fn, density, centring, jax.random.key(0), case.args, {}), case, density


def point(c, seed):
    rng = np.random.default_rng(seed)
    lam = np.where(c.whole, float(seed % 2 == 0), rng.choice([0.0, 1.0, *rng.random(2)], c.degrees))
    return jnp.asarray(rng.normal(size=c.size)), jnp.asarray(lam)


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.share(5)
@pytest.mark.parametrize("name", CENTRED)
def test_the_log_density_is_that_of_the_model_plus_the_jacobian(name, double):
    p, case, density = made(name)
    c, around = p.coordinates, p.around(case.args, {})
    assert c.degrees == sum(int(np.prod(density.sites[n].shape)) for n in {**case.declared, **case.by_hand})

    @jax.jit
    def both(u, lam):
        v, total = c.written_from(u, lam, around)
        jacobian = jax.jacfwd(lambda u: c.written_from(u, lam, around)[0])(u)
        values, constrained = c.constrained(v)
        potential = p.potential(lam, case.args, {})(u)
        return total, jacobian, values, constrained, potential, c.learnt_from(v, lam, around)

    for seed in range(3):
        u, lam = point(c, seed)
        total, jacobian, values, constrained, potential, back = both(u, lam)
        np.testing.assert_allclose(total, np.linalg.slogdet(jacobian)[1], rtol=1e-9, atol=1e-9)
        whole = density.log_joint(values) + total + constrained
        np.testing.assert_allclose(-potential, whole, rtol=1e-6)
        np.testing.assert_allclose(back, u, rtol=1e-7, atol=1e-9)


@pytest.mark.share(5)
@pytest.mark.parametrize("name", CENTRED)
def test_gradients_are_finite_differences(name, double):
    p, case, _ = made(name)
    u, lam = point(p.coordinates, 5)
    potential, h = p.potential(lam, case.args, {}), 1e-6

    @jax.jit
    def both(u):
        steps = h * jnp.eye(len(u))
        ahead, behind = (jax.vmap(lambda step, s=s: potential(u + s * step))(steps) for s in (1, -1))
        return jax.grad(potential)(u), (ahead - behind) / (2 * h)

    gradient, difference = both(u)
    np.testing.assert_allclose(gradient, difference, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["two levels", "eight schools by hand"])
def test_gradients_move_with_the_coordinates(name, double):
    """A draw's gradient as the model is written and in any other coordinates, not evaluated again."""
    p, case, _ = made(name)
    c, around = p.coordinates, p.around(case.args, {})
    u, lam = point(c, 1)
    slope = -jax.grad(p.potential(lam, case.args, {}))(u)
    v, g = unmoved(c, u, slope, lam, around)
    written = jnp.asarray(c.written, v.dtype)
    as_written = p.potential(written, case.args, {})
    np.testing.assert_allclose(g, -jax.grad(as_written)(v), rtol=1e-8, atol=1e-9)
    other = point(c, 2)[1]
    u2, slope2 = moved(c, Rows(v, g, jnp.zeros(0)), other, around.data)
    np.testing.assert_allclose(slope2, -jax.grad(p.potential(other, case.args, {}))(u2), rtol=1e-8, atol=1e-9)


def test_the_ends_are_the_forms_by_hand_bit_for_bit():
    rng = np.random.default_rng(0)
    z, loc = (jnp.asarray(rng.normal(size=50), jnp.float32) for _ in range(2))
    scale = jnp.asarray(rng.gamma(1.0, size=50) + 1e-3, jnp.float32)
    zero, one = jnp.zeros(50), jnp.ones(50)
    np.testing.assert_array_equal(centred_from(z, one, loc, scale), z)
    np.testing.assert_array_equal(centred_to(z, one, loc, scale), z)
    np.testing.assert_array_equal(centred_from(z, zero, loc, scale), loc + scale * z)
    np.testing.assert_array_equal(centred_to(z, zero, loc, scale), (z - loc) / scale)


WRITTEN_BY_HAND = {
    "two levels": lambda v, z: v["middle"][np.array([0, 0, 1, 1, 1])] + 0.5 * z,
    "log scales": lambda v, z: v["scale"] * z,
    "random walk": lambda v, z: jnp.cumsum(v["step"] * z),
    "autoregressive": lambda v, z: v["sigma"] * z,
    "slopes together": lambda v, z: v["top"] + z @ (v["spread"][:, None] * v["chol"]).T,
    "gaussian process": lambda v, z: kernel_factor(**v, x=np.linspace(0, 1, 6)) @ z,
}


def kernel_factor(length, size, x, **_):
    k = size**2 * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-3 * jnp.eye(len(x))
    return jnp.linalg.cholesky(k)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", WRITTEN_BY_HAND)
def test_centred_is_as_written_and_non_centred_as_by_hand_bit_for_bit(name, double):
    """Operation by operation: values and log densities, of normals, t, logarithms, vectors, walks, scans."""
    p, case, _ = made(name)
    c, bare = p.coordinates, made(name, "as written")[0]
    around, rng = p.around(case.args, {}), np.random.default_rng(0)
    parts = {part.name: jnp.asarray(rng.normal(size=part.shape)) for part in c.parts}
    u, one, zero = c.flat(parts), jnp.ones(c.degrees), jnp.zeros(c.degrees)
    v, total = c.written_from(u, one, around)
    np.testing.assert_array_equal(v, u)
    np.testing.assert_array_equal(c.learnt_from(u, one, around), u)
    assert total == 0
    as_written = bare.potential(jnp.zeros(0), case.args, {})(bare.coordinates.flat(parts))
    np.testing.assert_array_equal(p.potential(one, case.args, {})(u), as_written)
    v, _ = c.written_from(u, zero, around)
    values = c.constrained(v)[0]
    last = c.centred[-1]
    by_hand = jnp.ravel(WRITTEN_BY_HAND[name](values, parts[last.name]))
    if name == "slopes together":  # sums of products, in another order
        np.testing.assert_allclose(v[last.at], by_hand, rtol=1e-14, atol=1e-14)
    else:
        np.testing.assert_array_equal(v[last.at], by_hand)


@pytest.mark.slow
def test_two_ways_of_writing_one_model_have_the_same_coordinates(double):
    """Centred as declared and non-centred by hand, brought to the same degree, are one density."""
    declared, case, _ = made("eight schools")
    by_hand, *_ = made("eight schools by hand")
    for seed in range(3):
        u, lam = point(declared.coordinates, seed)
        a = declared.potential(lam, case.args, {})(u)
        b = by_hand.potential(lam, case.args, {})(u)
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_what_lies_outside_the_block_is_read_from_the_siblings():
    density = gb.model(eight_schools, ERROR, EFFECT).density
    siblings = {"tau": jnp.asarray(2.0)}
    kwargs = dict(with_conditioning({}, siblings))
    p = problem(eight_schools, density, "auto", jax.random.key(0), (ERROR, EFFECT), kwargs)
    c = p.coordinates
    assert c.siblings == ("tau",)
    assert {part.name for part in c.parts} == {"mu", "theta"}
    around = p.around((ERROR, EFFECT), kwargs)
    v = jnp.arange(9.0)
    u = c.learnt_from(v, jnp.zeros(8), around)
    at = {part.name: part.at for part in c.parts}
    np.testing.assert_allclose(u[at["theta"]], (v[at["theta"]] - v[at["mu"]]) / 2.0, rtol=1e-6)
    assert around.siblings == siblings


def test_a_parent_outside_makes_no_degree_to_learn():
    """With both parents fixed, centring is a constant shift and stretch, which the metric learns anyway."""
    density = gb.model(eight_schools, ERROR, EFFECT).density
    kwargs = dict(with_conditioning({}, {"tau": jnp.asarray(2.0), "mu": jnp.asarray(1.0)}))
    p = problem(eight_schools, density, "auto", jax.random.key(0), (ERROR, EFFECT), kwargs)
    assert p.coordinates.degrees == 0
    assert made("eight schools", "as written")[0].coordinates.degrees == 0
