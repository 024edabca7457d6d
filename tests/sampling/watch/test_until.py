"""Runs with a target instead of a length."""

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.diagnostics.measures.convergence import scalar_stat
from gibbsite.errors import OptionError
from gibbsite.sampling.watch.until import Until
from helpers.models.sampling_models import rates

OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": "NUTS a"}


@pytest.fixture(scope="module")
def model():
    return gb.model(rates, np.arange(6, dtype=np.float32), np.ones(6, np.float32))


def stat(x):
    return scalar_stat("x", "x", (), np.asarray(x))


def test_conditions_hold_for_every_scalar_that_moves():
    x = np.random.default_rng(0).normal(size=(4, 500))
    good, constant = stat(x), stat(np.ones((4, 500)))
    apart, broken = stat(x + 5 * np.arange(4.0)[:, None]), stat(np.where(x > 3, np.inf, x))
    few, still = stat(x[:, :5]), stat(np.repeat(np.arange(4.0)[:, None], 500, axis=1))
    until = Until.parse("ess > 1000, rhat<=1.01, mcse<1e-1", 4)
    assert until.met([good]) and until.met([good, constant])
    for other in (apart, broken, few, still):
        assert not until.met([good, other])
    assert not until.met([constant]) and not until.met([])
    assert not Until.parse("ess_bulk>1e5", 4).met([good])


@pytest.mark.parametrize("text", ["", "ess", "ess=400", "speed>3", "ess>400; rhat<1.01", "ess>-1"])
def test_what_is_no_condition(text):
    with pytest.raises(OptionError, match=r"no condition; write such as 'ess>400, rhat<1.01'"):
        Until.parse(text, 4)


def test_rhat_needs_chains():
    with pytest.raises(OptionError, match="there is one"):
        Until.parse("rhat<1.01", 1)


@pytest.mark.slow
def test_a_run_goes_on_until_it_is_good(model):
    run = model.sample(**OPTIONS, until="ess>100")
    n = run.draws["a"].shape[1]
    assert n > 60 and run.status == "finished" and run.settings.draws == n
    assert all(min(s.ess_bulk, s.ess_tail) > 100 for s in run.diagnostics() if s.sd > 0)
    assert run.snapshot().message == f"ess>100: reached after {n} draws per chain"
    asked = model.sample(**{**OPTIONS, "draws": n})  # the draws of a run that was asked for so many
    np.testing.assert_array_equal(run.draws["a"], asked.draws["a"])


def test_a_run_ends_at_the_most_draws(model):
    run = model.sample(**OPTIONS, until="ess>1e6", max_draws=90)
    assert run.draws["a"].shape[1] == 90
    assert run.snapshot().message == "ess>1e6: not reached after 90 draws per chain"
    run.extend("ess>20", max_draws=200)
    assert run.snapshot().message.startswith("ess>20: reached")


def test_the_target_outlives_the_process(model, tmp_path):
    stop = lambda r: r.stop() if r.snapshot().draws_done >= 60 else None  # noqa: E731
    asked = dict(**OPTIONS, until="ess>1e6", max_draws=130, store=tmp_path / "run")
    run = model.sample(**asked, on_start=lambda r: r.subscribe(stop))
    assert run.status == "stopped"
    back = gb.load(tmp_path / "run", model=model).resume()
    assert back.draws["a"].shape[1] == 130
