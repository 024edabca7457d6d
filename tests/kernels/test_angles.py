"""Angles, whose ends are one direction: against quadrature, wherever the mass lies."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws.directions import turning
from gibbsite.conditional.draws.safe_bijectors import transform_to
from gibbsite.ground.angles import around_mean
from numpyro.distributions import constraints
from scipy import stats

GRID = np.linspace(-np.pi, np.pi, 4001)[:-1]
ASKED = {"draws": 1000, "warmup": 500, "chains": 4, "seed": 0}


def agrees(x, grid, log_density, functions):
    """Means of some functions of draws `[chain, draw]`, against those by a density on a grid."""
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    for of in functions:
        values = of(x)
        ess = gb.diagnostics.measures.convergence.scalar_stat("", "", (), values).ess_bulk
        error = values.std() / np.sqrt(ess)
        assert abs(values.mean() - weights @ of(grid)) < 4.5 * error + 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("centre", [3.1, 0.4, -3.0])
def test_a_direction_that_data_tell_lies_anywhere(centre):
    y = np.random.default_rng(1).vonmises(centre, 3.0, 20).astype(np.float32)

    def model(y):
        mu = numpyro.sample("mu", dist.VonMises(0.5, 0.3))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.VonMises(mu, 3.0), obs=y)

    run = gb.model(model, y).sample(**ASKED)
    assert run.verdict.ok
    mu = run.draws["mu"]
    assert (np.abs(mu) <= np.float32(np.pi)).all()
    log_density = stats.vonmises.logpdf(GRID, 0.3, loc=0.5) + stats.vonmises.logpdf(
        y[:, None], 3.0, loc=GRID
    ).sum(0)
    agrees(mu, GRID, log_density, (np.sin, np.cos, lambda x: np.cos(2 * x)))
    row = run.summary().loc["mu"]
    cut = around_mean(mu.astype(float), 2 * np.pi, axis=(0, 1))
    assert row["mean"] == pytest.approx(cut.mean()) and row["sd"] == pytest.approx(cut.std(), rel=1e-3)
    assert row["sd"] < 0.4 and row["eti89_lb"] < row["mean"] < row["eti89_ub"]
    table = run.predict(y=np.full(2, np.nan)).to_frame()
    assert np.allclose(np.cos(table["mean"] - row["mean"]), 1, atol=0.01)


def test_a_phase_and_what_ends_with_it():
    """One turn of a uniform prior is a circle also where the density jumps at its ends."""

    def model(y):
        phase = numpyro.sample("phase", dist.Uniform(0, 2 * np.pi))
        numpyro.sample("y", dist.Normal(phase, 1.5), obs=y)

    run = gb.model(model, np.float32(0.3)).sample(**ASKED | {"draws": 3000})
    grid = GRID + np.pi
    agrees(run.draws["phase"], grid, stats.norm.logpdf(0.3, grid, 1.5), (np.abs, np.square, np.cos))


@pytest.mark.slow
def test_directions_of_components_that_are_drawn_in_turn():
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.vonmises(np.pi, 4, 15), rng.vonmises(0.5, 4, 15)]).astype(np.float32)

    def model(y):
        mu = numpyro.sample("mu", dist.VonMises(jnp.array([3.1, 0.5]), 2.0).to_event(1))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("y", dist.VonMises(mu[z], 4.0), obs=y)

    def density(a, b):
        each = [stats.vonmises.logpdf(y[:, None, None], 4.0, loc=m) for m in (a, b)]
        prior = stats.vonmises.logpdf(a, 2.0, loc=3.1) + stats.vonmises.logpdf(b, 2.0, loc=0.5)
        return prior + np.logaddexp(*each).sum(0)

    grid = np.linspace(-np.pi, np.pi, 241)[:-1]
    table = density(grid[:, None], grid[None, :])
    weights = np.exp(table - table.max())
    init = {"mu": np.array([3.14, 0.5], np.float32)}
    for schedule in ("Gibbs z (*) NUTS mu", "Eliminate z > NUTS mu", "Gibbs z (*) 2 x NUTS mu"):
        run = gb.model(model, y).sample(**ASKED, schedule=schedule, init=init)
        assert run.verdict.ok
        for k in (0, 1):
            agrees(run.draws["mu"][..., k], grid, np.log(weights.sum(1 - k)), (np.sin, np.cos))


@pytest.mark.slow
def test_a_direction_of_which_nothing_is_known_keeps_the_others_steps():
    def model(y):
        numpyro.sample("turn", dist.VonMises(0.0, 1e-3))
        x = numpyro.sample("x", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    run = gb.model(model, np.float32(0.3)).sample(**ASKED, schedule="NUTS [turn x]")
    assert run.verdict.ok
    assert min(s.ess_bulk for s in run.diagnostics()) > 1000
    agrees(run.draws["turn"], GRID, np.zeros(len(GRID)), (np.sin, np.cos))


@pytest.mark.parametrize(
    "support",
    [
        constraints.circular,
        constraints.interval(0.0, 2 * np.pi),
        constraints.independent(constraints.circular, 1),
    ],
)
def test_the_transform_covers_its_support(support):
    to = transform_to(support)
    base = support.base_constraint if support.event_dim else support
    x = jnp.linspace(-20, 20, 1001).reshape(-1, 7) if support.event_dim else jnp.linspace(-20, 20, 1001)
    y = to(x)
    assert jnp.all(support(y))
    assert jnp.max(jnp.abs(jnp.exp(1j * x) - jnp.exp(1j * y))) < 1e-4
    assert jnp.all(to.log_abs_det_jacobian(x, y) == 0)
    edges = jnp.array([base.lower_bound, base.upper_bound], jnp.float32)
    assert jnp.all(base(transform_to(base)(edges)))
    assert jnp.allclose(transform_to(base).inv(edges), edges)
    assert isinstance(jax.tree.map(lambda a: a, to), type(to))


def test_ends_may_be_arrays_of_one_number():
    for low, high in ((jnp.zeros(3), 2 * jnp.pi), (np.float32(-np.pi), jnp.float32(np.pi)), (0, 6.28)):
        assert turning(dist.Uniform(low, high).support) is not None
    for low, high in ((jnp.arange(3.0), 2 * jnp.pi), (0, jnp.array([1.0, 2 * jnp.pi])), (0, 6.0)):
        assert turning(dist.Uniform(low, high).support) is None
    jax.jit(lambda x: [turning(dist.Uniform(x, 2 * jnp.pi).support)] == [None] or 1 / 0)(0.0)


def test_other_intervals_keep_their_ends():
    for support in (constraints.interval(0.0, 1.0), constraints.interval(-3.0, 3.0), constraints.real):
        assert float(transform_to(support)(jnp.float32(0.3))) == float(
            dist.transforms.biject_to(support)(jnp.float32(0.3))
        )
