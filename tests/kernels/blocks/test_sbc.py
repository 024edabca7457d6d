"""Simulation-based calibration of the blocks that draw several sites at once: `pytest -m slow` this file."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.plans.schedule.schedule import make_schedule
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


def answers(y=None):
    """Yes or no, with a slope, and persons of different readiness."""
    tau = numpyro.sample("tau", dist.Gamma(3.0, 2.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    u = numpyro.sample("u", dist.Normal(0.0, tau**-0.5).expand([3]).to_event(1))
    x = jnp.array([-1.0, 0.5, 0.0, 1.0, 2.0, -0.5])
    with numpyro.plate("n", 6):
        logits = b[0] + b[1] * x + u[jnp.array([0, 0, 1, 1, 2, 2])]
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def failures(y=None):
    """Failures before successes, whose odds depend on groups."""
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    u = numpyro.sample("u", dist.Normal(b, 0.7).expand([2]).to_event(1))
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.NegativeBinomialLogits(3.0, u[jnp.array([0, 0, 1, 1])]), obs=y)


def selected(y=None):
    """Coefficients that indicators let in."""
    x = np.array([[1.0, 0.8, -0.5], [0.2, 0.3, 1.0], [-1.0, -1.1, 0.4], [0.5, 0.1, 0.2]])
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    g = numpyro.sample("g", dist.Bernoulli(share).expand([3]).to_event(1))
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.5).expand([3]).to_event(1))
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Normal(x @ (g * beta), 0.5), obs=y)


def population(y=None):
    """Animals that were not all counted."""
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    with numpyro.plate("n", 3):
        total = numpyro.sample("total", dist.Poisson(4.0))
        numpyro.sample("y", dist.Binomial(total, p), obs=y)


def overlapping(y=None):
    """A mixture whose components overlap, of a width that has no exact draw."""
    w = numpyro.sample("w", dist.Beta(2.0, 2.0))
    sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("n", 5):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("y", dist.Normal(2.0 * z, sigma), obs=y)


CASES = {
    "PolyaGamma": (logits, np.array([1, 2, 0, 1]), "PolyaGamma [tau mean u]"),
    "PolyaGamma given the scale": (logits, np.array([1, 2, 0, 1]), "Conjugate tau (*) PolyaGamma [mean u]"),
    "Collapsed change point": (change, np.zeros(6), "Collapsed [k level slopes]"),
    "Collapsed scale": (effects, np.zeros(5), "Collapsed [tau mean slope u]"),
    "joint Conjugate": (effects, np.zeros(5), "Conjugate tau (*) Conjugate [mean slope u]"),
    "PolyaGamma of answers": (answers, np.array([0, 1, 1, 0, 1, 0]), "PolyaGamma [tau b u]"),
    "PolyaGamma of failures": (failures, np.array([1, 0, 4, 2]), "PolyaGamma [b u]"),
    "Collapsed indicators": (selected, np.zeros(4), "Collapsed [g beta] (*) Conjugate share"),
    "Window of a total": (population, np.array([2, 1, 4]), "Window total (*) Conjugate p"),
    "summed out": (overlapping, np.zeros(5), "Eliminate z > Slice [w sigma]"),
    "Window": (missed, np.array([2, 1, 4]), "Window count (*) Conjugate rate"),
}


def kernel_of(model, y, text):
    plan = make_schedule(gb.model(model, y).execution, text).plan()
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
