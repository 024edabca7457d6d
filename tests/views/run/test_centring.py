"""Learnt degrees of centring, as a strip in dashboard, still picture and the graph's panel."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from gibbsite.views.graph.watch import draws_html
from gibbsite.views.run import centring
from gibbsite.views.run.content import gather
from gibbsite.views.run.picture import dashboard_svg
from gibbsite.views.run.status import told

DEGREES = np.array([0.0, 0.5, 1.0])


def cells(site, degrees):
    root = ElementTree.fromstring(centring.strip_svg(site, np.asarray(degrees)))
    found = [(r.findtext("title"), float(r.get("fill-opacity", "nan"))) for r in root.iter("rect")]
    return [cell for cell in found if cell[0] is not None]


def test_each_element_has_a_cell_that_is_fuller_the_more_it_is_centred():
    found = cells("theta", DEGREES)
    assert [title for title, _ in found] == ["theta[0]: 0.00", "theta[1]: 0.50", "theta[2]: 1.00"]
    shades = [shade for _, shade in found]
    assert 0 < shades[0] < shades[1] < shades[2] == 1
    assert cells("b<i>", [[0.2, 0.3]])[1][0] == "b<i>[0, 1]: 0.30"
    assert cells("one", 0.25)[0][0] == "one: 0.25"


def test_many_elements_share_cells_that_tell_their_range():
    found = cells("theta", np.linspace(0, 1, 1000))
    assert len(found) == 60
    assert found[0][0] == "theta[0] … theta[16]: 0.00 to 0.02" and str(found[-1][0]).endswith("to 1.00")


@pytest.fixture
def learning(run, monkeypatch):
    """A run whose NUTS has learnt the centring of mu; and of nothing that another block draws."""
    run.advance(300)
    shot = run.snapshot

    def learnt(limit=20):
        return replace(shot(limit), centring={"mu": DEGREES, "elsewhere": DEGREES})

    monkeypatch.setattr(run, "snapshot", learnt)
    return run


def test_dashboard_picture_and_panel_tell_it_in_words(learning):
    content = gather(learning, None)
    first, second = told(content, auto=True, slots=3)["blocks"]
    assert first["strips"] == []
    (strip,) = second["strips"]
    assert strip["words"] == "centring of mu: 0.00 to 1.00" and "mu[1]: 0.50" in strip["svg"]
    assert "as the model writes it" in strip["help"] and "non-centred" in strip["ends"]
    picture = dashboard_svg(content)
    assert "centring of mu: 0.00 to 1.00" in picture and "elsewhere" not in picture
    ElementTree.fromstring(picture)
    panel = draws_html(learning, "mu")
    assert re.search(r"<dt>centring of mu.*mu\[2\]: 1.00.*as written", panel)
    assert "centring" not in draws_html(learning, "w")
