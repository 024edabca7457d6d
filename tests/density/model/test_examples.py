"""Models as NumPyro's examples write them: analysed as they stand, with the density NumPyro gives them."""

import gibbsite as gb
import jax
import numpy as np
import pytest
from helpers.models.examples import EXAMPLES, KEY
from helpers.models.more_examples import MORE
from numpyro import handlers
from numpyro.infer.util import log_density

QUICK = "eight_schools baseball funnel capture_recapture ar2 zero_inflated censored imputed coal".split()
ALL = {**EXAMPLES, **MORE}
CASES = [pytest.param(f, id=f.__name__, marks=[] if f.__name__ in QUICK else pytest.mark.slow) for f in ALL]

POSSIBLE = {"mace": {"s": 1}}
"""Values of sites of which draws from the prior would contradict the data: only guesses can be wrong."""


@pytest.mark.share(10)
@pytest.mark.parametrize("fn", CASES)
def test_an_example_has_a_schedule_and_numpyro_s_density(fn):
    args = ALL[fn]
    model = gb.model(fn, *args)
    assert {n for u in model.schedule().updates for n in u.sites}
    states = []
    for k in jax.random.split(KEY, 2):
        traced = handlers.trace(handlers.seed(model.fn, k)).get_trace(*args)
        possible = POSSIBLE.get(fn.__name__, {})
        values = {n: traced[n]["value"] for n in model.density.latents}
        states.append({n: np.full_like(v, possible[n]) if n in possible else v for n, v in values.items()})
    ours, theirs = (
        [float(f(s)) for s in states]
        for f in (model.density.log_joint, lambda s: log_density(model.fn, args, {}, s)[0])
    )
    assert np.isfinite(theirs).all()
    assert ours[0] - ours[1] == pytest.approx(theirs[0] - theirs[1], rel=1e-4, abs=2e-3)
