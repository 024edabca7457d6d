"""The default schedule of every model of the suite, in one table: what changes it is seen, and meant.

`default_schedules.txt` holds a line each, `model: schedule`; `python tests/plans/candidates/test_table.py`
writes it anew. Not one of these lines says that a schedule is good: `benchmarks/regret.py` measures that.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import gibbsite as gb
import pytest
from helpers.models.elimination import MODELS
from helpers.models.elimination import MORE as PRACTICE
from helpers.models.examples import EXAMPLES
from helpers.models.geweke_models import DATA
from helpers.models.hierarchies import HIERARCHIES
from helpers.models.more_examples import MORE
from helpers.models.numpyro_tests import RUN
from helpers.models.zoo import ZOO

TABLE = Path(__file__).parent / "default_schedules.txt"
Asked = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
CASES: dict[str, Asked] = {
    **{f"zoo/{n}": (c.fn, c.args, dict(c.kwargs)) for n, c in ZOO.items()},
    **{f"sums/{n}": (c.fn, c.args, dict(c.kwargs)) for n, c in {**MODELS, **PRACTICE}.items()},
    **{f"hierarchies/{n}": (c.fn, c.args, {}) for n, c in HIERARCHIES.items()},
    **{f"examples/{fn.__name__}": (fn, args, {}) for fn, args in {**EXAMPLES, **MORE}.items()},
    **{f"numpyro/{fn.__name__}": (fn, args, {}) for fn, args in RUN.items()},
    **{f"papers/{fn.__name__}": (fn, (y,), {}) for fn, y in DATA.items()},
}


def schedule_of(name: str) -> str:
    """The text of a model's default schedule."""
    fn, args, kwargs = CASES[name]
    return gb.model(fn, *args, **kwargs).schedule().text


def table() -> dict[str, str]:
    """Schedules by model, as they were written."""
    return dict(line.split(": ", 1) for line in TABLE.read_text(encoding="utf-8").splitlines())


@pytest.mark.share(135)
@pytest.mark.parametrize("name", CASES)
def test_a_default_schedule_is_the_one_in_the_table(name):
    assert schedule_of(name) == table()[name], "meant? python tests/plans/candidates/test_table.py"


def test_the_table_holds_the_models_that_there_are():
    assert list(table()) == list(CASES)


if __name__ == "__main__":
    TABLE.write_text("".join(f"{n}: {schedule_of(n)}\n" for n in CASES), encoding="utf-8")
