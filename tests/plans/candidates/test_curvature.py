"""How long NUTS remembers what is Gaussian in a model, against matrices by hand and NumPyro's NUTS."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.plans.candidates import curvature
from gibbsite.plans.candidates.curvature import curvature_of, gaussian_part
from jax import random
from numpyro.contrib.control_flow import scan
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS


def seasons(y, noise):
    """States that keep a share of themselves, around a level for each of four seasons."""
    keep = numpyro.sample("keep", dist.Uniform(0, 1))
    shock = numpyro.sample("shock", dist.HalfNormal(1))
    with numpyro.plate("season", 4):
        level = numpyro.sample("level", dist.Normal(10, 3))

    def step(state, _):
        state = numpyro.sample("state", dist.Normal(keep * state, shock))
        return state, state

    _, states = scan(step, 0.0, None, length=len(y))
    numpyro.sample("y", dist.Normal(level[np.arange(len(y)) % 4] + states, noise), obs=y)


def columns(X, y):
    s = numpyro.sample("s", dist.HalfNormal(1))
    b = numpyro.sample("b", dist.Normal(0, 2).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(X @ b, s), obs=y)


@pytest.mark.slow
def test_states_that_data_know_well_are_no_matter_of_gradients():
    """Without a look at curvature, levels and states were moved together by NUTS however small the noise:
    four chains of 1000 had R-hat 3.7."""
    r = np.random.default_rng(0)
    y = (r.normal(10, 3, 4)[np.arange(360) % 4] + 0.2 * r.normal(size=360).cumsum()).astype(np.float32)
    model = gb.model(seasons, y, 0.1)
    assert model.schedule().text == "Eliminate [level state] > NUTS [keep shock]"
    facts, sites = model.execution, ("keep", "shock", "level", "state")
    assert {*gaussian_part(facts, sites)} == {"level", "state"}
    times = {noise: looked(gb.model(seasons, y, noise), sites) for noise in (0.1, 10.0)}
    assert times[0.1].by_gradients[0] > 20 > 2 > times[10.0].by_gradients[1]
    # the levels given the states, and these given the levels
    assert times[0.1].in_turn((("level",), ("state",)))[0] > 20


def looked(model, sites):
    return curvature_of(model.execution, sites, gaussian_part(model.execution, sites))


def test_times_in_turn_are_those_of_a_sweep_by_hand():
    """The time of the slowest direction of a Gibbs sampler, from draws of it."""
    r = np.random.default_rng(5)
    a = r.normal(size=(60, 40))
    matrix = a.T @ a / 60 + 0.05 * np.eye(40)
    before = np.repeat([0, 1, 2], [10, 10, 20])[:, None] >= np.repeat([0, 1, 2], [10, 10, 20])
    blocks = [slice(0, 10), slice(10, 20), slice(20, 40)]
    own = [np.linalg.inv(matrix[b, b]) for b in blocks]
    roots = [np.linalg.cholesky(c) for c in own]
    sweep = -np.linalg.solve(np.where(before, matrix, 0), np.where(before, 0, matrix))
    values, left = np.linalg.eig(sweep.T)
    slowest = left[:, np.abs(values).argmax()].real
    x, seen = np.zeros((400, 40)), []
    for _ in range(300):
        for b, c, root in zip(blocks, own, roots, strict=True):
            rest = x @ matrix[:, b] - x[:, b] @ matrix[b, b]
            x[:, b] = -rest @ c + r.normal(size=(400, len(c))) @ root.T
        seen.append(x @ slowest)
    found = 400 * 250 / effective_sample_size(np.array(seen[50:]).T)
    assert found == pytest.approx(curvature._in_turn(matrix, before), rel=0.15)


def test_the_matrix_is_the_precision_by_hand(monkeypatch):
    seen = []
    monkeypatch.setattr(curvature, "_time", lambda matrix, learns: seen.append(matrix) or 1.0)
    r = np.random.default_rng(1)
    X = r.normal(size=(50, 40)).astype(np.float32)
    facts = gb.model(columns, X, r.normal(size=50).astype(np.float32)).execution
    part = gaussian_part(facts, ("s", "b"))
    assert part == ("b",)
    assert curvature_of(facts, ("s", "b"), part).by_gradients == (1.0, 1.0)
    states = curvature.prior_states(facts, facts.density, curvature.PRIOR_STATES)
    for s, matrix in zip(states["s"], seen, strict=True):
        by_hand = X.T @ X / float(s) ** 2 + np.eye(40) / 4
        np.testing.assert_allclose(matrix, by_hand, rtol=1e-3, atol=1e-3 * by_hand.max())


def test_few_numbers_are_not_looked_at():
    """All directions of up to 32 numbers are learnt."""
    r = np.random.default_rng(1)
    facts = gb.model(columns, r.normal(size=(50, 32)), r.normal(size=50)).execution
    assert gaussian_part(facts, ("s", "b")) == ()


@pytest.mark.parametrize("learns", [False, True])
def test_equal_directions_are_forgotten_at_once(learns):
    assert curvature._time(np.eye(100), learns) == pytest.approx(1.0)
    assert curvature._time(np.diag(10.0 ** np.linspace(-3, 3, 100)), learns) == pytest.approx(1.0)


def test_long_directions_that_a_low_rank_metric_has_learnt_are_forgotten():
    axes = np.r_[np.full(12, 10.0), np.ones(90)]
    matrix = rotated(axes)
    assert curvature._time(matrix, True) < 1.5 < 20 < curvature._time(matrix, False)
    assert curvature._time(-matrix, False) == np.inf


def rotated(axes):
    """A precision matrix with these standard deviations along axes that no diagonal knows."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(len(axes), len(axes))))[0]
    return turn / axes**2 @ turn.T


@pytest.mark.slow
@pytest.mark.parametrize("longest", [4, 10, 25])
def test_times_are_those_of_numpyro(longest):
    axes = np.r_[np.full(149, 1.0), longest]
    matrix = rotated(axes)
    told = curvature._time(matrix, False)
    precision = jnp.asarray(matrix, jnp.float32)
    kernel = NUTS(potential_fn=lambda x: x @ precision @ x / 2, target_accept_prob=0.85)
    mcmc = MCMC(
        kernel,
        num_warmup=500,
        num_samples=2000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = np.random.default_rng(3).normal(size=(4, 150)) @ np.linalg.cholesky(matrix)
    mcmc.run(random.key(0), init_params=jnp.asarray(start, jnp.float32))
    along = np.asarray(mcmc.get_samples(group_by_chain=True)) @ np.linalg.eigh(matrix)[1][:, 0]
    found = 8000 / effective_sample_size(along)
    assert found / 4 < told < 4 * found
