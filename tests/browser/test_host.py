"""The hosting layer in a real JupyterLab: offline, live, back after a reload, never blank."""

FIGURE = """
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure
from gibbsite.views.host.bokeh import BokehWidget
from gibbsite.views.host.display import svg_html
source = ColumnDataSource({"x": [], "y": []}, name="points")
plot = figure(height=200, width=400, name="plot", title="before")
plot.line("x", "y", source=source)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><text y="20">still here</text></svg>'
view = BokehWidget(plot, static_html=lambda: svg_html(SVG, "a still picture", 300), text="three points")
heard = []
view.on("poke", heard.append)
view.show()
"""
# Documents that the page shows now: titles and columns, read through BokehJS.
SEEN = """() => [...(globalThis.__gibbsiteDocuments ?? [])].map(doc => {
    const y = doc.get_model_by_name('points')?.data.y ?? []
    return {title: doc.roots()[0].title?.text, y: [...y]}
})"""


def test_offline_streaming_reload_and_reopen(lab):
    lab.write("host.ipynb", FIGURE, "view")
    lab.open("host.ipynb")
    lab.run_cell(0)
    lab.page.wait_for_selector(".bk-Canvas", state="attached")
    lab.page.wait_for_function("() => getComputedStyle(document.querySelector('.gibbsite-static')"
                               ".closest('.jp-OutputArea-child')).display === 'none'")  # fmt: skip
    lab.python("view.push('points', x=[1, 2, 3], y=[4., 5., 6.]); view.patch('plot', outline_line_width=3)")
    lab.page.wait_for_function(f"() => ({SEEN})()[0]?.y.length === 3")
    assert lab.page.evaluate(SEEN)[0]["y"] == [4, 5, 6]

    # A second view of the same widget starts from the newest state.
    lab.run_cell(1)
    lab.page.wait_for_function(f"() => ({SEEN})().length === 2 && ({SEEN})()[1].y.length === 3")

    # The browser speaks to Python.
    lab.page.evaluate("() => [...__gibbsiteDocuments][0].gibbsite('poke', {node: 'mu'})")
    for _ in range(50):
        if lab.python("print(heard)").strip() != "[]":
            break
        lab.page.wait_for_timeout(100)
    assert lab.python("print(heard)").strip() == "[{'kind': 'poke', 'node': 'mu'}]"

    # A reloaded page sees the newest state, and further updates.
    lab.save()
    lab.python("view.push('points', x=[1, 2, 3, 4], y=[4., 5., 6., 7.])")
    lab.reload()
    lab.page.wait_for_function(f"() => ({SEEN})()[0]?.y.length === 4")
    lab.python("view.push('points', x=[1], y=[9.])")
    lab.page.wait_for_function(f"() => ({SEEN})()[0]?.y[0] === 9")
    lab.shot("host")
    lab.assert_quiet()
