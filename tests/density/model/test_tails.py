"""Truncated normals far from where their normals are, beside double precision by SciPy."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

BOUNDS = {"left": (0.0, None), "right": (None, 0.0), "both": (0.0, 3.0), "all": (-np.inf, 0.5)}
DRAWN = np.array([0.2, 0.7, 1.1], np.float32)


def model(low, high, wrapped):
    loc, scale = numpyro.sample("loc", dist.Normal(0, 100.0)), numpyro.sample("scale", dist.HalfCauchy(25.0))
    mirrored = jnp.asarray(DRAWN if high != 0.0 else -DRAWN)
    if high == 0.5:
        mirrored = mirrored - 0.8
    fn = dist.TruncatedNormal(loc, scale, low=low, high=high)
    if wrapped:
        fn = fn.expand([3]).mask(jnp.array([True, True, True])).to_event(1)
    numpyro.sample("x", fn, obs=mirrored)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_densities_and_slopes_hold_in_tails(bounds, wrapped):
    low, high = BOUNDS[bounds]
    density = gb.model(model, low, high, wrapped).density
    value = DRAWN if high != 0.0 else -DRAWN
    value = value - 0.8 if high == 0.5 else value

    def of(state):
        return density.log_joint(state) - stats_free(state)

    def stats_free(state):
        return dist.Normal(0, 100.0).log_prob(state["loc"]) + dist.HalfCauchy(25.0).log_prob(state["scale"])

    def truth(loc, scale):
        ends = [
            (b - loc) / scale for b in (-np.inf if low is None else low, np.inf if high is None else high)
        ]
        return stats.truncnorm(*ends, loc, scale).logpdf(value.astype(float)).sum()

    for away in (0.5, 3.0, 9.0, 12.5, 14.0, 20.0, 60.0):
        for sign in (-1, 1):
            loc, scale = sign * away * 1.5, 1.5
            state = {"loc": jnp.float32(loc), "scale": jnp.float32(scale)}
            slope, h = jax.grad(of)(state), 1e-4
            by_loc = (truth(loc + h, scale) - truth(loc - h, scale)) / (2 * h)
            by_scale = (truth(loc, scale + h) - truth(loc, scale - h)) / (2 * h)
            rounded = 3e-6 * away**2  # as sums of squares are
            assert float(of(state)) == pytest.approx(truth(loc, scale), rel=1e-4, abs=1e-4 + rounded)
            assert float(slope["loc"]) == pytest.approx(by_loc, rel=1e-3, abs=1e-3 + rounded / away)
            assert float(slope["scale"]) == pytest.approx(by_scale, rel=1e-3, abs=1e-3 + rounded)


@pytest.mark.parametrize("schedule", ["NUTS loc", "Slice loc"])
def test_chains_walk_through_tails(schedule):
    """A location that is known to be 20 to 60 scales away: its mean by quadrature in double precision."""

    def far(x):
        loc = numpyro.sample("loc", dist.Uniform(-60.0, -20.0))
        with numpyro.plate("n", len(x)):
            numpyro.sample("x", dist.TruncatedNormal(loc, 1.0, low=0.0), obs=x)

    x = np.array([0.02, 0.04, 0.03], np.float32)
    grid = np.linspace(-60, -20, 4001)
    heights = stats.truncnorm(-grid[:, None], np.inf, grid[:, None], 1.0).logpdf(x.astype(float)).sum(1)
    weights = np.exp(heights - heights.max()) / np.exp(heights - heights.max()).sum()
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    run = gb.model(far, x).sample(draws=1000, warmup=500, chains=4, seed=0, schedule=schedule)
    (loc,) = [s for s in run.diagnostics() if s.label == "loc"]
    assert sum(run.snapshot(limit=1).divergences) < 20
    assert abs(run.draws["loc"].mean() - mean) < 4 * sd / np.sqrt(loc.ess_bulk)
    kept = run.to_datatree(log_likelihood=True).log_likelihood["x"].to_numpy()
    told = stats.truncnorm(-run.draws["loc"][..., None], np.inf, run.draws["loc"][..., None], 1.0).logpdf(x)
    np.testing.assert_allclose(kept, told, rtol=1e-4, atol=1e-3)
