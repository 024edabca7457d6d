"""Random models: every conditional against the original joint density, every text against the numbers.

A failure is shrunk by Hypothesis to the shortest program. Ten thousand: `pytest -m slow tests/fuzz`, or as
many as `GIBBSITE_FUZZ` says, from another seed with `GIBBSITE_FUZZ_SEED`; on many cores `python
tests/fuzz/many.py`.
"""

import os

import pytest
from helpers.claims.models import check
from helpers.claims.runs import check_run
from helpers.models.grammar import CALM, FIND_AND_SHRINK, programs
from hypothesis import given, seed, settings

MANY, SEED = (int(os.environ.get(n, d)) for n, d in (("GIBBSITE_FUZZ", 10_000), ("GIBBSITE_FUZZ_SEED", 0)))


@settings(max_examples=30, phases=FIND_AND_SHRINK, derandomize=True, **CALM)
@given(programs())
def test_some_random_models(program):
    check(program)


@pytest.mark.slow
@seed(SEED)
@settings(max_examples=MANY, phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_many_random_models(program):
    check(program)


@pytest.mark.slow
@seed(SEED)
@settings(max_examples=max(MANY // 100, 1), phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_short_runs_are_finite(program):
    assert check_run(program)
