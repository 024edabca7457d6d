"""The kernel of `docs/kernels.md` joins by its class and its row, and is right."""

import re
from pathlib import Path

import gibbsite as gb
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule import registry
from helpers.truths.targets import TARGETS, check_moments, run_chains

PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"


@pytest.fixture
def hop(monkeypatch):
    monkeypatch.setattr(registry, "_ROWS", dict(registry._ROWS))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    return names


def test_it_joins_schedules_and_reaches_the_moments(hop):
    target = TARGETS["hierarchy"]
    model = gb.model(target.model)
    schedule = model.schedule("3 x Hop(length=.7) mu (*) Conjugate theta")
    assert schedule.rows[0].cost == "3 × (2 evaluations of the density)"
    plan = schedule.plan()
    draws = run_chains(plan.kernel, warmup=100, draws=4000, kwargs={"_gibbsite_inputs": plan.inputs})
    assert check_moments(draws, target.mean, target.variance) == 8


def test_it_is_checked_like_any_other(hop):
    def model():
        numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.sample("k", dist.Poisson(2.0))

    m = gb.model(model)
    with pytest.raises(ScheduleError, match="length must be a number"):
        m.schedule("Hop(length='far') x (*) RandomWalk k")
    with pytest.raises(ScheduleError, match="Hop cannot update 'k': 'k' is discrete"):
        m.schedule("NUTS x (*) Hop k")
    with pytest.raises(ScheduleError, match="already a kernel named 'Hop'"):
        registry.register_kernel(registry.kernel_row("Hop", hop["Hop"]))


def test_it_stands_on_its_own(hop):
    draws = run_chains(hop["Hop"](TARGETS["normal_mean"].model, 1.5), draws=3000)
    assert check_moments(draws, TARGETS["normal_mean"].mean, TARGETS["normal_mean"].variance) == 2
