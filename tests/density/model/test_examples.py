"""Models as NumPyro's examples write them: analysed as they stand, with the density NumPyro gives them."""

import gibbsite as gb
import jax
import numpy as np
import pytest
from helpers.models.examples import EXAMPLES, KEY
from numpyro import handlers
from numpyro.infer.util import log_density

QUICK = "eight_schools baseball funnel capture_recapture ar2 zero_inflated censored imputed coal".split()
CASES = [
    pytest.param(f, id=f.__name__, marks=[] if f.__name__ in QUICK else pytest.mark.slow) for f in EXAMPLES
]


@pytest.mark.parametrize("fn", CASES)
def test_an_example_has_a_schedule_and_numpyro_s_density(fn):
    args = EXAMPLES[fn]
    model = gb.model(fn, *args)
    assert {n for u in model.schedule().updates for n in u.sites}
    states = []
    for k in jax.random.split(KEY, 2):
        traced = handlers.trace(handlers.seed(model.fn, k)).get_trace(*args)
        states.append({n: traced[n]["value"] for n in model.density.latents})
    ours, theirs = (
        [float(f(s)) for s in states]
        for f in (model.density.log_joint, lambda s: log_density(model.fn, args, {}, s)[0])
    )
    assert np.isfinite(theirs).all()
    assert ours[0] - ours[1] == pytest.approx(theirs[0] - theirs[1], rel=1e-4, abs=2e-3)
