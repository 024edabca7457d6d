"""What a table calls its rows and categories, in the graph, in its panel and where elements are asked for."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError
from gibbsite.views.graph.change import apply
from gibbsite.views.graph.steps import told

DAYS = pd.date_range("2024-03-01", periods=4)
FRAME = pd.DataFrame(
    {"y": [0.5, np.nan, -1.0, 2.0], "county": list("BCAB"), "day": DAYS}, index=DAYS.rename("when")
)


def labelled(df):
    with numpyro.plate("county", 3):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Normal(a[df.county] + 0.1 * df.day, 1.0), obs=df.y)


@pytest.fixture(scope="module")
def model():
    return gb.model(labelled, FRAME, missing="impute")


def test_nodes_plates_and_panel_have_the_labels(model):
    graph = model.graph
    rows = tuple(f"2024-03-0{i}" for i in range(1, 5))
    assert {n: p.labels for n, p in graph.plates.items()} == {"county": ("A", "B", "C"), "row": rows}
    assert graph.nodes["df['county']"].elements == "A, B, C"
    assert graph.nodes["df['day']"].elements == "days since 2024-03-01"
    assert "(data: A, B, C)" in str(graph)
    panels = told(graph, model)
    assert panels["a"]["elements"] == "county: A, B, C"
    assert panels["df['county']"]["elements"] == "A, B, C"
    assert panels["y"]["elements"].startswith("row: 2024-03-01, ")


def test_elements_are_called_and_found_by_their_labels(model):
    assert model.element_name("a", [2]) == "a[C]"
    assert apply(model, "a", "element", "A").words == "a[A]: y[2024-03-03]"
    assert apply(model, "a", "element", "0").words == apply(model, "a", "element", "A").words
    with pytest.raises(DataError, match="a number or a list"):
        apply(model, "a", "element", "D")


def test_imputed_elements_are_called_as_their_rows(model):
    assert model.plan().labels["y_missing_dim_0"] == ("2024-03-02",)
    assert model.do(a=np.zeros(3)).plan().labels["y_missing_dim_0"] == ("2024-03-02",)
