"""From what is wrong with a run to its cure, in the output where it is seen; on with it by a button."""

import pytest
from helpers.pages.graph_page import Graph

GRAPH = "[...(globalThis.__gibbsiteDocuments ?? [])].filter(d => d.get_model_by_name('graph')).at(-1)"
MESSAGE = "doc.get_model_by_name('graph-message').text"
RUNS = "import gibbsite\ngibbsite.runs()"
LOAD = """
%load_ext gibbsite
import numpy as np
import pytest
y = np.array([28., 8, -3, 7, -1, 1, 18, 12]); s = np.array([15., 10, 16, 11, 9, 11, 10, 18])
"""
SCHOOLS = """
%%model schools(y, s)
mu ~ Normal(0, 5)
tau ~ HalfCauchy(5)
with plate("J", 8):
    theta ~ Normal(mu, tau)
    y ~ Normal(theta, s)
"""
CENTRED = (
    """fit = %sample schools -n 150 -w 200 -b --schedule "NUTS(centring='as written') [mu tau theta]" """
)


@pytest.mark.slow
def test_a_cure_is_tried_beside_the_run_compared_and_written_and_the_run_goes_on(lab):
    lab.write("cures.ipynb", LOAD, SCHOOLS, CENTRED, RUNS)
    lab.open("cures.ipynb")
    for index in range(3):
        lab.run_cell(index)
    lab.page.set_viewport_size({"width": 1400, "height": 2200})
    cure = lab.page.locator(".gb-cure").first
    cure.wait_for(timeout=120_000)
    assert "centring of theta" in cure.inner_text()
    cure.get_by_role("button", name="try it").click()
    cure.locator(".gb-trial table").wait_for(timeout=120_000)
    told = cure.inner_text()
    assert (
        "ESS/s" in told and "divergences" in told and ("same estimates" in told or "estimates differ" in told)
    )
    assert lab.python("print(fit.draws['mu'].shape, len(__import__('gibbsite').runs()))").startswith(
        "(4, 150)"
    )
    lab.shot("cure_tried")

    # The line goes to a cell of its own, in the notebook's names.
    cure.get_by_role("button", name="write it").click()
    lab.page.wait_for_selector(".gb-note:has-text('new cell')")
    cells = lab.page.evaluate(
        "() => [...jupyterapp.shell.currentWidget.context.model.cells].map(c => c.sharedModel.getSource())"
    )
    assert cells[3] == 'fit = %sample schools -n 150 -w 200 --schedule "NUTS [mu tau theta]"'
    assert cells[4] == RUNS

    # Both runs in the table: side by side, and in the same plots.
    lab.run_cell(4)
    lab.scroll_to(4)
    boxes = lab.page.locator(".gb-runs input")
    boxes.last.wait_for()
    assert "WARNING" not in lab.output_text(4)
    boxes.nth(-2).check()
    boxes.last.check()
    below = lab.page.locator(".gb-runs [aria-live]")
    lab.page.get_by_role("button", name="compare").click()
    below.locator("td", has_text="divergences").wait_for()
    lab.page.get_by_role("button", name="overlay").click()
    below.locator("svg").first.wait_for()
    assert "solid: fit" in below.inner_text() and below.locator("[stroke-dasharray]").count() >= 2
    lab.shot("runs_overlaid")
    lab.scroll_to(2)

    # The run itself goes on by a button; its cures are of what it is then.
    lab.page.locator(".gb-on").get_by_role("button", name="500 more").click()
    lab.page.wait_for_function(
        "() => /650 of 650 draws/.test(document.querySelector('.gb-dash .gb-progress')?.textContent ?? '')",
        timeout=60_000,
    )
    assert lab.python("print(fit.wait().draws['mu'].shape)").strip() == "(4, 650)"

    # What is chosen in the graph is used in the notebook, and given back.
    graph = Graph(lab.page, GRAPH)
    graph.click("theta")
    graph.press_button("make non-centred")
    graph.press_button("use it as schools")
    graph.until(f"{MESSAGE}.includes('in the notebook now')")
    assert lab.python("print('theta_decentered' in schools.sites)").strip() == "True"
    lab.shot("graph_used")
    graph.press_button("give schools back")
    graph.until(f"{MESSAGE}.includes('what it was before')")
    assert lab.python("print('theta_decentered' in schools.sites)").strip() == "False"
    lab.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    lab.page.set_viewport_size({"width": 600, "height": 1600})
    lab.page.wait_for_timeout(800)
    lab.shot("cures_dark_narrow")
    lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    lab.assert_quiet()
