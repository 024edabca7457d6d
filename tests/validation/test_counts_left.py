"""Counts from which observed ones are taken away: draws from the prior that the data rule out say nothing."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError

CAUGHT = np.array([6, 3, 1])


def removal(y, sign=1):
    """Animals are caught and kept: each time, fewer are left."""
    p = numpyro.sample("p", dist.Beta(1, 1))
    left = numpyro.sample("n", dist.Poisson(8.0))
    for t in range(3):
        numpyro.sample(f"y{t}", dist.Binomial(sign * left, p), obs=y[t])
        left = left - y[t]


def test_draws_that_other_data_rule_out_say_nothing_of_a_parameter():
    """Fewer than were caught before cannot be, whatever the prior says."""
    assert gb.model(removal, CAUGHT).conditional("p").kind == "conjugate"


def test_what_no_data_can_help_is_still_refused():
    with pytest.raises(ModelError, match="'total_count' of 'y0'"):
        gb.model(removal, CAUGHT, -1)
