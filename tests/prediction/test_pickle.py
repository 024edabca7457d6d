"""Results can be put aside: what they hold without a model comes back, and what needs one says so."""

import copy
import pickle

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import GibbsiteError, ModelError

RNG = np.random.default_rng(0)
DATA = pd.DataFrame({"x": RNG.normal(size=12), "y": RNG.normal(size=12)})


def line(df):
    b = numpyro.sample("b", dist.Normal(0, 1))
    c = numpyro.sample("c", dist.Bernoulli(0.5))
    with numpyro.plate("rows", len(df)):
        numpyro.sample("y", dist.Normal(b * df.x + c, 1), obs=df.y)


@pytest.fixture(scope="module")
def run():
    return gb.model(line, DATA).sample(draws=50, warmup=50, chains=2, seed=0)


def again(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.share(2)
@pytest.mark.parametrize("aside", [again, copy.deepcopy], ids=["pickled", "copied"])
def test_predictions_and_what_is_made_of_them(run, aside):
    p = run.predict(DATA.assign(x=1.0)[:3])
    p.derive("most = max(y)")
    p.derive("y[0] > 0")
    found = aside(p)
    assert repr(found) == repr(p)
    np.testing.assert_array_equal(found.expected["y"], p.expected["y"])
    assert found.derived.keys() == p.derived.keys()
    np.testing.assert_array_equal(found.derived["most"].values, p.derived["most"].values)
    pd.testing.assert_frame_equal(found.to_frame(), p.to_frame())
    effects = run.effects("x", [0.0, 1.0])
    np.testing.assert_array_equal(aside(effects).draws, effects.draws)
    contrast = gb.contrast(run.predict(do={"x": 1.0}), run.predict(do={"x": 0.0}))
    assert repr(aside(contrast)) == repr(contrast)


def test_a_summary_is_printed_as_before(run):
    found = again(run.summary())
    assert repr(found) == repr(run.summary())
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(run.summary()))


def test_a_graph_knows_its_contexts_only_beside_its_model(run):
    graph = run.model.graph
    found = again(graph)
    assert str(found) == str(graph)
    assert found.independent("b", "c") == graph.independent("b", "c")
    assert copy.deepcopy(graph).independent("b", "y", given={"c": 0}) == graph.independent(
        "b", "y", given={"c": 0}
    )
    with pytest.raises(ModelError, match=r"at values of c is computed from the model"):
        found.independent("b", "y", given={"c": 0})


def test_a_schedule_is_kept_by_its_text(run):
    with pytest.raises(GibbsiteError, match=r"a Schedule cannot be pickled: keep its `text`"):
        pickle.dumps(run.model.schedule())
