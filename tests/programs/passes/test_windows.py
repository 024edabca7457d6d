"""Loops whose carry holds the last values: the same density as NumPyro's, and a Gaussian part by hand."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from numpyro.contrib.control_flow import scan
from numpyro.infer.util import log_density


def seasonal(y, front, width, pieces=False):
    """A season of four that sums to about zero, `width` new values a step, joined to a slice of the last, or
    stacked upon them one by one."""
    sd = numpyro.sample("sd", dist.HalfNormal(1))
    first = numpyro.sample("first", dist.Normal(0, 2).expand([4]).to_event(1))

    def step(last, now):
        new = numpyro.sample("season", dist.Normal(-last[:3].sum() * jnp.ones(width), sd).to_event(1))
        numpyro.sample("y", dist.Normal(new.sum() + last[-1], 0.5), obs=now)
        if pieces:
            kept = [last[i] for i in range(3)] if front else [last[i] for i in range(1, 4)]
            return jnp.stack([new[0], *kept] if front else [*kept, new[0]]), None
        return jnp.concatenate([new, last[:-width]] if front else [last[width:], new]), None

    scan(step, first, y)


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("front", "width", "pieces"),
    [
        (True, 1, True),
        (True, 1, False),
        (True, 3, False),
        (False, 1, False),
        (False, 4, False),
        (False, 1, True),
    ],
)
def test_a_window_is_what_the_loop_carries(front, width, pieces):
    y = np.random.default_rng(0).normal(size=9).astype(np.float32)
    model = gb.model(seasonal, y, front, width, pieces)
    assert model.conditional("season").kind == "conjugate"
    marginal, data = model.marginal("first", "season"), tuple(model.density.arguments.arrays)
    for seed in range(3):
        r = np.random.default_rng(seed)
        shapes = {"first": (4,), "season": (9, width)}
        drawn = {n: jnp.asarray(r.normal(size=s), jnp.float32) for n, s in shapes.items()}
        state = {"sd": jnp.float32(r.uniform(0.3, 2)), **drawn}
        theirs, _ = log_density(seasonal, (y, front, width), {}, state)
        ours = model.density.log_joint_at(state, data)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert float(marginal.logdensity(state, constants=True)) == pytest.approx(
            integral(state, y, front, width), rel=1e-4
        )


def integral(state, y, front, width):
    """Over all that is Gaussian, from the Hessian of NumPyro's density."""
    flat, back = ravel_pytree({n: jnp.zeros_like(v) for n, v in state.items() if n != "sd"})

    @jax.jit
    def height(x):
        return log_density(seasonal, (y, front, width), {}, {"sd": state["sd"], **back(x)})[0]

    precision = -np.asarray(jax.hessian(height)(flat), np.float64)
    slope = np.asarray(jax.grad(height)(flat), np.float64)
    top = float(height(flat)) + slope @ np.linalg.solve(precision, slope) / 2
    return top + len(slope) / 2 * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1] / 2
