"""One model and many data sets against a run of each alone."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import OptionError, UnknownNameError

RNG = np.random.default_rng(5)
HOW = {"draws": 60, "warmup": 60, "chains": 2}


def line(df):
    b = numpyro.sample("b", dist.Normal(0, 5))
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Poisson(numpyro.deterministic("rate", 1 + b**2 + 0 * df["x"])), obs=df["y"])


def table(n, store):
    return pd.DataFrame({"store": store, "x": RNG.normal(size=n), "y": RNG.poisson(3, n)})


def test_each_data_set_has_the_run_it_would_have_alone():
    parts = [table(12, "north"), table(12, "south"), table(9, "west")]
    model = gb.model(line, parts[0])
    found = model.many(pd.concat(parts), by="store", **HOW)
    assert list(found.runs) == ["north", "south", "west"]
    for part in parts:
        alone = gb.model(line, part).sample(**HOW)
        np.testing.assert_array_equal(found[part.store.iloc[0]].draws["b"], alone.draws["b"])
    assert set(found.verdicts) == {"north", "south", "west"}
    tree = found.to_datatree()
    assert tree["posterior"]["b"].dims == ("dataset", "chain", "draw")
    assert list(tree["posterior"]["dataset"].values) == ["north", "south", "west"]
    assert np.isnan(tree["posterior"]["rate"].sel(dataset="west").values[..., 9:]).all()
    np.testing.assert_array_equal(tree["posterior"]["b"].sel(dataset="south"), found["south"].draws["b"])

    bad = parts[1].assign(y=-1)
    some = model.many([{"df": parts[0]}, {"df": bad}, parts[2]], **HOW)
    assert list(some.runs) == [0, 2]
    assert "1 failed" in repr(some)
    with pytest.raises(type(some.failures[1])):
        some[1]
    with pytest.raises(UnknownNameError):
        model.many(parts[0], by="shop")
    with pytest.raises(OptionError):
        model.many(3)
