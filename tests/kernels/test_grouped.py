"""Looped models run over array sites: the same density, the exact posterior, the user's own names."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats import ess
from gibbsite.errors import ModelError, ScheduleError
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from numpyro.infer.util import log_density

X = np.array([1.9, -0.4, 0.3, 2.6, 1.1], np.float32)


def switched(x):
    """Scalar switches, each of which lets a common effect through."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    for i in range(len(x)):
        z = numpyro.sample(f"z[{i}]", dist.Bernoulli(0.4))
        effect = numpyro.deterministic(f"effect[{i}]", mu * z)
        numpyro.sample(f"x[{i}]", dist.Normal(effect, 1.0), obs=x[i])


def numbered(x):
    """Continuous sites that are only numbered, with one support that is not the whole line."""
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
    for i in range(8):
        a = numpyro.sample(f"a_{i}", dist.HalfNormal(1.0 / rate))
        numpyro.sample(f"y_{i}", dist.Normal(a, 0.5), obs=x[i % len(x)])


def exact_switches(x):
    """P(z[i] = 1) and E[mu] by summing over all switches; mu is integrated in closed form."""
    weights, on, means = [], [], []
    for z in itertools.product([0, 1], repeat=len(x)):
        z = np.array(z)
        covariance = np.eye(len(x)) + 4.0 * np.outer(z, z)
        quadratic = x @ np.linalg.solve(covariance, x)
        log_likelihood = -0.5 * (np.linalg.slogdet(covariance)[1] + quadratic)
        weights.append(log_likelihood + z.sum() * np.log(0.4) + (1 - z).sum() * np.log(0.6))
        on.append(z)
        means.append(z @ x / (0.25 + z.sum()))
    p = np.exp(np.array(weights) - max(weights))
    p /= p.sum()
    return p @ np.array(on), p @ np.array(means)


@pytest.mark.share(2)
@pytest.mark.parametrize("schedule", [None, "Gibbs z (*) NUTS mu"])
def test_a_looped_model_has_its_exact_posterior(schedule):
    model = gb.model(switched, X)
    assert model.execution.grouped is not None
    text = model.schedule(schedule).text
    assert "z[" not in text and "Gibbs z" in text
    run = model.sample(schedule=schedule, draws=2000, warmup=300, chains=4, seed=3)
    assert run.draws["z"].shape == run.draws["effect"].shape == (4, 2000, 5)
    np.testing.assert_allclose(
        run.draws["effect"], run.draws["mu"][..., None] * run.draws["z"], rtol=1e-5, atol=1e-6
    )
    on, mean = exact_switches(X.astype(float))
    found = [(run.draws["z"][..., i], on[i]) for i in range(5)] + [(run.draws["mu"], mean)]
    for draws, truth in found:
        draws = np.asarray(draws, float)
        effective = float(ess(draws))
        assert effective > 400
        assert abs(draws.mean() - truth) < 4 * draws.std() / np.sqrt(effective)


@pytest.mark.parametrize("fn", [switched, numbered])
def test_the_array_model_has_the_density_of_the_model(fn):
    model = gb.model(fn, X)
    grouped = model.execution.grouped
    assert grouped is not None
    kwargs = {INPUTS_KWARG: grouped.inputs}
    for seed in range(3):
        values = {
            n: np.asarray(jax.random.uniform(jax.random.key(seed + 7 * i)) > 0.5, np.int32)
            if s.discrete
            else np.asarray(jax.random.uniform(jax.random.key(seed + 7 * i)))
            for i, (n, s) in enumerate(model.sites.items())
            if s.role == "latent"
        }
        expected, _ = log_density(fn, (X,), {}, values)
        packed = {n: v for n, v in grouped.density.packed(values).items() if n in grouped.density.latent_vars}
        found, _ = log_density(grouped.runtime_model, (), kwargs, packed)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_predictions_run_the_model_as_written():
    model = gb.model(switched, X)
    run = model.sample(draws=10, warmup=10, chains=2, seed=0)
    tree = run.to_datatree(posterior_predictive=True, log_likelihood=True)
    for i, x in enumerate(X):
        expected = dist.Normal(run.draws["effect"][..., i], 1.0).log_prob(x)
        np.testing.assert_allclose(tree["log_likelihood"][f"x[{i}]"], expected, rtol=1e-5)
        assert tree["posterior_predictive"][f"x[{i}]"].shape == (2, 10)


@pytest.mark.slow
def test_numbered_sites_keep_their_names():
    model = gb.model(numbered, X)
    run = model.sample(draws=20, warmup=20, chains=2, seed=0)
    assert model.execution.grouped is not None
    assert set(run.draws) == {"rate", *(f"a_{i}" for i in range(8))}
    assert all(run.draws[n].shape == (2, 20) and (run.draws[n] > 0).all() for n in run.draws)


def test_schedules_that_name_members_or_need_priors_run_the_model_as_written():
    model = gb.model(switched, X)
    by_member = model.schedule("Gibbs [z[0] z[1]] (*) Gibbs [z[2] z[3] z[4]] (*) NUTS mu")
    assert by_member.facts is model.execution
    assert model.schedule("Gibbs z (*) ESlice mu").facts is model.execution
    with pytest.raises(ScheduleError, match="leaves out"):
        model.schedule("Gibbs z")


@pytest.mark.slow
def test_sites_of_one_name_but_different_supports_stay_apart():
    def bounded():
        for i in range(8):
            numpyro.sample(f"u[{i}]", dist.Uniform(0.0, 1.0 + i))

    model = gb.model(bounded)
    assert model.execution.grouped is None
    draws = model.sample(draws=200, warmup=100, chains=2, seed=1).draws["u"]
    assert draws.shape == (2, 200, 8)
    assert draws[..., 0].max() < 1 < draws[..., 7].max()


@pytest.mark.slow
def test_bounds_computed_from_data_are_fixed_and_belong_to_the_fingerprint():
    def bounded(low, top):
        numpyro.sample("u", dist.Uniform(low, jnp.max(top) + low))

    low = np.array([0.0, 100.0, -100.0])
    for top in (2.0, 50.0):
        model = gb.model(bounded, low, np.array([1.0, top]))
        draws = model.sample(schedule="NUTS u", draws=500, warmup=300, chains=4, seed=1).draws["u"] - low
        effective = np.array([float(ess(draws[..., i].astype(float))) for i in range(3)])
        assert (effective > 400).all()
        assert (draws > -1e-4).all() and (draws < top + 1e-4).all()
        assert (np.abs(draws.mean((0, 1)) - top / 2) < 4 * draws.std((0, 1)) / np.sqrt(effective)).all()


@pytest.mark.slow
def test_a_start_of_zero_density_is_told_in_the_models_own_names():
    def never(x):
        for i in range(3):
            s = numpyro.sample(f"s[{i}]", dist.HalfNormal(1.0))
            numpyro.sample(f"x[{i}]", dist.Gamma(s, 1.0), obs=x[i])

    with pytest.raises(ModelError, match=r"observed site 'x\[1\]'.*-3"):
        gb.model(never, np.array([1.0, -3.0, 2.0]), check_values=False).sample(draws=5, warmup=5, chains=2)
