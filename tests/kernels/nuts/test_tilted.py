"""Locations of truncated normals in learnt coordinates: against log densities and a posterior on a grid."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.hierarchy.location_scale import TILTED
from gibbsite.density.hierarchy.tilted import tilted_locations
from gibbsite.kernels.learnt.coordinates import declared
from gibbsite.kernels.nuts.potential import problem
from scipy.stats import halfcauchy, norm, truncnorm


def positive(y):
    mu = numpyro.sample("mu", dist.Normal(0, 100.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(25.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.TruncatedNormal(mu, tau, low=0.0), obs=y)


def lines(x, y, g):
    """A location of two groups, and with a slope for all."""
    a = numpyro.sample("a", dist.Normal(0, 10.0).expand([2]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 10.0))
    tau = numpyro.sample("tau", dist.HalfNormal(5.0))
    numpyro.sample("y", dist.TruncatedNormal(a[g] + b * x, tau, high=2.0), obs=y)


def within(y, m):
    """What has a location and a scale of its own is centred by these."""
    tau = numpyro.sample("tau", dist.HalfNormal(5.0))
    mu = numpyro.sample("mu", dist.Normal(m, tau))
    numpyro.sample("y", dist.TruncatedNormal(mu, tau, low=0.0, high=3.0), obs=y)


Y = np.random.default_rng(3).exponential(1.0, 25).astype("f4")
LINES = (np.linspace(-1, 1, 25, dtype="f4"), 2 - Y, np.arange(25) % 2)
FOUND = {positive: (("mu",), (Y,)), lines: (("a", "b"), LINES), within: ((), (Y / 3, 0.5))}


@pytest.mark.parametrize("fn", FOUND)
def test_found(fn):
    names, args = FOUND[fn]
    density = gb.model(fn, *args).density
    found = tilted_locations(density)
    assert tuple(found) == names and all(f.form == TILTED and f.scale == ("tau",) for f in found.values())
    block = list(density.latents)
    assert set(names) <= set(declared(density, block, ())) and not declared(density, block, (), "as written")
    assert not set(names) & set(declared(density, block, (), "non-centred"))


@pytest.mark.share(2)
@pytest.mark.parametrize("fn", [positive, lines])
def test_the_log_density_is_that_of_the_model_plus_the_jacobian(fn):
    names, args = FOUND[fn]
    with jax.enable_x64(True):
        density = gb.model(fn, *args).density
        p = problem(fn, density, "auto", jax.random.key(0), args, {})
        c, around, rng = p.coordinates, p.around(args, {}), np.random.default_rng(1)
        assert c.degrees == sum(int(np.prod(density.sites[n].shape)) for n in names)
        for degree in (0.0, 0.3, 1.0):
            u, lam = jnp.asarray(rng.normal(size=c.size)), jnp.full(c.degrees, degree)
            v, total = c.written_from(u, lam, around)
            jacobian = jax.jacfwd(lambda u, lam=lam: c.written_from(u, lam, around)[0])(u)
            np.testing.assert_allclose(total, np.linalg.slogdet(jacobian)[1], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(c.learnt_from(v, lam, around), u, rtol=1e-7, atol=1e-9)
            values, constrained = c.constrained(v)
            whole = density.log_joint(values) + total + constrained
            np.testing.assert_allclose(-p.potential(lam, args, {})(u), whole, rtol=1e-6)
            for n in names:
                share = values["tau"] ** (2 * (1 - degree))
                np.testing.assert_allclose(values[n], c.by_site(u)[n] * share, rtol=1e-6)


@pytest.mark.slow
def test_draws_are_those_of_a_grid():
    """As written, chains hardly reach small scales."""
    mu, logs = np.linspace(-400, 20, 4201)[:, None], np.linspace(-1.5, 4.0, 400)
    tau = np.exp(logs)
    height = norm.logpdf(mu, 0, 100) + halfcauchy.logpdf(tau, scale=25) + logs
    for y in Y.astype(float):
        height = height + truncnorm.logpdf(y, -mu / tau, np.inf, loc=mu, scale=tau)
    weight = np.exp(height - height.max())
    below = np.cumsum(weight.sum(0)) / weight.sum()

    run = gb.model(positive, Y).sample(draws=1000, warmup=1000, chains=4, seed=1)
    assert run.verdict.ok and float(run.centring["mu"]) < 0.5
    drawn = np.log(run.draws["tau"])
    for share in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95):
        at = np.interp(share, below, logs)
        error = np.sqrt(share * (1 - share) / 600)  # effective draws of such a tail
        assert abs((drawn < at).mean() - share) < 4 * error, (share, (drawn < at).mean())
