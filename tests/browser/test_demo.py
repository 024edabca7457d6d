"""The demo notebook runs to its end in a real JupyterLab."""

import shutil
from pathlib import Path

import nbformat

DEMOS = Path(__file__).parents[2] / "demo_notebooks"


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
