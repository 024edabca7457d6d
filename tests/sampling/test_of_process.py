"""Models and runs are of their process: not pickled, and copied as functions are."""

import copy
import pickle

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest


def mean(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def test_models_and_runs_are_not_pickled():
    model = gb.model(mean, np.zeros(3))
    run = model.sample(draws=20, warmup=20, chains=1, seed=0)
    for kept, way_out in ((model, r"gibbsite\.model\(function, data\)"), (run, r"run\.save\(folder\)")):
        assert copy.deepcopy({"kept": kept})["kept"] is kept
        with pytest.raises(gb.GibbsiteError, match=way_out):
            pickle.dumps({"kept": kept})
    np.testing.assert_array_equal(copy.copy(run).draws["mu"], run.draws["mu"])
    assert copy.copy(model).sites == model.sites
