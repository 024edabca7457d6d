"""Every model of the tests on the tape: replay bit for bit, and reverse mode against `jax.grad`."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.printing.statements.model_tape import track_model
from gibbsite.tape.replay import replayed
from gibbsite.tape.reverse import ReverseMode, gradients
from helpers.models.tape_programs import LISTINGS
from helpers.models.zoo import ZOO, Case
from helpers.truths.op_by_op import assert_same_bits, op_by_op
from numpyro import handlers
from numpyro.infer.util import log_density

QUICK = ("conditional_branch", "hmm_scan", "listing_bernoulli_mixture", "listing_hierarchical_gaussian")
MODELS = {**ZOO, **{f"listing_{name}": Case(fn, args) for name, (fn, args) in LISTINGS.items()}}

EACH = pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)


def log_joint(case: Case):
    """The log joint as a function of the latents, and latents from the prior."""
    latents = {n: jnp.asarray(v) for n, v in case.state(0).items()}

    def fn(values):
        return log_density(case.fn, case.args, case.kwargs, values)[0]

    return fn, latents


def run(case: Case):
    """One run of the model as a function of its random key: the values of all sites."""

    def fn(key):
        sites = handlers.trace(handlers.seed(case.fn, key)).get_trace(*case.args, **case.kwargs)
        return {n: m["value"] for n, m in sites.items() if m["type"] == "sample" and not m["is_observed"]}

    return fn, jax.random.key(3)


@pytest.mark.share(4)
@EACH
def test_the_log_joint_replays_and_differentiates(name: str):
    fn, latents = log_joint(MODELS[name])
    tape = gibbsite.track(fn, latents)
    assert_same_bits(tape.replay(), tape.result)
    assert_same_bits(tape.replay(), op_by_op(fn, latents))
    np.testing.assert_allclose(tape.replay(), jax.jit(fn)(latents), rtol=2e-5, atol=2e-5)

    smooth = {n: v for n, v in latents.items() if jnp.issubdtype(v.dtype, jnp.inexact)}
    if smooth:
        expected = jax.grad(lambda part: fn({**latents, **part}))(smooth)
        found = gradients(gibbsite.track(fn, latents, context=ReverseMode()))
        named = dict(zip(sorted(latents), found, strict=True))
        assert {n for n, g in named.items() if g is not None} == set(smooth)
        for n, g in expected.items():
            np.testing.assert_allclose(named[n], g, rtol=1e-4, atol=1e-4 * (1 + float(jnp.abs(g).max())))


@pytest.mark.slow
@pytest.mark.share(4)
@EACH
def test_a_run_replays(name: str):
    fn, key = run(MODELS[name])
    tape = gibbsite.track(fn, key)
    assert_same_bits(tape.replay(), tape.result)
    assert_same_bits(tape.replay(), op_by_op(fn, key))
    jitted = jax.jit(fn)(key)
    for site, value in tape.replay().items():
        np.testing.assert_allclose(value, jitted[site], rtol=1e-4, atol=1e-5, err_msg=site)


@pytest.mark.share(3)
@EACH
def test_the_tape_of_a_model_replays(name: str):
    case = MODELS[name]
    tape = track_model(case.fn, case.args, case.kwargs, seed=1)
    values = replayed(tape, ())
    for record in tape.walk():
        if record.kind != "distribution" and record.values is not None:
            assert_same_bits([values[i] for i in record.outputs], list(record.values)[: len(record.outputs)])
