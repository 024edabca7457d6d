"""A cell that runs again in a real JupyterLab: its new output lives, the old one is let go of."""

import pytest
from helpers.pages.lab import prepare

# Counted among ipywidgets' own: `gc.get_objects` takes hold of tuples that other threads are still building,
# and these then fail with SystemError.
HELD = """
from ipywidgets.widgets import widget
from gibbsite.views.run_dashboard import DashboardWidget
from gibbsite.views.graph.widget import GraphWidget
live = list(widget._instances.values())
print(sum(isinstance(w, DashboardWidget) for w in live), sum(isinstance(w, GraphWidget) for w in live))
"""


@pytest.mark.slow
def test_a_cell_that_runs_again_shows_its_new_output_and_keeps_no_old_one(lab):
    prepare(lab, "again.ipynb", "%graph mixture\nrun = %sample mixture -n 200 -w 100 -c 2", "1 + 1")
    lab.run_cell(0)
    lab.page.locator(".gb-dash .gb-pill").wait_for()
    said = lab.python(HELD)
    assert len(said.split()) == 2, said
    dashboards, graphs = map(int, said.split())
    for _ in range(2):
        lab.run_cell(0)
        lab.run_cell(1)  # its prompt has a number: the one before it has ended
    lab.page.wait_for_function("() => document.querySelectorAll('.gb-dash .gb-pill').length === 1")
    assert list(map(int, lab.python(HELD).split())) == [dashboards, graphs]
    lab.page.locator(".gb-tab[data-view=convergence]").click()  # it answers
    lab.shot("again")
    assert "model not found" not in lab.page.content()
    lab.assert_quiet()
