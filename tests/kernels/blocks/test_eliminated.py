"""Kernels out of which discrete sites are summed: against quadrature and enumeration, and what is refused."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.parse import update
from numpyro.infer.util import log_density

X = np.array([-1.3, -0.7, 1.9], np.float32)


def mixture(x):
    """Means and weights fixed but for one shift, an integer, and a variance that is conjugate given z."""
    shift = numpyro.sample("shift", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.Gamma(3.0, 2.0))
    k = numpyro.sample("k", dist.Poisson(0.7))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("x", dist.Normal(shift + 2.0 * z - 0.5 * k, 1 / jnp.sqrt(tau)), obs=x)


@pytest.fixture(scope="module")
def model():
    return gb.model(mixture, X)


@pytest.fixture(scope="module")
def truth():
    """Posterior means by quadrature over shift and tau, summed over k and z."""
    shift, tau = np.linspace(-3.5, 4.5, 81), np.linspace(0.05, 7.0, 80)
    grid = [a.ravel() for a in np.meshgrid(shift, tau, indexing="ij")]
    zs = list(itertools.product((0, 1), repeat=3))

    def one(s, t, k, z):
        return log_density(mixture, (X,), {}, {"shift": s, "tau": t, "k": k, "z": z})[0]

    over = jax.vmap(jax.vmap(one, (0, 0, None, None)), (None, None, 0, None))
    over = jax.jit(jax.vmap(over, (None, None, None, 0)))
    table = np.asarray(over(*map(jnp.asarray, grid), jnp.arange(7), jnp.array(zs)), np.float64)
    p = np.exp(table - table.max())
    p /= p.sum()
    points, ks, z = p.sum((0, 1)), p.sum((0, 2)), p.sum((1, 2))
    means = {"shift": points @ grid[0], "tau": points @ grid[1], "k": ks @ np.arange(7)}
    by_z = {bits: z[i] for i, bits in enumerate(zs)}
    return means, by_z


SCHEDULES = {
    "one block": "Eliminate z > NUTS [shift tau] (*) RandomWalk k",
    "with conjugate": "Eliminate z > NUTS shift (*) Conjugate tau (*) Independence k",
    "slice": "Eliminate z > Slice [shift tau] (*) RandomWalk k",
    "integers too": "2 x Eliminate z > RandomWalk k (*) HMC [shift tau]",
}


# the first is what the others are made of: NUTS beside a conjugate, two continuous sites, RandomWalk
@pytest.mark.share(2)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "one block" else n for n in SCHEDULES]
)
def test_draws_have_the_posterior(model, truth, name):
    run = model.sample(schedule=SCHEDULES[name], draws=1000, warmup=200, chains=4, seed=5)
    means, by_z = truth
    for site, mean in means.items():
        draws = np.asarray(run.draws[site], np.float64)
        stat = next(s for s in run.diagnostics() if s.site == site)
        assert abs(draws.mean() - mean) < 5 * draws.std() / np.sqrt(stat.ess_bulk) + 0.01, site
    z = run.draws["z"].reshape(-1, 3)
    for bits, p in by_z.items():
        found = (z == np.array(bits)).all(1).mean()
        assert abs(found - p) < 5 * np.sqrt(p * (1 - p) / 400) + 0.003, bits


def test_the_schedule_tells_what_is_summed_out(model):
    schedule = model.schedule("Eliminate z > NUTS [shift tau] (*) RandomWalk k")
    assert schedule.text == "Eliminate z > NUTS [shift tau] (*) RandomWalk k"
    row = schedule.rows[0]
    assert row.sites == ("z", "|", "shift", "tau")
    assert "3 elements at once" in row.reason and "table entries" in row.cost
    assert update("NUTS", "shift", "tau", eliminate="z") == schedule.updates[0]
    assert model.schedule(schedule.updates) == schedule


def test_eliminate_makes_the_schedule(model):
    eliminated = model.eliminate("z")
    assert eliminated.schedule().text == "Window k (*) Eliminate z > NUTS [shift tau]"
    # z is data after this, and there is nothing to sum out
    assert eliminated.condition(z=1).schedule().text == "Window k (*) NUTS [shift tau]"


@pytest.mark.slow
def test_a_loop_of_sites_is_summed_out_as_one_array():
    def looped(x):
        p = numpyro.sample("p", dist.Beta(1, 1))
        for i in range(len(x)):
            z = numpyro.sample(f"z[{i}]", dist.Bernoulli(p))
            numpyro.sample(f"x[{i}]", dist.Normal(2.0 * z, 1.0), obs=x[i])

    model = gb.model(looped, X).eliminate("z")
    assert model.schedule().text == "Eliminate z > NUTS p"
    run = model.sample(draws=300, warmup=150, chains=2, seed=1)
    p = np.linspace(0.0005, 0.9995, 1000)[:, None]
    one, zero = np.exp(-((X - 2.0) ** 2) / 2), np.exp(-(X**2) / 2)
    weight = np.prod(p * one + (1 - p) * zero, axis=1)
    mean = (weight @ p[:, 0]) / weight.sum()
    assert abs(run.draws["p"].mean() - mean) < 0.06
    assert run.draws["z"].shape == (2, 300, 3)


REFUSED = {
    "Eliminate z > NUTS [z shift] (*) Slice tau (*) RandomWalk k": "both sides",
    "Eliminate z > NUTS [shift tau] (*) RandomWalk k (*) Gibbs z": "updated twice",
    "Eliminate z > Conjugate tau (*) NUTS shift (*) RandomWalk k": "more of the model than its log density",
    "Eliminate [z k] > NUTS [shift tau]": "'k' has infinite support.*in no table with other sites",
    "Eliminate y > NUTS *": "no site named 'y'",
    "Eliminate z k > NUTS *": r"in brackets: 'Eliminate \[z k\] > …'",
    "Eliminate x > NUTS *": "observed",
    "Eliminate z NUTS *": "expected .>.",
    "Eliminate [z z] > NUTS *": "twice",
    "Eliminate * > NUTS shift": "names of the sites",
    "Eliminate z > 2 x NUTS shift": "not a repeat",
    "Eliminate z > Eliminate k > NUTS shift": "second Eliminate",
    "Eliminate z >": "name of a kernel",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_refused(model, text):
    with pytest.raises(ScheduleError, match=REFUSED[text]):
        model.schedule(text)
