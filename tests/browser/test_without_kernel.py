"""What is left when the kernel is gone: re-opened, converted, previewed; and how large the file is."""

import pytest
from helpers.pages.graph_page import shot
from helpers.pages.lab import prepare

FIGURE = """
from bokeh.plotting import figure
from gibbsite.views.host.bokeh import BokehWidget
from gibbsite.views.host.display import svg_html
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><text y="20">still here</text></svg>'
plot = figure(height=100, width=200, name="plot")
plot.line([1, 2], [3, 4])
BokehWidget(plot, static_html=lambda: svg_html(SVG, "a still picture", 300), text="two points").show()
"""
GRAPH = "from gibbsite.views import show_graph\nshow_graph(mixture)"
RUN = "run = %sample mixture --draws 400 --warmup 200 --chains 2"
CELLS = (FIGURE, GRAPH, RUN)
PICTURES = ("a still picture", "Dependency graph: 4 nodes", "finished")
# A notebook with a graph and a run; what it was before BokehJS was left out of it was 2.2 MB.
MOST_BYTES = 300_000


@pytest.mark.slow
def test_a_saved_notebook_is_small_and_shows_everything_without_its_kernel(lab):
    prepare(lab, "saved.ipynb", *CELLS)
    lab.page.set_viewport_size({"width": 1280, "height": 2200})
    for cell in range(len(CELLS)):
        lab.run_cell(cell)
    lab.page.wait_for_selector(".gb-pill:has-text('finished')")
    # while a view lives its twin is hidden, though it is drawn anew
    shown = "() => [...document.querySelectorAll('.gibbsite-static')].filter(t => t.offsetParent).length"
    lab.page.wait_for_function(
        f"() => document.querySelectorAll('.gb-view .bk-Canvas, .gb-dash').length && !({shown})()"
    )
    # the last picture comes when the cell has been given back
    lab.page.wait_for_function(
        "() => [...document.querySelectorAll('.gibbsite-static')].some(t => t.innerHTML.includes('finished'))"
    )
    lab.save()
    lab.assert_quiet()
    size = (lab.server.folder / "saved.ipynb").stat().st_size
    assert size < MOST_BYTES, size
    for cell, words in zip(lab.read("saved.ipynb").cells, PICTURES, strict=True):
        data = [o.data for o in cell.outputs if "data" in o]
        assert sum("gibbsite-svg" in d.get("text/html", "") for d in data) == 1
        assert sum(words in d.get("text/html", "") for d in data) == 1
        assert data[0]["text/plain"] == "" and data[-1]["text/plain"]  # words stand with the picture alone

    lab.shut_down()
    lab.reload()
    for cell, words in enumerate(PICTURES):
        lab.scroll_to(cell)
        lab.picture(words)
    lab.page.wait_for_timeout(1000)  # JupyterLab looks for the widget's model a while
    assert not any(line.is_visible() for line in lab.page.locator("text=model not found").all())
    lab.shot("reopened")

    address = lab.converted("saved.ipynb")
    lab.page.goto(address)
    for words in PICTURES:
        lab.picture(words)
    # As a code-hosting site previews it: no script runs.
    context = lab.page.context.browser.new_context(java_script_enabled=False)
    preview = context.new_page()
    preview.goto(address)
    image = preview.locator("img.gibbsite-svg[alt*='Dependency graph: 4 nodes']").last
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    assert box is not None and box["width"] > 250 and box["height"] > 250
    shot(preview, "graph_preview")
    context.close()
