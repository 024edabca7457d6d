"""What is listed for the models of the benchmark of choices can be asked for."""

import importlib
import sys
from pathlib import Path

import gibbsite as gb
import pytest
from gibbsite.errors import ScheduleError

BENCHMARKS = str(Path(__file__).parents[3] / "benchmarks")
sys.path.append(BENCHMARKS)  # the models import others of that folder
CASES = importlib.import_module("regret_models").CASES
sys.path.remove(BENCHMARKS)
# one of each statement
FEW = {"effects 26, noise 8", "8 groups of 40", "crossed 20 by 10", "walk 80", "lasso 10", "pumps"}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_every_candidate_can_be_asked_for_by_its_text(name):
    fn, args = CASES[name]()
    model = gb.model(fn, *args)
    first, *rest = model.schedule().candidates
    assert first.chosen and first.text == model.schedule().text
    assert len(rest) >= 2 or name not in FEW
    for c in (first, *rest):
        if c.refused:
            with pytest.raises(ScheduleError):
                model.schedule(c.text)
        else:
            assert model.schedule(c.text).text == c.text


@pytest.mark.parametrize("n", [15, 40, 100])
def test_what_holds_draws_back_makes_trajectories_long(n):
    """By gradients of all, counted as if nothing held them, a step of 40 points took 3.7 times what was
    predicted: 45 effective draws a second, 415 with the function integrated out."""
    fn, args = CASES[f"process at {n} points"]()
    assert gb.model(fn, *args).schedule().text == "Eliminate f > NUTS [a length s]"
