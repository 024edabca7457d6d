"""Uniformity of ranks: exact probabilities against simulation, and what is not uniform."""

import numpy as np
import pytest
from gibbsite.checking.finding import told_p
from gibbsite.checking.uniform import bands, ecdf_p


@pytest.mark.slow
def test_p_values_of_uniform_ranks_are_uniform():
    rng = np.random.default_rng(0)
    p = np.array([ecdf_p(rng.integers(0, 21, 60), 20) for _ in range(600)])
    for level in (0.05, 0.2, 0.5):
        assert abs((p <= level).mean() - level) < 3.5 * np.sqrt(level * (1 - level) / 600) + 0.01


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bands_hold_as_often_as_they_say(level):
    rng = np.random.default_rng(1)
    places, low, high = bands(80, 20, level)
    assert np.allclose(places, np.arange(1, 21) / 21)
    ranks = rng.integers(0, 21, (2000, 80))
    below = np.stack([(ranks < k).mean(1) for k in range(1, 21)], 1)
    inside = ((below >= low - 1e-9) & (below <= high + 1e-9)).all(1).mean()
    assert level - 0.03 < inside < level + 0.05  # counts are whole: no band holds just so often


def test_ranks_that_are_not_uniform_are_seen():
    rng = np.random.default_rng(2)
    assert ecdf_p(rng.binomial(20, 0.5, 60), 20) < 1e-6
    assert ecdf_p(rng.integers(4, 21, 60), 20) < 1e-3


def test_a_p_value_that_is_too_small_to_be_known_is_not_told_as_zero():
    assert [told_p(p) for p in (0.0, 1e-300, 2e-16, 0.563)] == ["below 1e-16"] * 2 + ["2e-16", "0.56"]
