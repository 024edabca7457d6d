"""What rank and autocorrelation plots are made of."""

import numpy as np
from gibbsite.diagnostics.measures import series
from gibbsite.diagnostics.measures.thinned import Thinned


def test_ranks_are_level_for_equal_chains_and_total_is_kept():
    x = np.random.default_rng(0).normal(size=(4, 2000))
    counts = series.rank_counts(x)
    assert counts.shape == (4, 20) and counts.sum() == x.size
    # 100 expected in each; binomial, so 5 standard deviations are 50.
    assert np.abs(counts - 100).max() < 50


def test_ranks_show_a_chain_apart():
    x = np.random.default_rng(0).normal(size=(2, 1000))
    x[1] += 10
    counts = series.rank_counts(x)
    assert counts[0, 10:].sum() == 0 and counts[1, :10].sum() == 0


def test_ties_do_not_look_like_disagreement():
    x = np.random.default_rng(0).integers(0, 2, size=(4, 2000))
    assert np.abs(series.rank_counts(x) - 100).max() < 50


def test_autocorrelation_of_ar1():
    rng, rho, n = np.random.default_rng(0), 0.9, 8000
    noise = rng.normal(size=(3, n)) * np.sqrt(1 - rho**2)
    x = np.zeros((3, n))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    found = series.autocorrelation(x, 20)
    # Bartlett: the standard error is at most sqrt((1 + rho²) / (1 - rho²) / n), 0.035 here.
    assert np.abs(found - rho ** np.arange(21)).max() < 4 * 0.035
    assert np.allclose(found[:, 0], 1)


def test_autocorrelation_matches_the_definition():
    x = np.random.default_rng(1).normal(size=(2, 100))
    centred = x - x.mean(axis=1, keepdims=True)
    direct = [[c[lag:] @ c[: 100 - lag] / (c @ c) for lag in range(41)] for c in centred]
    assert np.allclose(series.autocorrelation(x), direct)


def test_autocorrelation_of_stuck_or_broken_chains_is_nan():
    x = np.random.default_rng(2).normal(size=(3, 50))
    x[1] = 0.1
    x[2, 7] = np.nan
    found = series.autocorrelation(x)
    assert np.isfinite(found[0]).all() and np.isnan(found[1:]).all()
    assert series.autocorrelation(x[:, :1]).shape == (3, 1)


def test_few_of_a_series():
    assert series.evenly(np.array([3, 7])).tolist() == [3, 7]
    some = series.evenly(np.arange(999))
    assert some.size <= 200 and (some[0], some[-1]) == (0, 998)
    assert series.evenly(np.zeros(0, int)).size == 0


def test_a_site_without_elements_is_thinned_as_any_other():
    """An imputation of nothing: no outcome is missing."""
    kept = Thinned(10)
    for _ in range(7):
        kept.add(np.zeros((4, 9, 0)))
    assert kept.steps == 63
