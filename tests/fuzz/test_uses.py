"""A slice of `uses.py`, and that it finds what it is there for."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import uses

FAST = (
    uses.Structure("two modes", 2, False, "normal", "mask"),
    uses.Structure("normal", 0, True, "poisson", "condition g"),
)


def not_right(of, seed=0, data=1):
    rows = uses.cases(of, seed, data)
    assert all(len(row["uses"]) > len(uses.USES) // 2 for row in rows), rows
    return {u: f for row in rows for u, f in row["uses"].items() if f != "right"}


@pytest.mark.share(2)
@pytest.mark.parametrize("of", FAST, ids=lambda s: s.change)
def test_uses_of_a_run_are_right(of):
    assert not_right(of) == {}


@pytest.mark.slow
def test_many_uses_of_many_runs_are_right():
    assert uses.main(["--combinations", "1000", "--seed", "11"]) == 0


@pytest.mark.slow
def test_answers_of_another_model_are_found(monkeypatch):
    """The oracle itself: where the truth is moved by a half, every use that it judges is wrong."""
    of = uses.Structure("normal", 2, True, "normal", "none")
    have = uses.numbers(of, np.random.default_rng(3))
    model = uses.made(of, have)
    run = model.sample(draws=2000, seed=1)
    case = uses.Case(of, have, model, run, uses.Truth(of, have))
    judged = (uses.posterior, uses.labels, uses.leave_one_out, uses.replicates, uses.marginal)
    assert [use.__name__ for use in judged if use(case)] == []
    assert run.verdict.ok
    other = uses.Numbers(**{**vars(have), "y": have.y + np.linspace(0.5, 3, len(have.y))})
    case.truth = uses.Truth(of, other)
    assert [use.__name__ for use in judged if not use(case)] == []
