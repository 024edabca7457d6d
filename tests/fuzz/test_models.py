"""Random models: every conditional against the original joint density, every text against the numbers.

A failure is shrunk by Hypothesis to the shortest program. Ten thousand: `pytest -m slow tests/fuzz`, or as
many as `GIBBSITE_FUZZ` says, from another seed with `GIBBSITE_FUZZ_SEED`.
"""

import os

import pytest
from helpers.models.grammar import CALM, FIND_AND_SHRINK, programs
from helpers.truths.claims import check, check_run
from hypothesis import given, seed, settings

MANY, SEED = (int(os.environ.get(n, d)) for n, d in (("GIBBSITE_FUZZ", 10_000), ("GIBBSITE_FUZZ_SEED", 0)))


@settings(max_examples=4, phases=FIND_AND_SHRINK, derandomize=True, **CALM)
@given(programs())
def test_a_few_random_models(program):
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
