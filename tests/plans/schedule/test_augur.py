"""AugurV2's Gaussian mixture under six schedules, one per base update, against its exact posterior."""

import itertools

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.schedule import make_schedule
from helpers.truths.targets import check_moments, run_chains

MU0 = np.array([[-1.0, 0.0], [1.0, 0.5]])
S0 = np.array([[1.0, 0.3], [0.3, 0.8]])
PIS = np.array([0.4, 0.6])
Y = np.array([[-1.2, 0.4], [0.3, 0.1], [1.6, 1.0], [0.2, -0.9]])


def gmm(y):
    with numpyro.plate("k", 2):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.asarray(MU0), jnp.asarray(S0)))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.asarray(PIS)))
        numpyro.sample("y", dist.MultivariateNormal(mu[z], jnp.eye(2)), obs=y)


def exact_moments():
    """Means and variances of `mu` and `z` by summing over all assignments."""
    weights, means, squares, assigned = [], [], [], []
    prior = np.linalg.inv(S0)
    for z in itertools.product((0, 1), repeat=len(Y)):
        log_weight, mean, square = np.log(PIS[list(z)]).sum(), [], []
        for k in (0, 1):
            rows = Y[np.array(z) == k]
            cov = np.linalg.inv(prior + len(rows) * np.eye(2))
            m = cov @ (prior @ MU0[k] + rows.sum(0))
            log_weight += 0.5 * np.linalg.slogdet(cov)[1] + 0.5 * m @ np.linalg.solve(cov, m)
            mean.append(m)
            square.append(np.diag(cov) + m**2)
        # what is the same for every assignment (the squares of the data, the prior's constant) drops out
        weights.append(log_weight)
        means.append(mean)
        squares.append(square)
        assigned.append(z)
    p = np.exp(np.array(weights) - max(weights))
    p /= p.sum()
    mean, square, z = (np.tensordot(p, np.array(a, float), 1) for a in (means, squares, assigned))
    return {"mu": mean, "z": z}, {"mu": square - mean**2, "z": z * (1 - z)}


def around(state):
    """A proposal for all means, wider for the second component."""
    return dist.MultivariateNormal(state["mu"], 0.5 * jnp.asarray(S0)).to_event(1)


SCHEDULES = [
    "ConjGibbs [mu] (*) DiscGibbs [z]",
    "ESlice [mu] (*) DiscGibbs [z]",
    "ReflSlice [mu] (*) DiscGibbs [z]",
    "GradHMC(step_size=0.3, num_steps=6) [mu] (*) DiscGibbs [z]",
    pytest.param("NUTS [mu] (*) DiscGibbs [z]", marks=pytest.mark.slow),
    "3 x PropMH(proposal=around) [mu] (*) DiscGibbs [z]",
]


@pytest.mark.share(2)
@pytest.mark.parametrize("text", SCHEDULES)
def test_every_schedule_reaches_the_exact_posterior(text):
    model = gb.model(gmm, jnp.asarray(Y, jnp.float32))
    plan = make_schedule(model.execution, text, namespace={"around": around}).plan()
    inputs = {"_gibbsite_inputs": plan.inputs}
    draws = run_chains(plan.kernel, warmup=400, draws=3000, seed=5, kwargs=inputs)
    assert check_moments(draws, *exact_moments()) == 16


def positive(y):
    g = numpyro.sample("g", dist.Gamma(2.0, jnp.ones(3)).to_event(1))
    numpyro.sample("y", dist.Normal(g.sum(), 1.0), obs=y)


PROPOSALS = [
    (lambda s: dist.Gamma(2.0, 1.0), r"'g' has shape \(\), the site has \(3,\); `.expand\(\[3\]\)`"),
    (lambda s: dist.Normal(s["g"][:2], 1.0).to_event(1), r"has shape \(2,\), the site has \(3,\)"),
    (lambda s: dist.Beta(2.0, 2.0).expand([3]).to_event(1), "does not cover the site's support"),
    (lambda s: dist.Poisson(2.0).expand([3]).to_event(1), "does not cover the site's support"),
    (lambda s: s["g"] + 1, "must be a NumPyro distribution"),
    (lambda s: {"h": dist.Gamma(2.0, 1.0)}, r"for each of \['g'\], got \['h'\]"),
]


@pytest.mark.parametrize(("proposal", "told"), PROPOSALS)
def test_a_proposal_that_does_not_fit_is_told(proposal, told):
    model = gb.model(positive, 2.0)
    plan = make_schedule(model.execution, "Metropolis(proposal=mine) g", namespace={"mine": proposal}).plan()
    with pytest.raises(ScheduleError, match=told):
        run_chains(plan.kernel, warmup=1, draws=1, kwargs={"_gibbsite_inputs": plan.inputs})


def test_a_proposal_that_is_no_function_is_refused():
    with pytest.raises(ScheduleError, match="a function of the state"):
        make_schedule(gb.model(positive, 2.0).execution, "Metropolis(proposal=3) g").plan()
