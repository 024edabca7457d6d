"""A simulated run for the views' tests; the browser tests watch real ones."""

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("gibbsite_view_fakes", Path(__file__).parent / "fakes.py")
assert _spec and _spec.loader
fakes = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = fakes
_spec.loader.exec_module(fakes)


@pytest.fixture
def run():
    """Four AR(1) chains of five scalars, at draw 0 of 2000."""
    return fakes.FakeRun()


@pytest.fixture
def make_run():
    """The class of `run`, for other sizes."""
    return fakes.FakeRun
