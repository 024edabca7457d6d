"""What is kept for a model serves runs of all its schedules, whose kernels take different inputs."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

X = np.random.default_rng(0).normal(np.repeat([-2.0, 2.0], 10), 1.0).astype(np.float32)
SCHEDULES = ("Eliminate z > NUTS [w mu]", "Gibbs z (*) NUTS [w mu]", "Gibbs z (*) Conjugate w (*) Slice mu")
ASKED = {
    "prior": lambda run: run.prior(),
    "probabilities": lambda run: run.probs["z"],
    "leave-one-out": lambda run: run.elpd(),
    "predictions": lambda run: run.predict().draws["x"],
    "checks": lambda run: run.checks(),
    "tree": lambda run: run.to_datatree(posterior_predictive=True, log_likelihood="marginal"),
}


def mixture(x):
    w = numpyro.sample("w", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


@pytest.fixture(scope="module")
def runs():
    model = gb.model(mixture, X)
    return [model.sample(draws=60, warmup=30, chains=2, seed=1, schedule=s) for s in SCHEDULES]


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:.*Pareto")
@pytest.mark.parametrize("asked", ASKED)
def test_each_run_of_a_model_answers(runs, asked):
    for run in (*runs, *runs[::-1]):
        ASKED[asked](run)
    prior = [run.prior() for run in runs]
    assert all(prior[0].keys() == p.keys() for p in prior)
    assert all(np.array_equal(prior[0][n], p[n]) for p in prior for n in prior[0])
