"""What a posterior view shows of draws, against closed forms."""

import numpy as np
import pytest
from arviz_base import rc_context
from gibbsite.errors import OptionError
from gibbsite.sampling.derived import interval
from gibbsite.sampling.derived.interval import Interval, chosen
from gibbsite.sampling.derived.marginals import Forest, Marginal, Strip, elements, marginal, with_prior
from scipy import stats

RNG = np.random.default_rng(11)
ETI = Interval(0.89, "eti")


def normal(chains=4, draws=3000):
    return RNG.normal(2.0, 0.5, (chains, draws))


def test_a_density_is_the_law_of_the_draws():
    found = marginal("mu", "mu", normal(), ETI)
    law = stats.norm(2.0, 0.5)
    assert not found.discrete and found.chains.shape == (4, found.x.size)
    # a kernel estimate of 12000 draws; its error is about n**-0.4 of the height, its bias is less
    assert np.abs(found.y - law.pdf(found.x)).max() < 0.06 * law.pdf(2.0)
    assert np.trapezoid(found.y, found.x) == pytest.approx(1, abs=0.02)
    se = 0.5 / np.sqrt(12000)
    assert found.mean == pytest.approx(2, abs=4 * se) and found.median == pytest.approx(2, abs=5 * se)
    low, high = law.interval(0.89)
    assert found.low == pytest.approx(low, abs=0.03) and found.high == pytest.approx(high, abs=0.03)


def test_heavy_tails_do_not_flatten_the_middle():
    found = marginal("c", "c", RNG.standard_cauchy((2, 5000)), ETI)
    at = np.abs(found.x) < 2
    assert at.sum() > 1 and found.x[-1] - found.x[0] < 2000
    assert np.isfinite(found.y).all() and found.y.max() > 0


def test_the_shortest_interval_of_a_skew_law_lies_left_of_the_equal_tailed_one():
    draws = RNG.exponential(size=(2, 8000))
    eti, hdi = (marginal("x", "x", draws, Interval(0.8, kind)) for kind in ("eti", "hdi"))
    assert hdi.low < 0.02 and hdi.high == pytest.approx(-np.log(0.2), abs=0.08)
    assert eti.low == pytest.approx(-np.log(0.9), abs=0.02) and eti.high == pytest.approx(
        -np.log(0.1), abs=0.1
    )


def test_bars_are_the_frequencies_of_values():
    draws = RNG.integers(2, 6, (3, 1000))
    found = marginal("tau", "tau", draws, ETI)
    assert found.discrete and found.x.tolist() == [2, 3, 4, 5] and found.wide == 1
    assert found.y.tolist() == [(draws == v).mean() for v in (2, 3, 4, 5)]
    assert found.chains[1].tolist() == [(draws[1] == v).mean() for v in (2, 3, 4, 5)]
    wide = marginal("n", "n", RNG.integers(0, 1000, (2, 500)), ETI)
    assert wide.x.size <= 60 and wide.y.sum() == pytest.approx(1)
    truth = marginal("p", "p", draws > 3, ETI)
    assert truth.x.tolist() == [0, 1] and truth.y[1] == pytest.approx((draws > 3).mean())


@pytest.mark.parametrize(
    "values", [np.zeros((2, 0)), np.zeros((2, 50)), np.full((2, 9), np.nan), np.ones((1, 1))]
)
def test_draws_without_a_density_have_none(values):
    found = marginal("x", "x", values, ETI)
    assert found.x.size == found.y.size and not np.any(found.y > 0)


def test_a_prior_is_drawn_at_its_own_height():
    found = with_prior(marginal("mu", "mu", normal(), ETI), RNG.normal(0, 3, 20_000))
    assert found.prior is not None
    assert found.prior == pytest.approx(stats.norm(0, 3).pdf(found.x), rel=0.25)
    flat = with_prior(marginal("mu", "mu", normal(), ETI), RNG.normal(0, 1000, 5000))
    assert flat.prior is not None and flat.prior.max() < 0.002


def test_arrays_are_rows_by_name_and_categories_are_probabilities():
    draws = RNG.normal(np.arange(3), 1, (2, 4000, 3))
    found = elements("theta", draws, ["a", "b", "c"], ETI)
    assert isinstance(found, Forest) and found.names == ("a", "b", "c")
    assert found.labels == ("theta[0]", "theta[1]", "theta[2]")
    assert found.mean == pytest.approx([0, 1, 2], abs=0.06)
    low, high = stats.norm(np.arange(3)).interval(0.89)
    assert found.low == pytest.approx(low, abs=0.1) and found.high == pytest.approx(high, abs=0.1)
    assert np.all(found.low < found.inner_low) and np.all(found.inner_high < found.high)
    z = RNG.choice(3, (2, 400, 5, 100), p=[0.2, 0.3, 0.5])
    strip = elements("z", z, [str(i) for i in range(500)], ETI)
    assert isinstance(strip, Strip) and strip.total == 500 and len(strip.names) == 300
    assert strip.categories.tolist() == [0, 1, 2]
    assert strip.shares.sum(axis=1) == pytest.approx(1)
    assert strip.shares.mean(axis=0) == pytest.approx([0.2, 0.3, 0.5], abs=0.01)
    assert strip.labels[-1] == "z[4, 99]" and strip.names[-1] == "499"
    many = elements("n", RNG.poisson(400, (2, 300, 4)), ["a", "b", "c", "d"], ETI)
    assert isinstance(many, Forest)


def test_the_interval_is_arviz_s_unless_it_was_chosen():
    assert chosen() == Interval(0.89, "eti")
    with rc_context({"stats.ci_prob": 0.5, "stats.ci_kind": "hdi"}):
        assert str(chosen()) == "50 % HDI"
        interval.choose(prob=0.95, kind="eti")
        assert chosen() == Interval(0.95, "eti")
        interval.choose()
        assert chosen().prob == 0.5
    for wrong in ({"prob": 89}, {"prob": 0}, {"kind": "cpi"}):
        with pytest.raises(OptionError):
            interval.choose(**wrong)
    assert isinstance(marginal("x", "x", normal(), chosen()), Marginal)
