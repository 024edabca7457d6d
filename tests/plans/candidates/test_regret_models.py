"""What is listed for the models of the benchmark of choices can be asked for."""

import runpy
from pathlib import Path

import gibbsite as gb
import pytest
from gibbsite.errors import ScheduleError

ROOT = Path(__file__).parents[3]
CASES = runpy.run_path(str(ROOT / "benchmarks" / "regret_models.py"))["CASES"]
# one of each statement
FEW = {"effects 26, noise 8", "8 groups of 40", "crossed 20 by 10", "walk 80", "lasso 10", "pumps"}


@pytest.mark.parametrize("name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_every_candidate_can_be_asked_for_by_its_text(name):
    fn, args = CASES[name]()
    model = gb.model(fn, *args)
    first, *rest = model.schedule().candidates
    assert first.chosen and first.text == model.schedule().text
    assert len(rest) >= 2 or name.startswith("mixture")
    for c in (first, *rest):
        if c.refused:
            with pytest.raises(ScheduleError):
                model.schedule(c.text)
        else:
            assert model.schedule(c.text).text == c.text
