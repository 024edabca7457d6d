"""The models of NumPyro's own tests of inference: analysed and run as they stand, or refused in words."""

import gibbsite as gb
import numpy as np
import pytest
from helpers.models.numpyro_tests import REFUSED, RUN

QUICK = "counted_up bit_beside_a_flat_site simplex_of_one".split()
CASES = [pytest.param(f, id=f.__name__, marks=[] if f.__name__ in QUICK else pytest.mark.slow) for f in RUN]


@pytest.mark.share(3)
@pytest.mark.parametrize("fn", CASES)
def test_a_model_runs_as_it_stands(fn):
    model = gb.model(fn, *RUN[fn])
    run = model.sample(draws=20, warmup=20, chains=2, seed=0)
    assert run.status == "finished"
    assert {n for n, s in model.sites.items() if s.latent} <= set(run.draws)
    assert all(np.isfinite(np.asarray(v, float)).all() for v in run.draws.values())


@pytest.mark.parametrize("fn", REFUSED, ids=lambda f: f.__name__)
def test_what_is_refused_says_why(fn):
    args, said = REFUSED[fn]
    with pytest.raises((gb.GibbsiteError, RuntimeError), match=said):
        gb.model(fn, *args)
