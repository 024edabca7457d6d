"""Coordinates between a positive number and its logarithm: their inverse and slopes, and what is learnt."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.kernels.learnt.metric import divergence
from gibbsite.kernels.learnt.power_transform import Bends, bent, bent_from, bent_to, learnt_bends, straight
from gibbsite.kernels.nuts.report import Centring
from helpers.models.hierarchies import EFFECT, ERROR, eight_schools

POWERS = (1.0, 0.5, -0.5, -1.0)


@pytest.mark.share(3)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("knee", [-2.0, 0.0, 3.0])
def test_there_and_back_with_the_slope_of_the_way(power, knee):
    with jax.enable_x64(True):
        v = jnp.linspace(-25.0, 25.0, 401) * min(1.0, 0.2 / abs(power) + 0.1)
        bends = Bends(jnp.full(v.shape, power), jnp.full(v.shape, knee))
        u = bent_to(v, bends)
        assert (np.diff(u) > 0).all()
        back, log_slope = bent_from(u, bends)
        np.testing.assert_allclose(back, v, rtol=1e-6, atol=1e-6)
        slope = jax.vmap(jax.grad(lambda u: bent_from(u, Bends(jnp.array(power), jnp.array(knee)))[0]))(u)
        np.testing.assert_allclose(jnp.exp(log_slope), slope, rtol=1e-5)
        # the gradient moves as that of the density does
        one = Bends(jnp.array(power), jnp.array(knee))

        def moved(u):
            v, log_slope = bent_from(u, one)
            return -((v - 1.0) ** 2) + log_slope

        _, g = bent(v, -2 * (v - 1.0), bends)
        np.testing.assert_allclose(g, jax.vmap(jax.grad(moved))(u), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_what_is_straight_stays_to_the_bit_and_extremes_are_finite():
    v = jnp.asarray([-300.0, -1.7, 0.0, 2.3, 87.0], jnp.float32)
    plain = straight(5)
    np.testing.assert_array_equal(bent_to(v, plain), v)
    np.testing.assert_array_equal(bent_from(v, plain)[0], v)
    np.testing.assert_array_equal(bent(v, v, plain)[1], v)
    for bends in (plain, Bends(jnp.ones(5), jnp.zeros(5)), Bends(-jnp.ones(5), jnp.zeros(5))):
        for fn in (
            lambda v, b=bends: bent_to(v, b).sum(),
            lambda u, b=bends: sum(map(jnp.sum, bent_from(u, b))),
        ):
            value, slope = jax.value_and_grad(fn)(v)
            assert np.isfinite(value) and np.isfinite(slope).all()


def half_normal(n, seed=0):
    """Logarithms of draws of a half-normal, with the gradients of their log density."""
    x = np.abs(np.random.default_rng(seed).normal(size=n))
    return jnp.asarray(np.log(x), jnp.float32)[:, None], jnp.asarray(1 - x**2, jnp.float32)[:, None]


@pytest.mark.parametrize("power", [1.0, -0.5])
def test_a_scale_that_may_be_nothing_is_bent_however_it_is_written(power):
    """A half-normal scale, or the precision that it makes: far from normal as a logarithm, and not bent."""
    v, g = half_normal(2000)
    v, g = v / power, g * power
    weight = jnp.ones(len(v))
    bends, (written, used) = learnt_bends(v, g, weight)
    assert np.isfinite(bends.knee[0]) and bends.power[0] * power > 0
    assert used[0] < 0.1 < 0.3 < written[0]
    np.testing.assert_allclose(divergence(*bent(v, g, bends), weight), used, rtol=1e-4)


def test_a_normal_logarithm_is_left_alone():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(400, 3)), jnp.float32)
    scale = jnp.asarray([0.05, 1.0, 3.0])
    bends, (written, used) = learnt_bends(x * scale, -x / scale, jnp.ones(400))
    assert np.isinf(bends.knee).all()
    np.testing.assert_array_equal(written, used)


@pytest.mark.slow
def test_a_run_bends_the_scale_of_a_hierarchy_and_tells():
    options = {"draws": 10, "warmup": 150, "chains": 4, "seed": 0, "schedule": "NUTS [mu tau theta]"}
    told = gb.model(eight_schools, ERROR, EFFECT).sample(**options).centring
    assert list(told.bent) == ["tau"] and told.bent["tau"].used < told.bent["tau"].written
    assert "tau: between logarithm and value" in str(told)
    assert set(told) == {"theta"}
    again = Centring.from_json(told.as_json())
    assert str(again) == str(told)
