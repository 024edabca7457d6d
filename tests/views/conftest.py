"""A simulated run for the views' tests; the browser tests watch real ones."""

import pytest
from helpers.pages.fakes import FakeRun


@pytest.fixture
def run():
    """Four AR(1) chains of five scalars, at draw 0 of 2000."""
    return FakeRun()


@pytest.fixture
def make_run():
    """The class of `run`, for other sizes."""
    return FakeRun
