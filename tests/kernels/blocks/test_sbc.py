"""Simulation-based calibration of the blocks that draw several sites at once: `pytest -m slow` this file."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.scheduling.schedule import make_schedule
from helpers.models.geweke_models import effects, logits
from helpers.truths.sbc import least_p, ranks


def change(y=None):
    """Two lines that meet at one of the data."""
    x = jnp.linspace(-1.0, 1.0, 6)
    k = numpyro.sample("k", dist.Categorical(jnp.ones(6) / 6))
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    slopes = numpyro.sample("slopes", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    side = (jnp.arange(6) > k).astype(int)
    with numpyro.plate("n", 6):
        numpyro.sample("y", dist.Normal(level + slopes[side] * (x - x[k]), 0.4), obs=y)


def missed(y=None):
    """A count without end of which a part is seen."""
    rate = numpyro.sample("rate", dist.Gamma(3.0, 0.5))
    with numpyro.plate("n", 3):
        count = numpyro.sample("count", dist.Poisson(rate))
        numpyro.sample("y", dist.Poisson(0.4 * count + 0.1), obs=y)


CASES = {
    "PolyaGamma": (logits, np.array([1, 2, 0, 1]), "PolyaGamma [tau mean u]"),
    "PolyaGamma given the scale": (logits, np.array([1, 2, 0, 1]), "Conjugate tau (*) PolyaGamma [mean u]"),
    "Collapsed change point": (change, np.zeros(6), "Collapsed [k level slopes]"),
    "Collapsed scale": (effects, np.zeros(5), "Collapsed [tau mean slope u]"),
    "joint Conjugate": (effects, np.zeros(5), "Conjugate tau (*) Conjugate [mean slope u]"),
    "Window": (missed, np.array([2, 1, 4]), "Window count (*) Conjugate rate"),
}


def kernel_of(model, y, text):
    plan = make_schedule(gb.model(model, y), text).plan()
    return plan.kernel, lambda data: {"_gibbsite_inputs": {"data": (data["y"],)}}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "y", "text"), CASES.values(), ids=CASES)
def test_ranks_are_uniform(model, y, text):
    kernel, inputs = kernel_of(model, y, text)
    p, where = least_p(ranks(model, kernel, {"y": "y"}, inputs))
    assert p > 1e-3, (text, where, p)


@pytest.mark.slow
def test_wrong_draws_are_found():
    """The test itself: draws given other data than those that were made have no uniform ranks."""
    kernel, inputs = kernel_of(effects, np.zeros(5), "Conjugate tau (*) Conjugate [mean slope u]")
    found = ranks(effects, kernel, {"y": "y"}, lambda data: inputs({"y": 2.0 * data["y"]}))
    assert least_p(found)[0] < 1e-3
