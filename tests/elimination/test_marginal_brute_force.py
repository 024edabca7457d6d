"""Every marginal against the sum over all joint values, in double precision: density, gradient,
probabilities, best values and draws."""

import pytest
from gibbsite.elimination.steps import chain_step
from helpers.models.elimination import MODELS, MORE
from helpers.models.zoo import ZOO
from helpers.truths.marginals import check_marginal, eliminated

CASES = {**ZOO, **MODELS, **MORE}
# one per way of eliminating and of writing; the others run in the slow suite
CORE = (
    "hmm_factorial edges repeated_parent capture_recapture coupled_chains second_order_max"
    " group_over_elements parity masked_pairs"
    " ring skip_chain plates_in_plates gated_parents zero_inflated_regression long_votes"
    " ordered_labels past_a_threshold ragged_mixture ragged_chains xor_rows one_hot_rows seating two_cuts"
    " missing_covariate own_experts"
).split()
SLOW = [n for n in CASES if n not in CORE]


@pytest.mark.share(25)
@pytest.mark.parametrize("name", CORE)
def test_marginal_is_the_sum_over_all_values(name):
    assert check_marginal(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_other_marginals_are_the_sums_over_all_values(name):
    if not check_marginal(CASES[name]):
        pytest.skip("too many joint values to list")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plate_of_chains", "potts_grid"])
def test_strips_are_filtered_exactly(name, monkeypatch):
    """As long strips are: by rows together, column after column."""
    monkeypatch.setattr(chain_step, "_FEWEST_COLUMNS", 3)
    assert "2 rows at a time" in str(eliminated(CASES[name])[1])
    assert check_marginal(CASES[name])
