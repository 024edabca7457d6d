"""One small model for all tests of runs; its programs are compiled once."""

import gibbsite as gb
import pytest
from helpers.models.sampling_models import coins, data

SCHEDULE = "Gibbs z (*) NUTS [w p]"


@pytest.fixture(scope="session")
def model():
    return gb.model(coins, data())


@pytest.fixture(scope="session")
def whole(model):
    """An uninterrupted run."""
    return model.sample(draws=60, warmup=40, chains=2, seed=1, schedule=SCHEDULE)
