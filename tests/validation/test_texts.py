"""What columns of texts are told about."""

import gibbsite as gb
import numpy as np
import pandas as pd
import pytest
from numpyro import plate, sample
from numpyro.distributions import Bernoulli, Beta, Normal


def groups(d):
    with plate("t", d.t):
        a = sample("a", Normal(0, 1))
    with plate("n", len(d)):
        sample("y", Normal(a[d.t], 1.0), obs=d.y)


NAMES = [f"n{i}" for i in range(50)]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([*NAMES[:47], "n1", "n2", "n3"], "47 different texts in 50 rows"),
        (["0.5", "0.7", "1.2", "n/a", "2"] * 10, r"pd.to_numeric\(d\['t'\], errors='coerce'\)"),
        (NAMES, ""),
        (list("abcde") * 10, ""),
        (["01", "02", "03", "04", "05"] * 10, ""),
        (["a", "b", "1", "2", "3"] * 10, r"pd.to_numeric"),
        (["a", "b", "c", "2", "3"] * 10, ""),
    ],
)
def test_texts_that_are_hardly_groups_are_told(texts, told):
    notes = gb.model(groups, pd.DataFrame({"t": texts, "y": np.arange(50.0)})).notes
    assert (len(notes) == 1 and pd.Series(notes).str.contains(told).all()) if told else notes == ()


def ill(d):
    p = sample("p", Beta(1, 1))
    with plate("n", len(d)):
        sample("s", Bernoulli(p), obs=d.s)


def test_which_of_two_texts_is_1_is_told_where_the_alphabet_says_so():
    """`p` was the probability of "healthy", and nobody said so."""
    found = [
        gb.model(ill, pd.DataFrame({"s": s})).notes
        for s in (
            ["diseased", "healthy"] * 5,
            ["no", "yes"] * 5,
            pd.Categorical(["healthy", "diseased"] * 5, ["healthy", "diseased"]),
            [0, 1] * 5,
        )
    ]
    assert len(found[0]) == 1 and "1 is 'healthy' and 0 is 'diseased'" in found[0][0]
    assert found[1:] == [(), (), ()]
