"""A mixture in a real JupyterLab: the graph answers the mouse, and the demo notebook runs to its end."""

import shutil
from pathlib import Path

import nbformat
from gibbsite_browser_lab import LOAD, MIXTURE

DEMOS = Path(__file__).parents[2] / "demo_notebooks"
CELLS = (LOAD, MIXTURE)
# The graph's document, and where a node is on the screen.
GRAPH = "[...(globalThis.__gibbsiteDocuments ?? [])].find(doc => doc.get_model_by_name('graph'))"
LIT = f"""() => {{
    const data = {GRAPH}.get_model_by_name('graph-nodes').data
    return [...data.name].filter((_, i) => data.lit[i])
}}"""
PLACE = f"""name => {{
    const doc = {GRAPH}
    const plot = doc.get_model_by_name('graph')
    const view = doc.views_manager.find_one(plot)
    const data = doc.get_model_by_name('graph-nodes').data
    const i = [...data.name].indexOf(name)
    const canvas = view.canvas_view.el.getBoundingClientRect()
    const {{x_scale, y_scale}} = view.frame
    return [canvas.x + x_scale.compute(data.x[i]), canvas.y + y_scale.compute(data.title_y[i])]
}}"""


def test_hover_lights_exactly_the_markov_blanket_and_a_click_explains(lab):
    lab.write("graph.ipynb", *CELLS)
    lab.open("graph.ipynb")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.page.wait_for_function(f"() => {GRAPH}")
    lab.page.wait_for_timeout(300)
    lab.shot("graph")
    blankets = eval(
        lab.python("print({n: sorted(mixture.graph.markov_blanket(n)) for n in mixture.graph.nodes})")
    )
    assert blankets["mu"] == ["x", "z"] and blankets["w"] == ["z"]
    for name, blanket in blankets.items():
        lab.page.mouse.move(*lab.page.evaluate(PLACE, name))
        lab.page.wait_for_function(
            f"want => JSON.stringify(({LIT})().sort()) === JSON.stringify(want)", arg=blanket
        )
    lab.page.mouse.move(*lab.page.evaluate(PLACE, "mu"))
    lab.page.wait_for_timeout(200)
    lab.shot("graph_hover")

    lab.page.mouse.click(*lab.page.evaluate(PLACE, "z"))
    lab.page.wait_for_function(f"() => {GRAPH}.get_model_by_name('graph-panel').text.includes('Categorical')")
    told = lab.page.evaluate(f"() => {GRAPH}.get_model_by_name('graph-panel').text")
    assert "finite" in told
    lab.shot("graph_clicked")
    lab.page.mouse.move(5, 500)
    lab.page.wait_for_function(f"() => ({LIT})().length === 0")
    lab.assert_quiet()


def test_demo_notebook_runs_from_top_to_bottom(lab):
    shutil.copy(DEMOS / "mixture.ipynb", lab.server.folder / "demo.ipynb")
    lab.page.set_viewport_size({"width": 1280, "height": 1600})
    lab.open("demo.ipynb")
    lab.command("runmenu:run-all")
    book = nbformat.read(DEMOS / "mixture.ipynb", as_version=4)
    last = max(i for i, cell in enumerate(book.cells) if cell.cell_type == "code")
    errors = (
        "() => window.jupyterapp.shell.currentWidget.content.widgets.flatMap("
        "w => w.model.outputs?.toJSON() ?? []).filter(o => o.output_type === 'error').map(o => o.evalue)"
    )
    lab.page.wait_for_function(
        f"i => ({errors})().length"
        " || window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount !== null",
        arg=last,
        timeout=300_000,
    )
    assert lab.page.evaluate(errors) == []
    sampled = next(i for i, cell in enumerate(book.cells) if "%sample" in cell.source)
    lab.scroll_to(sampled)
    lab.page.locator(".gb-pill:has-text('finished')").first.wait_for()
    lab.page.locator(".gb-pill:has-text('finished')").first.scroll_into_view_if_needed()
    lab.page.wait_for_timeout(500)
    lab.shot("demo")
    lab.assert_quiet()
